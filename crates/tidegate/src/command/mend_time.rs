//! `tidegate mend-time`: sets the time of a stopped ledger, after the clock of its host had been wrong.

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow, bail};
use tidegate_doors::http::time::rfc3339;
use tidegate_journal::LocalLogs;
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_ledger::limits::DAY_MS;
use tidegate_ledger::mend::mend_time;
use tidegate_ledger::{LEDGER, LedgerFamily};
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::MEMO_BYTES_MAX;
use tidegate_shard::Snapshots;

use crate::output::say;

/// Writes the record into every shard of the ledger and says what it did.
pub fn run(data: &Path, to: NewTime, reason: &str, is_meant: bool) -> Result<ExitCode> {
    if reason.len() > MEMO_BYTES_MAX {
        bail!("--reason has {} bytes; at most {MEMO_BYTES_MAX} are kept", reason.len());
    }
    let directory = Directory::open_to_write(data, &[LEDGER])?;
    let logs = LocalLogs::new(RealDisk, data, &[LEDGER]);
    let (time, wall) = (to.resolve(), NewTime::Now.resolve());
    if time.0.abs_diff(wall.0) > DAY_MS && !is_meant {
        let (asked, now) = (rfc3339(time.0 / 1_000), rfc3339(wall.0 / 1_000));
        bail!("--to is {asked}, and this host says {now}: times are in milliseconds; give --yes if it is meant");
    }
    for log in directory.logs(LEDGER) {
        let snapshots = Snapshots::<LedgerFamily, _>::new(RealDisk, data, log);
        let mended = mend_time(&logs, snapshots, directory.shards(LEDGER), time, reason)
            .map_err(|error| anyhow!("ledger shard {}: {error}", log.shard))?;
        say(format_args!(
            "ledger shard {}: its time was {}, now it is {}; {} open holds keep the time that was left to them",
            log.shard,
            rfc3339(mended.was.0 / 1_000),
            rfc3339(mended.time.0 / 1_000),
            mended.holds
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// What the time is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewTime {
    /// What the clock of this host says.
    Now,
    /// This time.
    At(TimeMs),
}

impl NewTime {
    /// Reads `now`, or milliseconds since the Unix epoch.
    pub fn parse(text: &str) -> Result<NewTime, String> {
        match text {
            "now" => Ok(NewTime::Now),
            number => match number.parse() {
                Ok(ms) if ms <= TimeMs::MAX.0 => Ok(NewTime::At(TimeMs(ms))),
                _ => Err("expected now, or milliseconds since the Unix epoch, such as 1795000000000".into()),
            },
        }
    }

    fn resolve(self) -> TimeMs {
        let wall = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        match self {
            NewTime::Now => TimeMs(wall()),
            NewTime::At(time) => time,
        }
    }
}

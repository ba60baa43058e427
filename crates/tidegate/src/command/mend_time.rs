//! `tidegate mend-time`: sets the time of a stopped ledger, after the clock of its host had been wrong.
//!
//! ```text
//!   ledger shards   ─▶ a record: open holds keep the time that was left to them
//!   all other logs  ─▶ nothing is written; what is over by the clock of this host ends at the next start: named first;
//!                      those whose records are ahead of that clock are named, with what becomes of that
//! ```
//!
//! Promise: what ends by the clock of this host is not called kept. Why a time behind that clock is asked about: the
//! next start follows the clock at once, and all that lies between the two is taken from what was left to a hold.
//!
//! Why the others are looked at: who says that a clock is right says it for all that the next start ends by it.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow, bail};
use tidegate_backup::parse_moment;
use tidegate_doors::http::time::rfc3339;
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Family, LocalLogs, LogId, Options};
use tidegate_ledger::limits::{DAY_MS, MEND_BEHIND_MS_MAX};
use tidegate_ledger::mend::{Mended, mend_time};
use tidegate_ledger::{LEDGER, LedgerFamily};
use tidegate_machines::ledger::MEMO_BYTES_MAX;
use tidegate_machines::{Machine, TimeMs};
use tidegate_runtime::start_clock::Over;
use tidegate_shard::loss::{examine, fold_to_end};
use tidegate_shard::{ShardFamily, Snapshots};

use super::audit::snapshots;
use super::reason::check_reason;
use super::wrong_bytes::WrongBytes;
use crate::extension::{Extension, KnownFamily};
use crate::output::{complain, say};

/// A record that is ahead of the clock by more than this is named, as at a start.
const AHEAD_SAID_MS_MIN: u64 = 60_000;

/// Writes the record into every shard of the ledger and says what it did.
pub fn run<P>(
    data: &Path,
    to: NewTime,
    reason: &str,
    is_meant: bool,
    extensions: &[&dyn Extension<P>],
) -> Result<ExitCode> {
    check_reason(reason, MEMO_BYTES_MAX)?;
    let known = KnownFamily::all(extensions);
    let families: Vec<Family> = known.iter().map(|known| known.family).collect();
    let directory = Directory::open_to_write(data, &families)?;
    let wrong = WrongBytes::default();
    let logs = LocalLogs::new(RealDisk, data, &families).mending(wrong.reading());
    let (time, wall) = (to.resolve(), NewTime::Now.resolve());
    if !is_meant {
        check_is_near(time, wall)?;
    }
    let others = known.iter().filter(|known| known.family != LEDGER);
    let found: Vec<OverInLog> = others.flat_map(|known| (known.over)(data, &directory, &logs, wall)).collect();
    found.iter().for_each(|found| say(format_args!("{found}")));
    if found.iter().any(OverInLog::is_asked_about) && !is_meant {
        let now = rfc3339(wall.0 / 1_000);
        complain(format_args!(
            "nothing was changed. By the clock of this host, {now}, the above is over: it ends when the server is \
             started, or falls due, and does not come back. If the clock is wrong, correct it; if it is right, give \
             --yes. Open holds of the ledger keep the time that was left to them"
        ));
        return Ok(ExitCode::from(2));
    }
    let logs = logs.mending(wrong.writing());
    for log in directory.logs(LEDGER) {
        let snapshots = Snapshots::<LedgerFamily, _>::new(RealDisk, data, log);
        let shards = directory.shards(LEDGER);
        let mended = mend_time(&logs, snapshots, shards, Options::default(), (time, wall), reason)
            .map_err(|error| anyhow!("ledger shard {}: {error}", log.shard))?;
        say(format_args!(
            "ledger shard {}: its time was {}, now it is {}; {}",
            log.shard,
            rfc3339(mended.was.0 / 1_000),
            rfc3339(mended.time.0 / 1_000),
            holds_said(&mended, wall)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Err for a time so far from `wall`, the clock of this host, that it is perhaps not meant.
fn check_is_near(time: TimeMs, wall: TimeMs) -> Result<()> {
    let (asked, now) = (rfc3339(time.0 / 1_000), rfc3339(wall.0 / 1_000));
    let behind_ms = wall.0.saturating_sub(time.0);
    if behind_ms > MEND_BEHIND_MS_MAX {
        bail!(
            "--to is {asked}, and this host says {now}: the next start follows the clock of this host, so open holds \
             would lose the {} s between the two, and those that have less left would end at once. If the clock is \
             wrong, correct it first; if it is right, give --to now. Nothing was changed; --yes if it is meant (a \
             number is milliseconds)",
            behind_ms / 1_000
        );
    }
    if time.0.saturating_sub(wall.0) > DAY_MS {
        bail!("--to is {asked}, and this host says {now}: a number is milliseconds; give --yes if it is meant");
    }
    Ok(())
}

/// What becomes of open holds when the next start follows `wall`, the clock of this host.
fn holds_said(mended: &Mended, wall: TimeMs) -> String {
    let Mended { time, holds, over, .. } = mended;
    let behind_ms = wall.0.saturating_sub(time.0);
    match behind_ms > MEND_BEHIND_MS_MAX {
        true => format!(
            "this is {} s behind the clock of this host, which the next start follows: of {holds} open holds, {over} \
             end then, and the others lose as much of what was left to them",
            behind_ms / 1_000
        ),
        false => {
            format!("{holds} open holds keep the time that was left to them, which passes also while no server runs")
        }
    }
}

/// How a log that keeps its times stands to the clock of this host, or why that cannot be said.
pub struct OverInLog {
    family: &'static str,
    log: LogId,
    stands: Result<Stands, String>,
}

/// How a log stands to the clock of this host.
struct Stands {
    /// What is over by it.
    over: Over,
    /// By how many seconds its newest record is ahead of it: none, unless that is worth a word.
    ahead_s: u64,
}

impl OverInLog {
    /// Whether the next start ends something, or may.
    fn is_asked_about(&self) -> bool {
        self.stands.as_ref().map_or(true, |stands| !stands.over.is_empty())
    }

    fn is_worth_a_word(&self) -> bool {
        self.is_asked_about() || self.stands.as_ref().is_ok_and(|stands| stands.ahead_s > 0)
    }
}

impl fmt::Display for OverInLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OverInLog { family, log, stands } = self;
        match stands {
            Ok(Stands { ahead_s, .. }) if *ahead_s > 0 => write!(
                f,
                "{family} shard {}: its newest record is {ahead_s} s ahead of the clock of this host. Its time is not \
                 set: the next start goes on from that record and makes up for 1 ms in 20. What is to last for a time \
                 does; what got its time by the clock that was ahead keeps it until somebody changes it",
                log.shard
            ),
            Ok(Stands { over, .. }) => {
                write!(f, "{family} shard {}: over by the clock of this host: {over}", log.shard)
            }
            Err(why) => write!(f, "{family} shard {}: what is over by the clock cannot be said: {why}", log.shard),
        }
    }
}

/// What a start by a clock that says `wall` would end in the logs of a family, and which are ahead of it; nothing of
/// others. Changes no file.
pub fn over_of<F: ShardFamily>(
    data: &Path,
    directory: &Directory,
    logs: &LocalLogs<RealDisk>,
    wall: TimeMs,
) -> Vec<OverInLog> {
    let stands_in = |log: LogId| -> Result<Stands> {
        let snapshots = snapshots::<F>(data, log);
        let examined = examine(logs, &snapshots, &[])?;
        let state = fold_to_end(logs, &snapshots, directory.shards(F::FAMILY), &examined)?;
        let ahead_ms = state.newest_known().0.saturating_sub(wall.0);
        let ahead_s = if ahead_ms > AHEAD_SAID_MS_MIN { ahead_ms / 1_000 } else { 0 };
        Ok(Stands { over: Over::by_start(&state, wall), ahead_s })
    };
    let each = directory.logs(F::FAMILY).map(|log| {
        let stands = stands_in(log).map_err(|error| error.to_string());
        OverInLog { family: F::FAMILY.name, log, stands }
    });
    each.filter(OverInLog::is_worth_a_word).collect()
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
    /// Reads `now`, a time in UTC as messages show it, or milliseconds since the Unix epoch. A day alone is none: its
    /// beginning is up to a day before what is meant.
    pub fn parse(text: &str) -> Result<NewTime, String> {
        let moment = || parse_moment(text).filter(|_| text.contains('T'));
        let ms = text.parse().ok().or_else(|| moment().map(|moment| moment.0));
        match (text, ms) {
            ("now", _) => Ok(NewTime::Now),
            (_, Some(ms)) if ms <= TimeMs::MAX.0 => Ok(NewTime::At(TimeMs(ms))),
            _ => Err("expected now, a time in UTC such as 2026-11-22T04:50:12Z, or milliseconds since the Unix epoch \
                      such as 1795000000000"
                .into()),
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

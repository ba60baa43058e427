//! What can be done with the pacer's files.
//!
//! `tidegate pacer replay`: why a campaign did or did not bid at a time, from the record of decisions. It reads files
//! alone, of a server that runs or does not, and of a copy of its directory.
//!
//! `tidegate pacer accept-ledger`: lets the pacer of a stopped server go on with another ledger than before.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Subcommand;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use tidegate_journal::directory::Directory;
use tidegate_machines::TimeMs;
use tidegate_pacer::decisions::{Question, Record, Recorded, read_folder, read_records, replay};
use tidegate_pacer::family::CAMPAIGNS;
use tidegate_pacer::room::decisions_of;
use tidegate_pacer::zone;

use super::number::whole;
use crate::output::{complain, say};
use crate::pacing::{Receipt, read_receipt, receipt_file};

/// What can be asked of the pacer's files.
#[derive(Subcommand)]
pub enum Pacer {
    /// Say why a campaign did or did not bid at a time: the plan and the throttle in force, with what the strategy was
    /// told; what was asked for, and the reasons without a bid; leases that were granted or refused; and the requests
    /// that were sampled. Each throttle and each sampled request is decided again. Exit 0 only if there is a record of
    /// that time, all of it can be read, and all of it is decided as it was.
    Replay {
        /// Data directory, of a server that runs or does not.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Id of the campaign.
        #[arg(long, value_name = "ID")]
        campaign: String,
        /// Time of the day, 20:15 or 20:15:30.
        #[arg(long, value_name = "TIME")]
        at: Time,
        /// Its date, 2026-11-28; without it, the last day on which there is a record of that time.
        #[arg(long, value_name = "DATE")]
        date: Option<Date>,
        /// Seconds before and after that are shown.
        #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = whole::<u64>(1..=86_400, "seconds"))]
        range_s: u64,
        /// Zone of the time, such as UTC; without it, that of the campaign's plan.
        #[arg(long, value_name = "ZONE")]
        zone: Option<String>,
    },
    /// Let the pacer of a stopped server go on with another ledger than before, or an older state of it, as the log
    /// said: it forgets by what it knew the one before. Exit 0 if there is nothing (any more) to forget, 2 if there is
    /// and --yes was not said.
    AcceptLedger {
        /// Data directory of the pacer's server.
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// Forget it. What the ledger before has, it keeps: money that it holds for this pacer is free again in 30
        /// days, or when its holds are voided there, and what was won of it is not paid anywhere.
        #[arg(long)]
        yes: bool,
    },
}

/// Does what is asked.
pub fn run(what: Pacer) -> Result<ExitCode> {
    match what {
        Pacer::Replay { data, campaign, at, date, range_s, zone } => {
            replay_decisions(&data, &campaign, (at, date), range_s, zone)
        }
        Pacer::AcceptLedger { data, yes } => accept_ledger(&data, yes),
    }
}

fn accept_ledger(data: &Path, yes: bool) -> Result<ExitCode> {
    // Nobody serves it meanwhile: a server knows the ledger by what it has read.
    let _directory = Directory::open_to_mend(data, &[CAMPAIGNS])?;
    let file = receipt_file(data);
    let known = match read_receipt(&file) {
        Ok(None) => {
            say(format_args!("nothing is known of a ledger before: the next start takes the one that it finds"));
            return Ok(ExitCode::SUCCESS);
        }
        Ok(Some(Receipt { hold, ended })) => format!("it has hold {hold} of this pacer, which was {ended}"),
        Err(error) => format!("{}: {error}", file.display()),
    };
    say(format_args!("the ledger before: {known}"));
    if !yes {
        complain(format_args!(
            "nothing was changed. With --yes this is forgotten, and the next start takes the ledger that it finds. \
             What the ledger before holds for this pacer it holds for 30 days, or until the holds are voided there, \
             and what was won of it is not paid"
        ));
        return Ok(ExitCode::from(2));
    }
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    say(format_args!("forgotten: the next start takes the ledger that it finds"));
    Ok(ExitCode::SUCCESS)
}

fn replay_decisions(
    data: &Path,
    campaign: &str,
    (at, date): (Time, Option<Date>),
    range_s: u64,
    zone: Option<String>,
) -> Result<ExitCode> {
    let folder = decisions_of(data);
    let files = read_folder(&folder)?;
    if files.is_empty() {
        bail!(
            "{} has no record of decisions: a pacer makes one when requests or plans come, unless \
             pacing.decisions_bytes_max is 0. Is this the right data directory?",
            folder.display()
        );
    }
    let of_plan = zone_of(&files, campaign)?.ok_or_else(|| {
        anyhow!(
            "the record in {} knows no campaign {campaign:?}: nobody has asked for it, or it is too old",
            folder.display()
        )
    })?;
    let zone = match zone {
        None => of_plan,
        Some(name) => zone::find(&name).with_context(|| format!("--zone {name:?}: no zone of the tz database"))?,
    };
    let last = last_time(&files)?;
    let at = time_of((at, date), &zone, last)?;
    let question = Question { id: campaign.into(), at, range_ms: range_s * 1_000, zone };
    let Read { records, is_whole } = records(&files, &question)?;
    let replayed = replay(records.into_iter(), &question);
    say(format_args!("{}", replayed.text.trim_end()));
    if replayed.records == 0
        && let Some((first, last)) = told(files[0].0, &question.zone).zip(told(last, &question.zone))
    {
        complain(format_args!("the record reaches from {first} to {last}"));
    }
    let is_good = replayed.records > 0 && replayed.different == 0 && is_whole;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What of the end of a file nobody can read.
#[derive(Default)]
struct Unread {
    bytes: usize,
    /// It is the beginning of a record, as a kill leaves it: nothing is missing that was ever whole.
    is_torn: bool,
}

/// Calls `each` for the records of a file.
fn read(path: &Path, each: impl FnMut(Record)) -> Result<Unread> {
    let cannot = || format!("cannot read {}", path.display());
    let bytes = match fs::metadata(path) {
        // To read a pipe would wait for ever.
        Ok(of) if !of.is_file() => bail!("{} is no file: move it elsewhere", path.display()),
        Ok(_) => fs::read(path),
        Err(error) => Err(error),
    };
    let bytes = match bytes {
        Ok(bytes) => bytes,
        // The oldest file is deleted while the server runs.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Unread::default()),
        Err(error) => return Err(error).with_context(cannot),
    };
    let Some(mut records) = read_records(&bytes) else {
        return Ok(Unread { bytes: bytes.len(), is_torn: false });
    };
    records.by_ref().for_each(each);
    Ok(Unread { bytes: records.unread_bytes(), is_torn: records.is_torn() })
}

/// The zone of a campaign's newest plan.
fn zone_of(files: &[(TimeMs, PathBuf)], campaign: &str) -> Result<Option<TimeZone>> {
    for (_, path) in files.iter().rev() {
        let mut newest = None;
        read(path, |record| match record.what {
            Recorded::Plan { id, plan, .. } if *id == *campaign => newest = Some(plan.zone),
            _ => {}
        })?;
        if let Some(name) = newest {
            return Ok(Some(zone::find(&name).unwrap_or(TimeZone::UTC)));
        }
    }
    Ok(None)
}

/// The time of the newest record.
fn last_time(files: &[(TimeMs, PathBuf)]) -> Result<TimeMs> {
    let (begins, path) = files.last().expect("there is one");
    let mut last = *begins;
    read(path, |record| last = last.max(record.at))?;
    Ok(last)
}

/// A time as a person reads it, if it can be told.
fn told(at: TimeMs, zone: &TimeZone) -> Option<String> {
    let at = jiff::Timestamp::from_millisecond(at.0.try_into().ok()?).ok()?;
    Some(at.to_zoned(zone.clone()).strftime("%F %T %Z").to_string())
}

/// A time of the day, on a date, or on the last day whose time is not behind `last`.
fn time_of((at, date): (Time, Option<Date>), zone: &TimeZone, last: TimeMs) -> Result<TimeMs> {
    let on = |date: Date| -> Result<TimeMs> {
        let at = date.to_datetime(at).to_zoned(zone.clone()).context("--at: this time cannot be told")?;
        Ok(TimeMs(u64::try_from(at.timestamp().as_millisecond()).context("--date: a time before 1970")?))
    };
    if let Some(date) = date {
        return on(date);
    }
    let last_ms = i64::try_from(last.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let today = last_ms.context("the newest record has no time that can be told; give --date")?.to_zoned(zone.clone());
    // Records may be some seconds behind.
    match on(today.date())? {
        at if at.0 <= last.0.saturating_add(60_000) => Ok(at),
        _ => on(today.date().yesterday().context("--at: this time cannot be told")?),
    }
}

/// What was read.
struct Read {
    records: Vec<Record>,
    /// No file is damaged.
    is_whole: bool,
}

/// The records of the campaign in all files that may tell of the time. The first of them has the last throttle before
/// it.
fn records(files: &[(TimeMs, PathBuf)], question: &Question) -> Result<Read> {
    let (from, to) = (question.at.0.saturating_sub(question.range_ms), question.at.0.saturating_add(question.range_ms));
    let first = files.partition_point(|(begins, _)| begins.0 <= from).saturating_sub(2);
    let asked = files[first..].iter().take_while(|(begins, _)| begins.0 <= to);
    let (mut all, mut numbers, mut is_whole) = (Vec::new(), BTreeSet::new(), true);
    for (_, path) in asked {
        let unread = read(path, |record| {
            if let Recorded::Plan { number, id, .. } = &record.what
                && *id == question.id
            {
                numbers.insert(*number);
            }
            if record.number().is_none_or(|number| numbers.contains(&number)) {
                all.push(record);
            }
        })?;
        if unread.bytes > 0 {
            let (bytes, path) = (unread.bytes, path.display());
            let what = match unread.is_torn {
                true => "are a record that a kill has cut off",
                false => "were not read: the file is damaged, and what is said here lacks them",
            };
            complain(format_args!("the last {bytes} bytes of {path} {what}"));
            is_whole &= unread.is_torn;
        }
    }
    Ok(Read { records: all, is_whole })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_date_is_the_last_one_that_was() {
        let berlin = zone::find("Europe/Berlin").expect("it is in the database");
        let last = TimeMs(1_795_896_000_000);
        assert_eq!(jiff::Timestamp::from_millisecond(last.0 as i64).unwrap().to_string(), "2026-11-28T20:00:00Z");
        let at = |time: &str, date: Option<&str>| {
            let at = time_of((time.parse().unwrap(), date.map(|date| date.parse().unwrap())), &berlin, last).unwrap();
            jiff::Timestamp::from_millisecond(at.0 as i64).unwrap().to_string()
        };
        assert_eq!(at("20:15", None), "2026-11-28T19:15:00Z");
        assert_eq!(at("21:15", None), "2026-11-27T20:15:00Z");
        assert_eq!(at("21:15", Some("2026-11-01")), "2026-11-01T20:15:00Z");
    }
}

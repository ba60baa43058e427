//! Up to where a restored directory goes, as it was asked, and which group ends that means.

use std::fmt;
use std::str::FromStr;

use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, Group, LogFiles, Position, Sequence};
use tidegate_machines::TimeMs;

use crate::closure::{Window, close};
use crate::cut::inconsistent;
use crate::error::BackupError;
use crate::known::Known;
use crate::moment::{Moment, parse_moment};

/// How far the times of shards may differ: what a record rests upon on another shard is looked for this far around it.
const SKEW_MS: u64 = 60_000;

/// Up to where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// All that the backup has.
    End,
    /// Up to these sequences of the logs of the first family, by shard.
    Sequences(Vec<(u16, Sequence)>),
    /// Up to what was decided by this moment.
    Time(Moment),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::End => f.write_str("the end"),
            At::Time(moment) => moment.fmt(f),
            At::Sequences(sequences) => {
                let pairs = sequences.iter().map(|(shard, sequence)| format!("{shard}:{sequence}"));
                write!(f, "sequence {}", pairs.collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// `48113`, `0:48113,1:900`, or `2026-11-22T04:50:12Z`.
impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<At, String> {
        if let Ok(sequence) = text.parse() {
            return Ok(At::Sequences(vec![(0, Sequence(sequence))]));
        }
        let pair = |pair: &str| {
            let (shard, sequence) = pair.split_once(':')?;
            Some((shard.parse().ok()?, Sequence(sequence.parse().ok()?)))
        };
        let pairs: Option<Vec<_>> = text.split(',').map(pair).collect();
        pairs.map(At::Sequences).or(parse_moment(text).map(At::Time)).ok_or_else(|| {
            format!(
                "{text:?} is no place to restore at: give a sequence (48113), one for each shard (0:48113,1:900), or a \
                 time in UTC (2026-11-22T04:50:12Z)"
            )
        })
    }
}

/// One log of a backup.
pub(crate) struct Copied {
    /// Its folder's name.
    pub name: String,
    pub files: LogFiles<RealDisk>,
    /// Where it can be cut first: at its beginning, or at its snapshot.
    pub from: Cursor,
    /// First positions of its segments.
    pub firsts: Vec<Position>,
    /// The cut of the backup.
    pub end: Cursor,
}

impl Copied {
    /// The last group end before the first group that `keep` refuses. `begins_before` says whether a segment whose
    /// first group is this one must be read for that.
    /// A log that has forgotten its beginning ends at its snapshot at the earliest.
    fn last_end(
        &self,
        begins_before: impl Fn(&Group<'_>) -> bool,
        mut keep: impl FnMut(&Group<'_>) -> bool,
    ) -> Result<Cut, BackupError> {
        let mut start = self.files.begins(self.firsts[0])?;
        for first in self.firsts.iter().skip(1) {
            let begins = self.files.begins(*first)?;
            let is_before = match self.files.groups(begins, self.end)?.next_group()? {
                Some(group) => begins_before(&group),
                None => false,
            };
            if !is_before {
                break;
            }
            start = begins;
        }
        let mut groups = self.files.groups(start, self.end)?;
        let mut end = start;
        while let Some(group) = groups.next_group()? {
            if !keep(&group) {
                break;
            }
            end = groups.cursor();
        }
        Ok(Cut { end: if end.position < self.from.position { self.from } else { end }, asked: end })
    }

    fn at_sequence(&self, sequence: Sequence) -> Result<Cut, BackupError> {
        if sequence > self.end.sequence {
            return Err(BackupError::Refused(format!(
                "{}: the backup ends at sequence {}, before {sequence}: take a later backup, or an earlier place",
                self.name, self.end.sequence
            )));
        }
        let last = |group: &Group<'_>| group.first_sequence.0 + u64::from(group.record_count) - 1;
        self.last_end(|group| group.first_sequence <= sequence, |group| last(group) <= sequence.0)
    }

    fn at_time(&self, known: &Known, time: TimeMs) -> Result<Cut, BackupError> {
        let is_by_then = |group: &Group<'_>| times(known, group).all(|decided| decided <= time);
        // The first record of a segment may have no time; then the one before is read as well, which costs only time.
        let begins_before = |group: &Group<'_>| times(known, group).next().is_some_and(|decided| decided <= time);
        self.last_end(begins_before, is_by_then)
    }

    /// The first and the last place that it can be restored at, for the person who asked for another one. `None` for a
    /// log without records.
    fn range(&self, known: &Known) -> Result<Option<String>, BackupError> {
        let at = |time: Option<TimeMs>| time.map_or_else(String::new, |time| format!(" ({})", Moment(time.0)));
        let mut groups = self.files.groups(self.files.begins(self.firsts[0])?, self.end)?;
        while let Some(group) = groups.next_group()? {
            // A group is kept as a whole, so the first place is its end.
            if group.record_count > 0 {
                let first = group.first_sequence.0 + u64::from(group.record_count) - 1;
                let (begin, end) = (at(times(known, &group).max()), at(self.time_at(known, self.end)?));
                let (name, last) = (&self.name, self.end.sequence);
                return Ok(Some(format!("{name}: sequence {first}{begin} to {last}{end}")));
            }
        }
        Ok(None)
    }

    /// When the last record before `end` that says so was decided.
    fn time_at(&self, known: &Known, end: Cursor) -> Result<Option<TimeMs>, BackupError> {
        let mut time = None;
        for first in self.firsts.iter().rev().filter(|first| **first < end.position) {
            let mut groups = self.files.groups(self.files.begins(*first)?, end)?;
            while let Some(group) = groups.next_group()? {
                time = times(known, &group).last().or(time);
            }
            if time.is_some() {
                break;
            }
        }
        Ok(time)
    }
}

fn times<'a>(known: &'a Known, group: &Group<'a>) -> impl Iterator<Item = TimeMs> + use<'a> {
    let decided_at = known.decided_at;
    group.records().filter_map(move |(_, _, record)| decided_at(record))
}

/// Where a log is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The place.
    pub end: Cursor,
    /// Where it was asked to be: `end`, or before it, when other logs that are kept rest on what is between.
    pub asked: Cursor,
}

impl Cut {
    fn exactly(end: Cursor) -> Cut {
        Cut { end, asked: end }
    }
}

/// Where each log is cut; `families` has the logs of each family in the order of their shards.
pub(crate) fn places(families: &[(Known, Vec<Copied>)], at: &At) -> Result<Vec<Vec<Cut>>, BackupError> {
    let ends = |logs: &[Copied]| logs.iter().map(|log| Cut::exactly(log.end)).collect();
    let cuts: Vec<Vec<Cut>> = match at {
        At::End => return Ok(families.iter().map(|(_, logs)| ends(logs)).collect()),
        At::Time(moment) => {
            families.iter().map(|(known, logs)| at_time(known, logs, TimeMs(moment.0))).collect::<Result<_, _>>()?
        }
        At::Sequences(sequences) => {
            let Some(((known, logs), others)) = families.split_first() else { return Ok(Vec::new()) };
            let cuts = at_sequences(known, logs, sequences)?;
            let mut time = None;
            for (log, cut) in logs.iter().zip(&cuts) {
                time = time.max(log.time_at(known, cut.end)?);
            }
            let time = time.unwrap_or(TimeMs(0));
            let others = others.iter().map(|(known, logs)| at_time(known, logs, time));
            std::iter::once(Ok(cuts)).chain(others).collect::<Result<_, _>>()?
        }
    };
    if let (Some((known, logs)), Some(cuts)) = (families.first(), cuts.first()) {
        check_history(known, logs, cuts, at)?;
    }
    Ok(cuts)
}

/// Refuses a place before the first record of the first family: nothing would be left of it, and nobody asks for that.
fn check_history(known: &Known, logs: &[Copied], cuts: &[Cut], at: &At) -> Result<(), BackupError> {
    let is_empty = |end: &Cursor| end.sequence == Sequence(0);
    if !cuts.iter().all(|cut| is_empty(&cut.end)) || logs.iter().all(|log| is_empty(&log.end)) {
        return Ok(());
    }
    let ranges = logs.iter().map(|log| log.range(known)).collect::<Result<Vec<_>, _>>()?;
    let ranges: Vec<String> = ranges.into_iter().flatten().collect();
    Err(BackupError::Refused(format!(
        "{at} is before the history begins that the backup has: nothing of it would be restored. It has {}. Give a \
         place of that range, or none for all that there is",
        ranges.join("; ")
    )))
}

fn at_time(known: &Known, logs: &[Copied], time: TimeMs) -> Result<Vec<Cut>, BackupError> {
    let cuts = logs.iter().map(|log| log.at_time(known, time)).collect::<Result<Vec<_>, _>>()?;
    closed(known, logs, &cuts)
}

fn at_sequences(known: &Known, logs: &[Copied], sequences: &[(u16, Sequence)]) -> Result<Vec<Cut>, BackupError> {
    let of = |shard: usize| sequences.iter().find(|(of, _)| usize::from(*of) == shard).map(|(_, sequence)| *sequence);
    let is_each_once = sequences.len() == logs.len() && (0..logs.len()).all(|shard| of(shard).is_some());
    if !is_each_once {
        let example: Vec<String> =
            logs.iter().enumerate().map(|(shard, log)| format!("{shard}:{}", log.end.sequence)).collect();
        return Err(BackupError::Refused(format!(
            "the backup has {} shards of family \"{}\": give a sequence for each, such as {}, or a time",
            logs.len(),
            known.family.name,
            example.join(",")
        )));
    }
    let cut = |(shard, log): (usize, &Copied)| log.at_sequence(of(shard).unwrap_or_default());
    let cuts = logs.iter().enumerate().map(cut).collect::<Result<Vec<_>, _>>()?;
    closed(known, logs, &cuts)
}

/// The cuts, moved forward to what they rest upon.
fn closed(known: &Known, logs: &[Copied], cuts: &[Cut]) -> Result<Vec<Cut>, BackupError> {
    if logs.len() <= 1 {
        return Ok(cuts.to_vec());
    }
    let mut windows = Vec::new();
    for (log, cut) in logs.iter().zip(cuts.iter().map(|cut| cut.end)) {
        let time = log.time_at(known, cut)?.unwrap_or(TimeMs(0));
        let base = log.at_time(known, TimeMs(time.0.saturating_sub(SKEW_MS)))?.end;
        let bound = log.at_time(known, TimeMs(time.0.saturating_add(SKEW_MS)))?.end;
        let base = if base.position > cut.position { cut } else { base };
        let bound = if bound.position < cut.position { cut } else { bound };
        windows.push(Window::read(&log.files, known, (base, cut, bound))?);
    }
    close(&mut windows).map_err(|missing| inconsistent(known, missing))?;
    Ok(windows.iter().map(Window::cut).zip(cuts).map(|(end, cut)| Cut { end, ..*cut }).collect())
}

#[cfg(test)]
mod tests {
    use super::{At, Moment, Sequence};

    #[test]
    fn places_are_read_as_people_write_them() {
        assert_eq!("48113".parse(), Ok(At::Sequences(vec![(0, Sequence(48_113))])));
        assert_eq!("0:7,1:9".parse(), Ok(At::Sequences(vec![(0, Sequence(7)), (1, Sequence(9))])));
        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(At::Time(Moment(1_000))));
        for text in ["", "-1", "0:", "0:7,", "yesterday", "2026-11-22 04:50:12", "18446744073709551616"] {
            assert!(text.parse::<At>().unwrap_err().contains("is no place to restore at"), "{text}");
        }
    }
}

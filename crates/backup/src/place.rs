//! Up to where a restored directory goes, as it was asked, and which group ends that means.
//!
//! ```text
//!   a time ────▶ the newest section of the ledger's log that had begun by then ─▶ its last record of then
//!   a sequence ─▶ its group ─▶ the time of its last record ─┐
//!                              the time that was asked for ─┴─▶ other logs: by time, plus what a clock was wrong by
//! ```
//!
//! Promise: what was acknowledged before the place that was asked for is kept, in all logs. Why more than that of some:
//! an operator sets the time of the ledger only, so the times of other logs stay ahead for as long as they need.

use std::fmt;
use std::str::FromStr;

use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, Group, JournalError, LogFiles, Position, Sequence};
use tidegate_machines::TimeMs;

use crate::ambiguity::check_is_one;
use crate::closure::{Window, close};
use crate::cut::inconsistent;
use crate::error::BackupError;
use crate::known::Known;
use crate::moment::{Moment, parse_moment};
use crate::timeline::Timeline;

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
    /// The last group end of `from..to` before the first group that `keep` refuses. `begins_before` says whether a
    /// segment whose first group is this one must be read for that.
    pub fn last_end(
        &self,
        (from, to): (Cursor, Cursor),
        begins_before: impl Fn(&Group<'_>) -> bool,
        mut keep: impl FnMut(&Group<'_>) -> bool,
    ) -> Result<Cursor, JournalError> {
        let mut start = from;
        for first in self.firsts.iter().filter(|first| from.position < **first && **first < to.position) {
            let begins = self.files.begins(*first)?;
            let is_before = match self.files.groups(begins, to)?.next_group()? {
                Some(group) => begins_before(&group),
                None => false,
            };
            if !is_before {
                break;
            }
            start = begins;
        }
        let mut groups = self.files.groups(start, to)?;
        let mut end = start;
        while let Some(group) = groups.next_group()? {
            if !keep(&group) {
                break;
            }
            end = groups.cursor();
        }
        Ok(end)
    }

    fn at_sequence(&self, sequence: Sequence) -> Result<Cut, BackupError> {
        if sequence > self.end.sequence {
            return Err(BackupError::Refused(format!(
                "{}: the backup ends at sequence {}, before {sequence}: take a later backup, or an earlier place",
                self.name, self.end.sequence
            )));
        }
        let last = |group: &Group<'_>| group.first_sequence.0 + u64::from(group.record_count) - 1;
        let whole = (self.files.begins(self.firsts[0])?, self.end);
        let end = self.last_end(whole, |group| group.first_sequence <= sequence, |group| last(group) <= sequence.0)?;
        Ok(self.cut(end))
    }

    /// A log that has forgotten its beginning ends at its snapshot at the earliest.
    fn cut(&self, asked: Cursor) -> Cut {
        let end = if asked.position < self.from.position { self.from } else { asked };
        Cut { end, asked, later: 0, time: None }
    }
}

/// Where a log is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The place.
    pub end: Cursor,
    /// Where it was asked to be: `end`, or before it, when other logs that are kept rest on what is between.
    pub asked: Cursor,
    /// So many of the records before `asked` say later times than was asked for, and may have been written by then.
    pub later: u64,
    /// When the last record before `end` was decided, if that says so.
    pub time: Option<TimeMs>,
}

/// Where each log is cut; `families` has the logs of each family in the order of their shards. The backup was taken at
/// `taken_at`.
pub(crate) fn places(
    families: &[(Known, Vec<Copied>)],
    at: &At,
    taken_at: Moment,
) -> Result<Vec<Vec<Cut>>, BackupError> {
    let Some(((known, logs), others)) = families.split_first() else { return Ok(Vec::new()) };
    if *at == At::End {
        let ends = |(_, logs): &(Known, Vec<Copied>)| logs.iter().map(|log| log.cut(log.end)).collect();
        return with_times(families, families.iter().map(ends).collect());
    }
    let timelines = logs.iter().map(|log| Timeline::read(known, log)).collect::<Result<Vec<_>, _>>()?;
    let (cuts, time) = match at {
        At::Time(Moment(ms)) => {
            let places = timelines.iter().map(|timeline| timeline.at(TimeMs(*ms))).collect::<Result<Vec<_>, _>>()?;
            check_is_one(&timelines, &places, Moment(*ms))?;
            check_known(&timelines, Moment(*ms), taken_at)?;
            let cuts: Vec<Cut> = logs.iter().zip(places).map(|(log, place)| log.cut(place)).collect();
            (closed(&timelines, &cuts)?, TimeMs(*ms))
        }
        At::Sequences(sequences) => {
            let cuts = closed(&timelines, &at_sequences(known, logs, sequences)?)?;
            let mut time = TimeMs(0);
            for (timeline, cut) in timelines.iter().zip(&cuts) {
                time = time.max(timeline.time_at(cut.end)?.unwrap_or_default());
            }
            (cuts, time)
        }
        At::End => unreachable!("that is above"),
    };
    check_history(&timelines, &cuts, at)?;
    let mut ahead_ms = 0;
    for (timeline, cut) in timelines.iter().zip(&cuts) {
        ahead_ms = ahead_ms.max(timeline.others_ahead_ms(cut.end, time, SKEW_MS)?);
    }
    let moment = OtherMoment { time, ahead_ms, taken_at };
    let others = others.iter().map(|(known, logs)| moment.cuts(known, logs));
    with_times(families, std::iter::once(Ok(cuts)).chain(others).collect::<Result<_, _>>()?)
}

/// Refuses a time after the backup was taken: whoever asks for it would take what is restored for what was there then.
/// A log whose clock was ahead has records of later times.
fn check_known(timelines: &[Timeline<'_>], asked: Moment, taken_at: Moment) -> Result<(), BackupError> {
    let mut newest = None;
    for timeline in timelines {
        newest = newest.max(timeline.time_at(timeline.log.end)?);
    }
    let known = newest.map_or(taken_at, |newest| taken_at.max(Moment(newest.0)));
    if asked <= known {
        return Ok(());
    }
    let newest =
        newest.map_or_else(String::new, |newest| format!(", and its newest record is of {}", Moment(newest.0)));
    Err(BackupError::Refused(format!(
        "the backup was taken at {taken_at}{newest}: it does not have what was decided up to {asked}. Take a later \
         backup, or give no place for all that there is"
    )))
}

/// The same cuts, each with the time of its last record.
fn with_times(families: &[(Known, Vec<Copied>)], mut cuts: Vec<Vec<Cut>>) -> Result<Vec<Vec<Cut>>, BackupError> {
    for ((known, logs), cuts) in families.iter().zip(&mut cuts) {
        for (log, cut) in logs.iter().zip(cuts) {
            cut.time = Timeline::unmended(known, log)?.time_at(cut.end)?;
        }
    }
    Ok(cuts)
}

/// The moment of the ledger's cuts, for logs whose time nobody sets.
struct OtherMoment {
    time: TimeMs,
    /// By how much they may be ahead then.
    ahead_ms: u64,
    taken_at: Moment,
}

impl OtherMoment {
    /// Nothing that was written by then is left out: where times do not show what was, more is kept.
    fn cuts(&self, known: &Known, logs: &[Copied]) -> Result<Vec<Cut>, BackupError> {
        let timelines = logs.iter().map(|log| Timeline::unmended(known, log)).collect::<Result<Vec<_>, _>>()?;
        let mut cuts = Vec::new();
        for timeline in &timelines {
            let (log, by_time) = (timeline.log, timeline.at(self.time)?);
            let mut place = timeline.at(TimeMs(self.time.0.saturating_add(self.ahead_ms)))?;
            // A log that is ahead of the clock of the backup: what is behind the jump says nothing of when it was.
            if timeline
                .jump_before(TimeMs(self.taken_at.0), SKEW_MS)?
                .is_some_and(|jump| jump.position <= by_time.position)
            {
                place = log.end;
            }
            let cut = log.cut(place);
            let kept_anyway = by_time.sequence.max(log.from.sequence);
            cuts.push(Cut { later: cut.end.sequence.0.saturating_sub(kept_anyway.0), ..cut });
        }
        closed(&timelines, &cuts)
    }
}

/// Refuses a place before the first record of the first family: nothing would be left of it, and nobody asks for that.
fn check_history(timelines: &[Timeline<'_>], cuts: &[Cut], at: &At) -> Result<(), BackupError> {
    let is_empty = |end: &Cursor| end.sequence == Sequence(0);
    if !cuts.iter().all(|cut| is_empty(&cut.end)) || timelines.iter().all(|timeline| is_empty(&timeline.log.end)) {
        return Ok(());
    }
    let mut ranges = Vec::new();
    for timeline in timelines {
        if let Some((first, begin)) = timeline.range()? {
            let at = |time: Option<TimeMs>| time.map_or_else(String::new, |time| format!(" ({})", Moment(time.0)));
            let Copied { name, end, .. } = timeline.log;
            let (begin, newest) = (at(begin), at(timeline.time_at(*end)?));
            ranges.push(format!("{name}: sequence {first}{begin} to {}{newest}", end.sequence));
        }
    }
    Err(BackupError::Refused(format!(
        "{at} is before the history begins that the backup has: nothing of it would be restored. It has {}. Give a \
         place of that range, or none for all that there is",
        ranges.join("; ")
    )))
}

fn at_sequences(known: &Known, logs: &[Copied], sequences: &[(u16, Sequence)]) -> Result<Vec<Cut>, BackupError> {
    let of = |shard: usize| sequences.iter().find(|(of, _)| usize::from(*of) == shard).map(|(_, sequence)| *sequence);
    let is_each_once = sequences.len() == logs.len() && (0..logs.len()).all(|shard| of(shard).is_some());
    if !is_each_once {
        return Err(BackupError::Refused(format!(
            "the backup has {} shards of family \"{}\": give a sequence for each, such as {}, or a time",
            logs.len(),
            known.family.name,
            as_asked(logs.iter().map(|log| log.end))
        )));
    }
    let cut = |(shard, log): (usize, &Copied)| log.at_sequence(of(shard).unwrap_or_default());
    logs.iter().enumerate().map(cut).collect()
}

/// Places of the logs of a family as `--at` takes them.
pub(crate) fn as_asked(places: impl ExactSizeIterator<Item = Cursor>) -> String {
    let is_one = places.len() == 1;
    let word = |(shard, place): (usize, Cursor)| match is_one {
        true => place.sequence.to_string(),
        false => format!("{shard}:{}", place.sequence),
    };
    places.enumerate().map(word).collect::<Vec<_>>().join(",")
}

/// The cuts, moved forward to what they rest upon.
fn closed(timelines: &[Timeline<'_>], cuts: &[Cut]) -> Result<Vec<Cut>, BackupError> {
    if timelines.len() <= 1 {
        return Ok(cuts.to_vec());
    }
    let ends: Vec<Cursor> = cuts.iter().map(|cut| cut.end).collect();
    let mut around = windows(timelines, &ends, |timeline, cut| timeline.behind(cut, SKEW_MS))?;
    if close(&mut around).is_err() {
        // Behind a jump of a clock, or somebody has given sequences of different times.
        around = windows(timelines, &ends, |timeline, _| Ok(timeline.log.end))?;
        close(&mut around).map_err(|missing| inconsistent(timelines[0].known, missing))?;
    }
    Ok(around.iter().map(Window::cut).zip(cuts).map(|(end, cut)| Cut { end, ..*cut }).collect())
}

/// The groups of all logs around their cuts, up to a bound.
fn windows(
    timelines: &[Timeline<'_>],
    cuts: &[Cursor],
    bound: impl Fn(&Timeline<'_>, Cursor) -> Result<Cursor, BackupError>,
) -> Result<Vec<Window>, BackupError> {
    let window = |(timeline, cut): (&Timeline<'_>, &Cursor)| {
        let (base, bound) = (timeline.before(*cut, SKEW_MS)?, bound(timeline, *cut)?);
        let from = timeline.log.from;
        let base = if base.position < from.position { from } else { base };
        let base = if base.position > cut.position { *cut } else { base };
        let bound = if bound.position < cut.position { *cut } else { bound };
        Ok(Window::read(&timeline.log.files, timeline.known, (base, *cut, bound))?)
    };
    timelines.iter().zip(cuts).map(window).collect()
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

//! The times of one log. They do not go back, except where an operator has set the time of the log.
//!
//! ```text
//!   section 0                              │ section 1                 │ section 2
//!   12:00 … 12:10 │ a wrong clock: 15:00 … │ mended to 12:30, … 12:50  │ mended …
//! ```
//!
//! Promise: a place by time is looked for in the newest section that has begun by then, so that it is behind all
//! that a mend says was before it, and behind the newest record of that time or earlier: as `?at=` of the ledger.
//!
//! Why not the first record that is later: a record of a wrong clock says a later time than all that follow for years.

use tidegate_journal::{Cursor, Group, JournalError, Sequence};
use tidegate_machines::TimeMs;

use crate::error::BackupError;
use crate::known::Known;
use crate::place::Copied;

/// One millisecond of a shard's lead over the clock of its host is made up for in so many, at least.
const FOLLOW_ONE_IN: u64 = 20;

/// A record that sets the time of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mend {
    /// The record.
    pub sequence: Sequence,
    /// The time from then on.
    pub time: TimeMs,
    /// The time before.
    pub was: TimeMs,
}

/// Records between two mends: their times do not go back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    /// Behind the last group before it.
    pub begin: Cursor,
    /// Behind its last group.
    pub end: Cursor,
    /// Its first record; none for the beginning of the log.
    pub mend: Option<Mend>,
    /// The time of its newest record; zero for none.
    pub newest: TimeMs,
    /// The longest time between two of its records, one behind the other.
    pub gap_ms: u64,
}

impl Section {
    /// The time from which on its records are.
    fn since(&self) -> TimeMs {
        self.mend.map_or(TimeMs(0), |mend| mend.time)
    }
}

/// Records whose clock was wrong, so that nobody can tell when they were decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Untimed {
    /// The first of them.
    pub first: Sequence,
    /// Behind the last one, and before the mend.
    pub end: Cursor,
    /// What ended it.
    pub mend: Mend,
}

/// What follows a place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// Nothing but a mend, if at all.
    Nothing,
    /// A record that says when it was decided.
    Timed,
    /// Records whose clock was wrong.
    Untimed(Untimed),
}

/// One log of a backup, and its times.
pub(crate) struct Timeline<'a> {
    pub log: &'a Copied,
    pub known: &'a Known,
    sections: Vec<Section>,
}

impl<'a> Timeline<'a> {
    /// Reads all records of the log.
    pub fn read(known: &'a Known, log: &'a Copied) -> Result<Timeline<'a>, BackupError> {
        let mut timeline = Timeline::unmended(known, log)?;
        let mut at = timeline.sections[0].begin;
        let mut groups = log.files.groups(at, log.end)?;
        while let Some(group) = groups.next_group()? {
            for (sequence, _, record) in group.records() {
                let stamp = (known.stamp)(record);
                if let (Some(time), Some(was)) = (stamp.decided_at, stamp.mended_from) {
                    let mend = Some(Mend { sequence, time, was });
                    timeline.sections.last_mut().expect("there is one at least").end = at;
                    timeline.sections.push(Section { begin: at, end: log.end, mend, newest: time, gap_ms: 0 });
                }
                let section = timeline.sections.last_mut().expect("there is one at least");
                if let Some(time) = stamp.decided_at {
                    let gap_ms = if section.newest == TimeMs(0) { 0 } else { time.0.saturating_sub(section.newest.0) };
                    section.gap_ms = section.gap_ms.max(gap_ms);
                    section.newest = section.newest.max(time);
                }
            }
            at = groups.cursor();
        }
        Ok(timeline)
    }

    /// Of a log whose time nobody sets.
    pub fn unmended(known: &'a Known, log: &'a Copied) -> Result<Timeline<'a>, BackupError> {
        let begin = log.files.begins(log.firsts[0])?;
        let newest = TimeMs(0);
        Ok(Timeline { log, known, sections: vec![Section { begin, end: log.end, mend: None, newest, gap_ms: 0 }] })
    }

    /// The section of this number; the first one is 0.
    pub fn section(&self, number: usize) -> Option<&Section> {
        self.sections.get(number)
    }

    /// How many sections there are.
    pub fn sections(&self) -> usize {
        self.sections.len()
    }

    /// The section that has the group which ends at `place`.
    pub fn section_of(&self, place: Cursor) -> usize {
        self.sections.partition_point(|section| section.begin.position < place.position).saturating_sub(1)
    }

    /// The newest section that has begun by `time`.
    pub fn section_at(&self, time: TimeMs) -> usize {
        self.sections.iter().rposition(|section| section.since() <= time).unwrap_or(0)
    }

    /// Behind the newest record of `time` or earlier.
    pub fn at(&self, time: TimeMs) -> Result<Cursor, BackupError> {
        self.last_by(self.section_at(time), time)
    }

    /// Behind the last group of a section before its first record that was decided later than `time`.
    pub fn last_by(&self, section: usize, time: TimeMs) -> Result<Cursor, BackupError> {
        let Section { begin, end, .. } = self.sections[section];
        let is_by_then = |group: &Group<'_>| times(self.known, group).all(|decided| decided <= time);
        // The first record of a segment may have no time; then the one before is read as well, which costs only time.
        let begins_before = |group: &Group<'_>| times(self.known, group).next().is_some_and(|decided| decided <= time);
        Ok(self.log.last_end((begin, end), begins_before, is_by_then)?)
    }

    /// When the last record before `end` that says so was decided.
    pub fn time_at(&self, end: Cursor) -> Result<Option<TimeMs>, BackupError> {
        let mut time = None;
        for first in self.log.firsts.iter().rev().filter(|first| **first < end.position) {
            let mut groups = self.log.files.groups(self.log.files.begins(*first)?, end)?;
            while let Some(group) = groups.next_group()? {
                time = times(self.known, &group).last().or(time);
            }
            if time.is_some() {
                break;
            }
        }
        Ok(time)
    }

    /// The first record behind `place` that says when it was decided.
    fn next(&self, place: Cursor) -> Result<Option<(Sequence, TimeMs)>, JournalError> {
        let mut groups = self.log.files.groups(place, self.log.end)?;
        while let Some(group) = groups.next_group()? {
            let mut timed =
                group.records().filter_map(|(sequence, _, record)| Some((sequence, (self.known.decided_at)(record)?)));
            if let Some(found) = timed.next() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// What follows `place`, which is the one for `time`: where it is [`Follows::Untimed`], nobody can tell what of it
    /// had been decided by `time`.
    pub fn follows(&self, place: Cursor, time: TimeMs) -> Result<Follows, BackupError> {
        let Some((first, next)) = self.next(place)? else { return Ok(Follows::Nothing) };
        if self.time_at(place)? == Some(time) {
            return Ok(Follows::Timed);
        }
        let later = &self.sections[self.section_of(place) + 1..];
        let mends = later.iter().filter_map(|section| Some((section.begin, section.mend?)));
        // What says a later time than a mend behind it was decided by a wrong clock.
        match mends.clone().find(|(_, mend)| mend.time < next) {
            Some((end, mend)) => Ok(Follows::Untimed(Untimed { first, end, mend })),
            None if mends.clone().any(|(_, mend)| mend.sequence == first) => Ok(Follows::Nothing),
            None => Ok(Follows::Timed),
        }
    }

    /// Numbers of the sections before that of `time` that have records of a wrong clock around `time`.
    pub fn also_at(&self, time: TimeMs) -> Result<Vec<usize>, BackupError> {
        let of_time = self.section_at(time);
        let mut also = Vec::new();
        for number in 0..of_time {
            let mended = self.sections[number + 1..=of_time].iter().map(Section::since).min().unwrap_or(TimeMs(0));
            let section = &self.sections[number];
            if section.newest > mended && section.newest >= time {
                let wrong = self.next(self.last_by(number, mended)?)?;
                also.extend(wrong.is_some_and(|(_, wrong)| wrong <= time).then_some(number));
            }
        }
        Ok(also)
    }

    /// By how much a log whose time nobody sets, of the same hosts, may be ahead when it is `time` here, at `place`, in
    /// milliseconds; zero if no clock was found wrong before that. It is the error of the clock at most, and what is
    /// ahead makes up for it.
    ///
    /// The error: a wrong record was decided behind the last right one, so its time is ahead by less than the time
    /// between the two. Where the mend is not earlier than all records before it, these do not show which are wrong,
    /// but the clock jumped between two of them. To that, `slack_ms` are added for clocks of several logs.
    pub fn others_ahead_ms(&self, place: Cursor, time: TimeMs, slack_ms: u64) -> Result<u64, BackupError> {
        let mut error_ms = 0;
        let last = self.section_of(place);
        for number in 1..=last {
            let Some(mend) = self.sections[number].mend else { continue };
            let at_most_ms = match mend.time < mend.was {
                true => self.last_right_before(number, mend.time)?.map_or(u64::MAX, |right| mend.was.0 - right.0),
                false => self.sections[number - 1].gap_ms,
            };
            error_ms = error_ms.max(at_most_ms.saturating_add(slack_ms));
        }
        let passed_ms = time.0.saturating_sub(self.sections[last].since().0);
        Ok(error_ms.saturating_sub(passed_ms / FOLLOW_ONE_IN))
    }

    /// The time of the last record before a section that says `mended` or earlier.
    fn last_right_before(&self, section: usize, mended: TimeMs) -> Result<Option<TimeMs>, BackupError> {
        for number in (0..section).rev() {
            let place = self.last_by(number, mended)?;
            if place.position > self.sections[number].begin.position
                && let Some(time) = self.time_at(place)?
            {
                return Ok(Some(time));
            }
        }
        Ok(None)
    }

    /// The place so many milliseconds of the log's time before `place`; a mend takes no time.
    pub fn before(&self, place: Cursor, mut ms: u64) -> Result<Cursor, BackupError> {
        let mut number = self.section_of(place);
        let mut time = self.time_at(place)?.unwrap_or(TimeMs(0));
        loop {
            let since = self.sections[number].since();
            if number == 0 || time.0.saturating_sub(since.0) >= ms {
                return self.last_by(number, TimeMs(time.0.saturating_sub(ms)));
            }
            ms -= time.0.saturating_sub(since.0);
            number -= 1;
            time = self.sections[number].newest;
        }
    }

    /// The place so many milliseconds behind `place`.
    pub fn behind(&self, place: Cursor, mut ms: u64) -> Result<Cursor, BackupError> {
        let mut number = self.section_of(place);
        let mut time = self.time_at(place)?.unwrap_or(TimeMs(0));
        loop {
            let newest = self.sections[number].newest;
            if number + 1 == self.sections.len() || time.0.saturating_add(ms) < newest.0 {
                return self.last_by(number, TimeMs(time.0.saturating_add(ms)));
            }
            ms -= newest.0.saturating_sub(time.0);
            number += 1;
            time = self.sections[number].since();
        }
    }

    /// The first and the last place that it can be restored at, for the person who asked for another one. `None` for a
    /// log without records.
    pub fn range(&self) -> Result<Option<(Sequence, Option<TimeMs>)>, BackupError> {
        let mut groups = self.log.files.groups(self.sections[0].begin, self.log.end)?;
        while let Some(group) = groups.next_group()? {
            // A group is kept as a whole, so the first place is its end.
            if group.record_count > 0 {
                let first = group.first_sequence.0 + u64::from(group.record_count) - 1;
                return Ok(Some((Sequence(first), times(self.known, &group).max())));
            }
        }
        Ok(None)
    }

    /// Behind the last group before a jump of the log's times that explains why its newest record is later than
    /// `taken_at`, when it was copied; none if it is not.
    pub fn jump_before(&self, taken_at: TimeMs, slack_ms: u64) -> Result<Option<Cursor>, BackupError> {
        let newest = self.time_at(self.log.end)?.unwrap_or(TimeMs(0));
        let ahead_ms = newest.0.saturating_sub(taken_at.0);
        if ahead_ms <= slack_ms {
            return Ok(None);
        }
        let (mut place, mut time) = (self.sections[0].begin, None::<TimeMs>);
        let mut groups = self.log.files.groups(place, self.log.end)?;
        while let Some(group) = groups.next_group()? {
            for decided in times(self.known, &group) {
                if time.is_some_and(|time| decided.0.saturating_sub(time.0) >= ahead_ms) {
                    return Ok(Some(place));
                }
                time = Some(decided);
            }
            place = groups.cursor();
        }
        // Several jumps, or it has forgotten them.
        Ok(Some(self.sections[0].begin))
    }
}

/// When the records of a group were decided, those that say so.
fn times<'a>(known: &'a Known, group: &Group<'a>) -> impl Iterator<Item = TimeMs> + use<'a> {
    let decided_at = known.decided_at;
    group.records().filter_map(move |(_, _, record)| decided_at(record))
}

//! Reads one log again and again, so that damage is found while a copy that could repair it still exists.
//!
//! ```text
//!   pass:  │ segment │ segment │ dam✗ged │ segment │ … settled end      a step reads so many bytes
//!                                  └─ noted; goes on with the next segment
//! ```
//!
//! Promise: a pass reads every segment that is no longer written. Damage in one keeps none of the others from being
//! read.
//!
//! Invariant: no thread or clock here. Its owner says when, and how much.

use std::sync::Arc;

use tidegate_journal::{Cursor, Durability, GroupReader, JournalError, LogId, LogReader, Position};

use crate::damage::{Damages, Met, Owner, Unreadable};

/// How far the reading of a log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubFacts {
    /// Position that the pass under way has reached.
    pub position: u64,
    /// Position at which it ends, as far as is known.
    pub of: u64,
    /// Bytes read, over all passes.
    pub bytes: u64,
    /// Passes that came to their end.
    pub passes: u64,
}

/// The reading of one log, pass after pass.
pub struct LogScrub<R> {
    family: &'static str,
    log: LogId,
    reader: R,
    damages: Arc<Damages>,
    at: Cursor,
    /// Where the log was settled when that was known last.
    settled: Option<Durability>,
    /// The number of the pass under way; `None` between two.
    pass: Option<u64>,
    /// Up to here, the two ends of segments were looked at.
    ends_seen: Position,
    facts: ScrubFacts,
}

/// Reads on by one group. False at the end of what may be read.
pub type ReadGroup<'a> = dyn FnMut(&mut GroupReader) -> Result<bool, JournalError> + 'a;

impl<R: LogReader> LogScrub<R> {
    /// A reading of the log of `family` that `reader` reads; damage is told to `damages`.
    pub fn new(family: &'static str, log: LogId, reader: R, damages: Arc<Damages>) -> LogScrub<R> {
        let (at, ends_seen) = (Cursor::START, Position(0));
        let facts = ScrubFacts::default();
        LogScrub { family, log, reader, damages, at, settled: None, pass: None, ends_seen, facts }
    }

    /// Which log.
    pub fn log(&self) -> LogId {
        self.log
    }

    /// Where it is.
    pub fn at(&self) -> Cursor {
        self.at
    }

    /// How far it is.
    pub fn facts(&self) -> ScrubFacts {
        // A pass may have read further than to where the log is settled.
        ScrubFacts { of: self.facts.of.max(self.facts.position), ..self.facts }
    }

    /// Whom it tells of damage.
    pub fn damages(&self) -> &Arc<Damages> {
        &self.damages
    }

    /// Reads about `bytes` more, at least one group, with `read`, up to `up_to` or else to where the log is settled.
    /// Whether the pass has ended with that.
    pub fn step(&mut self, bytes: u64, up_to: Option<Durability>, read: &mut ReadGroup<'_>) -> bool {
        let damages = &self.damages;
        self.pass.get_or_insert_with(|| damages.begin_pass());
        match self.try_step(bytes, up_to, read) {
            Ok(is_over) => is_over,
            // Its beginning was forgotten while it was read.
            Err(JournalError::Forgotten { .. }) => self.skip(),
            Err(error) => {
                self.note(error, up_to);
                self.skip()
            }
        }
    }

    fn try_step(
        &mut self,
        bytes: u64,
        up_to: Option<Durability>,
        read: &mut ReadGroup<'_>,
    ) -> Result<bool, JournalError> {
        let Some(settled) = self.settled() else {
            // Nothing is known of what may be read: this is no pass.
            self.pass = None;
            self.restart();
            return Ok(true);
        };
        let end = up_to.filter(|up_to| up_to.position() > settled.position()).unwrap_or(settled);
        self.facts.of = end.position().0;
        if self.at.position >= end.position() {
            return Ok(self.end_pass());
        }
        let mut groups = self.reader.groups(self.at, &end)?;
        let began = self.at.position;
        loop {
            let went_on = read(&mut groups);
            let reached = groups.cursor();
            self.facts.bytes += self.reader.bytes_between(self.at.position, reached.position);
            self.at = reached;
            self.facts.position = reached.position.0;
            if !went_on? || reached.position >= end.position() {
                self.look_at_ends(reached.position);
                return Ok(self.end_pass());
            }
            if self.reader.bytes_between(began, reached.position) >= bytes {
                self.look_at_ends(reached.position);
                return Ok(false);
            }
        }
    }

    /// Where the log is settled, or else where it was when its newest segment could be read last.
    fn settled(&mut self) -> Option<Durability> {
        match self.reader.settled_end() {
            Ok(settled) => self.settled = Some(settled),
            Err(error) => self.judge(Position(u64::MAX), error),
        }
        self.settled
    }

    /// Goes on behind what cannot be read. Whether the pass has ended with that.
    fn skip(&mut self) -> bool {
        match self.reader.next_readable(self.at.position) {
            Ok(Some(next)) => {
                self.look_at_ends(next.position);
                self.at = next;
                self.facts.position = next.position.0;
                false
            }
            Ok(None) | Err(_) => {
                self.look_at_ends(Position(self.facts.of));
                self.end_pass()
            }
        }
    }

    /// Looks at headers and marks of segments that end at or before `up_to` and were not looked at in this pass.
    fn look_at_ends(&mut self, up_to: Position) {
        for damage in self.reader.rotten_ends(self.ends_seen, up_to).unwrap_or_default() {
            self.damages.note_ends(self.family, self.log, &damage);
        }
        self.ends_seen = up_to;
    }

    /// Keeps what a reading up to `up_to`, or to where the log is settled, has met.
    fn note(&self, error: JournalError, up_to: Option<Durability>) {
        let (file, offset, what, lost) = match error {
            JournalError::Damaged { segment, offset, what, lost } => (segment, offset, what, lost),
            other => return self.judge(self.at.position, other),
        };
        let end = up_to.into_iter().chain(self.settled).max_by_key(Durability::position);
        let met = end.map(|end| Met::Group(self.at, end));
        self.damages.note_at(self.family, self.log, (&file, offset), (what, lost), met);
    }

    /// Keeps what was met around `at`, which is of a file and not of a group in it.
    fn judge(&self, at: Position, error: JournalError) {
        let whose = (self.family, self.log);
        if let Some(Unreadable::Failed(error)) = self.damages.judge(&self.reader, whose, (at, &mut Vec::new()), error) {
            tracing::warn!(family = self.family, shard = self.log.shard, %error, "a log cannot be read again");
        }
    }

    /// The next pass begins with the first record.
    fn end_pass(&mut self) -> bool {
        if let Some(pass) = self.pass.take() {
            self.damages.mend(Owner::Log(self.log), pass, Position(self.facts.of));
        }
        self.facts.passes += 1;
        self.restart();
        true
    }

    /// Begins again with the first record, whatever was read.
    pub fn restart(&mut self) {
        self.at = Cursor::START;
        self.ends_seen = Position(0);
    }

    /// Looks again at damaged places, and forgets those that are sound by now. Whether there were any. Tells also what
    /// is away that nobody has asked for.
    pub fn look_again(&mut self) -> bool {
        for (first, error) in self.reader.away() {
            self.damages.judge(&self.reader, (self.family, self.log), (first, &mut Vec::new()), error);
        }
        self.damages.count() > 0 && self.damages.look_again(Owner::Log(self.log), &self.reader) > 0
    }

    /// What is damaged of the log.
    pub fn damage(&self) -> Vec<&'static tidegate_machines::DamagedPlace> {
        self.damages.of(Owner::Log(self.log))
    }

    /// How many of its bytes were put right.
    pub fn mended(&self) -> usize {
        self.damages.mended_of(self.log)
    }

    /// The place of the first byte that may be read, for callers that compare positions.
    pub fn position(&self) -> Position {
        self.at.position
    }
}

/// Verifies the next group and each of its records.
pub fn verify(groups: &mut GroupReader) -> Result<bool, JournalError> {
    Ok(groups.next_group()?.is_some())
}

#[cfg(test)]
mod tests;

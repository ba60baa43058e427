//! Reads the last segments of logs again, which are still being written: what is durable in them is still what was
//! written?
//!
//! ```text
//!   last segment:  │ header │ group │ group │ ovèr✗written │ group │ ← durable end
//!                  └─ a look reads some on, and begins again at the end ─▶ Damages
//! ```
//!
//! Promise: a change of durable bytes is found within the looks that it takes to read the last segment once, whoever
//! made it. Why: the server itself has what it wrote in memory, so a file that somebody else cut or wrote over is read
//! by nobody before the next start, when what was acknowledged is gone.
//!
//! Why besides the scrub: a pass over a whole log takes hours, and begins anew only when it has ended.

use std::sync::Arc;

use tidegate_journal::{Cursor, Durability, DurableEnd, JournalError, LogId, LogReader};

use crate::damage::{Damages, Met};
use crate::recovery::NodeReader;

/// The last segment of one log.
pub struct Tail<R> {
    /// Of which family.
    pub family: &'static str,
    /// Which log.
    pub log: LogId,
    /// Reads it.
    pub reader: R,
    at: Cursor,
}

impl<R: LogReader> Tail<R> {
    /// That of the log of `family` that `reader` reads.
    pub fn new(family: &'static str, log: LogId, reader: R) -> Tail<R> {
        Tail { family, log, reader, at: Cursor::START }
    }

    /// Verifies about `bytes` of it, up to `up_to`, and tells `damages` what is not as it was written. The next look
    /// goes on from there, or begins again.
    pub fn look(&mut self, bytes: u64, up_to: Durability, damages: &Damages) {
        let Err(error) = self.try_look(bytes, up_to) else { return };
        let (segment, offset, what, lost) = match error {
            JournalError::Damaged { segment, offset, what, lost } => (segment, offset, what, lost),
            // What was read until now is of this log: it was exchanged since.
            JournalError::BadCursor { what, .. } => {
                let (segment, offset) = self.reader.place_of(self.at.position);
                let lost = format!("records from {} on, as far as they are not there", self.at.sequence.0 + 1);
                (segment, offset, what, lost)
            }
            other => {
                damages.judge(&self.reader, (self.family, self.log), (self.at.position, &mut Vec::new()), other);
                return;
            }
        };
        let met = Some(Met::Tail(self.at, up_to));
        damages.note_at(self.family, self.log, (&segment, offset), (what, lost), met);
        // It is met again, as long as it is there.
        self.at = Cursor::START;
    }

    fn try_look(&mut self, bytes: u64, up_to: Durability) -> Result<(), JournalError> {
        let begins = self.reader.begins_at_or_before(up_to.position())?;
        if self.at.position < begins.position || self.at.position >= up_to.position() {
            self.at = begins;
        }
        if self.at.position >= up_to.position() {
            return Ok(());
        }
        let (began, mut groups) = (self.at.position, self.reader.groups(self.at, &up_to)?);
        while self.reader.bytes_between(began, self.at.position) < bytes && groups.next_group()?.is_some() {
            self.at = groups.cursor();
        }
        Ok(())
    }
}

/// The last segments of all logs of this process.
pub struct TailWatch {
    tails: Vec<(Tail<NodeReader>, DurableEnd)>,
    damages: Arc<Damages>,
}

impl TailWatch {
    /// Those of these logs, each with how far it is durable.
    pub fn new(tails: Vec<(Tail<NodeReader>, DurableEnd)>, damages: Arc<Damages>) -> TailWatch {
        TailWatch { tails, damages }
    }

    /// Reads about `bytes` on, over all logs.
    pub fn look(&mut self, bytes: u64) {
        let share = bytes / self.tails.len().max(1) as u64;
        for (tail, end) in &mut self.tails {
            tail.look(share, end.durability(), &self.damages);
        }
    }
}

#[cfg(test)]
mod tests;

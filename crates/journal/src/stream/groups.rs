//! The groups of a log that lies in a stream, in order.
//!
//! ```text
//!   epoch 1 │ A │ B, 1 of 2 ┊ epoch 4 │ C ┊ D of 1 │ E of 4 │ epoch 8 │ F          groups: A, C, F
//!             └ run of 1       void: B    └ run of 4 ends with a stranger; D and E are void
//! ```
//!
//! The rule: what counts is each writer's *run*, the messages behind its epoch message without a gap. What is behind a
//! run and before the next epoch message is void: its writer had been fenced out, and was told of none of it that it is
//! stored.

use std::ops::Range;

use tidegate_planted::{Bug, is_planted};

use super::stored::{Gathered, StoredMessages};
use super::{Stream, number_of, offset_in_group, place_of};
use crate::damage::bad_cursor;
use crate::group::{GROUP_HEADER_BYTES, GroupFault};
use crate::groups::{Found, GroupSource};
use crate::{Cursor, JournalError, Position};

/// Goes from group to group.
pub(crate) struct StreamGroups<T: Stream> {
    messages: StoredMessages<T>,
    /// The number behind the last group, and whose run it was in.
    went_on: Option<(u64, u64)>,
    /// The last group's bytes.
    image: Vec<u8>,
    first: u64,
}

impl<T: Stream> StreamGroups<T> {
    pub fn new(messages: StoredMessages<T>) -> StreamGroups<T> {
        StreamGroups { messages, went_on: None, image: Vec::new(), first: 0 }
    }

    /// Whose run goes on at `number`, which is behind a group or where the log begins; `None` at its very beginning.
    fn run_at(&self, number: u64) -> Result<Option<u64>, JournalError> {
        if let Some((at, epoch)) = self.went_on
            && at == number
        {
            return Ok(Some(epoch));
        }
        if number == 1 {
            return Ok(None);
        }
        if let Some(before) = self.messages.find(number - 1)? {
            return Ok(Some(before.epoch()));
        }
        // A log forgets whole groups: the first that is left is one that counts.
        match self.messages.extent()?.first == number && self.messages.may_forget() {
            true => Ok(Some(self.messages.get(number)?.epoch())),
            false => Err(self.messages.missing(number - 1)?),
        }
    }

    fn judge(&mut self, before: &Cursor, fault: GroupFault, is_first: bool) -> JournalError {
        // The first group after a cursor that came from elsewhere may show that the cursor is wrong, and not the log.
        if let (GroupFault::BrokenChain { first_sequence }, true) = (fault, is_first && *before != Cursor::START) {
            let what = format!("the group there, from sequence {first_sequence}, follows another history");
            return bad_cursor(before, what);
        }
        self.damaged(before, fault)
    }
}

impl<T: Stream> GroupSource for StreamGroups<T> {
    fn find(&mut self, before: &Cursor, up_to: Position, is_first: bool) -> Result<Found, JournalError> {
        if offset_in_group(before.position) != 0 {
            return Err(bad_cursor(before, "it is inside of a group".into()));
        }
        let (mut number, limit) = (number_of(before.position).max(1), number_of(up_to));
        let mut run = self.run_at(number)?;
        while number < limit {
            let stored = self.messages.get(number)?;
            if stored.is_epoch() {
                run = Some(number);
                number += 1;
                continue;
            }
            if run != Some(stored.epoch()) {
                run = None;
                number += 1;
                continue;
            }
            match self.messages.gather(&stored, limit)? {
                Gathered::Void { next } => {
                    if is_planted(Bug::VoidGroupKept) {
                        return Err(self.messages.damaged(number, 0, "a group without its last message".into()));
                    }
                    number = next;
                }
                Gathered::Whole { image, next } => {
                    (self.image, self.first) = (image, number);
                    let header = self.messages.verify(number, &self.image);
                    let header = header.and_then(|header| header.continues(before).map(|()| header));
                    let header = header.map_err(|fault| self.judge(before, fault, is_first))?;
                    self.went_on = Some((next, stored.epoch()));
                    let body = GROUP_HEADER_BYTES..self.image.len();
                    return Ok(Found { header, body, end: self.messages.end_of(&header, next) });
                }
            }
        }
        Err(bad_cursor(before, format!("no group ends at position {up_to}")))
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.image[range]
    }

    /// It never reads further than the group that is asked for.
    fn read_ahead(&mut self, _: usize) {}

    fn prefetch(&mut self) {}

    fn forget_ahead(&mut self) {
        self.image = Vec::new();
    }

    fn held_bytes(&self) -> usize {
        self.image.capacity()
    }

    fn damaged(&mut self, before: &Cursor, fault: GroupFault) -> JournalError {
        let offset = match fault {
            GroupFault::Record { at, .. } => at.0.saturating_sub(place_of(self.first).0) as usize,
            _ => 0,
        };
        self.messages.damaged(self.first.max(number_of(before.position)), offset, fault.to_string())
    }

    fn exchanged(&mut self, _before: &Cursor, what: String) -> JournalError {
        self.messages.damaged(self.first, 0, format!("the group there was exchanged: {what}"))
    }
}

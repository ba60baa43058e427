//! Where a log ends, without reading all of it.
//!
//! From the last message backwards: epoch messages and what is void are passed over, down to the last group that
//! counts. Whether a message is in its writer's run shows without a walk to that writer's epoch message, because each
//! says up to where its writer already knew all to be stored: only the messages behind that, which were in flight
//! together, are looked at.

use super::message::MessageKind;
use super::stored::{Gathered, Stored, StoredMessages};
use super::{Stream, place_of};
use crate::{Cursor, JournalError};

/// What stands at the end of a log.
pub(crate) struct Tail {
    /// The place behind the last group.
    pub end: Cursor,
    /// Number of the last group's first message; zero if there is no group.
    pub last_group: u64,
    /// Bytes of void messages behind it.
    pub void_bytes: u64,
}

/// Looks for the last group among the messages up to number `last`.
pub(crate) fn find_tail<T: Stream>(messages: &StoredMessages<T>, last: u64) -> Result<Tail, JournalError> {
    let begins = messages.extent()?.first;
    if begins > 1 && !messages.may_forget() {
        return Err(messages.damaged(1, 0, "the message is missing: the log has lost its beginning".into()));
    }
    let (mut number, mut void_bytes) = (last, 0);
    while number >= begins {
        let stored = messages.get(number)?;
        let MessageKind::Part { first, part, parts, .. } = stored.header.kind else {
            number -= 1;
            continue;
        };
        let is_last = part + 1 == parts;
        if !is_last || !is_in_run(messages, &stored, begins)? {
            void_bytes += stored.bytes() as u64;
            number -= 1;
            continue;
        }
        let head = messages.get(first)?;
        let Gathered::Whole { image, next } = messages.gather(&head, number + 1)? else {
            return Err(messages.damaged(first, 0, "the group's messages are not of one writer".into()));
        };
        let header = messages.verify(first, &image).map_err(|fault| messages.damaged(first, 0, fault.to_string()))?;
        return Ok(Tail { end: messages.end_of(&header, next), last_group: first, void_bytes });
    }
    if begins > 1 {
        // A log that forgets keeps its last group.
        return Err(messages.missing(begins.max(last))?);
    }
    Ok(Tail { end: Cursor::START, last_group: 0, void_bytes })
}

/// Whether all messages from `stored`'s epoch message up to it are of the same writer.
fn is_in_run<T: Stream>(messages: &StoredMessages<T>, stored: &Stored, begins: u64) -> Result<bool, JournalError> {
    let MessageKind::Part { epoch, settled, .. } = stored.header.kind else { return Ok(true) };
    for number in (settled + 1).max(begins)..stored.header.number {
        let other = messages.get(number)?;
        if other.is_epoch() || other.epoch() != epoch {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The position at which a log begins whose first message has this number.
pub(crate) fn begins_at(first: u64) -> crate::Position {
    if first <= 1 { Cursor::START.position } else { place_of(first) }
}

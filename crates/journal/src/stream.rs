//! The log of one shard in a replicated stream: its groups are messages, and nothing in it is ever cut or written over.
//!
//! ```text
//!   begin_group ─▶ fill ─▶ submit: seal, cut into messages ─▶ Publisher ══ publish(expected last, message) ══▶ Stream
//!   poll_durable ◀─ groups all of whose messages are stored ◀─┘   ▲ stored, refused, unknown: looked up ═══════╝
//!
//!   stream:  │ epoch │ group, 1 of 2 │ group, 2 of 2 │ group │ group, 1 of 2 ┊ epoch │ group │ …
//!               └──────────── one writer's run ──────────────┘  void: no end └ the next writer's
//! ```
//!
//! Promise: who opens a log fences out whoever wrote before: the first thing that an opening does is to append an
//! *epoch message*, and from then on no message of an older writer counts, whenever it arrives. A group is durable with
//! the last of its messages. Only *delay* reaches the shard: a message whose outcome is unknown is read back under the
//! number that it must have.
//!
//! Positions: number of the group's first message, shifted by 22 bits, and the offset inside the group. They are known
//! before a group is submitted, because the fence fixes the number of the next message. Bytes:
//! `docs/formats/stream.md`.
//!
//! Why sealing happens on the shard's thread, other than in [`crate::LocalLog`]: there is no write and no sync to be
//! waited for. If it should cost too much there, it can move to a companion without a change of the format.

mod groups;
mod log;
pub mod message;
mod publisher;
mod reader;
mod stored;
mod tail;

pub use crate::disk::stream::{
    Extent, FakeStream, FakeStreams, Message, Outcome, Stream, StreamError, StreamWeather, Streams,
};
pub use log::{StreamLog, StreamLogs, StreamOptions};
pub use reader::StreamReader;

use crate::limits::GROUP_BYTES_MAX;
use crate::{JournalError, LogId, Position};

/// Bits of a position that say where in a group it is.
const OFFSET_BITS: u32 = 22;
/// No stream is that long: positions stay far below what a number can hold.
pub(crate) const NUMBER_MAX: u64 = 1 << 40;

const _: () = assert!(GROUP_BYTES_MAX <= 1 << OFFSET_BITS, "every offset inside a group fits its bits");

/// The position of a group whose first message has this number.
pub(crate) fn place_of(number: u64) -> Position {
    assert!(number <= NUMBER_MAX, "no stream is that long");
    Position(number << OFFSET_BITS)
}

/// Number of the first message of the group that holds this position.
pub(crate) fn number_of(position: Position) -> u64 {
    position.0 >> OFFSET_BITS
}

/// How far inside its group a position is.
fn offset_in_group(position: Position) -> usize {
    (position.0 & ((1 << OFFSET_BITS) - 1)) as usize
}

/// Names a message as file names name segments, for errors and people.
pub fn message_name(number: u64) -> String {
    format!("message-{number:020}")
}

fn unavailable(log: LogId, doing: &'static str) -> impl FnOnce(StreamError) -> JournalError {
    move |cause| JournalError::Unavailable { log: log.to_string(), doing, cause: cause.0 }
}

#[cfg(test)]
mod tests;

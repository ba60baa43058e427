//! The bytes of a message, and what must hold of them before they are believed.
//!
//! ```text
//!   header (84 bytes) │ payload          of an epoch message: who writes from now on
//!                                        of a part: so many bytes of a group (docs/formats/journal.md)
//! ```
//!
//! Why each message names its epoch, its group's chain hash and what its writer knew: see `docs/formats/stream.md`.

use std::fmt;

use super::{Message, NUMBER_MAX};
use crate::group::{checksum, hash_at, u32_at, u64_at};
use crate::limits::{GROUP_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::{ChainHash, LogId};

/// The first bytes of every message.
pub const MESSAGE_MAGIC: [u8; 4] = *b"TGSM";
/// The version of this format.
pub const MESSAGE_FORMAT_VERSION: u8 = 1;
/// Bytes before a message's payload.
pub const MESSAGE_HEADER_BYTES: usize = 84;

/// Bytes of an epoch message's payload.
const WRITER_BYTES: usize = 8;
const CHECKSUM_OFFSET: usize = MESSAGE_HEADER_BYTES - 4;

const _: () = assert!(GROUP_BYTES_MAX / 512 < u16::MAX as usize, "the parts of a group can be counted");
const _: () = assert!(MESSAGE_HEADER_BYTES + 512 <= MESSAGE_BYTES_MAX, "a message holds a part");

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A writer begins.
    Epoch {
        /// A random number of its process.
        writer: u64,
    },
    /// A part of a group.
    Part {
        /// Number of its writer's epoch message.
        epoch: u64,
        /// Up to this number its writer knew all messages to be stored, when it wrote this one; its epoch message at
        /// least.
        settled: u64,
        /// Number of the group's first message.
        first: u64,
        /// Which part it is, from 0.
        part: u16,
        /// How many parts the group has.
        parts: u16,
        /// Chain hash of the group.
        chain: ChainHash,
    },
}

/// A message's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// Whose it is.
    pub log: LogId,
    /// Its number in the stream.
    pub number: u64,
    /// What it is.
    pub kind: MessageKind,
}

impl MessageHeader {
    /// Number of the epoch message of its writer.
    pub fn epoch(&self) -> u64 {
        match self.kind {
            MessageKind::Epoch { .. } => self.number,
            MessageKind::Part { epoch, .. } => epoch,
        }
    }

    /// The whole message. The payload of an epoch message is made here; `payload` is a part's.
    pub fn encode(&self, payload: &[u8]) -> Message {
        let mut bytes = vec![0; MESSAGE_HEADER_BYTES];
        let [low, high] = self.log.shard.to_le_bytes();
        bytes[0..4].copy_from_slice(&MESSAGE_MAGIC);
        bytes[4..8].copy_from_slice(&[MESSAGE_FORMAT_VERSION, self.log.family, low, high]);
        bytes[8..16].copy_from_slice(&self.log.directory.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.epoch().to_le_bytes());
        match self.kind {
            MessageKind::Epoch { writer } => {
                bytes[32..40].copy_from_slice(&self.number.to_le_bytes());
                bytes.extend_from_slice(&writer.to_le_bytes());
            }
            MessageKind::Part { settled, first, part, parts, chain, .. } => {
                assert_eq!(first + u64::from(part), self.number, "the parts of a group follow each other");
                bytes[24..32].copy_from_slice(&settled.to_le_bytes());
                bytes[32..40].copy_from_slice(&first.to_le_bytes());
                bytes[40..42].copy_from_slice(&part.to_le_bytes());
                bytes[42..44].copy_from_slice(&parts.to_le_bytes());
                bytes[48..80].copy_from_slice(&chain.0);
                bytes.extend_from_slice(payload);
            }
        }
        let payload_bytes = (bytes.len() - MESSAGE_HEADER_BYTES) as u32;
        bytes[44..48].copy_from_slice(&payload_bytes.to_le_bytes());
        let sum = checksum(&bytes[..CHECKSUM_OFFSET]) ^ checksum(&bytes[MESSAGE_HEADER_BYTES..]);
        bytes[CHECKSUM_OFFSET..MESSAGE_HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        assert!(bytes.len() <= MESSAGE_BYTES_MAX, "a message has at most {MESSAGE_BYTES_MAX} bytes");
        bytes.into()
    }
}

/// Why bytes are not the message that should be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFault {
    /// It does not begin like a message.
    NoMessage,
    /// It has fewer or more bytes than it says.
    Length,
    /// A message of a format that this program does not know.
    UnknownVersion(u8),
    /// Its checksum does not match.
    Checksum,
    /// The checksum matches, but the numbers cannot be: not written by this program.
    Absurd,
}

impl fmt::Display for MessageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageFault::NoMessage => write!(f, "it does not begin like a message of a log"),
            MessageFault::Length => write!(f, "it is not as long as it says"),
            MessageFault::UnknownVersion(version) => {
                write!(f, "a message of format version {version}; this program knows {MESSAGE_FORMAT_VERSION}")
            }
            MessageFault::Checksum => write!(f, "the message does not match its checksum"),
            MessageFault::Absurd => write!(f, "a message whose numbers contradict each other"),
        }
    }
}

/// Reads a message; checks all that can be known without the stream. Takes any bytes.
pub fn decode(bytes: &[u8]) -> Result<(MessageHeader, &[u8]), MessageFault> {
    if !bytes.starts_with(&MESSAGE_MAGIC) {
        return Err(MessageFault::NoMessage);
    }
    let Some((head, payload)) = bytes.split_first_chunk::<MESSAGE_HEADER_BYTES>() else {
        return Err(MessageFault::Length);
    };
    if head[4] != MESSAGE_FORMAT_VERSION {
        return Err(MessageFault::UnknownVersion(head[4]));
    }
    if bytes.len() > MESSAGE_BYTES_MAX || payload.len() != u32_at(head, 44) as usize {
        return Err(MessageFault::Length);
    }
    if checksum(&head[..CHECKSUM_OFFSET]) ^ checksum(payload) != u32_at(head, CHECKSUM_OFFSET) {
        return Err(MessageFault::Checksum);
    }
    let u16_at = |offset: usize| u16::from_le_bytes([head[offset], head[offset + 1]]);
    let log = LogId { directory: u64_at(head, 8), family: head[5], shard: u16_at(6) };
    let (epoch, settled, first) = (u64_at(head, 16), u64_at(head, 24), u64_at(head, 32));
    let (part, parts, chain) = (u16_at(40), u16_at(42), hash_at(head, 48));
    if parts == 0 {
        let is_bounded = (1..NUMBER_MAX).contains(&first)
            && (epoch, settled, part, chain) == (first, 0, 0, ChainHash::default())
            && payload.len() == WRITER_BYTES;
        let kind = MessageKind::Epoch { writer: if is_bounded { u64_at(payload, 0) } else { 0 } };
        return if is_bounded {
            Ok((MessageHeader { log, number: first, kind }, payload))
        } else {
            Err(MessageFault::Absurd)
        };
    }
    let number = first.saturating_add(u64::from(part));
    let is_bounded = part < parts
        && number < NUMBER_MAX
        && (1..first).contains(&epoch)
        && (epoch..first).contains(&settled)
        && !payload.is_empty();
    let kind = MessageKind::Part { epoch, settled, first, part, parts, chain };
    if is_bounded { Ok((MessageHeader { log, number, kind }, payload)) } else { Err(MessageFault::Absurd) }
}

#[cfg(test)]
mod tests;

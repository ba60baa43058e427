//! The bytes of a segment file around its groups: the header before them, and the mark behind the last one.
//!
//! ```text
//!   segment-00000000000000000000.tgj
//!   │ header, 4096 │ group │ group │ … │ mark │ zeros, allocated ahead …
//!                                        └ overwritten by the next group
//! ```
//!
//! A mark says "everything before me is durable" and is no part of the log: it has no position of its own. Why it
//! exists: a flipped bit in the very last group could otherwise not be told from a write that a crash had torn.

use crate::group::{GROUP_HEADER_BYTES, checksum, hash_at, log_at, u32_at, u64_at, version_and_log};
use crate::{Cursor, LogId, Position, Sequence};

/// Bytes of a segment file before its first group: one page, so that groups begin on a page of their own.
pub const SEGMENT_HEADER_BYTES: usize = 4096;
/// The first bytes of every segment file.
pub const SEGMENT_MAGIC: [u8; 8] = *b"TIDESEGM";
/// Bytes of a mark.
pub const MARK_BYTES: usize = 80;
/// The first bytes of every mark.
pub const MARK_MAGIC: [u8; 4] = *b"TGMK";

const SEGMENT_CHECKSUM_OFFSET: usize = 72;
const MARK_CHECKSUM_OFFSET: usize = MARK_BYTES - 4;
const _: () = assert!(MARK_BYTES <= GROUP_HEADER_BYTES, "a group's header overwrites the whole mark in its place");

/// A file that has room but no place in the log yet.
pub(crate) const SPARE_NAME: &str = "spare.tgj";

/// Name of the segment whose first group stands at `first`.
pub fn segment_name(first: Position) -> String {
    format!("segment-{:020}.tgj", first.0)
}

/// The first position in a segment of this name; `None` for any other file.
pub fn parse_segment_name(name: &str) -> Option<Position> {
    let digits = name.strip_prefix("segment-")?.strip_suffix(".tgj")?;
    let canonical = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if canonical { digits.parse().ok().map(Position) } else { None }
}

/// The offset of `at` in the file of the segment that begins at `first`.
pub(crate) fn offset_of(first: Position, at: Position) -> u64 {
    assert!(first <= at, "position {at} is before the segment at {first}");
    let offset = (at.0 - first.0).checked_add(SEGMENT_HEADER_BYTES as u64);
    offset.expect("no file is that long")
}

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Whose segment it is.
    pub log: LogId,
    /// The place of its first group.
    pub first: Cursor,
}

/// Why bytes are not the segment header or mark they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentFault {
    /// Not the magic bytes.
    NoMagic,
    /// The checksum does not match, or bytes are missing.
    Checksum,
    /// A format that this program does not know.
    UnknownVersion(u8),
}

impl SegmentHeader {
    /// The header's page.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; SEGMENT_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&version_and_log(&self.log));
        bytes[16..24].copy_from_slice(&self.log.directory.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.position.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first.sequence.0.to_le_bytes());
        bytes[40..72].copy_from_slice(&self.first.chain.0);
        let checksum = checksum(&bytes[..SEGMENT_CHECKSUM_OFFSET]);
        bytes[SEGMENT_CHECKSUM_OFFSET..SEGMENT_CHECKSUM_OFFSET + 4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header from the start of a file.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, SegmentFault> {
        if !bytes.starts_with(&SEGMENT_MAGIC) {
            return Err(SegmentFault::NoMagic);
        }
        let bytes: &[u8; SEGMENT_CHECKSUM_OFFSET + 4] = bytes.first_chunk().ok_or(SegmentFault::Checksum)?;
        if checksum(&bytes[..SEGMENT_CHECKSUM_OFFSET]) != u32_at(bytes, SEGMENT_CHECKSUM_OFFSET) {
            return Err(SegmentFault::Checksum);
        }
        let log = log_at(bytes, 8, 16).map_err(SegmentFault::UnknownVersion)?;
        Ok(SegmentHeader { log, first: cursor_at(bytes, 24) })
    }
}

/// Which mark it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The log ended here when nothing more was to be written; the next group goes in its place.
    Tail,
    /// The segment is complete; the log goes on in the next one, which existed before this mark was written.
    Sealed,
}

/// "Everything before `end` is durable", written at `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whose log it is.
    pub log: LogId,
    /// Which mark it is.
    pub kind: MarkKind,
    /// The place where it stands.
    pub end: Cursor,
}

impl Mark {
    /// The mark's bytes.
    pub fn encode(&self) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[0..4].copy_from_slice(&MARK_MAGIC);
        bytes[4..8].copy_from_slice(&version_and_log(&self.log));
        bytes[8..16].copy_from_slice(&self.log.directory.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.end.position.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.end.sequence.0.to_le_bytes());
        bytes[32..64].copy_from_slice(&self.end.chain.0);
        let kind: u16 = match self.kind {
            MarkKind::Tail => 1,
            MarkKind::Sealed => 2,
        };
        bytes[64..66].copy_from_slice(&kind.to_le_bytes());
        let checksum = checksum(&bytes[..MARK_CHECKSUM_OFFSET]);
        bytes[MARK_CHECKSUM_OFFSET..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a mark from the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Mark, SegmentFault> {
        if !bytes.starts_with(&MARK_MAGIC) {
            return Err(SegmentFault::NoMagic);
        }
        let bytes: &[u8; MARK_BYTES] = bytes.first_chunk().ok_or(SegmentFault::Checksum)?;
        if checksum(&bytes[..MARK_CHECKSUM_OFFSET]) != u32_at(bytes, MARK_CHECKSUM_OFFSET) {
            return Err(SegmentFault::Checksum);
        }
        let log = log_at(bytes, 4, 8).map_err(SegmentFault::UnknownVersion)?;
        let kind = match u16::from_le_bytes([bytes[64], bytes[65]]) {
            1 => MarkKind::Tail,
            2 => MarkKind::Sealed,
            _ => return Err(SegmentFault::Checksum),
        };
        Ok(Mark { log, kind, end: cursor_at(bytes, 16) })
    }
}

fn cursor_at(bytes: &[u8], offset: usize) -> Cursor {
    Cursor {
        position: Position(u64_at(bytes, offset)),
        sequence: Sequence(u64_at(bytes, offset + 8)),
        chain: hash_at(bytes, offset + 16),
    }
}

#[cfg(test)]
mod tests;

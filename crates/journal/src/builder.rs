//! A commit group while it fills.
//!
//! ```text
//!   base                 base + header
//!   │                    │ len 0 payload │ len 0 payload │ …        checksums and hash are put in by the writer
//! ```
//!
//! Why so little happens here: this is the shard's thread, and every nanosecond counts per record.

use crate::group::{GROUP_HEADER_BYTES, RECORD_HEADER_BYTES};
use crate::limits::RECORD_BYTES_MAX;
use crate::{Position, Sequence};

/// Fills one commit group. Records are encoded straight into its buffer, which is recycled.
#[derive(Debug, Default)]
pub struct GroupBuilder {
    base: Position,
    first_sequence: Sequence,
    records: u32,
    limits: GroupLimits,
    body: Vec<u8>,
}

/// How large a group and each of its records may become, see [`crate::Options`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupLimits {
    pub group_bytes_max: usize,
    pub record_bytes_max: usize,
}

/// Why a record was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The next group has room for it.
    Here,
    /// No group has: it is larger than a record may be.
    Ever,
}

impl GroupBuilder {
    /// An empty group at `base` whose first record will be `first_sequence`; `recycled` is emptied and reused.
    pub(crate) fn new(
        base: Position,
        first_sequence: Sequence,
        limits: GroupLimits,
        mut recycled: Vec<u8>,
    ) -> GroupBuilder {
        assert!(first_sequence.0 >= 1, "records are numbered from 1");
        assert!(
            GROUP_HEADER_BYTES + RECORD_HEADER_BYTES + limits.record_bytes_max <= limits.group_bytes_max,
            "a group holds the largest record"
        );
        recycled.clear();
        GroupBuilder { base, first_sequence, records: 0, limits, body: recycled }
    }

    /// Lets `write` encode one record (1 to [`crate::Options::record_bytes_max`] bytes) at the end of the buffer;
    /// returns where it will stand.
    ///
    /// Panics when the record is empty or too large, or the group over its limit: ask [`GroupBuilder::has_room`] first.
    #[inline]
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Position {
        let at = self.body.len();
        self.body.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        write(&mut self.body);
        let len = self.body.len().wrapping_sub(at + RECORD_HEADER_BYTES);
        let GroupLimits { group_bytes_max, record_bytes_max } = self.limits;
        assert!(len.wrapping_sub(1) < record_bytes_max, "a record has 1 to {record_bytes_max} bytes");
        assert!(self.bytes() <= group_bytes_max, "a group has at most {group_bytes_max} bytes");
        self.count(at, len)
    }

    /// Lets `write` encode one record whose size only it knows. When that does not fit, nothing was appended, and `Err`
    /// says whether a group that holds nothing else could take it.
    #[inline]
    pub fn try_append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Position, NoRoom> {
        let at = self.body.len();
        self.body.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        write(&mut self.body);
        let payload_bytes = self.body.len().wrapping_sub(at + RECORD_HEADER_BYTES);
        // One of the largest size fits a group that holds nothing else: `GroupBuilder::new` asserts it.
        let fault = match payload_bytes {
            _ if payload_bytes > self.limits.record_bytes_max => Some(NoRoom::Ever),
            _ if self.bytes() > self.limits.group_bytes_max => Some(NoRoom::Here),
            _ => None,
        };
        if let Some(fault) = fault {
            self.body.truncate(at);
            return Err(fault);
        }
        Ok(self.count(at, payload_bytes))
    }

    #[inline]
    fn count(&mut self, at: usize, payload_bytes: usize) -> Position {
        assert!(payload_bytes > 0, "a record has at least a byte");
        self.body[at..at + 4].copy_from_slice(&(payload_bytes as u32).to_le_bytes());
        self.records += 1;
        Position(self.base.0 + (GROUP_HEADER_BYTES + at) as u64)
    }

    /// Whether a further record of `payload_bytes` fits.
    #[inline]
    pub fn has_room(&self, payload_bytes: usize) -> bool {
        self.bytes() + RECORD_HEADER_BYTES + payload_bytes <= self.limits.group_bytes_max
    }

    /// Bytes on disk so far, group header and record headers included.
    #[inline]
    pub fn bytes(&self) -> usize {
        GROUP_HEADER_BYTES + self.body.len()
    }

    /// Records so far.
    #[inline]
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Whether nothing has been appended.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Where the group's header will stand.
    #[inline]
    pub fn base(&self) -> Position {
        self.base
    }

    /// Sequence of the first record.
    #[inline]
    pub fn first_sequence(&self) -> Sequence {
        self.first_sequence
    }

    /// Sequence of the last record appended; one before [`GroupBuilder::first_sequence`] when empty.
    #[inline]
    pub fn last_sequence(&self) -> Sequence {
        Sequence(self.first_sequence.0 + u64::from(self.records) - 1)
    }

    /// Where the next record will stand.
    #[inline]
    pub fn next_position(&self) -> Position {
        Position(self.base.0 + self.bytes() as u64)
    }

    /// The record that `append` put at `at`; `None` when `at` is not a record's position in this group.
    pub fn record_at(&self, at: Position) -> Option<&[u8]> {
        let offset = at.0.checked_sub(self.base.0 + GROUP_HEADER_BYTES as u64)?;
        record_in(&self.body, usize::try_from(offset).ok()?)
    }

    /// The records with their headers, checksums still zero.
    pub(crate) fn into_body(self) -> Vec<u8> {
        assert_eq!(self.records == 0, self.body.is_empty(), "records have bytes, and bytes are records'");
        assert!(self.body.len() >= self.records as usize * (RECORD_HEADER_BYTES + 1), "a record has at least a byte");
        self.body
    }
}

/// The payload of the record whose header is at `offset` of `body`. The caller vouches that a record begins there.
pub(crate) fn record_in(body: &[u8], offset: usize) -> Option<&[u8]> {
    let rest = body.get(offset..)?;
    let len = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?) as usize;
    if len == 0 || len > RECORD_BYTES_MAX { None } else { rest.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + len) }
}

#[cfg(test)]
mod tests;

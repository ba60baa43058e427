//! One byte of a group that is not what was written: found by a checksum, proven by the chain hash, and put right.
//!
//! ```text
//!   header │ record │ rec✗rd │ record       checksum of that record ─▶ which byte, and what it was
//!   └──────────── chain hash ────────┘ ◀─── only what was written has it
//! ```
//!
//! Promise: a group is put right only if with that byte all of it has its chain hash and follows the one before. So
//! nothing is guessed: whoever could make another group that passes could have written it.
//!
//! Why one byte: of one, a CRC says where it is, in one pass; of more it does not. Memory, cables and controllers harm
//! a bit. A disk that loses a whole sector is told and refused as ever.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::builder::record_in;
use crate::group::{
    CHECKSUM_OFFSET, GROUP_HEADER_BYTES, GroupFault, GroupHeader, RECORD_HEADER_BYTES, checksum, record_checksum,
    u32_at,
};
use crate::limits::RECORD_BYTES_MAX;
use crate::{Cursor, LogId};

/// Bytes of which one is tried after the other; each takes a hash of the group. That more than one explains a checksum
/// is rare already.
const TRIED_MAX: usize = 16;

/// A byte of a segment file that was put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MendedByte {
    /// Whose.
    pub log: LogId,
    /// The file.
    pub segment: String,
    /// Where in it.
    pub offset: u64,
    /// What stood there.
    pub found: u8,
    /// What was written there once.
    pub written: u8,
    /// It stands there again, durably. Else only what was read of it is right: the file is still being written, or
    /// cannot be.
    pub is_durable: bool,
}

/// Whom readers tell what they have put right. Who opens or reads logs without one puts nothing right.
#[derive(Clone)]
pub struct Mending {
    hear: Arc<dyn Fn(MendedByte) + Send + Sync>,
    writes: bool,
}

impl Mending {
    /// Tells `hear`, on any thread, perhaps of the same byte again.
    pub fn new(hear: impl Fn(MendedByte) + Send + Sync + 'static) -> Mending {
        Mending { hear: Arc::new(hear), writes: true }
    }

    /// The same for whoever only reads: what is read is right, and files stay as they are.
    pub fn of_reader(hear: impl Fn(MendedByte) + Send + Sync + 'static) -> Mending {
        Mending { writes: false, ..Mending::new(hear) }
    }

    /// Whether files are changed.
    pub(crate) fn writes(&self) -> bool {
        self.writes
    }

    pub(crate) fn tell(&self, byte: MendedByte) {
        (self.hear)(byte);
    }
}

impl fmt::Debug for Mending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mending")
    }
}

/// A wrong byte of some bytes, put right there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongByte {
    pub at: usize,
    pub found: u8,
    pub written: u8,
}

impl WrongByte {
    /// Makes it wrong again.
    pub fn undo(self, bytes: &mut [u8]) {
        bytes[self.at] = self.found;
    }
}

/// Puts one byte of a group's header right, if it is the header of a group behind `before` then.
pub(crate) fn mend_header(header: &mut [u8], log: LogId, before: &Cursor) -> Option<WrongByte> {
    let difference = checksum(&header[..CHECKSUM_OFFSET]) ^ u32_at(header, CHECKSUM_OFFSET);
    let candidates = explaining(difference, 0..CHECKSUM_OFFSET, CHECKSUM_OFFSET);
    put_right(header, candidates, |header| {
        GroupHeader::decode(header).is_ok_and(|header| header.follows(log, before).is_ok())
    })
}

/// Puts one byte behind `header` right, if these are the records of its group then. `group` are its bytes, with the
/// header.
pub(crate) fn mend_records(header: &GroupHeader, group: &mut [u8]) -> Option<WrongByte> {
    let (encoded, body) = group.split_at_mut(GROUP_HEADER_BYTES);
    let GroupFault::Record { at, .. } = header.first_bad_record(body)? else { return None };
    let start = (at.0 - header.base.0) as usize - GROUP_HEADER_BYTES;
    if body.len() < start + RECORD_HEADER_BYTES {
        return None;
    }
    let stored = u32_at(body, start + 4);
    let payload_of = |body: &[u8], bytes: u32| {
        let payload = start + RECORD_HEADER_BYTES..start + RECORD_HEADER_BYTES + bytes as usize;
        (1..=RECORD_BYTES_MAX as u32).contains(&bytes).then_some(payload).filter(|payload| payload.end <= body.len())
    };
    let bytes = u32_at(body, start);
    let of_content = payload_of(body, bytes).map(|payload| {
        let difference = record_checksum(at, &body[payload.clone()]) ^ stored;
        explaining(difference, payload, start + 4)
    });
    let lengths = (0..4).flat_map(|byte| (1..=u8::MAX).map(move |change| (byte, change)));
    let of_length = lengths.filter(|(byte, change)| {
        let payload = payload_of(body, bytes ^ u32::from(*change) << (8 * byte));
        // Where no record begins behind it, nothing need be summed up.
        let payload = payload.filter(|payload| payload.end == body.len() || record_in(body, payload.end).is_some());
        payload.is_some_and(|payload| record_checksum(at, &body[payload]) == stored)
    });
    let of_length = of_length.map(|(byte, change)| (start + byte, change));
    let candidates: Vec<_> = of_content.into_iter().flatten().chain(of_length).take(TRIED_MAX).collect();
    let mended = put_right(body, candidates, |body| header.check_body(encoded, body).is_ok());
    mended.map(|byte| WrongByte { at: GROUP_HEADER_BYTES + byte.at, ..byte })
}

/// Changes one byte of `bytes`, if with one of these changes it is as it should be.
fn put_right(
    bytes: &mut [u8],
    candidates: impl IntoIterator<Item = (usize, u8)>,
    is_right: impl Fn(&[u8]) -> bool,
) -> Option<WrongByte> {
    for (at, change) in candidates.into_iter().take(TRIED_MAX) {
        let found = bytes[at];
        bytes[at] ^= change;
        if is_right(bytes) {
            return Some(WrongByte { at, found, written: bytes[at] });
        }
        bytes[at] = found;
    }
    None
}

/// The bytes, each with what it has to be changed by, that explain by themselves why the checksum of `covered`, which
/// stands at `stored`, does not match: `difference` is what both have differently.
fn explaining(difference: u32, covered: Range<usize>, stored: usize) -> impl Iterator<Item = (usize, u8)> + use<> {
    let of_stored = (0..4).filter_map(move |byte| {
        let change = (difference >> (8 * byte)) as u8;
        (change != 0 && difference == u32::from(change) << (8 * byte)).then_some((stored + byte, change))
    });
    // What a wrong byte makes different in the checksum goes through the same steps for each byte behind it. Undone one
    // after the other, at its place nothing is left but the change of that byte.
    let mut left = difference;
    let of_covered = covered.rev().filter_map(move |at| {
        left = UNDONE[(left >> 24) as usize] ^ left << 8;
        (1..=u32::from(u8::MAX)).contains(&left).then_some((at, left as u8))
    });
    of_stored.chain(of_covered)
}

/// CRC-32C, by the bit, from the lowest.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// One step of the checksum undone, by the highest byte that it has left: the table of the step has each highest byte
/// once.
const UNDONE: [u32; 256] = {
    let (mut undone, mut byte) = ([0; 256], 0_u32);
    while byte < 256 {
        let (mut step, mut bit) = (byte, 0);
        while bit < 8 {
            step = step >> 1 ^ if step & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        undone[(step >> 24) as usize] = step << 8 ^ byte;
        byte += 1;
    }
    undone
};

#[cfg(test)]
mod tests;

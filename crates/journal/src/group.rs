//! The bytes of a commit group: what is written, and what must hold of bytes before they are believed.
//!
//! ```text
//!   header (120 bytes) │ record │ record │ …          record = len u32 │ checksum u32 │ payload
//!   chain = BLAKE3(header without chain and checksum ‖ all records); the header names its predecessor's chain
//! ```
//!
//! Why two kinds of proof: the checksum lets one record be read by itself and costs nanoseconds; the chain shows that
//! no group and no record was removed, added or exchanged, even by somebody who repairs checksums.

use std::fmt;

use crate::builder::record_in;
use crate::limits::{GROUP_BYTES_MAX, RECORD_BYTES_MAX};
use crate::notice::{NOTICE_BYTES_MAX, NOTICE_BYTES_MIN};
use crate::{ChainHash, Cursor, LogId, Notice, Position, Records, Sequence};

/// The first bytes of every group.
pub const GROUP_MAGIC: [u8; 4] = *b"TGGR";
/// The version of this format, in groups, segments and marks.
pub const FORMAT_VERSION: u8 = 2;
/// The version byte of a group that holds a notice instead of records: a program that knows no notices refuses it as
/// of an unknown version, and not as damage.
pub const NOTICE_GROUP_VERSION: u8 = 3;
/// Bytes of a group's header on disk.
pub const GROUP_HEADER_BYTES: usize = 120;
/// Bytes before each record's payload.
pub const RECORD_HEADER_BYTES: usize = 8;

/// A record has at least a byte.
const RECORD_BYTES_MIN: usize = RECORD_HEADER_BYTES + 1;
/// The part of the header that the chain hash covers; the hash itself and the checksum follow.
const HASHED_BYTES: usize = 80;
/// Where a header's checksum stands: it covers all before it.
pub(crate) const CHECKSUM_OFFSET: usize = GROUP_HEADER_BYTES - 4;

/// A group's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// Whose group it is.
    pub log: LogId,
    /// Sequence of its first record.
    pub first_sequence: Sequence,
    /// Where this header stands.
    pub base: Position,
    /// Everything before this position was durable when this group was written. Recovery tells damage from a torn tail
    /// by it.
    pub synced_up_to: Position,
    /// Number of records; zero in a group that holds a notice, and in no other.
    pub record_count: u32,
    /// Bytes of all records, or of the notice, with their headers.
    pub body_bytes: u32,
    /// Chain hash of the group before.
    pub previous: ChainHash,
    /// Chain hash of this group.
    pub chain: ChainHash,
}

impl GroupHeader {
    /// The place behind this group.
    pub fn end(&self) -> Cursor {
        Cursor {
            position: Position(self.base.0 + self.total_bytes() as u64),
            sequence: Sequence(self.first_sequence.0.wrapping_add(u64::from(self.record_count)).wrapping_sub(1)),
            chain: self.chain,
        }
    }

    /// Whether it holds a [`Notice`] instead of records.
    pub fn is_notice(&self) -> bool {
        self.record_count == 0
    }

    /// Bytes of header and records.
    pub fn total_bytes(&self) -> usize {
        GROUP_HEADER_BYTES + self.body_bytes as usize
    }

    /// The header's bytes, with its checksum.
    pub fn encode(&self) -> [u8; GROUP_HEADER_BYTES] {
        let mut bytes = [0; GROUP_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&GROUP_MAGIC);
        bytes[4..8].copy_from_slice(&version_and_log(&self.log));
        if self.is_notice() {
            bytes[4] = NOTICE_GROUP_VERSION;
        }
        bytes[8..16].copy_from_slice(&self.log.directory.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_sequence.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.base.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.synced_up_to.0.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.record_count.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[48..80].copy_from_slice(&self.previous.0);
        bytes[80..112].copy_from_slice(&self.chain.0);
        let checksum = checksum(&bytes[..CHECKSUM_OFFSET]);
        bytes[CHECKSUM_OFFSET..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a header from the start of `bytes`; only its own checksum and bounds are checked.
    pub fn decode(bytes: &[u8]) -> Result<GroupHeader, GroupFault> {
        if !bytes.starts_with(&GROUP_MAGIC) {
            return Err(GroupFault::NoGroup);
        }
        let bytes: &[u8; GROUP_HEADER_BYTES] = bytes.first_chunk().ok_or(GroupFault::Truncated)?;
        if checksum(&bytes[..CHECKSUM_OFFSET]) != u32_at(bytes, CHECKSUM_OFFSET) {
            return Err(GroupFault::HeaderChecksum);
        }
        let log = match bytes[4] {
            FORMAT_VERSION | NOTICE_GROUP_VERSION => log_after(bytes, 4, 8),
            other => return Err(GroupFault::UnknownVersion(other)),
        };
        let header = GroupHeader {
            log,
            first_sequence: Sequence(u64_at(bytes, 16)),
            base: Position(u64_at(bytes, 24)),
            synced_up_to: Position(u64_at(bytes, 32)),
            record_count: u32_at(bytes, 40),
            body_bytes: u32_at(bytes, 44),
            previous: hash_at(bytes, 48),
            chain: hash_at(bytes, 80),
        };
        let bounded = header.total_bytes() <= GROUP_BYTES_MAX
            && header.base.0.checked_add(GROUP_BYTES_MAX as u64).is_some()
            && header.first_sequence.0 >= 1
            && header.is_notice() == (bytes[4] == NOTICE_GROUP_VERSION)
            && header.has_plausible_body()
            && header.first_sequence.0.checked_add(u64::from(header.record_count)).is_some()
            && header.synced_up_to <= header.base;
        if bounded { Ok(header) } else { Err(GroupFault::Absurd) }
    }

    fn has_plausible_body(&self) -> bool {
        let bytes = self.body_bytes as usize;
        let notice = RECORD_HEADER_BYTES + NOTICE_BYTES_MIN..=RECORD_HEADER_BYTES + NOTICE_BYTES_MAX;
        match self.is_notice() {
            true => notice.contains(&bytes),
            false => bytes / RECORD_BYTES_MIN >= self.record_count as usize,
        }
    }

    /// Whether this header stands right behind `before` in the log `log`.
    pub fn follows(&self, log: LogId, before: &Cursor) -> Result<(), GroupFault> {
        if self.log != log {
            return Err(GroupFault::ForeignLog(self.log));
        }
        if self.base != before.position {
            return Err(GroupFault::WrongPlace(self.base));
        }
        self.continues(before)
    }

    /// Whether this group goes on with the records and the chain of `before`, wherever it stands.
    pub(crate) fn continues(&self, before: &Cursor) -> Result<(), GroupFault> {
        if self.previous != before.chain || self.first_sequence.0 != before.sequence.0 + 1 {
            return Err(GroupFault::BrokenChain { first_sequence: self.first_sequence });
        }
        Ok(())
    }

    /// Checks the records of this group, `body`, against the header.
    ///
    /// The chain hash covers the record checksums too; they are looked at only to name the bad record when it does not
    /// match.
    pub fn check_body(&self, encoded: &[u8], body: &[u8]) -> Result<(), GroupFault> {
        debug_assert_eq!(body.len(), self.body_bytes as usize);
        if chain_hash(&encoded[..HASHED_BYTES], body) != self.chain {
            return Err(self.first_bad_record(body).unwrap_or(GroupFault::ChainHash));
        }
        let mut parts = self.parts(body);
        let count = parts.by_ref().count();
        let expected = if self.is_notice() { 1 } else { self.record_count as usize };
        let is_whole = parts.is_exhausted() && count == expected && self.is_notice() == self.notice(body).is_some();
        if is_whole { Ok(()) } else { Err(GroupFault::Absurd) }
    }

    /// The notice in `body`, if this group holds one.
    pub(crate) fn notice(&self, body: &[u8]) -> Option<Notice> {
        if self.is_notice() { Notice::decode(record_in(body, 0)?) } else { None }
    }

    pub(crate) fn first_bad_record(&self, body: &[u8]) -> Option<GroupFault> {
        let mut records = self.parts(body);
        for (sequence, at, payload) in records.by_ref() {
            let checksum = u32_at(body, (at.0 - self.base.0) as usize - GROUP_HEADER_BYTES + 4);
            if checksum != record_checksum(at, payload) {
                return Some(GroupFault::Record { sequence, at });
            }
        }
        // Where no record can begin, the iteration ends early.
        let (sequence, at) = records.place();
        if records.is_exhausted() { None } else { Some(GroupFault::Record { sequence, at }) }
    }

    /// Iterates over the records in `body`; there are none in a notice.
    pub(crate) fn records<'a>(&self, body: &'a [u8]) -> Records<'a> {
        self.parts(if self.is_notice() { &[] } else { body })
    }

    /// Iterates over what has a length and a checksum in `body`: records, or the notice.
    fn parts<'a>(&self, body: &'a [u8]) -> Records<'a> {
        Records::new(body, self.first_sequence, Position(self.base.0 + GROUP_HEADER_BYTES as u64))
    }
}

/// Why bytes are not the group that should be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupFault {
    /// No group begins here.
    NoGroup,
    /// The bytes end before the group does.
    Truncated,
    /// The header's checksum does not match.
    HeaderChecksum,
    /// A group of a format that this program does not know.
    UnknownVersion(u8),
    /// Checksums match, but the numbers cannot be: not written by this program.
    Absurd,
    /// A group of another log.
    ForeignLog(LogId),
    /// A group that says it stands elsewhere.
    WrongPlace(Position),
    /// A good group that does not follow the one before it.
    BrokenChain {
        /// Sequence that it says it begins with.
        first_sequence: Sequence,
    },
    /// A record whose checksum does not match.
    Record {
        /// Its sequence.
        sequence: Sequence,
        /// Where it stands.
        at: Position,
    },
    /// Every record's checksum matches, but not the hash of the group: changed by somebody who repaired the checksums.
    ChainHash,
}

impl fmt::Display for GroupFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupFault::NoGroup => write!(f, "no group begins here"),
            GroupFault::Truncated => write!(f, "the file ends within a group"),
            GroupFault::HeaderChecksum => write!(f, "the group header's checksum does not match"),
            GroupFault::UnknownVersion(version) => {
                write!(f, "a group of format version {version}; this program knows {FORMAT_VERSION}")
            }
            GroupFault::Absurd => write!(f, "a group whose numbers contradict each other"),
            GroupFault::ForeignLog(log) => {
                write!(f, "a group of {log}")
            }
            GroupFault::WrongPlace(says) => write!(f, "a group that belongs to position {says}"),
            GroupFault::BrokenChain { first_sequence } => {
                write!(f, "the group from sequence {first_sequence} does not continue the chain of the group before it")
            }
            GroupFault::Record { sequence, at } => {
                write!(f, "record {sequence} at position {at} does not match its checksum")
            }
            GroupFault::ChainHash => {
                write!(
                    f,
                    "the records match their checksums but not the group's chain hash: they were changed on purpose"
                )
            }
        }
    }
}

/// A whole group, checked by itself.
#[derive(Debug)]
pub struct DecodedGroup<'a> {
    /// Its header.
    pub header: GroupHeader,
    /// Its records.
    pub body: &'a [u8],
}

impl<'a> DecodedGroup<'a> {
    /// Its records in order.
    pub fn records(&self) -> Records<'a> {
        self.header.records(self.body)
    }
}

/// Reads the group at the start of `bytes` and checks everything that can be known without its predecessor.
///
/// Takes time linear in the group, at most [`GROUP_BYTES_MAX`], and no memory.
pub fn decode(bytes: &[u8]) -> Result<DecodedGroup<'_>, GroupFault> {
    let header = GroupHeader::decode(bytes)?;
    let body = bytes.get(GROUP_HEADER_BYTES..header.total_bytes()).ok_or(GroupFault::Truncated)?;
    header.check_body(bytes, body)?;
    Ok(DecodedGroup { header, body })
}

/// What a group is sealed with, beside its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seal {
    pub log: LogId,
    pub before: Cursor,
    pub synced_up_to: Position,
    /// Zero for a notice.
    pub record_count: u32,
}

/// Appends a group's bytes to `image`: header, records with their checksums. Returns the place behind it.
pub(crate) fn seal(seal: Seal, body: &[u8], image: &mut Vec<u8>) -> Cursor {
    let start = image.len();
    image.extend_from_slice(&[0; GROUP_HEADER_BYTES]);
    image.extend_from_slice(body);
    let sealed = &mut image[start + GROUP_HEADER_BYTES..];
    let first = seal.before.position.0 + GROUP_HEADER_BYTES as u64;
    let mut offset = 0;
    while let Some(payload) = record_in(sealed, offset) {
        let len = payload.len();
        let checksum = record_checksum(Position(first + offset as u64), payload);
        sealed[offset + 4..offset + 8].copy_from_slice(&checksum.to_le_bytes());
        offset += RECORD_HEADER_BYTES + len;
    }
    assert_eq!(offset, body.len(), "a group consists of whole records");
    assert!(offset > 0, "a group has records, or a notice");
    assert!(seal.synced_up_to <= seal.before.position, "only what is before a group was durable when it was written");
    assert!(GROUP_HEADER_BYTES + body.len() <= GROUP_BYTES_MAX, "readers accept groups up to GROUP_BYTES_MAX");
    let mut header = GroupHeader {
        log: seal.log,
        first_sequence: Sequence(seal.before.sequence.0 + 1),
        base: seal.before.position,
        synced_up_to: seal.synced_up_to,
        record_count: seal.record_count,
        body_bytes: body.len() as u32,
        previous: seal.before.chain,
        chain: ChainHash::default(),
    };
    header.chain = chain_hash(&header.encode()[..HASHED_BYTES], &image[start + GROUP_HEADER_BYTES..]);
    image[start..start + GROUP_HEADER_BYTES].copy_from_slice(&header.encode());
    header.end()
}

/// A record's checksum: CRC-32C of the payload, combined with that of its length and position.
///
/// The position is in it so that a read at the wrong place, or a record moved elsewhere, never passes.
pub fn record_checksum(at: Position, payload: &[u8]) -> u32 {
    let mut place = [0; 12];
    place[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    place[4..].copy_from_slice(&at.0.to_le_bytes());
    checksum(&place) ^ checksum(payload)
}

/// CRC-32C (Castagnoli). Measured for 60 bytes: 7 ns with `crc-fast`, 11 ns with `crc32c`.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn chain_hash(header: &[u8], body: &[u8]) -> ChainHash {
    ChainHash(*blake3::Hasher::new().update(header).update(body).finalize().as_bytes())
}

/// The version, and which log of its directory: version, family, shard.
pub(crate) fn version_and_log(log: &LogId) -> [u8; 4] {
    let [low, high] = log.shard.to_le_bytes();
    [FORMAT_VERSION, log.family, low, high]
}

/// The log that bytes at `offset` name, of the directory whose id is at `directory`; `Err` is the version when it is
/// another one.
///
/// Why a byte is enough for the version: version 1 had two, the low one first, so that it still is named.
pub(crate) fn log_at(bytes: &[u8], offset: usize, directory: usize) -> Result<LogId, u8> {
    match bytes[offset] {
        FORMAT_VERSION => Ok(log_after(bytes, offset, directory)),
        other => Err(other),
    }
}

/// The log that is named behind the version at `offset`.
fn log_after(bytes: &[u8], offset: usize, directory: usize) -> LogId {
    LogId {
        directory: u64_at(bytes, directory),
        family: bytes[offset + 1],
        shard: u16::from_le_bytes([bytes[offset + 2], bytes[offset + 3]]),
    }
}

/// The body of a group that holds `notice`: one part, as a record would be, its checksum still zero.
pub(crate) fn notice_body(notice: &Notice) -> Vec<u8> {
    let payload = notice.encode();
    let mut body = vec![0; RECORD_HEADER_BYTES];
    body[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    body.extend_from_slice(&payload);
    body
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("eight bytes"))
}

pub(crate) fn hash_at(bytes: &[u8], offset: usize) -> ChainHash {
    ChainHash(bytes[offset..offset + 32].try_into().expect("32 bytes"))
}

const _: () = assert!(RECORD_BYTES_MAX < u32::MAX as usize);

#[cfg(test)]
mod tests;

//! The bytes of a snapshot's file.
//!
//! ```text
//!   snapshots/<family>-0/snapshot-00000000000010000000.tgs
//!   ┌────────┬─────────┬────────┬───┬───────┬───────────┐
//!   │ magic 8│version 4│family 1│0 1│shard 2│directory 8│
//!   ├────────┴─────────┴────────┴───┴───────┴───────────┴┬────────┬───────────┬───┬───────────┬─────────────┐
//!   │ cursor: position 8, sequence 8                     │chain 32│timelines 4│0 4│timeline 32│body length 8│
//!   ├────────────────────────────────────────────────────┴────────┴┬──────┬───┴───┴───────────┴─────────────┤
//!   │ the timelines, 32 each                                       │body …│ keyed blake3 of all: 32         │
//!   └──────────────────────────────────────────────────────────────┴──────┴─────────────────────────────────┘
//! ```
//!
//! Promise: reading takes any bytes, and says in words why they are none; what it takes for a snapshot verifies with
//! the key of the data directory.

use tidegate_disk::DiskFile;
use tidegate_journal::key::Key;
use tidegate_journal::notice::TIMELINES_MAX;
use tidegate_journal::{ChainHash, Cursor, LogId, Position, Sequence, Timeline, Timelines};

use super::Stand;

const MAGIC: [u8; 8] = *b"TGSNAP\r\n";
const FORMAT_VERSION: u32 = 3;
const CURSOR_OFFSET: usize = 8 + 4 + 1 + 1 + 2 + 8;
const TIMELINES_OFFSET: usize = CURSOR_OFFSET + 8 + 8 + 32;
/// Bytes before the timelines.
pub(super) const HEADER_BYTES: usize = TIMELINES_OFFSET + 4 + 4 + 32 + 8;
/// Bytes of a timeline.
const TIMELINE_BYTES: usize = 32;
const HASH_BYTES: usize = 32;
/// How much is written at a time, so that writing needs no second copy of the state.
pub(super) const WRITE_BYTES: usize = 1 << 20;

/// The header, and the timelines behind it.
pub(super) fn header(log: LogId, Stand { cursor, timelines }: &Stand, body_bytes: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + timelines.begun().len() * TIMELINE_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&[log.family, 0]);
    bytes.extend_from_slice(&log.shard.to_le_bytes());
    bytes.extend_from_slice(&log.directory.to_le_bytes());
    bytes.extend_from_slice(&cursor.position.0.to_le_bytes());
    bytes.extend_from_slice(&cursor.sequence.0.to_le_bytes());
    bytes.extend_from_slice(&cursor.chain.0);
    bytes.extend_from_slice(&(timelines.begun().len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&timelines.current().0.0);
    bytes.extend_from_slice(&body_bytes.to_le_bytes());
    assert_eq!(bytes.len(), HEADER_BYTES, "the header has a fixed length");
    timelines.begun().iter().for_each(|timeline| bytes.extend_from_slice(&timeline.0.0));
    bytes
}

/// Writes pieces, in order, in large steps, and behind them the hash of all.
pub(super) struct HashedWriter<'a, F: DiskFile> {
    file: &'a F,
    offset: u64,
    waiting: Vec<u8>,
    hasher: blake3::Hasher,
    /// The first error ends the writing; the code that passes the pieces does not get it.
    done: std::io::Result<()>,
}

impl<'a, F: DiskFile> HashedWriter<'a, F> {
    /// Begins at the beginning of `file`; the hash is one with `key`.
    pub fn new(file: &'a F, key: &Key) -> HashedWriter<'a, F> {
        let hasher = blake3::Hasher::new_keyed(key.bytes());
        HashedWriter { file, offset: 0, waiting: Vec::new(), hasher, done: Ok(()) }
    }

    pub fn write(&mut self, part: &[u8]) {
        self.waiting.extend_from_slice(part);
        if self.waiting.len() >= WRITE_BYTES {
            self.hasher.update(&self.waiting);
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.done.is_ok() {
            self.done = self.file.write_all_at(&self.waiting, self.offset);
        }
        self.offset += self.waiting.len() as u64;
        self.waiting.clear();
    }

    pub fn finish(mut self) -> std::io::Result<()> {
        self.hasher.update(&self.waiting);
        let hash = self.hasher.finalize();
        self.waiting.extend_from_slice(hash.as_bytes());
        self.flush();
        self.done
    }
}

/// Where a snapshot of `log` stands, and its body; `Err` says in words why the bytes are none. `key` is that of the
/// data directory. Takes any bytes.
pub fn check<'a>(bytes: &'a [u8], log: LogId, key: &[u8; 32]) -> Result<(Stand, &'a [u8]), String> {
    let hashed = bytes.len().checked_sub(HASH_BYTES).filter(|hashed| *hashed >= HEADER_BYTES).ok_or("cut short")?;
    let (content, hash) = bytes.split_at(hashed);
    let (header, rest) = content.split_at(HEADER_BYTES);
    check_header(header, log)?;
    // Compared as hashes, which takes the same time wherever they differ.
    if blake3::keyed_hash(key, content) != *<&[u8; HASH_BYTES]>::try_from(hash).expect("split off with this length") {
        return Err("its hash does not verify with the KEY of the data directory: it is damaged, or not its own".into());
    }
    let count = u32::from_le_bytes(array(header, TIMELINES_OFFSET)) as usize;
    if count > TIMELINES_MAX || rest.len() < count * TIMELINE_BYTES {
        return Err("its timelines are cut short".into());
    }
    let (timelines, body) = rest.split_at(count * TIMELINE_BYTES);
    let begun = timelines.chunks_exact(TIMELINE_BYTES).map(|bytes| Timeline(ChainHash(array(bytes, 0)))).collect();
    let timelines = Timelines::of(begun).ok_or("its timelines are no history")?;
    if timelines.current() != timeline_in(header) {
        return Err("its timeline is not the last of its timelines".into());
    }
    if u64_at(header, HEADER_BYTES - 8) != body.len() as u64 {
        return Err("its length is not what its header says".into());
    }
    Ok((Stand { cursor: cursor_in(header), timelines }, body))
}

/// Whether a header is that of a snapshot of `log`.
pub(super) fn check_header(header: &[u8], log: LogId) -> Result<(), String> {
    if !header.starts_with(&MAGIC) {
        return Err("not a snapshot".into());
    }
    let version = u32::from_le_bytes(array(header, 8));
    if version != FORMAT_VERSION {
        return Err(format!("format version {version} is unknown: this program knows version {FORMAT_VERSION}"));
    }
    let of = LogId { family: header[12], shard: u16::from_le_bytes(array(header, 14)), directory: u64_at(header, 16) };
    if of != log {
        return Err(format!("it belongs to {of}, not to {log}"));
    }
    match header[13] {
        0 => Ok(()),
        _ => Err("a byte that must be zero is not".into()),
    }
}

/// Where the snapshot with this header stands.
pub(super) fn cursor_in(header: &[u8]) -> Cursor {
    Cursor {
        position: Position(u64_at(header, CURSOR_OFFSET)),
        sequence: Sequence(u64_at(header, CURSOR_OFFSET + 8)),
        chain: ChainHash(array(header, CURSOR_OFFSET + 16)),
    }
}

/// The timeline that it is of.
pub(super) fn timeline_in(header: &[u8]) -> Timeline {
    Timeline(ChainHash(array(header, TIMELINES_OFFSET + 8)))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the header has a fixed length")
}

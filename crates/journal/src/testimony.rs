//! The bytes of a testimony: up to which place a log was durable. Layout: `docs/formats/journal.md`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, replace_file};
use crate::group::{checksum, hash_at, u32_at, u64_at};
use crate::{Cursor, JournalError, LogId, Position, Sequence, Timeline};

const MAGIC: [u8; 8] = *b"TGWITN\r\n";
const VERSION: u8 = 1;
pub(crate) const TESTIMONY_BYTES: usize = 108;
const CHECKSUM_OFFSET: usize = TESTIMONY_BYTES - 4;

/// What somebody says of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// The log was durable up to here.
    pub cursor: Cursor,
    /// In this timeline.
    pub timeline: Timeline,
}

impl Testimony {
    fn encode(&self, log: LogId) -> [u8; TESTIMONY_BYTES] {
        let mut bytes = [0; TESTIMONY_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8] = VERSION;
        bytes[9] = log.family;
        bytes[10..12].copy_from_slice(&log.shard.to_le_bytes());
        bytes[16..24].copy_from_slice(&log.directory.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.cursor.position.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.cursor.sequence.0.to_le_bytes());
        bytes[40..72].copy_from_slice(&self.cursor.chain.0);
        bytes[72..104].copy_from_slice(&self.timeline.0.0);
        let checksum = checksum(&bytes[..CHECKSUM_OFFSET]);
        bytes[CHECKSUM_OFFSET..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `Err` says in words why the bytes are no testimony of `log`.
    fn decode(bytes: &[u8; TESTIMONY_BYTES], log: LogId) -> Result<Testimony, String> {
        if bytes[..8] != MAGIC || checksum(&bytes[..CHECKSUM_OFFSET]) != u32_at(bytes, CHECKSUM_OFFSET) {
            return Err("it is damaged: its checksum does not match".into());
        }
        if bytes[8] != VERSION {
            return Err(format!("it has version {}, this build reads {VERSION}", bytes[8]));
        }
        let shard = u16::from_le_bytes([bytes[10], bytes[11]]);
        let of = LogId { directory: u64_at(bytes, 16), family: bytes[9], shard };
        if of != log {
            return Err(format!("it is of another log, {of}, and this is {log}"));
        }
        let cursor = Cursor {
            position: Position(u64_at(bytes, 24)),
            sequence: Sequence(u64_at(bytes, 32)),
            chain: hash_at(bytes, 40),
        };
        Ok(Testimony { cursor, timeline: Timeline(hash_at(bytes, 72)) })
    }
}

/// What the file of a testimony says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// There is none.
    Nothing,
    /// It is sound.
    Testimony(Testimony),
    /// Something is there that is no testimony of this log: why, in words. It is as good as lost.
    Unusable(String),
}

/// The file of a testimony.
#[derive(Clone, Debug)]
pub(crate) struct TestimonyFile<D: Disk> {
    pub(crate) disk: D,
    pub(crate) log: LogId,
    pub(crate) path: PathBuf,
}

impl<D: Disk> TestimonyFile<D> {
    /// The folder that has it.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().expect("it is in a folder")
    }

    /// What it says. `Err` is only what may pass: a disk that does not answer, or a file that may not be read.
    pub(crate) fn read(&self) -> Result<Reading, JournalError> {
        let failed = |cause| JournalError::io("read", &self.path, cause);
        if !self.disk.exists(&self.path).map_err(failed)? {
            return Ok(Reading::Nothing);
        }
        let mut bytes = [0; TESTIMONY_BYTES];
        let read = self.disk.open(&self.path).and_then(|file| {
            let len = file.len()?;
            (len >= TESTIMONY_BYTES as u64).then(|| file.read_exact_at(&mut bytes, 0)).transpose().map(|_| len)
        });
        Ok(match read {
            Err(cause) if cause.kind() == ErrorKind::IsADirectory => Reading::Unusable("it is no file".into()),
            Err(cause) => return Err(failed(cause)),
            Ok(len) if len != TESTIMONY_BYTES as u64 => {
                Reading::Unusable(format!("it has {len} bytes, expected {TESTIMONY_BYTES}"))
            }
            Ok(_) => Testimony::decode(&bytes, self.log).map_or_else(Reading::Unusable, Reading::Testimony),
        })
    }

    /// Replaces what it says, durably.
    pub(crate) fn write(&self, testimony: &Testimony) -> Result<(), JournalError> {
        replace_file(&self.disk, &self.path, &self.path.with_extension("next"), &testimony.encode(self.log))
            .map_err(|cause| JournalError::io("write", &self.path, cause))
    }
}

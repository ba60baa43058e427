//! The key of a data directory: with it the directory's own snapshots are told from files that somebody else made.
//!
//! ```text
//!   data/KEY   32 random bytes, their checksum, mode 0600 ─▶ keyed BLAKE3 of each snapshot
//! ```
//!
//! Promise: a key with a wrong bit is refused as such, and never taken for another key, with which no snapshot verifies
//! any more. Bytes: `docs/formats/journal.md`.
//!
//! Why: a snapshot is believed without reading the records that it stands for, so a forged one that agrees with itself
//! would be served. Who can read the key can forge; who only got hold of a backup of the snapshots cannot.

use std::fmt;
use std::io;
use std::path::Path;

use crate::JournalError;
use crate::disk::{Disk, DiskFile, replace_file};
use crate::group::{checksum, u32_at};

/// Its file in the data directory.
pub const KEY_FILE: &str = "KEY";
const KEY_NEW: &str = "KEY.new";
const KEY_BYTES: usize = 32;
/// With the checksum. Earlier builds wrote none.
const FILE_BYTES: usize = KEY_BYTES + 4;

/// What to do about a key that is damaged.
const RESTORE_KEY: &str = "Put back the file that belongs to this data directory: every backup of it has the same";
/// Why a directory that lost its key is not served.
const LOST_KEY: &str = "there are snapshots in it, but no file KEY to verify them with: without it, nothing shows \
                        whether the end of a journal is lost. Put KEY back from a copy: every backup of this directory \
                        has the same";
/// What to do if there is no copy. Only what is whole can be folded again.
const LOST_FOR_GOOD: &str = "If it is lost for good, remove KEY if it is there, and move away the folder \
                             snapshots/NAME of each log that is whole: all of the ledger, and another one if \
                             journal/NAME still has its first segment, segment-00000000000000000000.tgj. Then their \
                             journals alone are believed. A log that has forgotten its beginning cannot be read \
                             without its snapshots: restore a backup";

/// The key of a data directory.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// The key of the data directory `data`; `None` if it has none. Refuses one
    /// that is damaged.
    pub fn read<D: Disk>(disk: &D, data: &Path) -> Result<Option<Key>, JournalError> {
        let path = data.join(KEY_FILE);
        let failed = |cause| JournalError::io("read", &path, cause);
        if !disk.exists(&path).map_err(failed)? {
            return Ok(None);
        }
        let file = disk.open(&path).map_err(failed)?;
        let found = file.len().map_err(failed)?;
        // Of a longer file, its length says enough.
        let mut bytes = vec![0; found.min(FILE_BYTES as u64 + 1) as usize];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        let key = if found > FILE_BYTES as u64 { Err(of_length(found)) } else { Key::parse(&bytes) };
        let key = key.map_err(|what| {
            let what = format!("it is damaged: {what}. {RESTORE_KEY}. {LOST_FOR_GOOD}");
            failed(io::Error::new(io::ErrorKind::InvalidData, what))
        });
        key.map(Some)
    }

    /// The key whose file has these bytes; `Err` says in words why they are none. Takes any bytes.
    pub fn parse(bytes: &[u8]) -> Result<Key, String> {
        match bytes.len() {
            FILE_BYTES if checksum(&bytes[..KEY_BYTES]) != u32_at(bytes, KEY_BYTES) => {
                Err("its checksum does not match".into())
            }
            FILE_BYTES | KEY_BYTES => Ok(Key(*bytes.first_chunk().expect("a key is shorter than its file"))),
            found => Err(of_length(found as u64)),
        }
    }

    /// Refuses a data directory whose key is damaged, or missing while there are snapshots.
    pub fn check<D: Disk>(disk: &D, data: &Path) -> Result<(), JournalError> {
        match Key::read(disk, data)? {
            None if has_snapshots(disk, data)? => {
                let what = format!("{LOST_KEY}. {LOST_FOR_GOOD}");
                Err(JournalError::Directory { path: data.to_path_buf(), what })
            }
            _ => Ok(()),
        }
    }

    /// The same as [`Key::read`]; one is made, durably, if there is none, and no snapshot that it would not verify.
    pub fn read_or_create<D: Disk>(disk: &D, data: &Path) -> Result<Key, JournalError> {
        if let Some(key) = Key::read(disk, data)? {
            return Ok(key);
        }
        Key::check(disk, data)?;
        let failed = |cause| JournalError::io("create", &data.join(KEY_FILE), cause);
        disk.create_dir_all(data).map_err(failed)?;
        let key = Key(disk.random_bytes().map_err(failed)?);
        key.write(disk, data)?;
        Ok(key)
    }

    /// Writes its file into the data directory `data`, durably, readable by the owner only, in place of what is there.
    pub fn write<D: Disk>(&self, disk: &D, data: &Path) -> Result<(), JournalError> {
        let (path, new) = (data.join(KEY_FILE), data.join(KEY_NEW));
        replace_file(disk, &path, &new, &[&self.0[..], &checksum(&self.0).to_le_bytes()].concat())
            .map_err(|cause| JournalError::io("create", &path, cause))
    }

    /// Its bytes, for a keyed hash.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

/// Whether any shard has a snapshot.
fn has_snapshots<D: Disk>(disk: &D, data: &Path) -> Result<bool, JournalError> {
    let snapshots = data.join("snapshots");
    let list = |folder: &Path| match disk.list(folder) {
        Err(cause) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&cause.kind()) => Ok(Vec::new()),
        listed => listed.map_err(|cause| JournalError::io("list", folder, cause)),
    };
    for folder in list(&snapshots)? {
        if list(&snapshots.join(folder))?.iter().any(|name| name.starts_with("snapshot-")) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn of_length(found: u64) -> String {
    format!("it has {found} bytes, a key has {FILE_BYTES}")
}

/// Never the bytes: a key must not appear in a log.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests;

//! The key of a data directory: with it the directory's own snapshots are told from files that somebody else made.
//!
//! ```text
//!   data/KEY   32 random bytes, mode 0600 ─▶ keyed BLAKE3 of each snapshot
//! ```
//!
//! Why: a snapshot is believed without reading the records that it stands for, so a forged one that agrees with itself
//! would be served. Who can read the key can forge; who only got hold of a backup of the snapshots cannot.

use std::fmt;
use std::io;
use std::path::Path;

use crate::JournalError;
use crate::disk::{Disk, DiskFile};

/// Its file in the data directory.
pub const KEY_FILE: &str = "KEY";
const KEY_NEW: &str = "KEY.new";
const KEY_BYTES: usize = 32;

/// The key of a data directory.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl Key {
    /// The key of the data directory `data`; `None` if it has none. Refuses a file of another length.
    pub fn read<D: Disk>(disk: &D, data: &Path) -> Result<Option<Key>, JournalError> {
        let path = data.join(KEY_FILE);
        let failed = |cause| JournalError::io("read", &path, cause);
        if !disk.exists(&path).map_err(failed)? {
            return Ok(None);
        }
        let file = disk.open(&path).map_err(failed)?;
        if file.len().map_err(failed)? != KEY_BYTES as u64 {
            let what = "a key has 32 bytes. Put back the file that belongs to this data directory";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        let mut bytes = [0; KEY_BYTES];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        Ok(Some(Key(bytes)))
    }

    /// The same; one is made, durably, if there is none. Then no snapshot that is there already verifies any more.
    pub fn read_or_create<D: Disk>(disk: &D, data: &Path) -> Result<Key, JournalError> {
        if let Some(key) = Key::read(disk, data)? {
            return Ok(key);
        }
        let (path, new) = (data.join(KEY_FILE), data.join(KEY_NEW));
        let failed = |cause| JournalError::io("create", &path, cause);
        disk.create_dir_all(data).map_err(failed)?;
        if disk.exists(&new).map_err(failed)? {
            disk.remove(&new).map_err(failed)?;
        }
        let key = Key(disk.random_bytes().map_err(failed)?);
        let file = disk.create_new(&new).map_err(failed)?;
        file.write_all_at(&key.0, 0).and_then(|()| file.sync_data()).map_err(failed)?;
        disk.rename(&new, &path).and_then(|()| disk.sync_dir(data)).map_err(failed)?;
        Ok(key)
    }

    /// Its bytes, for a keyed hash.
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

/// Never the bytes: a key must not appear in a log.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests;

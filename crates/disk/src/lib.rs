//! The file system as its users see it: few calls, each with a stated promise, so that a fake can break whatever is not
//! promised.
//! And, in [`stream`], a replicated stream of messages in the same manner.
//!
//! ```text
//!   logs, snapshots, id runs ─▶ Disk ─┬─▶ RealDisk: pread, pwrite, O_DIRECT, fallocate, fdatasync
//!                                     └─▶ FakeDisk: memory, seeded faults, crashes at any write
//! ```
//!
//! Invariant: nothing here knows what is in a file.

mod blocks;
mod fake;
mod held;
pub mod owner;
mod real;
mod replace;
pub mod stream;

use std::io;
use std::path::Path;

pub use blocks::{BLOCK_BYTES, Blocks};
pub use fake::{FakeDisk, FakeDiskCounts, FakeFile};
pub use held::{Hold, check_in_place, is_at};
pub use real::RealDisk;
pub use replace::replace_file;

/// A directory tree. A name that was created, renamed or removed survives a crash only after [`Disk::sync_dir`].
pub trait Disk: Clone + Send + Sync + 'static {
    /// An open file of this disk.
    type File: DiskFile;

    /// Creates an empty file for reading and writing; fails when the name exists.
    fn create_new(&self, path: &Path) -> io::Result<Self::File>;

    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Whether a file or directory of this name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Names in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Gives a file another name, replacing what had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory and its parents, durably.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The file system that a directory is on; `None` if that has no bound.
    fn space(&self, _dir: &Path) -> io::Result<Option<DiskSpace>> {
        Ok(None)
    }

    /// Bytes that nobody can guess, for a key that will be kept on this disk. Those of a fake are the same always.
    fn random_bytes(&self) -> io::Result<[u8; 32]>;
}

/// How large a file system is, and how much of it is free for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes of all of it.
    pub bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
}

/// An open file. Reads see earlier writes at once; a crash forgets whatever was not covered by a later `sync_data`.
pub trait DiskFile: Send + Sync + 'static {
    /// Reads up to `into.len()` bytes; 0 at the end of the file.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Fills `into` or fails with `UnexpectedEof`.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read_at(&mut into[filled..], offset + filled as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => filled += n,
            }
        }
        Ok(())
    }

    /// As [`DiskFile::read_at`], for bytes that nobody will read again soon: what was not in the page cache before is
    /// not kept there.
    fn read_once_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_at(into, offset)
    }

    /// Fills `into` if that needs no wait for a device; `false` if it does, or if nobody can say.
    fn read_cached(&self, into: &mut [u8], offset: u64) -> io::Result<bool> {
        self.read_exact_at(into, offset).map(|()| true)
    }

    /// Advises that these bytes will be read soon, so that a device may read many places at the same time.
    fn will_need(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Writes all of `bytes`, extending the file when needed.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Asks the file system to take blocks past its cache from now on. Where it does not, they go into the cache.
    ///
    /// Nothing may be read by this handle any more: reads past the cache must be of whole blocks, too.
    fn bypass_cache(&self) {}

    /// Writes all of these blocks: their address, length and `offset` are multiples of [`BLOCK_BYTES`]. Past the cache,
    /// if [`DiskFile::bypass_cache`] was asked for; they are durable only after [`DiskFile::sync_data`] even so.
    fn write_blocks_at(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        assert!(blocks::are_blocks(blocks, offset), "whole blocks are written");
        self.write_all_at(blocks, offset)
    }

    /// Makes everything written so far durable, with the file's length.
    fn sync_data(&self) -> io::Result<()>;

    /// Claims room so that writes below `len` cannot meet a full disk; extends the file with zeros up to `len`.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// The file system that it is on; `None` if that has no bound.
    fn space(&self) -> io::Result<Option<DiskSpace>> {
        Ok(None)
    }

    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or extends (with zeros) to `len`.
    fn set_len(&self, len: u64) -> io::Result<()>;
}

//! Files of the operating system.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use crate::blocks::are_blocks;
use crate::held::Place;
use crate::{Disk, DiskFile, DiskSpace};

/// Bytes of one call that writes. A call of a megabyte or more has the page cache take huge pages, and to get one
/// costs ten times what is copied into it (measured: 1.1 to 2.3 ns a byte, where pieces cost 0.12).
const PIECE_BYTES_MAX: usize = 256 << 10;

/// What the operating system counts a file's room in.
const STAT_BLOCK_BYTES: u64 = 512;

/// How long a name waits for a descriptor by which it becomes durable. Long, because whoever asks for it (a journal
/// that goes on in its next segment) cannot go on without it, and descriptors that ran out come back.
const SYNC_PATIENCE: Duration = Duration::from_secs(600);
/// How long a file waits for its descriptor. Short: who opens files tries again later, and may serve others meanwhile.
const OPEN_PATIENCE: Duration = Duration::from_millis(500);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// The file system of this machine. Paths below a folder that is held lead to that folder: see [`crate::Hold`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// Opens a file for reading and writing; makes it, empty, if it is not there.
    pub fn open_or_create(&self, path: &Path) -> io::Result<File> {
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        patiently(OPEN_PATIENCE, || open_at(path, OFlags::RDWR | OFlags::CREATE, mode))
    }

    fn is_folder(self, path: &Path) -> bool {
        let place = Place::of(path);
        let there = statat(place.folder(), place.name(), AtFlags::empty());
        there.is_ok_and(|there| FileType::from_raw_mode(there.st_mode) == FileType::Directory)
    }
}

impl Disk for RealDisk {
    type File = File;

    fn create_new(&self, path: &Path) -> io::Result<File> {
        // Balances and keys are nobody else's business.
        let mode = Mode::RUSR | Mode::WUSR;
        patiently(OPEN_PATIENCE, || open_at(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode))
    }

    /// A file that may only be read is opened for reading: a tool that writes nothing also works on a read-only file
    /// system, and whoever writes to it meets the error then.
    fn open(&self, path: &Path) -> io::Result<File> {
        patiently(OPEN_PATIENCE, || match open_at(path, OFlags::RDWR, Mode::empty()) {
            Err(cause) if is_read_only(&cause) => open_at(path, OFlags::RDONLY, Mode::empty()),
            opened => opened,
        })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let place = Place::of(path);
        match statat(place.folder(), place.name(), AtFlags::empty()).map_err(io::Error::from) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            there => there.map(|_| true),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let folder = patiently(OPEN_PATIENCE, || open_at(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()))?;
        let mut names = Vec::new();
        for entry in Dir::new(folder)? {
            let entry = entry?;
            if ![c".", c".."].contains(&entry.file_name()) {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (Place::of(from), Place::of(to));
        Ok(renameat(from.folder(), from.name(), to.folder(), to.name())?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let place = Place::of(path);
        Ok(unlinkat(place.folder(), place.name(), AtFlags::empty())?)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if self.is_folder(path) {
            return Ok(());
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.create_dir_all(parent)?;
        }
        let place = Place::of(path);
        match mkdirat(place.folder(), place.name(), Mode::RWXU | Mode::RWXG | Mode::RWXO).map_err(io::Error::from) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
            _ => self.sync_dir(parent.unwrap_or(Path::new("."))),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // A sync that fails is not asked again: the kernel may have dropped what it could not write.
        patiently(SYNC_PATIENCE, || open_at(path, OFlags::RDONLY, Mode::empty()))?.sync_all()
    }

    fn space(&self, dir: &Path) -> io::Result<Option<DiskSpace>> {
        DiskFile::space(&patiently(OPEN_PATIENCE, || open_at(dir, OFlags::RDONLY, Mode::empty()))?)
    }

    fn random_bytes(&self) -> io::Result<[u8; 32]> {
        let mut bytes = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// Opens what `path` leads to. `mode` is that of a file that is made; the process's mask takes from it.
fn open_at(path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    let place = Place::of(path);
    let opened = retry_on_intr(|| openat(place.folder(), place.name(), flags | OFlags::CLOEXEC, mode))?;
    Ok(File::from(opened))
}

/// Opens something; waits while no descriptor is free, because connections that end give theirs back.
fn patiently<T>(patience: Duration, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let began = Instant::now();
    loop {
        match open() {
            Err(cause) if is_out_of_descriptors(&cause) && began.elapsed() < patience => std::thread::sleep(PAUSE),
            opened => return opened,
        }
    }
}

/// Whether this process, or the system, has as many files open as it may.
fn is_out_of_descriptors(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn is_read_only(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

/// Reads up to `into.len()` bytes with `flags` of preadv2.
#[cfg(target_os = "linux")]
fn read_with(file: &File, into: &mut [u8], offset: u64, flags: libc::c_int) -> io::Result<usize> {
    let place = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: `place` is the memory of `into`, which is borrowed until the call is over.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &place, 1, offset, flags) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

impl DiskFile for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match FileExt::read_at(self, into, offset) {
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Why it matters: whoever reads a whole journal through the page cache puts out what others need, and takes as
    /// much memory that was free; where a machine gives such memory back to its host, each byte costs 30 times as much.
    #[cfg(target_os = "linux")]
    fn read_once_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        match read_with(self, into, offset, libc::RWF_DONTCACHE) {
            Ok(read) => Ok(read),
            // Linux before 6.14, or a file system that cannot. What else is wrong is met again, and said there.
            Err(_) => DiskFile::read_at(self, into, offset),
        }
    }

    #[cfg(target_os = "linux")]
    fn read_cached(&self, into: &mut [u8], offset: u64) -> io::Result<bool> {
        let wanted = into.len();
        // Too little, or an error (not cached; a file system that cannot say): whoever asks reads it the other way.
        Ok(read_with(self, into, offset, libc::RWF_NOWAIT).is_ok_and(|read| read == wanted))
    }

    #[cfg(target_os = "linux")]
    fn will_need(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let (Ok(offset), Ok(bytes)) = (libc::off_t::try_from(offset), libc::off_t::try_from(bytes)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        // SAFETY: numbers only.
        match unsafe { libc::posix_fadvise(self.as_raw_fd(), offset, bytes, libc::POSIX_FADV_WILLNEED) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let pieces = bytes.chunks(PIECE_BYTES_MAX);
        pieces
            .zip((offset..).step_by(PIECE_BYTES_MAX))
            .try_for_each(|(piece, at)| FileExt::write_all_at(self, piece, at))
            .map_err(|cause| match Errno::from_io_error(&cause) {
                // It was opened for reading, because nothing else was allowed.
                Some(Errno::BADF) => io::Error::new(io::ErrorKind::PermissionDenied, "it may only be read"),
                _ => cause,
            })
    }

    /// A file system that cannot (some that are in memory or behind a network) says so here, or at the first write.
    fn bypass_cache(&self) {
        if let Ok(flags) = fcntl_getfl(self) {
            let _ = fcntl_setfl(self, flags | OFlags::DIRECT);
        }
    }

    fn write_blocks_at(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        assert!(are_blocks(blocks, offset), "whole blocks are written");
        let flags = fcntl_getfl(self)?;
        if !flags.contains(OFlags::DIRECT) {
            return DiskFile::write_all_at(self, blocks, offset);
        }
        match FileExt::write_all_at(self, blocks, offset) {
            Err(cause) if matches!(Errno::from_io_error(&cause), Some(Errno::INVAL | Errno::OPNOTSUPP)) => {
                fcntl_setfl(self, flags - OFlags::DIRECT)?;
                DiskFile::write_all_at(self, blocks, offset)
            }
            written => written,
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let len = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        // Some file systems go through all pages of the range, also those that are there. A file that was copied
        // without its zeros has less than its length.
        let found = self.metadata()?;
        let is_whole = found.blocks().saturating_mul(STAT_BLOCK_BYTES) >= found.len();
        let from = if is_whole { found.len() } else { 0 };
        let from = libc::off_t::try_from(from).map_err(|_| io::ErrorKind::InvalidInput)?;
        if from >= len {
            return Ok(());
        }
        loop {
            // SAFETY: the descriptor is open for as long as `self` is borrowed; the call touches no memory of ours.
            if unsafe { libc::fallocate(self.as_raw_fd(), 0, from, len - from) } == 0 {
                return Ok(());
            }
            let cause = io::Error::last_os_error();
            if cause.kind() != io::ErrorKind::Interrupted {
                return Err(cause);
            }
        }
    }

    fn space(&self) -> io::Result<Option<DiskSpace>> {
        // SAFETY: a statvfs is plain numbers.
        let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open, and the call writes one statvfs to the address of a local one.
        let asked = unsafe { libc::fstatvfs(self.as_raw_fd(), &mut found) };
        if asked != 0 {
            return Err(io::Error::last_os_error());
        }
        let bytes = |blocks: libc::fsblkcnt_t| blocks.saturating_mul(found.f_frsize);
        // Some file systems have no such numbers.
        let known = found.f_blocks > 0;
        Ok(known.then(|| DiskSpace { bytes: bytes(found.f_blocks), free_bytes: bytes(found.f_bavail) }))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }
}

#[cfg(test)]
mod tests;

//! A disk in memory that fails exactly where real disks may, from one seed.
//!
//! ```text
//!   write_all_at ─▶ page cache ──sync_data──▶ platter          crash(): each unsynced sector is kept, lost or torn
//!   create, rename, remove ─▶ names ──sync_dir──▶ platter      crash(): a prefix of the unsynced changes is kept
//! ```
//!
//! It never does what real disks do not: change a byte that was durable and not being overwritten
//! ([`FakeDisk::flip_bit`] does, when asked), or lose what was synced.

mod file;
mod inode;
mod name_change;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::{Disk, DiskFile};
use inode::Inode;
use name_change::NameChange;

pub use file::FakeFile;

/// The smallest piece that a drive reads or does not.
const SECTOR_BYTES: u64 = 512;

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// A disk in memory with seeded faults. Clones are handles to the same disk.
#[derive(Clone)]
pub struct FakeDisk {
    state: Arc<Mutex<State>>,
}

/// What a disk has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FakeDiskCounts {
    /// Calls of `sync_data`, the failed ones included.
    pub syncs: u64,
    /// Bytes given to `write_all_at`.
    pub bytes_written: u64,
    /// Calls that change something.
    pub operations: u64,
    /// Crashes.
    pub crashes: u64,
    /// Reads, writes and syncs that failed because they were told to.
    pub failed_reads: u64,
    /// See `failed_reads`.
    pub failed_writes: u64,
    /// See `failed_reads`.
    pub failed_syncs: u64,
}

struct State {
    random: SplitMix,
    inodes: Vec<Inode>,
    dirs: BTreeSet<PathBuf>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// Changes of names since their directory was synced, oldest first.
    unsynced_names: Vec<NameChange>,
    capacity: u64,
    /// Handles of an earlier epoch are dead.
    epoch: u64,
    /// Changing operations until the machine stops; `None` for never.
    stops_after: Option<u64>,
    stopped: bool,
    fail_syncs: u32,
    fail_writes: u32,
    fail_allocations: bool,
    /// Reads of this file fail.
    unreadable: Option<PathBuf>,
    /// Reads of these bytes fail.
    bad_sectors: Vec<(usize, Range<u64>)>,
    counts: FakeDiskCounts,
}

impl FakeDisk {
    /// An empty disk of unlimited size, whose faults follow from `seed`.
    pub fn new(seed: u64) -> FakeDisk {
        let state = State {
            random: SplitMix(seed),
            inodes: Vec::new(),
            dirs: BTreeSet::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            capacity: u64::MAX,
            epoch: 0,
            stops_after: None,
            stopped: false,
            fail_syncs: 0,
            fail_writes: 0,
            fail_allocations: false,
            unreadable: None,
            bad_sectors: Vec::new(),
            counts: FakeDiskCounts::default(),
        };
        FakeDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The power fails and comes back: what was not synced is kept, lost or torn; open files are dead, the disk works
    /// again.
    pub fn crash(&self) {
        let state = &mut *self.lock();
        let kept = state.random.below(state.unsynced_names.len() as u64 + 1) as usize;
        assert!(kept <= state.unsynced_names.len(), "a prefix of the changes is kept");
        for change in &state.unsynced_names[..kept] {
            change.apply(&mut state.durable_names);
        }
        state.unsynced_names.clear();
        state.names = state.durable_names.clone();
        let random = &mut state.random;
        state.inodes.iter_mut().for_each(|inode| inode.crash(random));
        state.free_unlinked();
        state.counts.crashes += 1;
        assert!(state.linked().iter().all(|inode| *inode < state.inodes.len()), "every name is a file's");
        state.revive();
    }

    /// The process is killed and the machine goes on: open files are dead, what was written stays in the page cache.
    pub fn kill(&self) {
        self.lock().revive();
    }

    /// After `operations` further changing calls the machine stops in the middle of the next one: it and everything
    /// after it fails until [`FakeDisk::crash`].
    pub fn crash_after_ops(&self, operations: u64) {
        self.lock().stops_after = Some(operations);
    }

    /// Whether the machine has stopped, as [`FakeDisk::crash_after_ops`] said.
    pub fn has_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// The next `sync_data` fails. As on Linux, the pages count as clean afterwards: they can be read, a later sync of
    /// the same file succeeds, and a crash shows which of them never reached the disk.
    pub fn fail_next_sync(&self) {
        self.lock().fail_syncs += 1;
    }

    /// From now on reads of this file fail, as those of a bad sector do (EIO); `None` for no file.
    pub fn fail_reads_of(&self, path: Option<&Path>) {
        self.lock().unreadable = path.map(Path::to_owned);
    }

    /// The next `write_all_at` fails (EIO); a part of it may have been written.
    pub fn fail_next_write(&self) {
        self.lock().fail_writes += 1;
    }

    /// From now on allocating fails (EIO), or works again.
    pub fn fail_allocations(&self, fails: bool) {
        self.lock().fail_allocations = fails;
    }

    /// From now on reads of the sector around this byte fail (EIO), until it is written again or
    /// [`FakeDisk::mend_sectors`] is called. Returns false when there is no such file.
    pub fn spoil_sector(&self, path: &Path, offset: u64) -> bool {
        let state = &mut *self.lock();
        let Some(inode) = state.names.get(path).copied() else { return false };
        let first = offset / SECTOR_BYTES * SECTOR_BYTES;
        state.bad_sectors.push((inode, first..first + SECTOR_BYTES));
        true
    }

    /// Whether a sector of this file cannot be read.
    pub fn has_bad_sector(&self, path: &Path) -> bool {
        let state = self.lock();
        state.names.get(path).is_some_and(|inode| state.bad_sectors.iter().any(|(bad, _)| bad == inode))
    }

    /// All sectors can be read again, and have what was written.
    pub fn mend_sectors(&self) {
        self.lock().bad_sectors.clear();
    }

    /// Limits the disk to `bytes`. What is there already stays.
    pub fn set_capacity(&self, bytes: u64) {
        self.lock().capacity = bytes;
    }

    /// Bytes in use, allocated ones included.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes()
    }

    /// Bit rot: changes one bit of a file for good. Returns false when there is no such byte.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) -> bool {
        let state = &mut *self.lock();
        let inode = state.names.get(path).map(|inode| &mut state.inodes[*inode]);
        inode.is_some_and(|inode| inode.flip_bit(offset, bit))
    }

    /// Whether a byte of a file is so, also if the power fails now: a write over rot that was not synced yet may be
    /// lost, and the rot comes back.
    pub fn has_byte(&self, path: &Path, offset: u64, byte: u8) -> bool {
        let state = self.lock();
        state.names.get(path).is_some_and(|inode| state.inodes[*inode].has_byte(offset, byte))
    }

    /// Puts right what rotted: the byte is so for good, whatever becomes of writes that were not synced.
    pub fn put_byte(&self, path: &Path, offset: u64, byte: u8) {
        let state = &mut *self.lock();
        if let Some(inode) = state.names.get(path) {
            state.inodes[*inode].put_byte(offset, byte);
        }
    }

    /// Tampering: replaces bytes of a file for good, extending it when needed.
    pub fn overwrite(&self, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = Disk::open(self, path)?;
        file.write_all_at(bytes, offset)?;
        file.sync_data()
    }

    /// All files with their lengths, in order of their paths.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let state = self.lock();
        state.names.iter().map(|(path, inode)| (path.clone(), state.inodes[*inode].len())).collect()
    }

    /// The bytes of a file, as the page cache has them; for whoever looks from outside, so bad sectors are read, too.
    pub fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = Disk::open(self, path)?;
        file.with(|state, inode| {
            let mut bytes = vec![0; state.inodes[inode].len() as usize];
            let got = state.inodes[inode].read_at(&mut bytes, 0);
            assert_eq!(got, bytes.len(), "a file is as long as it says");
            Ok(bytes)
        })
    }

    /// What has been done so far.
    pub fn counts(&self) -> FakeDiskCounts {
        self.lock().counts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

impl State {
    fn revive(&mut self) {
        self.epoch += 1;
        self.stops_after = None;
        self.stopped = false;
        self.fail_syncs = 0;
        self.fail_writes = 0;
    }

    fn used_bytes(&self) -> u64 {
        self.linked().into_iter().map(|inode| self.inodes[inode].used_bytes()).sum()
    }

    fn linked(&self) -> BTreeSet<usize> {
        self.names.values().chain(self.durable_names.values()).copied().collect()
    }

    fn free_unlinked(&mut self) {
        let linked = self.linked();
        for (index, inode) in self.inodes.iter_mut().enumerate() {
            if !linked.contains(&index) {
                *inode = Inode::default();
            }
        }
        self.bad_sectors.retain(|(inode, _)| linked.contains(inode));
    }

    fn check_running(&self) -> io::Result<()> {
        if self.stopped { Err(io::Error::other("the machine has stopped")) } else { Ok(()) }
    }

    fn check_readable(&mut self, inode: usize, bytes: Range<u64>) -> io::Result<()> {
        let is_unreadable = self.unreadable.as_ref().is_some_and(|path| self.names.get(path) == Some(&inode));
        let is_bad = |(bad, sector): &(usize, Range<u64>)| *bad == inode && overlap(sector, &bytes);
        if is_unreadable || self.bad_sectors.iter().any(is_bad) {
            self.counts.failed_reads += 1;
            return Err(io::Error::other("input/output error"));
        }
        Ok(())
    }

    /// Counts a changing operation; `Err` when the machine stops before it, `Ok(true)` when it stops in the middle of
    /// it.
    fn operate(&mut self) -> io::Result<bool> {
        self.check_running()?;
        self.counts.operations += 1;
        match &mut self.stops_after {
            Some(0) => {
                self.stopped = true;
                Ok(true)
            }
            Some(left) => {
                *left -= 1;
                Ok(false)
            }
            None => Ok(false),
        }
    }

    /// An operation on names happens whole or not at all.
    fn operate_whole(&mut self) -> io::Result<()> {
        if self.operate()? && self.random.below(2) == 0 { self.check_running() } else { Ok(()) }
    }

    fn change_names(&mut self, change: NameChange) -> io::Result<()> {
        change.apply(&mut self.names);
        self.unsynced_names.push(change);
        self.check_running()
    }

    fn room_for(&self, inode: usize, used_bytes: u64) -> io::Result<()> {
        if self.capacity == u64::MAX {
            return Ok(());
        }
        let more = used_bytes.saturating_sub(self.inodes[inode].used_bytes());
        let full = more > 0 && self.used_bytes().saturating_add(more) > self.capacity;
        if full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Disk for FakeDisk {
    type File = FakeFile;

    fn create_new(&self, path: &Path) -> io::Result<FakeFile> {
        let mut state = self.lock();
        state.operate_whole()?;
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !path.parent().is_none_or(|dir| state.dirs.contains(dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        state.change_names(NameChange::Created(path.to_path_buf(), inode))?;
        Ok(FakeFile { state: self.state.clone(), inode, epoch: state.epoch })
    }

    fn open(&self, path: &Path) -> io::Result<FakeFile> {
        let state = self.lock();
        state.check_running()?;
        let inode = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(FakeFile { state: self.state.clone(), inode, epoch: state.epoch })
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.lock();
        state.check_running()?;
        Ok(state.names.contains_key(path) || state.dirs.contains(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.lock();
        state.check_running()?;
        if !state.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let children = state.names.keys().chain(&state.dirs).filter(|path| path.parent() == Some(dir));
        let names: BTreeSet<String> =
            children.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
        Ok(names.into_iter().collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.operate_whole()?;
        if !state.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change_names(NameChange::Renamed(from.to_path_buf(), to.to_path_buf()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.operate_whole()?;
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.change_names(NameChange::Removed(path.to_path_buf()))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.operate_whole()?;
        state.dirs.extend(path.ancestors().map(Path::to_path_buf));
        state.check_running()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let state = &mut *self.lock();
        state.operate_whole()?;
        let (synced, others) =
            std::mem::take(&mut state.unsynced_names).into_iter().partition(|change| change.dir() == Some(path));
        state.unsynced_names = others;
        let synced: Vec<NameChange> = synced;
        assert!(
            state.unsynced_names.iter().all(|change| change.dir() != Some(path)),
            "all names in it are durable now"
        );
        synced.iter().for_each(|change| change.apply(&mut state.durable_names));
        state.check_running()
    }

    fn random_bytes(&self) -> io::Result<[u8; 32]> {
        Ok(*b"the same on every fake disk, ok?")
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seedable with any number, good enough to choose faults.
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        self.next() % bound
    }
}

#[cfg(test)]
mod tests;

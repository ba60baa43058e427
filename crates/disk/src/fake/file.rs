//! Open files of a fake disk.

use std::io;
use std::sync::{Arc, Mutex};

use super::{State, overlap};
use crate::{DiskFile, DiskSpace};

/// An open file of a [`FakeDisk`](super::FakeDisk); dead after a crash.
pub struct FakeFile {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) inode: usize,
    pub(super) epoch: u64,
}

impl FakeFile {
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State, usize) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock().expect("no holder of this lock panics");
        if state.epoch != self.epoch {
            return Err(io::Error::other("this handle is from before the crash"));
        }
        assert!(self.inode < state.inodes.len(), "a handle is a file's");
        act(&mut state, self.inode)
    }
}

impl DiskFile for FakeFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|state, inode| {
            state.check_running()?;
            state.check_readable(inode, offset..offset.saturating_add(into.len() as u64))?;
            Ok(state.inodes[inode].read_at(into, offset))
        })
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.with(|state, inode| {
            let stops = state.operate()?;
            state.room_for(inode, offset + bytes.len() as u64)?;
            let fails = state.fail_writes > 0;
            state.fail_writes -= u32::from(fails);
            let is_torn = stops || fails;
            let written = if is_torn { state.random.below(bytes.len() as u64 + 1) as usize } else { bytes.len() };
            state.counts.bytes_written += written as u64;
            assert!(written <= bytes.len(), "a torn write is a part of the write");
            state.inodes[inode].write_at(&bytes[..written], offset);
            assert!(
                written == 0 || state.inodes[inode].len() >= offset + written as u64,
                "a file holds what was written"
            );
            // The drive puts another sector in the place of a bad one that is written.
            let bytes = offset..offset + written as u64;
            state.bad_sectors.retain(|(bad, sector)| *bad != inode || !overlap(sector, &bytes));
            state.check_running()?;
            state.counts.failed_writes += u64::from(fails);
            if fails { Err(io::Error::other("input/output error")) } else { Ok(()) }
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|state, inode| {
            state.counts.syncs += 1;
            let stops = state.operate()?;
            if state.fail_syncs > 0 {
                state.fail_syncs -= 1;
                state.counts.failed_syncs += 1;
                state.inodes[inode].fail_sync(&mut state.random);
                return Err(io::Error::other("input/output error"));
            }
            if stops && state.random.below(2) == 0 {
                return state.check_running();
            }
            state.inodes[inode].sync();
            state.check_running()
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.with(|state, inode| {
            state.operate_whole()?;
            if state.fail_allocations {
                return Err(io::Error::other("input/output error"));
            }
            state.room_for(inode, len)?;
            state.inodes[inode].allocate(len);
            assert!(state.inodes[inode].used_bytes() >= len, "room that was claimed is there");
            state.check_running()
        })
    }

    fn space(&self) -> io::Result<Option<DiskSpace>> {
        self.with(|state, _| {
            let (bytes, used) = (state.capacity, state.used_bytes());
            Ok((bytes < u64::MAX).then(|| DiskSpace { bytes, free_bytes: bytes.saturating_sub(used) }))
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|state, inode| {
            state.check_running()?;
            Ok(state.inodes[inode].len())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|state, inode| {
            state.operate_whole()?;
            state.room_for(inode, len)?;
            state.inodes[inode].set_len(len);
            state.check_running()
        })
    }
}

//! Reading one segment's groups in order through a large window.
//!
//! ```text
//!   file    │ header │ group │ group │ group │ …            limit
//!   window                   │≈≈≈≈≈≈≈≈≈≈≈≈≈≈≈≈≈≈≈≈≈│        never reads beyond the limit
//! ```
//!
//! Why a limit: bytes behind the durable end may still be in the writer's hands; a window that held them would be
//! stale.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::folder::{read_once_up_to, read_up_to};
use crate::group::{GROUP_HEADER_BYTES, GroupFault, GroupHeader};
use crate::groups::Found;
use crate::limits::READ_AHEAD_BYTES;
use crate::mend::{WrongByte, mend_header, mend_records};
use crate::prefetch::Prefetch;
use crate::segment::offset_of;
use crate::{Cursor, LogId, Position};

/// The part of a file that is in memory.
struct Window {
    buffer: Vec<u8>,
    start: u64,
    filled: usize,
    /// How much is read at a time, unless more is asked for.
    ahead_bytes: usize,
    /// What reads the next part meanwhile, if somebody does.
    prefetch: Option<Prefetch>,
}

impl Window {
    /// Up to `len` bytes at `offset`, fewer at `limit` or the end of the file; as a range of the buffer.
    fn view(&mut self, file: &dyn DiskFile, offset: u64, len: usize, limit: u64) -> io::Result<Range<usize>> {
        // A file that was cut short may end before the place that is asked for.
        if offset > limit {
            return Ok(0..0);
        }
        let wanted = len.min(usize::try_from(limit.saturating_sub(offset)).unwrap_or(usize::MAX));
        let held = self.start..self.start + self.filled as u64;
        let at = if held.contains(&offset) { (offset - self.start) as usize } else { self.filled };
        if self.filled - at >= wanted {
            return Ok(at..at + wanted);
        }
        self.buffer.copy_within(at..self.filled, 0);
        self.filled -= at;
        self.start = offset;
        if let Some(prefetch) = &mut self.prefetch {
            self.buffer.truncate(self.filled);
            while self.filled < wanted {
                let behind = offset + self.filled as u64;
                match prefetch.read(behind, self.ahead_bytes, limit, &mut self.buffer)? {
                    0 => break,
                    read => self.filled += read,
                }
            }
            return Ok(0..wanted.min(self.filled));
        }
        let room = wanted.max(self.ahead_bytes).min(usize::try_from(limit - offset).unwrap_or(usize::MAX));
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        } else if self.buffer.len() / 2 > room.max(self.ahead_bytes) {
            // A large group has been passed.
            self.buffer.truncate(room.max(self.ahead_bytes));
            self.buffer.shrink_to_fit();
        }
        let from = self.filled;
        // Who reads so much at a time folds a whole log.
        let read = if self.ahead_bytes >= READ_AHEAD_BYTES { read_once_up_to } else { read_up_to };
        self.filled += read(file, &mut self.buffer[from..room], offset + from as u64)?;
        assert!(self.start + self.filled as u64 <= limit, "the window never holds what may still be written over");
        Ok(0..wanted.min(self.filled))
    }
}

/// Reads the groups of one segment.
pub(crate) struct SegmentScan {
    file: Arc<dyn DiskFile>,
    log: LogId,
    first: Position,
    window: Window,
}

impl SegmentScan {
    pub fn new(file: Arc<dyn DiskFile>, log: LogId, first: Position) -> SegmentScan {
        SegmentScan {
            file,
            log,
            first,
            window: Window { buffer: Vec::new(), start: 0, filled: 0, ahead_bytes: READ_AHEAD_BYTES, prefetch: None },
        }
    }

    /// Reads so many bytes ahead at most.
    pub fn reading_ahead(mut self, bytes: usize) -> SegmentScan {
        self.window.ahead_bytes = bytes;
        self
    }

    /// Reads the next part on a thread of its own, while the one before it is looked at.
    pub fn prefetching(mut self) -> SegmentScan {
        self.window.prefetch = Some(Prefetch::new(self.file.clone()));
        self
    }

    /// Gives the memory of its window back.
    pub fn forget(&mut self) {
        (self.window.buffer, self.window.filled) = (Vec::new(), 0);
    }

    /// Bytes of memory that its window takes.
    pub fn held_bytes(&self) -> usize {
        self.window.buffer.capacity()
    }

    /// Where the segment begins.
    pub fn first(&self) -> Position {
        self.first
    }

    /// The file being read.
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// The bytes that the ranges of the last [`Found`] index.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.window.buffer[range]
    }

    /// Verifies the group that follows `before`; reads nothing at or behind the file offset `limit`.
    pub fn group_after(&mut self, before: &Cursor, limit: u64) -> io::Result<Result<Found, GroupFault>> {
        let offset = offset_of(self.first, before.position);
        let head = self.window.view(&*self.file, offset, GROUP_HEADER_BYTES, limit)?;
        let header = match GroupHeader::decode(&self.window.buffer[head]) {
            Ok(header) => header,
            Err(fault) => return Ok(Err(fault)),
        };
        if let Err(fault @ (GroupFault::ForeignLog(_) | GroupFault::WrongPlace(_))) = header.follows(self.log, before) {
            return Ok(Err(fault));
        }
        let whole = self.window.view(&*self.file, offset, header.total_bytes(), limit)?;
        if whole.len() < header.total_bytes() {
            return Ok(Err(GroupFault::Truncated));
        }
        let body = whole.start + GROUP_HEADER_BYTES..whole.end;
        if tidegate_planted::is_planted(tidegate_planted::Bug::TornTailAccepted) {
            return Ok(header.follows(self.log, before).map(|()| Found { header, body, end: header.end() }));
        }
        let checked = header.check_body(&self.window.buffer[whole], &self.window.buffer[body.clone()]);
        // A group that is whole in itself but follows another is told from a torn one: only the former proves a change.
        Ok(checked.and_then(|()| header.follows(self.log, before)).map(|()| Found { header, body, end: header.end() }))
    }

    /// Puts the group that follows `before` right in memory, if one byte of it is wrong: it is found from now on. With
    /// the place of that byte in the file. Only what can have rotted is tried: a fault that says that all checksums
    /// match does not go away with a byte.
    pub fn mend_after(&mut self, before: &Cursor, limit: u64) -> io::Result<Option<WrongByte>> {
        let offset = offset_of(self.first, before.position);
        let head = self.window.view(&*self.file, offset, GROUP_HEADER_BYTES, limit)?;
        if head.len() < GROUP_HEADER_BYTES {
            return Ok(None);
        }
        let (header, in_header) = match GroupHeader::decode(&self.window.buffer[head.clone()]) {
            Ok(header) => (header, None),
            Err(_) => match mend_header(&mut self.window.buffer[head.clone()], self.log, before) {
                Some(byte) => (GroupHeader::decode(&self.window.buffer[head]).expect("it was put right"), Some(byte)),
                None => return Ok(None),
            },
        };
        let whole = match self.window.view(&*self.file, offset, header.total_bytes(), limit) {
            Ok(whole) => whole,
            Err(cause) => {
                // A header that was put right would be read so, and nobody be told.
                self.forget();
                return Err(cause);
            }
        };
        let group = &mut self.window.buffer[whole];
        let is_there = group.len() == header.total_bytes() && header.follows(self.log, before).is_ok();
        let mended = match in_header {
            _ if !is_there => None,
            None => mend_records(&header, group),
            Some(byte) => {
                let (encoded, body) = group.split_at(GROUP_HEADER_BYTES);
                header.check_body(encoded, body).is_ok().then_some(byte)
            }
        };
        if let (None, Some(byte)) = (mended, in_header) {
            byte.undo(group);
        }
        Ok(mended.map(|byte| WrongByte { at: offset as usize + byte.at, ..byte }))
    }
}

//! Reading what is behind the tail: one record by its position, or all groups from a cursor.
//!
//! A reader has file handles of its own and reads only what its caller knows to be durable, so any thread may have one
//! while another writes. It notices new segments by itself.
//!
//! Promise: nothing is refused because of how the folder looked before. Why: a list that was made while a segment's
//! file was away does not have it, and the file may be back.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::aftermath::Aftermath;
use crate::damage::{before_the_first, damage, missing_segment};
use crate::disk::{Disk, DiskFile};
use crate::folder::{Folder, read_up_to};
use crate::forget::forget_before;
use crate::group::{GroupHeader, RECORD_HEADER_BYTES, record_checksum, u32_at};
use crate::limits::{OPEN_SEGMENTS_MAX, RECORD_BYTES_MAX};
use crate::scan::SegmentScan;
use crate::scrub::scrub;
use crate::seal_check::rotten_ends;
use crate::segment::offset_of;
use crate::segment_groups::SegmentGroups;
use crate::{Cursor, Durability, Forgotten, GroupReader, JournalError, LogReader, Position, Scrubbed, Sequence};

/// Records that are right only in memory which a reader keeps.
const RIGHT_RECORDS_MAX: usize = 64;
/// Most records fit the first read; longer ones take a second.
const FIRST_READ_BYTES: usize = 512;

/// What is lost of a group of which one byte is wrong, in the file that is being written.
const LOST_UNTIL_THE_NEXT_START: &str =
    "nothing: one byte is wrong, and what it was is proven; the next start, or the end of this file, puts it right";

/// Where a wrong byte was put right.
enum Mended {
    No,
    InMemory,
    InFile,
}

/// Reads one log, on any thread, while another writes it.
pub struct Reader<D: Disk> {
    folder: Folder<D>,
    open: RefCell<OpenSegments<D::File>>,
    /// Records that are right only here: whoever needs one again need not read all around it.
    right: RefCell<HashMap<Position, Box<[u8]>>>,
    /// The damage that was found last: in which segment, and the place before it, up to which all is proven. Who asks
    /// for many records behind that is not made to prove it again for each.
    damaged: Cell<Option<(Position, Cursor)>>,
}

/// The segments known to a reader, and the files it has open, oldest first.
struct OpenSegments<F> {
    firsts: Vec<Position>,
    files: VecDeque<(Position, Arc<F>)>,
}

impl<D: Disk> Reader<D> {
    pub(crate) fn of(folder: Folder<D>) -> Result<Reader<D>, JournalError> {
        let open = RefCell::new(OpenSegments { firsts: folder.list_segments()?, files: VecDeque::new() });
        Ok(Reader { folder, open, right: RefCell::default(), damaged: Cell::default() })
    }

    /// The place of the segment's first group, or why there is no segment.
    fn begins(&self, first: Option<&Position>) -> Result<Cursor, JournalError> {
        match first {
            Some(first) => Ok(self.folder.open_segment(*first)?.1),
            None => Err(missing_segment(&self.folder, &Cursor::START, None)),
        }
    }

    /// Puts the group behind `before` right, if that is asked for and one byte of the group is wrong: in its file, or
    /// for this reading alone if somebody writes that file.
    fn mend(&self, scan: &mut SegmentScan, before: &Cursor) -> Result<Mended, JournalError> {
        let first = scan.first();
        if !self.folder.mends() {
            return Ok(Mended::No);
        }
        let mended = scan
            .mend_after(before, u64::MAX)
            .map_err(|cause| JournalError::io("read", &self.folder.segment_place(first), cause))?;
        match mended {
            None => Ok(Mended::No),
            Some(byte) if !self.folder.may_write_right(first) => {
                self.folder.tell_unwritten(first, &[byte]);
                Ok(Mended::InMemory)
            }
            Some(byte) => self.folder.write_right(first, &[byte]).map(|()| Mended::InFile),
        }
    }

    /// Reads the groups of the segment that has `at`, up to that place: `Err` says what is damaged there. What can be
    /// put right is. Where only what was read of the group is right, and not its file, the record at `at` is copied
    /// into `record`, if somebody wants it: then it is `Ok(true)`.
    fn look_around(&self, at: Position, record: Option<&mut Vec<u8>>) -> Result<bool, JournalError> {
        let segments = self.folder.list_segments()?;
        let behind = segments.partition_point(|first| *first <= at);
        let Some(first) = behind.checked_sub(1).map(|index| segments[index]) else {
            let place = Cursor { position: at, ..Cursor::START };
            return Err(before_the_first(&self.folder, &place, segments.first().copied()));
        };
        let (file, mut cursor) = self.folder.open_shared(first)?;
        if let Some((of, before)) = self.damaged.get()
            && of == first
            && before.position <= at
        {
            // What is behind it is looked at again: it may have been put right.
            cursor = before;
        }
        let mut scan = SegmentScan::new(file, self.folder.log, first);
        // Behind damage, only the next group itself says what is before it: that proves nothing.
        let mut is_proven = true;
        while cursor.position <= at {
            // What is asked for is durable; nothing is read behind its group, which may still be written.
            let fault = match scan.group_after(&cursor, u64::MAX) {
                Ok(Ok(found)) => {
                    cursor = found.end;
                    continue;
                }
                Ok(Err(fault)) => fault,
                Err(cause) => return Err(JournalError::io("read", &self.folder.segment_place(first), cause)),
            };
            let mended = if is_proven { self.mend(&mut scan, &cursor) } else { Ok(Mended::No) };
            // Also where it could not be written.
            let in_memory = match mended {
                Ok(Mended::No) => None,
                _ => scan.group_after(&cursor, u64::MAX).ok().and_then(Result::ok),
            };
            if is_proven && in_memory.is_none() {
                self.damaged.set(Some((first, cursor)));
            }
            let behind_it = match &in_memory {
                Some(found) => (found.end.position <= at || matches!(mended, Ok(Mended::InFile))).then_some(found.end),
                None => self.group_behind(&scan, &cursor, at)?,
            };
            if let Some(group) = behind_it {
                // The record that is asked for stands behind this damage, or is right by now.
                (cursor, is_proven) = (group, in_memory.is_some());
                continue;
            }
            if let (Some(found), Some(into)) = (&in_memory, record) {
                let mut records = found.header.records(scan.bytes(found.body.clone()));
                if let Some((_, _, payload)) = records.find(|(_, position, _)| *position == at) {
                    into.clear();
                    into.extend_from_slice(payload);
                    return Ok(true);
                }
                let what = "no record begins there".into();
                let (segment, offset) = (self.folder.segment_text(first), offset_of(first, at));
                return Err(JournalError::NoRecord { at, segment, offset, what });
            }
            let next = segments.get(behind).copied();
            let mut damaged = damage(&self.folder, &**scan.file(), first, next, &cursor, fault);
            if let JournalError::Damaged { lost, .. } = &mut damaged {
                match mended {
                    Ok(Mended::No) => {}
                    Ok(_) => *lost = LOST_UNTIL_THE_NEXT_START.into(),
                    Err(error) => *lost = format!("nothing: {error}"),
                }
            }
            return Err(damaged);
        }
        Ok(false)
    }

    /// The next place up to `at`, behind a group that is damaged, at which a group's header is right.
    fn group_behind(&self, scan: &SegmentScan, damaged: &Cursor, at: Position) -> Result<Option<Cursor>, JournalError> {
        let (first, behind) = (scan.first(), Position(damaged.position.0 + 1));
        let group = Aftermath::next_group(&**scan.file(), self.folder.log, first, behind)
            .map_err(|cause| JournalError::io("read", &self.folder.segment_path(first), cause))?;
        let group = group.filter(|group| group.base <= at);
        let before = |group: GroupHeader| Cursor {
            position: group.base,
            sequence: Sequence(group.first_sequence.0 - 1),
            chain: group.previous,
        };
        Ok(group.map(before))
    }

    /// `place`, or where the directory's part of the log begins if it is before that: forgotten, or archived.
    fn first_at_or_after(&self, place: Cursor) -> Result<Cursor, JournalError> {
        let local = self.folder.list_local()?;
        if !self.folder.may_forget() && self.folder.archived_before(&local)?.is_empty() {
            return Ok(place);
        }
        let begins = self.begins(local.first())?;
        Ok(if begins.position > place.position { begins } else { place })
    }
}

impl<D: Disk> LogReader for Reader<D> {
    fn another(&self) -> Result<Reader<D>, JournalError> {
        Reader::of(self.folder.clone())
    }

    fn read(&self, at: Position, into: &mut Vec<u8>) -> Result<(), JournalError> {
        if at.0 > u64::MAX / 2 {
            // Nobody can have written there; offsets in files are counted from it.
            let what = "no log is that long".into();
            return Err(JournalError::NoRecord { at, segment: "no segment".into(), offset: 0, what });
        }
        let mut open = self.open.borrow_mut();
        let before = open.segment_of(at);
        let Err(failed) = open.read_record(&self.folder, at, into) else { return Ok(()) };
        // Since the folder was listed, the writer may have gone on in a new segment, the segment may have been
        // forgotten, or it was away then and is back.
        match (open.list_again(&self.folder), failed) {
            (Ok(_), _) if open.segment_of(at) != before => open.read_record(&self.folder, at, into),
            // A damaged file may have been put right by another one that took its name.
            (Ok(_), JournalError::NoRecord { .. }) if open.close_file_of(at) => {
                open.read_record(&self.folder, at, into)
            }
            (Ok(_), failed) | (Err(_), failed @ JournalError::Io { .. }) => Err(failed),
            (Err(unlisted), _) => Err(unlisted),
        }
    }

    fn let_go(&self) {
        let mut open = self.open.borrow_mut();
        if open.files.is_empty() || !self.folder.may_forget() || open.list_again(&self.folder).is_err() {
            return;
        }
        let OpenSegments { firsts, files } = &mut *open;
        files.retain(|(first, _)| firsts.binary_search(first).is_ok());
    }

    fn is_here(&self, at: Position) -> Result<bool, JournalError> {
        Ok(self.folder.list_local()?.first().is_some_and(|first| *first <= at))
    }

    fn place_of(&self, at: Position) -> (String, u64) {
        let segments = self.folder.list_segments().unwrap_or_default();
        let behind = segments.partition_point(|first| *first <= at);
        let listed = behind.checked_sub(1).map(|index| segments[index]);
        match listed.or_else(|| self.open.borrow().segment_of(at)) {
            Some(first) => (self.folder.segment_text(first), offset_of(first, at)),
            // No name is made up: there is no file of which it is known that it should have the record.
            None => (self.folder.path.display().to_string(), at.0),
        }
    }

    fn read_right(&self, at: Position, into: &mut Vec<u8>) -> Result<(), JournalError> {
        let failed = match self.read(at, into) {
            Err(failed @ JournalError::NoRecord { .. }) if self.folder.mends() => failed,
            read => return read,
        };
        let mut right = self.right.borrow_mut();
        if let Some(record) = right.get(&at) {
            into.clear();
            into.extend_from_slice(record);
            return Ok(());
        }
        match self.look_around(at, Some(into)) {
            Ok(true) => {
                if right.len() == RIGHT_RECORDS_MAX {
                    right.clear();
                }
                right.insert(at, into.as_slice().into());
                Ok(())
            }
            Ok(false) => self.read(at, into),
            Err(_) => Err(failed),
        }
    }

    fn examine(&self, at: Position) -> Result<(), JournalError> {
        self.look_around(at, None).map(drop)
    }

    fn away(&self) -> Vec<(Position, JournalError)> {
        let mut open = self.open.borrow_mut();
        // Where nobody can list the folder, whoever needs a record of it is told.
        let Ok(there) = open.list_again(&self.folder) else { return Vec::new() };
        let is_away = |first: &&Position| there.binary_search(first).is_err();
        let why = |first: &Position| Some((*first, self.folder.open_segment(*first).err()?));
        open.firsts.iter().filter(is_away).filter_map(why).collect()
    }

    fn next_readable(&self, at: Position) -> Result<Option<Cursor>, JournalError> {
        let segments = self.folder.list_segments()?;
        let behind = &segments[segments.partition_point(|first| *first <= at)..];
        // The last one is still being written; its groups are read when it is settled.
        Ok(behind.iter().find_map(|first| self.folder.open_segment(*first).ok()).map(|(_, begins)| begins))
    }

    fn begins_at_or_before(&self, at: Position) -> Result<Cursor, JournalError> {
        let segments = self.folder.list_segments()?;
        let behind = segments.partition_point(|first| *first <= at);
        match behind.checked_sub(1) {
            Some(index) => self.begins(segments.get(index)),
            None => {
                let place = Cursor { position: at, ..Cursor::START };
                Err(before_the_first(&self.folder, &place, segments.first().copied()))
            }
        }
    }

    fn rotten_ends(&self, from: Position, to: Position) -> Result<Vec<JournalError>, JournalError> {
        rotten_ends(&self.folder, from, to)
    }

    fn groups(&self, from: Cursor, up_to: &Durability) -> Result<GroupReader, JournalError> {
        let source = SegmentGroups::new(self.folder.clone())?;
        GroupReader::new(Box::new(source), from, *up_to)
    }

    /// Where the last segment begins. All before it was durable before that segment had a name.
    fn settled_end(&self) -> Result<Durability, JournalError> {
        let segments = self.folder.list_segments()?;
        let settled = Durability::at(self.begins(segments.last())?);
        assert!(segments.first().is_some_and(|first| *first <= settled.position()), "a log ends behind its beginning");
        Ok(settled)
    }

    fn bytes_between(&self, from: Position, to: Position) -> u64 {
        to.0.saturating_sub(from.0)
    }

    fn forget_before(&self, before: Position) -> Result<Forgotten, JournalError> {
        forget_before(&self.folder, before)
    }

    fn scrub(&self, from: Cursor, bytes: u64) -> Result<Scrubbed, JournalError> {
        scrub(self, self.first_at_or_after(from)?, bytes)
    }
}

impl<F: DiskFile> OpenSegments<F> {
    fn read_record<D: Disk<File = F>>(
        &mut self,
        folder: &Folder<D>,
        at: Position,
        into: &mut Vec<u8>,
    ) -> Result<(), JournalError> {
        let Some(first) = self.segment_of(at) else {
            return Err(self.absent(folder, at));
        };
        let file = self.file(folder, first)?;
        let offset = offset_of(first, at);
        let no_record =
            |what: &str| JournalError::NoRecord { at, segment: folder.segment_text(first), offset, what: what.into() };

        let mut bytes = [0; FIRST_READ_BYTES];
        let unread = |cause: std::io::Error| no_record(&format!("the disk does not give it: {cause}"));
        let got = read_up_to(&*file, &mut bytes, offset).map_err(unread)?;
        if got < RECORD_HEADER_BYTES {
            let ends_at = file.len().map_or(offset, |bytes| bytes.min(offset));
            let (segment, what) = (folder.segment_text(first), "the file ends there, before that position".into());
            return Err(JournalError::NoRecord { at, segment, offset: ends_at, what });
        }
        let len = u32_at(&bytes, 0) as usize;
        if len == 0 || len > RECORD_BYTES_MAX {
            return Err(no_record("no record begins there"));
        }
        assert!(got <= FIRST_READ_BYTES, "a read fills no more than it was given");
        let at_hand = len.min(got - RECORD_HEADER_BYTES);
        into.clear();
        into.extend_from_slice(&bytes[RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + at_hand]);
        if at_hand < len {
            into.resize(len, 0);
            let rest = offset + (RECORD_HEADER_BYTES + at_hand) as u64;
            let got = read_up_to(&*file, &mut into[at_hand..], rest).map_err(unread)?;
            if at_hand + got < len {
                return Err(no_record("the file ends within the record"));
            }
        }
        assert_eq!(into.len(), len, "the whole record was read");
        if record_checksum(at, into) == u32_at(&bytes, 4) {
            Ok(())
        } else {
            Err(no_record("its checksum does not match"))
        }
    }

    fn absent<D: Disk<File = F>>(&self, folder: &Folder<D>, at: Position) -> JournalError {
        before_the_first(folder, &Cursor { position: at, ..Cursor::START }, self.firsts.first().copied())
    }

    fn segment_of(&self, at: Position) -> Option<Position> {
        let index = self.firsts.partition_point(|first| *first <= at);
        let first = index.checked_sub(1).map(|index| self.firsts[index]);
        assert!(first.is_none_or(|first| first <= at), "the segment begins before what it holds");
        first
    }

    /// Lists the folder again; what is there now. A segment that was known stays so although its file is away, unless
    /// it may have been forgotten: whoever needs it is told that this file cannot be opened, and not that another one
    /// ends too early.
    fn list_again<D: Disk<File = F>>(&mut self, folder: &Folder<D>) -> Result<Vec<Position>, JournalError> {
        let there = folder.list_segments()?;
        let begins = there.first().copied().filter(|_| folder.may_forget());
        self.firsts.retain(|first| begins.is_none_or(|begins| *first > begins));
        self.firsts.extend(&there);
        self.firsts.sort_unstable();
        self.firsts.dedup();
        Ok(there)
    }

    /// Closes the file that has `at`; whether it was open.
    fn close_file_of(&mut self, at: Position) -> bool {
        let (first, open) = (self.segment_of(at), self.files.len());
        self.files.retain(|(held, _)| Some(*held) != first);
        self.files.len() < open
    }

    fn file<D: Disk<File = F>>(&mut self, folder: &Folder<D>, first: Position) -> Result<Arc<F>, JournalError> {
        if let Some((_, file)) = self.files.iter().rev().find(|(held, _)| *held == first) {
            return Ok(file.clone());
        }
        // Where nothing says whose records these are, a record's own checksum is not enough.
        let file = Arc::new(folder.open_for_records(first)?);
        if self.files.len() == OPEN_SEGMENTS_MAX {
            self.files.pop_front();
        }
        self.files.push_back((first, file.clone()));
        assert!(self.files.len() <= OPEN_SEGMENTS_MAX);
        Ok(file)
    }
}

#[cfg(test)]
mod tests;

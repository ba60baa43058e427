//! Which bytes a copy of a log is made of, while its writer goes on.
//!
//! ```text
//!   sealed segments: never written again        last segment: │ group │ group │ group, half written
//!   ─────────────────────────────────────                               end ▲  proven ▲ by marks and later groups
//! ```
//!
//! Promise: what was durable when [`LogFiles::tail`] was called lies before the end that it returns; [`Tail::proven`]
//! says how far the log itself proves that it is durable. Nothing is written but by [`LogFiles::cut`], which is for
//! copies.
//!
//! Why it reads files and asks nobody: a backup must also be possible when the server no longer answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::aftermath::Aftermath;
use crate::archive::Archived;
use crate::damage::{before_the_first, damage, header_rotten, missing_segment, nothing_follows};
use crate::disk::{Disk, DiskFile};
use crate::folder::{Folder, read_up_to};
use crate::group::GroupFault;
use crate::scan::SegmentScan;
use crate::segment::{MARK_BYTES, Mark, MarkKind, SEGMENT_HEADER_BYTES, offset_of};
use crate::segment_groups::SegmentGroups;
use crate::walk::Walk;
use crate::{Cursor, Durability, GroupReader, JournalError, LogId, Position};

/// The files of one log, to be read by a tool beside its writer.
#[derive(Clone, Debug)]
pub struct LogFiles<D: Disk> {
    folder: Folder<D>,
}

/// How far a log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Behind the last whole group. Whatever was durable when it was looked for is before it.
    pub end: Cursor,
    /// Up to here, a mark or a later group says that everything was durable; perhaps less than `end`, never more.
    pub proven: Position,
}

/// What stands behind the last group of the last segment.
enum Behind {
    /// The log ends there.
    End,
    /// It goes on in a segment that was not there before.
    Segment,
}

impl<D: Disk> LogFiles<D> {
    pub(crate) fn of(folder: Folder<D>) -> LogFiles<D> {
        LogFiles { folder }
    }

    /// Whose files they are.
    pub fn log(&self) -> LogId {
        self.folder.log
    }

    /// The folder that they are in.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// The file of the segment that begins at `first`.
    pub fn path(&self, first: Position) -> PathBuf {
        self.folder.segment_path(first)
    }

    /// The file that has the segment's bytes, which may have been moved out of the directory, or be fetched for it.
    pub fn locate(&self, first: Position) -> Result<PathBuf, JournalError> {
        self.folder.locate(first)
    }

    /// Where the segments in the directory begin, ascending: those that were not moved out of it.
    pub fn local_segments(&self) -> Result<Vec<Position>, JournalError> {
        self.folder.list_local()
    }

    /// Where the segments begin, ascending.
    pub fn segments(&self) -> Result<Vec<Position>, JournalError> {
        self.folder.list_segments()
    }

    /// The place of a segment's first group, from its header; if that has rotted, from the end of the segment before.
    pub fn begins(&self, first: Position) -> Result<Cursor, JournalError> {
        if let Some(archived) = self.moved(first)? {
            return Ok(archived.first);
        }
        let rotten = match self.folder.open_rotten(first)?.1 {
            Ok(begins) => return Ok(begins),
            Err(_) if first == Cursor::START.position => return Ok(Cursor::START),
            Err(rotten) => rotten,
        };
        let segments = self.segments()?;
        let before = segments.partition_point(|other| *other < first).checked_sub(1).map(|index| segments[index]);
        let ends = before.map(|before| self.sealed_end(before)).transpose()?.flatten();
        ends.filter(|ends| ends.position == first).ok_or(rotten)
    }

    /// Puts wrong bytes of a segment right that nobody writes, as far as its groups follow each other; how many.
    pub fn put_right(&self, first: Position) -> Result<usize, JournalError> {
        let (file, begins) = self.folder.open_shared(first)?;
        let wrong = Walk::through(&self.folder, file, begins)?.wrong;
        self.folder.write_right(first, &wrong)?;
        Ok(wrong.len())
    }

    /// Refuses a segment whose header is bad.
    pub fn check_header(&self, first: Position) -> Result<(), JournalError> {
        self.folder.open_segment(first).map(drop)
    }

    /// Why there is nothing at a place before the first segment: it was forgotten, or is lost.
    pub fn before_the_first(&self, at: Position) -> Result<JournalError, JournalError> {
        let begins = self.segments()?.first().copied();
        Ok(before_the_first(&self.folder, &Cursor { position: at, ..Cursor::START }, begins))
    }

    /// The error for a segment that should be between a sealed end and the next segment that is there.
    pub fn missing(&self, sealed_end: &Cursor, next: Position) -> JournalError {
        missing_segment(&self.folder, sealed_end, Some(next))
    }

    /// What was written down about a segment that is not in the directory.
    fn moved(&self, first: Position) -> Result<Option<Archived>, JournalError> {
        let path = self.path(first);
        let is_here = self.folder.disk.exists(&path).map_err(|cause| JournalError::io("look for", &path, cause))?;
        if is_here { Ok(None) } else { self.folder.archived(first) }
    }

    /// The place behind a segment's last group, if a mark says that it is sealed: its bytes never change again.
    pub fn sealed_end(&self, first: Position) -> Result<Option<Cursor>, JournalError> {
        if let Some(archived) = self.moved(first)? {
            return Ok(Some(archived.end));
        }
        let path = self.path(first);
        let failed = |cause| JournalError::io("read", &path, cause);
        let (file, _) = self.folder.open_rotten(first)?;
        let bytes = file.len().map_err(failed)?;
        let Some(at) = bytes.checked_sub(MARK_BYTES as u64).filter(|at| *at >= SEGMENT_HEADER_BYTES as u64) else {
            return Ok(None);
        };
        let mark = mark_at(&file, at).map_err(failed)?;
        let is_last = |mark: &Mark| {
            let place = mark.end.position;
            mark.log == self.folder.log
                && mark.kind == MarkKind::Sealed
                && place >= first
                && offset_of(first, place) == at
        };
        Ok(mark.filter(is_last).map(|mark| mark.end))
    }

    /// Bytes of the file of the segment at `first` up to the place `end` in it, its header included.
    pub fn bytes_up_to(&self, first: Position, end: Position) -> u64 {
        offset_of(first, end)
    }

    /// Reads all whole groups from `from` on, an earlier end or the beginning of a segment, and judges what is behind
    /// them as recovery does: a group that is bad although it was durable is damage, and not the end. So is a last
    /// segment with a bad header and without groups: its header was durable before it had a name, so no crash left it.
    /// If a mark says that it has none, the words do as well, and a start writes the header again; a copy would have
    /// the header without the mark.
    pub fn tail(&self, from: Cursor) -> Result<Tail, JournalError> {
        self.walk(from, true)
    }

    /// As [`LogFiles::tail`], without judging what is behind: for another look at a log whose end was judged.
    pub fn tail_again(&self, from: Cursor) -> Result<Tail, JournalError> {
        self.walk(from, false)
    }

    /// The groups from `from` to `to`, verified; both are places that this log has.
    pub fn groups(&self, from: Cursor, to: Cursor) -> Result<GroupReader, JournalError> {
        GroupReader::new(Box::new(SegmentGroups::new(self.folder.clone())?), from, Durability::at(to))
    }

    /// Makes durable what anybody has written to the segment that holds `at`.
    pub fn sync(&self, at: Position) -> Result<(), JournalError> {
        let first = self.segment_of(at)?.0;
        let file = self.folder.open_file(first)?;
        file.sync_data().map_err(|cause| JournalError::io("sync", &self.path(first), cause))
    }

    /// Ends a copy of a log at `end`, a place between two groups of its last segment: removes what is behind it, and
    /// marks the end, durably. Where no group is before it, the header must be good: it is all that the copy has, and
    /// behind a bad one the new mark would say that nothing was lost.
    pub fn cut(&self, end: Cursor) -> Result<(), JournalError> {
        let (first, next) = self.segment_of(end.position)?;
        assert!(next.is_none(), "a copy is cut in its last segment");
        let path = self.path(first);
        let failed = |cause| JournalError::io("cut", &path, cause);
        let file = self.folder.open_file(first)?;
        let offset = offset_of(first, end.position);
        if end.position == first {
            self.folder.open_segment(first)?;
        }
        assert!(file.len().map_err(failed)? >= offset, "a copy is cut in what it has");
        file.set_len(offset).map_err(failed)?;
        file.write_all_at(&Mark { log: self.folder.log, kind: MarkKind::Tail, end }.encode(), offset)
            .map_err(failed)?;
        file.sync_data().map_err(failed)?;
        self.folder.disk.sync_dir(&self.folder.path).map_err(|cause| JournalError::io("sync", self.folder(), cause))
    }

    fn walk(&self, from: Cursor, judging: bool) -> Result<Tail, JournalError> {
        let mut tail = Tail { end: from, proven: Position(0) };
        loop {
            let (first, next) = self.segment_of(tail.end.position)?;
            // All before a segment was durable before it had a name.
            tail.proven = tail.proven.max(first);
            // Groups say themselves whose they are.
            let file: Arc<dyn DiskFile> = Arc::new(self.folder.open_rotten(first)?.0);
            let fault = self.walk_segment(&file, first, &mut tail)?;
            match next {
                Some(next) if tail.end.position == next => {}
                Some(next) => return Err(damage(&self.folder, &*file, first, Some(next), &tail.end, fault)),
                None => match self.behind(&file, first, &mut tail, judging)? {
                    Behind::Segment => {}
                    Behind::End => {
                        assert!(tail.proven <= tail.end.position, "only what is there is proven");
                        return Ok(tail);
                    }
                },
            }
        }
    }

    /// Goes on over the whole groups of one segment, and says why there is no further one.
    fn walk_segment(
        &self,
        file: &Arc<dyn DiskFile>,
        first: Position,
        tail: &mut Tail,
    ) -> Result<GroupFault, JournalError> {
        let failed = |cause| JournalError::io("read", &self.folder.segment_place(first), cause);
        let limit = file.len().map_err(failed)?;
        let mut scan = SegmentScan::new(file.clone(), self.folder.log, first);
        loop {
            match scan.group_after(&tail.end, limit).map_err(failed)? {
                Ok(found) => {
                    tail.proven = tail.proven.max(found.header.synced_up_to);
                    tail.end = found.end;
                }
                Err(fault) => {
                    let mends = self.folder.mends();
                    let mended = if mends { scan.mend_after(&tail.end, limit).map_err(failed)? } else { None };
                    let Some(byte) = mended else { return Ok(fault) };
                    self.folder.tell_unwritten(first, &[byte]);
                }
            }
        }
    }

    /// Looks behind the last whole group of the last segment. The writer may go on meanwhile, so groups are read once
    /// more before what stands behind them counts as damage.
    fn behind(
        &self,
        file: &Arc<dyn DiskFile>,
        first: Position,
        tail: &mut Tail,
        judging: bool,
    ) -> Result<Behind, JournalError> {
        let failed = |cause| JournalError::io("read", &self.folder.segment_place(first), cause);
        if judging {
            let aftermath = Aftermath::examine(&**file, self.folder.log, first, tail.end.position).map_err(failed)?;
            let fault = self.walk_segment(file, first, tail)?;
            if aftermath.shows_damage_at(tail.end.position) {
                return Err(damage(&self.folder, &**file, first, None, &tail.end, fault));
            }
            if tail.end.position == first {
                self.check_last_header(&**file, &tail.end)?;
            }
        }
        let end = tail.end;
        let mark = mark_at(&**file, offset_of(first, end.position)).map_err(failed)?;
        match mark.filter(|mark| mark.log == self.folder.log && mark.end == end) {
            Some(Mark { kind: MarkKind::Tail, .. }) => tail.proven = end.position,
            Some(Mark { kind: MarkKind::Sealed, .. }) if self.segment_of(end.position)?.0 == first => {
                return Err(missing_segment(&self.folder, &end, None));
            }
            Some(Mark { kind: MarkKind::Sealed, .. }) => return Ok(Behind::Segment),
            None => {}
        }
        // The writer names the next segment before it seals this one.
        let went_on = self.segment_of(end.position)?.0 != first;
        Ok(if went_on { Behind::Segment } else { Behind::End })
    }

    /// Refuses the last segment, which begins at `begins` and has no groups, if its header is bad.
    fn check_last_header(&self, file: &dyn DiskFile, begins: &Cursor) -> Result<(), JournalError> {
        let Err(rot) = self.folder.open_segment(begins.position) else { return Ok(()) };
        let is_empty = self.folder.is_marked_empty(file, begins)?;
        Err(match is_empty {
            true => header_rotten(&self.folder, begins.position),
            false => nothing_follows(&self.folder, file, begins, rot),
        })
    }

    /// The segment that holds `at`, and the one behind it; one that begins at `at` holds it.
    fn segment_of(&self, at: Position) -> Result<(Position, Option<Position>), JournalError> {
        let segments = self.folder.list_segments()?;
        let behind = segments.partition_point(|first| *first <= at);
        match behind.checked_sub(1) {
            Some(index) => Ok((segments[index], segments.get(behind).copied())),
            None => {
                let place = Cursor { position: at, ..Cursor::START };
                Err(before_the_first(&self.folder, &place, segments.first().copied()))
            }
        }
    }
}

/// The mark at this offset of a file, if there is a good one.
fn mark_at(file: &dyn DiskFile, offset: u64) -> std::io::Result<Option<Mark>> {
    let mut bytes = [0; MARK_BYTES];
    let got = read_up_to(file, &mut bytes, offset)?;
    Ok(Mark::decode(&bytes[..got]).ok())
}

#[cfg(test)]
mod tests;

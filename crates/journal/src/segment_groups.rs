//! The groups of a log that lies in segment files, in order.

use std::ops::Range;
use std::sync::Arc;

use crate::damage::{LOST_UNKNOWN, bad_cursor, before_the_first, damage};
use crate::disk::Disk;
use crate::folder::Folder;
use crate::group::GroupFault;
use crate::groups::{Found, GroupSource};
use crate::limits::READ_AHEAD_BYTES;
use crate::scan::SegmentScan;
use crate::segment::offset_of;
use crate::{Cursor, JournalError, Position};

/// Goes from segment to segment, also to those that are added meanwhile.
pub(crate) struct SegmentGroups<D: Disk> {
    folder: Folder<D>,
    segments: Vec<Position>,
    scan: Option<SegmentScan>,
    ahead_bytes: usize,
    prefetches: bool,
}

impl<D: Disk> SegmentGroups<D> {
    pub fn new(folder: Folder<D>) -> Result<SegmentGroups<D>, JournalError> {
        let segments = folder.list_segments()?;
        Ok(SegmentGroups { segments, folder, scan: None, ahead_bytes: READ_AHEAD_BYTES, prefetches: false })
    }

    fn try_scan(&mut self, before: &Cursor, up_to: Position) -> Result<Result<Found, GroupFault>, JournalError> {
        let scan = self.scan.as_mut().expect("a segment was entered");
        let first = scan.first();
        assert!(
            first <= before.position && before.position < up_to,
            "the segment holds the place, and something follows"
        );
        scan.group_after(before, offset_of(first, up_to))
            .map_err(|cause| JournalError::io("read", &self.folder.segment_place(first), cause))
    }

    /// Puts the group behind `before` right, if that is asked for and one byte of it is wrong. Whether it did.
    fn mend(&mut self, before: &Cursor, up_to: Position) -> Result<bool, JournalError> {
        if !self.folder.mends() {
            return Ok(false);
        }
        let scan = self.scan.as_mut().expect("a segment was entered");
        let first = scan.first();
        let mended = scan
            .mend_after(before, offset_of(first, up_to))
            .map_err(|cause| JournalError::io("read", &self.folder.segment_place(first), cause))?;
        if let Some(byte) = mended {
            self.folder.keep_right(first, &[byte]);
        }
        Ok(mended.is_some())
    }

    /// The segment that holds `place`, among those that are known.
    fn segment_of(&self, place: &Cursor) -> Option<Position> {
        let index = self.segments.partition_point(|first| *first <= place.position);
        index.checked_sub(1).map(|index| self.segments[index])
    }

    /// Goes to the segment that holds `place`.
    fn enter_segment(&mut self, place: &Cursor, is_first: bool) -> Result<(), JournalError> {
        if self.segment_of(place).is_none() {
            // It may be there again since the folder was listed.
            self.segments = self.folder.list_segments()?;
        }
        let Some(first) = self.segment_of(place) else {
            return Err(before_the_first(&self.folder, place, self.segments.first().copied()));
        };
        if self.scan.as_ref().is_some_and(|scan| scan.first() == first) {
            return Ok(());
        }
        let (file, begins) = match self.folder.open_rotten(first) {
            Ok(opened) => opened,
            Err(error) => return Err(self.judge_open(place, first, error)?),
        };
        // A header that rotted is told by whoever looks for that ([`crate::LogReader::rotten_ends`]). Nothing here
        // needs it: each group says whose it is, where it stands, and what it follows.
        if let Ok(begins) = begins
            && begins.position == place.position
            && begins != *place
        {
            return Err(judge_chain(&self.folder, place, begins, is_first));
        }
        let scan = SegmentScan::new(Arc::new(file), self.folder.log, first).reading_ahead(self.ahead_bytes);
        self.scan = Some(if self.prefetches { scan.prefetching() } else { scan });
        Ok(())
    }

    /// The segment may have been forgotten since the folder was listed.
    fn judge_open(
        &mut self,
        place: &Cursor,
        first: Position,
        error: JournalError,
    ) -> Result<JournalError, JournalError> {
        self.segments = self.folder.list_segments()?;
        let begins = self.segments.first().copied();
        let is_forgotten = self.folder.may_forget() && begins.is_some_and(|begins| begins > first);
        Ok(if is_forgotten { before_the_first(&self.folder, place, begins) } else { error })
    }

    /// The first group after a cursor that came from elsewhere may show that the cursor is wrong, and not the log.
    fn judge(&mut self, before: &Cursor, fault: GroupFault, is_first: bool) -> JournalError {
        if let (GroupFault::BrokenChain { first_sequence }, true) = (fault, is_first && *before != Cursor::START) {
            return bad_cursor(
                before,
                format!("the group there, from sequence {first_sequence}, follows another history"),
            );
        }
        self.damaged(before, fault)
    }
}

impl<D: Disk> GroupSource for SegmentGroups<D> {
    fn find(&mut self, before: &Cursor, up_to: Position, is_first: bool) -> Result<Found, JournalError> {
        self.enter_segment(before, is_first)?;
        let mut found = self.try_scan(before, up_to)?;
        // The writer may have gone on in a new segment since the folder was listed, or one that was away is back.
        if let Err(GroupFault::NoGroup) = found {
            self.segments = self.folder.list_segments()?;
            self.enter_segment(before, is_first)?;
            found = self.try_scan(before, up_to)?;
        }
        if found.is_err() && self.mend(before, up_to)? {
            found = self.try_scan(before, up_to)?;
        }
        found.map_err(|fault| self.judge(before, fault, is_first))
    }

    fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.scan.as_ref().expect("a segment was entered").bytes(range)
    }

    fn read_ahead(&mut self, bytes: usize) {
        assert!(self.scan.is_none(), "it is said before anything is read");
        self.ahead_bytes = bytes;
    }

    fn prefetch(&mut self) {
        assert!(self.scan.is_none(), "it is said before anything is read");
        self.prefetches = true;
    }

    fn forget_ahead(&mut self) {
        if let Some(scan) = &mut self.scan {
            scan.forget();
        }
    }

    fn held_bytes(&self) -> usize {
        self.scan.as_ref().map_or(0, SegmentScan::held_bytes)
    }

    fn damaged(&mut self, before: &Cursor, fault: GroupFault) -> JournalError {
        let scan = self.scan.as_ref().expect("a segment was entered");
        let next = self.segments.get(self.segments.partition_point(|first| *first <= scan.first())).copied();
        damage(&self.folder, &**scan.file(), scan.first(), next, before, fault)
    }

    fn exchanged(&mut self, before: &Cursor, what: String) -> JournalError {
        let first = self.scan.as_ref().expect("a segment was entered").first();
        JournalError::Damaged {
            segment: self.folder.segment_text(first),
            offset: offset_of(first, before.position),
            what: format!("the group there was exchanged: {what}"),
            lost: LOST_UNKNOWN.into(),
        }
    }
}

/// A segment that does not begin with what `place`, behind the segment before it, names.
fn judge_chain<D: Disk>(folder: &Folder<D>, place: &Cursor, begins: Cursor, is_first: bool) -> JournalError {
    if is_first {
        let (sequence, chain) = (begins.sequence, begins.chain);
        return bad_cursor(place, format!("the log has sequence {sequence}, chain {chain} there"));
    }
    let what =
        format!("it does not continue the chain of the segment before it, which ends with sequence {}", place.sequence);
    JournalError::Damaged { segment: folder.segment_text(begins.position), offset: 0, what, lost: LOST_UNKNOWN.into() }
}

#[cfg(test)]
mod tests;

//! The tail of one log: groups are sealed, written, synced; segments follow each other; room is claimed ahead.
//!
//! ```text
//!   submitted groups ─seal─▶ image ─write─▶ segment-…  ─sync─▶ durable
//!                                           │ groups │ mark? │ allocated ahead … │     spare.tgj │ allocated ahead … │
//! ```
//!
//! Room is claimed before it is needed, so that the commit path never meets a full disk: [`Writer::room_up_to`] says
//! how far the log may grow with what has been claimed, whatever the sizes of the groups.
//!
//! Invariant: no thread, no clock and no retry of a failed sync in here. Whoever drives a writer drops it on the first
//! error.

use std::io;
use std::path::PathBuf;

use tidegate_planted::{Bug, is_planted};

use crate::disk::{Blocks, Disk, DiskFile};
use crate::folder::Folder;
use crate::group::{self, GROUP_HEADER_BYTES, Seal};
use crate::image::{BLOCK, Image};
use crate::in_flight::Submitted;
use crate::limits::ZERO_AHEAD_BYTES;
use crate::segment::{MARK_BYTES, Mark, MarkKind, SEGMENT_HEADER_BYTES, SPARE_NAME, SegmentHeader, offset_of};
use crate::{Cursor, JournalError, Notice, Options, Position};

/// An image is written when it has grown to this size, to bound the memory of a batch of large groups.
const IMAGE_BYTES: usize = 1024 * 1024;

/// A segment that groups are written to.
pub(crate) struct Active<F> {
    pub file: F,
    pub path: PathBuf,
    pub first: Position,
    /// Bytes from the start of the file for which the file system has promised room: whole blocks, unless there is
    /// none behind the end of the log.
    pub allocated: u64,
    /// Bytes from the start of the file that have been written at least once, be it with zeros: whole blocks.
    pub zeroed: u64,
}

/// The file that will be the next segment.
struct Spare<F> {
    file: F,
    path: PathBuf,
    allocated: u64,
}

/// What an attempt to claim room led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// There is as much as wanted.
    Enough,
    /// Some was claimed; there may be more to claim.
    Claimed,
    /// The disk has no more.
    DiskFull,
}

/// Batches up to this size are worth zeros ahead of them, see [`Writer::zero_ahead`].
const ZERO_AHEAD_BATCH_BYTES_MAX: u64 = 128 << 10;

/// Less room than this is not worth asking a file system for.
const CLAIM_BYTES_MIN: u64 = 64 << 10;

/// The only writer of one log.
pub(crate) struct Writer<D: Disk> {
    folder: Folder<D>,
    options: Options,
    segment: Active<D::File>,
    spare: Option<Spare<D::File>>,
    /// Behind everything written.
    end: Cursor,
    /// Behind everything synced.
    synced: Cursor,
    /// Whether a tail mark stands at `end`, durably.
    marked: bool,
    /// The highest `synced_up_to` of a durable group: what recovery can prove even without the mark.
    claimed: Position,
    image: Image,
    zeros: Blocks,
    /// Room was asked for last and there was none: the next time little is asked for first.
    met_full: bool,
}

impl<D: Disk> Writer<D> {
    /// A writer that goes on at `end`, which is durable, in `segment`; `claimed` is what its groups say of themselves.
    pub fn new(
        folder: Folder<D>,
        options: Options,
        segment: Active<D::File>,
        end: Cursor,
        claimed: Position,
        marked: bool,
    ) -> Result<Writer<D>, JournalError> {
        let spare_path = folder.path.join(SPARE_NAME);
        let stale =
            folder.disk.exists(&spare_path).map_err(|cause| JournalError::io("look for", &spare_path, cause))?;
        if stale {
            folder.disk.remove(&spare_path).map_err(|cause| JournalError::io("remove", &spare_path, cause))?;
        }
        assert!(claimed <= end.position, "what is claimed to be durable was written");
        assert!(segment.first <= end.position, "a log ends in its last segment");
        assert!(segment.allocated >= offset_of(segment.first, end.position), "what was read is there");
        let zeros = ZERO_AHEAD_BYTES.min(options.allocation_step_bytes / 4) / BLOCK * BLOCK;
        let image = Image::behind(&segment.file, offset_of(segment.first, end.position))
            .map_err(|cause| JournalError::io("read the end of", &segment.path, cause))?;
        segment.file.bypass_cache();
        Ok(Writer {
            folder,
            options,
            segment,
            spare: None,
            end,
            synced: end,
            marked,
            claimed,
            image,
            zeros: Blocks::zeros(zeros as usize),
            met_full: false,
        })
    }

    /// Behind everything that is durable.
    pub fn synced(&self) -> Cursor {
        self.synced
    }

    /// Whether something has been written since the last sync.
    pub fn has_unsynced(&self) -> bool {
        self.synced != self.end
    }

    /// Whether the end of the log is marked on disk.
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    /// Up to here, damage can be told from a torn tail: a later group or a mark, durable itself, claims that it was
    /// durable.
    pub fn proven_up_to(&self) -> Position {
        let proven = if self.marked { self.end.position } else { self.claimed };
        assert!(proven <= self.synced.position, "only what is durable is proven");
        proven
    }

    /// Seals `group` and writes it, now or together with those that follow before [`Writer::flush`].
    pub fn write(&mut self, group: &Submitted) -> Result<(), JournalError> {
        assert_eq!(group.base, self.end.position, "groups are submitted in order");
        assert_eq!(group.first_sequence.0, self.end.sequence.0 + 1, "records are numbered without gaps");
        assert!(group.bytes() <= self.options.group_bytes_max, "a group has at most what its log allows");
        self.put(&group.body, group.records)?;
        assert_eq!(self.end.position, group.end, "what is sealed is as long as what was submitted");
        assert_eq!(
            self.end.sequence,
            group.last_sequence(),
            "what is sealed has as many records as what was submitted"
        );
        group.note_chain(self.end.chain);
        if self.image.bytes() >= IMAGE_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes a notice, durably, and marks the end of the log behind it; returns the place there. Everything before
    /// must have been synced. For tools: a shard writes none.
    pub fn append_notice(&mut self, notice: &Notice) -> Result<Cursor, JournalError> {
        assert!(!self.has_unsynced(), "a notice follows what is durable");
        let before = self.end;
        let body = group::notice_body(notice);
        let bytes = (GROUP_HEADER_BYTES + body.len()) as u64;
        while self.room_up_to().0 < before.position.0 + bytes {
            if self.claim_room()? != Claim::Claimed {
                return Err(self.write_failed(io::Error::from(io::ErrorKind::StorageFull)));
            }
        }
        self.put(&body, 0)?;
        assert!(
            self.end.sequence == before.sequence && self.end.position > before.position,
            "a notice has no sequence"
        );
        self.flush()?;
        self.sync()?;
        self.mark_tail()?;
        Ok(self.end)
    }

    /// Seals `body`, of so many records, behind the end of the log.
    fn put(&mut self, body: &[u8], record_count: u32) -> Result<(), JournalError> {
        let bytes = GROUP_HEADER_BYTES + body.len();
        if self.end_offset() + (bytes + MARK_BYTES) as u64 > self.segment.allocated {
            self.flush()?;
            self.roll()?;
        }
        let behind = self.end_offset() + (bytes + MARK_BYTES) as u64;
        assert!(behind <= self.segment.allocated, "room for the group and a mark was claimed before it was let in");
        let seal = Seal { log: self.folder.log, before: self.end, synced_up_to: self.synced.position, record_count };
        self.end = self.image.put(bytes, |image| group::seal(seal, body, image));
        self.marked = false;
        Ok(())
    }

    /// Writes the image. Why copy groups into one: their owner can still read them, and small ones share a write.
    pub fn flush(&mut self) -> Result<(), JournalError> {
        if !self.image.is_empty() {
            let (offset, synced) = (self.image.offset(), offset_of(self.segment.first, self.synced.position));
            assert!(offset >= synced, "nothing durable is changed");
            assert_eq!(offset + self.image.bytes() as u64, self.end_offset(), "the image reaches to the end");
            let written = self.image.write_to(&self.segment.file);
            if !is_planted(Bug::FailedWriteIgnored) {
                written.map_err(|cause| self.write_failed(cause))?;
            }
        }
        Ok(())
    }

    /// Makes everything written durable. After an error nothing may be asked of this writer any more.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        assert!(self.image.is_empty(), "flush comes before sync");
        if self.has_unsynced() {
            self.segment.file.sync_data().map_err(|cause| self.sync_failed(cause))?;
            // The groups just synced say that those before them were.
            assert!(self.claimed <= self.synced.position && self.synced.position < self.end.position);
            self.claimed = self.synced.position;
            self.synced = self.end;
        }
        Ok(())
    }

    /// Marks the end of the log on disk, durably. Everything must have been synced.
    pub fn mark_tail(&mut self) -> Result<(), JournalError> {
        assert!(!self.has_unsynced(), "only what is durable is marked");
        if !self.marked && self.end_offset() + MARK_BYTES as u64 <= self.segment.allocated {
            self.write_mark(MarkKind::Tail)?;
            self.segment.file.sync_data().map_err(|cause| self.sync_failed(cause))?;
        }
        self.marked = true;
        Ok(())
    }

    /// Position up to which the log may grow with the room that has been claimed, in groups of any permitted size.
    pub fn room_up_to(&self) -> Position {
        let mark = MARK_BYTES as u64;
        let here = self.segment.allocated.saturating_sub(self.end_offset() + mark);
        let room = match &self.spare {
            None => here,
            Some(spare) => {
                // The group that does not fit here any more wastes less than its own size.
                let next = spare.allocated.saturating_sub(SEGMENT_HEADER_BYTES as u64 + mark);
                here.max(next).max((here + next).saturating_sub(self.options.group_bytes_max as u64))
            }
        };
        let room_up_to = Position(self.end.position.0 + room);
        assert!(room_up_to >= self.end.position, "room is ahead");
        room_up_to
    }

    /// Claims one more step of room from the file system when there is less than wanted ahead.
    pub fn claim_room(&mut self) -> Result<Claim, JournalError> {
        let wanted = self.options.allocation_step_bytes.max(4 * self.options.group_bytes_max as u64);
        let wanted = wanted + self.options.note_bytes;
        if self.room_up_to().0 - self.end.position.0 >= wanted {
            return Ok(Claim::Enough);
        }
        let segment_bytes = self.options.segment_bytes.next_multiple_of(BLOCK);
        let most = self.options.allocation_step_bytes;
        let step = if self.met_full { most.min(CLAIM_BYTES_MIN) } else { most };
        let claimed = self.claim_step(segment_bytes, step);
        self.met_full = matches!(claimed, Ok(Claim::DiskFull));
        claimed
    }

    fn claim_step(&mut self, segment_bytes: u64, step: u64) -> Result<Claim, JournalError> {
        if self.segment.allocated < segment_bytes {
            return match claim(&self.segment.file, self.segment.allocated, segment_bytes, step, &self.options) {
                Ok(Some(allocated)) => {
                    self.segment.allocated = allocated;
                    Ok(Claim::Claimed)
                }
                Ok(None) => Ok(Claim::DiskFull),
                Err(cause) => Err(JournalError::io("allocate room in", &self.segment.path, cause)),
            };
        }
        let path = self.folder.path.join(SPARE_NAME);
        if self.spare.is_none() {
            match self.folder.disk.create_new(&path) {
                Ok(file) => self.spare = Some(Spare { file, path: path.clone(), allocated: 0 }),
                Err(cause) if is_full(&cause) => return Ok(Claim::DiskFull),
                Err(cause) => return Err(JournalError::io("create", &path, cause)),
            }
        }
        let spare = self.spare.as_mut().expect("created above");
        if spare.allocated >= segment_bytes {
            return Ok(Claim::Enough);
        }
        match claim(&spare.file, spare.allocated, segment_bytes, step, &self.options) {
            Ok(Some(allocated)) => {
                spare.allocated = allocated;
                Ok(Claim::Claimed)
            }
            Ok(None) => Ok(Claim::DiskFull),
            Err(cause) => Err(JournalError::io("allocate room in", &path, cause)),
        }
    }

    /// Overwrites the next stretch of claimed room with zeros when little is left of the last one; says whether it did.
    ///
    /// Why: the first write into claimed room makes its sync commit the file system's journal as well, which takes
    /// several more threads of the kernel. Over zeros it does not; see `docs/decisions/0002-journal-io.md` for what
    /// that is worth. Not behind a large batch: there the zeros, which are written and synced as well, cost more than
    /// they save.
    pub fn zero_ahead(&mut self) -> Result<bool, JournalError> {
        if !self.options.zero_ahead {
            return Ok(false);
        }
        let last_batch_bytes = self.synced.position.0.saturating_sub(self.claimed.0);
        if last_batch_bytes > ZERO_AHEAD_BATCH_BYTES_MAX {
            return Ok(false);
        }
        let stretch = self.zeros.len() as u64;
        let end = (self.end_offset() + MARK_BYTES as u64).next_multiple_of(BLOCK);
        let from = self.segment.zeroed.max(end);
        let to = (from + stretch).min(self.segment.allocated / BLOCK * BLOCK);
        if from >= end + stretch / 2 || from >= to {
            return Ok(false);
        }
        assert!(from >= end && to <= self.segment.allocated, "zeros go behind what is written, into claimed room");
        let zeros = &self.zeros[..(to - from) as usize];
        self.segment.file.write_blocks_at(zeros, from).map_err(|cause| self.write_failed(cause))?;
        self.segment.zeroed = to;
        Ok(true)
    }

    /// Goes on in the next segment. Each step is durable before the next, so that a crash between any two is
    /// understood: the old groups, the new segment's header, its name, and only then the mark that says "it goes on
    /// there".
    fn roll(&mut self) -> Result<(), JournalError> {
        assert!(self.end.position > self.segment.first, "a segment that is sealed has groups");
        self.sync()?;
        assert_eq!(self.synced, self.end, "all groups of a sealed segment are durable before the next one has a name");
        let Some(spare) = self.spare.take() else {
            return Err(self.write_failed(io::Error::other("a group was submitted without room for it")));
        };
        let header = SegmentHeader { log: self.folder.log, first: self.end };
        let path = self.folder.segment_path(self.end.position);
        let at_spare = |cause: io::Error| JournalError::WriteFailed { path: path.clone(), cause: cause.to_string() };
        spare.file.write_all_at(&header.encode(), 0).map_err(at_spare)?;
        spare.file.sync_data().map_err(at_spare)?;
        spare.file.bypass_cache();
        self.folder.disk.rename(&spare.path, &path).map_err(at_spare)?;
        self.folder.disk.sync_dir(&self.folder.path).map_err(at_spare)?;

        self.write_mark(MarkKind::Sealed)?;
        let sealed_bytes = self.end_offset() + MARK_BYTES as u64;
        self.segment.file.set_len(sealed_bytes).map_err(|cause| self.write_failed(cause))?;
        self.segment.file.sync_data().map_err(|cause| self.sync_failed(cause))?;
        self.claimed = self.end.position;
        self.image.move_to(SEGMENT_HEADER_BYTES as u64);
        self.segment =
            Active { file: spare.file, path, first: self.end.position, allocated: spare.allocated, zeroed: 0 };
        assert_eq!(self.end_offset(), SEGMENT_HEADER_BYTES as u64, "the next group is the first of its segment");
        Ok(())
    }

    fn write_mark(&mut self, kind: MarkKind) -> Result<(), JournalError> {
        let mark = Mark { log: self.folder.log, kind, end: self.end };
        assert_eq!(self.image.offset(), self.end_offset(), "a mark stands at the end");
        self.image.write_mark_to(&self.segment.file, &mark.encode()).map_err(|cause| self.write_failed(cause))
    }

    /// File offset of `end`.
    fn end_offset(&self) -> u64 {
        offset_of(self.segment.first, self.end.position)
    }

    fn write_failed(&self, cause: io::Error) -> JournalError {
        JournalError::WriteFailed { path: self.segment.path.clone(), cause: cause.to_string() }
    }

    fn sync_failed(&self, cause: io::Error) -> JournalError {
        JournalError::SyncFailed { path: self.segment.path.clone(), cause: cause.to_string() }
    }
}

/// Allocates up to `step` more bytes, and to the end of a block; less when the disk is nearly full; `None` when it is
/// full, but for the reserve.
fn claim(file: &impl DiskFile, allocated: u64, most: u64, step: u64, options: &Options) -> io::Result<Option<u64>> {
    let mut step = step.min(most - allocated);
    // Whoever else writes to this disk does so meanwhile: the reserve is about as large as it should be.
    let space = if options.reserve_bytes > 0 { file.space()? } else { None };
    let claimable = space.map(|space| space.free_bytes.saturating_sub(options.reserve_of(space.bytes)));
    loop {
        let allocate = |to| match claimable.is_some_and(|most| most < step) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => file.allocate(to),
        };
        let to = (allocated + step).next_multiple_of(BLOCK).min(most);
        match allocate(to) {
            Ok(()) => {
                assert!(allocated < to && to <= most, "room is claimed inside the segment");
                return Ok(Some(to));
            }
            Err(cause) if !is_full(&cause) => return Err(cause),
            Err(_) if step <= CLAIM_BYTES_MIN => return Ok(None),
            Err(_) => step /= 2,
        }
    }
}

pub(crate) fn is_full(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

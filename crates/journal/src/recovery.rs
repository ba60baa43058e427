//! Opening a log that a process left behind, however it ended.
//!
//! ```text
//!   sealed segments: header, mark, and that each continues the one before ──┐
//!   last segment:    every group verified ─▶ end ─▶ what stands behind it? ─┴─▶ nothing, or a mark: clean
//!                                                    │                          never durable:    torn, is cut
//!                                                    └─ see `aftermath`         was durable:      Damaged, refused
//! ```
//!
//! A sealed segment that rotted keeps no log from being opened: it is told ([`RecoveryReport::damaged`]), and whoever
//! needs a record of it is refused. A segment that is missing, or of another log or history, is no rot and refuses.
//! The header of the last segment says only what the mark before it says as well. If it has rotted and the first group
//! behind it continues from there, it is told, and written again: whoever cut the file there would lose all its groups.
//! The same if a mark stands there that says that it has none.
//!
//! A log that may forget may begin later than at its first record: whoever opens it names the cursor of a snapshot, and
//! everything from there on must be there. Without one, and for a log that is whole for ever always, it is everything.
//!
//! A byte that is provably wrong ([`crate::mend`]) is read as what was written, and written so again by an opening for
//! writing, if whoever opens the log asks for that.
//!
//! What was read may be in the page cache only (the last process was killed before its sync, or its sync failed and the
//! kernel called the pages clean). So whatever no later claim proves durable is written once more and synced before it
//! counts.

use std::ops::Range;
use std::sync::Arc;

use crate::aftermath::Aftermath;
use crate::archive::Archived;
use crate::damage::{
    LOST_UNKNOWN, bad_cursor, damage, header_rotten, missing_in_archive, missing_log, missing_segment, nothing_follows,
};
use crate::disk::{Disk, DiskFile};
use crate::folder::{Folder, read_up_to};
use crate::group::GroupFault;
use crate::image::BLOCK;
use crate::seal_check::{Sealed, check_sealed};
use crate::segment::{MARK_BYTES, Mark, MarkKind, SEGMENT_HEADER_BYTES, SPARE_NAME, SegmentHeader, offset_of};
use crate::walk::Walk;
use crate::writer::{Active, Writer, is_full};
use crate::{Cursor, Durability, JournalError, LogId, Notice, Options, Position};

/// What was found, and done, when a log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The end of the log: the place behind its last group.
    pub end: Cursor,
    /// Where the log begins: behind [`Cursor::START`] when records were forgotten.
    pub begins: Position,
    /// Segment files; none in a stream.
    pub segments: usize,
    /// Groups that were verified: those of the last segment; in a stream, the last one.
    pub groups_verified: u64,
    /// Bytes of groups that were never acknowledged and were cut from the tail; in a stream, that are void from now on.
    /// Zero after a graceful stop.
    pub bytes_cut: u64,
    /// What is wrong with segments that are sealed, by their order, and with the header of the last one: the log goes
    /// on behind them.
    pub damaged: Vec<JournalError>,
    /// Apart from `end`, so that nobody else makes one.
    pub(crate) durability: Durability,
}

impl RecoveryReport {
    /// [`RecoveryReport::end`], up to which everything is durable (after an inspection: will be, once the log is
    /// opened).
    pub fn durability(&self) -> Durability {
        self.durability
    }
}

/// How a log was left.
struct Inspection {
    segments: Vec<Position>,
    end: Cursor,
    groups_verified: u64,
    /// Up to here, something on disk claims that it is durable.
    claimed: Position,
    /// Whether a tail mark stands at the end.
    marked: bool,
    /// File offsets of what must be zero before the log goes on.
    torn: Range<u64>,
    bytes_cut: u64,
    /// Of the segments before the last one.
    sealed: Sealed,
    /// What the header of the last segment should say, if it has rotted.
    header: Option<SegmentHeader>,
}

/// Looks at a log without changing a byte; `bytes_cut` is what opening it would cut. For the offline audit.
/// Nothing before `since`, the cursor of a snapshot, need be there if the log may forget.
pub(crate) fn inspect<D: Disk>(folder: &Folder<D>, since: Cursor) -> Result<RecoveryReport, JournalError> {
    let inspection = Inspection::of(folder, since)?;
    // Whoever will open the log tells then.
    if folder.only_reads_right() {
        inspection.sealed.wrong.iter().for_each(|(first, byte)| folder.tell_unwritten(*first, &[*byte]));
    }
    Ok(inspection.report())
}

/// Opens a log for writing: creates it, or inspects it and repairs its tail. Nothing before `since` need be there.
pub(crate) fn open<D: Disk>(
    folder: Folder<D>,
    options: Options,
    since: Cursor,
) -> Result<(Writer<D>, RecoveryReport), JournalError> {
    options.check();
    // With a snapshot there was a log: its absence is a loss, not a beginning.
    if since == Cursor::START {
        create(&folder)?;
    }
    // Names that a killed process left may be in memory only. They must last before a mark relies on them: a power
    // failure in between once made the last segment vanish behind a mark that promised it.
    folder.disk.sync_dir(&folder.path).map_err(|cause| JournalError::io("sync", &folder.path, cause))?;
    let inspection = Inspection::of(&folder, since)?;
    for of_one in inspection.sealed.wrong.chunk_by(|(one, _), (other, _)| one == other) {
        let (first, bytes) = (of_one[0].0, of_one.iter().map(|(_, byte)| *byte).collect::<Vec<_>>());
        match inspection.segments.last() == Some(&first) {
            true => folder.write_right(first, &bytes)?,
            // What rots in there keeps no log from being opened. Nobody writes it, whether it has its mark or not.
            false => drop(folder.write_right(first, &bytes)),
        }
    }
    for (first, end) in &inspection.sealed.unsealed {
        reseal(&folder, *first, *end)?;
    }
    if let Some(header) = inspection.header {
        write_header(&folder, &header)?;
    }
    let segment = repair(&folder, &inspection)?;
    let marked =
        inspection.marked || segment.allocated >= offset_of(segment.first, inspection.end.position) + MARK_BYTES as u64;
    let report = inspection.report();
    assert!(report.begins <= report.end.position && report.segments > 0, "a log has a segment at least");
    assert!(since.position <= report.end.position, "a log that ends before its snapshot was refused");
    Ok((Writer::new(folder, options, segment, inspection.end, inspection.claimed, marked)?, report))
}

/// Opens a log that nobody writes, and writes a notice behind its end, durably; returns the place behind it.
pub(crate) fn append_notice<D: Disk>(
    folder: Folder<D>,
    options: Options,
    since: Cursor,
    notice: &Notice,
) -> Result<Cursor, JournalError> {
    let (mut writer, _) = open(folder, options, since)?;
    writer.append_notice(notice)
}

impl Inspection {
    fn of<D: Disk>(folder: &Folder<D>, since: Cursor) -> Result<Inspection, JournalError> {
        let local = folder.list_remaining()?;
        if local.is_empty() {
            return Err(missing_log(folder));
        }
        let archived = folder.archived_before(&local)?;
        check_archived(folder, &archived, &local)?;
        let begins = match archived.first() {
            Some(archived) => Some(archived.first),
            None => local.first().map(|first| begins_at(folder, *first)).transpose()?,
        };
        let segments: Vec<Position> =
            archived.iter().map(|segment| segment.first.position).chain(local.iter().copied()).collect();
        let is_whole = begins == Some(Cursor::START);
        let reaches_back = folder.may_forget() && begins.is_some_and(|begins| begins.position <= since.position);
        if !is_whole && !reaches_back {
            let missing_from = if folder.may_forget() { since } else { Cursor::START };
            return Err(match segments.first() {
                Some(next) if !folder.may_forget() => missing_in_archive(folder, &missing_from, *next),
                next => missing_segment(folder, &missing_from, next.copied()),
            });
        }
        let begins_local = archived.last().map(|archived| archived.end).or(begins);
        let sealed = check_sealed(folder, &local, begins_local)?;
        let last = *segments.last().expect("at least the first segment");
        let inspection = Inspection::of_last(folder, segments, last, sealed)?;
        check_end(&since, &inspection.end)?;
        Ok(inspection)
    }

    fn of_last<D: Disk>(
        folder: &Folder<D>,
        segments: Vec<Position>,
        last: Position,
        mut sealed: Sealed,
    ) -> Result<Inspection, JournalError> {
        let (walk, header) = walk_last(folder, last, sealed.last_begins)?;
        sealed.damaged.extend(header.map(|_| header_rotten(folder, last)));
        sealed.wrong.extend(walk.wrong.iter().map(|byte| (last, *byte)));
        let end = walk.end;
        let path = folder.segment_path(last);
        let failed = |cause| JournalError::io("read", &path, cause);
        let file = walk.scan.file();
        let aftermath = Aftermath::examine(&**file, folder.log, last, end.position).map_err(failed)?;
        // A torn write leaves pieces of a group, never a whole header or a whole group with other numbers or another
        // history.
        let may_be_torn = matches!(
            walk.fault,
            GroupFault::NoGroup | GroupFault::Truncated | GroupFault::HeaderChecksum | GroupFault::Record { .. }
        );
        if !may_be_torn || aftermath.shows_damage_at(end.position) {
            return Err(damage(folder, &**file, last, None, &end, walk.fault));
        }
        if aftermath.mark_at(&end, MarkKind::Sealed) {
            return Err(missing_segment(folder, &end, None));
        }
        let marked = aftermath.mark_at(&end, MarkKind::Tail);
        let end_offset = offset_of(last, end.position);
        if let Some(mark) = foreign_mark(&**file, folder.log, end_offset, &end).map_err(failed)? {
            return Err(JournalError::Damaged {
                segment: folder.segment_text(last),
                offset: end_offset,
                what: format!(
                    "the mark behind the last group tells of another log: position {}, sequence {}, chain {}",
                    mark.position, mark.sequence, mark.chain
                ),
                lost: LOST_UNKNOWN.into(),
            });
        }
        let clean_to = if marked { end_offset + MARK_BYTES as u64 } else { end_offset };
        let bytes_cut = aftermath.zeros_from.saturating_sub(clean_to);
        assert!(walk.claimed <= end.position, "no group claims more than what is before it");
        assert!(last <= end.position, "a log only grows");
        Ok(Inspection {
            segments,
            end,
            groups_verified: walk.groups,
            claimed: walk.claimed,
            marked: marked && bytes_cut == 0,
            torn: end_offset..end_offset + if bytes_cut == 0 { 0 } else { aftermath.zeros_from - end_offset },
            bytes_cut,
            sealed,
            header,
        })
    }

    fn report(&self) -> RecoveryReport {
        RecoveryReport {
            end: self.end,
            begins: *self.segments.first().expect("at least the first segment"),
            segments: self.segments.len(),
            groups_verified: self.groups_verified,
            bytes_cut: self.bytes_cut,
            damaged: self.sealed.damaged.clone(),
            durability: Durability::at(self.end),
        }
    }
}

/// Reads the last segment. If its header has rotted, it is known from what is before it: `known`. Then the header that
/// it should have is returned as well.
fn walk_last<D: Disk>(
    folder: &Folder<D>,
    last: Position,
    known: Option<Cursor>,
) -> Result<(Walk, Option<SegmentHeader>), JournalError> {
    let (file, begins) = folder.open_rotten(last)?;
    let rot = match begins {
        Ok(begins) => return Ok((Walk::through(folder, Arc::new(file), begins)?, None)),
        Err(rot) => rot,
    };
    let Some(first) = known.filter(|known| known.position == last) else { return Err(rot) };
    let walk = Walk::through(folder, Arc::new(file), first)?;
    // Without a group or a mark, nothing tells it from a file whose bytes are all lost.
    if walk.groups == 0 && !folder.is_marked_empty(&**walk.scan.file(), &first)? {
        return Err(nothing_follows(folder, &**walk.scan.file(), &first, rot));
    }
    Ok((walk, Some(SegmentHeader { log: folder.log, first })))
}

/// A snapshot was made of durable records only, so a log that ends before it, or otherwise there, has lost some.
fn check_end(since: &Cursor, end: &Cursor) -> Result<(), JournalError> {
    if since.position < end.position || since == end {
        return Ok(());
    }
    let what = format!("the log ends at position {} with sequence {}, chain {}", end.position, end.sequence, end.chain);
    Err(bad_cursor(since, what))
}

/// Where the segment at `first`, the first of all, begins. If its header has rotted, all that is known is the position:
/// enough where a log begins with its first record, or where a snapshot has what was before.
fn begins_at<D: Disk>(folder: &Folder<D>, first: Position) -> Result<Cursor, JournalError> {
    let (_, begins) = folder.open_rotten(first)?;
    Ok(begins.unwrap_or(Cursor { position: first, ..Cursor::START }))
}

/// Checks that each archived segment is followed by the next one, by what was written down when they were moved: they
/// were verified then, and nothing is fetched for a start.
fn check_archived<D: Disk>(folder: &Folder<D>, archived: &[Archived], local: &[Position]) -> Result<(), JournalError> {
    for pair in archived.windows(2) {
        if pair[0].end != pair[1].first {
            return Err(missing_in_archive(folder, &pair[0].end, pair[1].first.position));
        }
    }
    match (archived.last(), local.first()) {
        (Some(last), Some(first)) => match folder.open_rotten(*first)?.1 {
            Ok(begins) if begins != last.end => Err(missing_in_archive(folder, &last.end, *first)),
            Err(_) if *first != last.end.position => Err(missing_in_archive(folder, &last.end, *first)),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The end that a good mark of this log at `end_offset` tells of, when that is not `end`. Marks are written only where
/// the log durably ends, so no crash explains one that disagrees.
fn foreign_mark(file: &dyn DiskFile, log: LogId, end_offset: u64, end: &Cursor) -> std::io::Result<Option<Cursor>> {
    let mut bytes = [0; MARK_BYTES];
    let got = read_up_to(file, &mut bytes, end_offset)?;
    let mark = Mark::decode(&bytes[..got]).ok().filter(|mark| mark.log == log && mark.end != *end);
    Ok(mark.map(|mark| mark.end))
}

/// Creates the first, empty segment of a log, durably, unless it has segments already.
pub(crate) fn create<D: Disk>(folder: &Folder<D>) -> Result<(), JournalError> {
    create_at(folder, Cursor::START)
}

/// The same with a first segment that begins at `first`: what is before it is in a snapshot.
pub(crate) fn create_at<D: Disk>(folder: &Folder<D>, first: Cursor) -> Result<(), JournalError> {
    let disk = &folder.disk;
    disk.create_dir_all(&folder.path).map_err(|cause| JournalError::io("create", &folder.path, cause))?;
    if !folder.list_segments()?.is_empty() {
        return Ok(());
    }
    let spare = folder.path.join(SPARE_NAME);
    let path = folder.segment_path(first.position);
    let failed = |cause| JournalError::io("create", &path, cause);
    if disk.exists(&spare).map_err(failed)? {
        disk.remove(&spare).map_err(failed)?;
    }
    let file = disk.create_new(&spare).map_err(failed)?;
    file.write_all_at(&SegmentHeader { log: folder.log, first }.encode(), 0).map_err(failed)?;
    file.sync_data().map_err(failed)?;
    disk.rename(&spare, &path).map_err(failed)?;
    disk.sync_dir(&folder.path).map_err(failed)
}

/// Whether a log is as [`create`] leaves it: nobody has opened it yet.
pub(crate) fn is_untouched<D: Disk>(folder: &Folder<D>) -> Result<bool, JournalError> {
    if folder.list_segments()? != [Cursor::START.position] {
        return Ok(false);
    }
    let (file, begins) = folder.open_segment(Cursor::START.position)?;
    let path = folder.segment_path(Cursor::START.position);
    let bytes = file.len().map_err(|cause| JournalError::io("look at", &path, cause))?;
    Ok(begins == Cursor::START && bytes == SEGMENT_HEADER_BYTES as u64)
}

/// Writes the mark that a complete segment lacks.
fn reseal<D: Disk>(folder: &Folder<D>, first: Position, end: Cursor) -> Result<(), JournalError> {
    let failed = |cause| JournalError::io("seal", &folder.segment_path(first), cause);
    let file = folder.open_file(first)?;
    let offset = offset_of(first, end.position);
    // Its last groups were synced before the next segment was begun, so only the mark is new.
    file.write_all_at(&Mark { log: folder.log, kind: MarkKind::Sealed, end }.encode(), offset).map_err(failed)?;
    file.set_len(offset + MARK_BYTES as u64).map_err(failed)?;
    file.sync_data().map_err(failed)
}

/// Writes the header of the last segment again, which has rotted. A crash in between leaves what there was: a bad one.
fn write_header<D: Disk>(folder: &Folder<D>, header: &SegmentHeader) -> Result<(), JournalError> {
    let first = header.first.position;
    let failed = |cause| JournalError::io("write the header of", &folder.segment_path(first), cause);
    let file = folder.open_file(first)?;
    file.write_all_at(&header.encode(), 0).map_err(failed)?;
    file.sync_data().map_err(failed)
}

/// Makes the last segment what the inspection took it for: proven bytes, then a mark, then zeros, all durable.
fn repair<D: Disk>(folder: &Folder<D>, found: &Inspection) -> Result<Active<D::File>, JournalError> {
    let first = *found.segments.last().expect("at least the first segment");
    let path = folder.segment_path(first);
    let file = folder.open_file(first)?;
    let failed = |cause| JournalError::io("repair", &path, cause);
    let end = offset_of(first, found.end.position);

    // Nothing that counts is ever cut or written over.
    assert!(found.torn.start >= end, "the cut begins behind the last good group");
    assert!(found.bytes_cut == 0 || !found.marked, "behind a mark there is nothing to cut");
    let len = file.len().map_err(failed)?;
    let wanted = len.max(end + MARK_BYTES as u64).next_multiple_of(BLOCK);
    let allocated = match file.allocate(wanted) {
        Ok(()) => wanted,
        // Of what there is, whole blocks.
        Err(cause) if is_full(&cause) => end.max(len / BLOCK * BLOCK),
        Err(cause) => return Err(failed(cause)),
    };
    if !found.marked {
        rewrite(&file, offset_of(first, found.claimed)..end).map_err(failed)?;
        erase(&file, found.torn.clone()).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        if allocated > end {
            let mark = Mark { log: folder.log, kind: MarkKind::Tail, end: found.end };
            file.write_all_at(&mark.encode(), end).map_err(failed)?;
            file.sync_data().map_err(failed)?;
        }
    }
    assert!(allocated >= end, "all that was read is in claimed room");
    Ok(Active { file, path, first, allocated, zeroed: 0 })
}

fn rewrite(file: &impl DiskFile, range: Range<u64>) -> std::io::Result<()> {
    assert!(range.start >= SEGMENT_HEADER_BYTES as u64 && range.start <= range.end, "groups are written once more");
    in_pieces(range, |offset, piece| {
        file.read_exact_at(piece, offset)?;
        file.write_all_at(piece, offset)
    })
}

fn erase(file: &impl DiskFile, range: Range<u64>) -> std::io::Result<()> {
    in_pieces(range, |offset, piece| file.write_all_at(piece, offset))
}

fn in_pieces(range: Range<u64>, mut each: impl FnMut(u64, &mut [u8]) -> std::io::Result<()>) -> std::io::Result<()> {
    let mut piece = vec![0; 64 * 1024];
    let mut offset = range.start;
    while offset < range.end {
        let len = (range.end - offset).min(piece.len() as u64);
        assert!(len > 0 && offset + len <= range.end, "pieces stay inside the range");
        each(offset, &mut piece[..len as usize])?;
        offset += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

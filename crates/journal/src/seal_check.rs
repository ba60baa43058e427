//! Whether the segments before the last one are whole, as far as their two ends show: the header, and the mark that
//! seals them.
//!
//! ```text
//!   │ header: begins at a │ groups … │ mark: ends at b │   │ header: begins at b │ …
//!                                       └── one proves the other ──┘
//! ```
//!
//! Promise: a bit that rots in a header or in a mark is found, and keeps no log from being opened: what one of the two
//! no longer says, the other does. What no rot explains (a segment that is missing, or of another history) is refused.
//!
//! Why not all groups: a start would read the whole log. They are read by whoever needs them, and by the scrub.

use std::sync::Arc;

use crate::aftermath::Aftermath;
use crate::damage::{LOST_UNKNOWN, damage, missing_segment};
use crate::disk::{Disk, DiskFile};
use crate::folder::{Folder, read_up_to};
use crate::mend::WrongByte;
use crate::segment::{MARK_BYTES, Mark, MarkKind, offset_of, segment_name};
use crate::walk::Walk;
use crate::{Cursor, JournalError, Position};

/// The segments before the last one.
#[derive(Default)]
pub(crate) struct Sealed {
    /// Those that were read whole because their mark is not there: a crash came between the next segment and the mark,
    /// or the mark has rotted. All that it would say is known.
    pub unsealed: Vec<(Position, Cursor)>,
    /// What is wrong.
    pub damaged: Vec<JournalError>,
    /// Bytes that are wrong in segments that were read, by where these begin.
    pub wrong: Vec<(Position, WrongByte)>,
    /// Where the last segment begins, by what is before it.
    pub last_begins: Option<Cursor>,
}

/// Checks that each of these segments, of which the first begins at `begins` if that is known, is followed by the next
/// one: quickly by its mark, else by reading all of it. Nothing is looked at of the last one but its header.
pub(crate) fn check_sealed<D: Disk>(
    folder: &Folder<D>,
    segments: &[Position],
    begins: Option<Cursor>,
) -> Result<Sealed, JournalError> {
    let mut sealed = Sealed::default();
    // A position alone is no place to read on from.
    let mut begins = begins.filter(|begins| *begins == Cursor::START || begins.sequence.0 > 0);
    for pair in segments.windows(2) {
        let is_last = segments.last() == Some(&pair[1]);
        begins = sealed.check(folder, (pair[0], pair[1]), begins, is_last)?;
    }
    sealed.last_begins = begins;
    Ok(sealed)
}

impl Sealed {
    /// Checks the segment at `first`, which begins at `known` by what is before it, and ends where the one at `next`
    /// begins. Returns that place, if anything shows it.
    fn check<D: Disk>(
        &mut self,
        folder: &Folder<D>,
        (first, next): (Position, Position),
        known: Option<Cursor>,
        is_last: bool,
    ) -> Result<Option<Cursor>, JournalError> {
        assert!(first < next, "segments are listed in order");
        let (file, begins) = folder.open_rotten(first)?;
        let file: Arc<dyn DiskFile> = Arc::new(file);
        let begins = begins.map_err(|rot| self.damaged.push(rot)).ok().or(known);
        // Rot in that header is told when its own turn comes.
        let follows = folder.open_rotten(next)?.1.ok();
        let mut bytes = [0; MARK_BYTES];
        let read = read_mark(folder, &*file, (first, next), &mut bytes);
        let mark = read.as_ref().ok().and_then(|got| mark_of(folder, &bytes[..*got], next));
        match (mark, follows) {
            (Some(end), Some(follows)) if end == follows => return Ok(mark),
            (Some(_), None) => return Ok(mark),
            _ => {}
        }
        let Some(begins) = begins else {
            self.damaged.push(mark_damaged(folder, first, next, "nobody knows: its header is damaged as well"));
            return Ok(follows);
        };
        let walk = match Walk::through(folder, file, begins) {
            Ok(walk) => walk,
            Err(unreadable) => {
                self.damaged.push(unreadable);
                return Ok(follows);
            }
        };
        self.wrong.extend(walk.wrong.iter().map(|byte| (first, *byte)));
        if walk.end.position == next && follows.is_none_or(|follows| follows == walk.end) {
            self.unsealed.push((first, walk.end));
            // The mark comes behind the name of the next segment: until then there is nothing, or where the log ended.
            let is_before_it =
                |got: usize| bytes[..got].iter().all(|byte| *byte == 0) || is_tail(folder, &bytes, &walk.end);
            let lost = "nothing: its groups were read, and are whole; a start writes it again";
            match read {
                Ok(got) if is_last && is_before_it(got) => {}
                Ok(_) => self.damaged.push(mark_damaged(folder, first, next, lost)),
                Err(unread) => self.damaged.push(unread),
            }
            return Ok(Some(walk.end));
        }
        self.judge(folder, (first, next), &walk)?;
        Ok(follows)
    }

    /// The groups of a segment do not end where the next one begins.
    fn judge<D: Disk>(
        &mut self,
        folder: &Folder<D>,
        (first, next): (Position, Position),
        walk: &Walk,
    ) -> Result<(), JournalError> {
        let file = walk.scan.file();
        let aftermath = Aftermath::examine(&**file, folder.log, first, walk.end.position)
            .map_err(|cause| JournalError::io("read", &folder.segment_place(first), cause))?;
        if walk.end.position < next && aftermath.mark_at(&walk.end, MarkKind::Sealed) {
            return Err(missing_segment(folder, &walk.end, Some(next)));
        }
        if walk.end.position == next {
            return Err(JournalError::Damaged {
                segment: folder.segment_text(next),
                offset: 0,
                what: format!("it does not continue the chain of {}", segment_name(first)),
                lost: LOST_UNKNOWN.into(),
            });
        }
        match damage(folder, &**file, first, Some(next), &walk.end, walk.fault) {
            version @ JournalError::UnknownVersion { .. } => Err(version),
            rot => {
                self.damaged.push(rot);
                Ok(())
            }
        }
    }
}

/// What is wrong with the headers and marks of the segments in the directory that begin at or behind `from` and end at
/// or before `to`, and with the header of the last one if it begins before `to`. Reads two pages of each; for whoever
/// reads the groups between as well.
pub(crate) fn rotten_ends<D: Disk>(
    folder: &Folder<D>,
    from: Position,
    to: Position,
) -> Result<Vec<JournalError>, JournalError> {
    let mut rotten = Vec::new();
    let segments = folder.list_local()?;
    for pair in segments.windows(2).filter(|pair| pair[1] > from && pair[1] <= to) {
        let (first, next) = (pair[0], pair[1]);
        let (file, begins) = match folder.open_rotten(first) {
            Ok(opened) => opened,
            // It was forgotten, or moved to an archive.
            Err(JournalError::Io { .. }) => continue,
            Err(foreign) => {
                rotten.push(foreign);
                continue;
            }
        };
        rotten.extend(begins.err());
        let mut bytes = [0; MARK_BYTES];
        // The last one is cut to its length when its mark is there.
        let sealed_bytes = offset_of(first, next) + MARK_BYTES as u64;
        let is_unsealed = segments.last() == Some(&next) && file.len().ok() != Some(sealed_bytes);
        match read_mark(folder, &file, (first, next), &mut bytes) {
            _ if is_unsealed => {}
            Ok(got) if mark_of(folder, &bytes[..got], next).is_some() => {}
            Ok(_) => rotten.push(mark_damaged(folder, first, next, "nothing, if the groups before it are whole")),
            Err(unread) => rotten.push(unread),
        }
    }
    if let Some(last) = segments.last().filter(|last| **last < to) {
        rotten.extend(folder.open_rotten(*last).map_or_else(Some, |(_, begins)| begins.err()));
    }
    Ok(rotten)
}

/// Reads what is there of the mark that seals the segment at `first`, which the one at `next` follows.
fn read_mark<D: Disk>(
    folder: &Folder<D>,
    file: &dyn DiskFile,
    (first, next): (Position, Position),
    into: &mut [u8; MARK_BYTES],
) -> Result<usize, JournalError> {
    let failed = |cause| JournalError::io("read the mark that seals", &folder.segment_place(first), cause);
    read_up_to(file, into, offset_of(first, next)).map_err(failed)
}

/// The place that a mark of this log tells of, if it seals a segment that ends at `next`.
fn mark_of<D: Disk>(folder: &Folder<D>, bytes: &[u8], next: Position) -> Option<Cursor> {
    let seals = |mark: &Mark| mark.log == folder.log && mark.kind == MarkKind::Sealed && mark.end.position == next;
    Mark::decode(bytes).ok().filter(seals).map(|mark| mark.end)
}

fn is_tail<D: Disk>(folder: &Folder<D>, bytes: &[u8], end: &Cursor) -> bool {
    Mark::decode(bytes) == Ok(Mark { log: folder.log, kind: MarkKind::Tail, end: *end })
}

fn mark_damaged<D: Disk>(folder: &Folder<D>, first: Position, next: Position, lost: &str) -> JournalError {
    JournalError::Damaged {
        segment: folder.segment_text(first),
        offset: offset_of(first, next),
        what: "the mark that seals the segment is damaged".into(),
        lost: lost.into(),
    }
}

#[cfg(test)]
mod tests;

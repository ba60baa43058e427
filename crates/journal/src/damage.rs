//! The words for a log that is not as it was written: what is bad, where, and what is lost.

use crate::aftermath::Aftermath;
use crate::archive::ARCHIVE_FILE;
use crate::disk::{Disk, DiskFile};
use crate::folder::Folder;
use crate::group::{FORMAT_VERSION, GroupFault};
use crate::segment::{SEGMENT_HEADER_BYTES, offset_of};
use crate::{Cursor, JournalError, Position};

/// Where nobody can tell what is missing.
pub(crate) const LOST_UNKNOWN: &str = "unknown: groups or records were removed or exchanged";

/// The error for a group that is not what it should be behind `before`, with what can be said about the loss.
pub(crate) fn damage<D: Disk>(
    folder: &Folder<D>,
    file: &dyn DiskFile,
    first: Position,
    next: Option<Position>,
    before: &Cursor,
    fault: GroupFault,
) -> JournalError {
    if let GroupFault::UnknownVersion(found) = fault {
        return JournalError::UnknownVersion {
            path: folder.segment_place(first),
            found: found.into(),
            known: FORMAT_VERSION.into(),
        };
    }
    let segment = folder.segment_text(first);
    let behind = Position(before.position.0 + 1);
    let aftermath = match Aftermath::examine(file, folder.log, first, behind) {
        Ok(aftermath) => aftermath,
        Err(cause) => return JournalError::io("read", &folder.segment_place(first), cause),
    };
    let next = next.and_then(|next| folder.open_segment(next).ok()).map(|(_, begins)| begins);
    let at = if let GroupFault::Record { at, .. } = fault { at } else { before.position };
    let lost = aftermath.lost(before, next.as_ref());
    JournalError::Damaged { segment, offset: offset_of(first, at), what: fault.to_string(), lost }
}

/// The error for a place before the first segment that is there: forgotten, if such a log may forget.
pub(crate) fn before_the_first<D: Disk>(folder: &Folder<D>, cursor: &Cursor, begins: Option<Position>) -> JournalError {
    match begins {
        Some(begins) if folder.may_forget() => JournalError::Forgotten { at: cursor.position, begins },
        // The position of a record is not that of a segment: the one that is missing for certain is named.
        Some(begins) => missing_in_archive(folder, &Cursor::START, begins),
        None if folder.may_forget() => missing_segment(folder, cursor, None),
        None => missing_segment(folder, &Cursor::START, None),
    }
}

/// The error for a segment file that should hold `cursor`.
pub(crate) fn missing_segment<D: Disk>(folder: &Folder<D>, cursor: &Cursor, next: Option<Position>) -> JournalError {
    let until = next.map_or("on".into(), |next| format!("to position {next}"));
    JournalError::Damaged {
        segment: folder.segment_text(cursor.position),
        offset: 0,
        what: "the segment file is missing".into(),
        lost: format!("records from {} (position {}) {until}", cursor.sequence.0 + 1, cursor.position),
    }
}

/// The same, where only an archive could have it.
pub(crate) fn missing_in_archive<D: Disk>(folder: &Folder<D>, cursor: &Cursor, next: Position) -> JournalError {
    let mut error = missing_segment(folder, cursor, Some(next));
    if let JournalError::Damaged { what, .. } = &mut error {
        let log = folder.path.file_name().unwrap_or_default().display();
        *what += &format!(
            ", and {ARCHIVE_FILE} in the data directory does not list it. If `tidegate archive` has moved it, put back \
             the newest {ARCHIVE_FILE}; without one, copy each {:016x}/{log}/segment-POSITION-….tgj of the archive to \
             journal/{log}/segment-POSITION.tgj",
            folder.log.directory
        );
    }
    error
}

/// The error for a log that has no segment file at all: its first one is missing, and each that followed.
pub(crate) fn missing_log<D: Disk>(folder: &Folder<D>) -> JournalError {
    let mut error = missing_segment(folder, &Cursor::START, None);
    if let JournalError::Damaged { what, lost, .. } = &mut error {
        let is_there = folder.disk.exists(&folder.path).unwrap_or(true);
        let named = if is_there { "its folder has no segment" } else { "so is the folder of its log" };
        *what += &format!(", and {named}");
        if folder.may_forget() {
            *lost += ", but for what a snapshot holds";
        }
    }
    error
}

/// The error for the newest segment, whose header is bad and behind whose header no group begins: what is known of it
/// otherwise, where it begins, is of no use then. `rot` is what is wrong with the header.
pub(crate) fn nothing_follows<D: Disk>(
    folder: &Folder<D>,
    file: &dyn DiskFile,
    begins: &Cursor,
    mut rot: JournalError,
) -> JournalError {
    let first = begins.position;
    let JournalError::Damaged { what, lost, .. } = &mut rot else { return rot };
    // Of a file that ends within its header, that was said.
    if file.len().is_ok_and(|bytes| bytes < SEGMENT_HEADER_BYTES as u64) {
        return rot;
    }
    let aftermath = match Aftermath::examine(file, folder.log, first, first) {
        Ok(aftermath) => aftermath,
        Err(cause) => return JournalError::io("read", &folder.segment_place(first), cause),
    };
    *what += ", and no group begins behind it";
    *lost = match aftermath.next_group.is_some() || aftermath.marked.is_some() {
        true => aftermath.lost(begins, None),
        false => format!("all records of this segment, from {} on: nothing in it can be read", begins.sequence.0 + 1),
    };
    rot
}

/// The words for a bad header of the last segment, where all that it said is known otherwise.
pub(crate) fn header_rotten<D: Disk>(folder: &Folder<D>, first: Position) -> JournalError {
    JournalError::Damaged {
        segment: folder.segment_text(first),
        offset: 0,
        what: "the header of the newest segment is damaged".into(),
        lost: "nothing: what it said is known, and what follows it is whole; a start writes it again".into(),
    }
}

pub(crate) fn bad_cursor(cursor: &Cursor, what: String) -> JournalError {
    JournalError::BadCursor { position: cursor.position, sequence: cursor.sequence, what }
}

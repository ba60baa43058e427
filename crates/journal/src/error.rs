//! How a journal fails, in words for the person who meets it.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_disk::owner::cause_words;

use crate::{Position, Sequence};

/// The world failing. The shard that meets one of these while running stops; at start-up the process does.
///
/// Cloneable, because a failed log answers every later question with the failure that ended it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The kernel could not make written bytes durable. It may have dropped them, so asking again would prove nothing.
    #[error(
        "{}: sync failed: {cause}. The log has stopped for good in this process; check the disk, then \
         restart",
        path.display()
    )]
    SyncFailed {
        /// The segment being synced.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// A group could not be written into room that had been allocated for it.
    #[error(
        "{}: write failed: {cause}. The log has stopped for good in this process; check the disk, then \
         restart",
        path.display()
    )]
    WriteFailed {
        /// The segment being written.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// Any other file operation that failed.
    #[error("{}: cannot {doing}: {cause}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// Bytes that were durable are gone or changed. Nothing is cut, nothing is served; see `docs/formats/journal.md`.
    /// In a stream, `segment` names the message.
    #[error(
        "{segment}: damaged at offset {offset}: {what}; lost: {lost}. Restore this file from a copy; nothing was \
         changed"
    )]
    Damaged {
        /// Path of the segment (or of the one that is missing).
        segment: String,
        /// Offset in that file at which the first bad byte may be.
        offset: u64,
        /// What is wrong there.
        what: String,
        /// Which records can no longer be read, as far as it can be told.
        lost: String,
    },
    /// One byte is wrong, what it was is proven, and it cannot be written.
    #[error(
        "{segment}: the byte at offset {offset} is {found:#04x} and was written as {written:#04x}: the chain hash \
         proves it. It cannot be put right there: {cause}. Nothing is lost. Make the file writable and start again, or \
         put a copy in its place in which that byte is right"
    )]
    NotPutRight {
        /// Path of the segment.
        segment: String,
        /// Offset of the byte in that file.
        offset: u64,
        /// What stands there.
        found: u8,
        /// What was written.
        written: u8,
        /// What the system said.
        cause: String,
    },
    /// No record with a good checksum stands at this position.
    #[error("{segment}: no valid record at position {at} (offset {offset}): {what}")]
    NoRecord {
        /// The position asked for.
        at: Position,
        /// The segment that would hold it.
        segment: String,
        /// Its offset there.
        offset: u64,
        /// What was found instead.
        what: String,
    },
    /// What stood at this position is in a snapshot only: its segment was removed (see
    /// [`crate::LogReader::forget_before`]).
    #[error(
        "position {at} was forgotten: the log now begins at position {begins}, and a snapshot holds what was before"
    )]
    Forgotten {
        /// The position asked for.
        at: Position,
        /// Where the log begins.
        begins: Position,
    },
    /// A cursor that does not fit this log: beyond its end, between two groups, or from another history.
    #[error("cannot read on from position {position}, sequence {sequence}: {what}")]
    BadCursor {
        /// Position of the cursor.
        position: Position,
        /// Its sequence.
        sequence: Sequence,
        /// Why it does not fit.
        what: String,
    },
    /// The files were written by a program that knows another format.
    #[error(
        "{}: format version {found} is unknown: this program knows version {known} and converts nothing. Keep this \
         data \
         directory for the program that wrote it, and begin a new one with this program",
        path.display()
    )]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// Version found in it.
        found: u32,
        /// Version this program writes.
        known: u32,
    },
    /// The data directory cannot be used as asked.
    #[error("data directory {}: {what}", path.display())]
    Directory {
        /// The data directory.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
    /// Somebody else writes the stream now. What was not acknowledged by then never will be.
    #[error(
        "{log}: another process has taken over: message {number} is {what}. This process must stop writing, and start \
         again to serve"
    )]
    Fenced {
        /// Which log.
        log: String,
        /// Number of the message that is not ours.
        number: u64,
        /// What stands there, in words.
        what: String,
    },
    /// The stream cannot be reached. It says nothing about what is stored.
    #[error("{log}: cannot {doing}: {cause}")]
    Unavailable {
        /// Which log.
        log: String,
        /// What was being done.
        doing: &'static str,
        /// What the stream said.
        cause: String,
    },
    /// The log was closed or its companion thread ended.
    #[error("the journal is closed")]
    Closed,
}

impl JournalError {
    /// A file operation that failed outside of the commit path.
    pub(crate) fn io(doing: &'static str, path: &Path, cause: io::Error) -> JournalError {
        JournalError::Io { doing, path: path.to_path_buf(), cause: cause_words(path, &cause) }
    }
}

/// Why a group cannot be submitted now.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotReady {
    /// As many groups as may be in flight are; ask again after the next completion.
    #[error("the journal is syncing as many groups as it may")]
    Busy,
    /// No room is guaranteed on disk for another group. Asked again in the background; service resumes by itself.
    #[error("the disk is full")]
    DiskFull,
    /// The log has failed for good in this process.
    #[error(transparent)]
    Failed(#[from] JournalError),
}

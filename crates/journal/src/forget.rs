//! Forgetting the beginning of a log whose records live on in a snapshot.
//!
//! ```text
//!   segment │ segment │ segment │ segment, being written          before = the cursor of a durable snapshot
//!           │         │    ▲ before
//!   └── removed, oldest first ──┘ the one that holds `before` stays, and so does all behind it
//! ```
//!
//! Promise: what is behind `before` is never touched, and the names that are left always follow each other without a
//! gap: each removal is durable before the next. So a crash at any point leaves a log that opens for whoever has the
//! snapshot.
//!
//! Why a function on files and no matter of the writer: sealed segments belong to nobody any more, and unlinking a
//! large file takes milliseconds that a shard's thread does not have. Any thread may call it while the log is written
//! and read.

use crate::disk::Disk;
use crate::folder::Folder;
use crate::{JournalError, Position};

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Segment files; of a stream, messages.
    pub segments: usize,
    /// Positions that can no longer be read: about the bytes of those files.
    pub positions: u64,
}

/// Removes the segments all of whose records stand before `before`, durably.
pub(crate) fn forget_before<D: Disk>(folder: &Folder<D>, before: Position) -> Result<Forgotten, JournalError> {
    assert!(folder.may_forget(), "{}: it is whole for ever and forgets nothing", folder.log);
    let mut forgotten = Forgotten::default();
    let segments = folder.list_segments()?;
    for pair in segments.windows(2) {
        let (first, next) = (pair[0], pair[1]);
        if next > before {
            break;
        }
        assert!(first < next, "segments are listed in order");
        let path = folder.segment_path(first);
        folder.disk.remove(&path).map_err(|cause| JournalError::io("remove", &path, cause))?;
        folder.disk.sync_dir(&folder.path).map_err(|cause| JournalError::io("sync", &folder.path, cause))?;
        forgotten.segments += 1;
        forgotten.positions += next.0 - first.0;
    }
    assert!(forgotten.segments < segments.len().max(1), "the last segment stays always");
    Ok(forgotten)
}

#[cfg(test)]
mod tests;

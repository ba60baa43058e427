//! Which log it is, and how its files are sized.

use std::path::{Path, PathBuf};

use crate::group::GROUP_HEADER_BYTES;
use crate::limits;

/// Names one log for ever. Every group carries it, so that bytes of another directory or shard are never taken for ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogId {
    /// The random number that the data directory got when it was created (see [`crate::directory`]).
    pub directory: u64,
    /// Which shard of that directory, counted from zero.
    pub shard: u16,
}

impl LogId {
    /// Where this log's segments live inside a data directory: `journal/shard-<n>`.
    pub fn folder(&self, data: &Path) -> PathBuf {
        data.join("journal").join(format!("shard-{}", self.shard))
    }
}

/// Sizes of one log. The defaults are those of [`crate::limits`]; a simulator makes everything small to roll often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of a segment file in bytes; at least four of the largest groups.
    pub segment_bytes: u64,
    /// How much of a segment is claimed from the file system at a time.
    pub allocation_step_bytes: u64,
    /// Largest group that will be submitted, header and records; at most [`limits::GROUP_BYTES_MAX`].
    pub group_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            segment_bytes: limits::SEGMENT_BYTES,
            allocation_step_bytes: limits::ALLOCATION_STEP_BYTES,
            group_bytes_max: limits::GROUP_BYTES_MAX,
        }
    }
}

impl Options {
    /// The relations between the sizes, as between those of [`crate::limits`]; a violation is a bug of the caller.
    pub(crate) fn check(&self) {
        assert!(self.group_bytes_max <= limits::GROUP_BYTES_MAX, "readers accept groups up to GROUP_BYTES_MAX");
        assert!(self.group_bytes_max > 2 * GROUP_HEADER_BYTES, "a group holds a record");
        assert!(self.group_bytes_max as u64 <= self.segment_bytes / 4, "a segment holds several of the largest groups");
        assert!(self.allocation_step_bytes > 0, "room is claimed in steps");
    }
}

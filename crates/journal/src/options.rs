//! Which log it is, and how its files are sized.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::group::GROUP_HEADER_BYTES;
use crate::limits;

/// Whose records a log holds. The journal does not know what they mean, only whether old ones may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogKind {
    /// A shard of the ledger: whole for ever, from the first record on.
    Ledger,
    /// A shard of topics: what a snapshot has folded in may be forgotten.
    Topics,
}

impl LogKind {
    /// Whether the beginning of such a log may be gone, see [`crate::forget`].
    pub fn may_forget(self) -> bool {
        self == LogKind::Topics
    }

    /// Memory for durable groups that may be looked up soon. Topics look nothing up: their state holds what it needs.
    pub(crate) fn recent_bytes_max(self) -> usize {
        match self {
            LogKind::Ledger => limits::RECENT_BYTES_MAX,
            LogKind::Topics => 0,
        }
    }
}

/// Names one log for ever. Every group carries it, so that bytes of another directory or shard are never taken for ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogId {
    /// The random number that the data directory got when it was created (see [`crate::directory`]).
    pub directory: u64,
    /// Whose records it holds.
    pub kind: LogKind,
    /// Which shard of that kind, counted from zero; below [`limits::SHARDS_MAX`].
    pub shard: u16,
}

/// Set in the number by which files name their shard when it is one of topics. Why there: logs of ledgers, which are older than
/// this bit, keep every byte, and whatever covers the number (checksum, chain hash) covers the kind.
const TOPICS_BIT: u16 = 1 << 15;
const _: () = assert!(limits::SHARDS_MAX <= TOPICS_BIT);

impl LogId {
    /// The log of a shard of the ledger.
    pub const fn ledger(directory: u64, shard: u16) -> LogId {
        LogId { directory, kind: LogKind::Ledger, shard }
    }

    /// The log of a shard of topics.
    pub const fn topics(directory: u64, shard: u16) -> LogId {
        LogId { directory, kind: LogKind::Topics, shard }
    }

    /// Where this log's segments live inside a data directory: `journal/shard-<n>` or `journal/topics-<n>`.
    pub fn folder(&self, data: &Path) -> PathBuf {
        data.join("journal").join(self.name())
    }

    /// The log's name, unique in its directory: `shard-<n>` or `topics-<n>`.
    pub fn name(&self) -> String {
        let kind = match self.kind {
            LogKind::Ledger => "shard",
            LogKind::Topics => "topics",
        };
        format!("{kind}-{}", self.shard)
    }

    /// Kind and number as headers and marks carry them.
    pub(crate) fn shard_field(&self) -> u16 {
        assert!(self.shard < limits::SHARDS_MAX, "a directory has fewer shards");
        match self.kind {
            LogKind::Ledger => self.shard,
            LogKind::Topics => self.shard | TOPICS_BIT,
        }
    }

    /// The log that a header or mark names.
    pub(crate) fn from_fields(directory: u64, shard_field: u16) -> LogId {
        let kind = if shard_field & TOPICS_BIT == 0 { LogKind::Ledger } else { LogKind::Topics };
        LogId { directory, kind, shard: shard_field & !TOPICS_BIT }
    }
}

/// As messages about a log of the wrong owner say it.
impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            LogKind::Ledger => "shard",
            LogKind::Topics => "topic shard",
        };
        write!(f, "{kind} {} of data directory {:016x}", self.shard, self.directory)
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
    /// The sizes of a log of topics.
    pub fn topics() -> Options {
        Options {
            segment_bytes: limits::TOPIC_SEGMENT_BYTES,
            allocation_step_bytes: limits::TOPIC_ALLOCATION_STEP_BYTES,
            ..Options::default()
        }
    }

    /// The relations between the sizes, as between those of [`crate::limits`]; a violation is a bug of the caller.
    pub(crate) fn check(&self) {
        assert!(self.group_bytes_max <= limits::GROUP_BYTES_MAX, "readers accept groups up to GROUP_BYTES_MAX");
        assert!(self.group_bytes_max > 2 * GROUP_HEADER_BYTES, "a group holds a record");
        assert!(self.group_bytes_max as u64 <= self.segment_bytes / 4, "a segment holds several of the largest groups");
        assert!(self.allocation_step_bytes > 0, "room is claimed in steps");
    }
}

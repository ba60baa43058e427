//! Queues as a family of shards: which files they are.

use tidegate_journal::{Family, Retention};
use tidegate_machines::queue::Queues;
use tidegate_shard::{CompactionRule, ShardFamily};

use crate::limits::SEGMENT_BYTES;

/// The logs of queues: what a snapshot holds is forgotten, but for bodies that are still needed.
pub const QUEUES: Family = Family { number: 4, name: "queues", retention: Retention::SinceSnapshot };

/// What their logs fold into, and how snapshots are kept.
pub struct QueuesFamily;

impl ShardFamily for QueuesFamily {
    type Machine = Queues;
    const FAMILY: Family = QUEUES;
    /// The newest, and the one before it, in case the newest is damaged.
    const SNAPSHOTS_KEPT: usize = 2;
    /// A snapshot has some thirty bytes of each message, and is written once for four times its bytes of log.
    const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 2 * SEGMENT_BYTES, ratio: 4 };
    const WHEN_LOST: &'static str = "messages that were sent since are gone, and those that were acknowledged \
                                     since are handed out again";
}

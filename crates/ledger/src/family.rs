//! The ledger's files: its logs, and how long they are kept.

use tidegate_journal::{Family, Retention};
use tidegate_machines::ledger::Ledger;
use tidegate_shard::{CompactionRule, ShardFamily};

/// The logs of the ledger: never compacted, because ids must stay unique and histories reach back to the first row.
pub const LEDGER: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };

/// What its logs fold into.
pub struct LedgerFamily;

impl ShardFamily for LedgerFamily {
    type Machine = Ledger;
    const FAMILY: Family = LEDGER;
    /// The newest, and two to fall back to or to start the id index from.
    const SNAPSHOTS_KEPT: usize = 3;
    /// About four million transfers: a restart that replays them takes less than a second.
    const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 512 << 20, ratio: 4 };
    const WHEN_LOST: &'static str = "accounts have the balances from before: whoever was told that a transfer is done \
                                     was told wrong";
}

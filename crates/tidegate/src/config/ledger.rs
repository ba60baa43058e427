//! The ledger's keys.

use tidegate_config::{Bytes, config};

config! {
    /// `[limits]`, as far as the ledger goes.
    pub struct LedgerKeys in "limits" {
        ids_filter_bytes_max: Bytes<usize> = 800 << 20, (1 << 16)..=(1 << 40), restart,
            "bytes of memory for the filters that say which transfer ids are new, over all shards, at most: \
             about 3 bytes an id up to tens of millions, less than 1 beyond";
    }
}

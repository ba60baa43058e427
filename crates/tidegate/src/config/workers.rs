//! The keys of the workers.

use tidegate_config::{ConfigError, Count, Document, config};

config! {
    /// `[limits]`, as far as the workers go.
    pub struct WorkerKeys in "limits" {
        workers: Count = 0, 0..=1_024, restart,
            "pinned threads that own the binary connections and the shards; 0 for one per core, at most one per shard";
    }
}

/// Worker threads wanted on a machine with `cores` cores.
pub fn settle(document: &Document, cores: usize) -> Result<usize, ConfigError> {
    let keys: WorkerKeys = document.section()?;
    Ok(if keys.workers == 0 { cores } else { keys.workers as usize })
}

//! `[data]`: the data directory.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_config::{Bytes, ConfigError, Count, Document, FilePath, NoDefault, Optional, Seconds, config};

use super::settled::Overrides;

config! {
    /// `[data]`
    pub struct DataKeys in "data" {
        dir: FilePath = "data", .., restart,
            "directory of journals, snapshots and the token key; made if it does not exist";
        shards: Count<u16> = 1, 1..=1_024, restart,
            "shards of a new data directory. One that exists keeps its number: a start with another is refused. One is \
             fastest on few cores";
        segment_bytes: Bytes = 256 << 20, (16 << 20)..=(64 << 30), restart,
            "bytes of one segment file of the ledger's journal; those of topics have 64 MiB";
        disk_reserve_bytes: Bytes = 256 << 20, 0..=(1 << 44), restart,
            "bytes of the disk that journals leave free, so that there is room for a snapshot, which lets old records \
             go, when they have filled the rest; 1/32 of the disk at most. `tidegate doctor --data DIR` says how much \
             is needed. 0 for none";
        snapshot_interval_s: Seconds = 300, 0..=31_536_000, restart,
            "seconds between snapshots of the ledger, which shorten the next start; 0 for none by time. Logs of \
             topics, sessions and queues get theirs as they grow";
        witness: Optional<FilePath> = NoDefault, .., restart,
            "folder on another disk where it is kept how far each log was durable, so that a lost end is found; it \
             must have a file tidegate-witnesses, so that the place of a disk that is not mounted is not taken for it";
    }
}

/// The data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Where.
    pub dir: PathBuf,
    /// Shards, if it is new.
    pub shards: u16,
    /// Bytes of one journal segment.
    pub segment_bytes: u64,
    /// Bytes of the disk that journals leave free.
    pub disk_reserve_bytes: u64,
    /// Time between snapshots; `None` for none by time.
    pub snapshot_interval: Option<Duration>,
    /// Folder of the logs' witnesses.
    pub witness: Option<PathBuf>,
}

/// The directory of the file, or that of the flag.
pub fn settle(document: &Document, overrides: &Overrides) -> Result<Data, ConfigError> {
    let keys: DataKeys = document.section()?;
    Ok(Data {
        dir: overrides.data.clone().unwrap_or(keys.dir),
        shards: keys.shards,
        segment_bytes: keys.segment_bytes,
        disk_reserve_bytes: keys.disk_reserve_bytes,
        snapshot_interval: interval(keys.snapshot_interval_s),
        witness: keys.witness,
    })
}

/// `None` for zero.
pub fn interval(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

//! `[archive]`: where the server moves old segments of its journal by itself.

use std::time::Duration;

use tidegate_config::{ConfigError, Count, Document, NoDefault, Optional, PerSecond, Seconds, Text, config};

config! {
    /// `[archive]`
    pub struct ArchiveKeys in "archive" {
        to: Optional<Text> = NoDefault, .., restart,
            "directory, or s3://bucket/prefix, that sealed segments of the ledger's journal are moved to; the \
             directory must exist, and a store's address and keys are taken from the environment (AWS_ENDPOINT, \
             AWS_ACCESS_KEY_ID …; AWS_ALLOW_HTTP=true for a store without TLS). Without it nothing is moved";
        keep_segments: Count<u32> = 4, 0..=1_000_000, restart,
            "sealed segments of each log that stay in the data directory";
        interval_s: Seconds = 60, 1..=31_536_000, restart,
            "seconds between two looks for segments to move";
        bytes_per_s: PerSecond = 16 << 20, 65_536..=(16 << 30), restart,
            "bytes that are read, sent or read back for the archive. A segment is read twice, sent, read back and \
             compared before it is removed, so moving it takes five times its bytes";
    }
}

/// What the server archives by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// Where to.
    pub to: String,
    /// Sealed segments of each log that stay.
    pub keep_segments: usize,
    /// Between two looks.
    pub interval: Duration,
    /// Its rate.
    pub bytes_per_s: u64,
}

/// `None` if nothing is moved.
pub fn settle(document: &Document) -> Result<Option<ArchiveSettings>, ConfigError> {
    let keys: ArchiveKeys = document.section()?;
    Ok(keys.to.map(|to| ArchiveSettings {
        to: to.into(),
        keep_segments: keys.keep_segments as usize,
        interval: Duration::from_secs(keys.interval_s),
        bytes_per_s: keys.bytes_per_s,
    }))
}

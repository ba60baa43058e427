//! Bounds, and the keys that set them.

use tidegate_config::{Bytes, Count, Milliseconds, config};

config! {
    /// `[counters]`.
    pub struct CounterKeys in "counters" {
        shards: Count<u16> = 1, 1..=256, restart, "shards of a new directory";
        counters_max: Count<usize> = 100_000, 1..=100_000_000, restart, "counters of one shard at once";
        name_bytes_max: Bytes = 128, 1..=1_024, restart, "bytes of a name";
        expires_in_ms_max: Milliseconds = 2_592_000_000, 1..=3_155_760_000_000, restart, "until a counter expires";
    }
}

/// Commands that may wait for a shard.
pub const COMMANDS_WAITING_MAX: usize = 8_192;
/// Their bytes.
pub const COMMAND_BYTES_WAITING_MAX: usize = 16 << 20;
/// Bytes of a segment of a log.
pub const SEGMENT_BYTES: u64 = 8 << 20;

//! The keys of the binary door.

use tidegate_config::{Count, config};

config! {
    /// `[limits]`, as far as the binary door goes.
    pub struct BinaryKeys in "limits" {
        binary_connections_max: Count<usize> = 10_000, 1..=10_000_000, restart, "open connections per worker";
    }
}

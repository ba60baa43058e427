//! The keys of the binary door.

use tidegate_config::{Count, config};

config! {
    /// `[limits]`, as far as the binary door goes.
    pub struct BinaryKeys in "limits" {
        binary_connections_max: Count<usize> = 10_000, 1..=10_000_000, restart,
            "open connections per worker; for one more, one without a token gives way";
        binary_connections_per_address_max: Count<usize> = 0, 0..=10_000_000, restart,
            "binary connections of one address (IPv6: of one /64), over all workers; 0 for three quarters of all";
    }
}

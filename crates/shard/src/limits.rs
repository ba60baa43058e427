//! Bounds of a shard.

/// Calls behind one that waits for a read that begin their own reads meanwhile.
pub const LOOK_AHEAD_CALLS: usize = 64;

//! Bounds of a shard.

/// Calls behind one that waits for a read that begin their own reads meanwhile.
pub const LOOK_AHEAD_CALLS: usize = 64;
/// Events of things whose time has come that one step appends at most, so that a million of them at once keep no caller
/// waiting.
pub const DUE_PER_STEP: usize = 256;

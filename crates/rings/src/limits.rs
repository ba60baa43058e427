//! The bound of what lies between two threads.

/// Messages that wait in one ring between two threads. More wait with their sender, bounded by its requests under way.
pub const RING_MESSAGES: usize = 1 << 10;

const _: () = assert!(RING_MESSAGES.is_power_of_two());

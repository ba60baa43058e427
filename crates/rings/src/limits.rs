//! The bound of a ring.

/// Messages that wait in one ring between two threads. More wait with their sender, bounded by its requests in flight.
pub const RING_MESSAGES: usize = 1 << 10;

const _: () = assert!(RING_MESSAGES.is_power_of_two());

//! Every bound of what lies between two threads, in one place.

/// Messages that wait in one ring between two threads. More wait with their sender, bounded by its requests under way.
pub const RING_MESSAGES: usize = 1 << 10;
/// Jobs of one owner that its fetch threads have at a time, which bounds what they find and nobody has taken. More wait with their owner.
pub const JOBS_IN_FLIGHT_MAX: usize = 64;

const _: () = assert!(RING_MESSAGES.is_power_of_two());

//! The bounds of all queues between threads.

/// Jobs of one shard that its fetch threads have at a time. This also bounds results that were not taken yet. More jobs
/// wait in their shard.
pub const JOBS_IN_FLIGHT_MAX: usize = 64;
/// Requests that one client of an edge or background thread has under way or waiting for its pump.
pub const CLIENT_REQUESTS_MAX: usize = 8_192;
/// How far the host's clock may be ahead of all records at a start, in milliseconds, if something would end by it that
/// lasts longer than these: 366 days.
pub const CLOCK_AHEAD_MS_MAX: u64 = 366 * 86_400_000;
/// How far the host's clock may be ahead of the newest record of a log at a start, in milliseconds, before it is said
/// what ends by that: an hour.
pub const CLOCK_AHEAD_SAID_MS_MIN: u64 = 3_600_000;
/// How far the time of a shard may be ahead of the host's clock, in milliseconds, before `/healthz` says so: an hour.
pub const LEAD_SHOWN_MS_MIN: u64 = 3_600_000;
/// A disk with less free than this, and than [`DISK_LOW_PART`] of it, is low: logs are compacted sooner.
pub(crate) const DISK_LOW_BYTES: u64 = 1 << 30;
/// See [`DISK_LOW_BYTES`].
pub(crate) const DISK_LOW_PART: u64 = 10;
/// Sockets' tokens below this belong to a port; above stands the port's number.
pub(crate) const PORT_TOKENS: usize = 1 << 56;
/// Ports of one worker.
pub(crate) const PORTS_MAX: usize = 64;

const _: () = assert!(PORTS_MAX * PORT_TOKENS <= 1 << 62, "the token of the waker is none of a port");

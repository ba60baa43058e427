//! The bounds of a turn, of one caller in it, and of what a caller has under way.

use crate::stream::HANDSHAKE_COST;

/// Work that a port does in one turn for all callers, before the shards get theirs. One is a frame of the binary port,
/// or a packet of MQTT: about a microsecond with all that follows from it, or less.
pub const WORK_IN_TURN_MAX: isize = 1_024;
/// Work that a port does in one turn for TLS handshakes, whoever begins them: two, each a signature and a key exchange,
/// a quarter of a millisecond or more.
pub const HANDSHAKE_WORK_IN_TURN_MAX: isize = 2 * (HANDSHAKE_COST / BYTES_PER_WORK) as isize;
/// Work that a port does for one caller before the next one gets its round.
pub const WORK_IN_ROUND_MAX: isize = 64;
/// Work of a look at a connection that has something: a read and a write.
pub const WORK_OF_VISIT: isize = 4;
/// Bytes that are read or decoded that are one more work.
pub const BYTES_PER_WORK: usize = 4 << 10;
/// Work of reading that one caller may have under way at one worker, over all its connections, before it begins one
/// more: half a millisecond, or a page of a thousand rows more. A shard takes a page for one work of its caller's turn,
/// so others wait for its rows. A shard answers reads as soon as what they show is durable, so little is gained by
/// more.
pub const READS_OF_CALLER_MAX: usize = 512;
/// A caller may have so many times as many requests under way, and bytes of them, as are left for others.
pub const SHARE_OF_CALLER: usize = 3;
/// Queues that are kept for the next caller that needs one.
pub const SPARE_QUEUES_MAX: usize = 64;

const _: () = assert!(WORK_OF_VISIT < WORK_IN_ROUND_MAX && WORK_IN_ROUND_MAX * 8 <= WORK_IN_TURN_MAX);

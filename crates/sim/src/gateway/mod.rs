//! The gateway in one thread from one seed: the real brokers, topic shards, journals, recovery and compaction, over a
//! disk that breaks its promises wherever real ones may, with sockets that deliver in pieces, late or not at all, and
//! clients that come, go, stall, come back, and sometimes talk rubbish.
//!
//! ```text
//!   seed ─▶ Plan ─▶ SimClient ⇄ Socket (late, in pieces, reset, stalled) ⇄ Broker ⇄ rings ⇄ Broker
//!             │         │                                               └─ TopicShard ─ log of a Store
//!             └─ faults └─ what was sent, acknowledged, heard ─▶ Oracle ─▶ "breaks a promise", with the seed
//! ```
//!
//! # What is checked
//!
//! * What was acknowledged reaches every session that outlives its connection and was subscribed before: at least once
//!   for QoS 1, exactly once for QoS 2, and in the order of its publisher and topic.
//! * Nothing is heard that nobody sent, on another topic, with a higher QoS, or without the right to it.
//! * A session survives its connection, the process and the machine. The last retained message of a topic does, too.
//! * The server speaks MQTT: every packet decodes, every acknowledgement answers something.
//! * What is delayed reaches those sessions as well, also if it falls due while the process is down, and not before
//!   its time. What expires after an hour does not expire within one. Nobody who speaks is cut off for silence. All of
//!   that whatever the wall clock does, both ways.
//! * The will of who is gone without DISCONNECT reaches those sessions, too, after its delay; one that was taken back
//!   reaches nobody; one of QoS 2 reaches nobody twice. A will that is under way when its client comes back may be lost
//!   with the process.
//! * Of each share group, a message is one member's, and what was acknowledged is somebody's, whoever goes and comes
//!   back, also of members whose sessions end with their connections, as long as the process lives. With QoS 1 it may
//!   be given to another whose turn it was not, where members stall for long.
//! * An outbox stays within its bound, however slowly its client reads.
//!
//! # What is not real
//!
//! Threads, TLS and WebSocket framing, and the admission at the door. Those have tests of their own, with real sockets.
//!
//! Invariant: the oracle knows MQTT's promises only, and nothing of how a broker keeps them.

mod client;
mod node;
mod oracle;
mod peer;
mod pipe;
mod plan;
mod worker;
mod world;

pub use world::Gateway;

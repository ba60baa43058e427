//! A node: its threads, what runs on them, and how they exchange messages.
//!
//! ```text
//!   worker threads (pinned; one poll loop; ports and residents) ◀── rings ──▶ each other
//!   edge threads (tokio; a pump with clients)                   ──▶ rings ──▶ workers
//!   background threads (one client that waits for its answers)  ──▶ rings ──▶ workers
//!   log keeper (compacts and scrubs logs, files only)
//! ```
//!
//! What a node serves are its [rooms](node::Room): each brings families of logs, and ports, shards and threads. A start
//! is: open the directory, open the rooms, recover, place, spawn.
//!
//! Promise: what is sent arrives once and in order, no worker waits for another thread, and no wake-up is lost.
//!
//! Invariant: no room is named here, and nothing here knows what a message means. No mutex and no async runtime on a
//! worker's thread; what may wait lives on the other threads.

pub mod address;
pub mod background;
pub mod client;
pub mod clock;
pub mod damage;
pub mod direct;
mod directory_watch;
mod disk_room;
mod fetch;
pub mod limits;
pub mod log_checks;
mod log_ends;
pub mod log_keeper;
mod longest_turn;
pub mod member;
mod mended;
pub mod mesh;
pub mod metrics;
pub mod node;
pub mod placement;
mod port_clock;
pub mod pump;
pub mod recovery;
mod room_faults;
pub mod scrub;
pub mod shard_resident;
pub mod snapshot_watch;
pub mod start_clock;
pub mod status;
pub mod tail_watch;
pub mod threads;
pub mod witness;
pub mod worker;

pub use address::{Address, Carries, EndpointIndex, Envelope, MemberIndex, Outgoing};
pub use client::{Asker, Client, Replies};
pub use clock::ClockMetrics;
pub use damage::{Damages, Unreadable};
pub use log_ends::recorded_claim;
pub use member::{Context, Port, PortSockets, Resident};
pub use mesh::{Endpoint, Parker, mesh};
pub use metrics::{
    DirectoryMetrics, DiskMetrics, LoopMetrics, RoomMetrics, ShardMetrics, SnapshotMetrics, WitnessMetrics,
};
pub use node::{Node, NodeOptions, Room, Site};
pub use placement::{Home, Placement, ShardAddresses};
pub use port_clock::PortClockMetrics;
pub use shard_resident::{Protocol, Received, ShardResident};
pub use snapshot_watch::SnapshotWatch;
pub use status::{LeadWatch, Phase, Status};

//! Queues of messages as a room: who asks, their shards, and what a shard keeps beside its machine.
//!
//! ```text
//!   QueueClient ─▶ QueueMessage ─▶ QueueProtocol ─▶ Shard<QueueService>
//!                                                │ machine: where each message is     (tidegate_machines::queue)
//!                                                │ bodies:  those in memory; others are read from the log
//!                                                │ waiters: receivers for whom there is nothing yet
//!                                                │ windows, consumers: when it hands out, and how much to whom
//!                                                │ schedules: what a queue sends itself, and when
//!                                                └ mover:   writes old bodies again, so that segments can go
//! ```
//!
//! Promise: an answered send is durable, and its message is handed out until it is acknowledged. What is handed out was
//! noted durably before it leaves, so no crash makes two receivers of one lease.
//!
//! Invariant: nothing here knows HTTP or any other protocol of clients, or who may do what.

mod behind;
mod bodies;
mod call;
mod client;
mod consumers;
mod cron;
mod declared;
mod family;
mod in_space;
pub mod limits;
mod metrics;
mod news;
mod protocol;
mod rates;
mod refused;
mod room;
mod routing;
mod seldom;
mod service;
mod trail;
mod waiters;
mod walk;
mod window;
mod zone;

pub use call::{Answer, Browse, Call, Found, MessagePage, QueueFilter, Read, Receive, Received};
pub use client::{CallerRequest, QueueClient, QueueReply, QueueRequest, give_back};
pub use cron::{BadSchedule, Schedule};
pub use declared::{Declared, QueueKeys, declared};
pub use family::{QUEUES, QueuesFamily};
pub use in_space::{ids_in_space, ids_of_all_kinds};
pub use limits::QueuesKeys;
pub use metrics::QueueMetrics;
pub use protocol::{QueueMessage, QueueProtocol, RequestTicket, Ticket};
pub use rates::Rates;
pub use room::QueueRoom;
pub use routing::{RouteQueues, Routing};
pub use service::{Note, QueueOptions, QueueService};
pub use tidegate_machines::queue as machine;
pub use trail::{SentAs, Step, StepKind, Trail};
pub use walk::{StoppedShard, id_elsewhere};
pub use window::{BadWindow, DeliveryWindow, WindowState};

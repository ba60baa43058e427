//! The broker of one worker: MQTT connections, sessions, subscriptions and message routing, without a socket or a
//! clock.
//!
//! ```text
//!   bytes ─▶ connection ─▶ packet ─▶ session ─▶ match ─┬─ live ─────────────────▶ outbox ─▶ bytes
//!                                                      ├─ durable ─▶ topic shard ─▶ outbox
//!                                                      └─ another worker's ─▶ message between brokers
//! ```
//!
//! Invariant: no sockets, threads, clocks or randomness here: a poll loop drives it, or a simulator, or a bench with
//! transports in memory.
//!
//! Who drives it, and how, says [`drive`]: the same for a poll loop, a simulator and a bench.

mod acknowledgements;
pub mod action;
mod broker;
mod client_id;
mod clients;
mod connection;
pub mod drive;
pub mod facts;
mod feed;
mod flow;
pub mod footprint;
pub mod holdings;
mod index;
mod key;
pub mod limits;
pub mod message;
mod message_ref;
pub mod operator;
pub mod options;
mod outbox;
mod peer;
mod place;
mod reason;
mod receiver;
pub mod retained;
pub mod rights;
mod session;
mod shards;
pub mod share;
mod slab;
pub mod subscriptions;
mod template;
mod topic_tree;
pub mod topics;

pub use action::{Action, Admitted, Denied, FeedKey, ReceiverKey, RequestTicket, RequestTopic};
pub use broker::{Answered, Broker, ConnectionTraits, DrainPlan, Notice, Noticed, Reloaded, SubscriptionsDenied};
pub use facts::{BrokerFacts, SharedFacts};
pub use feed::{FeedMessage, FeedNews};
pub use holdings::{Bound, HoldingLimits, Holdings, Thing, ThingLimits};
pub use index::SessionIndex;
pub use key::ConnectionKey;
pub use limits::{BrokerLimits, InboxPolicy, SlowReader};
pub use message::BrokerMessage;
pub use operator::{OperatorAnswer, OperatorCall, OperatorTicket};
pub use options::{BrokerOptions, QueueRefusal, QueueTopics};
pub use receiver::QueueDelivery;
pub use rights::{Access, FindRights, Rights, RightsOf};
pub use shards::Waiting;
pub use share::ShareStrategy;
pub use tidegate_machines::topic::Principal;
/// Which worker has which topic shard, for [`BrokerOptions::owners`].
pub use tidegate_shard::Owners;
pub use tidegate_wire::mqtt::ReasonCode;
pub use topics::{TOPICS, TopicShard, TopicsFamily};

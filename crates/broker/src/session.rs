//! What a worker stores for one session, with or without a connection.
//!
//! ```text
//!   clean    Live ──────────────────────────▶ gone          ends with its connection, never on disk
//!   durable  Opening ─durable─▶ Live ─ended─▶ gone          also in the topic shard at `slot`; this is the live part
//!               ▲                 │
//!               └────attached─────┘                         a new connection waits for its record as well
//! ```
//!
//! A session is created clean or durable and stays so: a clean one ends with its connection, so nothing can make it
//! durable later.
//! `[MQTT-3.1.2-23]`: the session is stored as long as its expiry interval says.
//! `[MQTT-3.14.2-2]`: a DISCONNECT of the server has no session expiry interval.

use tidegate_machines::topic::{Slot, Will};

use crate::client_id::ClientId;
use crate::flow::Flow;
use crate::holdings::{Holder, Thing};
use crate::index::{ConnectionIndex, SessionIndex, ShardPlace};
use crate::limits::FILTER_BYTES;
use crate::topic_tree::NodeId;

/// Where a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nobody's.
    #[default]
    Vacant,
    /// Its OpenSession or AttachSession waits to be durable.
    Opening,
    /// Ready.
    Live,
}

/// One session. Its place in the slab, with its generation, is what subscriptions point to.
#[derive(Debug)]
pub(crate) struct Session {
    pub generation: u16,
    pub stage: Stage,
    pub flags: SessionFlags,
    /// Place of its shard among this worker's shards.
    pub shard: ShardPlace,
    /// Its connection, or none.
    pub connection: Option<ConnectionIndex>,
    /// Its place in the shard; none for a clean session, and for a durable one until its first record is decided.
    pub slot: Option<Slot>,
    pub expiry_s: u32,
    /// What its owner has paid for it, in bytes; 0 for a clean one.
    pub paid_bytes: u32,
    /// Whose it is; none of one that a program recovered which did not know.
    pub owner: Option<Holder>,
    /// Number of the next message of QoS 1 or 2, while it has no flow.
    pub next_number: u64,
    pub client_id: ClientId,
    pub subscriptions: Subscriptions,
    /// What is in flight; none until the first QoS 1 or 2.
    pub flow: Option<Box<Flow>>,
    /// A clean session's will; a durable one's is in the shard.
    pub will: Option<Box<Will>>,
}

const _: () = assert!(size_of::<Session>() <= 112);

impl Default for Session {
    fn default() -> Session {
        Session {
            generation: 0,
            stage: Stage::Vacant,
            flags: SessionFlags(0),
            shard: ShardPlace::default(),
            connection: None,
            slot: None,
            expiry_s: 0,
            paid_bytes: 0,
            owner: None,
            next_number: 0,
            client_id: ClientId::default(),
            subscriptions: Subscriptions::None,
            flow: None,
            will: None,
        }
    }
}

impl Session {
    pub fn is_durable(&self) -> bool {
        self.flags.has(SessionFlags::DURABLE)
    }

    /// Its owner does not pay for a filter any more.
    pub fn release_filter(&self, filter: &str) {
        if let Some(owner) = &self.owner {
            owner.release(Thing::Filter, 1, filter_bytes(filter));
        }
    }

    /// Its flow, made when there is none.
    pub fn flow(&mut self) -> &mut Flow {
        let next = self.next_number;
        self.flow.get_or_insert_with(|| Box::new(Flow::new(next)))
    }
}

/// What a subscription takes, about, at the worker of its session.
pub(crate) fn filter_bytes(filter: &str) -> u64 {
    FILTER_BYTES + filter.len() as u64
}

/// Things that are true of a session, independent of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionFlags(u16);

impl SessionFlags {
    /// It outlives its connection.
    pub const DURABLE: SessionFlags = SessionFlags(1);
    /// It is a member of a share group, so all workers are told how far it is there.
    pub const SHARED: SessionFlags = SessionFlags(2);
    /// It was recovered from the journal: what this process does not know of it may be there.
    pub const RECOVERED: SessionFlags = SessionFlags(4);
    /// It has published with QoS 2, so shards may remember its origins.
    pub const ORIGINS: SessionFlags = SessionFlags(8);
    /// No client has been told of it yet.
    pub const FRESH: SessionFlags = SessionFlags(32);
    /// Its flow was idle when the hand came by.
    pub const FLOW_IDLE: SessionFlags = SessionFlags(64);
    /// What waits for it may not be for its client any more: that came back, perhaps as another user, or its rights or
    /// its subscriptions have changed. Each message is looked at when it leaves, until nothing waits.
    pub const CHECKED: SessionFlags = SessionFlags(128);
    /// One of its filters covers topics that its client may not read: each message is looked at when it comes.
    pub const PARTLY_DENIED: SessionFlags = SessionFlags(256);

    /// A connected member of a share group that would not be sent one more at once.
    pub const SHARE_BUSY: SessionFlags = SessionFlags(512);
    /// A connected member of a share group that has taken nothing for long.
    pub const SHARE_STALLED: SessionFlags = SessionFlags(1024);
    /// Something waits for it that had no room only because of others: it is tried again.
    pub const STARVED: SessionFlags = SessionFlags(2048);
    /// Something waits for it that its outbox had no room for: what is smaller, and of QoS 0, does not overtake it.
    pub const HELD_BACK: SessionFlags = SessionFlags(4096);

    pub fn has(self, flag: SessionFlags) -> bool {
        self.0 & flag.0 != 0
    }

    pub fn set(&mut self, flag: SessionFlags) {
        self.0 |= flag.0;
    }

    pub fn clear(&mut self, flag: SessionFlags) {
        self.0 &= !flag.0;
    }
}

/// A reference to a session. If the session has ended, it refers to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionRef {
    pub index: SessionIndex,
    pub generation: u16,
}

/// The nodes of a session's filters in its worker's tree. One filter, as nearly all have, costs no allocation.
#[derive(Debug, Default)]
pub(crate) enum Subscriptions {
    #[default]
    None,
    One(NodeId),
    // A box, because a vector would make every session eight bytes larger.
    #[allow(clippy::box_collection)]
    Many(Box<Vec<NodeId>>),
}

impl Subscriptions {
    pub fn as_slice(&self) -> &[NodeId] {
        match self {
            Subscriptions::None => &[],
            Subscriptions::One(node) => std::slice::from_ref(node),
            Subscriptions::Many(nodes) => nodes,
        }
    }

    pub fn add(&mut self, node: NodeId) {
        *self = match std::mem::take(self) {
            Subscriptions::None => Subscriptions::One(node),
            Subscriptions::One(first) => Subscriptions::Many(Box::new(vec![first, node])),
            Subscriptions::Many(mut nodes) => {
                nodes.push(node);
                Subscriptions::Many(nodes)
            }
        };
    }

    pub fn remove(&mut self, node: NodeId) {
        *self = match std::mem::take(self) {
            Subscriptions::One(only) if only == node => Subscriptions::None,
            Subscriptions::Many(mut nodes) => {
                let before = nodes.len();
                nodes.retain(|other| *other != node);
                assert!(nodes.len() + 1 == before, "a session knows a subscription once");
                match nodes[..] {
                    [last] => Subscriptions::One(last),
                    _ => Subscriptions::Many(nodes),
                }
            }
            Subscriptions::None | Subscriptions::One(_) => panic!("a session knows the subscription that is removed"),
        };
    }
}

//! What the broker asks of the shell around it: the loop that has sockets and clocks.

use std::sync::Arc;

use tidegate_machines::TimeMs;

use crate::ReasonCode;
use crate::{ConnectionKey, Principal, Rights};

/// Something that the broker cannot do itself. The shell takes actions with [`crate::Broker::actions`] after each turn.
#[derive(Debug)]
pub enum Action {
    /// Authenticate the client and answer with [`crate::Broker::verdict`]. Nothing more is read from the connection
    /// until then. The shell adds what only it knows: the certificate, the address, the listener.
    Authenticate {
        /// The connection that has sent CONNECT.
        key: ConnectionKey,
        /// Its client id; the broker has assigned one if the client sent none.
        client_id: Box<str>,
        /// User name of CONNECT.
        user_name: Option<Box<str>>,
        /// Password of CONNECT.
        password: Option<Box<[u8]>>,
    },
    /// The session of this connection lives with another worker: move the socket there, `open` it, and `receive` these
    /// bytes first. The key is already forgotten here.
    HandOff {
        /// The connection as it was called here.
        key: ConnectionKey,
        /// Where it belongs.
        worker: u16,
        /// All that was received from it.
        bytes: Box<[u8]>,
    },
    /// Write what [`crate::Broker::unsent`] still holds, as far as the socket takes it without waiting; close the
    /// socket; then call [`crate::Broker::closed`].
    Close {
        /// The connection.
        key: ConnectionKey,
    },
    /// A request arrived on a topic that a service answers: let it, and [`crate::Broker::respond`].
    Request {
        /// Goes back with the response.
        ticket: RequestTicket,
        /// Which topic.
        topic: RequestTopic,
        /// On whose behalf.
        rights: Arc<dyn Rights>,
        /// What was published.
        payload: Box<[u8]>,
    },
    /// Whether `condition` holds decides whether this connection may subscribe: find out and answer with
    /// [`crate::Broker::confirm`]. Nothing more is read from the connection until then.
    Confirm {
        /// The connection.
        key: ConnectionKey,
        /// What its rights named in [`crate::Access::IfConfirmed`].
        condition: Box<str>,
    },
    /// A client subscribes to what a source keeps: find out where its feed begins, and answer with
    /// [`crate::Broker::placed`]. Nothing more is read from the connection until then.
    FindPlace {
        /// The connection.
        key: ConnectionKey,
        /// Its filter.
        filter: Box<str>,
        /// Where it wants to begin, or did before; `None` for what comes from now on.
        after: Option<Box<[u8]>>,
        /// On whose behalf.
        rights: Arc<dyn Rights>,
    },
    /// Read a feed: answer with one part ([`crate::Broker::feed`]), and with one more for each [`Action::FeedMore`].
    Feed {
        /// Names it.
        feed: FeedKey,
        /// The connection that it is for.
        key: ConnectionKey,
        /// Its filter.
        filter: Box<str>,
        /// Where it begins; empty for what comes from now on.
        after: Box<[u8]>,
        /// On whose behalf.
        rights: Arc<dyn Rights>,
    },
    /// One more part of a feed is wanted.
    FeedMore {
        /// Which.
        feed: FeedKey,
    },
    /// Nothing more of a feed is wanted.
    FeedEnd {
        /// Which.
        feed: FeedKey,
    },
    /// Something was published that is a send to a queue: let the queue take it, and answer with
    /// [`crate::Broker::send_answered`].
    Send {
        /// Goes back with the answer.
        ticket: RequestTicket,
        /// On whose behalf. They may publish there.
        rights: Arc<dyn Rights>,
        /// Where.
        topic: Box<str>,
        /// Encoded MQTT 5 properties that would go on unchanged.
        properties: Box<[u8]>,
        /// When it is worth nothing any more.
        expires_at: Option<TimeMs>,
        /// What was published.
        payload: Box<[u8]>,
    },
    /// A client wants to receive from a queue: find out whether there is one, and answer with
    /// [`crate::Broker::queue_found`]. Nothing more is read from the connection until then.
    FindQueue {
        /// The connection.
        key: ConnectionKey,
        /// Its filter.
        filter: Box<str>,
    },
    /// A receiver begins. It asks for messages by [`Action::ReceiveMore`].
    Receive {
        /// Names it.
        receiver: ReceiverKey,
        /// The client.
        client_id: Box<str>,
        /// Its filter.
        filter: Box<str>,
    },
    /// A receiver wants messages: answer with [`crate::Broker::hand_out`] when there are some.
    ReceiveMore {
        /// Which.
        receiver: ReceiverKey,
        /// How many at most.
        max: usize,
    },
    /// What becomes of a message that was handed out: below 0x80 it is acknowledged, otherwise rejected.
    Settle {
        /// Whose.
        receiver: ReceiverKey,
        /// Its [number](crate::QueueDelivery::number).
        number: u64,
        /// What the client says.
        reason: ReasonCode,
    },
    /// A receiver wants nothing more. What was handed out to it and is not settled may still be.
    ReceiveStop {
        /// Which.
        receiver: ReceiverKey,
        /// The numbers of messages that its client never saw.
        unsent: Vec<u64>,
    },
    /// A receiver is gone. What is not settled is not with anybody any more.
    ReceiveEnd {
        /// Which.
        receiver: ReceiverKey,
    },
}

/// Names a receiver of one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReceiverKey(pub u64);

/// Names a feed of one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FeedKey(pub u64);

/// Names a request in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestTicket(pub u64);

/// A topic that a service answers, by its place in [`crate::BrokerOptions::request_topics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestTopic(pub u16);

/// The shell's yes to a CONNECT.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// What the client may do. Clients with the same rights should share one object: it is kept once.
    pub rights: Arc<dyn Rights>,
    /// Who it is: what it makes is this principal's.
    pub principal: Principal,
    /// Whether a session of which nobody knows whose it is may become this principal's.
    pub may_claim: bool,
    /// When the connection ends, because what the client has shown is good no longer; `None` for never.
    pub ends_at: Option<TimeMs>,
}

/// The shell's no to a CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// What CONNACK says; translated for MQTT 3.1.1.
    pub reason: ReasonCode,
}

//! What an operator asks of one worker's broker, and what it answers.
//!
//! ```text
//!   shell ─ Broker::operate(ticket, call) ─▶ some calls each step ─┬─ at once ───────────────▶ Broker::take_operated
//!                                                                 ├─ a scan, slice by slice ─▶
//!                                                                 └─ when it is durable ────▶
//! ```
//!
//! Promise: a call is answered once. A list of a million sessions is made in slices, so it delays no client, and holds
//! no more than a page of names.
//!
//! Invariant: who may ask, the shell has checked.

use std::sync::Arc;

use tidegate_machines::TimeMs;
use tidegate_machines::topic::Message;

use crate::{ConnectionKey, Principal, ReasonCode};

/// Names a call of the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperatorTicket(pub u64);

/// A call.
#[derive(Clone, Debug)]
pub enum OperatorCall {
    /// A page of this worker's sessions.
    ListSessions(SessionList),
    /// One session with its filters.
    ReadSession {
        /// Its client id.
        client_id: Box<str>,
    },
    /// Disconnects a client with 0x98 (administrative action). Its session stays, if it outlives its connection.
    Disconnect {
        /// The client id.
        client_id: Box<str>,
    },
    /// Disconnects a client likewise, and ends its session.
    EndSession {
        /// The client id.
        client_id: Box<str>,
    },
    /// Publishes a message.
    Publish {
        /// The message, which does not say when it expires.
        message: Arc<Message>,
        /// In how many seconds it does.
        expires_in_s: Option<u32>,
        /// Who pays for it if it is retained.
        payer: Principal,
    },
    /// A page of the retained messages of all workers.
    ListRetained(RetainedList),
}

/// Which sessions are listed, in the byte order of their client ids.
#[derive(Clone, Debug, Default)]
pub struct SessionList {
    /// Only client ids that begin so.
    pub prefix: Box<str>,
    /// Only client ids behind this one; empty for all.
    pub after: Box<str>,
    /// Only those of this principal.
    pub owner: Option<Principal>,
    /// Only those whose client is connected, or is not.
    pub connected: Option<bool>,
    /// At most so many; no more than [`crate::limits::OPERATOR_ROWS_MAX`].
    pub limit: usize,
}

/// Which retained messages are listed, in the byte order of their topics.
#[derive(Clone, Debug)]
pub struct RetainedList {
    /// Only topics that this filter matches, which is valid and of no share group.
    pub filter: Box<str>,
    /// Only topics behind this one; empty for all.
    pub after: Box<str>,
    /// At most so many; no more than [`crate::limits::OPERATOR_ROWS_MAX`].
    pub limit: usize,
}

/// The answer to a call.
#[derive(Debug)]
pub enum OperatorAnswer {
    /// Sessions, and the client id behind which there are more. It may be one that has ended meanwhile.
    Sessions(Vec<SessionRow>, Option<Box<str>>),
    /// A session, and its filters.
    Session(Box<SessionRow>, Filters),
    /// Messages, and the topic behind which there are more.
    Retained(Vec<Arc<Message>>, Option<Box<str>>),
    /// It is done, and durable where that matters.
    Done,
    /// It is ordered, and will be done when others have what must not be lost with it.
    Begun,
    /// Nobody, or nothing, has that name.
    NotFound,
    /// The message is with all who must keep it.
    Published {
        /// Whether anybody subscribes to its topic, or it is retained.
        matched: bool,
    },
    /// The message is refused.
    Refused(ReasonCode),
    /// Too much is under way.
    Busy,
    /// There is no room on the disk.
    DiskFull,
    /// A shard has failed: whether it is done is not known.
    Failed,
}

/// A session.
#[derive(Clone, Debug)]
pub struct SessionRow {
    /// Its client id.
    pub client_id: Box<str>,
    /// Whose it is, if that is known.
    pub owner: Option<Principal>,
    /// Its connection.
    pub connection: Option<ConnectionRow>,
    /// Whether it outlives its connection.
    pub is_durable: bool,
    /// Seconds that it is kept without a connection; [`u32::MAX`]: without limit.
    pub expiry_s: u32,
    /// Since when its client is gone.
    pub detached_at: Option<TimeMs>,
    /// How many subscriptions it has.
    pub subscriptions: u32,
    /// Messages of QoS 1 and 2 that were sent to the client and not acknowledged.
    pub in_flight: u32,
    /// Messages that wait for the client; of a session that outlives its connection, with those in flight.
    pub inbox_messages: u64,
    /// Their bytes.
    pub inbox_bytes: u64,
}

/// A connection of a session.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionRow {
    /// Which one, for the shell.
    pub key: ConnectionKey,
    /// Since when, in seconds since 1970.
    pub since_s: u32,
    /// When the last packet came, in seconds since 1970.
    pub last_packet_s: u32,
    /// Whether it speaks MQTT 5; else 3.1.1.
    pub is_v5: bool,
    /// Its keep alive in seconds; 0 for none.
    pub keep_alive_s: u16,
}

/// The filters of a session, as far as an answer has room.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Each with its greatest QoS.
    pub filters: Vec<(Box<str>, u8)>,
    /// How many there are besides.
    pub more: usize,
}

//! The commands of a topic shard, and why it may refuse them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::message::Message;
use super::principal::Principal;
use crate::TimeMs;

/// A session's place in its shard. Used again when the session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// Where a message of QoS 2 came from: it is taken once. Also of wills and delayed messages, so that a crash does not
/// double them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Shard of the publisher's session; of a will or a delayed message, the one that keeps it.
    pub shard: u16,
    /// Which session: the sequence of the record that opened it. Of a will or a delayed message, that of the record
    /// that brought it.
    pub incarnation: u64,
    /// Packet id; zero is no packet, but a will or a delayed message.
    pub packet_id: u16,
    /// Which part of its receivers, where there are more than one record has room for: each part is taken once. Who
    /// receives in which part must not change while the origin is known.
    pub part: u32,
}

impl Origin {
    /// The origin of a message that is taken in one part.
    pub const fn new(shard: u16, incarnation: u64, packet_id: u16) -> Origin {
        Origin { shard, incarnation, packet_id, part: 0 }
    }

    /// The origin of a will or a delayed message: what names it is the record that brought it.
    pub const fn of_record(shard: u16, record: u64) -> Origin {
        Origin::new(shard, record, 0)
    }

    /// Whether it is that of a will or a delayed message.
    pub const fn is_of_record(self) -> bool {
        self.packet_id == 0
    }

    /// All parts of it.
    pub(super) fn parts(self) -> RangeInclusive<Origin> {
        Origin { part: 0, ..self }..=Origin { part: u32::MAX, ..self }
    }
}

/// What is published when a client is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    /// The message; it expires so long after it was published, not after it was left with us.
    pub message: Arc<Message>,
    /// Seconds to wait for the client's return.
    pub delay_s: u32,
    /// Seconds from its publication to its expiry.
    pub expiry_s: Option<u32>,
}

/// How far a subscription was read whose messages are not put into the inbox, because their source keeps them: the
/// inbox of such a subscription is this place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptPlace {
    /// Messages that its receiver has acknowledged. Packet ids follow from it, so they are the same after a restart.
    pub number: u64,
    /// Where the next one begins, in the words of who keeps it. Opaque here; at most [`PLACE_BYTES_MAX`].
    pub place: Box<[u8]>,
}

/// Bytes of a [`KeptPlace`].
pub const PLACE_BYTES_MAX: usize = 128 << 10;

/// One session that a message is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The session.
    pub slot: Slot,
    /// How surely it gets it, 1 or 2.
    pub qos: u8,
    /// Whether it is shown as retained.
    pub retain: bool,
    /// Numbers of the subscriptions that matched, where the client gave any.
    pub subscription_ids: Box<[u32]>,
}

/// Why an entry leaves an inbox without having been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// It has expired.
    Expired,
    /// It has waited for as long as the inbox allows.
    Aged,
}

/// One thing to decide. Owned, because it may wait for room in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begin a session that outlives its connection.
    OpenSession {
        /// Client id.
        client_id: Box<str>,
        /// Whose it is; none if that is not known.
        owner: Option<Principal>,
        /// Seconds that it is kept without a connection; `u32::MAX`: without limit.
        expiry_s: u32,
        /// What to publish when the client is gone.
        will: Option<Will>,
    },
    /// A client is connected to its session again.
    AttachSession {
        /// The session.
        slot: Slot,
        /// Whose it is from now on, if that was not known.
        owner: Option<Principal>,
        /// Its new expiry.
        expiry_s: u32,
        /// Its new will.
        will: Option<Will>,
    },
    /// The client is gone; the session's time begins to run.
    DetachSession {
        /// The session.
        slot: Slot,
        /// Its expiry from now on.
        expiry_s: u32,
        /// Whether the will is to be published, after its delay.
        keep_will: bool,
    },
    /// End a session and all that belongs to it.
    EndSession {
        /// The session.
        slot: Slot,
    },
    /// The will was published, or is not to be. Not one that came after it.
    ClearWill {
        /// The session.
        slot: Slot,
        /// The record that brought it.
        record: u64,
    },
    /// Add a subscription, or replace the one with this filter.
    Subscribe {
        /// The session.
        slot: Slot,
        /// The filter, as the client wrote it.
        filter: Box<str>,
        /// Opaque here.
        options: u8,
        /// Number that the client gave it; zero for none.
        subscription_id: u32,
    },
    /// Remove a subscription.
    Unsubscribe {
        /// The session.
        slot: Slot,
        /// The filter.
        filter: Box<str>,
    },
    /// Remember how far a subscription was read.
    KeepPlace {
        /// The session.
        slot: Slot,
        /// The filter.
        filter: Box<str>,
        /// How far.
        kept: KeptPlace,
    },
    /// Put a message into inboxes. Receivers that are gone are passed over.
    Publish {
        /// The message.
        message: Arc<Message>,
        /// Whom it is for.
        receivers: Box<[Receiver]>,
        /// Where it came from, if it must not come twice.
        origin: Option<Origin>,
        /// Receivers whose clients take nothing, although they are there: their full inboxes refuse nothing.
        unheeded: Box<[Slot]>,
    },
    /// Put a message that another session has into an inbox, if that has room for it: nothing makes room.
    PassOn {
        /// The message.
        message: Arc<Message>,
        /// Whom it is for.
        receiver: Receiver,
    },
    /// A receiver has the message, or it can never be sent.
    Acknowledge {
        /// The session.
        slot: Slot,
        /// Number of the entry.
        number: u64,
    },
    /// A receiver has said PUBREC: it is not sent the message again, only the release.
    MarkReceived {
        /// The session.
        slot: Slot,
        /// Number of the entry.
        number: u64,
    },
    /// Give an entry up.
    Drop {
        /// The session.
        slot: Slot,
        /// Number of the entry.
        number: u64,
        /// Why.
        reason: DropReason,
    },
    /// Its packet id may be used for another message. All parts of it are forgotten.
    ForgetOrigin(Origin),
    /// The session that these came from has ended.
    ForgetOrigins {
        /// Shard of the session.
        shard: u16,
        /// Which session.
        incarnation: u64,
    },
    /// Store a message for later subscribers, instead of the one before; one without payload clears.
    Retain {
        /// What.
        message: Arc<Message>,
        /// Whose it is; none if that is not known.
        owner: Option<Principal>,
    },
    /// Keep a message until it is time to publish it.
    Delay {
        /// When.
        at: TimeMs,
        /// What.
        message: Arc<Message>,
        /// Where it came from, if it must not come twice.
        origin: Option<Origin>,
        /// Whose it is; none if that is not known.
        owner: Option<Principal>,
    },
    /// A delayed message was published.
    DelayedSent {
        /// Which.
        id: u64,
    },
}

/// Why there is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is a session of this client id.
    #[error("client id has a session already")]
    SessionExists(Slot),
    /// There is no session in this slot.
    #[error("no session in slot {}", .0.0)]
    NoSession(Slot),
    /// There is no such subscription.
    #[error("no such subscription")]
    NoSubscription,
    /// The entry does not wait (any more), or is in this state already.
    #[error("entry {0} does not wait")]
    NoEntry(u64),
    /// A message of this origin was taken before: the sender gets a positive acknowledgement.
    #[error("message was taken before")]
    Duplicate,
    /// There is nothing to do: no such origin, no such will, no receiver. The sender gets a positive acknowledgement.
    #[error("nothing to do")]
    Nothing,
    /// An inbox is full and its policy is to refuse.
    #[error("inbox of a receiver is full")]
    InboxFull,
    /// There is no such delayed message.
    #[error("no delayed message {0}")]
    NoDelayed(u64),
}

/// What an inbox does with one message more than fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InboxPolicy {
    /// The oldest that wait make room.
    #[default]
    DropOldest,
    /// The new one is dropped for that receiver.
    DropNewest,
    /// The message is refused, to all its receivers on this shard.
    Refuse,
}

/// The bounds of every inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxLimits {
    /// Messages that wait.
    pub messages_max: u32,
    /// Bytes that wait.
    pub bytes_max: u64,
    /// How long a message waits, in milliseconds; 0 for no bound.
    pub age_max_ms: u64,
    /// What happens beyond.
    pub policy: InboxPolicy,
    /// For how long after its client has gone a session's full inbox refuses a message, in milliseconds, where that is
    /// what happens. After that the message is dropped for this session, and taken for others; so it is where a command
    /// says that the client takes nothing.
    pub refuse_away_ms: u64,
}

impl Default for InboxLimits {
    fn default() -> InboxLimits {
        InboxLimits {
            messages_max: 10_000,
            bytes_max: 16 << 20,
            age_max_ms: 0,
            policy: InboxPolicy::DropOldest,
            refuse_away_ms: 60_000,
        }
    }
}

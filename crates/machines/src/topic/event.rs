//! The events of a topic shard: the records of its journal, and the only input of the fold that makes sessions and
//! inboxes.

use std::sync::Arc;

use super::command::{DropReason, KeptPlace, Origin, Receiver, Slot, Will};
use super::message::Message;
use super::principal::Principal;
use crate::TimeMs;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A session began. Its incarnation is the sequence of this record.
    SessionOpened {
        /// When; zero in a record of a program that did not write it.
        at: TimeMs,
        /// Its slot.
        slot: Slot,
        /// Client id.
        client_id: Box<str>,
        /// Whose it is; none in a record of a program that did not write it.
        owner: Option<Principal>,
        /// Seconds that it is kept without a connection; `u32::MAX`: without limit.
        expiry_s: u32,
        /// What to publish when the client is gone.
        will: Option<Will>,
    },
    /// Its client came back.
    SessionAttached {
        /// When; zero in a record of a program that did not write it.
        at: TimeMs,
        /// The session.
        slot: Slot,
        /// Whose it is from now on; none if it stays whose it was.
        owner: Option<Principal>,
        /// Its expiry from now on.
        expiry_s: u32,
        /// Its will from now on.
        will: Option<Will>,
        /// Whether this record names the will; none does in a record of a program that named all wills of a session by
        /// the record that opened it.
        names_will: bool,
    },
    /// Its client is gone.
    SessionDetached {
        /// The session.
        slot: Slot,
        /// When.
        at: TimeMs,
        /// Its expiry from now on.
        expiry_s: u32,
        /// Whether the will is to be published.
        keep_will: bool,
    },
    /// It ended, with its inbox.
    SessionEnded {
        /// The session.
        slot: Slot,
    },
    /// Its will was published, or is not to be.
    WillCleared {
        /// The session.
        slot: Slot,
    },
    /// It subscribed, or changed a subscription.
    Subscribed {
        /// The session.
        slot: Slot,
        /// The filter.
        filter: Box<str>,
        /// Opaque here.
        options: u8,
        /// Number that the client gave it; zero for none.
        subscription_id: u32,
    },
    /// It unsubscribed.
    Unsubscribed {
        /// The session.
        slot: Slot,
        /// The filter.
        filter: Box<str>,
    },
    /// A subscription was read up to a place in what keeps its messages itself.
    PlaceKept {
        /// The session.
        slot: Slot,
        /// The filter.
        filter: Box<str>,
        /// How far.
        kept: KeptPlace,
    },
    /// A message was put into inboxes.
    Published {
        /// When.
        at: TimeMs,
        /// The message; none if no receiver got it.
        message: Option<Arc<Message>>,
        /// When its stay in inboxes is over; zero for never.
        drop_at: TimeMs,
        /// Where it came from.
        origin: Option<Origin>,
        /// The receivers, in order.
        receivers: Box<[Receiver]>,
        /// For each receiver, how many of its oldest entries made room. Empty when none did.
        evicted: Box<[u32]>,
        /// Receivers whose full inbox did not take it.
        dropped: u32,
    },
    /// A receiver has it.
    Acknowledged {
        /// The session.
        slot: Slot,
        /// Number of the entry.
        number: u64,
    },
    /// A receiver has it and waits for the release of its id.
    Received {
        /// The session.
        slot: Slot,
        /// Number of the entry.
        number: u64,
    },
    /// It was given up.
    Dropped {
        /// The session.
        slot: Slot,
        /// Number of the entry.
        number: u64,
        /// Why.
        reason: DropReason,
    },
    /// The origin may come again with another message.
    OriginForgotten(Origin),
    /// All origins of a session that ended.
    OriginsForgotten {
        /// Shard of the session.
        shard: u16,
        /// Which session.
        incarnation: u64,
    },
    /// A message is kept for later subscribers; one without payload clears.
    Retained {
        /// What.
        message: Arc<Message>,
        /// Whose it is; none if that is not known.
        owner: Option<Principal>,
    },
    /// A message is kept until it is time. Its id is the sequence of this record.
    Delayed {
        /// When.
        at: TimeMs,
        /// What.
        message: Arc<Message>,
        /// Where it came from.
        origin: Option<Origin>,
        /// Whose it is; none if that is not known.
        owner: Option<Principal>,
    },
    /// It was published.
    DelayedSent {
        /// Which.
        id: u64,
    },
}

//! One subscription whose messages a source behind the broker keeps: what of it was read, sent, acknowledged and kept.
//!
//! ```text
//!   source ─part─▶ waiting ─send─▶ under way ─PUBACK─▶ acknowledged ─record, durable─▶ kept
//!     ▲                                                                                 │ after a restart
//!     └─────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Promise: the source is read from the kept place, so nothing that was not acknowledged is passed over. At most
//! [`FEED_WINDOW`](crate::limits::FEED_WINDOW) messages are beyond the kept place, of whichever of the source's
//! partitions: so many of each may come a second time, and they say so (DUP). A partition has its own order, and the
//! source may give them in another turn when it is read again. Numbers are counted in each of them, and packet ids
//! follow from them, so a message that is sent again has the id that it had, and no other message has it meanwhile.
//!
//! Why not the inbox: what waits for a client that is away would be written twice, and bounds of inboxes drop messages.
//! The source keeps them anyway; all that a session has to keep is a place.

mod numbers;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub(crate) use numbers::Numbers;

use crate::limits::PACKET_IDS;
use crate::session::SessionRef;

/// One message of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedMessage {
    /// Of which of the source's [`feed_partitions`](crate::BrokerOptions::feed_partitions). Those of one partition
    /// always come in the same order.
    pub partition: u16,
    /// Where to read on behind it.
    pub place: Box<[u8]>,
    /// Encoded MQTT 5 properties.
    pub properties: Box<[u8]>,
    /// Its payload.
    pub payload: Box<[u8]>,
}

/// What a source says to a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedNews {
    /// The answer to one demand: some messages, perhaps none.
    Part {
        /// In their order.
        messages: Vec<FeedMessage>,
        /// Where to read on behind what was looked at.
        place: Box<[u8]>,
    },
    /// It cannot be read now: ask again later.
    Later,
    /// It cannot be read on from there. The words are for the client.
    Over {
        /// A payload.
        payload: Box<[u8]>,
    },
}

/// A message on its way.
#[derive(Debug)]
struct UnderWay {
    partition: u16,
    packet_id: u16,
    place: Box<[u8]>,
    is_acknowledged: bool,
}

/// How far a feed was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FeedPlace {
    /// Messages of each partition.
    pub numbers: Numbers,
    /// Where the source goes on behind them.
    pub place: Box<[u8]>,
}

/// Where a feed begins.
#[derive(Clone, Debug)]
pub(crate) struct FeedStart {
    pub from: FeedPlace,
    /// Messages below these numbers may have been sent before.
    pub dup_below: Numbers,
    /// Whether `from` is durable. Before it is, nothing is sent.
    pub is_durable: bool,
}

impl FeedStart {
    /// Behind a place that is durable.
    pub fn behind(from: FeedPlace) -> FeedStart {
        FeedStart { dup_below: from.numbers.sent_below(), from, is_durable: true }
    }

    /// Of which nothing was sent.
    pub fn anew(from: FeedPlace, is_durable: bool) -> FeedStart {
        FeedStart { dup_below: from.numbers.clone(), from, is_durable }
    }
}

/// How one feed is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedKind {
    /// QoS 0: from now on, for as long as the client is connected.
    Live,
    /// QoS 1: from the kept place on.
    Kept,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Feed {
    pub session: SessionRef,
    /// Whose place is kept.
    pub owner: Option<Box<str>>,
    pub filter: Box<str>,
    pub topic: Box<str>,
    pub kind: FeedKind,
    pub subscription_id: u32,
    /// Messages that were read and not sent.
    waiting: VecDeque<FeedMessage>,
    /// Those that were sent, in their order.
    under_way: VecDeque<UnderWay>,
    /// Numbers of the next messages.
    next: Numbers,
    /// Messages below these numbers may have been sent before.
    dup_below: Numbers,
    acknowledged: FeedPlace,
    /// What is durable, or will be when the record that is under way is; `None` if that is to be written in any case.
    kept: Option<FeedPlace>,
    is_keeping: bool,
    /// The numbers that are durable.
    durable: Option<Numbers>,
    /// Where to read on behind all that was read.
    read: Box<[u8]>,
    /// Whether a part is being read, or none will come any more.
    is_asked: bool,
    /// Whether none will come any more.
    pub is_over: bool,
    /// Of `Packet id = …`: where the numbers of this filter begin.
    first_id: u64,
}

impl Feed {
    /// A feed that begins there.
    pub fn new(session: SessionRef, filter: &str, kind: FeedKind, start: FeedStart) -> Feed {
        let FeedStart { from, dup_below, is_durable } = start;
        Feed {
            session,
            owner: None,
            filter: filter.into(),
            topic: Box::default(),
            kind,
            subscription_id: 0,
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
            next: from.numbers.clone(),
            dup_below,
            kept: is_durable.then(|| from.clone()),
            durable: is_durable.then(|| from.numbers.clone()),
            is_keeping: false,
            read: from.place.clone(),
            acknowledged: from,
            is_asked: false,
            is_over: false,
            first_id: spread(filter),
        }
    }

    /// The same feed over again, from what was acknowledged: it may be written down, or be about to be.
    pub fn over_again(&self) -> Feed {
        let from = self.acknowledged.clone();
        let start = FeedStart { from, dup_below: self.sent_below(), is_durable: false };
        // Written down once more, because nobody hears when what is under way is durable.
        let mut feed = Feed::new(self.session, &self.filter, self.kind, start);
        feed.owner.clone_from(&self.owner);
        feed.durable.clone_from(&self.durable);
        feed
    }

    /// Where the source is to be read from.
    pub fn read(&self) -> &[u8] {
        &self.read
    }

    /// The numbers below which messages may have been sent before, for a feed that follows this one.
    pub fn sent_below(&self) -> Numbers {
        self.dup_below.max(&self.next)
    }

    /// Whether a part is to be asked for now; it counts as asked for then.
    pub fn demands(&mut self) -> bool {
        self.waiting.is_empty() && !std::mem::replace(&mut self.is_asked, true)
    }

    /// The source was not ready: what was asked for is asked for again.
    pub fn again(&mut self) {
        assert!(self.is_asked, "what did not come was asked for");
        self.is_asked = false;
    }

    /// Takes the part that was asked for.
    pub fn take(&mut self, messages: Vec<FeedMessage>, place: Box<[u8]>) {
        assert!(self.is_asked && self.waiting.is_empty(), "a part is an answer");
        self.is_asked = false;
        self.waiting.extend(messages);
        self.read = place;
        self.pass();
    }

    /// What is to be sent next, with its packet id (0: none is needed) and whether it may have been sent before.
    pub fn front(&self) -> Option<(&FeedMessage, u16, bool)> {
        let message = self.waiting.front()?;
        if self.kind == FeedKind::Live {
            return Some((message, 0, false));
        }
        let partition = message.partition;
        let has_room = self.durable.as_ref().is_some_and(|durable| self.next.has_room(partition, durable));
        let is_dup = self.next.get(partition) < self.dup_below.get(partition);
        has_room.then(|| (message, self.next.packet_id(partition, self.first_id), is_dup))
    }

    /// What was at the front is sent; or it never can be, which counts as acknowledged.
    pub fn sent(&mut self, is_acknowledged: bool) {
        let FeedMessage { partition, place, .. } = self.waiting.pop_front().expect("what is sent was at the front");
        let packet_id = self.next.packet_id(partition, self.first_id);
        self.under_way.push_back(UnderWay { partition, packet_id, place, is_acknowledged });
        self.next.count(partition);
        if is_acknowledged {
            self.shorten();
        }
    }

    /// A PUBACK. Whether it was for a message of this feed.
    pub fn acknowledge(&mut self, packet_id: u16) -> bool {
        let Some(nth) = self.position(packet_id) else { return false };
        self.under_way[nth].is_acknowledged = true;
        self.shorten();
        true
    }

    /// Whether a message with this packet id is under way.
    pub fn uses(&self, packet_id: u16) -> bool {
        self.position(packet_id).is_some()
    }

    /// Messages that the client has not acknowledged.
    pub fn in_flight(&self) -> u32 {
        match self.kind {
            FeedKind::Live => 0,
            FeedKind::Kept => self.under_way.iter().filter(|message| !message.is_acknowledged).count() as u32,
        }
    }

    /// The place to be written down now: one record at a time.
    pub fn next_to_keep(&mut self) -> Option<FeedPlace> {
        if self.is_keeping {
            return None;
        }
        let kept = self.left_to_keep()?;
        self.is_keeping = true;
        self.kept = Some(kept.clone());
        Some(kept)
    }

    /// What was acknowledged and is not written down.
    pub fn left_to_keep(&self) -> Option<FeedPlace> {
        let is_kept = self.kept.as_ref() == Some(&self.acknowledged);
        (self.kind == FeedKind::Kept && !is_kept).then(|| self.acknowledged.clone())
    }

    /// The record is durable.
    pub fn is_durable(&mut self) {
        assert!(std::mem::replace(&mut self.is_keeping, false), "what is durable was to be");
        self.durable = self.kept.as_ref().map(|kept| kept.numbers.clone());
    }

    fn position(&self, packet_id: u16) -> Option<usize> {
        self.under_way.iter().position(|message| !message.is_acknowledged && message.packet_id == packet_id)
    }

    fn shorten(&mut self) {
        while self.under_way.front().is_some_and(|front| front.is_acknowledged) {
            let message = self.under_way.pop_front().expect("it was just looked at");
            self.acknowledged.numbers.count(message.partition);
            self.acknowledged.place = message.place;
        }
        assert!(!self.under_way.is_empty() || self.acknowledged.numbers == self.next, "all that was sent is counted");
        self.pass();
    }

    /// When nothing is left of what was read, the place is behind all of it, also behind what was of no interest.
    fn pass(&mut self) {
        if self.waiting.is_empty() && self.under_way.is_empty() && self.acknowledged.place != self.read {
            self.acknowledged.place = self.read.clone();
        }
    }

    /// Panics if counts disagree. For tests and simulation.
    pub fn assert_sound(&self) {
        let mut next = self.acknowledged.numbers.clone();
        for message in &self.under_way {
            let has_room = self.durable.as_ref().is_some_and(|durable| next.has_room(message.partition, durable));
            assert!(has_room || self.kind == FeedKind::Live, "messages beyond the place");
            next.count(message.partition);
        }
        assert_eq!(next, self.next, "messages under way");
        assert!(self.under_way.front().is_none_or(|front| !front.is_acknowledged), "what is over has left");
    }
}

/// A number for a text that is the same in every process: FNV-1a.
fn spread(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step) % PACKET_IDS
}

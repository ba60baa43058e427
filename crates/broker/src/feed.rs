//! One subscription whose messages a source behind the broker keeps: what of it was read, sent, acknowledged and kept.
//!
//! ```text
//!   source ─part─▶ waiting ─send─▶ under way ─PUBACK─▶ acknowledged ─record, durable─▶ kept
//!     ▲                                                                                 │ after a restart
//!     └─────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Promise: the source is read from the kept place, so nothing that was not acknowledged is passed over. At most
//! [`FEED_WINDOW`] messages are beyond the kept place: so many may come a second time after a crash, and they say so
//! (DUP). Packet ids follow from the numbers of messages, so a message that is sent again has the id that it had.
//!
//! Why not the inbox: what waits for a client that is away would be written twice, and bounds of inboxes drop messages.
//! The source keeps them anyway; all that a session has to keep is a place.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use tidegate_machines::topic::KeptPlace;

use crate::limits::{FEED_WINDOW, PACKET_IDS};
use crate::session::SessionRef;

/// One message of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedMessage {
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
    place: Box<[u8]>,
    is_acknowledged: bool,
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
    /// Those that were sent, the newest with the number before `next`.
    under_way: VecDeque<UnderWay>,
    /// Number of the next message.
    next: u64,
    /// Messages below this number may have been sent before.
    dup_below: u64,
    acknowledged: KeptPlace,
    /// What is durable, or will be when the record that is under way is.
    kept: KeptPlace,
    is_keeping: bool,
    /// The number that is durable.
    durable: u64,
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
    /// A feed that goes on at `from`. Messages below `dup_below` may have been sent before.
    pub fn new(session: SessionRef, filter: &str, kind: FeedKind, from: KeptPlace, dup_below: u64) -> Feed {
        Feed {
            session,
            owner: None,
            filter: filter.into(),
            topic: Box::default(),
            kind,
            subscription_id: 0,
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
            next: from.number,
            dup_below,
            kept: from.clone(),
            durable: from.number,
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
        let mut feed = Feed::new(self.session, &self.filter, self.kind, self.acknowledged.clone(), self.sent_below());
        // Written down once more, because nobody hears when what is under way is durable.
        feed.owner.clone_from(&self.owner);
        feed.kept = KeptPlace::default();
        feed.durable = self.durable;
        feed
    }

    /// Where the source is to be read from.
    pub fn read(&self) -> &[u8] {
        &self.read
    }

    /// The number below which messages may have been sent before, for a feed that follows this one.
    pub fn sent_below(&self) -> u64 {
        self.dup_below.max(self.next)
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
        match self.kind {
            FeedKind::Live => Some((message, 0, false)),
            FeedKind::Kept if self.next - self.durable >= FEED_WINDOW => None,
            FeedKind::Kept => Some((message, self.packet_id(self.next), self.next < self.dup_below)),
        }
    }

    /// What was at the front is sent; or it never can be, which counts as acknowledged.
    pub fn sent(&mut self, is_acknowledged: bool) {
        let message = self.waiting.pop_front().expect("what is sent was at the front");
        self.under_way.push_back(UnderWay { place: message.place, is_acknowledged });
        self.next += 1;
        if is_acknowledged {
            self.shorten();
        }
    }

    /// A PUBACK. Whether it was for a message of this feed.
    pub fn acknowledge(&mut self, packet_id: u16) -> bool {
        let first = self.next - self.under_way.len() as u64;
        let Some(nth) = self.position(packet_id, first) else { return false };
        self.under_way[nth].is_acknowledged = true;
        self.shorten();
        true
    }

    /// Whether a message with this packet id is under way.
    pub fn uses(&self, packet_id: u16) -> bool {
        self.position(packet_id, self.next - self.under_way.len() as u64).is_some()
    }

    /// Messages that the client has not acknowledged.
    pub fn in_flight(&self) -> u32 {
        match self.kind {
            FeedKind::Live => 0,
            FeedKind::Kept => self.under_way.iter().filter(|message| !message.is_acknowledged).count() as u32,
        }
    }

    /// The place to be written down now: one record at a time.
    pub fn next_to_keep(&mut self) -> Option<KeptPlace> {
        if self.is_keeping {
            return None;
        }
        let kept = self.left_to_keep()?;
        self.is_keeping = true;
        self.kept = kept.clone();
        Some(kept)
    }

    /// What was acknowledged and is not written down.
    pub fn left_to_keep(&self) -> Option<KeptPlace> {
        (self.kind == FeedKind::Kept && self.acknowledged != self.kept).then(|| self.acknowledged.clone())
    }

    /// The record is durable.
    pub fn is_durable(&mut self) {
        assert!(std::mem::replace(&mut self.is_keeping, false), "what is durable was to be");
        self.durable = self.kept.number;
    }

    fn position(&self, packet_id: u16, first: u64) -> Option<usize> {
        let is_it =
            |nth: &usize| !self.under_way[*nth].is_acknowledged && self.packet_id(first + *nth as u64) == packet_id;
        (0..self.under_way.len()).find(is_it)
    }

    fn shorten(&mut self) {
        while self.under_way.front().is_some_and(|front| front.is_acknowledged) {
            let message = self.under_way.pop_front().expect("it was just looked at");
            self.acknowledged = KeptPlace { number: self.acknowledged.number + 1, place: message.place };
        }
        assert!(self.acknowledged.number + self.under_way.len() as u64 == self.next, "messages leave in their order");
        self.pass();
    }

    /// When nothing is left of what was read, the place is behind all of it, also behind what was of no interest.
    fn pass(&mut self) {
        if self.waiting.is_empty() && self.under_way.is_empty() && self.acknowledged.place != self.read {
            self.acknowledged.place = self.read.clone();
        }
    }

    /// Those of feeds go down while those of inboxes go up, and each filter begins elsewhere, so that they rarely meet.
    fn packet_id(&self, number: u64) -> u16 {
        (PACKET_IDS - (self.first_id + number % PACKET_IDS) % PACKET_IDS) as u16
    }

    /// Panics if counts disagree. For tests and simulation.
    pub fn assert_sound(&self) {
        assert_eq!(self.acknowledged.number + self.under_way.len() as u64, self.next, "messages under way");
        assert!(self.next - self.durable <= FEED_WINDOW || self.kind == FeedKind::Live, "messages beyond the place");
        assert!(self.under_way.front().is_none_or(|front| !front.is_acknowledged), "what is over has left");
    }
}

/// A number for a text that is the same in every process: FNV-1a.
fn spread(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step) % PACKET_IDS
}

//! Subscriptions whose messages a source behind the broker keeps: they are read while their client is connected, from
//! the place up to which it has acknowledged them.
//!
//! ```text
//!   SUBSCRIBE ─▶ Action::FindPlace ─▶ placed ─▶ journal: subscribed, place ─▶ SUBACK ─┐
//!   CONNECT to a session that has one ────────────────────────────────────────────────┴▶ Action::Feed
//!   source ─▶ feed(Part) ─▶ window, outbox ─▶ client ─PUBACK─▶ journal: place ─▶ Action::FeedMore
//!   connection ends ─▶ Action::FeedEnd: nothing is kept in memory
//! ```
//!
//! Which filters these are, [`crate::BrokerOptions::feeds`] says by what they begin with. Nobody publishes there.

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, MessageMeta};
use tidegate_wire::mqtt::{QoS, ReasonCode, Subscribe, Subscription, split_filter};

use super::Broker;
use crate::clients::{Copy, Sending};
use crate::connection::{ParkedFor, PlaceFound};
use crate::feed::{Feed, FeedKind, FeedPlace, FeedStart, Numbers};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{FEED_LATER_MS, FEED_WINDOW, FEEDS_OF_SESSION_MAX};
use crate::message_ref::MessageRef;
use crate::place;
use crate::session::SessionRef;
use crate::shards::Wait;
use crate::{Access, Action, ConnectionKey, FeedKey, FeedNews};

/// The user property of SUBSCRIBE that says where to begin.
const AFTER: &str = "after";

/// The feeds of all connected sessions of a worker.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    feeds: HashMap<u64, Feed>,
    of_session: HashMap<SessionIndex, Vec<u64>>,
    /// Feeds whose source was not ready, and when to ask again.
    later: Vec<(TimeMs, u64)>,
    next: u64,
}

impl<L: LogStore> Broker<L> {
    /// Whether a source keeps the messages of this filter, which is given with its share group.
    pub(super) fn is_feed(&self, filter: &str) -> bool {
        let begin = &*self.options.feeds;
        !begin.is_empty() && split_filter(filter).filter.starts_with(begin)
    }

    /// Asks where a feed of this SUBSCRIBE begins, if this filter is one. True when an answer is awaited.
    pub(super) fn asks_place(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
        subscribe: &Subscribe<'_>,
        subscription: &Subscription<'_>,
    ) -> bool {
        let filter = subscription.filter;
        if !self.is_feed(filter) {
            return false;
        }
        // A session has few feeds; the filters beyond them are refused without a question.
        let known = self.clients.connections[index].extra.as_ref().map_or(0, |extra| extra.places.len());
        if known >= FEEDS_OF_SESSION_MAX || self.place_found(index, filter).is_some() {
            return false;
        }
        let parts = split_filter(filter);
        if parts.share_group.is_some() || self.access(index, place, parts.filter) != Access::Allowed {
            return false;
        }
        let after = subscribe.user().find(|(name, _)| *name == AFTER).map(|(_, value)| value.as_bytes());
        // One that goes on is asked about as well: whether there is room for it, and whether its place is still good.
        let own = self.kept_start(place, filter).filter(|_| after.is_none()).map(|start| start.from.place);
        let asks_own_place = own.is_some();
        let after = after.map(Into::into).or(own);
        let rights = self.rights_of(index).clone();
        let key = self.clients.key(index);
        self.asked.actions.push(Action::FindPlace { key, filter: filter.into(), after, rights });
        let connection = &mut self.clients.connections[index];
        connection.extra().asks_own_place = asks_own_place;
        connection.park(ParkedFor::FeedPlace);
        true
    }

    /// The answer to [`Action::FindPlace`]: where the feed begins, or what the filter is refused with.
    pub fn placed(&mut self, key: ConnectionKey, filter: &str, found: Result<Box<[u8]>, ReasonCode>, now: TimeMs) {
        let Some(index) = self.clients.index(key) else { return };
        let connection = &mut self.clients.connections[index];
        if !connection.unpark(ParkedFor::FeedPlace) {
            return;
        }
        assert!(found.as_ref().err().is_none_or(|code| code.is_error()), "a refusal is one");
        let extra = connection.extra();
        let is_own = std::mem::take(&mut extra.asks_own_place);
        let is_refused = found.is_err();
        extra.places.push((filter.into(), found.map(|place| (!is_own).then_some(place))));
        let feed = self.feed_of(self.clients.session_of(index), filter).filter(|_| is_refused);
        if let Some(feed) = feed.and_then(|key| self.asked.feeds.feeds.get_mut(&key)) {
            // Whoever subscribes once more begins it anew.
            feed.is_over = true;
        }
        self.resume(index, now);
    }

    /// What a filter of a feed is granted: a QoS, or why not. A session that ends with its connection has nothing to be
    /// kept, so it gets QoS 0; QoS 2 would need more than a place. `new` feeds were granted before it.
    pub(super) fn judge_feed(
        &self,
        index: ConnectionIndex,
        place: SessionIndex,
        subscription: &Subscription<'_>,
        new: usize,
    ) -> ReasonCode {
        if split_filter(subscription.filter).share_group.is_some() {
            return ReasonCode::SHARED_SUBSCRIPTIONS_NOT_SUPPORTED;
        }
        if self.other_feeds(place, subscription.filter) + new >= FEEDS_OF_SESSION_MAX {
            return ReasonCode::QUOTA_EXCEEDED;
        }
        match self.place_found(index, subscription.filter) {
            Some(Err(code)) => *code,
            // It was not asked about: others of the same SUBSCRIBE were.
            None => ReasonCode::QUOTA_EXCEEDED,
            _ if self.clients.sessions[place].slot.is_none() => ReasonCode::SUCCESS,
            _ => ReasonCode((subscription.qos as u8).min(QoS::AtLeastOnce as u8)),
        }
    }

    /// How many feeds a connected session has besides the one of this filter. Counted among those that are open, of
    /// which there are few: a SUBSCRIBE asks for each of its filters.
    fn other_feeds(&self, place: SessionIndex, filter: &str) -> usize {
        let keys = self.asked.feeds.of_session.get(&place).map_or(&[][..], Vec::as_slice);
        keys.iter().filter(|key| *self.asked.feeds.feeds[*key].filter != *filter).count()
    }

    pub(super) fn place_found(&self, index: ConnectionIndex, filter: &str) -> Option<&PlaceFound> {
        let places = &self.clients.connections[index].extra.as_ref()?.places;
        places.iter().find(|(known, _)| **known == *filter).map(|(_, found)| found)
    }

    /// Writes down where a feed of a durable session begins, unless it goes on at the place that it has. Whether SUBACK
    /// has to wait for that as well.
    pub(super) fn keep_first_place(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
        filter: &str,
        nth: u32,
    ) -> bool {
        let Some(Ok(Some(found))) = self.place_found(index, filter) else { return false };
        // Numbers go on, so that a PUBACK for what was sent before is not taken for another message's.
        let first = FeedPlace { numbers: self.sent_below(place, filter), place: found.clone() };
        let kept = place::kept(self.user_of(index), &first);
        // What this one has not written down yet must not come behind.
        self.end_feed(place, filter);
        let session = &self.clients.sessions[place];
        let (shard, slot) = (session.shard, session.slot.expect("only a durable session keeps a place"));
        let session = self.clients.session_ref(place);
        self.shards.call(
            shard,
            Command::KeepPlace { slot, filter: filter.into(), kept },
            Wait::FirstPlace { session, nth },
        );
        true
    }

    /// The filters of a session's feeds.
    fn feed_filters(&self, place: SessionIndex) -> Vec<Box<str>> {
        if self.options.feeds.is_empty() {
            return Vec::new();
        }
        let nodes = self.clients.sessions[place].subscriptions.as_slice();
        let filters = nodes.iter().map(|node| self.subscriptions.filter(*node));
        filters.filter(|filter| self.is_feed(filter)).map(Into::into).collect()
    }

    /// Where a feed of a durable session goes on.
    fn kept_start(&self, place: SessionIndex, filter: &str) -> Option<FeedStart> {
        let session = &self.clients.sessions[place];
        let state = self.shards.state(session.shard);
        let kept = state.kept_place(session.slot?, filter)?;
        let partitions = self.options.feed_partitions;
        Some(match place::of_source(kept, partitions) {
            Ok(place) => FeedStart::behind(place),
            // Nobody knows which messages were sent: they are sent as new ones, with ids that those did not have.
            Err(place) => {
                let numbers = Numbers::all(partitions, kept.number + FEED_WINDOW);
                let from = FeedPlace { numbers, place: place.into() };
                FeedStart::anew(from, false)
            }
        })
    }

    /// Whether a session has the place of somebody else than the user of a connection. That user may not have it: what
    /// it reads or gives up there would be missing to the other.
    pub(super) fn is_of_another(&self, place: SessionIndex, index: ConnectionIndex) -> bool {
        let session = &self.clients.sessions[place];
        let Some(slot) = session.slot else { return false };
        let (state, user) = (self.shards.state(session.shard), self.user_of(index));
        self.feed_filters(place).iter().any(|filter| {
            let owner = state.kept_place(slot, filter).and_then(place::owner);
            owner.is_some_and(|owner| user != Some(owner))
        })
    }

    /// The user of a connection, if it has one.
    fn user_of(&self, index: ConnectionIndex) -> Option<&str> {
        self.rights_of(index).user()
    }

    /// The numbers below which messages of a feed may have been sent before.
    fn sent_below(&self, place: SessionIndex, filter: &str) -> Numbers {
        if let Some(key) = self.feed_of(place, filter) {
            return self.asked.feeds.feeds[&key].sent_below();
        }
        let kept = self.kept_start(place, filter);
        kept.map_or_else(|| Numbers::all(self.options.feed_partitions, 0), |start| start.dup_below)
    }

    fn feed_of(&self, place: SessionIndex, filter: &str) -> Option<u64> {
        let keys = self.asked.feeds.of_session.get(&place)?;
        keys.iter().copied().find(|key| *self.asked.feeds.feeds[key].filter == *filter)
    }

    /// A SUBSCRIBE was granted: its feed begins, or goes on as it now says.
    pub(super) fn feed_subscribed(&mut self, index: ConnectionIndex, place: SessionIndex, filter: &str) {
        let found = self.place_found(index, filter).and_then(|found| found.clone().ok()).flatten();
        if found.is_some() || !self.goes_on(place, filter) {
            self.open_feed(place, filter, found);
        }
    }

    /// Whether the feed of a filter is open and goes on as it is when its client subscribes again, which many clients
    /// do whenever they connect. Begun anew it would send again what is under way, and the PUBACKs for that, which the
    /// client has perhaps sent already, would be for nothing: a client that stays for a moment would never get on.
    fn goes_on(&mut self, place: SessionIndex, filter: &str) -> bool {
        let Some(entry) = self.entry_of(place, filter) else { return false };
        let is_kept = entry.options.qos() > 0 && self.clients.sessions[place].slot.is_some();
        let Some(key) = self.feed_of(place, filter).filter(|_| is_kept) else { return false };
        let feed = self.asked.feeds.feeds.get_mut(&key).expect("a feed of a session is there");
        let goes_on = feed.kind == FeedKind::Kept && !feed.is_over;
        if goes_on {
            feed.subscription_id = entry.subscription_id;
        }
        goes_on
    }

    /// The client of a session is there, or has other rights: all its feeds begin from their places.
    pub(super) fn open_feeds(&mut self, place: SessionIndex) {
        for filter in self.feed_filters(place) {
            self.open_feed(place, &filter, None);
        }
    }

    /// Opens a feed: at its kept place if it has one, else at the one that was found for it just now, else at what
    /// comes from now on.
    fn open_feed(&mut self, place: SessionIndex, filter: &str, found: Option<Box<[u8]>>) {
        let Some(index) = self.clients.sessions[place].connection else { return };
        let Some(entry) = self.entry_of(place, filter) else { return };
        let before = self.feed_of(place, filter).map(|key| &self.asked.feeds.feeds[&key]);
        let before = before.filter(|feed| feed.kind == FeedKind::Kept).map(Feed::over_again);
        self.end_feed(place, filter);
        let is_kept = entry.options.qos() > 0 && self.clients.sessions[place].slot.is_some();
        let kind = if is_kept { FeedKind::Kept } else { FeedKind::Live };
        let session = self.clients.session_ref(place);
        let mut feed = before.filter(|_| is_kept).unwrap_or_else(|| {
            let kept = self.kept_start(place, filter).filter(|_| is_kept);
            Feed::new(session, filter, kind, self.feed_start(kept, found))
        });
        feed.subscription_id = entry.subscription_id;
        feed.owner = self.user_of(index).map(Into::into);
        let asked = feed.demands();
        assert!(asked, "a new feed has nothing");
        self.asked.feeds.next += 1;
        let number = self.asked.feeds.next;
        let after = feed.read().into();
        self.asked.feeds.feeds.insert(number, feed);
        self.asked.feeds.of_session.entry(place).or_default().push(number);
        self.clients.facts.feeds += 1;
        let rights = self.rights_of(index).clone();
        let key = self.clients.key(index);
        self.asked.actions.push(Action::Feed { feed: FeedKey(number), key, filter: filter.into(), after, rights });
    }

    /// Where a feed without a predecessor begins: at its kept place, or at the one that was found for it just now. If
    /// one is kept, that is the kept one by now.
    fn feed_start(&self, kept: Option<FeedStart>, found: Option<Box<[u8]>>) -> FeedStart {
        match (kept, found) {
            (Some(kept), None) => kept,
            // Numbers from a place that was found just now were never used.
            (Some(kept), Some(_)) => FeedStart::anew(kept.from, kept.is_durable),
            (None, found) => {
                let numbers = Numbers::all(self.options.feed_partitions, 0);
                FeedStart::anew(FeedPlace { numbers, place: found.unwrap_or_default() }, true)
            }
        }
    }

    /// The subscription is gone, or its client is. What the client has acknowledged is written down.
    pub(super) fn end_feed(&mut self, place: SessionIndex, filter: &str) {
        let Some(key) = self.feed_of(place, filter) else { return };
        let keys = self.asked.feeds.of_session.get_mut(&place).expect("it was just looked at");
        keys.retain(|other| *other != key);
        if keys.is_empty() {
            self.asked.feeds.of_session.remove(&place);
        }
        let feed = self.asked.feeds.feeds.remove(&key).expect("a feed of a session is there");
        self.asked.feeds.later.retain(|(_, other)| *other != key);
        assert!(self.clients.facts.feeds > 0, "what ends was counted");
        self.clients.facts.feeds -= 1;
        self.asked.actions.push(Action::FeedEnd { feed: FeedKey(key) });
        let session = &self.clients.sessions[place];
        if let (Some(kept), Some(slot)) = (feed.left_to_keep(), session.slot) {
            let kept = place::kept(feed.owner.as_deref(), &kept);
            self.shards.call(session.shard, Command::KeepPlace { slot, filter: feed.filter, kept }, Wait::Nothing);
        }
    }

    /// The client of a session is gone.
    pub(super) fn end_feeds(&mut self, place: SessionIndex) {
        let Some(keys) = self.asked.feeds.of_session.get(&place) else { return };
        let filters: Vec<Box<str>> = keys.iter().map(|key| self.asked.feeds.feeds[key].filter.clone()).collect();
        filters.iter().for_each(|filter| self.end_feed(place, filter));
    }

    /// What a source says. Of a feed that has ended it is ignored.
    pub fn feed(&mut self, key: FeedKey, topic: &str, news: FeedNews, now: TimeMs) {
        let Some(feed) = self.asked.feeds.feeds.get_mut(&key.0) else { return };
        let Some(place) = self.clients.session(feed.session) else { return };
        if *feed.topic != *topic {
            feed.topic = topic.into();
        }
        match news {
            FeedNews::Part { messages, place: read } => feed.take(messages, read),
            FeedNews::Later => self.asked.feeds.later.push((TimeMs(now.0 + FEED_LATER_MS), key.0)),
            // It stays asked, so nothing more is read; what was sent is still acknowledged.
            FeedNews::Over { payload } => {
                feed.is_over = true;
                let meta = MessageMeta { qos: 0, retain: false, expires_at: None };
                let message_ref = MessageRef::new(topic, &[], &payload, meta);
                let copy = Copy { qos: 0, retain: false, subscription_ids: &[], of_group: None };
                let index = self.clients.sessions[place].connection.expect("feeds end with their connection");
                self.clients.begin_message();
                self.clients.publish(index, &message_ref, copy, false, 0, now);
            }
        }
        self.pump_feeds(place, now);
    }

    /// Asks sources again that were not ready.
    pub(super) fn step_feeds(&mut self, now: TimeMs) {
        let due: Vec<u64> = self.asked.feeds.later.iter().filter(|(at, _)| *at <= now).map(|(_, key)| *key).collect();
        if due.is_empty() {
            return;
        }
        self.asked.feeds.later.retain(|(at, _)| *at > now);
        for key in due {
            let feed = self.asked.feeds.feeds.get_mut(&key).expect("a feed that has ended is not asked for again");
            feed.again();
            let (filter, after, session) = (feed.filter.clone(), feed.read().into(), feed.session);
            let demands = feed.demands();
            let place = self.clients.session(session).expect("a feed ends with its session");
            let index = self.clients.sessions[place].connection.expect("feeds end with their connection");
            let rights = self.rights_of(index).clone();
            if demands {
                let (feed, key) = (FeedKey(key), self.clients.key(index));
                self.asked.actions.push(Action::Feed { feed, key, filter, after, rights });
            }
        }
    }

    /// Messages of feeds that a session's client has not acknowledged: they share its Receive Maximum.
    pub(super) fn feeds_in_flight(&self, place: SessionIndex) -> u16 {
        if self.asked.feeds.of_session.is_empty() {
            return 0;
        }
        let keys = self.asked.feeds.of_session.get(&place).map_or(&[][..], Vec::as_slice);
        let in_flight: u32 = keys.iter().map(|key| self.asked.feeds.feeds[key].in_flight()).sum();
        in_flight as u16
    }

    /// Whether a message of a session's feed has this packet id.
    pub(super) fn is_id_of_feed(&self, place: SessionIndex, packet_id: u16) -> bool {
        let keys = self.asked.feeds.of_session.get(&place).map_or(&[][..], Vec::as_slice);
        keys.iter().any(|key| self.asked.feeds.feeds[key].uses(packet_id))
    }

    /// Whether a session has feeds.
    pub(super) fn has_feeds(&self, place: SessionIndex) -> bool {
        self.asked.feeds.of_session.contains_key(&place)
    }

    /// A PUBACK that is none for the inbox. Whether it was for a feed.
    pub(super) fn feed_acknowledged(&mut self, place: SessionIndex, packet_id: u16) -> bool {
        let Feeds { feeds, of_session, .. } = &mut self.asked.feeds;
        let keys = of_session.get(&place).map_or(&[][..], Vec::as_slice);
        keys.iter().any(|key| feeds.get_mut(key).is_some_and(|feed| feed.acknowledge(packet_id)))
    }

    /// A feed's place is durable.
    pub(super) fn place_kept(&mut self, feed: u64, session: SessionRef, now: TimeMs) {
        let Some(known) = self.asked.feeds.feeds.get_mut(&feed) else { return };
        known.is_durable();
        if let Some(place) = self.clients.session(session) {
            self.pump_feeds(place, now);
        }
    }

    /// Sends what waits in a session's feeds as far as its window and its outbox go, writes down what was acknowledged,
    /// and asks for more where nothing waits.
    pub(super) fn pump_feeds(&mut self, place: SessionIndex, now: TimeMs) {
        let Some(keys) = self.asked.feeds.of_session.get(&place).cloned() else { return };
        let Some(index) = self.clients.connected(place) else { return };
        for key in keys {
            self.send_feed(place, index, key, now);
            let feed = self.asked.feeds.feeds.get_mut(&key).expect("sending ends no feed");
            let (filter, owner, session) = (feed.filter.clone(), feed.owner.clone(), feed.session);
            let (kept, demands) = (feed.next_to_keep(), feed.demands());
            if demands {
                self.asked.actions.push(Action::FeedMore { feed: FeedKey(key) });
            }
            let of = &self.clients.sessions[place];
            if let (Some(kept), Some(slot)) = (kept, of.slot) {
                let kept = place::kept(owner.as_deref(), &kept);
                let wait = Wait::PlaceKept { feed: key, session };
                self.shards.call(of.shard, Command::KeepPlace { slot, filter, kept }, wait);
            }
        }
    }

    fn send_feed(&mut self, place: SessionIndex, index: ConnectionIndex, key: u64, now: TimeMs) {
        let window_max = u32::from(self.clients.connections[index].window_max);
        loop {
            let feed = &self.asked.feeds.feeds[&key];
            let Some((message, packet_id, dup)) = feed.front() else { return };
            if packet_id > 0 {
                let window = self.clients.sessions[place].flow.as_ref().map(|flow| &flow.window);
                let in_flight = window.map_or(0, |window| window.in_flight()) + u32::from(self.beside_window(place));
                // [MQTT-2.2.1-4]: a packet id chosen by the server is not 0 and not in use.
                let is_used = window.is_some_and(|window| window.find(packet_id).is_some());
                if in_flight >= window_max || is_used || self.is_id_of_source(place, packet_id) {
                    return;
                }
            }
            let qos = u8::from(packet_id > 0);
            let meta = MessageMeta { qos, retain: false, expires_at: None };
            let message_ref = MessageRef::new(&feed.topic, &message.properties, &message.payload, meta);
            if !self.clients.outbox_has_room(index, message_ref.packet_bytes()) {
                return self.clients.hold_back(place, index);
            }
            let ids = [feed.subscription_id];
            let subscription_ids = if feed.subscription_id == 0 { &[][..] } else { &ids[..] };
            let copy = Copy { qos, retain: false, subscription_ids, of_group: None };
            self.clients.begin_message();
            // [MQTT-3.1.2-25]: a message that is too large for a client counts as delivered.
            let sending = self.clients.publish(index, &message_ref, copy, dup, packet_id, now);
            let feed = self.asked.feeds.feeds.get_mut(&key).expect("it was just looked at");
            feed.sent(qos == 0 || sending == Sending::TooLarge);
        }
    }

    /// Panics, saying what disagrees. For tests and simulation.
    pub(super) fn assert_feeds_sound(&self) {
        assert_eq!(self.asked.feeds.feeds.len() as u64, self.clients.facts.feeds, "feeds");
        let listed: usize = self.asked.feeds.of_session.values().map(Vec::len).sum();
        assert_eq!(listed, self.asked.feeds.feeds.len(), "each feed is its session's");
        for (place, keys) in &self.asked.feeds.of_session {
            assert!(!keys.is_empty() && keys.len() <= FEEDS_OF_SESSION_MAX, "feeds of session {place}");
            assert!(self.clients.sessions[*place].connection.is_some(), "feeds end with their connection");
            for key in keys {
                let feed = &self.asked.feeds.feeds[key];
                feed.assert_sound();
                assert_eq!(self.clients.session(feed.session), Some(*place), "the session of feed {key}");
                assert!(self.entry_of(*place, &feed.filter).is_some(), "the subscription of feed {key}");
            }
        }
        let waits = |(_, key): &(TimeMs, u64)| self.asked.feeds.feeds.contains_key(key);
        assert!(self.asked.feeds.later.iter().all(waits), "what is asked for again is there");
    }
}

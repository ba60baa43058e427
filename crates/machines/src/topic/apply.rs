//! Applies events: the only place that writes. The same code runs live and in replay; replay first checks that an event
//! fits the state.

use std::hash::BuildHasher;
use std::sync::Arc;

use super::command::{DropReason, KeptPlace, Origin, PLACE_BYTES_MAX, Receiver, Slot, Will};
use super::decide::evictable;
use super::event::Event;
use super::message::Message;
use super::principal::Principal;
use super::state::{Body, Kept, KeptWill, Session, Subscription, Timer, Topics};
use crate::inboxes::{Entry, EntryState, Inbox};
use crate::{Machine, TimeMs};

/// Why a record cannot follow what came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// It does not come after the newest one.
    #[error("record {found} comes after record {newest}")]
    OutOfOrder {
        /// Its sequence.
        found: u64,
        /// Sequence of the newest one applied.
        newest: u64,
    },
    /// It opens a session in another slot than the next one.
    #[error("a session opens in slot {found}, but the next one is {next}")]
    WrongSlot {
        /// Slot of the event.
        found: u32,
        /// Slot that comes next.
        next: u32,
    },
    /// It opens a second session of one client id.
    #[error("client id has a session already")]
    SessionExists,
    /// It is about a session that is not there.
    #[error("no session in slot {0}")]
    NoSession(u32),
    /// It is about an entry that does not wait.
    #[error("entry {0} does not wait")]
    NoEntry(u64),
    /// It removes what is not there, or adds what is.
    #[error("{0}")]
    Unfounded(&'static str),
}

impl Topics {
    /// Applies an event that fits. `sequence` is the number of its record.
    pub(super) fn fold(&mut self, event: &Event, sequence: u64) {
        assert!(sequence > self.sequence, "record {sequence} comes after record {}", self.sequence);
        self.sequence = sequence;
        self.time = self.time.max(Topics::decided_at(event).unwrap_or(TimeMs(0)));
        match event {
            Event::SessionOpened { slot, client_id, owner, expiry_s, will, .. } => {
                self.open(*slot, client_id, owner.clone(), *expiry_s, will.clone(), sequence);
            }
            Event::SessionAttached { slot, owner, expiry_s, will, names_will, .. } => self.change(*slot, |session| {
                session.detached_at = None;
                session.owner = session.owner.take().or_else(|| owner.clone());
                session.expiry_s = *expiry_s;
                let record = if *names_will { sequence } else { session.incarnation };
                session.will = will.clone().map(|will| Box::new(KeptWill { will, record }));
            }),
            Event::SessionDetached { slot, at, expiry_s, keep_will } => self.change(*slot, |session| {
                session.detached_at = Some(*at);
                session.expiry_s = *expiry_s;
                session.will.take_if(|_| !keep_will);
            }),
            Event::WillCleared { slot } => self.change(*slot, |session| session.will = None),
            Event::SessionEnded { slot } => self.end(*slot),
            Event::Subscribed { slot, filter, options, subscription_id } => {
                let subscription =
                    Subscription { filter: filter.clone(), options: *options, subscription_id: *subscription_id };
                self.subscribe(*slot, subscription);
            }
            Event::Unsubscribed { slot, filter } => {
                let session = self.session_mut(*slot);
                let place = session.subscription(filter).expect("an event removes a subscription that is there");
                session.subscriptions.remove(place);
                session.subscriptions.shrink_to_fit();
                take(&mut self.counts.subscriptions, 1);
                self.forget_place(*slot, filter);
            }
            Event::PlaceKept { slot, filter, kept } => self.keep_place(*slot, filter, kept.clone()),
            Event::Published { message, drop_at, origin, receivers, evicted, dropped, .. } => {
                self.remember(*origin);
                self.counts.dropped_full += u64::from(*dropped);
                if let Some(message) = message {
                    self.publish(message, *drop_at, receivers, evicted, sequence);
                }
            }
            Event::Acknowledged { slot, number } => self.remove(*slot, *number),
            Event::Received { slot, number } => {
                self.forget_drop(*slot, *number);
                let is_marked = self.session_mut(*slot).inbox.mark_received(*number, sequence);
                assert!(is_marked, "entry {number} is received once");
            }
            Event::Dropped { slot, number, reason } => {
                self.remove(*slot, *number);
                match reason {
                    DropReason::Expired => self.counts.dropped_expired += 1,
                    DropReason::Aged => self.counts.dropped_aged += 1,
                }
            }
            Event::OriginForgotten(origin) => {
                let parts: Vec<_> = self.origins.range(origin.parts()).copied().collect();
                assert!(!parts.is_empty(), "an origin is forgotten that was not known");
                self.forget(&parts);
            }
            Event::OriginsForgotten { shard, incarnation } => {
                let all: Vec<_> = self.origins_of(*shard, *incarnation).collect();
                self.forget(&all);
            }
            Event::Retained { message, owner } => self.retain(message, owner.clone()),
            Event::Delayed { at, message, origin, owner } => {
                self.remember(*origin);
                let kept = Kept { message: Arc::clone(message), owner: owner.clone() };
                let before = self.delayed.insert(sequence, (*at, kept));
                assert!(before.is_none(), "one record delays one message");
                self.set_timer(*at, Timer::Delayed(sequence));
            }
            Event::DelayedSent { id } => {
                let (at, _) = self.delayed.remove(id).expect("a delayed message is sent once");
                self.clear_timer(at, Timer::Delayed(*id));
            }
        }
    }

    /// The origin is known from now on.
    fn remember(&mut self, origin: Option<Origin>) {
        if let Some(origin) = origin {
            let is_new = self.origins.insert(origin);
            assert!(is_new, "a message is taken once");
        }
    }

    fn forget(&mut self, origins: &[Origin]) {
        for origin in origins {
            let is_known = self.origins.remove(origin);
            assert!(is_known, "an origin was just looked at");
        }
    }

    /// Whether an event can be the next, at this place.
    pub(super) fn check(&self, event: &Event, sequence: u64) -> Result<(), Mismatch> {
        if sequence <= self.sequence {
            return Err(Mismatch::OutOfOrder { found: sequence, newest: self.sequence });
        }
        let must = |holds: bool, what| if holds { Ok(()) } else { Err(Mismatch::Unfounded(what)) };
        let session = |slot: Slot| self.session(slot).ok_or(Mismatch::NoSession(slot.0));
        match event {
            Event::SessionOpened { slot, client_id, .. } => {
                let next = self.next_slot();
                if *slot != next {
                    return Err(Mismatch::WrongSlot { found: slot.0, next: next.0 });
                }
                if self.find(client_id).is_some() { Err(Mismatch::SessionExists) } else { Ok(()) }
            }
            Event::SessionAttached { slot, owner, will, names_will, .. } => {
                must(!names_will || will.is_some(), "a will is named that is not there")?;
                must(owner.is_none() || session(*slot)?.owner.is_none(), "the session has an owner")?;
                session(*slot).map(drop)
            }
            Event::SessionDetached { slot, .. } | Event::SessionEnded { slot } | Event::Subscribed { slot, .. } => {
                session(*slot).map(drop)
            }
            Event::WillCleared { slot } => must(session(*slot)?.will.is_some(), "the session has no will"),
            Event::Unsubscribed { slot, filter } | Event::PlaceKept { slot, filter, .. } => {
                must(session(*slot)?.subscription(filter).is_ok(), "the session has no such subscription")
            }
            Event::Published { message, receivers, evicted, origin, .. } => {
                must(!origin.is_some_and(|origin| self.origins.contains(&origin)), "the message was taken before")?;
                must(evicted.len() <= receivers.len(), "more make room than receive")?;
                must(message.is_some() != receivers.is_empty(), "a message goes with those who receive it")?;
                for (index, receiver) in receivers.iter().enumerate() {
                    // Two copies for one inbox: the second may need the room of the first.
                    let waits = session(receiver.slot)?.inbox.len() as u64 + index as u64;
                    let makes_room = evicted.get(index).copied().unwrap_or(0);
                    must(u64::from(makes_room) <= waits, "more make room than wait")?;
                }
                Ok(())
            }
            Event::Received { slot, number } => {
                let entry = session(*slot)?.inbox.entry(*number).ok_or(Mismatch::NoEntry(*number))?;
                must(entry.state == EntryState::Queued, "the entry was received before")
            }
            Event::Acknowledged { slot, number } | Event::Dropped { slot, number, .. } => {
                session(*slot)?.inbox.entry(*number).map(drop).ok_or(Mismatch::NoEntry(*number))
            }
            Event::OriginForgotten(origin) => must(self.knows_origin(*origin), "the origin is not known"),
            Event::DelayedSent { id } => must(self.delayed.contains_key(id), "there is no such delayed message"),
            Event::Delayed { origin, .. } => {
                must(!origin.is_some_and(|origin| self.origins.contains(&origin)), "the message was taken before")
            }
            Event::OriginsForgotten { .. } | Event::Retained { .. } => Ok(()),
        }
    }

    fn open(
        &mut self,
        slot: Slot,
        client_id: &str,
        owner: Option<Principal>,
        expiry_s: u32,
        will: Option<Will>,
        sequence: u64,
    ) {
        let session = Session {
            client_id: client_id.into(),
            owner,
            incarnation: sequence,
            expiry_s,
            detached_at: None,
            will: will.map(|will| Box::new(KeptWill { will, record: sequence })),
            subscriptions: Vec::new(),
            inbox: Inbox::default(),
        };
        self.place(slot, session);
        self.assert_slots_counted();
    }

    /// Puts a session where there is none; a slot in use again leaves the list of free ones.
    pub(super) fn place(&mut self, slot: Slot, session: Session) {
        assert!(session.incarnation <= self.sequence, "a session was opened by a record that is to come");
        let hash = self.hash(&session.client_id);
        if self.free.front() == Some(&slot) {
            self.free.pop_front();
            let before = self.sessions[slot.0].replace(session);
            assert!(before.is_none(), "a slot that is free has a session");
        } else {
            assert!(slot.0 == self.sessions.len(), "a session opens in slot {} of {}", slot.0, self.sessions.len());
            self.sessions.push(Some(session));
        }
        let (sessions, hasher) = (&self.sessions, &self.hasher);
        let client_id = |slot: &Slot| &*sessions[slot.0].as_ref().expect("a session that is found by its id").client_id;
        self.by_client_id.insert_unique(hash, slot, |slot| hasher.hash_one(client_id(slot).as_bytes()));
        self.counts.sessions += 1;
        assert!(self.by_client_id.len() as u64 == self.counts.sessions, "every session is found by its client id");
    }

    /// Each slot has a session or is free.
    pub(super) fn assert_slots_counted(&self) {
        let slots = self.counts.sessions + self.free.len() as u64;
        assert!(slots == u64::from(self.sessions.len()), "a slot has no session and is not free");
    }

    fn end(&mut self, slot: Slot) {
        self.change(slot, |session| session.detached_at = None);
        let mut session = self.sessions[slot.0].take().expect("the session was just looked at");
        let hash = self.hash(&session.client_id);
        let found = self.by_client_id.find_entry(hash, |other| *other == slot);
        found.expect("every session is found by its client id").remove();
        for (number, entry) in session.inbox.entries_from(0) {
            let drop_at = self.bodies.get(entry.body).drop_at;
            if drop_at != TimeMs(0) && entry.state == EntryState::Queued {
                let is_set = self.timers.remove(&(drop_at, Timer::Entry(slot, number)));
                assert!(is_set, "entry {number} has a timer while it waits");
            }
        }
        take(&mut self.counts.sessions, 1);
        take(&mut self.counts.subscriptions, session.subscriptions.len() as u64);
        take(&mut self.counts.inbox_messages, session.inbox.len() as u64);
        self.places.remove(&slot);
        session.inbox.clear(&mut self.bodies);
        assert!(session.inbox.is_empty(), "an inbox ends with its session");
        self.free.push_back(slot);
        self.assert_slots_counted();
    }

    /// Changes a session, and its timers with it.
    fn change(&mut self, slot: Slot, change: impl FnOnce(&mut Session)) {
        let session = self.sessions[slot.0].as_mut().expect("an event is about a session that is there");
        let before = (session.will_at(), session.ends_at());
        change(session);
        let after = (session.will_at(), session.ends_at());
        self.reset_timer(before.0, after.0, Timer::Will(slot));
        self.reset_timer(before.1, after.1, Timer::SessionEnd(slot));
    }

    fn reset_timer(&mut self, before: Option<TimeMs>, after: Option<TimeMs>, timer: Timer) {
        if before != after {
            if let Some(at) = before {
                self.clear_timer(at, timer);
            }
            if let Some(at) = after {
                self.set_timer(at, timer);
            }
        }
    }

    fn set_timer(&mut self, at: TimeMs, timer: Timer) {
        let is_new = self.timers.insert((at, timer));
        assert!(is_new, "a timer is set twice");
    }

    fn clear_timer(&mut self, at: TimeMs, timer: Timer) {
        let is_set = self.timers.remove(&(at, timer));
        assert!(is_set, "a timer is cleared that is not set");
    }

    pub(super) fn subscribe(&mut self, slot: Slot, subscription: Subscription) {
        let session = self.session_mut(slot);
        match session.subscription(&subscription.filter) {
            Ok(place) => session.subscriptions[place] = subscription,
            Err(place) => {
                // Most sessions have one or two, and there are millions of them.
                if session.subscriptions.len() < 4 {
                    session.subscriptions.reserve_exact(1);
                }
                session.subscriptions.insert(place, subscription);
                let around =
                    &session.subscriptions[place.saturating_sub(1)..(place + 2).min(session.subscriptions.len())];
                let is_sorted = around.is_sorted_by(|one, next| one.filter < next.filter);
                assert!(is_sorted, "subscriptions stand in the order of their filters");
                self.counts.subscriptions += 1;
            }
        }
    }

    pub(super) fn keep_place(&mut self, slot: Slot, filter: &str, kept: KeptPlace) {
        assert!(self.session_mut(slot).subscription(filter).is_ok(), "a place is kept for a subscription");
        assert!(kept.place.len() <= PLACE_BYTES_MAX, "a place of {} bytes", kept.place.len());
        self.places.entry(slot).or_default().insert(filter.into(), kept);
    }

    fn forget_place(&mut self, slot: Slot, filter: &str) {
        if let Some(places) = self.places.get_mut(&slot) {
            places.remove(filter);
            if places.is_empty() {
                self.places.remove(&slot);
            }
        }
    }

    fn publish(
        &mut self,
        message: &Arc<Message>,
        drop_at: TimeMs,
        receivers: &[Receiver],
        evicted: &[u32],
        sequence: u64,
    ) {
        assert!(evicted.len() <= receivers.len(), "more make room than receive");
        let bytes = u32::try_from(message.body_bytes()).expect("a message fits a record");
        let body = self.bodies.put(Body { message: Arc::clone(message), drop_at }, bytes, receivers.len() as u32);
        for (index, receiver) in receivers.iter().enumerate() {
            let slot = receiver.slot;
            self.evict(slot, evicted.get(index).copied().unwrap_or(0));
            let ids = &receiver.subscription_ids;
            let entry = Entry {
                sequence,
                subscription_ids: (!ids.is_empty()).then(|| Box::new(ids.to_vec())),
                body,
                qos: receiver.qos,
                retain: receiver.retain,
                state: EntryState::Queued,
                expires: drop_at != TimeMs(0),
            };
            let number = self.session_mut(slot).inbox.push(entry, bytes);
            self.counts.inbox_messages += 1;
            if drop_at != TimeMs(0) {
                self.set_timer(drop_at, Timer::Entry(slot, number));
            }
        }
        let counted = self.counts.inbox_messages;
        assert!(counted >= self.bodies.len() as u64, "a body waits in no inbox");
    }

    /// The oldest entries make room: fewer than `count` where another copy of the message came to this inbox first, and
    /// took the room that both were decided to need.
    fn evict(&mut self, slot: Slot, count: u32) {
        if count > 0 {
            let inbox = &self.session_mut(slot).inbox;
            let oldest: Vec<u64> = evictable(inbox).take(count as usize).map(|(number, _)| number).collect();
            oldest.iter().for_each(|number| self.remove(slot, *number));
            self.counts.evicted += oldest.len() as u64;
        }
    }

    fn remove(&mut self, slot: Slot, number: u64) {
        self.forget_drop(slot, number);
        let session = self.sessions[slot.0].as_mut().expect("an event is about a session that is there");
        let is_gone = session.inbox.remove(number, &mut self.bodies);
        assert!(is_gone, "entry {number} leaves once");
        take(&mut self.counts.inbox_messages, 1);
    }

    /// The entry does not expire any more.
    fn forget_drop(&mut self, slot: Slot, number: u64) {
        if self.timers.is_empty() {
            return;
        }
        let entry = self.session(slot).and_then(|session| session.inbox.entry(number));
        let waiting = entry.filter(|entry| entry.state == EntryState::Queued);
        let drop_at = waiting.map_or(TimeMs(0), |entry| self.bodies.get(entry.body).drop_at);
        if drop_at != TimeMs(0) {
            self.clear_timer(drop_at, Timer::Entry(slot, number));
        }
    }

    fn retain(&mut self, message: &Arc<Message>, owner: Option<Principal>) {
        let bytes = |message: &Arc<Message>| message.body_bytes() as u64;
        let before = match message.payload().is_empty() {
            true => self.retained.remove(message.topic()),
            false => {
                self.retained_bytes += bytes(message);
                self.retained.insert(message.topic().into(), Kept { message: Arc::clone(message), owner })
            }
        };
        take(&mut self.retained_bytes, before.map_or(0, |before| bytes(&before.message)));
        assert!(self.retained_bytes == 0 || !self.retained.is_empty(), "bytes of no retained message are left");
    }

    fn session_mut(&mut self, slot: Slot) -> &mut Session {
        self.sessions[slot.0].as_mut().expect("an event is about a session that is there")
    }
}

/// Lowers a count or a sum by what was in it.
fn take(count: &mut u64, by: u64) {
    *count = count.checked_sub(by).expect("what leaves was counted when it came");
}

//! Applying: the only place that writes. Live and in replay the same code runs; replay looks first whether an event fits.

use std::sync::Arc;

use super::command::{DropReason, Receiver, Slot, Will};
use super::decide::evictable;
use super::event::Event;
use super::message::Message;
use super::state::{Body, Session, Subscription, Timer, Topics, hash};
use crate::TimeMs;
use crate::queue::{Entry, EntryState, Inbox};

/// Why a record cannot follow what came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
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
    /// Applies an event that [`Topics::decide`] made from this very state. `sequence` is the number of its record.
    pub fn apply(&mut self, event: &Event, sequence: u64) {
        match event {
            Event::SessionOpened { slot, client_id, expiry_s, will } => {
                self.open(*slot, client_id, *expiry_s, will.clone(), sequence);
            }
            Event::SessionAttached { slot, expiry_s, will } => self.change(*slot, |session| {
                session.detached_at = None;
                session.expiry_s = *expiry_s;
                session.will = will.clone().map(Box::new);
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
                session.subscriptions.retain(|subscription| subscription.filter != *filter);
                session.subscriptions.shrink_to_fit();
                self.counts.subscriptions -= 1;
            }
            Event::Published { message, drop_at, origin, receivers, evicted, dropped, .. } => {
                self.origins.extend(*origin);
                self.counts.dropped_full += u64::from(*dropped);
                self.publish(message, *drop_at, receivers, evicted, sequence);
            }
            Event::Acknowledged { slot, number } => self.remove(*slot, *number),
            Event::Received { slot, number } => {
                self.forget_drop(*slot, *number);
                self.session_mut(*slot).inbox.mark_received(*number);
            }
            Event::Dropped { slot, number, reason } => {
                self.remove(*slot, *number);
                match reason {
                    DropReason::Expired => self.counts.dropped_expired += 1,
                    DropReason::Evicted => self.counts.evicted += 1,
                }
            }
            Event::OriginForgotten(origin) => drop(self.origins.remove(origin)),
            Event::OriginsForgotten { shard, incarnation } => {
                let all: Vec<_> = self.origins_of(*shard, *incarnation).collect();
                for origin in all {
                    self.origins.remove(&origin);
                }
            }
            Event::Retained(message) => self.retain(message),
            Event::Delayed { at, message } => {
                self.delayed.insert(sequence, (*at, Arc::clone(message)));
                self.timers.insert((*at, Timer::Delayed(sequence)));
            }
            Event::DelayedSent { id } => {
                if let Some((at, _)) = self.delayed.remove(id) {
                    self.timers.remove(&(at, Timer::Delayed(*id)));
                }
            }
        }
    }

    /// Applies an event from a journal, if it can follow what came before it.
    pub fn apply_checked(&mut self, event: &Event, sequence: u64) -> Result<(), Mismatch> {
        self.check(event)?;
        self.apply(event, sequence);
        Ok(())
    }

    fn check(&self, event: &Event) -> Result<(), Mismatch> {
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
            Event::SessionAttached { slot, .. }
            | Event::SessionDetached { slot, .. }
            | Event::SessionEnded { slot }
            | Event::Subscribed { slot, .. } => session(*slot).map(drop),
            Event::WillCleared { slot } => must(session(*slot)?.will.is_some(), "the session has no will"),
            Event::Unsubscribed { slot, filter } => {
                let found = session(*slot)?.subscriptions.iter().any(|subscription| subscription.filter == *filter);
                must(found, "the session has no such subscription")
            }
            Event::Published { receivers, evicted, origin, .. } => {
                must(!origin.is_some_and(|origin| self.origins.contains(&origin)), "the message was taken before")?;
                must(evicted.len() <= receivers.len(), "more make room than receive")?;
                receivers.iter().try_for_each(|receiver| session(receiver.slot).map(drop))
            }
            Event::Acknowledged { slot, number }
            | Event::Received { slot, number }
            | Event::Dropped { slot, number, .. } => {
                session(*slot)?.inbox.entry(*number).map(drop).ok_or(Mismatch::NoEntry(*number))
            }
            Event::OriginForgotten(origin) => must(self.origins.contains(origin), "the origin is not known"),
            Event::DelayedSent { id } => must(self.delayed.contains_key(id), "there is no such delayed message"),
            Event::OriginsForgotten { .. } | Event::Retained(_) | Event::Delayed { .. } => Ok(()),
        }
    }

    fn open(&mut self, slot: Slot, client_id: &str, expiry_s: u32, will: Option<Will>, sequence: u64) {
        let session = Session {
            client_id: client_id.into(),
            incarnation: sequence,
            expiry_s,
            detached_at: None,
            will: will.map(Box::new),
            subscriptions: Vec::new(),
            inbox: Inbox::default(),
        };
        self.place(slot, session);
    }

    /// Puts a session where there is none; a slot in use again leaves the list of free ones.
    pub(super) fn place(&mut self, slot: Slot, session: Session) {
        let client_id = session.client_id.clone();
        if self.free.front() == Some(&slot) {
            self.free.pop_front();
            self.sessions[slot.0 as usize] = Some(session);
        } else {
            self.sessions.push(Some(session));
        }
        let sessions = &self.sessions;
        let rehash = |slot: &Slot| hash(sessions[slot.0 as usize].as_ref().map_or("", |session| &session.client_id));
        self.by_client_id.insert_unique(hash(&client_id), slot, rehash);
        self.counts.sessions += 1;
    }

    fn end(&mut self, slot: Slot) {
        self.change(slot, |session| session.detached_at = None);
        let numbers: Vec<u64> = self.session_mut(slot).inbox.entries_from(0).map(|(number, _)| number).collect();
        numbers.iter().for_each(|number| self.remove(slot, *number));
        let session = self.sessions[slot.0 as usize].take().expect("the session was just looked at");
        let sessions = &self.sessions;
        let is_it = |other: &Slot| *other == slot || sessions[other.0 as usize].is_none();
        if let Ok(found) = self.by_client_id.find_entry(hash(&session.client_id), is_it) {
            found.remove();
        }
        self.free.push_back(slot);
        self.counts.sessions -= 1;
        self.counts.subscriptions -= session.subscriptions.len() as u64;
    }

    /// Changes a session, and its timers with it.
    fn change(&mut self, slot: Slot, change: impl FnOnce(&mut Session)) {
        let session = self.sessions[slot.0 as usize].as_mut().expect("an event is about a session that is there");
        let before = (session.will_at(), session.ends_at());
        change(session);
        let after = (session.will_at(), session.ends_at());
        self.reset_timer(before.0, after.0, Timer::Will(slot));
        self.reset_timer(before.1, after.1, Timer::SessionEnd(slot));
    }

    fn reset_timer(&mut self, before: Option<TimeMs>, after: Option<TimeMs>, timer: Timer) {
        if before != after {
            before.map(|at| self.timers.remove(&(at, timer)));
            after.map(|at| self.timers.insert((at, timer)));
        }
    }

    pub(super) fn subscribe(&mut self, slot: Slot, subscription: Subscription) {
        let subscriptions = &mut self.session_mut(slot).subscriptions;
        match subscriptions.iter_mut().find(|known| known.filter == subscription.filter) {
            Some(known) => *known = subscription,
            None => {
                // Most sessions have one or two, and there are millions of them.
                subscriptions.reserve_exact(1);
                subscriptions.push(subscription);
                self.counts.subscriptions += 1;
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
        if receivers.is_empty() {
            return;
        }
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
            };
            let number = self.session_mut(slot).inbox.push(entry, bytes);
            self.counts.inbox_messages += 1;
            if drop_at != TimeMs(0) {
                self.timers.insert((drop_at, Timer::Entry(slot, number)));
            }
        }
    }

    /// The oldest entries make room.
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
        let session = self.sessions[slot.0 as usize].as_mut().expect("an event is about a session that is there");
        if session.inbox.remove(number, &mut self.bodies) {
            self.counts.inbox_messages -= 1;
        }
    }

    /// The entry does not expire any more.
    fn forget_drop(&mut self, slot: Slot, number: u64) {
        if self.timers.is_empty() {
            return;
        }
        let entry = self.session(slot).and_then(|session| session.inbox.entry(number));
        let drop_at = entry.map_or(TimeMs(0), |entry| self.bodies.get(entry.body).drop_at);
        if drop_at != TimeMs(0) {
            self.timers.remove(&(drop_at, Timer::Entry(slot, number)));
        }
    }

    fn retain(&mut self, message: &Arc<Message>) {
        let bytes = |message: &Arc<Message>| message.body_bytes() as u64;
        let before = match message.payload().is_empty() {
            true => self.retained.remove(message.topic()),
            false => {
                self.retained_bytes += bytes(message);
                self.retained.insert(message.topic().into(), Arc::clone(message))
            }
        };
        self.retained_bytes -= before.as_ref().map_or(0, bytes);
    }

    fn session_mut(&mut self, slot: Slot) -> &mut Session {
        self.sessions[slot.0 as usize].as_mut().expect("an event is about a session that is there")
    }
}

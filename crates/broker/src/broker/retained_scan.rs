//! Retained messages for new subscriptions: each subscription scans the retained messages in steps, a session's scans
//! one after the other.
//!
//! ```text
//!   SUBSCRIBE ─▶ ready ─step─▶ some messages ─┬─ taken ─────▶ ready, or done
//!                  ▲                          └─ not taken ─▶ blocked ─┐
//!                  └──────────── its client took something ◀───────────┘
//! ```
//!
//! Promise: a client that does not read delays no other client, however many filters it subscribed to. So the queues
//! hold sessions and not scans, and blocked sessions have a queue of their own.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Message, Receiver, Session, Subscription};

use super::Broker;
use super::retain::RetainedMessage;
use crate::Access;
use crate::flow::QueuedMessage;
use crate::index::SessionIndex;
use crate::limits::{NODES_OF_SCAN, RETAINED_NODES_PER_STEP, RETAINED_PER_PUMP, SCANS_PER_NODE, SCANS_PER_WORK};
use crate::retained::{Cursor, Moment, Progress};
use crate::session::{SessionFlags, SessionRef};
use crate::shards::Wait;
use crate::subscriptions::EntryOptions;

/// A new subscription on its way through the retained messages. With the subscription, it ends.
struct Scan {
    filter: Box<str>,
    /// What was there when the subscription was answered is for it.
    since: Moment,
    /// `None` until its first step.
    cursor: Option<Cursor>,
    qos: u8,
    subscription_id: u32,
}

/// All scans of one session; the front one is active.
#[derive(Default)]
struct SessionScans {
    scans: VecDeque<Scan>,
    /// Of their filters.
    bytes: usize,
    is_blocked: bool,
    /// It stands among the blocked, perhaps because it did rest.
    is_listed: bool,
}

/// The scans of all sessions.
#[derive(Default)]
pub(super) struct Scans {
    of: HashMap<SessionRef, SessionScans>,
    /// Sessions that may take more, each once.
    ready: VecDeque<SessionRef>,
    /// Sessions whose clients must first read what they were sent, each once; some of them may have read it by now.
    blocked: VecDeque<SessionRef>,
}

impl Scans {
    /// Scans of a session that are not over, and the bytes of their filters.
    pub fn count(&self, session: SessionRef) -> (usize, usize) {
        self.of.get(&session).map_or((0, 0), |session_scans| (session_scans.scans.len(), session_scans.bytes))
    }

    fn add(&mut self, session: SessionRef, scan: Scan) {
        let session_scans = self.of.entry(session).or_default();
        session_scans.bytes += scan.filter.len();
        session_scans.scans.push_back(scan);
        assert!(session_scans.scans.len() > 1 || !session_scans.is_blocked, "a new session is not blocked");
        if session_scans.scans.len() == 1 {
            self.ready.push_back(session);
        }
    }

    fn block(&mut self, session: SessionRef) {
        let Some(session_scans) = self.of.get_mut(&session) else { return };
        session_scans.is_blocked = true;
        if !std::mem::replace(&mut session_scans.is_listed, true) {
            self.blocked.push_back(session);
        }
    }

    /// Ends the scans of a subscription that is removed, and gives their cursors.
    fn end(&mut self, session: SessionRef, filter: &str) -> Vec<Cursor> {
        let is_its = |scan: &Scan| *scan.filter == *filter;
        let Some(session_scans) = self.of.get_mut(&session).filter(|all| all.scans.iter().any(is_its)) else {
            return Vec::new();
        };
        let (ended, others): (VecDeque<Scan>, _) = session_scans.scans.drain(..).partition(is_its);
        session_scans.scans = others;
        session_scans.bytes -= ended.iter().map(|scan| scan.filter.len()).sum::<usize>();
        if session_scans.scans.is_empty() {
            self.ready.retain(|other| *other != session);
            self.blocked.retain(|other| *other != session);
            self.of.remove(&session);
        }
        ended.into_iter().filter_map(|scan| scan.cursor).collect()
    }

    /// Scans of all sessions that have begun.
    pub fn cursors(&self) -> usize {
        let begun = |all: &SessionScans| all.scans.iter().filter(|scan| scan.cursor.is_some()).count();
        self.of.values().map(begun).sum()
    }

    /// Panics if a session with scans is not in its queue exactly once. Visits everything: for tests and simulation.
    pub fn assert_sound(&self) {
        let count = |queue: &VecDeque<SessionRef>| {
            let mut counts: HashMap<SessionRef, usize> = HashMap::new();
            queue.iter().for_each(|session| *counts.entry(*session).or_default() += 1);
            counts
        };
        let (ready, blocked) = (count(&self.ready), count(&self.blocked));
        for (session, session_scans) in &self.of {
            assert!(!session_scans.scans.is_empty(), "{session:?} has no scans");
            let is_ready = usize::from(!session_scans.is_blocked);
            assert_eq!(ready.get(session).copied().unwrap_or(0), is_ready, "{session:?} among the ready");
            let is_listed = usize::from(session_scans.is_listed);
            assert_eq!(blocked.get(session).copied().unwrap_or(0), is_listed, "{session:?} among the blocked");
            assert!(session_scans.is_listed || !session_scans.is_blocked, "{session:?} is_blocked and is not listed");
        }
    }

    /// A session's client has read something: its scans may continue.
    #[inline]
    pub fn unblock(&mut self, session: impl FnOnce() -> SessionRef) {
        if !self.of.is_empty() {
            self.unblock_session(session());
        }
    }

    fn unblock_session(&mut self, session: SessionRef) {
        if let Some(session_scans) = self.of.get_mut(&session)
            && std::mem::take(&mut session_scans.is_blocked)
        {
            self.ready.push_back(session);
        }
    }
}

impl<L: LogStore> Broker<L> {
    /// New subscriptions, of no share group, each with its QoS, get the retained messages: the first step of the first
    /// one is made at once, if the session has no other walk, and all others later. So thousands of filters of one
    /// packet cost little here.
    /// `[MQTT-3.3.1-9]`: Retain Handling 0: retained messages are sent on SUBSCRIBE.
    pub(super) fn send_retained(
        &mut self,
        place: SessionIndex,
        filters: impl Iterator<Item = (Box<str>, u8)>,
        subscription_id: u32,
        now: TimeMs,
    ) {
        let session = self.clients.session_ref(place);
        let since = self.retained.messages.moment();
        let mut is_first = self.retained.scans.count(session).0 == 0;
        for (filter, qos) in filters {
            let mut scan = Scan { filter, since, cursor: None, qos, subscription_id };
            if std::mem::take(&mut is_first)
                && self.may_take_retained(place)
                && self.scan(place, &mut scan, &mut { RETAINED_NODES_PER_STEP }, now) == Progress::Done
            {
                self.end_scan(place, scan);
                continue;
            }
            self.retained.scans.add(session, scan);
        }
    }

    /// Whether there may be retained messages for a filter of no share group: one step through them tells.
    pub(super) fn may_owe_retained(&mut self, filter: &str, now: TimeMs) -> bool {
        if self.retained.messages.is_empty() {
            return false;
        }
        let (mut cursor, mut is_there) = (self.retained.messages.open(filter), false);
        let progress = self.retained.messages.step(&mut cursor, now.0, &mut { RETAINED_NODES_PER_STEP }, |_| {
            is_there = true;
            false
        });
        self.retained.messages.close(cursor);
        is_there || progress == Progress::More
    }

    /// A scan has come to its end. What it has found for a durable session is in the shard, in order; a record behind
    /// it says that nothing is owed any more.
    fn end_scan(&mut self, place: SessionIndex, scan: Scan) {
        let Scan { filter, cursor, .. } = scan;
        cursor.into_iter().for_each(|cursor| self.retained.messages.close(cursor));
        let session = &self.clients.sessions[place];
        let Some(slot) = session.slot else { return };
        let known = self.shards.state(session.shard).session(slot).and_then(|known| known.subscription_to(&filter));
        let Some(kept) = known.filter(|kept| is_owed(kept)).cloned() else { return };
        // A SUBSCRIBE that waits for its record may be for the same filter; another scan, too.
        let waits = session.connection.is_some_and(|index| self.clients.connections[index].is_parked());
        let scans = self.retained.scans.of.get(&self.clients.session_ref(place));
        let is_last = scans.is_none_or(|all| all.scans.iter().all(|other| other.filter != filter));
        if waits || !is_last {
            return;
        }
        let options = EntryOptions(kept.options).without(EntryOptions::OWES_RETAINED).0;
        let command = Command::Subscribe { slot, filter, options, subscription_id: kept.subscription_id };
        self.shards.call(session.shard, command, Wait::Nothing);
    }

    /// Subscriptions of a session whose retained messages a crash may have kept from it.
    fn owed(&self, place: SessionIndex) -> impl Iterator<Item = &Subscription> {
        let session = &self.clients.sessions[place];
        let known = session.slot.and_then(|slot| self.shards.state(session.shard).session(slot));
        let subscriptions = known.into_iter().flat_map(Session::subscriptions);
        subscriptions.filter(|known| is_owed(known))
    }

    /// A client has come back for the first time after a crash: what is retained is brought to it that it was told it
    /// would get. Some of it may have come before.
    pub(super) fn send_owed_retained(&mut self, place: SessionIndex, now: TimeMs) {
        let is_recovered = self.clients.sessions[place].flags.has(SessionFlags::RECOVERED);
        if !is_recovered || self.retained.scans.count(self.clients.session_ref(place)).0 > 0 {
            return;
        }
        let owed: Vec<Subscription> = self.owed(place).cloned().collect();
        for Subscription { filter, options, subscription_id } in owed {
            let filter = std::iter::once((filter, EntryOptions(options).qos()));
            self.send_retained(place, filter, subscription_id, now);
        }
    }

    /// A subscription is removed: it gets no more retained messages.
    pub(super) fn end_scans(&mut self, place: SessionIndex, filter: &str) {
        let session = self.clients.session_ref(place);
        self.intake.filter_work += self.retained.scans.count(session).0 as u64 / SCANS_PER_WORK;
        for cursor in self.retained.scans.end(session, filter) {
            self.retained.messages.close(cursor);
        }
    }

    /// One step of the scans of some sessions. Whether any came further.
    pub(super) fn step_scans(&mut self, now: TimeMs) -> bool {
        let mut worked = false;
        for _ in 0..self.retained.scans.ready.len().min(RETAINED_PER_PUMP) {
            let Some(session) = self.retained.scans.ready.pop_front() else { break };
            worked |= self.continue_scan(session, now);
        }
        // Most are unblocked by their client; a full inbox does not unblock its scan, so it is checked here.
        for _ in 0..self.retained.scans.blocked.len().min(RETAINED_PER_PUMP) {
            let Some(session) = self.retained.scans.blocked.pop_front() else { break };
            let Some(session_scans) = self.retained.scans.of.get_mut(&session) else { continue };
            session_scans.is_listed = false;
            if !session_scans.is_blocked {
                continue;
            }
            if self.clients.session(session).is_none_or(|place| self.may_take_retained(place)) {
                worked = true;
                self.retained.scans.unblock_session(session);
            } else {
                self.retained.scans.block(session);
            }
        }
        worked
    }

    /// The next step of a session. Whether it could go.
    fn continue_scan(&mut self, session: SessionRef, now: TimeMs) -> bool {
        let Some(place) = self.clients.session(session) else {
            let scans = self.retained.scans.of.remove(&session).map(|all| all.scans).unwrap_or_default();
            for cursor in scans.into_iter().filter_map(|scan| scan.cursor) {
                self.retained.messages.close(cursor);
            }
            return true;
        };
        let (mut budget, mut worked) = (RETAINED_NODES_PER_STEP, false);
        while budget > 0 && self.may_take_retained(place) {
            let Some(session_scans) = self.retained.scans.of.get_mut(&session) else { return worked };
            assert!(!session_scans.is_blocked, "a session that scans is not blocked");
            let Some(mut scan) = session_scans.scans.pop_front() else { return worked };
            session_scans.bytes -= scan.filter.len();
            worked = true;
            let waiting = session_scans.scans.len();
            budget = budget.saturating_sub(NODES_OF_SCAN);
            let progress = self.scan(place, &mut scan, &mut budget, now);
            // When it ends, another one of the same filter is looked for among those that wait.
            budget = budget.saturating_sub(waiting / SCANS_PER_NODE);
            let session_scans = self.retained.scans.of.get_mut(&session).expect("it goes through its scans");
            match progress {
                Progress::More => {
                    session_scans.bytes += scan.filter.len();
                    session_scans.scans.push_front(scan);
                }
                Progress::Done => {
                    let are_over = session_scans.scans.is_empty();
                    self.end_scan(place, scan);
                    if are_over {
                        self.retained.scans.of.remove(&session);
                        return true;
                    }
                }
            }
        }
        match worked {
            true => self.retained.scans.ready.push_back(session),
            false => self.retained.scans.block(session),
        }
        worked
    }

    /// One step of a scan.
    fn scan(&mut self, place: SessionIndex, scan: &mut Scan, budget: &mut usize, now: TimeMs) -> Progress {
        let session = &mut self.clients.sessions[place];
        let index = session.connection.expect("who is given something is there");
        let rights = self.clients.connections[index].rights.expect("who is connected has rights");
        let rights = self.clients.rights.get(rights);
        let client_id = session.client_id.to_string();
        let (slot, shard, qos_max) = (session.slot, session.shard, scan.qos);
        let ids: &[u32] = if scan.subscription_id == 0 { &[] } else { &[scan.subscription_id] };
        let mut journaled: Vec<Arc<Message>> = Vec::new();
        let waiting = &mut session.flow().backlog;
        let mut room = RETAINED_PER_PUMP;
        let messages = &mut self.retained.messages;
        let cursor = scan.cursor.get_or_insert_with(|| messages.open_since(&scan.filter, scan.since));
        let progress = messages.step(cursor, now.0, budget, |RetainedMessage(message)| {
            // The filter may cover topics that are denied, and the rights may have changed since it was granted.
            if rights.may_subscribe(&client_id, message.topic()) == Access::Denied {
                return true;
            }
            let qos = message.qos().min(qos_max);
            if slot.is_some() && qos > 0 {
                journaled.push(Arc::clone(message));
            } else {
                // It is sent because of a subscription, so RETAIN is 1 (MQTT 5, 3.3.1.3).
                let (message, subscription_ids) = (Arc::clone(message), ids.into());
                waiting.push_retained(QueuedMessage { message, qos, retain: true, subscription_ids, of_group: None });
            }
            room -= 1;
            room > 0
        });
        for message in journaled {
            let qos = message.qos().min(qos_max);
            let slot = slot.expect("only durable sessions journal");
            let receivers = [Receiver { slot, qos, retain: true, subscription_ids: ids.into() }];
            let command = Command::Publish { message, receivers: receivers.into(), origin: None, unheeded: [].into() };
            self.shards.call(shard, command, Wait::Published { ack_to: None, asked: [].into(), unheeded: [].into() });
        }
        self.clients.pump_backlog(place, &self.subscriptions, now);
        progress
    }

    /// Whether a session's client is there and has taken most of what it was given before.
    fn may_take_retained(&self, place: SessionIndex) -> bool {
        let session = &self.clients.sessions[place];
        let waiting = session.flow.as_ref().map_or(0, |flow| flow.backlog.retained_len());
        let kept = session.slot.map_or(0, |slot| self.shards.state(session.shard).inbox(slot).len());
        session.connection.is_some() && waiting < RETAINED_PER_PUMP && kept < 4 * RETAINED_PER_PUMP
    }
}

/// Whether a crash may have kept the retained messages of a subscription from its client.
fn is_owed(subscription: &Subscription) -> bool {
    EntryOptions(subscription.options).has(EntryOptions::OWES_RETAINED)
}

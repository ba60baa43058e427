//! What is retained, brought to new subscriptions: in steps, each session's walks one after the other.
//!
//! ```text
//!   SUBSCRIBE ─▶ ready ─step─▶ some messages ─┬─ taken ─────▶ ready, or done
//!                  ▲                          └─ not taken ─▶ resting ─┐
//!                  └──────────── its client took something ◀───────────┘
//! ```
//!
//! Promise: who does not take what it asked for keeps nobody else waiting, however many filters it asked with. So sessions stand in the
//! queues, not walks, and those that rest do not stand before those that walk.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Command, Message, Receiver};
use tidegate_wire::mqtt::check_filter;

use super::retain::Kept;
use super::{Broker, Wait};
use crate::Access;
use crate::connection::NONE;
use crate::flow::Waiter;
use crate::limits::{RETAINED_NODES_PER_STEP, RETAINED_PER_PUMP};
use crate::retained::{Cursor, Progress};
use crate::session::{SessionFlags, SessionRef};

/// A new subscription on its way through the retained messages.
struct Walk {
    cursor: Cursor,
    qos: u8,
    subscription_id: u32,
}

/// All walks of one session; the front one is under way.
#[derive(Default)]
struct Walking {
    walks: VecDeque<Walk>,
    rests: bool,
    /// It stands among the resting, perhaps because it did rest.
    is_listed: bool,
}

/// The walks of all sessions.
#[derive(Default)]
pub(super) struct Walks {
    of: HashMap<SessionRef, Walking>,
    /// Sessions that may take more, each once.
    ready: VecDeque<SessionRef>,
    /// Sessions that have yet to take what they were given, each once; and some that have not to, any more.
    resting: VecDeque<SessionRef>,
}

impl Walks {
    /// Walks of a session that are not over.
    pub fn count(&self, session: SessionRef) -> usize {
        self.of.get(&session).map_or(0, |walking| walking.walks.len())
    }

    fn add(&mut self, session: SessionRef, walk: Walk) {
        let walking = self.of.entry(session).or_default();
        walking.walks.push_back(walk);
        assert!(walking.walks.len() > 1 || !walking.rests, "who has just begun does not rest");
        if walking.walks.len() == 1 {
            self.ready.push_back(session);
        }
    }

    fn rest(&mut self, session: SessionRef) {
        let Some(walking) = self.of.get_mut(&session) else { return };
        walking.rests = true;
        if !std::mem::replace(&mut walking.is_listed, true) {
            self.resting.push_back(session);
        }
    }

    /// Walks of all sessions.
    pub fn len(&self) -> usize {
        self.of.values().map(|walking| walking.walks.len()).sum()
    }

    /// Panics if a session that walks does not stand in its queue, once. A walk over everything: for tests and simulation.
    pub fn assert_sound(&self) {
        let count = |queue: &VecDeque<SessionRef>| {
            let mut counts: HashMap<SessionRef, usize> = HashMap::new();
            queue.iter().for_each(|session| *counts.entry(*session).or_default() += 1);
            counts
        };
        let (ready, resting) = (count(&self.ready), count(&self.resting));
        for (session, walking) in &self.of {
            assert!(!walking.walks.is_empty(), "{session:?} has no walks");
            let is_ready = usize::from(!walking.rests);
            assert_eq!(ready.get(session).copied().unwrap_or(0), is_ready, "{session:?} among the ready");
            let is_listed = usize::from(walking.is_listed);
            assert_eq!(resting.get(session).copied().unwrap_or(0), is_listed, "{session:?} among the resting");
            assert!(walking.is_listed || !walking.rests, "{session:?} rests and is not listed");
        }
    }

    /// A session's client took something: it may be given more.
    #[inline]
    pub fn wake(&mut self, session: impl FnOnce() -> SessionRef) {
        if !self.of.is_empty() {
            self.wake_one(session());
        }
    }

    fn wake_one(&mut self, session: SessionRef) {
        if let Some(walking) = self.of.get_mut(&session)
            && std::mem::take(&mut walking.rests)
        {
            self.ready.push_back(session);
        }
    }
}

impl<L: LogStore> Broker<L> {
    /// A new subscription gets what is retained: at once as far as a step goes, the rest in steps. `[MQTT-3.3.1-9]`
    pub(super) fn send_retained(&mut self, place: u32, filter: &str, qos: u8, subscription_id: u32, now: TimeMs) {
        let Ok(parts) = check_filter(filter) else { return };
        if self.retained.is_empty() {
            return;
        }
        let session = self.clients.session_ref(place);
        let mut walk = Walk { cursor: self.retained.open(parts.filter), qos, subscription_id };
        let is_first = self.walks.count(session) == 0;
        if is_first && self.may_take_retained(place) && self.walk(place, &mut walk, now) == Progress::Done {
            return self.retained.close(walk.cursor);
        }
        self.walks.add(session, walk);
    }

    /// One step of the walks of some sessions. Whether any came further.
    pub(super) fn step_walks(&mut self, now: TimeMs) -> bool {
        let mut worked = false;
        for _ in 0..self.walks.ready.len().min(RETAINED_PER_PUMP) {
            let Some(session) = self.walks.ready.pop_front() else { break };
            worked |= self.walk_on(session, now);
        }
        // Most are woken; a journal that had no room wakes nobody.
        for _ in 0..self.walks.resting.len().min(RETAINED_PER_PUMP) {
            let Some(session) = self.walks.resting.pop_front() else { break };
            let Some(walking) = self.walks.of.get_mut(&session) else { continue };
            walking.is_listed = false;
            if !walking.rests {
                continue;
            }
            if self.clients.session(session).is_none_or(|place| self.may_take_retained(place)) {
                worked = true;
                self.walks.wake_one(session);
            } else {
                self.walks.rest(session);
            }
        }
        worked
    }

    /// The next step of a session. Whether it could go.
    fn walk_on(&mut self, session: SessionRef, now: TimeMs) -> bool {
        let Some(place) = self.clients.session(session) else {
            for walk in self.walks.of.remove(&session).into_iter().flat_map(|walking| walking.walks) {
                self.retained.close(walk.cursor);
            }
            return true;
        };
        if !self.may_take_retained(place) {
            self.walks.rest(session);
            return false;
        }
        let Some(mut walk) = self.walks.of.get_mut(&session).and_then(|walking| walking.walks.pop_front()) else {
            return false;
        };
        let progress = self.walk(place, &mut walk, now);
        let Some(walking) = self.walks.of.get_mut(&session) else { return true };
        assert!(!walking.rests, "who walks does not rest");
        match progress {
            Progress::More => walking.walks.push_front(walk),
            Progress::Done => self.retained.close(walk.cursor),
        }
        if walking.walks.is_empty() {
            self.walks.of.remove(&session);
        } else {
            self.walks.ready.push_back(session);
        }
        true
    }

    /// One step of a walk.
    fn walk(&mut self, place: u32, walk: &mut Walk, now: TimeMs) -> Progress {
        let session = &mut self.clients.sessions[place];
        assert!(session.connection != NONE, "who is given something is there");
        let rights = self.rights.get(self.clients.connections[session.connection].rights);
        let is_resumed = session.flags.has(SessionFlags::RESUMED);
        let client_id = if is_resumed { session.client_id.to_string() } else { String::new() };
        let (slot, shard, qos_max) = (session.slot, session.shard, walk.qos);
        let ids: &[u32] = if walk.subscription_id == 0 { &[] } else { &[walk.subscription_id] };
        let mut journaled: Vec<Arc<Message>> = Vec::new();
        let waiting = &mut session.flow().waiting;
        let mut room = RETAINED_PER_PUMP;
        let progress = self.retained.step(&mut walk.cursor, now.0, RETAINED_NODES_PER_STEP, |Kept(message)| {
            // Another user may have subscribed, and this one came for the session.
            if is_resumed && rights.may_subscribe(&client_id, message.topic()) == Access::Denied {
                return true;
            }
            let qos = message.qos().min(qos_max);
            if slot.is_some() && qos > 0 {
                journaled.push(Arc::clone(message));
            } else {
                // [MQTT-3.3.1-8]: it is a retained one, and says so.
                let waiter = Waiter { message: Arc::clone(message), qos, retain: true, subscription_ids: ids.into() };
                waiting.push_retained(waiter);
            }
            room -= 1;
            room > 0
        });
        for message in journaled {
            let qos = message.qos().min(qos_max);
            let slot = slot.expect("only durable sessions journal");
            let receivers = [Receiver { slot, qos, retain: true, subscription_ids: ids.into() }];
            let command = Command::Publish { message, receivers: receivers.into(), origin: None };
            self.call(shard, command, Wait::Published { asked_by: None });
        }
        self.clients.pump_waiting(place, now);
        progress
    }

    /// Whether a session's client is there and has taken most of what it was given before.
    fn may_take_retained(&self, place: u32) -> bool {
        let session = &self.clients.sessions[place];
        let waiting = session.flow.as_ref().map_or(0, |flow| flow.waiting.retained_len());
        let kept = session.slot.map_or(0, |slot| self.shards[session.shard as usize].state_ahead().inbox(slot).len());
        session.connection != NONE && waiting < RETAINED_PER_PUMP && kept < 4 * RETAINED_PER_PUMP
    }
}

//! What happens by the clock: silence, slow handshakes, spent rates, and a drain. One hand goes round over all connections, a slice per
//! step, so that a connection costs no timer.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::{ReasonCode, Version};

use super::connect::seconds;
use super::{Broker, DrainPlan};
use crate::connection::{Flags, Life, NONE};
use crate::limits::{HAND_ROUND_MS, HAND_SLICE_MIN};
use crate::session::SessionFlags;

/// How long a drain waits for the CONNECT of who has connected.
const DRAIN_GREETING_S: u32 = 1;

/// Where the hand stands.
#[derive(Debug, Default)]
pub(super) struct Hand {
    at: u32,
    moved_at: TimeMs,
}

/// A drain that is under way.
#[derive(Debug)]
pub(super) struct Drain {
    pub plan: DrainPlan,
    at: u32,
    /// Connections that may be closed by now, in thousandths.
    credit: u64,
    moved_at: TimeMs,
}

impl<L: LogStore> Broker<L> {
    /// Moves the hand by the time that has passed.
    pub(super) fn step_hand(&mut self, now: TimeMs) {
        let reached = self.clients.connections.reached();
        let passed_ms = now.0.saturating_sub(self.hand.moved_at.0);
        if reached == 0 || passed_ms == 0 {
            return;
        }
        let due = (u64::from(reached) * passed_ms.min(HAND_ROUND_MS)).div_ceil(HAND_ROUND_MS);
        let slice = due.max(HAND_SLICE_MIN as u64).min(u64::from(reached));
        self.hand.moved_at = now;
        for _ in 0..slice {
            self.hand.at = if self.hand.at + 1 >= reached { 0 } else { self.hand.at + 1 };
            assert!(self.hand.at < reached, "the hand stands at a place");
            self.look_at(self.hand.at, now);
        }
    }

    /// Whether a connection has been silent for too long.
    #[inline]
    fn look_at(&mut self, index: u32, now: TimeMs) {
        let connection = &self.clients.connections[index];
        let silent_s = seconds(now).saturating_sub(connection.last_seen_s);
        match connection.life {
            Life::Vacant | Life::Closing | Life::Authenticating | Life::Opening => {}
            Life::Greeting => {
                if u64::from(silent_s) * 1000 > self.options.limits.handshake_ms {
                    self.dismiss(index);
                }
            }
            Life::Connected => {
                assert!(connection.session != NONE, "who is connected has a session");
                let session = connection.session;
                let keep_alive_s = u32::from(connection.keep_alive_s);
                // [MQTT-3.1.2-22]: one and a half times; a second more, because seconds are all that is counted.
                if keep_alive_s > 0 && silent_s > keep_alive_s + keep_alive_s / 2 + 1 {
                    self.clients.facts.keep_alive_timeouts += 1;
                    return self.disconnect(index, ReasonCode::KEEP_ALIVE_TIMEOUT, now);
                }
                self.drop_idle_flow(session);
            }
        }
    }

    /// A session that has nothing under way, and had not when the hand came by before, needs no flow.
    fn drop_idle_flow(&mut self, place: u32) {
        let session = &mut self.clients.sessions[place];
        let Some(flow) = &session.flow else { return };
        if !flow.is_idle() {
            session.flags.clear(SessionFlags::FLOW_IDLE);
        } else if session.flags.has(SessionFlags::FLOW_IDLE) {
            session.next_number = session.next_number.max(flow.window.next());
            session.flow = None;
            session.flags.clear(SessionFlags::FLOW_IDLE);
        } else {
            session.flags.set(SessionFlags::FLOW_IDLE);
        }
    }

    /// Lets clients publish again whose rate has recovered, and reads on what waits in their inputs and others'.
    pub(super) fn step_stalled(&mut self, now: TimeMs) {
        self.throttled.retain(|(until, key)| {
            if *until > now {
                return true;
            }
            if let Some(index) = self.clients.index(*key) {
                self.clients.connections[index].flags.clear(Flags::THROTTLED);
            }
            false
        });
        for _ in 0..self.stalled.len() {
            let Some(key) = self.stalled.pop_front() else { break };
            let Some(index) = self.clients.index(key) else { continue };
            if self.is_blocked(index) {
                self.stalled.push_back(key);
                continue;
            }
            assert!(self.clients.connections[index].flags.has(Flags::STALLED), "who stands in the list is marked");
            self.clients.connections[index].flags.clear(Flags::STALLED);
            self.resume(index, now);
        }
    }

    /// Begins to send all clients away, and refuses new ones.
    pub fn drain(&mut self, plan: DrainPlan, now: TimeMs) {
        self.drain = Some(Drain { plan, at: 0, credit: 0, moved_at: now });
    }

    /// Whether a drain has come to its end: no client is connected.
    pub fn is_drained(&self) -> bool {
        self.drain.is_some() && self.clients.connections.len() == 0
    }

    /// Sends away as many as the rate allows. `[MQTT-3.14.4-2]`
    pub(super) fn step_drain(&mut self, now: TimeMs) {
        let Some(drain) = &mut self.drain else { return };
        let passed_ms = now.0.saturating_sub(drain.moved_at.0);
        drain.moved_at = now;
        let per_second = u64::from(drain.plan.per_second.max(1));
        drain.credit = (drain.credit + passed_ms * per_second).min(per_second * 1000);
        loop {
            let reached = self.clients.connections.reached();
            let Some(drain) = &mut self.drain else { return };
            if drain.credit < 1000 || reached == 0 {
                return;
            }
            let start = drain.at;
            let next = (0..reached).map(|step| (start + step) % reached).find(|index| {
                let connection = &self.clients.connections[*index];
                match connection.life {
                    Life::Connected | Life::Opening => true,
                    // Who has just come gets to say CONNECT, and is then told where to go.
                    Life::Greeting => seconds(now).saturating_sub(connection.last_seen_s) > DRAIN_GREETING_S,
                    Life::Vacant | Life::Authenticating | Life::Closing => false,
                }
            });
            let Some(index) = next else { return };
            drain.at = (index + 1) % reached;
            assert!(drain.credit >= 1000, "the rate allows it");
            drain.credit -= 1000;
            if self.clients.connections[index].life == Life::Connected {
                self.disconnect(index, ReasonCode::USE_ANOTHER_SERVER, now);
            } else {
                self.detach(index, false, now);
                self.dismiss(index);
            }
        }
    }

    /// Whether nothing more may be read from a connection for now.
    #[inline]
    pub(super) fn is_blocked(&self, index: u32) -> bool {
        let connection = &self.clients.connections[index];
        matches!(connection.life, Life::Authenticating | Life::Closing | Life::Vacant)
            || connection.flags.has(Flags::PARKED)
            || connection.flags.has(Flags::THROTTLED)
            || connection.flags.has(Flags::PUBLISHER)
                && (self.is_pressed
                    || self.clients.flowing_bytes() > self.options.limits.pressure_bytes_max
                    || connection.version == Version::V311 && self.has_too_many_answers(connection.session))
            || self.clients.outbox_len(index) > self.options.limits.outbox_bytes_max
    }

    #[inline]
    pub(super) fn has_too_many_answers(&self, place: u32) -> bool {
        place != NONE
            && self.clients.sessions[place]
                .flow
                .as_ref()
                .is_some_and(|flow| flow.answers.len() >= usize::from(self.options.limits.receive_maximum))
    }
}

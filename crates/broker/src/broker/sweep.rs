//! What happens by the clock: keep alive, slow handshakes, spent rates. A sweep visits all connections in turn, a slice
//! per step, so that a connection needs no timer.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::ReasonCode;

use super::Broker;
use super::connect::seconds;
use crate::connection::ConnectionState;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{SWEEP_ROUND_MS, SWEEP_SLICE_MIN};
use crate::session::SessionFlags;

/// The position of the sweep.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    at: u32,
    moved_at: TimeMs,
}

impl<L: LogStore> Broker<L> {
    /// Continues the sweep by the time that has passed.
    pub(super) fn step_sweep(&mut self, now: TimeMs) {
        let reached = self.clients.connections.reached();
        let passed_ms = now.0.saturating_sub(self.timing.sweep.moved_at.0);
        if reached == 0 || passed_ms == 0 {
            return;
        }
        let due = (u64::from(reached) * passed_ms.min(SWEEP_ROUND_MS)).div_ceil(SWEEP_ROUND_MS);
        let slice = due.max(SWEEP_SLICE_MIN as u64).min(u64::from(reached));
        self.timing.sweep.moved_at = now;
        for _ in 0..slice {
            self.timing.sweep.at = if self.timing.sweep.at + 1 >= reached { 0 } else { self.timing.sweep.at + 1 };
            assert!(self.timing.sweep.at < reached, "the hand stands at a place");
            self.check_silence(ConnectionIndex::new(self.timing.sweep.at), now);
        }
    }

    /// Whether a connection has been silent for too long.
    #[inline]
    fn check_silence(&mut self, index: ConnectionIndex, now: TimeMs) {
        let connection = &self.clients.connections[index];
        let silent_s = seconds(now).saturating_sub(connection.last_seen_s);
        match connection.state {
            ConnectionState::Vacant
            | ConnectionState::Closing
            | ConnectionState::Authenticating
            | ConnectionState::Opening => {}
            ConnectionState::AwaitingConnect => {
                if u64::from(silent_s) * 1000 > self.options.limits.handshake_ms {
                    self.close_when_sent(index);
                }
            }
            ConnectionState::Connected => {
                let session = connection.session.expect("who is connected has a session");
                // Who is not read cannot be heard. It has a whole interval once it is read again.
                if self.may_be_unheard(index) {
                    self.clients.connections[index].last_seen_s = seconds(now);
                    return self.drop_idle_flow(session);
                }
                let keep_alive_s = u32::from(connection.keep_alive_s);
                // [MQTT-3.1.2-22]: after one and a half keep alives without a packet the server closes the connection.
                // Time is counted in whole seconds here: what is one second more than that is more by the clock, too.
                if keep_alive_s > 0 && silent_s > (3 * keep_alive_s).div_ceil(2) {
                    self.clients.facts.keep_alive_timeouts += 1;
                    return self.disconnect(index, ReasonCode::KEEP_ALIVE_TIMEOUT, now);
                }
                self.drop_idle_flow(session);
            }
        }
    }

    /// A session that has nothing in flight, and had nothing at the previous sweep, needs no flow.
    fn drop_idle_flow(&mut self, place: SessionIndex) {
        let session = &mut self.clients.sessions[place];
        let Some(flow) = &session.flow else { return };
        // What is to be sent again and found no room yet is known by where the window stands.
        let is_behind = flow.window.next() < session.next_number;
        if !flow.is_idle() || is_behind {
            session.flags.clear(SessionFlags::FLOW_IDLE);
        } else if session.flags.has(SessionFlags::FLOW_IDLE) {
            session.next_number = flow.window.next();
            session.flow = None;
            session.flags.clear(SessionFlags::FLOW_IDLE);
        } else {
            session.flags.set(SessionFlags::FLOW_IDLE);
        }
    }
}

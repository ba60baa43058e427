//! A drain: clients are disconnected at a bounded rate, and new ones are refused.
//!
//! Why at a rate: clients that are disconnected connect again elsewhere, and the next server must be able to accept
//! them.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::ReasonCode;

use super::connect::seconds;
use super::{Broker, DrainPlan};
use crate::ConnectionKey;
use crate::connection::ConnectionState;
use crate::index::ConnectionIndex;

/// How long a drain waits for the CONNECT of an accepted connection.
const DRAIN_GREETING_S: u32 = 1;

/// A drain in progress.
#[derive(Debug)]
pub(super) struct Drain {
    pub plan: DrainPlan,
    at: u32,
    /// Connections that may be closed by now, in thousandths.
    credit: u64,
    moved_at: TimeMs,
}

impl<L: LogStore> Broker<L> {
    /// Begins to disconnect all clients, and refuses new ones.
    pub fn drain(&mut self, plan: DrainPlan, now: TimeMs) {
        self.timing.drain = Some(Drain { plan, at: 0, credit: 0, moved_at: now });
    }

    /// Ends a drain, wherever it is: who is still connected stays, and new clients are let in.
    pub fn end_drain(&mut self) {
        self.timing.drain = None;
    }

    /// Disconnects one client with 0x9C (use another server). Whether there was one to be disconnected.
    pub fn send_away(&mut self, key: ConnectionKey, now: TimeMs) -> bool {
        let Some(index) = self.clients.index(key) else { return false };
        match self.clients.connections[index].state {
            ConnectionState::Connected => self.disconnect(index, ReasonCode::USE_ANOTHER_SERVER, now),
            ConnectionState::Opening => {
                self.detach(index, false, now);
                self.close_when_sent(index);
            }
            // Who has not come to CONNACK is refused there.
            _ => return false,
        }
        true
    }

    /// Whether a drain has come to its end: no client is connected.
    pub fn is_drained(&self) -> bool {
        self.timing.drain.is_some() && self.clients.connections.len() == 0
    }

    /// Disconnects as many clients as the rate allows.
    /// `[MQTT-3.14.4-2]`: the sender of DISCONNECT closes the connection.
    pub(super) fn step_drain(&mut self, now: TimeMs) {
        let Some(drain) = &mut self.timing.drain else { return };
        let passed_ms = now.0.saturating_sub(drain.moved_at.0);
        drain.moved_at = now;
        let per_second = u64::from(drain.plan.per_second.max(1));
        drain.credit = (drain.credit + passed_ms * per_second).min(per_second * 1000);
        loop {
            let reached = self.clients.connections.reached();
            let Some(drain) = &mut self.timing.drain else { return };
            if drain.credit < 1000 || reached == 0 {
                return;
            }
            let start = drain.at;
            let mut places = (0..reached).map(|step| ConnectionIndex::new((start + step) % reached));
            let next = places.find(|index| {
                let connection = &self.clients.connections[*index];
                match connection.state {
                    ConnectionState::Connected | ConnectionState::Opening => true,
                    // A new connection may still send CONNECT, and is then told the other server.
                    ConnectionState::AwaitingConnect => {
                        seconds(now).saturating_sub(connection.last_seen_s) > DRAIN_GREETING_S
                    }
                    ConnectionState::Vacant | ConnectionState::Authenticating | ConnectionState::Closing => false,
                }
            });
            let Some(index) = next else { return };
            drain.at = (index.number() + 1) % reached;
            assert!(drain.credit >= 1000, "the rate allows it");
            drain.credit -= 1000;
            if self.clients.connections[index].state == ConnectionState::Connected {
                self.disconnect(index, ReasonCode::USE_ANOTHER_SERVER, now);
            } else {
                self.detach(index, false, now);
                self.close_when_sent(index);
            }
        }
    }
}

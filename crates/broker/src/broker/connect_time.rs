//! Connections that end at a certain time: when what their clients have shown is good no longer.
//!
//! Promise: each is ended at its time, at most [`ENDS_PER_STEP`] in a step, so that a million that end at once hold
//! nobody up. A connection that has no such time costs nothing here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::ReasonCode;

use super::Broker;
use crate::ConnectionKey;

/// Connections that are ended in one step.
const ENDS_PER_STEP: usize = 256;
/// Times that are kept at least before those of connections that are gone are looked for.
const TIMES_MIN: usize = 64;

/// When which connection ends, the next one first.
#[derive(Debug, Default)]
pub(super) struct ConnectTimes {
    ends: BinaryHeap<Reverse<(TimeMs, u32, u32)>>,
    /// With so many, those of connections that are gone are forgotten.
    forgets_at: usize,
}

impl<L: LogStore> Broker<L> {
    /// The connection ends then, if it is still there.
    pub(super) fn end_at(&mut self, key: ConnectionKey, at: TimeMs) {
        let times = &mut self.timing.connect_times;
        times.ends.push(Reverse((at, key.index, key.generation)));
        if times.ends.len() > times.forgets_at.max(TIMES_MIN) {
            let clients = &self.clients;
            times.ends.retain(|Reverse((_, index, generation))| {
                clients.index(ConnectionKey { index: *index, generation: *generation }).is_some()
            });
            times.forgets_at = 2 * times.ends.len();
        }
    }

    /// Ends connections whose time has come.
    pub(super) fn step_connect_times(&mut self, now: TimeMs) {
        for _ in 0..ENDS_PER_STEP {
            let Some(&Reverse((at, index, generation))) = self.timing.connect_times.ends.peek() else { return };
            if at > now {
                return;
            }
            self.timing.connect_times.ends.pop();
            if let Some(index) = self.clients.index(ConnectionKey { index, generation }) {
                self.clients.facts.expired_closed += 1;
                self.disconnect(index, ReasonCode::MAXIMUM_CONNECT_TIME, now);
            }
        }
    }
}

//! A CONNECT waits while the will of its session is under way: until all who must keep that have it.
//!
//! ```text
//!   CONNECT ─▶ the will of its session is under way? ─no─▶ the session ends, or goes on
//!                 └─ yes ─▶ SentWill ─┬─ all have it ──────────┬─▶ looks again, and waits for no will any more
//!                                     ├─ somebody has no room ─┤
//!                                     ├─ its session has ended ┤
//!                                     └─ WILL_WAIT_MS ─────────┘
//! ```
//!
//! Why: until all have a will, it is on record with its session only. The CONNECT ends that session or gives it another
//! will. If the process ended then, those who did not have the will would never get it.
//!
//! Why not for as long as it takes: the log of a receiver may stand still, or another worker, and a client that has no
//! answer gives up. On a full disk a will may take hours; it waits in memory then. Where a shard has failed, its record
//! is all that is sure of it, until the process is started again.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::Origin;
use tidegate_planted::{Bug, is_planted};

use super::Broker;
use crate::ConnectionKey;
use crate::connection::{ConnectionState, ParkedFor};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::WILL_WAIT_MS;

impl<L: LogStore> Broker<L> {
    /// Whether a CONNECT, which is about to end this session or to give it another will, waits for the one that it has.
    pub(super) fn waits_for_will(&mut self, index: ConnectionIndex, place: SessionIndex, now: TimeMs) -> bool {
        let Some(name) = self.will_under_way(place).filter(|_| !is_planted(Bug::WillReplacedEarly)) else {
            return false;
        };
        let key = self.clients.key(index);
        let connection = &mut self.clients.connections[index];
        let comer = connection.extra().comer.as_mut().expect("who was admitted is somebody");
        if std::mem::replace(&mut comer.has_waited, true) {
            return false;
        }
        connection.park(ParkedFor::SentWill);
        self.timing.wills.wait(name, key, TimeMs(now.0 + WILL_WAIT_MS));
        true
    }

    /// The will of a session that is on record there and on its way to all who must keep it.
    fn will_under_way(&self, place: SessionIndex) -> Option<Origin> {
        let session = &self.clients.sessions[place];
        let state = self.shards.state(session.shard).session(session.slot?)?;
        let name = self.name_of_will(session.shard, state)?;
        self.timing.wills.is_recorded_under_way(name).then_some(name)
    }

    /// A CONNECT has come for this session: an earlier one that waits for the will of that has lost.
    /// `[MQTT-3.1.4-3]`: a second connection with a client id disconnects the first one.
    pub(super) fn outrun_comer(&mut self, index: ConnectionIndex, place: SessionIndex) {
        let key = self.clients.key(index);
        let Some(name) = self.will_under_way(place) else { return };
        let earlier = self.timing.wills.take_comer(name).filter(|earlier| *earlier != key);
        self.outrun(earlier);
    }

    /// A CONNECT that waited has lost against a later one.
    pub(super) fn outrun(&mut self, earlier: Option<ConnectionKey>) {
        let Some(earlier) = earlier.and_then(|key| self.clients.index(key)) else { return };
        let connection = &self.clients.connections[earlier];
        // Its time may be over, and it may have the session.
        if connection.state == ConnectionState::Opening && connection.session.is_none() {
            self.clients.facts.take_overs += 1;
            self.close_when_sent(earlier);
        }
    }

    /// The CONNECT that waits for a will or for an end, if one does, goes on at once.
    pub(super) fn resume_comer(&mut self, comer: Option<ConnectionKey>, waited_for: ParkedFor, now: TimeMs) {
        let Some(index) = comer.and_then(|key| self.clients.index(key)) else { return };
        if self.clients.connections[index].unpark(waited_for) {
            self.resume(index, now);
        }
    }

    /// The same in the next step: its session is being changed now.
    pub(super) fn resume_comer_later(&mut self, comer: Option<ConnectionKey>, waited_for: ParkedFor) {
        let Some((index, key)) = comer.and_then(|key| Some((self.clients.index(key)?, key))) else { return };
        let connection = &mut self.clients.connections[index];
        if connection.unpark(waited_for) {
            self.intake.stall(connection, key);
        }
    }

    /// Those who have waited for as long as they may go on.
    pub(super) fn step_will_wait(&mut self, now: TimeMs) {
        while let Some(comer) = self.timing.wills.take_outwaited(now) {
            self.resume_comer(Some(comer), ParkedFor::SentWill, now);
        }
    }
}

//! What is due: ordered by time, so that it costs nothing while nothing is due.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::command::{DropReason, Slot};
use super::message::Message;
use super::state::{Session, Timer, Topics};
use crate::TimeMs;
use crate::inboxes::EntryState;

/// Something whose time has come. It stays due until a command has dealt with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The will of a session is to be published; then `ClearWill`.
    Will {
        /// The session.
        slot: Slot,
        /// The record that brought it.
        record: u64,
    },
    /// A session is over: `EndSession`.
    SessionExpiry {
        /// The session.
        slot: Slot,
    },
    /// A delayed message is to be published; then `DelayedSent`.
    Delayed {
        /// Which.
        id: u64,
    },
    /// An entry has waited for too long: `Drop`.
    Drop {
        /// The session.
        slot: Slot,
        /// Number of the entry.
        number: u64,
        /// Why.
        reason: DropReason,
    },
}

impl Topics {
    /// What is due at `now`, the longest due first.
    pub fn due(&self, now: TimeMs) -> impl Iterator<Item = Due> + '_ {
        self.timers.iter().take_while(move |(at, _)| *at <= now).map(|(at, timer)| match *timer {
            Timer::Will(slot) => Due::Will { slot, record: self.record_of_will(slot) },
            Timer::SessionEnd(slot) => Due::SessionExpiry { slot },
            Timer::Delayed(id) => Due::Delayed { id },
            Timer::Entry(slot, number) => Due::Drop { slot, number, reason: self.reason_to_drop(slot, number, *at) },
        })
    }

    fn record_of_will(&self, slot: Slot) -> u64 {
        self.session(slot).and_then(Session::will_record).expect("only a will has such a timer")
    }

    fn reason_to_drop(&self, slot: Slot, number: u64, at: TimeMs) -> DropReason {
        let entry = self.session(slot).and_then(|session| session.inbox.entry(number));
        let entry = entry.expect("only what waits has a timer");
        assert!(entry.state == EntryState::Queued, "what its receiver has is not dropped");
        let body = self.bodies.get(entry.body);
        assert!(body.drop_at == at, "an entry is due when its stay is over");
        if body.message.expires_at() == Some(body.drop_at) { DropReason::Expired } else { DropReason::Aged }
    }

    /// What is over, or due, at `time`, and how much of it. The messages of a session that ends are over with it.
    pub(super) fn count_over_at(&self, time: TimeMs) -> [(&'static str, u64); 5] {
        let (mut ended, mut wills, mut delayed, mut waiting) = (BTreeSet::new(), 0, 0, Vec::new());
        for (_, timer) in self.timers.iter().take_while(|(at, _)| *at <= time) {
            match *timer {
                Timer::SessionEnd(slot) => _ = ended.insert(slot),
                Timer::Will(_) => wills += 1,
                Timer::Delayed(_) => delayed += 1,
                Timer::Entry(slot, _) => waiting.push(slot),
            }
        }
        let with_sessions: usize = ended.iter().map(|slot| self.inbox(*slot).len()).sum();
        let alone = waiting.iter().filter(|slot| !ended.contains(slot)).count();
        let is_over = |message: &&Arc<Message>| message.expires_at().is_some_and(|at| at <= time);
        [
            ("sessions", ended.len() as u64),
            ("waiting messages", (with_sessions + alone) as u64),
            ("retained messages", self.retained().filter(is_over).count() as u64),
            ("delayed messages that are due", delayed),
            ("wills that are due", wills),
        ]
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<TimeMs> {
        self.timers.first().map(|(at, _)| *at)
    }
}

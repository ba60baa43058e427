//! What is due: ordered by time, so that it costs nothing while nothing is due.

use super::command::{DropReason, Slot};
use super::state::{Timer, Topics};
use crate::TimeMs;
use crate::queue::EntryState;

/// Something whose time has come. It stays due until a command has dealt with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The will of a session is to be published; then `ClearWill`.
    Will {
        /// The session.
        slot: Slot,
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
            Timer::Will(slot) => Due::Will { slot },
            Timer::SessionEnd(slot) => Due::SessionExpiry { slot },
            Timer::Delayed(id) => Due::Delayed { id },
            Timer::Entry(slot, number) => Due::Drop { slot, number, reason: self.reason_to_drop(slot, number, *at) },
        })
    }

    fn reason_to_drop(&self, slot: Slot, number: u64, at: TimeMs) -> DropReason {
        let entry = self.session(slot).and_then(|session| session.inbox.entry(number));
        let entry = entry.expect("only what waits has a timer");
        assert!(entry.state == EntryState::Queued, "what its receiver has is not dropped");
        let body = self.bodies.get(entry.body);
        assert!(body.drop_at == at, "an entry is due when its stay is over");
        if body.message.expires_at() == Some(body.drop_at) { DropReason::Expired } else { DropReason::Aged }
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<TimeMs> {
        self.timers.first().map(|(at, _)| *at)
    }
}

//! Ends sessions: their clients get the last frames, and their places are given to others.
//!
//! ```text
//!   is_over ─▶ part: sending half shut down ─┬─ the client has ended ─▶ forget
//!                                            └─ it has not ─▶ what it sends is thrown away ─▶ its end ─▶ forget
//! ```
//!
//! A session that parts stays counted among the connections. One that gave way to another is not; of those there are
//! [`GAVE_WAY_MAX`] at most.

use super::super::limits::{GAVE_WAY_MAX, PARTING_BYTES_IN_TURN_MAX, PARTING_BYTES_OF_VISIT_MAX};
use super::super::session::Life;
use super::BinaryPort;
use crate::linger::Ends;

impl<P> BinaryPort<P> {
    /// Ends a session that is over.
    pub(super) fn part(&mut self, key: usize) {
        let session = &mut self.sessions[key];
        assert!(session.is_over(), "its replies find it as long as any are under way");
        let given_back = session.count_ahead(&mut self.ahead);
        assert!(given_back.is_ok(), "what is given back always finds room");
        self.turns.take_back(session.caller, key);
        self.turns.leave(session.caller);
        session.part(&mut self.scratch, self.now_ms, self.stopping);
        self.parting += 1;
        self.go_on_parting(key, &mut PARTING_BYTES_OF_VISIT_MAX.clone());
    }

    /// A session that parts has something to be thrown away.
    pub(super) fn list_parting(&mut self, key: usize) {
        if !std::mem::replace(&mut self.sessions[key].listed, true) {
            self.parted.push_back(key);
        }
    }

    /// Throws away what clients have sent whose sessions part, a turn's worth. Returns whether there was anything.
    pub(super) fn serve_parted(&mut self) -> bool {
        let (worked, mut left) = (!self.parted.is_empty(), PARTING_BYTES_IN_TURN_MAX);
        for _ in 0..self.parted.len() {
            if left == 0 {
                break;
            }
            let Some(key) = self.parted.pop_front() else { break };
            // It may be gone, and another may stand at its place.
            let Some(session) = self.sessions.get_mut(key).filter(|session| session.is_parting()) else { continue };
            session.listed = false;
            let before = left.min(PARTING_BYTES_OF_VISIT_MAX);
            let mut of_visit = before;
            self.go_on_parting(key, &mut of_visit);
            left -= before - of_visit;
        }
        worked
    }

    fn go_on_parting(&mut self, key: usize, bytes_max: &mut usize) {
        match self.sessions[key].go_on_parting(&mut self.scratch, bytes_max) {
            Ends::Now => self.forget(key),
            Ends::Later => {}
            Ends::Reads => self.list_parting(key),
        }
    }

    /// Forgets sessions that part for too long.
    pub(super) fn end_parting(&mut self, now_ms: u64) {
        if self.parting == 0 {
            return;
        }
        let overdue = self.sessions.iter().filter(|(_, session)| session.parts_too_long(now_ms));
        for key in overdue.map(|(key, _)| key).collect::<Vec<usize>>() {
            self.forget(key);
        }
    }

    /// A session that parts gave way to another. The oldest of too many such are forgotten.
    pub(super) fn note_gave_way(&mut self, key: usize) {
        self.gave_way.push_back(key);
        if self.gave_way.len() > GAVE_WAY_MAX {
            let oldest = self.gave_way[0];
            self.forget(oldest);
        }
    }

    /// Drops a session that parts.
    pub(super) fn forget(&mut self, key: usize) {
        let mut session = self.sessions.remove(key);
        assert!(matches!(session.life, Life::Parting(_)), "who is forgotten was told so");
        self.parting -= 1;
        self.gave_way.retain(|other| *other != key);
        session.leave_poll(self.poll.as_ref().expect("it was registered"));
        self.connections.leave(&mut session.entered);
        self.metrics.connections_open.set(self.sessions.len() as i64);
    }
}

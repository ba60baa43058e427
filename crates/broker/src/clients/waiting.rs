//! What waits in memory for the clients of one worker, of all together: in their outboxes, in the inboxes of sessions
//! that end with their connection, and what of share groups is not acknowledged or left to others.
//!
//! ```text
//!   one more publication ─ has its client a share of what is left? ─┬─ yes ─▶ outbox, or inbox
//!                                                                   └─ no ──▶ as if its own were full
//! ```
//!
//! Promise: however many clients take nothing, they hold no more than the bound of all. Each may have so many times as
//! much as is left for others, so the more hold something, the less each of them may; a quarter is left to those who
//! take what they are sent, and half to those with a user. Who is to get what is durable and has no room only because
//! others hold it is tried again.
//!
//! Why shares and not first come, first served: those who take nothing come first.

use std::collections::VecDeque;

use super::Clients;
use super::send::is_anonymous;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{ANONYMOUS_PART, WAITING_FLOWING_PART, WAITING_SCARCE_PART, WAITING_SHARE};
use crate::session::{SessionFlags, SessionRef};

/// What waits behind outboxes, and who is tried again.
#[derive(Debug, Default)]
pub(crate) struct Backlogs {
    bytes: u64,
    /// Those of clients without a user.
    anonymous_bytes: u64,
    /// Sessions with an empty outbox for which something waits: no socket says that there is room.
    starved: VecDeque<SessionRef>,
}

impl Clients {
    /// Whether the outbox takes another publication, of about so many bytes.
    #[inline]
    pub fn outbox_has_room(&self, index: ConnectionIndex, bytes: usize) -> bool {
        let held = self.outbox_len(index);
        held < self.own_outbox_bytes_max(index)
            && (!self.is_scarce(bytes) || self.has_share(index, held, bytes, self.is_stuck(index)))
    }

    /// Bytes that may wait in a connection's outbox.
    #[inline]
    pub fn outbox_bytes_max(&self, index: ConnectionIndex) -> usize {
        let own = self.own_outbox_bytes_max(index);
        if !self.is_scarce(0) {
            return own;
        }
        let left = self.left_of_all(index, self.is_stuck(index));
        own.min(usize::try_from(left.saturating_mul(WAITING_SHARE)).unwrap_or(usize::MAX))
    }

    /// Whether all may hold so many more bytes behind the outbox of a client that holds `held` there.
    pub fn inbox_has_share(&self, index: ConnectionIndex, held: usize, bytes: usize) -> bool {
        !self.is_scarce(bytes) || self.has_share(index, held, bytes, true)
    }

    /// Whether so much would wait that shares are looked at.
    #[inline]
    pub(super) fn is_scarce(&self, bytes: usize) -> bool {
        self.waiting_bytes() + bytes as u64 > self.limits.waiting_bytes_max / WAITING_SCARCE_PART
    }

    /// Whether a client that holds `held` may hold so many bytes more.
    #[cold]
    fn has_share(&self, index: ConnectionIndex, held: usize, bytes: usize, is_slow: bool) -> bool {
        let left = self.left_of_all(index, is_slow).checked_sub(bytes as u64);
        left.is_some_and(|left| (held + bytes) as u64 <= WAITING_SHARE.saturating_mul(left))
    }

    /// Bytes that may still come to wait for a client like this one.
    fn left_of_all(&self, index: ConnectionIndex, is_slow: bool) -> u64 {
        let all = self.limits.waiting_bytes_max;
        let for_flowing = if is_slow { all / WAITING_FLOWING_PART } else { 0 };
        let left = (all - for_flowing).saturating_sub(self.waiting_bytes());
        if !is_anonymous(&self.connections[index]) {
            return left;
        }
        let waiting = self.outboxes.anonymous_bytes() + self.backlogs.anonymous_bytes;
        left.min((all / ANONYMOUS_PART).saturating_sub(waiting))
    }

    /// Bytes that wait in outboxes and behind them.
    pub fn waiting_bytes(&self) -> u64 {
        self.outboxes.unsent_bytes() + self.backlogs.bytes
    }

    /// What waits behind the outbox of a session has changed from so many bytes.
    pub fn settle_backlog(&mut self, session: SessionIndex, before: usize) {
        let Some(flow) = &self.sessions[session].flow else {
            assert!(before == 0, "what waits is somewhere");
            return;
        };
        let (after, is_anonymous) = (flow.backlog.bytes() as u64, flow.backlog.is_anonymous);
        self.backlogs.change(before as u64, after, is_anonymous);
    }

    /// Nothing waits behind the outbox of a session any more.
    pub fn drop_backlog(&mut self, session: SessionIndex) {
        if let Some(flow) = &mut self.sessions[session].flow {
            let backlog = std::mem::take(&mut flow.backlog);
            self.backlogs.change(backlog.bytes() as u64, 0, backlog.is_anonymous);
        }
    }

    /// Something waits for a session whose outbox has no room for it. If nothing is in there, no socket will say that
    /// there is room: it is tried again.
    pub fn hold_back(&mut self, session: SessionIndex, index: ConnectionIndex) {
        self.sessions[session].flags.set(SessionFlags::HELD_BACK);
        if self.outbox_len(index) > 0 || self.sessions[session].flags.has(SessionFlags::STARVED) {
            return;
        }
        self.sessions[session].flags.set(SessionFlags::STARVED);
        let starved = self.session_ref(session);
        self.backlogs.starved.push_back(starved);
    }

    /// How many sessions are to be tried again.
    pub fn starved(&self) -> usize {
        self.backlogs.starved.len()
    }

    /// The next of them, if it is still there.
    pub fn take_starved(&mut self) -> Option<SessionIndex> {
        let starved = self.backlogs.starved.pop_front()?;
        let place = self.session(starved)?;
        self.sessions[place].flags.clear(SessionFlags::STARVED);
        Some(place)
    }

    /// Panics if the bytes behind outboxes are not those that are counted. Visits everything: for tests and simulation.
    pub fn assert_backlogs_sound(&self) {
        let flows = || self.sessions.in_use().filter_map(|place| self.sessions[place].flow.as_ref());
        let bytes: usize = flows().map(|flow| flow.backlog.bytes()).sum();
        let anonymous: usize = flows().filter(|flow| flow.backlog.is_anonymous).map(|flow| flow.backlog.bytes()).sum();
        assert_eq!((bytes + self.left.bytes()) as u64, self.backlogs.bytes, "bytes behind outboxes");
        assert_eq!(anonymous as u64, self.backlogs.anonymous_bytes, "those of clients without a user");
    }
}

impl Backlogs {
    pub(super) fn change(&mut self, before: u64, after: u64, is_anonymous: bool) {
        assert!(before <= self.bytes, "what leaves was counted when it came");
        self.bytes = self.bytes - before + after;
        if is_anonymous {
            self.anonymous_bytes = self.anonymous_bytes - before + after;
        }
    }
}

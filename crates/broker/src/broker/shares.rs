//! Clients that are to take what they are sent: members of share groups, and, where a full inbox refuses publications,
//! sessions that have one. All workers are told of members, because each picks them for itself.
//!
//! ```text
//!            window or outbox full, or the socket stuck          nothing taken for share_stalled_s
//!   Ready ─────────────────────────────────────────────▶ Busy ────────────────────────────────────▶ Away
//!     ▲ ◀───────── room for a quarter of the window ─────── ▲ ◀──────── something is taken ───────────┘
//! ```
//!
//! Why a quarter: a member that is always at its bound would have all workers told of each acknowledgement.

use std::collections::BTreeMap;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;

use super::Broker;
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{LEFT_PER_LOOK, SHARES_LOOK_MS, SHARES_LOOKS};
use crate::peer::Item;
use crate::session::{SessionFlags, SessionRef};
use crate::subscriptions::{Entry, Presence};
use crate::{ShareStrategy, share};

/// Sessions that have something to take.
#[derive(Debug, Default)]
pub(super) struct Shares {
    owing: BTreeMap<SessionIndex, Owing>,
    looked_at: TimeMs,
    /// Where the next look begins.
    next: SessionIndex,
}

/// Since when a client takes nothing of what it is sent.
#[derive(Clone, Copy, Debug)]
struct Owing {
    /// When it last took some, or got it. Later by the time for which it was away.
    since: TimeMs,
    /// Since when it is away.
    away_at: Option<TimeMs>,
}

impl Owing {
    /// For how long it takes nothing while it is connected, in milliseconds.
    fn for_ms(self, now: TimeMs) -> u64 {
        self.away_at.unwrap_or(now).0.saturating_sub(self.since.0)
    }
}

impl Shares {
    /// A session is over.
    pub fn forget(&mut self, place: SessionIndex) {
        self.owing.remove(&place);
    }
}

impl<L: LogStore> Broker<L> {
    /// How far a session is there for what is shared.
    pub(super) fn presence_of(&self, place: SessionIndex) -> Presence {
        let session = &self.clients.sessions[place];
        match session.connection {
            Some(_) if session.flags.has(SessionFlags::SHARE_STALLED) => Presence::Away,
            Some(_) if session.flags.has(SessionFlags::SHARE_BUSY) => Presence::Busy,
            Some(_) => Presence::Ready,
            None => Presence::Away,
        }
    }

    /// Tells all workers how far a member of share groups is there.
    pub(super) fn send_presence(&mut self, place: SessionIndex) {
        let session = &self.clients.sessions[place];
        if !session.flags.has(SessionFlags::SHARED) {
            return;
        }
        let (owner, presence) = (self.owner(place), self.presence_of(place));
        for node in session.subscriptions.as_slice() {
            if self.subscriptions.is_shared(*node) {
                let is_known = self.subscriptions.set_presence(*node, owner, presence);
                assert!(is_known, "a session's subscriptions are in the tree");
                let filter = self.subscriptions.filter(*node);
                self.peers.broadcast(|| Item::Presence { filter: filter.as_str().into(), owner, presence });
            }
        }
    }

    /// The connection of a member has come or gone: nothing is known of what it takes.
    pub(super) fn presence_begins(&mut self, place: SessionIndex) {
        let flags = &mut self.clients.sessions[place].flags;
        flags.clear(SessionFlags::SHARE_BUSY);
        flags.clear(SessionFlags::SHARE_STALLED);
        self.send_presence(place);
    }

    /// A client has come back to its session. Its time goes on where it stood: who comes and goes and takes nothing
    /// does not begin anew.
    pub(super) fn member_comes(&mut self, place: SessionIndex, now: TimeMs) {
        if let Some(owing) = self.shares.owing.get_mut(&place)
            && let Some(away_at) = owing.away_at.take()
        {
            owing.since.0 += now.0.saturating_sub(away_at.0);
        }
        self.passing.is_back(place);
        let operator = self.forget_ending(place);
        assert!(operator.is_none(), "a session that an operator ends is not come back to");
        self.presence_begins(place);
    }

    /// The client of a session has gone.
    pub(super) fn member_leaves(&mut self, place: SessionIndex, now: TimeMs) {
        let session = &self.clients.sessions[place];
        if session.flags.has(SessionFlags::SHARED) && session.is_durable() {
            self.passing.is_left(place, Some(now));
        }
        if !self.may_refuse(place) {
            self.shares.owing.remove(&place);
        } else if let Some(owing) = self.shares.owing.get_mut(&place) {
            owing.away_at.get_or_insert(now);
        }
    }

    /// Whether the full inbox of a session may keep a publication from everybody.
    fn may_refuse(&self, place: SessionIndex) -> bool {
        self.options.limits.refuse_stalled_ms.is_some() && self.clients.sessions[place].is_durable()
    }

    /// Whether it matters what a client takes.
    fn is_watched(&self, place: SessionIndex) -> bool {
        self.clients.sessions[place].flags.has(SessionFlags::SHARED) || self.may_refuse(place)
    }

    /// Whether the full inbox of a session refuses nothing, because its client takes nothing.
    pub(super) fn is_unheeded(&self, place: SessionIndex, now: TimeMs) -> bool {
        let Some(stalled_ms) = self.options.limits.refuse_stalled_ms else { return false };
        self.shares.owing.get(&place).is_some_and(|owing| owing.for_ms(now) >= stalled_ms)
    }

    /// A member was sent something, or has taken it: whether it takes more at once.
    pub(super) fn look_at_member(&mut self, place: SessionIndex, now: TimeMs) {
        if !self.is_watched(place) {
            return;
        }
        let Some(index) = self.clients.connected(place) else { return };
        if self.owes(place, index) {
            self.shares.owing.entry(place).or_insert(Owing { since: now, away_at: None });
        } else {
            self.shares.owing.remove(&place);
        }
        if !self.clients.sessions[place].flags.has(SessionFlags::SHARED) {
            return;
        }
        let was_busy = self.clients.sessions[place].flags.has(SessionFlags::SHARE_BUSY);
        let is_busy = self.is_busy(place, index, was_busy);
        if is_busy != was_busy {
            self.set_share_flag(place, SessionFlags::SHARE_BUSY, is_busy);
        }
    }

    /// The same for one that was picked, if it is still there.
    pub(super) fn look_at_picked(&mut self, entry: &Entry, now: TimeMs) {
        if let Some(place) = self.clients.session(SessionRef { index: entry.session, generation: entry.generation }) {
            self.look_at_member(place, now);
        }
    }

    /// What share groups go by of a client, if they do.
    pub(super) fn share_hash_of(&self, client_id: &str) -> u64 {
        match self.options.limits.share_strategy {
            ShareStrategy::HashClient => share::hash(client_id),
            _ => 0,
        }
    }

    /// A client has acknowledged something.
    pub(super) fn member_acknowledges(&mut self, place: SessionIndex, now: TimeMs) {
        if !self.is_watched(place) {
            return;
        }
        if let Some(owing) = self.shares.owing.get_mut(&place) {
            owing.since = now;
        }
        if self.clients.sessions[place].flags.has(SessionFlags::SHARE_STALLED) {
            self.passing.is_back(place);
            self.set_share_flag(place, SessionFlags::SHARE_STALLED, false);
        }
    }

    /// The socket of a client took bytes. What it is to acknowledge it has not taken by that: the bytes may wait in
    /// the buffers between us.
    pub(super) fn member_takes_bytes(&mut self, place: SessionIndex, now: TimeMs) {
        if self.is_watched(place) {
            let flow = self.clients.sessions[place].flow.as_ref();
            if flow.is_none_or(|flow| flow.window.in_flight() == 0) {
                self.member_acknowledges(place, now);
            }
            self.look_at_member(place, now);
        }
    }

    /// Looks at some of the members that have something to take.
    pub(super) fn step_shares(&mut self, now: TimeMs) {
        if now.0.saturating_sub(self.shares.looked_at.0) < SHARES_LOOK_MS {
            return;
        }
        self.shares.looked_at = now;
        let stalled_ms = self.options.limits.share_stalled_ms;
        let is_stalled = |owing: &Owing| stalled_ms > 0 && owing.for_ms(now) >= stalled_ms;
        let is_member = |place: &SessionIndex| self.clients.sessions[*place].flags.has(SessionFlags::SHARED);
        let looked_at = self.shares.owing.range(self.shares.next..).take(SHARES_LOOKS);
        let last = looked_at.clone().nth(SHARES_LOOKS - 1).map(|(place, _)| *place);
        let members = looked_at.filter(|(place, owing)| owing.away_at.is_none() && is_member(place));
        let members: Vec<_> = members.map(|(place, owing)| (*place, is_stalled(owing))).collect();
        // A look that came to the end is followed by one from the beginning.
        self.shares.next = SessionIndex::new(last.map_or(0, |last| last.number() + 1));
        let mut left = 0;
        for (place, is_stalled) in members {
            if left >= LEFT_PER_LOOK {
                self.shares.next = place;
                return;
            }
            let is_new = is_stalled && !self.clients.sessions[place].flags.has(SessionFlags::SHARE_STALLED);
            if is_new {
                self.clients.facts.shares_stalled += 1;
                self.set_share_flag(place, SessionFlags::SHARE_STALLED, true);
                // It had its time.
                if self.clients.sessions[place].is_durable() {
                    self.passing.is_left(place, Some(TimeMs(0)));
                }
            }
            // In each look: somebody may be ready now who was not before.
            if is_stalled && !self.clients.sessions[place].is_durable() {
                left += self.leave_to_ready(place);
            }
            self.look_at_member(place, now);
        }
    }

    fn set_share_flag(&mut self, place: SessionIndex, flag: SessionFlags, is_set: bool) {
        let (before, flags) = (self.presence_of(place), &mut self.clients.sessions[place].flags);
        if is_set {
            flags.set(flag);
        } else {
            flags.clear(flag);
        }
        if self.presence_of(place) != before {
            self.send_presence(place);
        }
    }

    /// Whether a member has something to take or to acknowledge.
    fn owes(&self, place: SessionIndex, index: ConnectionIndex) -> bool {
        let flow = self.clients.sessions[place].flow.as_ref();
        self.clients.outbox_len(index) > 0
            || flow.is_some_and(|flow| flow.window.in_flight() > 0 || !flow.backlog.is_empty())
    }

    /// Whether one more would have to wait. A member that was busy is so until a quarter of its window is free.
    fn is_busy(&self, place: SessionIndex, index: ConnectionIndex, was_busy: bool) -> bool {
        let window_max = u32::from(self.clients.connections[index].window_max);
        let open_max = if was_busy { window_max / 4 * 3 + window_max % 4 } else { window_max };
        let flow = self.clients.sessions[place].flow.as_ref();
        let in_flight = flow.map_or(0, |flow| flow.window.in_flight()) + u32::from(self.beside_window(place));
        let is_full = in_flight >= open_max || flow.is_some_and(|flow| !flow.backlog.is_empty());
        let has_room = self.clients.outbox_len(index) < self.clients.own_outbox_bytes_max(index);
        is_full || !has_room || self.clients.is_stuck(index)
    }

    /// Panics if what is known of members disagrees with them. Visits everything: for tests and simulation.
    pub(super) fn assert_shares_sound(&self) {
        for (place, owing) in &self.shares.owing {
            let is_there = self.clients.sessions[*place].connection.is_some();
            assert_eq!(owing.away_at.is_none(), is_there, "whoever has something to take is there, or its time stands");
        }
    }
}

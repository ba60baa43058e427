//! What a client has to do with share groups: some publish to a pool, and others take from it together.
//!
//! ```text
//!   any client ─▶ pool/2 ─▶ $share/g0/pool/#: clients 0, 2, 4 …    each message to one of them
//!                       └─▶ $share/g1/pool/#: clients 1, 3, 5 …    and to one of these
//! ```
//!
//! A client never leaves its group but with its session, and has no other subscription of the pool: so what it hears of
//! that came by its group.

use super::SimClient;
use crate::gateway::oracle::POOL;

/// How a seed's clients share.
#[derive(Clone, Copy, Debug)]
pub struct ShareHabits {
    /// How many groups; with none nobody publishes to the pool.
    pub groups: usize,
    /// Whether clients join them whose sessions end with their connections.
    pub clean: bool,
    /// After so long a member that takes nothing has its messages given to others, in milliseconds.
    pub stalled_ms: u64,
}

impl ShareHabits {
    /// Nothing is shared.
    pub const NONE: ShareHabits = ShareHabits { groups: 0, clean: false, stalled_ms: 60_000 };

    /// Whether what a member does not take may be given to another within a run.
    pub fn passes_on(self) -> bool {
        self.stalled_ms < Self::NONE.stalled_ms
    }
}

impl SimClient {
    /// Whether the next message is for the pool.
    pub(super) fn publishes_to_pool(&mut self) -> bool {
        self.shares.groups > 0 && self.chance.happens(400)
    }

    /// Whether the next subscription is to its group.
    pub(super) fn joins(&mut self) -> bool {
        let may_join = self.durable || self.shares.clean;
        may_join && self.shares.groups > 0 && !self.rooms.contains_key(POOL) && self.chance.happens(600)
    }

    /// The filter of its group.
    pub(super) fn group_filter(&self) -> String {
        format!("$share/g{}/{POOL}/#", self.index % self.shares.groups)
    }
}

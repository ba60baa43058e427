//! Campaigns that are looked at seldom, because they have had no money for long.
//!
//! ```text
//!   no money at a look, for PATIENCE_MS ─▶ out of the index, for REST_MS ─▶ in it again, for a look
//!   a lease, or another plan ────────────────────────────────────────────▶ in it again, at once
//! ```
//!
//! Why: an auction looks at so many campaigns and no more, from the highest price down. A thousand campaigns that never
//! get any money, with prices above all others, would keep those that have some from being looked at.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use tidegate_machines::TimeMs;

/// So long a campaign may wait for its next lease: more than one takes, also behind a restart of the ledger.
const PATIENCE_MS: u64 = 2_000;
/// A campaign at rest is looked at so often, so that its strategy and whoever leases money know that it is wanted.
const REST_MS: u64 = 500;

/// Campaigns without money.
#[derive(Default)]
pub(in crate::bidder) struct Resting {
    /// Since when looks have found none.
    without_since: HashMap<u32, TimeMs>,
    /// Those that stand in no list of the index.
    resting: HashSet<u32>,
    /// Until when, the first to end first. One that came back before stands here all the same.
    ends: VecDeque<(TimeMs, u32)>,
    /// Those that are to rest from the end of this auction on.
    tired: Vec<u32>,
}

impl Resting {
    /// A look has found no money.
    pub fn note(&mut self, campaign: u32, now: TimeMs) {
        let since = *self.without_since.entry(campaign).or_insert(now);
        if now.0.saturating_sub(since.0) >= PATIENCE_MS {
            self.tired.push(campaign);
        }
    }

    /// Those that rest from now on.
    pub fn begin(&mut self, now: TimeMs) -> Vec<u32> {
        let mut tired = std::mem::take(&mut self.tired);
        // Each impression of a request has looked at it.
        tired.retain(|campaign| self.resting.insert(*campaign));
        self.ends.extend(tired.iter().map(|campaign| (TimeMs(now.0 + REST_MS), *campaign)));
        tired
    }

    /// Those whose rest is over.
    pub fn over(&mut self, now: TimeMs) -> Vec<u32> {
        // A clock that was set back makes nobody rest for longer.
        let is_over = |end: TimeMs| end <= now || end.0 > now.0 + REST_MS;
        let mut over = Vec::new();
        while let Some((_, campaign)) = self.ends.front().copied().filter(|(end, _)| is_over(*end)) {
            self.ends.pop_front();
            if self.resting.remove(&campaign) {
                over.push(campaign);
            }
        }
        over
    }

    /// The campaign has another plan. Whether it was at rest, and is no longer.
    pub fn leave(&mut self, campaign: u32) -> bool {
        self.resting.remove(&campaign)
    }

    /// The campaign has money, or has ended. Whether it was at rest, and is no longer.
    pub fn funded(&mut self, campaign: u32) -> bool {
        self.without_since.remove(&campaign);
        self.leave(campaign)
    }
}

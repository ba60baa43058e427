//! Campaigns that have had no money for long: an auction looks at them seldom.
//!
//! ```text
//!   no money at each look for UNFUNDED_MS ─▶ out of the index ─▶ after UNLISTED_MS in it again, for one look
//!   a lease, or another plan ─────────────▶ in the index again, at once
//! ```
//!
//! Why: an auction looks at so many campaigns and no more, from the highest price down. A thousand campaigns that never
//! get any money, with prices above all others, would keep those that have some from being looked at.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use tidegate_machines::TimeMs;

/// How long a campaign may wait for its next lease and be looked at as before: longer than a ledger takes to start.
const UNFUNDED_MS: u64 = 2_000;
/// After this, one that stands in no list is looked at again, so that its strategy and whoever leases money know that
/// it is wanted.
const UNLISTED_MS: u64 = 500;

/// Campaigns without money.
#[derive(Default)]
pub(in crate::bidder) struct Unfunded {
    /// Since when looks have found none.
    since: HashMap<u32, TimeMs>,
    /// Those that stand in no list of the index.
    unlisted: HashSet<u32>,
    /// Until when, the first first. One that came back before stands here all the same.
    ends: VecDeque<(TimeMs, u32)>,
    /// Found without money for too long by the auction that is under way.
    found: Vec<u32>,
}

impl Unfunded {
    /// A look has found no money.
    pub fn note(&mut self, campaign: u32, now: TimeMs) {
        let since = *self.since.entry(campaign).or_insert(now);
        if now.0.saturating_sub(since.0) >= UNFUNDED_MS {
            self.found.push(campaign);
        }
    }

    /// Those that leave the index at the end of an auction.
    pub fn unlist(&mut self, now: TimeMs) -> Vec<u32> {
        let mut found = std::mem::take(&mut self.found);
        // Each impression of a request has looked at it.
        found.retain(|campaign| self.unlisted.insert(*campaign));
        self.ends.extend(found.iter().map(|campaign| (TimeMs(now.0 + UNLISTED_MS), *campaign)));
        found
    }

    /// Those that are to be looked at again.
    pub fn due(&mut self, now: TimeMs) -> Vec<u32> {
        // A clock that was set back lets nobody wait for longer.
        let is_due = |end: TimeMs| end <= now || end.0 > now.0 + UNLISTED_MS;
        let mut due = Vec::new();
        while let Some((_, campaign)) = self.ends.front().copied().filter(|(end, _)| is_due(*end)) {
            self.ends.pop_front();
            if self.unlisted.remove(&campaign) {
                due.push(campaign);
            }
        }
        due
    }

    /// The campaign has another plan. Whether it stood in no list until now.
    pub fn relist(&mut self, campaign: u32) -> bool {
        self.unlisted.remove(&campaign)
    }

    /// The campaign has money, or has ended. Whether it stood in no list until now.
    pub fn forget(&mut self, campaign: u32) -> bool {
        self.since.remove(&campaign);
        self.relist(campaign)
    }
}

//! How often users were bid for, over all workers: the only thing that they share. What it is, and its error, is said
//! in `crates/frequency`.

use tidegate_frequency::{Cap, User};
use tidegate_machines::TimeMs;

use crate::openrtb::OwnerHash;
use crate::plan::FrequencyCap;

/// Most bids that are counted for a user.
pub const BIDS_MAX: u32 = tidegate_frequency::COUNT_MAX;
pub use tidegate_frequency::WINDOW_S_MAX;

/// Users that were bid for.
pub struct FrequencyTable(tidegate_frequency::FrequencyTable);

impl FrequencyTable {
    /// Remembers about so many users at once.
    pub fn new(users: usize) -> FrequencyTable {
        FrequencyTable(tidegate_frequency::FrequencyTable::new(users))
    }

    /// Users that were forgotten before their windows had ended, and may be bid for more often than they should.
    pub fn forgotten(&self) -> u64 {
        self.0.forgotten()
    }

    /// Counts a bid for a user, whose `hash` is of user and campaign, for a campaign of `owner`. Returns whether it may
    /// be made.
    #[inline]
    pub fn count(&self, hash: u64, owner: OwnerHash, cap: FrequencyCap, now: TimeMs) -> bool {
        let FrequencyCap { bids_max, window_s } = cap;
        self.0.count(User { hash, owner: owner as u8 }, Cap { count_max: bids_max, window_s }, now.0 / 1_000)
    }
}

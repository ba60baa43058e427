//! What a server said, counted.

use std::ops::Sub;
use tidegate_wire::pacer::{NoBidReason, NoticeOutcome};

/// No-bid reasons that have a name, and the unspecified.
pub const REASONS: [NoBidReason; 8] = [
    NoBidReason::Unspecified,
    NoBidReason::CampaignUnknown,
    NoBidReason::NotInFlight,
    NoBidReason::NotTargeted,
    NoBidReason::Throttled,
    NoBidReason::FrequencyCapped,
    NoBidReason::NoLease,
    NoBidReason::PriceAboveCap,
];

/// Outcomes of notices that have a name, and the unspecified.
pub const OUTCOMES: [NoticeOutcome; 8] = [
    NoticeOutcome::Unspecified,
    NoticeOutcome::Taken,
    NoticeOutcome::Duplicate,
    NoticeOutcome::Late,
    NoticeOutcome::TokenInvalid,
    NoticeOutcome::PriceAboveBid,
    NoticeOutcome::Lost,
    NoticeOutcome::Won,
];

/// Codes of refusals that say "not now", and one for all others.
pub const REFUSALS: [&str; 5] = ["busy", "recovering", "too_many_requests", "timed_out", "other"];

/// How often a server said what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Bids.
    pub bids: u64,
    /// No bids, by the number of the reason.
    pub no_bids: [u64; REASONS.len()],
    /// Notices of wins, by the number of the outcome.
    pub notices: [u64; OUTCOMES.len()],
    /// Packets and notices that were refused, by the place of the code in [`REFUSALS`].
    pub refused: [u64; REFUSALS.len()],
}

impl Answers {
    /// Counts that there was no bid.
    #[inline]
    pub fn no_bid(&mut self, reason: NoBidReason) {
        self.no_bids[reason as usize] += 1;
    }

    /// Counts what became of a notice.
    #[inline]
    pub fn notice(&mut self, outcome: NoticeOutcome) {
        self.notices[outcome as usize] += 1;
    }

    /// Counts a refusal by its code.
    pub fn refuse(&mut self, code: &str) {
        let known = REFUSALS.iter().position(|known| *known == code);
        self.refused[known.unwrap_or(REFUSALS.len() - 1)] += 1;
    }

    /// Refusals of all kinds.
    pub fn refusals(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// Bid requests answered.
    pub fn requests(&self) -> u64 {
        self.bids + self.no_bids.iter().sum::<u64>()
    }
}

impl Sub for Answers {
    type Output = Answers;

    fn sub(self, before: Answers) -> Answers {
        Answers {
            bids: self.bids - before.bids,
            no_bids: std::array::from_fn(|reason| self.no_bids[reason] - before.no_bids[reason]),
            notices: std::array::from_fn(|outcome| self.notices[outcome] - before.notices[outcome]),
            refused: std::array::from_fn(|code| self.refused[code] - before.refused[code]),
        }
    }
}

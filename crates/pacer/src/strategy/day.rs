//! How the requests of a day are spread over it, as it was learned from the days before.
//!
//! Promise: whatever the weights are, each quarter of an hour has a share above zero, and the shares add up to one day.
//! Why: plans are divided by what is still to come, also at night where nothing was ever seen.

use tidegate_machines::TimeMs;

/// Quarters of an hour in a day.
pub const QUARTERS: usize = 96;

const QUARTER_MS: u64 = 15 * 60 * 1_000;
const DAY_MS: u64 = QUARTERS as u64 * QUARTER_MS;

/// A quarter has at least this part of what an average one has.
const SHARE_MIN: f64 = 1e-3;

/// How the requests of a day are spread over it. Days are those of UTC: a profile that is learned by it needs no zone,
/// and no day of it is longer than another.
#[derive(Clone, Debug, PartialEq)]
pub struct Day {
    /// The share of the day that is before each quarter, and 1 at the end.
    before: [f64; QUARTERS + 1],
}

impl Day {
    /// Each quarter of an hour has the same share.
    pub fn flat() -> Day {
        Day::new(&[1.0; QUARTERS])
    }

    /// The quarters have shares in proportion to these weights. What is no number, or below zero, counts as zero.
    pub fn new(weights: &[f64; QUARTERS]) -> Day {
        // Weights so high that their sum has no number are cut. The sum of the others is a number.
        let weights = weights.map(|weight| super::within(weight, 0.0, 1e300));
        let sum: f64 = weights.iter().sum();
        let weights = if sum > 0.0 { weights.map(|weight| weight / sum) } else { [1.0 / QUARTERS as f64; QUARTERS] };
        let weights = weights.map(|weight| weight.max(SHARE_MIN / QUARTERS as f64));
        let sum: f64 = weights.iter().sum();
        let mut before = [0.0; QUARTERS + 1];
        for (quarter, weight) in weights.iter().enumerate() {
            before[quarter + 1] = before[quarter] + weight / sum;
        }
        before[QUARTERS] = 1.0;
        Day { before }
    }

    /// The share of the day that is before each quarter, and 1 at the end.
    pub fn shares(&self) -> &[f64; QUARTERS + 1] {
        &self.before
    }

    /// The day of [`shares`](Day::shares); `None` if they are those of no day: they rise from 0 to 1.
    pub fn of_shares(before: [f64; QUARTERS + 1]) -> Option<Day> {
        let rises = before.windows(2).all(|pair| pair[0] < pair[1]);
        (rises && before[0] == 0.0 && before[QUARTERS] == 1.0).then_some(Day { before })
    }

    /// How many days' requests come from one time to another: 1 for a whole day. Zero if they are in the other order.
    pub fn between(&self, from: TimeMs, to: TimeMs) -> f64 {
        if to <= from {
            return 0.0;
        }
        // Whole days are counted first: the share of a day has more digits than a date would leave it.
        let days = (to.0 / DAY_MS - from.0 / DAY_MS) as f64;
        (days + (self.share_before(to) - self.share_before(from))).max(0.0)
    }

    /// The share of a day's requests that comes in a millisecond at this time. It is above zero.
    pub fn per_ms(&self, at: TimeMs) -> f64 {
        let quarter = quarter_of(at);
        (self.before[quarter + 1] - self.before[quarter]) / QUARTER_MS as f64
    }

    /// The share of its day's requests that comes before a time.
    fn share_before(&self, at: TimeMs) -> f64 {
        let quarter = quarter_of(at);
        let in_quarter = (at.0 % QUARTER_MS) as f64 / QUARTER_MS as f64;
        self.before[quarter] + (self.before[quarter + 1] - self.before[quarter]) * in_quarter
    }
}

/// Which quarter of its day a time is in.
fn quarter_of(at: TimeMs) -> usize {
    (at.0 % DAY_MS / QUARTER_MS) as usize
}

//! The results of a load: outcomes, rate over the whole load and over its first and last million, and latencies.

use histogram::Histogram;
use std::fmt;
use std::time::Duration;

/// The stretch over which the first and the last rate are taken.
const STRETCH_TRANSFERS: u64 = 1_000_000;

/// How many transfers came to which end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Applied now.
    pub applied: u64,
    /// Applied before under the same id.
    pub duplicate: u64,
    /// Refused.
    pub refused: u64,
}

impl Outcomes {
    /// Of all ends.
    pub fn total(self) -> u64 {
        self.applied + self.duplicate + self.refused
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} applied, {} duplicate, {} refused", self.applied, self.duplicate, self.refused)
    }
}

/// The measurements of one load.
pub struct Tally {
    outcomes: Outcomes,
    expected: u64,
    latency_ns: Histogram,
    /// When the first stretch was complete, in nanoseconds since the start.
    first_stretch_ns: Option<u64>,
    /// When the last stretch began.
    last_stretch_from: Option<(u64, u64)>,
    elapsed: Duration,
}

impl Tally {
    /// For a load of `expected` transfers.
    pub fn new(expected: u64) -> Tally {
        Tally {
            outcomes: Outcomes::default(),
            expected,
            // Seven bits of grouping: buckets 0.8 % wide, up to 2^37 ns = 137 s.
            latency_ns: Histogram::new(7, 37).expect("the histogram's powers are constants"),
            first_stretch_ns: None,
            last_stretch_from: None,
            elapsed: Duration::ZERO,
        }
    }

    /// Counts the answer to one request that arrived at `now`.
    #[inline]
    pub fn add(&mut self, outcomes: Outcomes, latency_ns: u64, now: u64) {
        self.outcomes.applied += outcomes.applied;
        self.outcomes.duplicate += outcomes.duplicate;
        self.outcomes.refused += outcomes.refused;
        self.latency_ns.increment(latency_ns.min((1 << 37) - 1)).expect("the value was bounded");
        let total = self.outcomes.total();
        if self.first_stretch_ns.is_none() && total >= STRETCH_TRANSFERS {
            self.first_stretch_ns = Some(now * STRETCH_TRANSFERS / total);
        }
        if self.last_stretch_from.is_none() && total + STRETCH_TRANSFERS >= self.expected {
            self.last_stretch_from = Some((total, now));
        }
    }

    /// Stops the clock.
    pub fn finish(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    /// What came of the transfers.
    pub fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    /// Applied transfers per second over the whole load.
    pub fn per_second(&self) -> f64 {
        self.outcomes.applied as f64 / self.elapsed.as_secs_f64()
    }

    /// Transfers answered per second, whatever became of them.
    pub fn answered_per_second(&self) -> f64 {
        self.outcomes.total() as f64 / self.elapsed.as_secs_f64()
    }

    /// Transfers per second over the first million; of all when there were fewer.
    pub fn first_million_per_second(&self) -> f64 {
        match self.first_stretch_ns {
            Some(nanoseconds) => STRETCH_TRANSFERS as f64 / (nanoseconds as f64 / 1e9),
            None => self.per_second(),
        }
    }

    /// Transfers per second over the last million; of all when there were fewer.
    pub fn last_million_per_second(&self) -> f64 {
        match self.last_stretch_from {
            Some((total, at)) if total > 0 => {
                (self.outcomes.total() - total) as f64 / (self.elapsed.as_secs_f64() - at as f64 / 1e9)
            }
            _ => self.per_second(),
        }
    }

    /// Latency of a request in milliseconds at a quantile such as 0.99.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        match self.latency_ns.quantile_bucket(quantile) {
            Ok(Some(bucket)) => bucket.end() as f64 / 1e6,
            _ => f64::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_the_first_and_the_last_million() {
        let mut tally = Tally::new(4_000_000);
        // The first two millions take 1 s each, the others 2 s each.
        for (million, at_ms) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 6_000)] {
            tally.add(Outcomes { applied: 1_000_000, ..Outcomes::default() }, million * 1_000_000, at_ms * 1_000_000);
        }
        tally.finish(Duration::from_secs(6));
        assert_eq!(tally.first_million_per_second(), 1e6);
        assert_eq!(tally.last_million_per_second(), 5e5);
        assert!((tally.per_second() - 4e6 / 6.0).abs() < 1.0);
        assert!((tally.latency_ms(1.0) - 4.0).abs() < 0.05, "{}", tally.latency_ms(1.0));
    }
}

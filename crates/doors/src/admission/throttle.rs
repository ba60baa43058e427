//! Limits events per second, in bursts of a tenth of a second. The state is one number that all threads share.
//!
//! ```text
//!   time ──────────────▶ now          full at
//!   each client moves "full at" on by one interval; it may not be further away than the burst
//! ```
//!
//! This is the generic cell rate algorithm: a token bucket whose only state is the time when it will be full again.

use std::sync::atomic::{AtomicU64, Ordering};

/// The burst, in nanoseconds of the rate.
const BURST_NS: u64 = 100_000_000;

/// A rate that holds over all threads.
pub struct Throttle {
    /// Between two clients; zero for no bound.
    interval_ns: u64,
    /// By when all who came will have been worth their interval.
    full_at_ns: AtomicU64,
}

impl Throttle {
    /// `per_second`, or no bound if that is zero.
    pub fn new(per_second: u32) -> Throttle {
        let interval_ns = if per_second == 0 { 0 } else { 1_000_000_000 / u64::from(per_second) };
        Throttle { interval_ns, full_at_ns: AtomicU64::new(0) }
    }

    /// Takes one at `now_ns` of a clock that never goes back. `false`: not now.
    pub fn take(&self, now_ns: u64) -> bool {
        if self.interval_ns == 0 {
            return true;
        }
        let burst = BURST_NS.max(self.interval_ns);
        self.full_at_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
                let next = full_at.max(now_ns) + self.interval_ns;
                (next <= now_ns + burst).then_some(next)
            })
            .is_ok()
    }

    /// Gives one back that was taken and not used.
    pub fn give_back(&self) {
        self.full_at_ns.fetch_sub(self.interval_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn taken(throttle: &Throttle, now_ns: u64) -> usize {
        (0..10_000).take_while(|_| throttle.take(now_ns)).count()
    }

    #[test]
    fn lets_through_the_rate_in_short_bursts() {
        let throttle = Throttle::new(1_000);
        assert_eq!(taken(&throttle, 5_000 * MS), 100, "a tenth of a second's worth");
        assert_eq!(taken(&throttle, 5_000 * MS), 0);
        assert_eq!(taken(&throttle, 5_010 * MS), 10);
        // A long pause earns one burst, not the pause.
        assert_eq!(taken(&throttle, 60_000 * MS), 100);
        throttle.give_back();
        assert_eq!(taken(&throttle, 60_000 * MS), 1);
    }

    #[test]
    fn a_slow_rate_lets_one_through_at_a_time() {
        let throttle = Throttle::new(2);
        assert_eq!(taken(&throttle, 1_000 * MS), 1);
        assert_eq!(taken(&throttle, 1_499 * MS), 0);
        assert_eq!(taken(&throttle, 1_500 * MS), 1);
        assert_eq!(taken(&Throttle::new(0), 0), 10_000, "no bound");
    }
}

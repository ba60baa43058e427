//! A bound of so many per second, which all threads share as one number.
//!
//! ```text
//!   time ──────────────▶ now          full at
//!   each taken one moves "full at" on by one interval; it may not be further away than the burst
//! ```
//!
//! This is the generic cell rate algorithm. What is taken with the last of the burst may be more than was left: then
//! the bucket owes, and the next one waits until that is paid.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Rate;

/// A rate that holds over all threads.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Between two; zero for no bound.
    interval_ns: u64,
    /// The burst, as time.
    burst_ns: u64,
    /// By when all that was taken will have been worth its interval.
    full_at_ns: AtomicU64,
}

impl Bucket {
    pub fn new(rate: Rate) -> Bucket {
        let interval_ns = if rate.per_s == 0 { 0 } else { (1_000_000_000 / u64::from(rate.per_s)).max(1) };
        Bucket { interval_ns, burst_ns: interval_ns * u64::from(rate.at_once()), full_at_ns: AtomicU64::new(0) }
    }

    /// Takes `count` at `now_ns` of a clock that never goes back, if any is left. `Err` with the time until one is.
    pub fn take(&self, now_ns: u64, count: u32) -> Result<(), u64> {
        if self.interval_ns == 0 || count == 0 {
            return Ok(());
        }
        let taken = self.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
            self.wait_ns(full_at, now_ns).is_ok().then(|| self.after(full_at, now_ns, count))
        });
        taken.map(|_| ()).or_else(|full_at| self.wait_ns(full_at, now_ns))
    }

    /// Whether any is left.
    pub fn look(&self, now_ns: u64) -> Result<(), u64> {
        if self.interval_ns == 0 {
            return Ok(());
        }
        self.wait_ns(self.full_at_ns.load(Ordering::Relaxed), now_ns)
    }

    /// The time until `count`, at most the burst, are left.
    pub fn wait_for(&self, now_ns: u64, count: u32) -> u64 {
        let count_ns = self.interval_ns.saturating_mul(u64::from(count)).min(self.burst_ns);
        let full_at_ns = self.full_at_ns.load(Ordering::Relaxed);
        full_at_ns.saturating_add(count_ns).saturating_sub(self.burst_ns).saturating_sub(now_ns)
    }

    /// Takes `count`, left or not.
    pub fn charge(&self, now_ns: u64, count: u32) {
        if self.interval_ns > 0 && count > 0 {
            let charge = |full_at| Some(self.after(full_at, now_ns, count));
            let _always = self.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge);
        }
    }

    fn after(&self, full_at_ns: u64, now_ns: u64, count: u32) -> u64 {
        full_at_ns.max(now_ns).saturating_add(self.interval_ns.saturating_mul(u64::from(count)))
    }

    fn wait_ns(&self, full_at_ns: u64, now_ns: u64) -> Result<(), u64> {
        // One more must fit the burst.
        let ready_at = full_at_ns.saturating_add(self.interval_ns).saturating_sub(self.burst_ns);
        if ready_at <= now_ns { Ok(()) } else { Err(ready_at - now_ns) }
    }
}

//! The distribution of values, with 3 % precision over twelve decades, so that the tail is visible.
//!
//! H2 buckets (<https://h2histogram.org>): below 64 each value has its own; above, each power of two is cut into 32.
//! The crate `histogram` has the same buckets, but adds with a locked instruction and checks for errors that cannot
//! happen here; a test holds the two equal, and [`Histogram::snapshot`] hands out its type.
//!
//! ```text
//!    0 1 2 ... 63 │ 64 66 68 ... 126 │ 128 132 ... 252 │ 256 264 ...      1,152 buckets, 9 KiB, up to 2^40 - 1
//! ```

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Each power of two has `2^GROUPING_POWER` buckets.
pub const GROUPING_POWER: u8 = 5;

/// Values from `2^MAX_VALUE_POWER` on count in the last bucket: 18 minutes in nanoseconds, one terabyte in bytes.
pub const MAX_VALUE_POWER: u8 = 40;

/// How many buckets that makes.
pub const BUCKETS: usize = ((MAX_VALUE_POWER - GROUPING_POWER + 1) as usize) << GROUPING_POWER;

const VALUE_MAX: u64 = (1 << MAX_VALUE_POWER) - 1;

/// Which bucket counts `value`. Buckets of `2^power..` begin at [`bucket_of`]`(2^power)`.
#[inline(always)]
pub(crate) const fn bucket_of(value: u64) -> usize {
    let value = if value > VALUE_MAX { VALUE_MAX } else { value };
    // Up to here buckets have the width one, and the first power of two that is cut still has.
    if value < 2 << GROUPING_POWER {
        return value as usize;
    }
    let power = 63 - value.leading_zeros();
    let shift = power - GROUPING_POWER as u32;
    ((shift as usize) << GROUPING_POWER) + (value >> shift) as usize
}

/// The counts of one histogram, which its writer and the registry hold together.
#[derive(Debug)]
pub(crate) struct Buckets {
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Buckets {
    pub(crate) fn new() -> Arc<Buckets> {
        Arc::new(Buckets { counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) })
    }

    #[inline(always)]
    fn record_alone(&self, value: u64, times: u64) {
        let add = |cell: &AtomicU64, more: u64| {
            cell.store(cell.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.counts[bucket_of(value)], times);
        add(&self.sum, value.wrapping_mul(times));
    }

    /// Adds these counts to `counts`, which has [`BUCKETS`] places, and returns the sum of the values.
    pub(crate) fn add_to(&self, counts: &mut [u64]) -> u64 {
        for (total, count) in counts.iter_mut().zip(&self.counts) {
            *total = total.wrapping_add(count.load(Ordering::Relaxed));
        }
        self.sum.load(Ordering::Relaxed)
    }

    fn snapshot(&self) -> histogram::Histogram {
        let mut counts = vec![0; BUCKETS];
        self.add_to(&mut counts);
        histogram::Histogram::from_buckets(GROUPING_POWER, MAX_VALUE_POWER, counts).expect("as many buckets as it has")
    }
}

/// A histogram with one writer at a time, like [`crate::Counter`].
#[derive(Debug)]
pub struct Histogram {
    buckets: Arc<Buckets>,
    one_writer: PhantomData<std::cell::Cell<()>>,
}

impl Histogram {
    pub(crate) fn new(buckets: Arc<Buckets>) -> Histogram {
        Histogram { buckets, one_writer: PhantomData }
    }

    /// Counts `value`, in the unit that the metric is recorded in.
    #[inline(always)]
    pub fn record(&self, value: u64) {
        self.buckets.record_alone(value, 1);
    }

    /// Counts `value` `times` over: a whole batch has the latency of its commit.
    #[inline(always)]
    pub fn record_times(&self, value: u64, times: u64) {
        self.buckets.record_alone(value, times);
    }

    /// The counts now, for quantiles.
    pub fn snapshot(&self) -> histogram::Histogram {
        self.buckets.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ends of buckets, and what lies around them.
    fn values() -> impl Iterator<Item = u64> {
        let around = |power: u32| {
            let base = 1u64 << power;
            [base - 1, base, base + 1, base + base / 3, base + base / 32 * 31]
        };
        (0..130).chain((0..MAX_VALUE_POWER as u32).flat_map(around)).filter(|value| *value <= VALUE_MAX)
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic; nothing for Miri, and slow there")]
    fn the_buckets_are_those_of_the_crate() {
        for value in values() {
            let mut theirs = histogram::Histogram::new(GROUPING_POWER, MAX_VALUE_POWER).unwrap();
            theirs.increment(value).unwrap();
            let bucket = theirs.as_slice().iter().position(|count| *count == 1);
            assert_eq!(Some(bucket_of(value)), bucket, "value {value}");
            assert_eq!(theirs.as_slice().len(), BUCKETS);
        }
    }

    #[test]
    fn what_is_too_large_counts_in_the_last_bucket() {
        assert_eq!(bucket_of(VALUE_MAX), BUCKETS - 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_snapshot_knows_the_quantiles() {
        let histogram = Histogram::new(Buckets::new());
        histogram.record_times(1_000, 99);
        histogram.record(1_000_000);
        let p50 = histogram.snapshot().quantile_bucket(0.5).unwrap().unwrap();
        let p100 = histogram.snapshot().quantile_bucket(1.0).unwrap().unwrap();
        assert!(p50.range().contains(&1_000) && p100.range().contains(&1_000_000));
    }
}

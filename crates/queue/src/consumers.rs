//! How many messages each consumer of a queue is handed out: so many a second, and so many at once.
//!
//! A consumer is the name that a request for messages carries. It has a bucket of `burst` messages, which fills at
//! `rate` messages a second; of a bucket, only the time is kept at which it is full again (as in GCRA). A full one is
//! forgotten, so what is kept are the consumers of the last moments.
//!
//! Invariant: this is memory of the process only. After a restart, all buckets are full.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_machines::TimeMs;

use crate::limits::CONSUMERS_MAX;

/// How much a consumer may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConsumerRate {
    /// Messages a second.
    pub per_s: u32,
    /// Messages at once.
    pub burst: u32,
}

impl ConsumerRate {
    const fn interval_us(self) -> u64 {
        1_000_000 / self.per_s as u64
    }

    /// How long an empty bucket takes to be full.
    const fn whole_us(self) -> u64 {
        self.interval_us() * self.burst as u64
    }
}

/// The buckets that are not full.
#[derive(Debug, Default)]
pub(crate) struct Consumers {
    /// When each is full again, in microseconds, by queue and consumer.
    full_at_us: BTreeMap<Box<str>, BTreeMap<Box<str>, u64>>,
    by_time: BTreeSet<(u64, Box<str>, Box<str>)>,
}

impl Consumers {
    /// How many messages a consumer may have at `now`, at least one; or from when on it may have one.
    pub fn allowed(&self, queue: &str, consumer: &str, rate: ConsumerRate, now: TimeMs) -> Result<usize, TimeMs> {
        let (now_us, interval) = (now.0.saturating_mul(1_000), rate.interval_us());
        let missing_us = self.full_at(queue, consumer, rate, now_us).saturating_sub(now_us);
        match rate.whole_us().saturating_sub(missing_us) / interval {
            0 => Err(TimeMs((now_us + missing_us + interval).saturating_sub(rate.whole_us()).div_ceil(1_000))),
            count => Ok(count as usize),
        }
    }

    /// Counts messages that a consumer was handed out.
    pub fn take(&mut self, queue: &str, consumer: &str, count: usize, rate: ConsumerRate, now: TimeMs) {
        let now_us = now.0.saturating_mul(1_000);
        let from = self.full_at(queue, consumer, rate, now_us).max(now_us);
        self.forget(queue, consumer);
        self.forget_full(now_us);
        let full_at = from.saturating_add(count as u64 * rate.interval_us());
        self.full_at_us.entry(queue.into()).or_default().insert(consumer.into(), full_at);
        self.by_time.insert((full_at, queue.into(), consumer.into()));
    }

    /// When a bucket is full again. A clock that was set back makes nobody wait longer than an empty bucket does.
    fn full_at(&self, queue: &str, consumer: &str, rate: ConsumerRate, now_us: u64) -> u64 {
        let known = self.full_at_us.get(queue).and_then(|consumers| consumers.get(consumer)).copied();
        known.unwrap_or(0).min(now_us.saturating_add(rate.whole_us()))
    }

    /// Forgets buckets that are full; if there are too many others, those that are the soonest.
    fn forget_full(&mut self, now_us: u64) {
        while let Some((full_at, queue, consumer)) = self.by_time.first().cloned() {
            if full_at > now_us && self.by_time.len() < CONSUMERS_MAX {
                return;
            }
            self.forget(&queue, &consumer);
        }
    }

    fn forget(&mut self, queue: &str, consumer: &str) {
        let Some(consumers) = self.full_at_us.get_mut(queue) else { return };
        if let Some(full_at) = consumers.remove(consumer) {
            self.by_time.remove(&(full_at, queue.into(), consumer.into()));
        }
        if consumers.is_empty() {
            self.full_at_us.remove(queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: ConsumerRate = ConsumerRate { per_s: 10, burst: 3 };

    #[test]
    fn a_consumer_has_its_burst_and_then_its_rate() {
        let mut consumers = Consumers::default();
        assert_eq!(consumers.allowed("q", "a", RATE, TimeMs(5_000)), Ok(3));
        consumers.take("q", "a", 2, RATE, TimeMs(5_000));
        assert_eq!(consumers.allowed("q", "a", RATE, TimeMs(5_000)), Ok(1));
        consumers.take("q", "a", 1, RATE, TimeMs(5_000));
        assert_eq!(consumers.allowed("q", "a", RATE, TimeMs(5_000)), Err(TimeMs(5_100)));
        assert_eq!(consumers.allowed("q", "a", RATE, TimeMs(5_099)), Err(TimeMs(5_100)));
        assert_eq!(consumers.allowed("q", "a", RATE, TimeMs(5_100)), Ok(1));
        assert_eq!(consumers.allowed("q", "a", RATE, TimeMs(5_299)), Ok(2));
        assert_eq!(consumers.allowed("q", "a", RATE, TimeMs(9_000)), Ok(3), "never more than the burst");
        assert_eq!(consumers.allowed("q", "b", RATE, TimeMs(5_000)), Ok(3), "others go on");
        assert_eq!(consumers.allowed("r", "a", RATE, TimeMs(5_000)), Ok(3), "and so do other queues");
    }

    #[test]
    fn a_clock_that_is_set_back_and_a_lower_burst_make_nobody_wait_for_long() {
        let mut consumers = Consumers::default();
        consumers.take("q", "a", 3, RATE, TimeMs(9_000_000));
        assert_eq!(consumers.allowed("q", "a", RATE, TimeMs(5_000)), Err(TimeMs(5_100)));
        let slow = ConsumerRate { per_s: 1, burst: 1 };
        assert_eq!(consumers.allowed("q", "a", slow, TimeMs(9_000_000)), Err(TimeMs(9_000_300)));
    }

    #[test]
    fn full_buckets_are_forgotten_and_there_are_never_too_many() {
        let mut consumers = Consumers::default();
        for number in 0..CONSUMERS_MAX + 10 {
            consumers.take("q", &number.to_string(), 1, RATE, TimeMs(1_000));
        }
        assert_eq!(consumers.by_time.len(), CONSUMERS_MAX);
        consumers.take("r", "a", 1, RATE, TimeMs(2_000));
        assert_eq!(consumers.by_time.len(), 1);
        assert!(!consumers.full_at_us.contains_key("q"));
    }
}

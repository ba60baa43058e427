//! How fast short messages may go: half as fast whenever the SMSC has too many, then slowly faster again.

use std::time::Duration;

use tokio::time::Instant;

/// It is no slower than this, in messages a second.
const LEAST: f64 = 1.0;
/// After each so long without a complaint, it is faster by a part of the highest rate.
const GROWS_AFTER: Duration = Duration::from_secs(1);
/// That part.
const GROWS_BY: f64 = 0.05;

/// The pace of one session.
#[derive(Debug)]
pub struct Pace {
    most: f64,
    rate: f64,
    /// The next message may go.
    next: Instant,
    /// The rate was halved, or has grown.
    changed: Instant,
    /// It was halved.
    slowed: Option<Instant>,
}

impl Pace {
    /// At most so many a second.
    pub fn new(most: u32, now: Instant) -> Pace {
        Pace { most: most.into(), rate: most.into(), next: now, changed: now, slowed: None }
    }

    /// When one more message may go; it counts from now on.
    pub fn take(&mut self, now: Instant) -> Instant {
        while self.rate < self.most && now.saturating_duration_since(self.changed) >= GROWS_AFTER {
            self.changed += GROWS_AFTER;
            self.rate = (self.rate + self.most * GROWS_BY).min(self.most);
        }
        let at = self.next.max(now);
        self.next = at + Duration::from_secs_f64(1.0 / self.rate);
        at
    }

    /// The SMSC did not take what was sent at `sent`. What was sent before it was last slowed says nothing new.
    pub fn slow_down(&mut self, sent: Instant, now: Instant) {
        if self.slowed.is_some_and(|slowed| sent < slowed) {
            return;
        }
        self.rate = (self.rate / 2.0).max(LEAST);
        (self.changed, self.slowed) = (now, Some(now));
    }

    /// Messages a second.
    pub fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn messages_go_one_after_the_other() {
        let now = Instant::now();
        let mut pace = Pace::new(10, now);
        let at: Vec<Duration> = (0..3).map(|_| pace.take(now) - now).collect();
        assert_eq!(at, [ms(0), ms(100), ms(200)]);
        assert_eq!(pace.take(now + ms(900)), now + ms(900), "what was not used is gone");
    }

    #[test]
    fn a_complaint_halves_the_rate_once_and_time_raises_it_again() {
        let now = Instant::now();
        let mut pace = Pace::new(100, now);
        pace.slow_down(now, now + ms(10));
        pace.slow_down(now + ms(5), now + ms(20));
        assert_eq!(pace.rate(), 50.0, "the second one was sent before the first was answered");
        pace.slow_down(now + ms(30), now + ms(40));
        assert_eq!(pace.rate(), 25.0);
        pace.take(now + ms(1_040));
        assert_eq!(pace.rate(), 30.0);
        pace.take(now + ms(60_000));
        assert_eq!(pace.rate(), 100.0);
        (0..20).for_each(|n| pace.slow_down(now + ms(70_000 + n), now + ms(70_000 + n)));
        assert_eq!(pace.rate(), LEAST);
    }
}

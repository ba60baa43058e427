//! When messages or packets of an open load are due, independent of earlier ones: like clients that do not wait for
//! each other.
//!
//! Why: a closed load slows down with the broker, so it measures fast moments more often than slow ones (coordinated
//! omission). Here latency counts from the moment at which a message was due, also when the load itself was late.

/// Evenly spaced times, shared out among publishers in turn.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    interval_ns: f64,
    next: u64,
}

impl Schedule {
    /// Of so many messages a second.
    pub fn new(per_second: f64) -> Schedule {
        Schedule { interval_ns: 1e9 / per_second, next: 0 }
    }

    /// The next message that is due at `now_ns`: its number over all publishers, and when it was due.
    #[inline]
    pub fn due(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let due_ns = self.next_due_ns();
        (due_ns <= now_ns).then(|| {
            self.next += 1;
            (self.next - 1, due_ns)
        })
    }

    /// When the next message is due.
    #[inline]
    pub fn next_due_ns(&self) -> u64 {
        (self.next as f64 * self.interval_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_load_sends_everything_with_its_own_due_time() {
        let mut schedule = Schedule::new(1_000.0);
        assert_eq!(schedule.due(0), Some((0, 0)));
        assert_eq!(schedule.due(999_999), None);
        let late: Vec<_> = std::iter::from_fn(|| schedule.due(3_000_000)).collect();
        assert_eq!(late, [(1, 1_000_000), (2, 2_000_000), (3, 3_000_000)]);
    }
}

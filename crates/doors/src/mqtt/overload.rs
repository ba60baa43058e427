//! Whether a worker has time for new clients.
//!
//! A worker is overloaded when its turns have been long, or its outboxes full, for a while. One long turn is only a
//! burst. The overload ends when turns have been short for as long: clients let in after the first short turn would
//! make the next one long.

use std::time::{Duration, Instant};

/// How long a change must last.
const LASTING: Duration = Duration::from_secs(1);

/// One worker's.
pub struct Overload {
    turn_max: Option<Duration>,
    pressure_bytes_max: u64,
    overloaded: bool,
    /// Since when it looks otherwise.
    otherwise_since: Option<Instant>,
}

impl Overload {
    /// Turns of more than `turn_ms_max` milliseconds are long (0: none are), outboxes of more than `pressure_bytes_max`
    /// bytes full.
    pub fn new(turn_ms_max: u32, pressure_bytes_max: u64) -> Overload {
        let turn_max = (turn_ms_max > 0).then(|| Duration::from_millis(turn_ms_max.into()));
        Overload { turn_max, pressure_bytes_max, overloaded: false, otherwise_since: None }
    }

    /// The longest turn since the last call, and the pressure now. Returns whether the worker is overloaded.
    pub fn observe(&mut self, longest_turn: Duration, pressure_bytes: u64, now: Instant) -> bool {
        let strained = self.turn_max.is_some_and(|max| longest_turn > max) || pressure_bytes > self.pressure_bytes_max;
        if strained == self.overloaded {
            self.otherwise_since = None;
        } else {
            let since = *self.otherwise_since.get_or_insert(now);
            if now.duration_since(since) >= LASTING {
                self.overloaded = strained;
                self.otherwise_since = None;
            }
        }
        self.overloaded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_counts() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let (long, short) = (Duration::from_millis(50), Duration::from_millis(1));
        let mut overload = Overload::new(20, 1_000);
        assert!(!overload.observe(long, 0, at(0)));
        assert!(!overload.observe(short, 0, at(500)), "a burst");
        assert!(!overload.observe(long, 0, at(600)));
        assert!(!overload.observe(short, 2_000, at(1_500)), "full outboxes are strain, too");
        assert!(overload.observe(long, 0, at(1_600)));
        assert!(overload.observe(short, 0, at(2_000)));
        assert!(overload.observe(long, 0, at(2_500)));
        assert!(overload.observe(short, 0, at(2_600)));
        assert!(!overload.observe(short, 0, at(3_600)));
        assert!(!Overload::new(0, u64::MAX).observe(long, u64::MAX, at(0)), "no bounds");
    }
}

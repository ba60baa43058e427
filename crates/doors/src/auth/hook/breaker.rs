//! When a hook that does not answer is asked again.
//!
//! ```text
//!   Asked ── fails five times in a row ─▶ Waiting ── its time is over, a log-in comes ─▶ Tried ── answers ─▶ Asked
//!                                            ▲                                             │
//!                                            └── 1 s, 2 s, 4 s … at most the longest ◀─ fails ┘
//! ```
//!
//! Promise: a hook that is down is asked once each time, and no other log-in waits for it. Why: each question would
//! cost a place and the whole time-out.

use std::time::Duration;

/// Failures in a row before the hook is left alone.
const FAILURES_MAX: u32 = 5;
/// The first time that it is left alone.
const FIRST_WAIT_MS: u64 = 1_000;

/// See the module. Times are milliseconds of any clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breaker {
    state: State,
    longest_ms: u64,
    /// For how long a question that nobody answers keeps others from being asked.
    tried_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asked { failures: u32 },
    Waiting { until_ms: u64, wait_ms: u64 },
    Tried { until_ms: u64, wait_ms: u64 },
}

impl Breaker {
    /// Of a hook that has not been asked yet, and gets at most `timeout` for an answer.
    pub fn new(longest: Duration, timeout: Duration) -> Breaker {
        let tried_ms = 2 * timeout.as_millis() as u64;
        Breaker { state: State::Asked { failures: 0 }, longest_ms: longest.as_millis() as u64, tried_ms }
    }

    /// Whether the hook is asked now; else in how many milliseconds it may be.
    pub fn enter(&mut self, now_ms: u64) -> Result<(), u64> {
        match self.state {
            State::Asked { .. } => Ok(()),
            State::Waiting { until_ms, .. } | State::Tried { until_ms, .. } if now_ms < until_ms => {
                Err(until_ms - now_ms)
            }
            State::Waiting { wait_ms, .. } | State::Tried { wait_ms, .. } => {
                self.state = State::Tried { until_ms: now_ms + self.tried_ms, wait_ms };
                Ok(())
            }
        }
    }

    /// Whether what waits for its turn would be asked of a hook that is left alone.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// It answered.
    pub fn answered(&mut self) {
        self.state = State::Asked { failures: 0 };
    }

    /// It did not.
    pub fn failed(&mut self, now_ms: u64) {
        let wait = |wait_ms: u64| {
            let wait_ms = wait_ms.min(self.longest_ms);
            State::Waiting { until_ms: now_ms + wait_ms, wait_ms }
        };
        self.state = match self.state {
            State::Asked { failures } if failures + 1 < FAILURES_MAX => State::Asked { failures: failures + 1 },
            State::Asked { .. } => wait(FIRST_WAIT_MS),
            State::Tried { wait_ms, .. } => wait(wait_ms.saturating_mul(2)),
            // It was asked before it was left alone.
            waiting @ State::Waiting { .. } => waiting,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_that_is_down_is_asked_once_each_time_and_less_and_less() {
        let mut breaker = Breaker::new(Duration::from_secs(10), Duration::from_secs(2));
        for _ in 0..FAILURES_MAX {
            assert_eq!(breaker.enter(0), Ok(()));
            breaker.failed(0);
        }
        let (mut now_ms, mut waits) = (0, Vec::new());
        for _ in 0..6 {
            let wait_ms = breaker.enter(now_ms).expect_err("it is left alone");
            assert!(breaker.is_waiting());
            // What was asked before and fails now changes nothing.
            breaker.failed(now_ms);
            waits.push(wait_ms);
            now_ms += wait_ms;
            assert_eq!(breaker.enter(now_ms), Ok(()), "one is asked");
            assert_eq!(breaker.enter(now_ms), Err(4_000), "no other one is");
            breaker.failed(now_ms);
        }
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
        assert_eq!(breaker.enter(now_ms + 10_000), Ok(()));
        assert_eq!(breaker.enter(now_ms + 14_000), Ok(()), "the question was lost: another one is asked");
        breaker.answered();
        assert!(breaker.enter(now_ms).is_ok() && breaker.enter(now_ms).is_ok());
        breaker.failed(0);
        assert_eq!(breaker.enter(0), Ok(()), "one failure is none");
    }
}

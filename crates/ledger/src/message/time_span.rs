//! A span of time in a history.

use crate::limits::HISTORY_TIME_SLACK_MS;

/// A span of time, both ends included, in milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    from_ms: u64,
    to_ms: u64,
}

impl TimeSpan {
    /// All times.
    pub const ALL: TimeSpan = TimeSpan { from_ms: 0, to_ms: u64::MAX };

    /// From the one time to the other; what is `None` is no bound. `None` if no time is between them.
    pub fn new(from_ms: Option<u64>, to_ms: Option<u64>) -> Option<TimeSpan> {
        let span = TimeSpan { from_ms: from_ms.unwrap_or(0), to_ms: to_ms.unwrap_or(u64::MAX) };
        (span.from_ms <= span.to_ms).then_some(span)
    }

    /// Whether there is no bound.
    pub fn is_all(self) -> bool {
        self == TimeSpan::ALL
    }

    /// Whether a row of `time_ms` is of this span.
    pub fn contains(self, time_ms: u64) -> bool {
        (self.from_ms..=self.to_ms).contains(&time_ms)
    }

    /// Whether no row behind one of `time_ms`, further back, is of this span.
    pub fn ends_before(self, time_ms: u64) -> bool {
        time_ms.saturating_add(HISTORY_TIME_SLACK_MS) < self.from_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_of_a_span_and_neighbours_may_be_late() {
        let span = TimeSpan::new(Some(100_000), Some(100_001)).expect("a time is in it");
        assert_eq!([99_999, 100_000, 100_001, 100_002].map(|at| span.contains(at)), [false, true, true, false]);
        assert!(!span.ends_before(40_000) && span.ends_before(39_999));
        assert_eq!(TimeSpan::new(Some(2), Some(1)), None);
        assert_eq!(TimeSpan::new(None, None), Some(TimeSpan::ALL));
        assert!(TimeSpan::ALL.is_all() && !span.is_all());
        assert!(TimeSpan::ALL.contains(0) && TimeSpan::ALL.contains(u64::MAX) && !TimeSpan::ALL.ends_before(0));
    }
}

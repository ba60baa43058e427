//! Queues that are behind: messages wait in them, and would for long. The log says so.
//!
//! ```text
//!   each second: does it lag?  yes, for a minute ─▶ behind ─▶ said; again when twice as many wait
//!                              no ─▶ over ─▶ said
//! ```
//!
//! The rule: a queue lags in a second if messages wait in it for receivers and it would take more than a minute, or for
//! ever, until none does, at the rates of the last ten seconds. A queue that is paused does not lag, and neither does
//! one that others have for their dead letters: both are there to keep messages.
//!
//! Why a whole minute: a burst that is received within a minute is what queues are for.

use std::collections::BTreeMap;

use tidegate_machines::TimeMs;

/// A queue that takes longer than this to empty lags.
const DRAINED_IN_S_MAX: f64 = 60.0;
/// One that lags for so long is behind.
const BEHIND_AFTER_MS: u64 = 60_000;
/// The log has at most one line about a queue in so many milliseconds.
const SAID_EVERY_MS: u64 = 60_000;
/// Lines that a shard may write in one second.
const SAID_AT_ONCE_MAX: usize = 10;

/// What is said of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// It is behind since then.
    Behind {
        /// Since when.
        since: TimeMs,
    },
    /// It was, since then, and is not any more.
    Over {
        /// Since when.
        since: TimeMs,
    },
}

#[derive(Clone, Copy, Debug)]
struct Lags {
    since: TimeMs,
    /// When its last line was written, and how many messages waited.
    said: Option<(TimeMs, u64)>,
}

/// The queues that lag.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    queues: BTreeMap<Box<str>, Lags>,
    /// Lines of this second.
    lines: usize,
    behind: u64,
}

impl Behind {
    /// Another second is looked at.
    pub fn begin(&mut self) {
        (self.lines, self.behind) = (0, 0);
    }

    /// Queues that are behind, as far as they were looked at in this second.
    pub fn count(&self) -> u64 {
        self.behind
    }

    /// Looks at a queue in which so many messages wait, and which is empty in so many seconds (`None`: never). What
    /// there is to say of it.
    pub fn follow(&mut self, queue: &str, waiting: u64, drained_in_s: Option<f64>, now: TimeMs) -> Option<Said> {
        if waiting == 0 || drained_in_s.is_some_and(|seconds| seconds <= DRAINED_IN_S_MAX) {
            return self.is_over(queue);
        }
        let Some(lags) = self.queues.get_mut(queue) else {
            self.queues.insert(queue.into(), Lags { since: now, said: None });
            return None;
        };
        if now.0 < lags.since.0.saturating_add(BEHIND_AFTER_MS) {
            return None;
        }
        self.behind += 1;
        let is_news = lags.said.is_none_or(|(at, before)| {
            now.0 >= at.0.saturating_add(SAID_EVERY_MS) && waiting >= before.saturating_mul(2)
        });
        if !is_news || self.lines == SAID_AT_ONCE_MAX {
            return None;
        }
        self.lines += 1;
        lags.said = Some((now, waiting));
        Some(Said::Behind { since: lags.since })
    }

    /// A queue does not lag, or is gone.
    pub fn is_over(&mut self, queue: &str) -> Option<Said> {
        let lags = self.queues.remove(queue)?;
        lags.said.map(|_| Said::Over { since: lags.since })
    }

    /// Forgets queues of which `is_there` says that they are gone.
    pub fn keep(&mut self, is_there: impl Fn(&str) -> bool) {
        self.queues.retain(|queue, _| is_there(queue));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_behind_when_it_lags_for_a_minute() {
        let mut behind = Behind::default();
        let mut look = |second: u64, waiting: u64, drained_in_s: Option<f64>| {
            behind.begin();
            let said = behind.follow("jobs", waiting, drained_in_s, TimeMs(second * 1_000));
            (said, behind.count())
        };
        let since = |second: u64| TimeMs(second * 1_000);
        assert_eq!(look(0, 10, None), (None, 0));
        assert_eq!(look(59, 10, Some(61.0)), (None, 0));
        assert_eq!(look(60, 10, None), (Some(Said::Behind { since: since(0) }), 1));
        assert_eq!(look(61, 100, None), (None, 1), "a minute between two lines");
        assert_eq!(look(120, 19, None), (None, 1), "nothing new");
        assert_eq!(look(121, 20, None), (Some(Said::Behind { since: since(0) }), 1));
        assert_eq!(look(122, 20, Some(60.0)), (Some(Said::Over { since: since(0) }), 0));
        assert_eq!(look(123, 0, Some(0.0)), (None, 0));
        // One second in which it does not lag begins another minute, and of what was never said no end is said.
        assert_eq!(look(124, 1, None), (None, 0));
        assert_eq!(look(183, 0, None), (None, 0));
        assert_eq!(look(184, 1, None), (None, 0));
        assert_eq!(look(243, 1, None), (None, 0));
        assert_eq!(look(244, 1, None), (Some(Said::Behind { since: since(184) }), 1));
    }

    #[test]
    fn a_thousand_queues_are_not_said_at_once() {
        let mut behind = Behind::default();
        let mut lines = |second: u64| {
            behind.begin();
            let names = (0..25).map(|nth| format!("jobs-{nth}"));
            names.filter(|name| behind.follow(name, 1, None, TimeMs(second * 1_000)).is_some()).count()
        };
        assert_eq!([lines(0), lines(60), lines(61), lines(62), lines(63)], [0, 10, 10, 5, 0]);
        behind.keep(|name| name != "jobs-7");
        assert_eq!((behind.is_over("jobs-7"), behind.is_over("jobs-8").is_some()), (None, true));
    }
}

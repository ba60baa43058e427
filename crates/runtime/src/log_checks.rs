//! No log is opened before all logs were looked at: opening one changes files, and a start that is refused changes
//! none.
//!
//! ```text
//!   recover-ledger-0 ─ looks at its log ─ sound ─┐                 ┌─▶ all are sound: opens its log
//!   recover-ledger-1 ─ looks at its log ─ lost ──┼─ waits for all ─┤
//!   recover-topics-0 ─ looks at its log ─ sound ─┘                 └─▶ one is not: the start is refused
//! ```
//!
//! The shards of the ledger wait for each other once more in the same way, before any of them writes.
//!
//! Why: a torn tail is cut, a snapshot is set aside and an index is given up by the log that is opened. If the files
//! were put together by a mistake, an operator wants to find them as they were.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What is known of the logs of one start.
#[derive(Debug, Default)]
pub struct LogChecks {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Logs that are looked at.
    logs: usize,
    /// No more will be.
    is_closed: bool,
    passed: usize,
    is_refused: bool,
}

impl LogChecks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The check of another log. If it is dropped before it has passed, the start is refused.
    pub fn add(self: &Arc<Self>) -> LogCheck {
        self.state().logs += 1;
        LogCheck { checks: Arc::clone(self), has_passed: Cell::new(false) }
    }

    /// All logs have their checks.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }
}

/// The check of one log.
#[derive(Debug)]
pub struct LogCheck {
    checks: Arc<LogChecks>,
    has_passed: Cell<bool>,
}

impl LogCheck {
    /// The log is sound: waits until all others are. `Err` if one is not: its own error says what is wrong.
    pub fn pass(&self) -> Result<(), AnotherRefused> {
        let LogChecks { changed, .. } = &*self.checks;
        let mut state = self.checks.state();
        if !self.has_passed.replace(true) {
            state.passed += 1;
            changed.notify_all();
        }
        let unsettled = |state: &mut State| !(state.is_refused || state.is_closed && state.passed == state.logs);
        let state = changed.wait_while(state, unsettled).unwrap_or_else(PoisonError::into_inner);
        if state.is_refused { Err(AnotherRefused) } else { Ok(()) }
    }
}

impl Drop for LogCheck {
    fn drop(&mut self) {
        if !self.has_passed.get() {
            self.checks.state().is_refused = true;
            self.checks.changed.notify_all();
        }
    }
}

/// A log is sound and is not opened, because another one is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnotherRefused;

impl fmt::Display for AnotherRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another log of this data directory cannot be opened")
    }
}

impl std::error::Error for AnotherRefused {}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_go_on_when_all_are_sound_and_not_before() {
        let checks = Arc::new(LogChecks::default());
        let first = checks.add();
        let waits = thread::spawn(move || (first.pass(), first.pass()));
        thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished(), "there may be more");
        let second = checks.add();
        checks.close();
        thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished(), "the second is still looked at");
        assert_eq!(second.pass(), Ok(()));
        assert_eq!(waits.join().unwrap(), (Ok(()), Ok(())));
    }

    #[test]
    fn one_that_does_not_pass_refuses_all() {
        let checks = Arc::new(LogChecks::default());
        let (first, second, third) = (checks.add(), checks.add(), checks.add());
        checks.close();
        let waits = thread::spawn(move || first.pass());
        drop(second);
        assert_eq!(waits.join().unwrap(), Err(AnotherRefused));
        assert_eq!(third.pass(), Err(AnotherRefused), "also who comes later");
    }
}

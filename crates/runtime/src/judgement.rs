//! No log is opened before all logs were looked at: opening one changes files, and a start that is refused changes
//! none.
//!
//! ```text
//!   recover-ledger-0 ─ looks at its log ─ sound ─┐                 ┌─▶ all are sound: opens its log
//!   recover-ledger-1 ─ looks at its log ─ lost ──┼─ waits for all ─┤
//!   recover-topics-0 ─ looks at its log ─ sound ─┘                 └─▶ one is not: the start is refused
//! ```
//!
//! Why: a torn tail is cut, a snapshot is set aside and an index is given up by the log that is opened. If the files
//! were put together by a mistake, an operator wants to find them as they were.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What is known of the logs of one start.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Logs that are looked at.
    logs: usize,
    /// No more will be.
    is_closed: bool,
    sound: usize,
    is_refused: bool,
}

impl Judgement {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The voice of another log. If it is dropped before it has said that its log is sound, the start is refused.
    pub fn voice(self: &Arc<Self>) -> Voice {
        self.state().logs += 1;
        Voice { judgement: Arc::clone(self), has_spoken: Cell::new(false) }
    }

    /// All logs have their voices.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }
}

/// What one log has to say.
#[derive(Debug)]
pub(crate) struct Voice {
    judgement: Arc<Judgement>,
    has_spoken: Cell<bool>,
}

impl Voice {
    /// Says that its log is sound, and waits for all others. `Err` if one is not: its own error says what is wrong.
    pub fn sound(&self) -> Result<(), AnotherRefused> {
        let Judgement { changed, .. } = &*self.judgement;
        let mut state = self.judgement.state();
        if !self.has_spoken.replace(true) {
            state.sound += 1;
            changed.notify_all();
        }
        let unsettled = |state: &mut State| !(state.is_refused || state.is_closed && state.sound == state.logs);
        let state = changed.wait_while(state, unsettled).unwrap_or_else(PoisonError::into_inner);
        if state.is_refused { Err(AnotherRefused) } else { Ok(()) }
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        if !self.has_spoken.get() {
            self.judgement.state().is_refused = true;
            self.judgement.changed.notify_all();
        }
    }
}

/// A log is sound and is not opened, because another one is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnotherRefused;

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
        let judgement = Arc::new(Judgement::default());
        let first = judgement.voice();
        let waits = thread::spawn(move || (first.sound(), first.sound()));
        thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished(), "there may be more");
        let second = judgement.voice();
        judgement.close();
        thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished(), "the second has said nothing");
        assert_eq!(second.sound(), Ok(()));
        assert_eq!(waits.join().unwrap(), (Ok(()), Ok(())));
    }

    #[test]
    fn one_that_ends_without_a_word_refuses_all() {
        let judgement = Arc::new(Judgement::default());
        let (first, second, third) = (judgement.voice(), judgement.voice(), judgement.voice());
        judgement.close();
        let waits = thread::spawn(move || first.sound());
        drop(second);
        assert_eq!(waits.join().unwrap(), Err(AnotherRefused));
        assert_eq!(third.sound(), Err(AnotherRefused), "also who comes later");
    }
}

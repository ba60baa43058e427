//! Whose page of changes is read next at one edge thread.
//!
//! ```text
//!   page asked for ─▶ the caller's own line ─ two at a time ─▶ the line of all ─▶ read ─▶ answered
//!                      └── long enough: refused
//! ```
//!
//! Promise: a page waits for two pages of each other caller at most, however many those ask for, and is not refused
//! because others read. Pages take no place of a stream.

use std::sync::{Arc, Mutex};

use hashbrown::HashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::turns::CallerName;

/// Pages of one caller that are read, or stand in the line of all.
const OF_CALLER_AT_ONCE: usize = 2;

/// The lines.
pub struct PageTurns {
    all: Arc<Semaphore>,
    /// Pages of one caller that wait or are read.
    of_caller_max: usize,
    callers: Mutex<HashMap<CallerName, Caller>>,
}

struct Caller {
    turns: Arc<Semaphore>,
    pages: usize,
}

/// A turn, until it is dropped.
pub struct PageTurn {
    _in_all: OwnedSemaphorePermit,
    _of_caller: OwnedSemaphorePermit,
    _counted: Counted,
}

/// A page that waits or is read.
struct Counted {
    of: Arc<PageTurns>,
    caller: CallerName,
}

/// The caller has as many pages waiting as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyPages;

impl PageTurns {
    /// Reads `at_once` pages at once, and lets each caller ask for `of_caller_max`.
    pub fn new(at_once: usize, of_caller_max: usize) -> Arc<PageTurns> {
        Arc::new(PageTurns { all: Arc::new(Semaphore::new(at_once)), of_caller_max, callers: Mutex::default() })
    }

    /// Waits for a turn of `caller`.
    pub async fn take(self: &Arc<PageTurns>, caller: CallerName) -> Result<PageTurn, TooManyPages> {
        let (counted, turns) = self.count(caller)?;
        let of_caller = turns.acquire_owned().await.expect("it is never closed");
        let in_all = self.all.clone().acquire_owned().await.expect("it is never closed");
        Ok(PageTurn { _in_all: in_all, _of_caller: of_caller, _counted: counted })
    }

    fn count(self: &Arc<PageTurns>, caller: CallerName) -> Result<(Counted, Arc<Semaphore>), TooManyPages> {
        let mut callers = self.callers.lock().expect("no thread panics while it holds the lines");
        let known = callers
            .entry(caller.clone())
            .or_insert_with(|| Caller { turns: Arc::new(Semaphore::new(OF_CALLER_AT_ONCE)), pages: 0 });
        if known.pages >= self.of_caller_max {
            return Err(TooManyPages);
        }
        known.pages += 1;
        Ok((Counted { of: self.clone(), caller }, known.turns.clone()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut callers = self.of.callers.lock().expect("no thread panics while it holds the lines");
        let known = callers.get_mut(&self.caller).expect("whoever has a page is in the table");
        known.pages -= 1;
        if known.pages == 0 {
            callers.remove(&self.caller);
        }
    }
}

#[cfg(test)]
mod tests;

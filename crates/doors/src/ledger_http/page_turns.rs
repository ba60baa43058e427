//! Whose page of changes is read next at one edge thread.
//!
//! ```text
//!   page asked for ─▶ its caller waits for too many: refused
//!                └──▶ places in turn: one of a caller, some for services only ─▶ read ─▶ answered
//! ```
//!
//! Promise: a page waits for one page of each other caller at most, however many those ask for, and is not refused
//! because others read. A service waits for one page of all viewers at most, and for none if one of its places is free.
//! Pages take no place of a stream. One whose asker has gone leaves the line.
//!
//! Why more places than are needed to keep a disk busy: what is read for pages is read in turn by caller as well, part
//! by part. A short page beside a dozen long ones waits for a part of each, if it finds a place.

use std::sync::{Arc, Mutex};

use hashbrown::HashMap;

use crate::turns::{CallerName, PlaceInTurn, PlaceLimits, PlacesInTurn};

/// Pages of one caller that are read at once.
const OF_CALLER_AT_ONCE: usize = 1;

/// The bounds of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// Pages that are read at once.
    pub at_once: usize,
    /// Of those, that viewers leave to services.
    pub for_services: usize,
    /// Pages of one caller that wait or are read.
    pub of_caller_max: usize,
}

/// The lines.
pub struct PageTurns {
    places: PlacesInTurn,
    of_caller_max: usize,
    /// Pages of each caller that wait or are read.
    callers: Mutex<HashMap<CallerName, usize>>,
}

/// A turn, until it is dropped.
pub struct PageTurn {
    _place: PlaceInTurn,
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
    /// Nobody reads.
    pub fn new(limits: PageLimits) -> Arc<PageTurns> {
        let PageLimits { at_once, for_services, of_caller_max } = limits;
        let places = PlaceLimits { at_once, of_caller_at_once: OF_CALLER_AT_ONCE, for_services };
        Arc::new(PageTurns { places: PlacesInTurn::new(places), of_caller_max, callers: Mutex::default() })
    }

    /// Waits for a turn of `caller`.
    pub async fn take(self: &Arc<PageTurns>, caller: CallerName) -> Result<PageTurn, TooManyPages> {
        let counted = self.count(caller.clone())?;
        Ok(PageTurn { _place: self.places.place(caller).await, _counted: counted })
    }

    fn count(self: &Arc<PageTurns>, caller: CallerName) -> Result<Counted, TooManyPages> {
        let mut callers = self.callers.lock().expect("no thread panics while it holds the lines");
        let pages = callers.entry(caller.clone()).or_default();
        if *pages >= self.of_caller_max {
            return Err(TooManyPages);
        }
        *pages += 1;
        Ok(Counted { of: self.clone(), caller })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut callers = self.of.callers.lock().expect("no thread panics while it holds the lines");
        let pages = callers.get_mut(&self.caller).expect("whoever has a page is in the table");
        *pages -= 1;
        if *pages == 0 {
            callers.remove(&self.caller);
        }
    }
}

#[cfg(test)]
mod tests;

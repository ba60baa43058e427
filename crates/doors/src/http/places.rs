//! Who has a place among the streams of one edge thread, and whose stream ends when another needs its place.
//!
//! ```text
//!   stream asked for ─▶ take ─ room? ────────────────────────▶ place
//!                        └─ none: who has the most, two more ─▶ its newest stream is cut ─▶ place
//!                                 than whoever asks?        └─ nobody: refused
//! ```
//!
//! Promise: whoever has none gets one as long as there are fewer callers than places, however many the others have
//! opened before. Some places are for services only, so viewers alone, whatever their number, never take all.
//!
//! Why the newest: what has run for long has the most to lose. Why two more: with one more, two callers would cut each
//! other's streams in turn.

use std::sync::{Arc, Mutex, MutexGuard};

use hashbrown::HashMap;

use super::parts::{Cut, GoesOn};
use crate::turns::CallerName;

/// The bounds of one kind of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacesLimits {
    /// Streams in all.
    pub all_max: usize,
    /// Streams of one caller.
    pub of_caller_max: usize,
    /// Places of `all_max` that viewers cannot take.
    pub for_services: usize,
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// The caller has as many as it may.
    OfCaller,
    /// All are taken, by callers who have hardly more than this one.
    OfAll,
}

/// The places of one kind of streams.
#[derive(Debug)]
pub struct Places {
    limits: PlacesLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The streams of each caller who has any, the newest last.
    open: HashMap<CallerName, Vec<Open>>,
    /// Places that viewers have, and that others have.
    taken: [usize; 2],
    /// The number of the next stream.
    next: u64,
}

#[derive(Debug)]
struct Open {
    number: u64,
    /// Dropped when the stream is to end.
    _goes_on: GoesOn,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    of: Arc<Places>,
    caller: CallerName,
    number: u64,
    cut: Cut,
}

impl Places {
    /// Free places.
    ///
    /// # Panics
    /// If viewers could have none.
    pub fn new(limits: PlacesLimits) -> Arc<Places> {
        assert!(limits.for_services < limits.all_max, "there are places for viewers: {limits:?}");
        Arc::new(Places { limits, state: Mutex::default() })
    }

    /// A place for one more stream of `caller`, and whether the stream of another caller was cut for it.
    pub fn take(self: &Arc<Places>, caller: CallerName) -> Result<(Place, bool), NoPlace> {
        let mut state = self.state();
        let own = state.open.get(&caller).map_or(0, Vec::len);
        if own >= self.limits.of_caller_max {
            return Err(NoPlace::OfCaller);
        }
        let has_room = state.has_room(&caller, &self.limits);
        if !has_room {
            state.cut_for(&caller, own, &self.limits)?;
        }
        let (number, (goes_on, cut)) = (state.next, GoesOn::new());
        state.next += 1;
        state.taken[kind(&caller)] += 1;
        state.open.entry(caller.clone()).or_default().push(Open { number, _goes_on: goes_on });
        assert!(state.taken.iter().sum::<usize>() <= self.limits.all_max, "streams are bounded");
        drop(state);
        Ok((Place { of: self.clone(), caller, number, cut }, !has_room))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the places")
    }
}

impl State {
    fn has_room(&self, caller: &CallerName, limits: &PlacesLimits) -> bool {
        let [viewers, others] = self.taken;
        let is_viewer = kind(caller) == VIEWERS;
        viewers + others < limits.all_max && (!is_viewer || viewers < limits.all_max - limits.for_services)
    }

    /// Ends a stream of whoever has the most. A viewer takes the place of a service only if services have more than is
    /// kept for them.
    fn cut_for(&mut self, caller: &CallerName, own: usize, limits: &PlacesLimits) -> Result<(), NoPlace> {
        let may_lose = |name: &CallerName| {
            kind(caller) != VIEWERS || kind(name) == VIEWERS || self.taken[OTHERS] > limits.for_services
        };
        let losers = self.open.iter().filter(|(name, streams)| may_lose(name) && streams.len() >= own + 2);
        let (loser, streams) = losers.max_by_key(|(_, streams)| streams.len()).ok_or(NoPlace::OfAll)?;
        let (loser, newest) = (loser.clone(), streams.last().expect("it has two or more").number);
        self.leave(&loser, newest);
        Ok(())
    }

    /// The stream is over, or was cut before.
    fn leave(&mut self, caller: &CallerName, number: u64) {
        let Some(streams) = self.open.get_mut(caller) else { return };
        let Some(place) = streams.iter().position(|open| open.number == number) else { return };
        streams.remove(place);
        if streams.is_empty() {
            self.open.remove(caller);
        }
        self.taken[kind(caller)] -= 1;
    }
}

/// Where viewers are counted.
const VIEWERS: usize = 0;
/// Where all others are.
const OTHERS: usize = 1;

fn kind(caller: &CallerName) -> usize {
    match caller {
        CallerName::Viewer(_) => VIEWERS,
        CallerName::Stranger(_) | CallerName::Service(_) | CallerName::Certificate(_) => OTHERS,
    }
}

impl Place {
    /// Tells when the stream is to end.
    pub fn cut(&self) -> Cut {
        self.cut.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.state().leave(&self.caller, self.number);
    }
}

#[cfg(test)]
mod tests;

//! Few places for work that takes long, which callers get in turn: to read a page of changes, a large piece of a
//! history, or the next bytes of the journal.
//!
//! ```text
//!   viewer a  ─ ten requests ┐
//!   viewer b  ─ one          ├─▶ viewers in turn  ┐
//!   viewer c  ─ two          ┘                    ├─▶ one of these, one of those ─▶ few places
//!   service d ─ one          ──▶ services in turn ┘
//! ```
//!
//! Promise: whoever asks waits for one of each other caller, however many requests those have; and a service for one of
//! all viewers together. Some places may be for services only. Whoever gives up has never been there.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use slab::Slab;

use super::CallerName;

/// How many places there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceLimits {
    /// In all.
    pub at_once: usize,
    /// That one caller has at once.
    pub of_caller_at_once: usize,
    /// Of those in all, that viewers do not take.
    pub for_services: usize,
}

/// The places, and who waits for one. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PlacesInTurn {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: PlaceLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    callers: HashMap<CallerName, Caller>,
    /// Callers whose turn comes: viewers, and others.
    order: [VecDeque<CallerName>; 2],
    waiting: Slab<Waiting>,
    /// Places that viewers have, and others.
    given: [usize; 2],
    /// Which of the two got the last place.
    last: usize,
}

/// Somebody who waits for a place or has one.
#[derive(Debug, Default)]
struct Caller {
    waiting: VecDeque<usize>,
    places: usize,
    /// It is in the order.
    stands: bool,
}

#[derive(Debug)]
struct Waiting {
    caller: CallerName,
    has_place: bool,
    waker: Option<Waker>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub struct PlaceInTurn {
    of: PlacesInTurn,
    caller: CallerName,
}

/// Where viewers stand.
const VIEWERS: usize = 0;
/// Where all others do.
const OTHERS: usize = 1;

fn kind(caller: &CallerName) -> usize {
    if matches!(caller, CallerName::Viewer(_)) { VIEWERS } else { OTHERS }
}

impl PlacesInTurn {
    /// Free places.
    ///
    /// # Panics
    /// If viewers, or one caller, could have none.
    pub fn new(limits: PlaceLimits) -> PlacesInTurn {
        assert!(limits.for_services < limits.at_once && limits.of_caller_at_once > 0, "each may have one: {limits:?}");
        PlacesInTurn { shared: Arc::new(Shared { limits, state: Mutex::default() }) }
    }

    /// Waits until it is this caller's turn.
    pub fn place(&self, caller: CallerName) -> impl Future<Output = PlaceInTurn> + Send + use<> {
        Turn { of: self.clone(), caller, place: None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().expect("no thread panics while it holds the turns")
    }
}

impl State {
    /// Gives free places in turn.
    fn give(&mut self, limits: &PlaceLimits) {
        loop {
            let first = 1 - self.last;
            let Some(kind) = [first, 1 - first].into_iter().find(|kind| self.may_give(*kind, limits)) else { return };
            self.give_to(kind, limits);
        }
    }

    fn may_give(&self, kind: usize, limits: &PlaceLimits) -> bool {
        let [viewers, others] = self.given;
        !self.order[kind].is_empty()
            && viewers + others < limits.at_once
            && (kind != VIEWERS || viewers < limits.at_once - limits.for_services)
    }

    fn give_to(&mut self, kind: usize, limits: &PlaceLimits) {
        let name = self.order[kind].pop_front().expect("somebody stands there");
        let caller = self.callers.get_mut(&name).expect("whoever stands in the order is known");
        let place = caller.waiting.pop_front().expect("whoever stands in the order waits");
        caller.places += 1;
        caller.stands = false;
        self.stand(name, limits);
        self.given[kind] += 1;
        self.last = kind;
        let waiting = &mut self.waiting[place];
        waiting.has_place = true;
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
    }

    /// Puts a caller into the order if it waits and may have one more place; forgets one that has nothing.
    fn stand(&mut self, name: CallerName, limits: &PlaceLimits) {
        let caller = self.callers.get_mut(&name).expect("somebody who waits or has a place is known");
        if caller.stands {
            return;
        }
        if !caller.waiting.is_empty() && caller.places < limits.of_caller_at_once {
            caller.stands = true;
            self.order[kind(&name)].push_back(name);
        } else if caller.waiting.is_empty() && caller.places == 0 {
            self.callers.remove(&name);
        }
    }

    fn join(&mut self, name: CallerName, limits: &PlaceLimits) -> usize {
        let place = self.waiting.insert(Waiting { caller: name.clone(), has_place: false, waker: None });
        self.callers.entry(name.clone()).or_default().waiting.push_back(place);
        self.stand(name, limits);
        self.give(limits);
        place
    }

    /// Somebody who waited waits no longer.
    fn give_up(&mut self, name: CallerName, place: usize, limits: &PlaceLimits) {
        let caller = self.callers.get_mut(&name).expect("whoever waits is known");
        caller.waiting.retain(|waiting| *waiting != place);
        if caller.waiting.is_empty() && std::mem::take(&mut caller.stands) {
            self.order[kind(&name)].retain(|standing| *standing != name);
        }
        self.stand(name, limits);
    }

    fn take_back(&mut self, name: CallerName, limits: &PlaceLimits) {
        self.callers.get_mut(&name).expect("whoever has a place is known").places -= 1;
        self.given[kind(&name)] -= 1;
        self.stand(name, limits);
        self.give(limits);
    }
}

/// A place for this caller, when it is there.
struct Turn {
    of: PlacesInTurn,
    caller: CallerName,
    place: Option<usize>,
}

impl Future for Turn {
    type Output = PlaceInTurn;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<PlaceInTurn> {
        let places = self.of.clone();
        let mut state = places.state();
        let place = match self.place {
            Some(place) => place,
            None => {
                let place = state.join(self.caller.clone(), &places.shared.limits);
                self.place = Some(place);
                place
            }
        };
        if !state.waiting[place].has_place {
            state.waiting[place].waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let Waiting { caller, .. } = state.waiting.remove(place);
        drop(state);
        self.place = None;
        Poll::Ready(PlaceInTurn { of: places, caller })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let mut state = self.of.state();
        let limits = &self.of.shared.limits;
        let Waiting { caller, has_place, .. } = state.waiting.remove(place);
        match has_place {
            true => state.take_back(caller, limits),
            false => state.give_up(caller, place, limits),
        }
    }
}

impl Drop for PlaceInTurn {
    fn drop(&mut self) {
        self.of.state().take_back(self.caller.clone(), &self.of.shared.limits);
    }
}

#[cfg(test)]
mod tests;

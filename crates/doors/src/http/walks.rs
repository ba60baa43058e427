//! Who reads a large piece next: of a long history, few pieces are read at once for an edge thread, callers in turn.
//!
//! ```text
//!   caller a ─ `?at=` of long ago, ten of them ┐
//!   caller b ─ a history as lines              ├─▶ in turn, one piece of each caller ─▶ few places ─▶ shards
//!   caller c ─ a span of last year             ┘
//! ```
//!
//! Promise: whoever reads far waits for a piece of each other caller who does, however many requests those have; and
//! the shards have few such pieces of this thread at a time.
//!
//! Why not the turns of requests alone: those share out the time of this thread, and a piece costs the shards more.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use slab::Slab;

use crate::turns::limits::WORK_IN_ROUND_MAX;
use crate::turns::{CallerKey, CallerMark, Turns};

/// Pieces that are read at once for one edge thread. More than a shard reads at once, so that one which waits for a
/// slow disk does not stop all.
const PIECES_AT_ONCE: usize = 4;

/// The pieces of one edge thread. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Walks {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    turns: Turns<CallerMark, usize>,
    waiting: Slab<Waiting>,
    /// Places given.
    given: usize,
}

struct Waiting {
    caller: CallerKey,
    has_place: bool,
    waker: Option<Waker>,
}

/// A place among those who read a large piece, until it is dropped.
pub struct WalkPlace(Walks);

impl Walks {
    /// Waits until it is this caller's turn.
    pub fn place(&self, caller: CallerMark) -> impl Future<Output = WalkPlace> + Send + use<> {
        Turn { of: self.clone(), caller, place: None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the turns")
    }
}

impl State {
    /// Gives free places in turn.
    fn give(&mut self) {
        while self.given < PIECES_AT_ONCE {
            self.turns.begin(WORK_IN_ROUND_MAX);
            let Some((caller, place, _)) = self.turns.take_next() else { return };
            self.turns.served(caller, WORK_IN_ROUND_MAX);
            self.given += 1;
            let waiting = &mut self.waiting[place];
            waiting.has_place = true;
            if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
        }
    }

    fn take_back(&mut self) {
        assert!(self.given > 0, "a place is taken back once");
        self.given -= 1;
        self.give();
    }
}

/// A place for this caller, when it is there.
struct Turn {
    of: Walks,
    caller: CallerMark,
    place: Option<usize>,
}

impl Future for Turn {
    type Output = WalkPlace;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WalkPlace> {
        let walks = self.of.clone();
        let mut state = walks.state();
        let place = match self.place {
            Some(place) => place,
            None => {
                let caller = state.turns.join(self.caller);
                let place = state.waiting.insert(Waiting { caller, has_place: false, waker: None });
                state.turns.wait(caller, place);
                self.place = Some(place);
                state.give();
                place
            }
        };
        if !state.waiting[place].has_place {
            state.waiting[place].waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let Waiting { caller, .. } = state.waiting.remove(place);
        state.turns.leave(caller);
        drop(state);
        self.place = None;
        Poll::Ready(WalkPlace(walks))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let mut state = self.of.state();
        let Waiting { caller, has_place, .. } = state.waiting.remove(place);
        if !has_place {
            state.turns.take_back(caller, place);
        }
        state.turns.leave(caller);
        if has_place {
            state.take_back();
        }
    }
}

impl Drop for WalkPlace {
    fn drop(&mut self) {
        self.0.state().take_back();
    }
}

#[cfg(test)]
mod tests;

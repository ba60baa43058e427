//! Bytes of bodies that one edge thread has read in part, by whom they come.
//!
//! ```text
//!   piece of a body, more to come ─▶ more: counted until the body is whole or given up ─▶ read on, or 429 / 503
//! ```
//!
//! Promise: however many connections a caller sends half a body on, they take a bounded part of the memory. A caller
//! may have three times as much as is left, so one that has sent little finds room beside a few that send much.
//! Viewers leave a quarter to services. A body that comes in one piece, as nearly all do, is not counted and never
//! refused here.

use std::sync::{Arc, Mutex};

use hashbrown::HashMap;

use crate::turns::CallerName;
use crate::turns::limits::SHARE_OF_CALLER;

/// The bounds, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BodiesLimits {
    /// Of all callers.
    pub all_max: usize,
    /// Of one viewer.
    pub of_viewer_max: usize,
}

/// Why a body is not read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// Its caller has sent as much as it may that is not whole.
    OfCaller,
    /// All have, and its caller has a large part of it.
    OfAll,
}

/// What is read in part.
#[derive(Debug)]
pub(super) struct Bodies {
    limits: BodiesLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    callers: HashMap<CallerName, usize>,
    /// Of viewers.
    viewers: usize,
    all: usize,
}

/// Bytes of one body, until it is dropped.
#[derive(Debug)]
pub(super) struct HeldBody {
    of: Arc<Bodies>,
    caller: CallerName,
    bytes: usize,
}

impl Bodies {
    /// Nothing read.
    pub fn new(limits: BodiesLimits) -> Arc<Bodies> {
        Arc::new(Bodies { limits, state: Mutex::default() })
    }

    /// One body of `caller`, of which nothing is read.
    pub fn hold(self: &Arc<Bodies>, caller: CallerName) -> HeldBody {
        HeldBody { of: self.clone(), caller, bytes: 0 }
    }
}

impl HeldBody {
    /// So many more bytes of it are read.
    pub fn more(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let limits = self.of.limits;
        let is_viewer = matches!(self.caller, CallerName::Viewer(_));
        let mut state = self.of.state.lock().expect("no thread panics while it counts");
        let of_caller = state.callers.get(&self.caller).copied().unwrap_or(0) + bytes;
        if is_viewer && of_caller > limits.of_viewer_max {
            return Err(NoRoom::OfCaller);
        }
        let left_of_all = limits.all_max.checked_sub(state.all + bytes);
        let left = match is_viewer {
            true => left_of_all.and((limits.all_max - limits.all_max / 4).checked_sub(state.viewers + bytes)),
            false => left_of_all,
        };
        if left.is_none_or(|left| of_caller > SHARE_OF_CALLER * left) {
            return Err(NoRoom::OfAll);
        }
        state.callers.insert(self.caller.clone(), of_caller);
        state.all += bytes;
        state.viewers += if is_viewer { bytes } else { 0 };
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut state = self.of.state.lock().expect("no thread panics while it counts");
        let of_caller = state.callers.get_mut(&self.caller).expect("what it has read is counted");
        *of_caller -= self.bytes;
        if *of_caller == 0 {
            state.callers.remove(&self.caller);
        }
        state.all -= self.bytes;
        state.viewers -= if matches!(self.caller, CallerName::Viewer(_)) { self.bytes } else { 0 };
        assert!(state.viewers <= state.all, "viewers are some of all");
    }
}

#[cfg(test)]
mod tests;

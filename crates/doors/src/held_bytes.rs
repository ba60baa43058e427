//! Bytes of bodies and frames that one thread has read in part, by whom they come.
//!
//! ```text
//!   piece of a body or frame, more to come ─▶ counted until it is whole or given up ─▶ read on, or refused
//! ```
//!
//! Promise: however many connections a caller sends half a body on, they take a bounded part of the memory. A caller
//! may have three times as much as is left, so one that has sent little finds room beside a few that send much.
//! Viewers leave a quarter to services. What comes in one piece, as nearly all do, is not counted and never refused
//! here.

use std::sync::{Arc, Mutex};

use hashbrown::HashMap;

use crate::turns::CallerName;
use crate::turns::limits::SHARE_OF_CALLER;

/// The bounds, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBytesLimits {
    /// Of all callers.
    pub all_max: usize,
    /// Of one viewer.
    pub of_viewer_max: usize,
}

/// Why a body or frame is not read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// Its caller has sent as much as it may that is not whole.
    OfCaller,
    /// All have, and its caller has a large part of it.
    OfAll,
}

/// What is read in part.
#[derive(Debug)]
pub struct HeldBytes {
    limits: HeldBytesLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    callers: HashMap<CallerName, usize>,
    /// Of viewers.
    viewers: usize,
    all: usize,
}

/// Bytes of one body, or of what one connection has sent ahead, until it is dropped.
#[derive(Debug)]
pub struct Held {
    of: Arc<HeldBytes>,
    caller: CallerName,
    bytes: usize,
}

impl HeldBytes {
    /// Nothing read.
    pub fn new(limits: HeldBytesLimits) -> Arc<HeldBytes> {
        Arc::new(HeldBytes { limits, state: Mutex::default() })
    }

    /// One body of `caller`, of which nothing is read.
    pub fn hold(self: &Arc<HeldBytes>, caller: CallerName) -> Held {
        Held { of: self.clone(), caller, bytes: 0 }
    }
}

impl Held {
    /// So many bytes of it are read by now.
    pub fn set(&mut self, bytes: usize) -> Result<(), NoRoom> {
        match bytes.checked_sub(self.bytes) {
            Some(0) => Ok(()),
            Some(more) => self.more(more),
            None => {
                self.less(self.bytes - bytes);
                Ok(())
            }
        }
    }

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

    /// So many bytes fewer of it are kept.
    fn less(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut state = self.of.state.lock().expect("no thread panics while it counts");
        let of_caller = state.callers.get_mut(&self.caller).expect("what it has read is counted");
        *of_caller -= bytes;
        if *of_caller == 0 {
            state.callers.remove(&self.caller);
        }
        state.all -= bytes;
        state.viewers -= if matches!(self.caller, CallerName::Viewer(_)) { bytes } else { 0 };
        assert!(state.viewers <= state.all, "viewers are some of all");
        self.bytes -= bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.less(self.bytes);
    }
}

#[cfg(test)]
mod tests;

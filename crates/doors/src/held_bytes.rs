//! Bytes of bodies and frames that one thread has read in part, by whom they come; and of what it has read ahead for
//! those who read changes.
//!
//! ```text
//!   piece of a body or frame, more to come ─▶ counted until it is whole or given up ─▶ read on, or refused
//! ```
//!
//! Promise: however many connections a caller sends half a body on, they take a bounded part of the memory. A caller
//! may have three times as much as is left, so one that has sent little finds room beside a few that send much.
//! Viewers leave a quarter to services. What comes in one piece, as nearly all do, is not counted and never refused
//! here.

use std::sync::{Arc, Mutex, MutexGuard};

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

/// What is read in part, of one thread.
#[derive(Debug)]
pub struct HeldTable {
    limits: HeldBytesLimits,
    callers: HashMap<CallerName, usize>,
    /// Of viewers.
    viewers: usize,
    all: usize,
}

impl HeldTable {
    /// Nothing read.
    pub fn new(limits: HeldBytesLimits) -> HeldTable {
        HeldTable { limits, callers: HashMap::new(), viewers: 0, all: 0 }
    }

    /// Of what `caller` has sent on one connection, `after` bytes are kept instead of `before`.
    pub fn change(&mut self, caller: &CallerName, before: usize, after: usize) -> Result<(), NoRoom> {
        match after.checked_sub(before) {
            Some(0) => Ok(()),
            Some(more) => self.add(caller, more),
            None => {
                self.remove(caller, before - after);
                Ok(())
            }
        }
    }

    fn add(&mut self, caller: &CallerName, bytes: usize) -> Result<(), NoRoom> {
        let limits = self.limits;
        let is_viewer = matches!(caller, CallerName::Viewer(_));
        let of_caller = self.callers.get(caller).copied().unwrap_or(0) + bytes;
        if is_viewer && of_caller > limits.of_viewer_max {
            return Err(NoRoom::OfCaller);
        }
        let left_of_all = limits.all_max.checked_sub(self.all + bytes);
        let left = match is_viewer {
            true => left_of_all.and((limits.all_max - limits.all_max / 4).checked_sub(self.viewers + bytes)),
            false => left_of_all,
        };
        if left.is_none_or(|left| of_caller > SHARE_OF_CALLER * left) {
            return Err(NoRoom::OfAll);
        }
        self.callers.insert(caller.clone(), of_caller);
        self.all += bytes;
        self.viewers += if is_viewer { bytes } else { 0 };
        Ok(())
    }

    fn remove(&mut self, caller: &CallerName, bytes: usize) {
        let of_caller = self.callers.get_mut(caller).expect("what it has read is counted");
        *of_caller -= bytes;
        if *of_caller == 0 {
            self.callers.remove(caller);
        }
        self.all -= bytes;
        self.viewers -= if matches!(caller, CallerName::Viewer(_)) { bytes } else { 0 };
        assert!(self.viewers <= self.all, "viewers are some of all");
    }
}

/// The same for tasks that hold their bytes until they are dropped.
#[derive(Debug)]
pub struct HeldBytes(Mutex<HeldTable>);

/// Bytes of one body, until it is dropped.
#[derive(Debug)]
pub struct Held {
    of: Arc<HeldBytes>,
    caller: CallerName,
    bytes: usize,
}

impl HeldBytes {
    /// Nothing read.
    pub fn new(limits: HeldBytesLimits) -> Arc<HeldBytes> {
        Arc::new(HeldBytes(Mutex::new(HeldTable::new(limits))))
    }

    /// One body of `caller`, of which nothing is read.
    pub fn hold(self: &Arc<HeldBytes>, caller: CallerName) -> Held {
        Held { of: self.clone(), caller, bytes: 0 }
    }

    fn table(&self) -> MutexGuard<'_, HeldTable> {
        self.0.lock().expect("no thread panics while it counts")
    }
}

impl Held {
    /// So many more bytes of it are read.
    pub fn more(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.change(self.bytes + bytes)
    }

    /// How many are counted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// So many bytes are held now. If there is no room for them, as many are counted as before.
    pub fn change(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.of.table().change(&self.caller, self.bytes, bytes)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let given_back = self.of.table().change(&self.caller, self.bytes, 0);
        assert!(given_back.is_ok(), "less always finds room");
    }
}

#[cfg(test)]
mod tests;

//! What is wrong with rooms now, as their threads say it and health answers show it.
//!
//! Why a lock: no worker asks. A room tells of a change, and a door looks when somebody asks how the server is.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is wrong with rooms now, in a word each, by their names.
#[derive(Debug, Default)]
pub(crate) struct RoomFaults(Mutex<BTreeMap<&'static str, &'static str>>);

impl RoomFaults {
    fn all(&self) -> MutexGuard<'_, BTreeMap<&'static str, &'static str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of all rooms.
    pub fn get(&self) -> BTreeMap<&'static str, &'static str> {
        self.all().clone()
    }

    /// What is wrong with a room, if anything is.
    pub fn set(&self, room: &'static str, fault: Option<&'static str>) {
        match fault {
            Some(fault) => drop(self.all().insert(room, fault)),
            None => drop(self.all().remove(room)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_has_one_fault_or_none() {
        let faults = RoomFaults::default();
        faults.set("one", Some("away"));
        faults.set("one", Some("refuses"));
        faults.set("two", Some("full"));
        assert_eq!(faults.get(), BTreeMap::from([("one", "refuses"), ("two", "full")]));
        ["one", "two", "two"].into_iter().for_each(|room| faults.set(room, None));
        assert!(faults.get().is_empty());
    }
}

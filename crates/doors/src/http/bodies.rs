//! Room for the bodies that one edge thread is reading: in all, and for each caller.
//!
//! Promise: bodies that come slowly hold a bounded number of bytes, and whatever one caller sends, there is room for
//! those of others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::turns::CallerMark;
use crate::turns::limits::SHARE_OF_CALLER;

/// Bodies of so many bytes are not counted: as many as there may be connections are few bytes.
const UNCOUNTED_BYTES: usize = 4 << 10;
/// Bytes of all bodies that are being read, at least; more where a single one may have more.
const BYTES_MIN: usize = 128 << 20;
/// The largest bodies that may be read at the same time.
const LARGEST_AT_ONCE: usize = 8;

/// The room of one edge thread.
pub struct BodyRoom {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    bytes: usize,
    of_callers: HashMap<CallerMark, usize>,
}

/// Room that a body has until this is dropped.
pub struct HeldBody {
    room: Arc<BodyRoom>,
    caller: CallerMark,
    bytes: usize,
}

impl BodyRoom {
    /// For bodies of at most so many bytes each.
    pub fn new(body_bytes_max: usize) -> Arc<BodyRoom> {
        let bytes_max = BYTES_MIN.max(LARGEST_AT_ONCE * body_bytes_max);
        Arc::new(BodyRoom { bytes_max, held: Mutex::default() })
    }

    /// Room for a body of this caller; `None` if it has too much already. A caller may have three times as much as is
    /// left for others, as of requests under way at the other ports.
    pub fn hold(self: &Arc<BodyRoom>, caller: CallerMark, bytes: usize) -> Option<HeldBody> {
        let bytes = if bytes <= UNCOUNTED_BYTES { 0 } else { bytes };
        if bytes > 0 {
            let mut held = self.held();
            let left = self.bytes_max.saturating_sub(held.bytes + bytes);
            let of_caller = held.of_callers.get(&caller).map_or(bytes, |held| held + bytes);
            if of_caller > SHARE_OF_CALLER * left {
                return None;
            }
            held.bytes += bytes;
            held.of_callers.insert(caller, of_caller);
        }
        Some(HeldBody { room: self.clone(), caller, bytes })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("no thread panics while it holds the room")
    }
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut held = self.room.held();
        held.bytes -= self.bytes;
        let of_caller = held.of_callers.get_mut(&self.caller).expect("what is held is counted");
        *of_caller -= self.bytes;
        if *of_caller == 0 {
            held.of_callers.remove(&self.caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::{CallerMarks, CallerName};

    #[test]
    fn one_caller_leaves_a_quarter_and_gives_back_what_it_had() {
        let (room, marks) = (BodyRoom::new(1 << 20), CallerMarks::default());
        let caller = |name: &str| marks.of(&CallerName::Viewer(name.into()));
        let fill = |name: &str| -> Vec<HeldBody> { std::iter::from_fn(|| room.hold(caller(name), 1 << 20)).collect() };
        let of_dave = fill("dave");
        assert_eq!(of_dave.len(), 96);
        let of_erin = fill("erin");
        assert_eq!(of_erin.len(), 24);
        assert!(room.hold(caller("dave"), UNCOUNTED_BYTES).is_some(), "what is small always finds room");
        drop((of_dave, of_erin));
        assert!(room.held().of_callers.is_empty());
        assert_eq!(room.held().bytes, 0);
        assert_eq!(fill("dave").len(), 96);
        let large = BodyRoom::new(64 << 20);
        assert!(large.hold(caller("dave"), 64 << 20).is_some());
    }
}

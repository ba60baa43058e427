//! How many log-ins are under way: over all, and of each lane. Lanes are counted in a sketch that never counts too few.
//!
//! ```text
//!   places │ lane a ███ │ lane b ███ │ lane c ███ │ left ░░░ │     a lane may have one more than is left
//! ```
//!
//! Promise: the more lanes have log-ins under way, the fewer each may have, so that a place is left for one that has
//! none: a few lanes cannot fill it all, whatever they send. However many lanes there are, those that sent wrong
//! passwords have half of all places.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Cells of each of two rows.
const CELLS: usize = 1 << 12;

/// See the module.
pub struct Share {
    counts: Arc<Counts>,
    all_max: usize,
    lane_max: u32,
}

struct Counts {
    all: AtomicUsize,
    cells: Box<[AtomicU32]>,
}

/// What is known of who wants to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The user has logged in from there before.
    Known,
    /// Nothing.
    Unknown,
    /// A wrong password came from there lately.
    Struck,
}

/// A place among the log-ins under way, until it is dropped.
pub struct Place {
    counts: Arc<Counts>,
    lane: u64,
}

impl Share {
    /// At most `all_max`, and at most `lane_max` of one lane.
    pub fn new(all_max: usize, lane_max: u32) -> Share {
        let cells = (0..2 * CELLS).map(|_| AtomicU32::new(0)).collect();
        Share { counts: Arc::new(Counts { all: AtomicUsize::new(0), cells }), all_max, lane_max: lane_max.max(1) }
    }

    /// A place for one more of `lane`. A quarter of all is kept for users who are known where they come from, and a
    /// quarter for those and for addresses that have sent no wrong password lately.
    pub fn enter(&self, lane: u64, standing: Standing) -> Option<Place> {
        let all_max = match standing {
            Standing::Known => self.all_max,
            Standing::Unknown => self.all_max - self.all_max / 4,
            Standing::Struck => self.all_max - self.all_max / 2,
        };
        let place = Place { counts: self.counts.clone(), lane };
        let all = self.counts.all.fetch_add(1, Ordering::Relaxed) + 1;
        let [one, other] = self.counts.of(lane).map(|cell| cell.fetch_add(1, Ordering::Relaxed) + 1);
        let left = u32::try_from(all_max.checked_sub(all)?).unwrap_or(u32::MAX);
        (one.min(other) <= self.lane_max.min(left.saturating_add(1))).then_some(place)
    }

    /// Whether `lane` has fewer under way than it ever may.
    pub fn is_free(&self, lane: u64) -> bool {
        let [one, other] = self.counts.of(lane).map(|cell| cell.load(Ordering::Relaxed));
        one.min(other) < self.lane_max
    }
}

impl Counts {
    fn of(&self, lane: u64) -> [&AtomicU32; 2] {
        let (first, second) = (lane as usize % CELLS, (lane >> 32) as usize % CELLS);
        [&self.cells[first], &self.cells[CELLS + second]]
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.counts.all.fetch_sub(1, Ordering::Relaxed);
        for cell in self.counts.of(self.lane) {
            cell.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

//! How many log-ins are under way: over all, and of each lane. Lanes are counted in a sketch that never counts too few.

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

    /// A place for one more of `lane`. A quarter of all is kept for users who are known where they come from.
    pub fn enter(&self, lane: u64, is_known: bool) -> Option<Place> {
        let all_max = if is_known { self.all_max } else { self.all_max - self.all_max / 4 };
        let place = Place { counts: self.counts.clone(), lane };
        let all = self.counts.all.fetch_add(1, Ordering::Relaxed) + 1;
        let [one, other] = self.counts.of(lane).map(|cell| cell.fetch_add(1, Ordering::Relaxed) + 1);
        (all <= all_max && one.min(other) <= self.lane_max).then_some(place)
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

//! A set of marks, each until its time is over, in a fixed amount of memory and without a lock. It may forget too
//! early; it never knows what it was not told.

use std::sync::atomic::{AtomicU64, Ordering};

use super::mark::Mark;

/// Places at which a mark may stand.
const WAYS: usize = 4;

/// See the module.
pub struct Remembered {
    slots: Box<[Slot]>,
}

#[derive(Default)]
struct Slot {
    /// Both halves of the mark. A reader that meets a writer sees halves of two marks, which is none.
    mark: [AtomicU64; 2],
    until_ms: AtomicU64,
}

impl Remembered {
    /// At most `marks_max` of them.
    pub fn new(marks_max: usize) -> Remembered {
        let slots = marks_max.next_power_of_two().max(WAYS);
        Remembered { slots: (0..slots).map(|_| Slot::default()).collect() }
    }

    /// Whether `mark` was kept and its time is not over.
    pub fn has(&self, mark: Mark, now_ms: u64) -> bool {
        self.ways(mark).iter().any(|slot| slot.is(mark) && now_ms < slot.until_ms.load(Ordering::Acquire))
    }

    /// Keeps `mark`, instead of whichever of its neighbours has the least time left.
    pub fn keep(&self, mark: Mark, until_ms: u64, now_ms: u64) {
        let ways = self.ways(mark);
        let left_ms = |slot: &&Slot| slot.until_ms.load(Ordering::Relaxed).saturating_sub(now_ms);
        let known = ways.iter().find(|slot| slot.is(mark));
        let slot = known.or_else(|| ways.iter().min_by_key(left_ms)).expect("there are some");
        // Whoever reads meanwhile finds nothing.
        slot.until_ms.store(0, Ordering::Release);
        for (half, value) in slot.mark.iter().zip(mark.0) {
            half.store(value, Ordering::Release);
        }
        slot.until_ms.store(until_ms, Ordering::Release);
    }

    /// Forgets `mark`.
    pub fn forget(&self, mark: Mark) {
        self.ways(mark).iter().filter(|slot| slot.is(mark)).for_each(|slot| slot.until_ms.store(0, Ordering::Release));
    }

    fn ways(&self, mark: Mark) -> &[Slot] {
        let first = mark.number() as usize % self.slots.len() / WAYS * WAYS;
        &self.slots[first..first + WAYS]
    }
}

impl Slot {
    fn is(&self, mark: Mark) -> bool {
        self.mark.iter().zip(mark.0).all(|(half, value)| half.load(Ordering::Acquire) == value)
    }
}

//! How often users were bid for, in bounded memory, for all workers together.
//!
//! ```text
//!   hash of user and campaign ─▶ a bucket of eight cells:  fingerprint 32 │ until 24 (seconds) │ bids 8
//! ```
//!
//! A window begins with the first bid for a user, and ends `window_s` later. Cells are changed by compare-and-swap: two
//! workers that bid for one user at one moment both count.
//!
//! Error: a user is taken for another one of the same bucket with a probability of 8 / 2^32, and then bid for too
//! seldom. When more users are remembered than there are cells, the one of the bucket whose window ends next is
//! forgotten, and may be bid for again; this is counted.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_machines::TimeMs;

use crate::plan::FrequencyCap;

const WAYS: usize = 8;
const COUNT_BITS: u32 = 8;
const UNTIL_BITS: u32 = 24;
/// Most bids that a cell counts.
pub const BIDS_MAX: u32 = (1 << COUNT_BITS) - 1;
/// The longest window: half of what a cell's clock can tell apart.
pub const WINDOW_S_MAX: u32 = 1 << (UNTIL_BITS - 1);

/// Users that were bid for.
pub struct FrequencyTable {
    buckets: Box<[Bucket]>,
    forgotten: AtomicU64,
}

/// The cells of the users of one hash: a line of the cache.
#[derive(Default)]
#[repr(align(64))]
struct Bucket([AtomicU64; WAYS]);

/// One cell, taken apart.
#[derive(Clone, Copy)]
struct Cell {
    fingerprint: u32,
    until_s: u32,
    bids: u32,
}

impl Cell {
    fn of(bits: u64) -> Cell {
        Cell {
            fingerprint: (bits >> 32) as u32,
            until_s: (bits >> COUNT_BITS) as u32 & ((1 << UNTIL_BITS) - 1),
            bids: bits as u32 & BIDS_MAX,
        }
    }

    fn bits(self) -> u64 {
        u64::from(self.fingerprint) << 32 | u64::from(self.until_s) << COUNT_BITS | u64::from(self.bids)
    }

    /// Seconds until its window ends; none if it has ended, or the cell is empty.
    fn left_s(self, now_s: u32) -> u32 {
        let left = self.until_s.wrapping_sub(now_s) & ((1 << UNTIL_BITS) - 1);
        if self.bids == 0 || left > WINDOW_S_MAX { 0 } else { left }
    }
}

impl FrequencyTable {
    /// Remembers about so many users at once.
    pub fn new(users: usize) -> FrequencyTable {
        let buckets = users.div_ceil(WAYS).next_power_of_two();
        FrequencyTable { buckets: (0..buckets).map(|_| Bucket::default()).collect(), forgotten: AtomicU64::new(0) }
    }

    /// Users that were forgotten before their windows had ended.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    /// Counts a bid for a user, whose `hash` is of user and campaign. Returns whether it may be made.
    pub fn count(&self, hash: u64, cap: FrequencyCap, now: TimeMs) -> bool {
        let now_s = (now.0 / 1_000) as u32 & ((1 << UNTIL_BITS) - 1);
        let fingerprint = (hash >> 32) as u32;
        let Bucket(cells) = &self.buckets[hash as usize & (self.buckets.len() - 1)];
        loop {
            let known = cells.iter().map(|cell| cell.load(Ordering::Relaxed));
            let (mut at, mut bits, mut left_least) = (0, 0, u32::MAX);
            let mut is_found = false;
            for (way, cell_bits) in known.enumerate() {
                let cell = Cell::of(cell_bits);
                let left = cell.left_s(now_s);
                if left > 0 && cell.fingerprint == fingerprint {
                    (at, bits, is_found) = (way, cell_bits, true);
                    break;
                }
                if left < left_least {
                    (at, bits, left_least) = (way, cell_bits, left);
                }
            }
            let cell = Cell::of(bits);
            let next = match is_found {
                true if cell.is_full(cap) => return false,
                true => Cell { bids: cell.bids + 1, ..cell },
                false => {
                    let until_s = now_s.wrapping_add(cap.window_s.clamp(1, WINDOW_S_MAX)) & ((1 << UNTIL_BITS) - 1);
                    Cell { fingerprint, until_s, bids: 1 }
                }
            };
            if cells[at].compare_exchange(bits, next.bits(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                if !is_found && left_least > 0 {
                    self.forgotten.fetch_add(1, Ordering::Relaxed);
                }
                return true;
            }
        }
    }
}

impl Cell {
    /// Whether its user was bid for as often as may be.
    fn is_full(self, cap: FrequencyCap) -> bool {
        self.bids >= cap.bids_max.min(BIDS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: FrequencyCap = FrequencyCap { bids_max: 3, window_s: 60 };

    #[test]
    fn a_user_is_bid_for_so_often_in_a_window() {
        let table = FrequencyTable::new(1_024);
        let user = 0x1234_5678_9abc_def0;
        let at = |s: u64| TimeMs(1_795_000_000_000 + s * 1_000);
        let made: Vec<bool> = [0, 1, 59, 59, 60, 61, 62, 63].map(|s| table.count(user, CAP, at(s))).into();
        assert_eq!(made, [true, true, true, false, true, true, true, false]);
        assert!(table.count(user ^ 1 << 40, CAP, at(1)), "another user");
    }

    #[test]
    fn the_window_that_ends_next_is_forgotten_where_there_is_no_room() {
        let table = FrequencyTable::new(WAYS);
        let at = TimeMs(1_795_000_000_000);
        for user in 1..=WAYS as u64 {
            let cap = FrequencyCap { bids_max: 1, window_s: 100 - user as u32 };
            assert!(table.count(user << 32, cap, at) && !table.count(user << 32, cap, at));
        }
        assert_eq!(table.forgotten(), 0);
        assert!(table.count(99 << 32, CAP, at));
        assert_eq!(table.forgotten(), 1);
        let cap = FrequencyCap { bids_max: 1, window_s: 99 };
        assert!(!table.count(1 << 32, cap, at), "its window is the longest");
        assert!(table.count((WAYS as u64) << 32, cap, at), "its window was the shortest");
    }

    #[test]
    fn bids_of_several_threads_are_all_counted() {
        let table = FrequencyTable::new(64);
        let cap = FrequencyCap { bids_max: 200, window_s: 60 };
        let made: usize = std::thread::scope(|scope| {
            let bid = || (0..100).filter(|_| table.count(7 << 32, cap, TimeMs(1_795_000_000_000))).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(bid)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(made, 200);
    }
}

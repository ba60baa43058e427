//! The table: buckets of cells, each of one atomic word.
//!
//! ```text
//!   hash of user and campaign ─▶ a bucket of eight cells:  fingerprint 32 │ until 24 (seconds) │ count 8
//! ```
//!
//! A window begins with the first time that a user is seen, and ends `window_s` later. Cells are changed by
//! compare-and-swap: two workers that count one user at one moment both count.
//!
//! Error: a user is taken for another one of the same bucket with a probability of 8 / 2^32, and then counted too
//! often. When more users are remembered than there are cells, the one of the bucket whose window ends next is
//! forgotten, and counted from nothing when it comes again; how often that happens is counted. Two workers choose the
//! same cell for a new user, also if their clocks differ, so that one of them fails and looks again. They may choose
//! two only if between their looks others take cells of the bucket for shorter windows; then the user may be seen once
//! more.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// Cells of a bucket. A model has fewer of them, so that there are fewer interleavings.
const WAYS: usize = if cfg!(loom) { 2 } else { 8 };
const COUNT_BITS: u32 = 8;
const UNTIL_BITS: u32 = 24;
/// The most that a cell counts.
pub const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
/// The longest window: half of what a cell's clock can tell apart.
pub const WINDOW_S_MAX: u32 = 1 << (UNTIL_BITS - 1);

/// How often a user may be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// So often, at most [`COUNT_MAX`].
    pub count_max: u32,
    /// In so many seconds, at most [`WINDOW_S_MAX`].
    pub window_s: u32,
}

/// Users that were seen.
pub struct FrequencyTable {
    buckets: Box<[Bucket]>,
    forgotten: AtomicU64,
}

/// The cells of the users of one hash: a line of the cache.
#[repr(align(64))]
struct Bucket([AtomicU64; WAYS]);

/// One cell, taken apart.
#[derive(Clone, Copy)]
struct Cell {
    fingerprint: u32,
    until_s: u32,
    count: u32,
}

impl Cell {
    fn of(bits: u64) -> Cell {
        Cell {
            fingerprint: (bits >> 32) as u32,
            until_s: (bits >> COUNT_BITS) as u32 & ((1 << UNTIL_BITS) - 1),
            count: bits as u32 & COUNT_MAX,
        }
    }

    fn bits(self) -> u64 {
        u64::from(self.fingerprint) << 32 | u64::from(self.until_s) << COUNT_BITS | u64::from(self.count)
    }

    /// Seconds until its window ends, none or less if it has ended; the least if the cell is empty. Of two cells, the
    /// same one has less by every clock.
    fn left_s(self, now_s: u32) -> i32 {
        let left = self.until_s.wrapping_sub(now_s) & ((1 << UNTIL_BITS) - 1);
        match left {
            _ if self.count == 0 => i32::MIN,
            0..=WINDOW_S_MAX => left as i32,
            _ => left as i32 - (1 << UNTIL_BITS),
        }
    }
}

impl FrequencyTable {
    /// Remembers about so many users at once.
    pub fn new(users: usize) -> FrequencyTable {
        let bucket = |_| Bucket(std::array::from_fn(|_| AtomicU64::new(0)));
        let buckets = users.div_ceil(WAYS).next_power_of_two();
        FrequencyTable { buckets: (0..buckets).map(bucket).collect(), forgotten: AtomicU64::new(0) }
    }

    /// Users that were forgotten before their windows had ended.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    /// Counts that a user of this hash is seen, `now_s` seconds after some moment. Returns whether the cap allows it.
    /// What it does not allow is not counted.
    #[inline]
    pub fn count(&self, hash: u64, cap: Cap, now_s: u64) -> bool {
        let now_s = now_s as u32 & ((1 << UNTIL_BITS) - 1);
        let fingerprint = (hash >> 32) as u32;
        let Bucket(cells) = &self.buckets[hash as usize & (self.buckets.len() - 1)];
        loop {
            let known = cells.iter().map(|cell| cell.load(Ordering::Relaxed));
            let (mut at, mut bits, mut left_least) = (0, 0, i32::MAX);
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
                true => Cell { count: cell.count + 1, ..cell },
                false => {
                    let until_s = now_s.wrapping_add(cap.window_s.clamp(1, WINDOW_S_MAX)) & ((1 << UNTIL_BITS) - 1);
                    Cell { fingerprint, until_s, count: 1 }
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
    /// Whether its user was seen as often as may be.
    fn is_full(self, cap: Cap) -> bool {
        self.count >= cap.count_max.min(COUNT_MAX)
    }
}

#[cfg(test)]
mod tests;

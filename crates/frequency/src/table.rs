//! The table: buckets of cells, each of one atomic word.
//!
//! ```text
//!   hash of user and campaign ─▶ a bucket of eight cells:  fingerprint 24 │ owner 8 │ until 24 (seconds) │ count 8
//! ```
//!
//! A window begins with the first time that a user is seen, and ends `window_s` later. Cells are changed by
//! compare-and-swap: two workers that count one user at one moment both count.
//!
//! Owners: who makes up users fills the table, and must not have those of others forgotten. Where there is no room, the
//! new user takes a cell of the owner that has the most cells of the bucket then; so each owner keeps its share. Of 256
//! owners, two are one. An owner is only for whom cells are counted: a user whose owner has changed is found.
//!
//! Error: a user is taken for another one of the same bucket with a probability of 8 / 2^24, and then counted too
//! often. When more users are remembered than there are cells, the one of an owner whose window ends next is forgotten,
//! and counted from nothing when it comes again; how often that happens is counted. Two workers choose the same cell
//! for a new user, so that one of them fails and looks again. They may choose two, and then the user may be seen once
//! more, only if between their looks others take cells of the bucket; or if there are several owners in the bucket, and
//! a window ends that moment by one worker's clock and not by the other's, or they name different owners of the user.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// Cells of a bucket. A model has fewer of them, so that there are fewer interleavings.
const WAYS: usize = if cfg!(loom) { 2 } else { 8 };
const COUNT_BITS: u32 = 8;
const UNTIL_BITS: u32 = 24;
const OWNER_BITS: u32 = 8;
const FINGERPRINT_AT: u32 = COUNT_BITS + UNTIL_BITS + OWNER_BITS;
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

/// Who is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// A hash of the user, and of what is shown.
    pub hash: u64,
    /// A hash of who has the user seen.
    pub owner: u8,
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
    owner: u8,
    until_s: u32,
    count: u32,
}

impl Cell {
    fn of(bits: u64) -> Cell {
        Cell {
            fingerprint: (bits >> FINGERPRINT_AT) as u32,
            owner: (bits >> (COUNT_BITS + UNTIL_BITS)) as u8,
            until_s: (bits >> COUNT_BITS) as u32 & ((1 << UNTIL_BITS) - 1),
            count: bits as u32 & COUNT_MAX,
        }
    }

    fn bits(self) -> u64 {
        u64::from(self.fingerprint) << FINGERPRINT_AT
            | u64::from(self.owner) << (COUNT_BITS + UNTIL_BITS)
            | u64::from(self.until_s) << COUNT_BITS
            | u64::from(self.count)
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

    /// Counts that a user is seen, `now_s` seconds after some moment. Returns whether the cap allows it. What it does
    /// not allow is not counted.
    #[inline]
    pub fn count(&self, User { hash, owner }: User, cap: Cap, now_s: u64) -> bool {
        let now_s = now_s as u32 & ((1 << UNTIL_BITS) - 1);
        let fingerprint = (hash >> FINGERPRINT_AT) as u32;
        let Bucket(cells) = &self.buckets[hash as usize & (self.buckets.len() - 1)];
        loop {
            let known = cells.each_ref().map(|cell| Cell::of(cell.load(Ordering::Relaxed)));
            let found = known.iter().position(|cell| cell.fingerprint == fingerprint && cell.left_s(now_s) > 0);
            let at = found.unwrap_or_else(|| given_up(&known, owner, now_s));
            let cell = known[at];
            let next = match found {
                Some(_) if cell.is_full(cap) => return false,
                Some(_) => Cell { owner, count: cell.count + 1, ..cell },
                None => {
                    let until_s = now_s.wrapping_add(cap.window_s.clamp(1, WINDOW_S_MAX)) & ((1 << UNTIL_BITS) - 1);
                    Cell { fingerprint, owner, until_s, count: 1 }
                }
            };
            if cells[at].compare_exchange(cell.bits(), next.bits(), Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                if found.is_none() && cell.left_s(now_s) > 0 {
                    self.forgotten.fetch_add(1, Ordering::Relaxed);
                }
                return true;
            }
        }
    }
}

/// The cell that a new user of `owner` takes: one whose window has ended, else the one whose window ends next of the
/// owner that would have the most. Of two that would have as many, `owner` gives up its own.
fn given_up(cells: &[Cell; WAYS], owner: u8, now_s: u32) -> usize {
    let left = |way: &usize| cells[*way].left_s(now_s);
    let next = (0..WAYS).min_by_key(left).expect("a bucket has cells");
    if left(&next) <= 0 {
        return next;
    }
    let would_have = |way: usize| {
        let (of, is_own) = (cells[way].owner, cells[way].owner == owner);
        (cells.iter().filter(|cell| cell.owner == of).count() + usize::from(is_own), is_own)
    };
    let most = (0..WAYS).map(would_have).max().expect("a bucket has cells");
    (0..WAYS).filter(|way| would_have(*way) == most).min_by_key(left).expect("somebody has the most")
}

impl Cell {
    /// Whether its user was seen as often as may be.
    fn is_full(self, cap: Cap) -> bool {
        self.count >= cap.count_max.min(COUNT_MAX)
    }
}

#[cfg(test)]
mod tests;

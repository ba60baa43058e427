//! Counts wrong passwords of each address, and says how long the address must wait.
//!
//! ```text
//!   wrong passwords beyond those that are free:  1    2    3    4  …
//!   wait before the next one, from the last:     1 s  2 s  4 s  8 s …  at most the longest; one is forgiven a minute
//! ```
//!
//! A sketch of fixed size, without a lock: two rows of cells, each a count and the time of the last one. An address
//! waits for what the lower of its two cells says, so only one that shares both with guilty ones waits for them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::mark::Mark;

/// Cells of a row.
const CELLS: usize = 1 << 13;
/// After so long, one wrong password is forgiven.
const FORGIVEN_MS: u64 = 60_000;
/// More are not counted: a minute later, the address may try again.
const STRIKES_MAX: u64 = 1_000;
/// Bits of a cell for the time of the last one, in milliseconds; the count stands above.
const TIME_BITS: u32 = 48;

/// See the module.
pub struct Strikes {
    cells: Box<[AtomicU64]>,
    delay_max_ms: u64,
}

impl Strikes {
    /// With no wait longer than `delay_max_ms`.
    pub fn new(delay_max_ms: u64) -> Strikes {
        Strikes { cells: (0..2 * CELLS).map(|_| AtomicU64::new(0)).collect(), delay_max_ms }
    }

    /// One more wrong password of `mark`. Returns how many that are now.
    pub fn add(&self, mark: Mark, now_ms: u64) -> u32 {
        let added = self.cells_of(mark).map(|cell| {
            let more = |cell: u64| {
                let (count, last_ms) = read(cell, now_ms);
                Some(written((count + 1).min(STRIKES_MAX), last_ms.max(now_ms)))
            };
            let before =
                cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).expect("there is always one more");
            read(before, now_ms).0 + 1
        });
        added[0].min(added[1]) as u32
    }

    /// Whether a wrong password of `mark` is not forgiven yet.
    pub fn has_any(&self, mark: Mark, now_ms: u64) -> bool {
        self.cells_of(mark).iter().all(|cell| read(cell.load(Ordering::Relaxed), now_ms).0 > 0)
    }

    /// How long `mark` must wait, if it has more than `free` wrong passwords; `free` zero: never.
    pub fn wait_ms(&self, mark: Mark, free: u32, now_ms: u64) -> Option<u64> {
        if free == 0 {
            return None;
        }
        let waits = self.cells_of(mark).map(|cell| {
            let (count, last_ms) = read(cell.load(Ordering::Relaxed), now_ms);
            let beyond = count.saturating_sub(u64::from(free));
            let delay_ms = if beyond == 0 { 0 } else { 1_000u64 << (beyond - 1).min(32) };
            (last_ms + delay_ms.min(self.delay_max_ms)).saturating_sub(now_ms)
        });
        Some(waits[0].min(waits[1])).filter(|wait_ms| *wait_ms > 0)
    }

    fn cells_of(&self, mark: Mark) -> [&AtomicU64; 2] {
        let [first, second] = mark.0.map(|half| half as usize % CELLS);
        [&self.cells[first], &self.cells[CELLS + second]]
    }
}

/// The count of a cell without those that are forgiven, and the time of the last one.
fn read(cell: u64, now_ms: u64) -> (u64, u64) {
    let last_ms = cell & ((1 << TIME_BITS) - 1);
    let forgiven = now_ms.saturating_sub(last_ms) / FORGIVEN_MS;
    ((cell >> TIME_BITS).saturating_sub(forgiven), last_ms)
}

fn written(count: u64, last_ms: u64) -> u64 {
    count << TIME_BITS | last_ms & ((1 << TIME_BITS) - 1)
}

const _: () = assert!(STRIKES_MAX < 1 << (64 - TIME_BITS));

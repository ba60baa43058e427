//! What the seeds of the ledger must meet, and what would not be tested if they did not.

use crate::harness::{Floor, StoreName};

/// On both stores, in a hundred seeds.
const ON_BOTH: &[Floor] = &[
    Floor::of("a crash", 150, "what was acknowledged survives it"),
    Floor::of("a graceful stop", 40, "each log is closed whole and opened again"),
    Floor::of("a clock jump", 40, "holds live as long as was asked"),
];

const ON_FILES: &[Floor] = &[
    Floor::of("a lost tail that was refused", 15, "a log that lost its end is not served"),
];

const ON_STREAMS: &[Floor] = &[
    Floor::of("a takeover", 20, "a process that was fenced out stops"),
];

/// The floors on a kind of store.
pub(super) fn of(store: StoreName) -> Vec<Floor> {
    let more = match store {
        StoreName::Local => ON_FILES,
        StoreName::Stream => ON_STREAMS,
    };
    ON_BOTH.iter().chain(more).copied().collect()
}

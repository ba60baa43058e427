//! The record of decisions: enough of what was decided, and why, that it can be decided again.
//!
//! ```text
//!   bidders ── samples ──┐                                      ┌─ writer: a thread, files in DATA/pacer-decisions
//!   plans, throttles ────┼─▶ DecisionLog ─▶ batches, bounded ───┤
//!   leases, counts ──────┘                                      └─ full, or the disk fails: dropped, and counted
//!
//!   files ─▶ read ─▶ replay: `tidegate pacer replay` decides each throttle and each sampled bid again
//! ```
//!
//! Promise: nothing waits for it. What finds no room, in memory or on the disk, is dropped, and the record says how
//! much.
//!
//! Why not a journal: no money depends on it, so nothing is synced, and the oldest files are deleted when there are too
//! many bytes. Records have the form of those of journals. See `docs/formats/pacer-decisions.md`.

mod file;
mod log;
mod record;
mod replay;

pub use file::{Batch, DecisionWriter, Files, FolderError, open_writer, read_folder};
pub use log::DecisionLog;
pub use record::{Answer, Asked, Counted, Dropped, HEAD, Record, Recorded, Records, Throttling, read_records};
pub use replay::{Question, Replayed, replay};

//! Backups of a data directory, taken while a server uses it, and their restore.
//!
//! ```text
//!   data/journal/ledger-0/segment-…  ──┐ cuts: groups that are durable and whole, consistent between shards
//!   data/journal/ledger-1/segment-…  ──┼─▶ DIR/journal/<log>/segment-…     shared by all backups, only ever longer
//!   data/snapshots/topics-0/…        ──┘   DIR/backups/<name>/MANIFEST     which bytes of them this backup is
//!                                                       │ restore [--at …]
//!                                                       ▼
//!                                          new data directory, each log ended by a notice
//! ```
//!
//! Promise: a backup holds everything that was durable when it began; whatever in it rests on a record of another shard
//! comes with that record; every byte was verified by chain hash when it was copied, and is verified again when it is
//! put back. A backup that was taken stays what it is: a later one only adds. What [`verify`] accepts,
//! [`restore`] restores: both ask the same of it.
//!
//! Invariant: nothing here knows what a record means; it asks the machine of the family ([`Known`]).

mod ambiguity;
mod archive;
mod closure;
mod copying;
mod cut;
mod destination;
mod error;
mod files;
mod filling;
mod known;
mod manifest;
mod moment;
mod outline;
mod place;
mod reading;
mod restore;
mod take;
mod timeline;
mod verify;
mod walk;

pub use archive::{ArchiveTarget, DirectoryTarget, Moved, Pace, archive, waiting};
pub use copying::Reread;
pub use destination::{destination, looks_like_url};
pub use error::BackupError;
pub use known::Known;
pub use moment::{Moment, parse_moment};
pub use place::At;
pub use restore::{Restored, RestoredLog, restore};
pub use take::{Taken, take};
pub use verify::{Reach, Verified, verify};

/// Told how many bytes of how many are done.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

//! What was found when a log was opened.

use crate::Cursor;

/// What was found, and done, when a log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The end of the log: where the next group will stand.
    pub end: Cursor,
    /// Segment files.
    pub segments: usize,
    /// Groups in the last segment, all of which were verified.
    pub groups_verified: u64,
    /// Bytes of groups that were never acknowledged and were cut from the tail. Zero after a graceful stop.
    pub bytes_cut: u64,
}

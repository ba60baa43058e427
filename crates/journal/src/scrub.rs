//! Reading a log again to see whether it is still what was written.
//!
//! Why: a bit that flips in a segment which nobody reads is found when the copy that could repair it is long gone. A thread of low
//! priority goes round the log, some megabytes at a time, and starts over at its end.

use crate::disk::Disk;
use crate::reader::Reader;
use crate::{Cursor, JournalError, LogReader};

/// What a scrub verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    /// Behind the last group that was verified: where the next scrub goes on.
    pub reached: Cursor,
    /// Groups.
    pub groups: u64,
    /// Their records.
    pub records: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Whether there is nothing more to verify now; the next round begins at [`Cursor::START`].
    pub at_end: bool,
}

/// Verifies about `bytes` of groups from `from` on: checksums of headers and of every record, chain hashes, and that each group
/// continues the one before.
///
/// Where the log has forgotten `from`, it begins with the first group that there is.
pub(crate) fn scrub<D: Disk>(reader: &Reader<D>, from: Cursor, bytes: u64) -> Result<Scrubbed, JournalError> {
    let end = reader.settled_end()?;
    let from = reader.first_at_or_after(from)?;
    let mut scrubbed = Scrubbed { reached: from, groups: 0, records: 0, bytes: 0, at_end: false };
    // The last segment is still being written; a place in there has nothing behind it yet.
    if from.position > end.position() {
        return Ok(Scrubbed { at_end: true, ..scrubbed });
    }
    let mut groups = reader.groups(from, &end)?.checking_every_record();
    while scrubbed.bytes < bytes || scrubbed.groups == 0 {
        let before = groups.cursor();
        let Some(group) = groups.next_group()? else { break };
        scrubbed.groups += 1;
        scrubbed.records += u64::from(group.record_count);
        scrubbed.reached = groups.cursor();
        scrubbed.bytes += scrubbed.reached.position.0 - before.position.0;
        assert_eq!(
            scrubbed.bytes,
            scrubbed.reached.position.0 - from.position.0,
            "groups follow each other without gaps"
        );
    }
    assert!(scrubbed.reached.position <= end.position(), "nothing is read that is still being written");
    assert_eq!(scrubbed.reached.sequence.0 - from.sequence.0, scrubbed.records, "records are numbered without gaps");
    scrubbed.at_end = scrubbed.reached.position == end.position();
    Ok(scrubbed)
}

#[cfg(test)]
mod tests;

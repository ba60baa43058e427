//! Reading a log again to see whether it is still what was written.
//!
//! Why: a bit that flips in a segment which nobody reads is found when the copy that could repair it is long gone. A
//! thread of low priority goes round the log, some megabytes at a time, and starts over at its end.

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

/// Verifies about `bytes` of groups from `from` on, which the log has not forgotten: checksums of headers and of every
/// record, chain hashes, and that each group continues the one before.
pub(crate) fn scrub<R: LogReader>(reader: &R, from: Cursor, bytes: u64) -> Result<Scrubbed, JournalError> {
    let end = reader.settled_end()?;
    let mut scrubbed = Scrubbed { reached: from, groups: 0, records: 0, bytes: 0, at_end: false };
    // The last segment is still being written; a place in there has nothing behind it yet.
    if from.position > end.position() {
        return Ok(Scrubbed { at_end: true, ..scrubbed });
    }
    let mut groups = reader.groups(from, &end)?.checking_every_record();
    while scrubbed.bytes < bytes || scrubbed.groups == 0 {
        let Some(group) = groups.next_group()? else { break };
        scrubbed.groups += 1;
        scrubbed.records += u64::from(group.record_count);
        scrubbed.bytes += group.bytes as u64;
        scrubbed.reached = groups.cursor();
    }
    assert!(scrubbed.reached.position <= end.position(), "nothing is read that is still being written");
    assert_eq!(scrubbed.reached.sequence.0 - from.sequence.0, scrubbed.records, "records are numbered without gaps");
    scrubbed.at_end = scrubbed.reached.position == end.position();
    Ok(scrubbed)
}

#[cfg(test)]
mod tests;

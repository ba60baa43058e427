//! The audit of a shard of topics that nobody serves: refold everything that is there, verify the chain, compare.
//!
//! What a log has forgotten cannot be refolded: there the oldest good snapshot is believed, as far as its own checks go, and
//! everything from it on is compared.

use std::path::Path;

use tidegate_journal::disk::Disk;
use tidegate_journal::{Cursor, JournalError, LocalLogs, LogId, LogReader, Logs, RecoveryReport, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_machines::topic::Topics;

use super::fold::fold_group;
use crate::families::{self, Reader};
use crate::snapshot::{self, Snapshotted};

/// What the audit found on one shard of topics.
pub struct TopicFindings {
    /// Shard.
    pub shard: ShardIndex,
    /// What opening its log would find and do.
    pub log: RecoveryReport,
    /// Sequence of the snapshot that was believed, because the log no longer has what was before; zero for none.
    pub begins_after: Sequence,
    /// Records folded.
    pub records: u64,
    /// Snapshots compared with the fold at their place.
    pub snapshots_compared: u64,
    /// Everything that is wrong, in words; empty when all agrees.
    pub problems: Vec<String>,
    /// The folded state.
    pub state: Topics,
}

/// Folds one shard of topics from as far back as its files go to the end, verifying each checksum, the chain, and that each record
/// fits; compares every snapshot on the way. `progress` hears the sequence reached.
///
/// `Err` when the log itself cannot be opened by the next start.
pub fn audit_topics<D: Disk>(
    disk: &D,
    data: &Path,
    log: LogId,
    mut progress: impl FnMut(Sequence),
) -> Result<TopicFindings, JournalError> {
    let shard = ShardIndex(log.shard);
    let reader = families::reader(disk, data, log)?;
    let mut problems = Vec::new();
    let mut snapshots: Vec<(Cursor, blake3::Hash)> = Vec::new();
    let mut oldest: Option<(Cursor, Topics)> = None;
    match snapshot::newest_first::<D, Topics>(disk, data, shard) {
        Err(error) => problems.push(error.to_string()),
        // One state is held at a time; of the others, what it takes to compare them.
        Ok(found) => found.for_each(|snapshot| match snapshot {
            Ok((cursor, state)) => {
                snapshots.push((cursor, hash_of(&state)));
                oldest = Some((cursor, state));
            }
            Err(error) => problems.push(error.to_string()),
        }),
    }
    let newest = snapshots.first().map_or(Cursor::START, |(cursor, _)| *cursor);
    let log = LocalLogs::new(disk.clone(), data, &families::FAMILIES).inspect(log, newest)?;
    let is_whole = log.begins == Cursor::START.position;
    let (begin, state) = match oldest {
        Some((cursor, state)) if !is_whole => (cursor, state),
        _ => (Cursor::START, Topics::new(shard)),
    };
    let mut findings =
        TopicFindings { shard, log, begins_after: begin.sequence, records: 0, snapshots_compared: 0, problems, state };
    if let Err(problem) = findings.fold(&reader, begin, &mut snapshots, &mut progress) {
        findings.problems.push(problem);
    }
    for (cursor, _) in snapshots {
        findings.problems.push(format!("the snapshot at sequence {} is at no place of this log", cursor.sequence));
    }
    Ok(findings)
}

impl TopicFindings {
    fn fold<D: Disk>(
        &mut self,
        reader: &Reader<D>,
        begin: Cursor,
        snapshots: &mut Vec<(Cursor, blake3::Hash)>,
        progress: &mut impl FnMut(Sequence),
    ) -> Result<(), String> {
        let mut groups = reader.groups(begin, &self.log.durability()).map_err(|error| error.to_string())?;
        loop {
            let reached = groups.cursor();
            if let Some(at) = snapshots.iter().position(|(cursor, _)| *cursor == reached) {
                let (_, expected) = snapshots.swap_remove(at);
                self.snapshots_compared += 1;
                if hash_of(&self.state) != expected {
                    let sequence = reached.sequence;
                    self.problems.push(format!("the snapshot at sequence {sequence} is not what the log gives"));
                }
            }
            progress(reached.sequence);
            match fold_group(&mut self.state, self.shard, &mut groups).map_err(|error| error.to_string())? {
                Some(records) => self.records += records,
                None => return Ok(()),
            }
        }
    }
}

fn hash_of(state: &Topics) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    state.write_body(&mut |part| {
        hasher.update(part);
    });
    hasher.finalize()
}

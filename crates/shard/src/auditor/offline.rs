//! The audit of a data directory that nobody serves: refold everything, verify the chain, compare.

use std::path::Path;

use tidegate_journal::disk::Disk;
use tidegate_journal::{Cursor, Durability, JournalError, LogId, LogReader, Sequence};
use tidegate_machines::ShardIndex;
use tidegate_machines::ledger::Ledger;

use super::fold_record;
use crate::families::{self, Reader};
use crate::snapshot;

/// What the offline audit found on one shard.
#[derive(Debug)]
pub struct ShardFindings {
    /// Shard.
    pub shard: ShardIndex,
    /// Records folded.
    pub records: u64,
    /// Snapshots compared with the fold at their place.
    pub snapshots_compared: u64,
    /// Everything that is wrong, in words; empty when all agrees.
    pub problems: Vec<String>,
    /// The folded state.
    pub ledger: Ledger,
}

/// Folds one shard from its first record to `end`, verifying each checksum, the chain, and that each record fits; compares every
/// snapshot on the way; checks that the shard is balanced. `progress` hears the sequence reached.
pub fn audit_shard<D: Disk>(
    disk: &D,
    data: &Path,
    log: LogId,
    shard: ShardIndex,
    shard_count: u16,
    end: &Durability,
    mut progress: impl FnMut(Sequence),
) -> Result<ShardFindings, JournalError> {
    let reader = families::reader(disk, data, log)?;
    let mut findings = ShardFindings {
        shard,
        records: 0,
        snapshots_compared: 0,
        problems: Vec::new(),
        ledger: Ledger::new(shard, shard_count),
    };
    let mut snapshots = Vec::new();
    match snapshot::newest_first(disk, data, shard) {
        Err(error) => findings.problems.push(error.to_string()),
        Ok(found) => {
            for snapshot in found {
                match snapshot {
                    Ok(snapshot) => snapshots.push(snapshot),
                    Err(error) => findings.problems.push(error.to_string()),
                }
            }
        }
    }
    if let Err(problem) = fold_all(&reader, end, &mut findings, &mut snapshots, &mut progress) {
        findings.problems.push(problem);
    }
    for (cursor, _) in snapshots {
        findings.problems.push(format!("the snapshot at sequence {} is at no place of this journal", cursor.sequence));
    }
    for totals in findings.ledger.totals() {
        let imbalance = totals.imbalance();
        if imbalance != 0 {
            let asset = &totals.asset;
            findings.problems.push(format!("shard {shard}: asset {asset} is out of balance by {imbalance}"));
        }
    }
    Ok(findings)
}

fn fold_all<D: Disk>(
    reader: &Reader<D>,
    end: &Durability,
    findings: &mut ShardFindings,
    snapshots: &mut Vec<(Cursor, Ledger)>,
    progress: &mut impl FnMut(Sequence),
) -> Result<(), String> {
    let mut groups = reader.groups(Cursor::START, end).map_err(|error| error.to_string())?;
    loop {
        let reached = groups.cursor();
        if let Some(at) = snapshots.iter().position(|(cursor, _)| *cursor == reached) {
            let (_, snapshot) = snapshots.swap_remove(at);
            findings.snapshots_compared += 1;
            if bytes_of(&snapshot) != bytes_of(&findings.ledger) {
                let sequence = reached.sequence;
                findings.problems.push(format!("the snapshot at sequence {sequence} is not what the journal gives"));
            }
        }
        progress(reached.sequence);
        let Some(group) = groups.next_group().map_err(|error| error.to_string())? else { return Ok(()) };
        for (sequence, position, bytes) in group.records() {
            fold_record(&mut findings.ledger, sequence, position, bytes)?;
            findings.records += 1;
        }
    }
}

/// What is wrong between shards: none may have applied more credits of another than that one sent.
pub fn audit_between(findings: &[ShardFindings]) -> Vec<String> {
    let mut problems = Vec::new();
    for sender in findings {
        for receiver in findings.iter().filter(|receiver| receiver.shard != sender.shard) {
            let (from, to) = (sender.shard, receiver.shard);
            let (applied, sent) = (receiver.ledger.watermark(from).0, sender.ledger.outbound_last(to).0);
            if applied > sent {
                problems.push(format!("shard {to} applied credit {applied} of shard {from}, which sent only {sent}"));
            }
        }
    }
    problems
}

fn bytes_of(ledger: &Ledger) -> Vec<u8> {
    let mut bytes = Vec::new();
    ledger.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    bytes
}

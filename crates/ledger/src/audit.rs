//! The audit of a stopped ledger: the audit of all logs, and a check that no money was created or lost.

use tidegate_disk::Disk;
use tidegate_journal::{Logs, Sequence};
use tidegate_machines::ledger::Ledger;
use tidegate_shard::{Findings, OpenError, Snapshots};

use crate::family::LedgerFamily;
use crate::room::strange_sums;

/// Folds one of `shards` shards from its first record to the end, verifying each checksum, the chain, and that each
/// record fits; compares every snapshot on the way; checks that the shard is balanced. `progress` is called with the
/// sequence reached and the last one.
pub fn audit_shard<D: Disk, G: Logs>(
    logs: &G,
    snapshots: &Snapshots<LedgerFamily, D>,
    shards: u16,
    progress: impl FnMut(Sequence, Sequence),
) -> Result<Findings<Ledger>, OpenError> {
    let mut findings = tidegate_shard::audit(logs, snapshots, shards, progress)?;
    let shard = findings.shard;
    for totals in findings.state.iter().flat_map(Ledger::totals) {
        let imbalance = totals.imbalance();
        if imbalance != 0 {
            let asset = &totals.asset;
            findings.problems.push(format!("shard {shard}: asset {asset} is out of balance by {imbalance}"));
        }
    }
    Ok(findings)
}

/// What is wrong between shards: none may have applied more credits of another than that one sent, or less than it
/// confirmed, or another sum up to the same credit.
pub fn audit_between(findings: &[Findings<Ledger>]) -> Vec<String> {
    let mut problems = Vec::new();
    let folded = || findings.iter().filter_map(|shard| Some((shard.shard, shard.state.as_ref()?)));
    for (from, sender) in folded() {
        for (to, receiver) in folded().filter(|(to, _)| *to != from) {
            let (applied, sent) = (receiver.watermark(from).0, sender.outbound_last(to).0);
            if applied > sent {
                problems.push(format!("shard {to} applied credit {applied} of shard {from}, which sent only {sent}"));
            }
            let confirmed = sender.outbound_confirmed(to).0;
            if confirmed > applied {
                problems.push(format!(
                    "shard {to} has confirmed credit {confirmed} of shard {from}, and has applied only {applied}"
                ));
            }
            if confirmed <= applied && applied <= sent {
                let (ours, theirs) =
                    (sender.exchanged_sums(to), (receiver.watermark(from), &receiver.exchanged_sums(from)));
                problems.extend(strange_sums(from.0, to.0, &ours, theirs));
            }
        }
    }
    problems
}

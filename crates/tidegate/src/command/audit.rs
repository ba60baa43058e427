//! `tidegate audit`: proves a data directory that nobody serves, or names what is wrong with it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::recovery;
use tidegate_machines::ShardIndex;
use tidegate_shard::auditor::offline::{ShardFindings, audit_between, audit_shard};

/// Audits every shard and what lies between them. Reads only; exit 0 only if all agree.
pub fn run(data: &Path) -> Result<ExitCode> {
    let directory = Directory::open(data)?;
    let mut findings = Vec::new();
    let mut problems = Vec::new();
    for log in directory.logs() {
        let shard = ShardIndex(log.shard);
        let found = match recovery::inspect(RealDisk, data, log) {
            Ok(found) => found,
            Err(damage) => {
                problems.push(format!("shard {shard}: {damage}"));
                continue;
            }
        };
        if found.bytes_cut > 0 {
            println!(
                "shard {shard}: {} bytes at the tail were never acknowledged; the next start cuts them",
                found.bytes_cut
            );
        }
        let bar = ProgressBar::new(found.end.sequence.0).with_style(
            ProgressStyle::with_template("auditing {bar:40} {human_pos}/{human_len} records {per_sec} {eta}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        let audited = audit_shard(&RealDisk, data, log, shard, directory.shards(), found.end.position, |reached| {
            bar.set_position(reached.0);
        });
        bar.finish_and_clear();
        match audited {
            Ok(audited) => {
                problems.extend(audited.problems.iter().map(|problem| format!("shard {shard}: {problem}")));
                report(&audited);
                findings.push(audited);
            }
            Err(error) => problems.push(format!("shard {shard}: {error}")),
        }
    }
    problems.extend(audit_between(&findings));
    for problem in &problems {
        eprintln!("WRONG: {problem}");
    }
    if problems.is_empty() {
        println!("all agree");
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{} problem(s) found", problems.len());
    Ok(ExitCode::from(2))
}

fn report(findings: &ShardFindings) {
    println!(
        "shard {}: {} records verified and refolded, {} accounts, {} snapshots compared",
        findings.shard,
        findings.records,
        findings.ledger.slots(),
        findings.snapshots_compared
    );
    for totals in findings.ledger.totals() {
        println!(
            "shard {}: asset {}: balances {}, imbalance {}",
            findings.shard,
            totals.asset,
            totals.balances,
            totals.imbalance()
        );
    }
}

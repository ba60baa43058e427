//! `tidegate audit`: proves a data directory that nobody serves, or names what is wrong with it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_journal::directory::Directory;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, LocalLogs, Logs, RecoveryReport};
use tidegate_machines::ShardIndex;
use tidegate_shard::auditor::offline::{ShardFindings, audit_between, audit_shard};
use tidegate_shard::families::{FAMILIES, LEDGER, TOPICS};
use tidegate_shard::topics::audit::{TopicFindings, audit_topics};

/// Audits every shard of the ledger, what lies between them, and every shard of topics. Reads only; exit 0 only if all agree.
pub fn run(data: &Path) -> Result<ExitCode> {
    let directory = Directory::open(data, &FAMILIES)?;
    let logs = LocalLogs::new(RealDisk, data, &FAMILIES);
    let mut findings = Vec::new();
    let mut problems = Vec::new();
    for log in directory.logs(LEDGER) {
        let shard = ShardIndex(log.shard);
        let found = match logs.inspect(log, Cursor::START) {
            Ok(found) => found,
            Err(damage) => {
                problems.push(format!("shard {shard}: {damage}"));
                continue;
            }
        };
        report_cut("shard", shard, &found);
        let bar = bar(Some(found.end.sequence.0));
        let audited =
            audit_shard(&RealDisk, data, log, shard, directory.shards(LEDGER), &found.durability(), |reached| {
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
    for log in directory.logs(TOPICS) {
        let shard = ShardIndex(log.shard);
        let bar = bar(None);
        let audited = audit_topics(&RealDisk, data, log, |reached| bar.set_position(reached.0));
        bar.finish_and_clear();
        match audited {
            Ok(audited) => {
                problems.extend(audited.problems.iter().map(|problem| format!("topic shard {shard}: {problem}")));
                report_cut("topic shard", shard, &audited.log);
                report_topics(&audited);
            }
            Err(damage) => problems.push(format!("topic shard {shard}: {damage}")),
        }
    }
    for family in directory.others(&FAMILIES) {
        println!("logs of family \"{family}\" were not looked at: this program does not know it");
    }
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

/// Progress of one shard, with its end if that is known.
fn bar(records: Option<u64>) -> ProgressBar {
    let (bar, template) = match records {
        Some(records) => {
            (ProgressBar::new(records), "auditing {bar:40} {human_pos}/{human_len} records {per_sec} {eta}")
        }
        None => (ProgressBar::no_length(), "auditing {human_pos} records {per_sec}"),
    };
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn report_cut(kind: &str, shard: ShardIndex, found: &RecoveryReport) {
    if found.bytes_cut > 0 {
        println!(
            "{kind} {shard}: {} bytes at the tail were never acknowledged; the next start cuts them",
            found.bytes_cut
        );
    }
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

fn report_topics(findings: &TopicFindings) {
    let begins = match findings.begins_after.0 {
        0 => String::new(),
        snapshot => format!(" behind the snapshot at {snapshot}"),
    };
    println!(
        "topic shard {}: {} records verified and refolded{begins}, {} snapshots compared",
        findings.shard, findings.records, findings.snapshots_compared
    );
}

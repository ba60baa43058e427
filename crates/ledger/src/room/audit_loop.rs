//! The auditor's schedule: reconcile every shard, write its snapshot, sleep.
//!
//! Why at low priority: the audit must not delay votes. What it reads is durable, so it can be read later.

use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Durability, LogId};
use tidegate_runtime::Carries;
use tidegate_runtime::background::Background;
use tidegate_runtime::recovery::NodeReader;
use tidegate_runtime::threads::{lower_priority, now_ms};
use tidegate_shard::{ShardFamily, Snapshots};

use super::OperationClient;
use crate::auditor::{Audit, ShardAuditor};
use crate::family::{LEDGER, LedgerFamily};
use crate::message::AuditReport;
use crate::operation::{Message, Operation};

/// How often the thread looks whether it should stop.
const NAP: Duration = Duration::from_millis(100);

/// When to audit and when to write snapshots; `None` for never.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Time between reconciliations.
    pub audit_interval: Option<Duration>,
    /// Time between snapshots.
    pub snapshot_interval: Option<Duration>,
}

/// The auditors of all shards on the background thread.
pub struct AuditLoop<P> {
    background: Background<P, OperationClient>,
    auditors: Vec<ShardAuditor<RealDisk, NodeReader>>,
    schedule: Schedule,
}

/// What the auditor of one shard needs of its recovery.
pub struct AuditedLog {
    /// Which log.
    pub log: LogId,
    /// Reads it.
    pub reader: NodeReader,
    /// How much of it was durable when it was opened.
    pub recovered: Durability,
}

impl<P: Carries<Message>> AuditLoop<P> {
    /// Opens an auditor per shard.
    pub fn open(
        background: Background<P, OperationClient>,
        data: &Path,
        logs: Vec<AuditedLog>,
        schedule: Schedule,
    ) -> AuditLoop<P> {
        let shards = logs.len() as u16;
        let auditor = |AuditedLog { log, reader, recovered }| {
            ShardAuditor::open(Snapshots::new(RealDisk, data, log), reader, &recovered, shards)
        };
        AuditLoop { background, auditors: logs.into_iter().map(auditor).collect(), schedule }
    }

    /// Audits on schedule until `stopped`.
    pub fn run(mut self, stopped: &dyn Fn() -> bool) {
        lower_priority();
        let mut audited: Option<Instant> = None;
        let mut snapshotted = Instant::now();
        while !stopped() {
            let due = |since: Option<Instant>, interval: Option<Duration>| {
                interval.is_some_and(|interval| since.is_none_or(|since| since.elapsed() >= interval))
            };
            let audit_due = due(audited, self.schedule.audit_interval);
            let snapshot_due = due(Some(snapshotted), self.schedule.snapshot_interval);
            if !audit_due && !snapshot_due {
                std::thread::sleep(NAP);
                continue;
            }
            for index in 0..self.auditors.len() {
                self.audit(index, snapshot_due, stopped);
            }
            audited = Some(Instant::now());
            if snapshot_due {
                snapshotted = Instant::now();
            }
        }
    }

    fn audit(&mut self, index: usize, snapshot_due: bool, stopped: &dyn Fn() -> bool) {
        let auditor = &mut self.auditors[index];
        let shard = auditor.shard();
        let mut next = auditor.begin();
        let report = loop {
            match next {
                Audit::Finished(report) => break report,
                Audit::Ask(operation) => match self.background.ask((shard, operation), stopped) {
                    Some(Ok(answer)) => next = auditor.take(answer, now_ms().0),
                    // The shard has failed, or the process stops: the next round, if there is one, starts anew.
                    Some(Err(_)) | None => return,
                },
            }
        };
        tell(&report);
        let sound = report.differences.is_empty() && report.damage.is_none();
        let _ = self.background.ask((shard, Operation::KeepAudit(report)), stopped);
        if sound && (snapshot_due || auditor.is_snapshot_due(LedgerFamily::COMPACTION)) {
            match auditor.snapshot() {
                Ok(Some(written)) => {
                    for snapshot in &written.set_aside {
                        tracing::warn!(family = LEDGER.name, shard = shard.0, snapshot, "passed over a snapshot");
                    }
                    let path = written.path.display();
                    tracing::info!(family = LEDGER.name, shard = shard.0, %path, "wrote a snapshot");
                    let _ = self.background.ask((shard, Operation::CoverIds), stopped);
                }
                Ok(None) => {}
                Err(error) => {
                    let family = LEDGER.name;
                    tracing::warn!(family, shard = shard.0, %error, "cannot write a snapshot; the journal is the truth")
                }
            }
        }
    }
}

fn tell(report: &AuditReport) {
    if let Some(damage) = &report.damage {
        tracing::error!(shard = report.shard, damage, "the audit met damage in the journal");
    }
    for difference in &report.differences {
        tracing::error!(
            shard = report.shard,
            account = %difference.account,
            figure = difference.figure,
            live = %difference.live,
            journal = %difference.journal,
            agreed_at_sequence = difference.agreed_at_sequence,
            "a live figure is not what the journal says"
        );
    }
    tracing::debug!(
        shard = report.shard,
        sequence = report.sequence,
        accounts = report.accounts_compared,
        differences = report.differences.len(),
        "audited"
    );
}

//! The auditor's schedule: reconcile every shard, write its snapshot, sleep.
//!
//! Why at low priority: the audit must never cost a vote its turn; what it reads is durable and does not run away.

use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Durability, LogId};
use tidegate_ledger::auditor::{Audit, ShardAuditor};
use tidegate_ledger::message::AuditReport;
use tidegate_ledger::operation::Operation;
use tidegate_ledger::{LEDGER, LedgerFamily};
use tidegate_shard::{ShardFamily, Snapshots};

use crate::background::Background;
use crate::recovery::LocalReader;
use crate::worker_thread::now_ms;

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
pub struct AuditLoop {
    background: Background,
    auditors: Vec<ShardAuditor<RealDisk, LocalReader>>,
    schedule: Schedule,
}

/// What the auditor of one shard needs of its recovery.
pub struct AuditedLog {
    /// Which log.
    pub log: LogId,
    /// Reads it.
    pub reader: LocalReader,
    /// How much of it was durable when it was opened.
    pub recovered: Durability,
}

impl AuditLoop {
    /// Opens an auditor per shard.
    pub fn open(background: Background, data: &Path, logs: Vec<AuditedLog>, schedule: Schedule) -> AuditLoop {
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
                Audit::Ask(operation) => match self.background.call(shard, operation, stopped) {
                    Some(Ok(answer)) => next = auditor.take(answer, now_ms().0),
                    // The shard has failed, or the process stops: the next round, if there is one, starts anew.
                    Some(Err(_)) | None => return,
                },
            }
        };
        tell(&report);
        let sound = report.differences.is_empty() && report.damage.is_none();
        let _ = self.background.call(shard, Operation::KeepAudit(report), stopped);
        if sound && (snapshot_due || auditor.is_snapshot_due(LedgerFamily::COMPACTION)) {
            match auditor.snapshot() {
                Ok(Some(written)) => {
                    for snapshot in &written.set_aside {
                        tracing::warn!(family = LEDGER.name, shard = shard.0, snapshot, "passed over a snapshot");
                    }
                    let path = written.path.display();
                    tracing::info!(family = LEDGER.name, shard = shard.0, %path, "wrote a snapshot")
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(family = LEDGER.name, shard = shard.0, %error, "cannot write a snapshot; the journal is the truth")
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

/// Everybody else goes before the calling thread.
pub(crate) fn lower_priority() {
    // SAFETY: setpriority takes plain numbers; on Linux, `who` 0 with PRIO_PROCESS names the calling thread alone.
    let lowered = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    if lowered != 0 {
        tracing::debug!("a background thread runs at normal priority: the system did not let it lower its own");
    }
}

//! Recovers the shards of a data directory from their files, all in parallel.
//!
//! ```text
//!   Room::recover ─▶ one thread for each log: open, replay from the newest good snapshot ─▶ member of its worker
//! ```
//!
//! This module recovers what all families have: log, snapshots, machine. A room recovers what its family keeps besides,
//! on the same thread.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use tidegate_journal::disk::RealDisk;
use tidegate_journal::recorded_end::RecordedEnd;
use tidegate_journal::witness::{Reading, Testimony, Witness};
use tidegate_journal::{JournalError, LocalLog, LocalLogs, LogId, LogStore, Options};
use tidegate_shard::{
    Claim, Derived, FoldError, OpenError, OpenShard, ReplayError, Replayed, ShardFamily, Snapshots, loss,
};

use crate::disk_room::WatchedRoom;
use crate::log_checks::LogCheck;
use crate::log_ends::{LogEnd, recorded_claim};
use crate::mesh::Parker;
use crate::metrics::ShardMetrics;
use crate::start_clock::Told;
use crate::status::Status;
use crate::threads::now_ms;
use crate::witness::Witnessed;

/// The logs of this machine.
pub type NodeLogs = LocalLogs<RealDisk>;
/// One of them.
pub type NodeLog = LocalLog<RealDisk>;
/// What reads one of them.
pub type NodeReader = <NodeLog as LogStore>::Reader;

/// One shard of any family, on its way back.
pub struct Recovery<F: ShardFamily> {
    pub(crate) logs: NodeLogs,
    pub(crate) data: PathBuf,
    pub(crate) snapshots: Snapshots<F, RealDisk>,
    pub(crate) journal: Options,
    pub(crate) shards: u16,
    pub(crate) parker: Arc<Parker>,
    pub(crate) status: Arc<Status>,
    pub(crate) metrics: ShardMetrics,
    pub(crate) began: Instant,
    /// Says that the log is sound, before it is opened.
    pub(crate) check: LogCheck,
    /// Whom to tell which times it knows.
    pub(crate) told: Sender<Told>,
    /// Where its witness is, and whom to tell of it; `None` for no witness.
    pub(crate) witness: Option<(Witness<RealDisk>, Sender<Witnessed>)>,
    /// Whom to tell where it ends, for when the node stops.
    pub(crate) ended: Sender<LogEnd>,
    /// Whom to tell whether it finds room on its disk.
    pub(crate) room: Sender<WatchedRoom>,
}

/// Its log, open.
pub type Open<F> = OpenShard<F, RealDisk, NodeLog>;
/// Its state, and its log.
pub type Back<F> = Replayed<<F as ShardFamily>::Machine, NodeLog>;

/// As messages name a shard.
impl<F: ShardFamily> fmt::Display for Recovery<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} shard {}", self.family(), self.shard())
    }
}

impl<F: ShardFamily> Recovery<F> {
    /// Which log.
    pub fn log(&self) -> LogId {
        self.snapshots.log()
    }

    /// The data directory, for what is kept beside the log.
    pub fn data(&self) -> &PathBuf {
        &self.data
    }

    /// Wakes the worker that will own the shard.
    pub fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }

    /// Shards of this family.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// What the shard is counted with.
    pub fn into_metrics(self) -> ShardMetrics {
        self.metrics
    }

    /// The name of its family.
    pub fn family(&self) -> &'static str {
        F::FAMILY.name
    }

    /// Its number.
    pub fn shard(&self) -> u16 {
        self.snapshots.log().shard
    }

    /// Opens the log, cuts a torn tail, and says so.
    pub fn open(&self) -> Result<Open<F>> {
        self.open_with(&[])
    }

    /// The same, when more than the snapshots names places of the log: a log that ends before one of `others` in the
    /// same timeline has lost records, and is refused. Nothing is changed before all logs of the start have passed.
    pub fn open_with(&self, others: &[Claim]) -> Result<Open<F>> {
        let recorded = recorded_claim(&self.recorded_end()).map_err(|error| anyhow!("{self}: {error}"))?;
        let others: Vec<Claim> = others.iter().cloned().chain(recorded).chain(self.claim_of_witness()?).collect();
        loss::check(&self.logs, &self.snapshots, &others).map_err(|error| self.refusal(&error))?;
        self.check.pass()?;
        let opened = OpenShard::open_with(&self.logs, self.snapshots.clone(), self.journal, &others);
        let mut open: Open<F> = opened.map_err(|error| self.refusal(&error))?;
        let parker = self.parker.clone();
        open.log_mut().set_wake(Arc::new(move || parker.wake()));
        let found = open.recovered();
        if found.bytes_cut > 0 {
            let (family, shard, bytes) = (self.family(), self.shard(), found.bytes_cut);
            tracing::warn!(
                family,
                shard,
                bytes,
                "cut what was behind the last whole group: nothing shows that it was ever durable, so most likely a \
                 crash tore it before it was acknowledged"
            );
        }
        for damage in &found.damaged {
            self.status.damages().note_segment(self.family(), self.log(), damage);
        }
        self.status.replay(self.log()).total.store(found.end.sequence.0, Ordering::Relaxed);
        Ok(open)
    }

    /// Where its end is recorded by a stop.
    fn recorded_end(&self) -> RecordedEnd<RealDisk> {
        RecordedEnd::new(RealDisk, &self.data, &F::FAMILY, self.log())
    }

    /// How far the witness says that the log was durable. `Err` if it is gone or unusable: it may be the
    /// only proof.
    fn claim_of_witness(&self) -> Result<Option<Claim>> {
        let Some((witness, _)) = &self.witness else { return Ok(None) };
        let wrong = match witness.read().map_err(|error| anyhow!("{self}: {error}"))? {
            Reading::Testimony(testimony) => return Ok(Some(claim_of(witness.path(), &testimony))),
            Reading::Nothing if !witness.is_gone(&self.data)? => return Ok(None),
            Reading::Nothing => "is gone, and this data directory had one".to_owned(),
            Reading::Unusable(what) => format!("cannot be used: {what}"),
        };
        bail!(
            "{self}: its witness {} {wrong}: if the log has lost its end, nothing proves it now. Nothing is served and \
             nothing was changed. Put the witness back, or correct data.witness; or, to go on without that proof and \
             begin a new witness, run `{}`",
            witness.path().display(),
            self.accept_loss()
        );
    }

    /// The command that lets a start go on without what is lost.
    pub fn accept_loss(&self) -> String {
        let folder = self.witness.as_ref().and_then(|(witness, _)| witness.path().parent());
        let witness = folder.map_or_else(String::new, |folder| format!(" --witness {}", folder.display()));
        format!("tidegate accept-loss --data {}{witness} --reason TEXT", self.data.display())
    }

    fn refusal(&self, error: &OpenError) -> anyhow::Error {
        match error {
            OpenError::Loss(loss) => {
                anyhow!("{self}: {loss}; or, to go on without them for ever, run `{}`", self.accept_loss())
            }
            OpenError::Journal(JournalError::Damaged { .. } | JournalError::Io { .. })
            | OpenError::NoSnapshot { .. } => self.refusal_of(error),
            other => anyhow!("{self}: {other}"),
        }
    }

    /// Of what an operator can do about.
    fn refusal_of(&self, error: &impl fmt::Display) -> anyhow::Error {
        anyhow!("{self}: {error}. What can be done: `{}` says so, and changes nothing", self.accept_loss())
    }

    /// Replays what is behind the newest snapshot that can be used, and says what was done.
    pub fn replay<X: Derived<F::Machine, Error: Send + Sync + 'static>>(
        &self,
        open: Open<F>,
        derived: &mut X,
    ) -> Result<Back<F>> {
        let progress = self.status.replay(self.log());
        let sequence = open.recovered().end.sequence.0;
        let open = open.verifying_ahead();
        let back = open.replay(self.shards, derived, |reached| progress.done.store(reached.0, Ordering::Relaxed));
        let back = back.map_err(|error| match &error {
            ReplayError::Fold(FoldError::Journal(JournalError::Damaged { .. })) => self.refusal_of(&error),
            other => anyhow!("{self}: {other}"),
        })?;
        progress.done.store(sequence, Ordering::Relaxed);
        let (family, shard, report) = (self.family(), self.shard(), &back.report);
        for snapshot in &report.snapshots_passed_over {
            tracing::warn!(family, shard, snapshot, "passed over a snapshot");
        }
        for notice in &report.notices {
            tracing::warn!(family, shard, %notice, "an operator wrote into this log");
        }
        let took = self.began.elapsed();
        let records = report.events + report.derived_only;
        tracing::info!(
            family,
            shard,
            sequence,
            snapshot_sequence = report.snapshot_sequence,
            records = report.events,
            records_for_index_only = report.derived_only,
            took_ms = took.as_millis() as u64,
            records_per_s = (records as f64 / took.as_secs_f64()) as u64,
            "recovered"
        );
        self.metrics.recovered(took, &back.report);
        let told = Told::of((F::FAMILY, shard), self.to_string(), &back.state, now_ms());
        self.metrics.recovery_over.set(told.over() as i64);
        // Nobody listens any more only when the start has failed elsewhere.
        let _ = self.told.send(told);
        let folder = self.data.join("journal").join(format!("{family}-{shard}"));
        // Nobody listens any more only when the start has failed elsewhere.
        let (room, end) = (back.log.disk_room(), back.log.durable_end());
        let _ = self.room.send(WatchedRoom { family, log: self.log(), folder, room, end });
        let (end, timeline) = (back.log.durable_end(), back.report.timelines.current());
        let _ = self.ended.send(LogEnd { family, shard, recorded: self.recorded_end(), end, timeline });
        if let Some((witness, witnessed)) = &self.witness {
            let (end, timeline) = (back.log.durable_end(), back.report.timelines.current());
            // Nobody listens any more only when the start has failed elsewhere.
            let (witness, data) = (witness.clone(), self.data.clone());
            let _ = witnessed.send(Witnessed { family, shard, witness, data, end, timeline });
        }
        Ok(back)
    }
}

/// What a file says, as evidence against a log that ends before it.
pub fn claim_of(file: &Path, testimony: &Testimony) -> Claim {
    Claim {
        source: file.to_path_buf(),
        timeline: testimony.timeline,
        position: testimony.cursor.position,
        sequence: Some(testimony.cursor.sequence),
        chain: Some(testimony.cursor.chain),
        doubt: None,
        is_kept: true,
    }
}

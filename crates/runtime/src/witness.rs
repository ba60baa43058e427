//! Tells the witnesses how far the logs are durable: once a second, and a last time when all logs are closed.
//!
//! ```text
//!   log ── DurableEnd ──▶ thread "witness" ──▶ <folder>/<directory>-<family>-<n>.witness
//!                                 └─ a witness that cannot be written ─▶ log, once; /healthz, metrics
//! ```
//!
//! Why a thread of its own: the witness is on another disk, and no log may wait for that.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tidegate_journal::disk::RealDisk;
use tidegate_journal::witness::{Testimony, Witness};
use tidegate_journal::{Cursor, DurableEnd, JournalError, Timeline};
use tidegate_telemetry::Registry;

use crate::metrics::WitnessMetrics;
use crate::status::Status;

/// Between two rounds.
const EVERY: Duration = Duration::from_secs(1);

/// A log with a witness.
pub struct Witnessed {
    /// Of which family.
    pub family: &'static str,
    /// Which of its logs.
    pub shard: u16,
    /// Its file.
    pub witness: Witness<RealDisk>,
    /// The data directory, which notes that there is one.
    pub data: PathBuf,
    /// How far it is durable.
    pub end: DurableEnd,
    /// In which timeline; none begins while a log is served.
    pub timeline: Timeline,
}

/// The witnesses of all logs.
pub struct Witnesses {
    logs: Vec<Told>,
    status: Arc<Status>,
}

/// One of them, and what it was told.
struct Told {
    log: Witnessed,
    metrics: WitnessMetrics,
    said: Option<Cursor>,
    is_lost: bool,
    /// Whether the data directory has noted it.
    is_noted: bool,
}

impl Witnesses {
    /// Of these logs; `status` and `registry` are told of those that cannot be written.
    pub fn new(logs: impl IntoIterator<Item = Witnessed>, status: Arc<Status>, registry: &Registry) -> Witnesses {
        let told = |log: Witnessed| {
            let metrics = WitnessMetrics::register(registry, log.family, log.shard);
            Told { log, metrics, said: None, is_lost: false, is_noted: false }
        };
        Witnesses { logs: logs.into_iter().map(told).collect(), status }
    }

    /// Whether no log has one.
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty()
    }

    /// Writes what changed, until whoever has the other end of `stopped` lets go of it.
    pub fn run(&mut self, stopped: &Receiver<()>) {
        loop {
            let is_over = matches!(stopped.recv_timeout(EVERY), Err(RecvTimeoutError::Disconnected));
            self.logs.iter_mut().for_each(Told::tell);
            let lost = self.logs.iter().filter(|told| told.is_lost).count();
            self.status.set_lost_witnesses(lost as u32);
            if is_over {
                return;
            }
        }
    }
}

impl Told {
    /// Tells it how far its log is. What it was told before is looked after, too: its disk may be gone while nothing
    /// is written.
    fn tell(&mut self) {
        let (family, shard, told) = (self.log.family, self.log.shard, self.try_tell());
        let was_lost = std::mem::replace(&mut self.is_lost, told.is_err());
        match told {
            Ok(()) if was_lost => tracing::info!(family, shard, "the witness of a log is written again"),
            Err(error) if !was_lost => tracing::error!(
                family,
                shard,
                %error,
                "the witness of a log cannot be written: the log goes on, but if it loses its end, nothing may prove \
                 it. Bring the folder data.witness back; the witness is then written again by itself"
            ),
            _ => {}
        }
    }

    fn try_tell(&mut self) -> Result<(), JournalError> {
        let cursor = self.log.end.cursor();
        let told = match self.said == Some(cursor) {
            true => self.log.witness.is_kept(),
            false => Ok(false),
        };
        let told = told.and_then(|is_kept| match is_kept {
            true => Ok(()),
            false => self.log.witness.write(&Testimony { cursor, timeline: self.log.timeline }),
        });
        let told = told.and_then(|()| match self.is_noted {
            true => Ok(()),
            false => self.log.witness.note_in(&self.log.data),
        });
        self.is_noted |= told.is_ok();
        self.said = told.is_ok().then_some(cursor);
        self.metrics.lost.set(i64::from(told.is_err()));
        told
    }
}

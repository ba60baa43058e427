//! The server moves old segments of its journal to an archive by itself, no faster than it may.
//!
//! ```text
//!   each interval ─▶ segments to move? ─▶ backup::archive, paced ─▶ metrics, log
//! ```
//!
//! Promise: what [`tidegate_backup::archive`] promises. Whatever fails is tried again at the next look; the segment
//! stays where it is until then.
//!
//! Why a thread of its own: it waits for a network, and sleeps to keep its rate.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use tidegate_backup::{Known, archive, waiting};
use tidegate_runtime::Status;
use tidegate_runtime::threads::{lower_priority, spawn};
use tidegate_telemetry::metrics;

use crate::command::archive::target_that_exists;
use crate::config::ArchiveSettings;

/// How often it looks whether it should stop.
const NAP: Duration = Duration::from_millis(100);
/// Why a piece of work was not finished.
const STOPPING: &str = "the server is stopping";

metrics! {
    /// What is archived. For the one thread that does it.
    pub struct ArchiveMetrics() {
        segments: Counter "tidegate_archive_segments_total" "Segments of journals that were moved to the archive.";
        bytes: Counter "tidegate_archive_bytes_total" "Bytes of segments that were moved to the archive.";
        failures: Counter "tidegate_archive_failures_total" "Looks at which something could not be archived.";
        failing: Gauge "tidegate_archive_failing"
            "1 if the last look could not archive what should be, perhaps because the disk of the archive is not \
             mounted; else 0.";
        waiting: Gauge "tidegate_archive_waiting_segments" "Segments that should be in the archive and are not yet.";
    }
}

/// The thread, while it runs.
pub struct Archiving {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Archiving {
    /// Begins to archive what `known` says of the logs in `data`; `status` hears if it cannot.
    pub fn start(
        settings: ArchiveSettings,
        data: PathBuf,
        known: Vec<Known>,
        metrics: ArchiveMetrics,
        status: Arc<Status>,
    ) -> Result<Archiving> {
        let stopping = Arc::new(AtomicBool::new(false));
        let mut archiver =
            Archiver { settings, data, known, metrics, status, stopping: stopping.clone(), failure: None };
        let thread = spawn("archive".into(), move || archiver.run())?;
        Ok(Archiving { stopping, thread })
    }

    /// Ends it before its next piece.
    pub fn stop(self) {
        self.stopping.store(true, Ordering::Release);
        if self.thread.join().is_err() {
            tracing::error!("the thread that archives has panicked");
        }
    }
}

struct Archiver {
    settings: ArchiveSettings,
    data: PathBuf,
    known: Vec<Known>,
    metrics: ArchiveMetrics,
    status: Arc<Status>,
    stopping: Arc<AtomicBool>,
    /// The failure that was told last: the same one is told once.
    failure: Option<String>,
}

impl Archiver {
    fn run(&mut self) {
        lower_priority();
        while !self.is_stopping() {
            match self.look() {
                Ok(()) => self.works(),
                Err(_) if self.is_stopping() => {}
                Err(error) => self.tell(format!("{error:#}")),
            }
            let looked = Instant::now();
            while looked.elapsed() < self.settings.interval && !self.is_stopping() {
                std::thread::sleep(NAP);
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn works(&mut self) {
        if self.failure.take().is_some() {
            tracing::info!(to = self.settings.to, "the archive can be written again");
        }
        self.metrics.failing.set(0);
        self.status.set_archive_fails(false);
    }

    fn tell(&mut self, failure: String) {
        self.metrics.failures.add(1);
        self.metrics.failing.set(1);
        self.status.set_archive_fails(true);
        if self.failure.as_ref() != Some(&failure) {
            tracing::error!(to = self.settings.to, failure, "cannot archive; it is tried again");
        }
        self.failure = Some(failure);
    }

    /// Moves what is to be moved.
    fn look(&self) -> Result<()> {
        let (keep, to) = (self.settings.keep_segments, &self.settings.to);
        let count = |moved: u64| -> Result<()> {
            self.metrics.waiting.set(waiting(&self.data, &self.known, keep)? as i64);
            self.metrics.bytes.add(moved);
            Ok(())
        };
        count(0)?;
        let target = target_that_exists(to)?;
        let mut rate = Rate::new(self.settings.bytes_per_s, &self.stopping);
        let (began, mut known) = (Instant::now(), 0);
        let moved =
            archive(&self.data, &self.known, &*target, keep, &mut |bytes| rate.spend(bytes), &mut |done, _| {
                self.metrics.segments.add(1);
                // What is counted here once more after an error would be told by the next look.
                let _ = count(done - known);
                known = done;
            })?;
        if moved.segments > 0 {
            let (segments, bytes) = (moved.segments, moved.bytes);
            let took_ms = began.elapsed().as_millis() as u64;
            tracing::info!(segments, bytes, took_ms, to, "archived segments of the journal");
        }
        Ok(())
    }
}

/// So many bytes a second, over any time.
struct Rate<'a> {
    per_second: u64,
    spent: u64,
    since: Instant,
    stopping: &'a AtomicBool,
}

impl Rate<'_> {
    fn new(per_second: u64, stopping: &AtomicBool) -> Rate<'_> {
        Rate { per_second, spent: 0, since: Instant::now(), stopping }
    }

    /// Counts bytes, and waits until they may have been moved. `Err` when the server stops.
    fn spend(&mut self, bytes: u64) -> Result<(), String> {
        self.spent += bytes;
        let due = Duration::from_secs_f64(self.spent as f64 / self.per_second as f64);
        loop {
            if self.stopping.load(Ordering::Acquire) {
                return Err(STOPPING.into());
            }
            match due.checked_sub(self.since.elapsed()) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(NAP)),
                _ => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_and_a_stop_ends_the_wait() {
        let stopping = AtomicBool::new(false);
        let mut rate = Rate::new(1_000_000, &stopping);
        let began = Instant::now();
        (0..5).for_each(|_| rate.spend(40_000).expect("nobody stops it"));
        assert!(began.elapsed() >= Duration::from_millis(195), "{:?}", began.elapsed());
        stopping.store(true, Ordering::Release);
        assert_eq!(rate.spend(u64::MAX / 2), Err(STOPPING.to_owned()));
    }
}

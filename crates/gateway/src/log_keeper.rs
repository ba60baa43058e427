//! Looks after logs while they are served: those that may forget are compacted, and all are read again and again, so that rot is found
//! while there still is a copy.
//!
//! ```text
//!   look, look, look …   topics: behind the snapshot too much? ─▶ snapshot, forget
//!                        every log: the next few megabytes ─▶ checksums, chain ─▶ log line on damage
//! ```
//!
//! Why apart from the auditor's thread: that one waits for answers of shards; this one reads files only, and a long compaction must
//! not put off an audit.

use std::path::Path;
use std::time::{Duration, Instant};

use tidegate_broker::TopicsFamily;
use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, JournalError, LogId, LogReader, Logs};
use tidegate_shard::{ShardFamily, Snapshots, compact};

use crate::audit_loop::lower_priority;
use crate::recovery::{LocalLogsHere, LocalReader};

/// How often the logs are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How often the thread looks whether it should stop.
const NAP: Duration = Duration::from_millis(100);
/// Bytes of one log that are read again with each look: a terabyte in a month.
const SCRUB_BYTES_PER_LOOK: u64 = 4 << 20;

/// The logs of all shards.
pub struct LogKeeper {
    compacted: Vec<Compacted>,
    scrubbed: Vec<Scrub>,
}

/// A shard whose log forgets.
struct Compacted {
    snapshots: Snapshots<TopicsFamily, RealDisk>,
    reader: LocalReader,
    shards: u16,
}

/// The reading of one log, round and round.
struct Scrub {
    log: LogId,
    reader: LocalReader,
    at: Cursor,
    /// Damage is told once a round.
    damaged: bool,
}

impl LogKeeper {
    /// For the logs of the data directory `data`: `topics` are compacted, `all` are scrubbed.
    pub fn open(data: &Path, logs: &LocalLogsHere, topics: &[LogId], all: &[LogId]) -> Result<LogKeeper, JournalError> {
        let compacted = topics.iter().map(|log| {
            let snapshots = Snapshots::new(RealDisk, data, *log);
            Ok(Compacted { snapshots, reader: logs.reader(*log)?, shards: topics.len() as u16 })
        });
        let scrubbed = all
            .iter()
            .map(|log| Ok(Scrub { log: *log, reader: logs.reader(*log)?, at: Cursor::START, damaged: false }));
        Ok(LogKeeper {
            compacted: compacted.collect::<Result<_, JournalError>>()?,
            scrubbed: scrubbed.collect::<Result<_, JournalError>>()?,
        })
    }

    /// Looks after them until `stopped`.
    pub fn run(mut self, stopped: &dyn Fn() -> bool) {
        lower_priority();
        let mut looked: Option<Instant> = None;
        while !stopped() {
            if looked.is_some_and(|looked| looked.elapsed() < LOOK) {
                std::thread::sleep(NAP);
                continue;
            }
            looked = Some(Instant::now());
            for shard in &self.compacted {
                shard.keep_short(stopped);
            }
            for scrub in &mut self.scrubbed {
                scrub.go_on();
            }
        }
    }
}

impl Compacted {
    fn keep_short(&self, stopped: &dyn Fn() -> bool) {
        let began = Instant::now();
        let (family, shard) = (TopicsFamily::FAMILY.name, self.snapshots.log().shard);
        match compact(&self.snapshots, &self.reader, self.shards, TopicsFamily::COMPACTION, || !stopped()) {
            Ok(None) => {}
            Ok(Some(done)) => tracing::info!(
                family,
                shard,
                sequence = done.cursor.sequence.0,
                events = done.events,
                segments_forgotten = done.forgotten.segments,
                snapshots_passed_over = done.passed_over.join("; "),
                snapshots_set_aside = done.set_aside.join("; "),
                took_ms = began.elapsed().as_millis() as u64,
                "compacted"
            ),
            // The log is as it was; it is longer than it need be.
            Err(error) => tracing::error!(family, shard, %error, "cannot compact a log"),
        }
    }
}

impl Scrub {
    fn go_on(&mut self) {
        match self.reader.scrub(self.at, SCRUB_BYTES_PER_LOOK) {
            Ok(scrubbed) if scrubbed.at_end => (self.at, self.damaged) = (Cursor::START, false),
            Ok(scrubbed) => self.at = scrubbed.reached,
            Err(JournalError::Forgotten { .. }) => self.at = Cursor::START,
            Err(error) if !self.damaged => {
                self.damaged = true;
                tracing::error!(log = %self.log, %error, "a log that is read again is damaged; restore the file from a copy");
            }
            Err(_) => {}
        }
    }
}

//! Maintains logs while they are served. It compacts the logs of families that allow it. It also reads all logs again
//! and again, so that damage is found while a copy still exists.
//!
//! ```text
//!   look, look, look …   families that forget: behind the snapshot too much? ─▶ snapshot, forget
//!                        every log: the next few megabytes ─▶ checksums, chain ─▶ log line on damage
//! ```
//!
//! Why a thread of its own: it only reads and writes files and waits for no other thread, so a long compaction delays
//! nothing.

use std::time::{Duration, Instant};

use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, JournalError, LogId, LogReader};
use tidegate_shard::{ShardFamily, Snapshots, compact};

use crate::recovery::NodeReader;
use crate::threads::lower_priority;

/// How often the logs are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How often the thread looks whether it should stop.
const NAP: Duration = Duration::from_millis(100);
/// Bytes of one log that are read again with each look: a terabyte in a month.
const SCRUB_BYTES_PER_LOOK: u64 = 4 << 20;

/// The logs of all shards.
#[derive(Default)]
pub struct LogKeeper {
    compacted: Vec<Box<dyn KeepShort>>,
    scrubbed: Vec<Scrub>,
}

/// A log that forgets.
trait KeepShort: Send {
    fn keep_short(&self, stopped: &dyn Fn() -> bool);
}

struct Compacted<F: ShardFamily> {
    snapshots: Snapshots<F, RealDisk>,
    reader: NodeReader,
    shards: u16,
}

/// The reading of one log, round and round.
struct Scrub {
    log: LogId,
    reader: NodeReader,
    at: Cursor,
    /// Damage is told once a round.
    damaged: bool,
}

impl LogKeeper {
    /// Has this log read again and again.
    pub fn scrub(&mut self, log: LogId, reader: NodeReader) {
        self.scrubbed.push(Scrub { log, reader, at: Cursor::START, damaged: false });
    }

    /// Registers a log, one of `shards`, to be compacted as its family says.
    pub fn keep_short<F: ShardFamily>(&mut self, snapshots: Snapshots<F, RealDisk>, reader: NodeReader, shards: u16)
    where
        Snapshots<F, RealDisk>: Send,
    {
        self.compacted.push(Box::new(Compacted { snapshots, reader, shards }));
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

impl<F: ShardFamily> KeepShort for Compacted<F>
where
    Snapshots<F, RealDisk>: Send,
{
    fn keep_short(&self, stopped: &dyn Fn() -> bool) {
        let began = Instant::now();
        let (family, shard) = (F::FAMILY.name, self.snapshots.log().shard);
        match compact(&self.snapshots, &self.reader, self.shards, F::COMPACTION, || !stopped()) {
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
                let advice = "a log that is read again is damaged; restore the file from a copy";
                tracing::error!(log = %self.log, %error, "{advice}");
            }
            Err(_) => {}
        }
    }
}

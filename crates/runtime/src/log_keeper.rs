//! Maintains logs while they are served. It compacts the logs of families that allow it. It also reads all logs again
//! and again, so that damage is found while a copy still exists.
//!
//! ```text
//!   look, look, look …   families that forget: behind the snapshot too much? ─▶ snapshot, forget
//!                        (a disk that runs full: anything?)
//!                        every log: the next few megabytes ─▶ checksums, chain ─▶ damage, progress
//! ```
//!
//! Why a thread of its own: it only reads and writes files and waits for no other thread, so a long compaction delays
//! nothing.

use std::time::{Duration, Instant};

use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Durability, LogId, Position};
use tidegate_shard::{
    CompactError, Compaction, Pressure, ShardFamily, Snapshots, compact, compact_to, covers_all_sealed, forget_covered,
};

use crate::disk_room::RoomWatch;
use crate::metrics::ScrubMetrics;
use crate::recovery::NodeReader;
use crate::scrub::{LogScrub, verify};
use crate::snapshot_watch::SnapshotWatch;
use crate::tail_watch::TailWatch;
use crate::threads::lower_priority;

/// How often the logs are looked at, whether they are to be compacted.
const LOOK: Duration = Duration::from_secs(10);
/// How often that is while the disk is full: a log whose disk was made room on notes that within 1.6 s.
const LOOK_WHILE_FULL: Duration = Duration::from_secs(2);
/// After a compaction that failed, the next one of that log comes so late at most: one reads the log, for nothing.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// It comes so many times as late as the one before took, if that is less.
const PAUSE_PART: u32 = 4;
/// A compaction that has worked for so long rests...
const WORK_BETWEEN_RESTS: Duration = Duration::from_millis(2);
/// ... for so long...
const REST: Duration = Duration::from_millis(6);
/// ... again and again, until this long after its beginning. Then it goes on without a rest: it never falls behind what
/// is written meanwhile.
const RESTS_FOR: Duration = Duration::from_secs(20);
/// How often damaged places, and segments that are still being written, are looked at again: an operator who has put a
/// file right waits so long.
pub const LOOK_AT_DAMAGE: Duration = Duration::from_secs(4);
/// How often the thread looks whether it should stop, and reads on.
const NAP: Duration = Duration::from_millis(100);
/// The next pass over a log begins no sooner than this after the last one began: a small log need not be read all the
/// time. The first one begins with the start.
pub const PASS_INTERVAL: Duration = Duration::from_secs(600);
/// How often a pass that takes long says how far it is.
const TELL_PROGRESS: Duration = Duration::from_secs(600);

/// The logs of all shards.
#[derive(Default)]
pub struct LogKeeper {
    compacted: Vec<Box<dyn KeepShort>>,
    scrubbed: Vec<Scrubbed>,
}

/// A log that forgets.
trait KeepShort: Send {
    fn keep_short(&mut self, rooms: &RoomWatch, stopped: &dyn Fn() -> bool);
}

struct Compacted<F: ShardFamily> {
    snapshots: Snapshots<F, RealDisk>,
    reader: NodeReader,
    shards: u16,
    watch: SnapshotWatch,
    /// The next attempt is not before then: after one that made no room.
    put_off: Option<Instant>,
    /// The newest snapshot when all before it was forgotten.
    alone: Option<Position>,
}

/// The reading of one log, pass after pass.
pub struct Scrubbed {
    /// The reading.
    pub scrub: LogScrub<NodeReader>,
    /// What is counted of it.
    pub metrics: ScrubMetrics,
    began: Option<Instant>,
    /// When the log was last told of this pass, or it began.
    told: Option<Instant>,
}

impl Scrubbed {
    /// A reading that is counted with `metrics`.
    pub fn new(scrub: LogScrub<NodeReader>, metrics: ScrubMetrics) -> Scrubbed {
        Scrubbed { scrub, metrics, began: None, told: None }
    }

    /// Whether a pass is under way, or another is due.
    pub fn is_due(&self) -> bool {
        let is_between = self.scrub.position().0 == 0;
        !is_between || self.began.is_none_or(|began| began.elapsed() >= PASS_INTERVAL)
    }

    /// Reads about `bytes` more and verifies it. Whether the pass has ended.
    pub fn go_on(&mut self, bytes: u64) -> bool {
        self.go_on_with(|scrub| scrub.step(bytes, None, &mut verify))
    }

    /// The same, by `step`.
    pub fn go_on_with(&mut self, step: impl FnOnce(&mut LogScrub<NodeReader>) -> bool) -> bool {
        if self.scrub.position().0 == 0 {
            (self.began, self.told) = (Some(Instant::now()), Some(Instant::now()));
        }
        let is_over = step(&mut self.scrub);
        let facts = self.scrub.facts();
        self.metrics.observe(&facts, self.scrub.damage().len(), self.scrub.mended());
        if !is_over && self.told.is_none_or(|told| told.elapsed() >= TELL_PROGRESS) {
            self.told = Some(Instant::now());
            let log = self.scrub.log();
            let (family, shard, position, of) = (log.family, log.shard, facts.position, facts.of);
            tracing::info!(family, shard, position, of, "reads a log again: so far");
        }
        is_over
    }

    /// Looks again at damaged places. Whether some of them are sound by now: then a pass is due, because what stands
    /// behind damage in its segment was not read.
    pub fn look_again(&mut self) -> bool {
        let is_news = self.scrub.look_again();
        if is_news {
            self.began = None;
        }
        // Whoever reads may have found something meanwhile.
        self.metrics.observe(&self.scrub.facts(), self.scrub.damage().len(), self.scrub.mended());
        is_news
    }

    /// Says that a pass has ended.
    pub fn tell(&self, also: &str) {
        let log = self.scrub.log();
        let took = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        tracing::info!(
            family = log.family,
            shard = log.shard,
            bytes = self.scrub.facts().of,
            also,
            damaged_places = self.scrub.damage().len(),
            took_ms = took.as_millis() as u64,
            "read a whole log again"
        );
    }
}

impl LogKeeper {
    /// Has this log read again and again.
    pub fn scrub(&mut self, scrubbed: Scrubbed) {
        self.scrubbed.push(scrubbed);
    }

    /// Leaves the reading of this log to its room.
    pub fn leave(&mut self, log: LogId) -> Option<Scrubbed> {
        let at = self.scrubbed.iter().position(|scrubbed| scrubbed.scrub.log() == log)?;
        Some(self.scrubbed.swap_remove(at))
    }

    /// Registers a log, one of `shards`, to be compacted as its family says.
    pub fn keep_short<F: ShardFamily>(
        &mut self,
        snapshots: Snapshots<F, RealDisk>,
        reader: NodeReader,
        shards: u16,
        watch: SnapshotWatch,
    ) where
        Snapshots<F, RealDisk>: Send,
    {
        self.compacted.push(Box::new(Compacted { snapshots, reader, shards, watch, put_off: None, alone: None }));
    }

    /// Looks after them, and after their room on the disk, until `stopped`, reading no more than `scrub_bytes_per_s`
    /// again.
    pub fn run(
        mut self,
        scrub_bytes_per_s: u64,
        (mut rooms, mut tails): (RoomWatch, TailWatch),
        stopped: &dyn Fn() -> bool,
    ) {
        lower_priority();
        let (mut looked, mut looked_at_damage) = (None::<Instant>, Instant::now());
        let mut budget = Budget::new(scrub_bytes_per_s);
        while !stopped() {
            rooms.look();
            let pause = if rooms.pressure() == Pressure::Full { LOOK_WHILE_FULL } else { LOOK };
            if looked.is_none_or(|looked| looked.elapsed() >= pause) {
                looked = Some(Instant::now());
                for shard in &mut self.compacted {
                    shard.keep_short(&rooms, stopped);
                }
            }
            if looked_at_damage.elapsed() >= LOOK_AT_DAMAGE {
                looked_at_damage = Instant::now();
                self.scrubbed.iter_mut().for_each(|scrubbed| _ = scrubbed.look_again());
                // A quarter of the rate, or less.
                if scrub_bytes_per_s > 0 {
                    tails.look(scrub_bytes_per_s);
                }
            }
            std::thread::sleep(NAP);
            let due = self.scrubbed.iter_mut().filter(|scrubbed| scrubbed.is_due());
            // One log after the other: a pass over each takes as long as it would alone.
            if let (Some(scrubbed), Some(bytes)) = ({ due }.next(), budget.take())
                && budget.spend(scrubbed, |scrubbed| scrubbed.go_on(bytes))
            {
                scrubbed.tell("");
            }
        }
    }
}

impl<F: ShardFamily> KeepShort for Compacted<F>
where
    Snapshots<F, RealDisk>: Send,
{
    fn keep_short(&mut self, rooms: &RoomWatch, stopped: &dyn Fn() -> bool) {
        let began = Instant::now();
        if self.put_off.is_some_and(|until| began < until) {
            return;
        }
        let (family, shard, pressure) = (F::FAMILY.name, self.snapshots.log().shard, rooms.pressure());
        // On a full disk nothing new seals the last segment, which has what makes the others of no use.
        let (durable, is_full) = (rooms.durable(self.snapshots.log()), pressure == Pressure::Full);
        match self.compact(pressure, durable.as_ref(), stopped) {
            Ok(None) if is_full => durable.iter().for_each(|durable| self.forget_covered(durable)),
            Ok(None) if stopped() => {}
            Ok(None) => self.watch.works(),
            Ok(Some(done)) => {
                self.watch.wrote(&done.written);
                tracing::info!(
                    family,
                    shard,
                    ?pressure,
                    sequence = done.cursor.sequence.0,
                    events = done.events,
                    segments_forgotten = done.forgotten.segments,
                    snapshots_passed_over = done.passed_over.join("; "),
                    took_ms = began.elapsed().as_millis() as u64,
                    "compacted"
                );
                // The next look forgets what it covers, if the disk is full still.
                if is_full && done.forgotten.segments == 0 {
                    self.put_off = Some(Instant::now() + LOOK_WHILE_FULL);
                    return;
                }
            }
            // The log is as it was; it is longer than it need be.
            Err(error) => {
                self.watch.fails(error.to_string());
                return self.put_off(began.elapsed());
            }
        }
        self.put_off = None;
    }
}

impl<F: ShardFamily> Compacted<F> {
    /// Makes a snapshot of what is sealed, or on a full disk of all up to `durable`.
    fn compact(
        &self,
        pressure: Pressure,
        durable: Option<&Durability>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Compaction>, CompactError> {
        let mut pace = Pace::new(pressure, Instant::now());
        let go_on = || {
            if pace.is_time(Instant::now()) {
                std::thread::sleep(REST);
                pace.has_rested(Instant::now());
            }
            !stopped()
        };
        let rule = F::COMPACTION.under(pressure);
        match durable {
            Some(end) if pressure == Pressure::Full => {
                compact_to(&self.snapshots, &self.reader, self.shards, end, rule, go_on)
            }
            Some(end) if covers_all_sealed(&self.snapshots, &self.reader, end)? => Ok(None),
            _ => compact(&self.snapshots, &self.reader, self.shards, rule, go_on),
        }
    }

    /// The next attempt is made later, the later the longer this one took: all of them together are a small part of the
    /// time. What made an attempt vain may be over at any moment, when what waited on a full disk has been taken.
    fn put_off(&mut self, took: Duration) {
        self.put_off = Some(Instant::now() + (took * PAUSE_PART).clamp(LOOK_WHILE_FULL, RETRY_MAX));
    }

    /// The disk is full, and nothing is left that another snapshot would cover: what the newest one covers is
    /// forgotten, too.
    fn forget_covered(&mut self, durable: &Durability) {
        let (family, shard) = (F::FAMILY.name, self.snapshots.log().shard);
        let newest = self.snapshots.newest_header(Position(u64::MAX)).ok().flatten();
        let newest = newest.map(|newest| newest.cursor.position);
        if newest.is_none() || newest == self.alone {
            return;
        }
        self.alone = newest;
        match forget_covered(&self.snapshots, &self.reader, durable) {
            Ok(forgotten) if forgotten.segments == 0 => tracing::warn!(
                family,
                shard,
                "the disk is full, and nothing of this log can be forgotten to make room: all segments that it has are \
                 needed behind its newest snapshot, which is the only one now. Make room on the disk"
            ),
            Ok(forgotten) => tracing::warn!(
                family,
                shard,
                segments_forgotten = forgotten.segments,
                "the disk is full: what the newest snapshot covers was forgotten, and it is the only one now"
            ),
            Err(error) => tracing::error!(family, shard, %error, "cannot make room on a full disk"),
        }
    }
}

/// When a compaction rests. Its reads and its use of the caches make syncs and turns of workers beside it longer.
struct Pace {
    /// It does not rest any more from then on.
    until: Instant,
    rested: Instant,
}

impl Pace {
    /// A compaction begins. Where room is short, it does not rest.
    fn new(pressure: Pressure, now: Instant) -> Pace {
        Pace { until: if pressure == Pressure::None { now + RESTS_FOR } else { now }, rested: now }
    }

    /// Whether it is time for a rest.
    fn is_time(&self, now: Instant) -> bool {
        now < self.until && now - self.rested >= WORK_BETWEEN_RESTS
    }

    /// It goes on.
    fn has_rested(&mut self, now: Instant) {
        self.rested = now;
    }
}

/// How much may be read again by now: so many bytes a second, and no more than a second's worth at once.
pub struct Budget {
    per_second: u64,
    left: f64,
    since: Instant,
}

impl Budget {
    /// A rate; zero for nothing at all.
    pub fn new(per_second: u64) -> Budget {
        Budget { per_second, left: 0.0, since: Instant::now() }
    }

    /// What may be read now, in bytes, if anything.
    pub fn take(&mut self) -> Option<u64> {
        let passed = self.since.elapsed().as_secs_f64().min(1.0);
        self.since = Instant::now();
        self.left = (self.left + passed * self.per_second as f64).min(self.per_second as f64);
        (self.left >= 1.0).then_some(self.left as u64)
    }

    /// Has `act` read, and counts what it did: a group is read whole, so that it may be more than was allowed.
    pub fn spend(&mut self, scrubbed: &mut Scrubbed, act: impl FnOnce(&mut Scrubbed) -> bool) -> bool {
        let before = scrubbed.scrub.facts().bytes;
        let is_over = act(scrubbed);
        self.count(scrubbed.scrub.facts().bytes - before);
        is_over
    }

    /// Counts bytes that were read.
    pub fn count(&mut self, bytes: u64) {
        self.left -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_rests_often_for_a_while_and_never_where_room_is_short() {
        let began = Instant::now();
        let mut pace = Pace::new(Pressure::None, began);
        assert!(!pace.is_time(began) && pace.is_time(began + WORK_BETWEEN_RESTS));
        pace.has_rested(began + REST);
        assert!(!pace.is_time(began + REST) && pace.is_time(began + REST + WORK_BETWEEN_RESTS));
        assert!(!pace.is_time(began + RESTS_FOR), "it has to come to an end");
        for pressure in [Pressure::Low, Pressure::Full] {
            assert!(!Pace::new(pressure, began).is_time(began + WORK_BETWEEN_RESTS), "{pressure:?}");
        }
    }
}

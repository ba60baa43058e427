//! What goes wrong with the machine, and the book in which it is written down, so that nothing else is excused.

use std::path::{Path, PathBuf};

use tidegate_journal::LogId;
use tidegate_journal::disk::{Disk, DiskFile};
use tidegate_journal::segment::SEGMENT_HEADER_BYTES;

use super::bad_sectors::BadSectors;
use super::store::{End, Rot, Store};
use super::workload::Workload;
use super::{Site, World};
use crate::note;
use crate::violation::Violation;

/// Ticks that a slow read takes at most.
const SLOW_JOB_TICKS: u64 = 40;
/// Ticks after which an answer may still speak of a disk that has room again.
const FULL_IS_REMEMBERED: u64 = 1_500;

/// Faults of the machine; each is "so many times in ten thousand ticks". A workload says how often its machine meets
/// each; a fault should be absent from some seeds, because one that is always there hides what happens only without it.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The power fails between two operations of the disk.
    pub power: u64,
    /// The power fails in the middle of some operation of the disk soon.
    pub power_in_operation: u64,
    /// The process is killed.
    pub kill: u64,
    /// The process is stopped gracefully.
    pub stop: u64,
    /// The next sync of the disk fails.
    pub sync: u64,
    /// The next write to the disk fails, perhaps halfway.
    pub write: u64,
    /// A sector of a log or of the id index cannot be read, for a while.
    pub bad_sector: u64,
    /// The disk fills up, for a while.
    pub full_disk: u64,
    /// A log gets no disk time, or its stream is not reached, for a while.
    pub stalled_log: u64,
    /// A bit of a log rots.
    pub log_rot: u64,
    /// A log loses its end, and a snapshot that has it is there.
    pub lost_tail: u64,
    /// A bit of a snapshot rots, or its end is cut off.
    pub snapshot_rot: u64,
    /// A bit of the id index rots.
    pub ids_rot: u64,
    /// The clock jumps.
    pub clock_jump: u64,
    /// The clock jumps back if it is right, else it is set right.
    pub clock_behind: u64,
    /// By how much the time of shards is ahead of the clock of their host, in milliseconds, for those of
    /// [`super::Shards`].
    pub shards_ahead_ms: u64,
    /// Another process takes a log over, where that is possible.
    pub take_over: u64,
    /// A start does not reach the stream, where there is one; so many times in a thousand starts.
    pub unreachable_start: u64,
    /// A log does nothing in this tick; so many times in a thousand.
    pub slow_log: u64,
    /// A read that a shard of [`super::Shards`] wants done takes some ticks; so many times in a thousand.
    pub slow_job: u64,
}

/// The damage that was done.
#[derive(Default)]
pub(super) struct Damage {
    rot: Vec<Rot>,
    /// Snapshots that were harmed, by name.
    snapshots: Vec<String>,
    /// Since the process started, something was done to it for which a shard may stop.
    may_stop: bool,
    /// What rotted of the index of ids. A start that does not read it leaves it so; one that does builds the index
    /// again.
    ids_rot: Vec<IdsRot>,
    /// When something that rotted was put right, as answers from before may still be on their way.
    pub(super) mended_at: Option<u64>,
    pub(super) bad_sectors: BadSectors,
    /// [`Store::strays`] before the process started.
    strays: u64,
    full_until: Option<u64>,
    full_at: Option<u64>,
    /// By log: until when it is not stepped.
    stalled_until: Vec<u64>,
}

/// A bit of the index of ids that is not as it was written.
#[derive(Clone, Debug)]
struct IdsRot {
    path: PathBuf,
    at: u64,
    bit: u8,
    /// The byte as it is now.
    byte: u8,
}

/// So long the clock is right at least: before anything was written by a right clock, nothing shows that one is behind.
const RIGHT_TICKS: u64 = 150;

impl<S: Store> Site<S> {
    /// Whether a shard that stops itself has a reason.
    pub fn may_stop_a_shard(&self) -> bool {
        let fenced = self.store.strays() > self.damage.strays;
        fenced || self.damage.may_stop
    }

    /// Whether `words` name a part of a log that really rots.
    pub fn names_rot(&self, words: &str) -> bool {
        self.damage.rot.iter().any(|rot| words.contains(&rot.name))
    }

    /// Whether `words` name a part of a log in which one byte of the groups rots, and nothing else.
    pub fn is_one_byte(&self, words: &str) -> bool {
        let mut rots = self.damage.rot.iter().filter(|rot| words.contains(&rot.name) && self.store.is_rotten(rot));
        let one = rots.next();
        one.is_some_and(|rot| rot.offset >= SEGMENT_HEADER_BYTES as u64) && rots.next().is_none()
    }

    /// Whether rot of this log explains `words`.
    pub fn explains(&self, log: LogId, words: &str) -> bool {
        self.damage.rot.iter().any(|rot| rot.log == log && words.contains(&rot.name))
    }

    /// Whether this log rots somewhere.
    pub fn rots(&self, log: LogId) -> bool {
        self.damage.rot.iter().any(|rot| rot.log == log && self.store.is_rotten(rot))
    }

    /// Whether `words` name a snapshot that was harmed.
    pub fn names_harmed_snapshot(&self, words: &str) -> bool {
        self.damage.snapshots.iter().any(|name| words.contains(name))
    }

    /// Whether some log was made to rot and was not restored.
    pub fn has_rot(&self) -> bool {
        !self.damage.rot.is_empty()
    }

    /// Whether something that a read may meet rots: of a log, or of the index of ids beside it.
    pub fn may_refuse_for_damage(&self) -> bool {
        self.ids_rot() || self.has_bad_sectors() || self.damage.rot.iter().any(|rot| self.store.is_rotten(rot))
    }

    /// Whether the index of ids rots somewhere.
    fn ids_rot(&self) -> bool {
        self.damage.ids_rot.iter().any(|rot| self.is_in_ids(rot))
    }

    fn is_in_ids(&self, rot: &IdsRot) -> bool {
        match self.disk.contents(&rot.path) {
            Ok(bytes) => bytes.get(rot.at as usize) == Some(&rot.byte),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }

    /// The same, or it did so lately that answers may still say so.
    pub fn was_damaged(&self) -> bool {
        let lately = |at: u64| self.tick < at + FULL_IS_REMEMBERED;
        // A writer may have written over rot since somebody met it.
        self.has_rot() || self.may_refuse_for_damage() || self.damage.mended_at.is_some_and(lately)
    }

    /// Whether the disk is full, or was so lately that answers may still say so.
    pub fn was_full(&self) -> bool {
        self.damage.full_at.is_some_and(|at| self.is_full() || self.tick < at + FULL_IS_REMEMBERED)
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        self.damage.full_until.is_some()
    }

    /// A process is about to start, and has nothing to complain of yet.
    pub fn process_starts(&mut self) {
        // A start builds an index again that rots, and writes headers and marks of logs again.
        if !self.damage.ids_rot.is_empty() || self.damage.rot.iter().any(|rot| self.store.is_rotten(rot)) {
            self.damage.mended_at = Some(self.tick);
        }
        let mut ids_rot = std::mem::take(&mut self.damage.ids_rot);
        ids_rot.retain(|rot| self.is_in_ids(rot));
        (self.damage.may_stop, self.damage.ids_rot) = (false, ids_rot);
        self.damage.strays = self.store.strays();
        self.forget_mended_sectors();
        if !self.clock.process_starts() {
            note!(self.trace, "a start is refused because of the clock, which is corrected");
            self.tally.add("a start refused because of the clock", 1);
        }
    }

    /// The operator makes room on the disk.
    pub(super) fn make_room(&mut self) {
        if self.damage.full_until.take().is_some() {
            note!(self.trace, "the disk has room");
            self.damage.full_at = Some(self.tick);
            self.disk.set_capacity(u64::MAX);
        }
    }

    /// Every log gets disk time again.
    pub(super) fn stall_nobody(&mut self) {
        self.damage.stalled_until.clear();
        self.setup.logs().iter().for_each(|log| _ = self.store.stall(*log, 0));
    }

    pub(super) fn is_stalled(&self, log: usize) -> bool {
        self.damage.stalled_until.get(log).is_some_and(|until| self.tick < *until)
    }

    /// How many ticks the next read of a log takes that a shard wants done elsewhere.
    pub(super) fn ticks_of_a_job(&mut self) -> u64 {
        let slow = self.setup.faults.slow_job;
        if self.calm || slow == 0 || !self.chance.happens(slow) {
            return 0;
        }
        self.tally.add("a slow read", 1);
        self.chance.within(1..=SLOW_JOB_TICKS)
    }

    fn draws(&mut self, in_ten_thousand: u64) -> bool {
        self.chance.below(10_000) < in_ten_thousand
    }

    fn fill_disk(&mut self) {
        // With nothing left even small files cannot grow.
        let left = if self.chance.happens(500) { 0 } else { self.chance.below(8 << 10) };
        note!(self.trace, "the disk has {left} bytes left");
        self.disk.set_capacity(self.disk.used_bytes() + left);
        self.damage.full_until = Some(self.tick + self.chance.within(50..=2_500));
        self.damage.full_at = Some(self.tick);
        self.tally.add("a full disk", 1);
    }

    fn stall(&mut self) {
        let log = *self.chance.one_of(&self.setup.logs());
        let ticks = self.chance.within(5..=200);
        self.stall_log(log, ticks);
    }

    /// A log gets nothing done for so many ticks.
    pub fn stall_log(&mut self, log: LogId, ticks: u64) {
        let logs = self.setup.logs();
        let index = logs.iter().position(|other| *other == log).expect("it is one of the process's logs");
        self.damage.stalled_until.resize(logs.len(), 0);
        if self.store.stall(log, ticks) {
            self.damage.stalled_until[index] = self.tick + ticks;
        }
        self.tally.add("a log that gets nothing done", 1);
    }

    fn jump(&mut self) {
        const DAY_MS: u64 = 24 * 3_600 * 1_000;
        const YEARS_10_MS: u64 = 3_652 * DAY_MS;
        let most = *self.chance.one_of(&[100, 5_000, DAY_MS, YEARS_10_MS, YEARS_10_MS]);
        let by = self.chance.within(1..=most) as i64;
        let forward = self.chance.happens(500);
        note!(self.trace, "the wall clock jumps {} by {by} ms", if forward { "forward" } else { "back" });
        self.tally.add("a clock jump", 1);
        self.tally.add("a clock jump of years", u64::from(by > 366 * DAY_MS as i64));
        self.clock.jump(if forward { by } else { -by });
    }

    fn jump_back_or_right(&mut self) {
        const DAY_MS: u64 = 24 * 3_600 * 1_000;
        if self.clock.is_behind() {
            note!(self.trace, "the wall clock is set right");
            return self.clock.correct();
        }
        let most = *self.chance.one_of(&[DAY_MS, 60 * DAY_MS, 3_652 * DAY_MS]);
        let by = self.chance.within(1..=most) as i64;
        note!(self.trace, "the wall clock jumps back by {by} ms");
        self.tally.add("a clock that is behind", 1);
        self.clock.jump(-by);
    }

    fn rot_log(&mut self) {
        let log = *self.chance.one_of(&self.setup.logs());
        let Some(rot) = self.store.rot(log, &mut self.chance) else { return };
        note!(self.trace, "bit {} at {} of {} of {} rots", rot.bit, rot.offset, rot.name, rot.path);
        self.tally.add("rot", 1);
        self.damage.rot.push(rot);
    }

    fn take_over(&mut self) {
        let log = *self.chance.one_of(&self.setup.logs());
        if self.store.take_over(log) {
            note!(self.trace, "somebody takes over {log}");
            self.tally.add("a takeover", 1);
            self.damage.may_stop = true;
        }
    }

    fn harm_snapshot(&mut self) {
        let files = self.files_below("snapshots");
        if files.is_empty() {
            return;
        }
        let (path, len) = self.chance.one_of(&files).clone();
        let at = self.chance.below(len);
        let cut = self.chance.happens(500);
        note!(self.trace, "{} {} at {at}", path.display(), if cut { "is cut" } else { "rots" });
        if cut {
            // Between two operations of the process; if the machine has stopped, nothing is cut.
            let _ = self.disk.open(&path).and_then(|file| file.set_len(at).and_then(|()| file.sync_data()));
        } else {
            self.disk.flip_bit(&path, at, self.chance.below(8) as u8);
        }
        self.tally.add("a harmed snapshot", 1);
        self.damage.snapshots.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
    }

    /// These snapshots are not what they should be.
    pub(super) fn count_as_harmed<'a>(&mut self, paths: impl Iterator<Item = &'a PathBuf>) {
        let names = paths.filter_map(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
        self.damage.snapshots.extend(names);
    }

    fn rot_ids(&mut self) {
        let files = self.files_below("ids");
        if files.is_empty() {
            return;
        }
        let (path, len) = self.chance.one_of(&files).clone();
        let at = self.chance.below(len);
        note!(self.trace, "{} rots at {at}", path.display());
        let bit = self.chance.below(8) as u8;
        self.disk.flip_bit(&path, at, bit);
        self.tally.add("a harmed id index", 1);
        let now = self.disk.contents(&path).ok().and_then(|bytes| bytes.get(at as usize).copied());
        self.damage.ids_rot.extend(now.map(|byte| IdsRot { path, at, bit, byte }));
    }

    pub(super) fn files_below(&self, folder: &str) -> Vec<(PathBuf, u64)> {
        let folder = super::data().join(folder);
        self.disk.files().into_iter().filter(|(path, len)| path.starts_with(&folder) && *len > 0).collect()
    }

    /// The same for the index of ids.
    pub(super) fn restore_ids(&mut self) {
        for rot in std::mem::take(&mut self.damage.ids_rot) {
            if self.is_in_ids(&rot) {
                self.damage.mended_at = Some(self.tick);
                note!(self.trace, "{} is restored at {}", rot.path.display(), rot.at);
                self.disk.flip_bit(&rot.path, rot.at, rot.bit);
            }
        }
    }

    /// The operator puts back what rotted, from a copy.
    pub fn restore(&mut self) {
        for rot in std::mem::take(&mut self.damage.rot) {
            if self.store.is_rotten(&rot) {
                self.damage.mended_at = Some(self.tick);
                note!(self.trace, "{} of {} is restored", rot.name, rot.path);
                self.store.heal(&rot);
            } else if self.disk.exists(Path::new(&rot.path)).unwrap_or(false)
                && !self.disk.has_byte(Path::new(&rot.path), rot.offset, rot.written)
            {
                // The writer has written its block again, and that is not durable yet: the rot could come back.
                self.store.heal(&rot);
            }
        }
    }
}

impl<W: Workload<S>, S: Store> World<W, S> {
    /// Draws the faults of this tick.
    pub(super) fn something_goes_wrong(&mut self) -> Result<(), Violation> {
        let site = &mut self.site;
        if site.damage.full_until.is_some_and(|until| until <= site.tick) {
            site.make_room();
        }
        let faults = site.setup.faults.clone();
        for (rate, end) in [(faults.power, End::Power), (faults.kill, End::Kill), (faults.stop, End::Stop)] {
            if self.site.draws(rate) {
                self.end(end)?;
            }
        }
        let site = &mut self.site;
        if site.draws(faults.power_in_operation) {
            let operations = site.chance.below(40);
            note!(site.trace, "the power will fail in operation {operations}");
            site.disk.crash_after_ops(operations);
        }
        if site.draws(faults.sync) && self.node.is_some() {
            note!(site.trace, "the next sync will fail");
            site.damage.may_stop = true;
            site.disk.fail_next_sync();
        }
        if site.draws(faults.write) && self.node.is_some() {
            note!(site.trace, "the next write will fail");
            site.damage.may_stop = true;
            site.disk.fail_next_write();
        }
        site.sectors_pass();
        if site.draws(faults.bad_sector) {
            site.spoil_a_sector();
        }
        if site.draws(faults.full_disk) {
            site.fill_disk();
        }
        if site.draws(faults.stalled_log) {
            site.stall();
        }
        if site.draws(faults.log_rot) && self.node.is_some() {
            site.rot_log();
        }
        if site.draws(faults.take_over) && self.node.is_some() {
            site.take_over();
        }
        if site.draws(faults.snapshot_rot) {
            site.harm_snapshot();
        }
        if site.draws(faults.ids_rot) {
            site.rot_ids();
        }
        if site.draws(faults.clock_jump) {
            site.jump();
        }
        if faults.clock_behind > 0 && site.tick > RIGHT_TICKS && site.draws(faults.clock_behind) {
            site.jump_back_or_right();
        }
        if site.has_rot() && site.chance.happens(5) {
            self.audit_and_restore()?;
        }
        if faults.lost_tail > 0 && self.site.draws(faults.lost_tail) {
            self.lose_a_tail()?;
        }
        Ok(())
    }

    /// The operator stops the process, audits the data directory, and restores what the audit names.
    fn audit_and_restore(&mut self) -> Result<(), Violation> {
        if self.node.is_none() || self.site.disk.has_stopped() {
            return Ok(());
        }
        note!(self.site.trace, "the data directory is audited");
        self.end(End::Kill)?;
        self.audit_offline()?;
        self.site.restore();
        Ok(())
    }

    /// An audit of logs that nobody serves finds damage in every log where there is some, names it, and finds none
    /// elsewhere.
    pub fn audit_offline(&mut self) -> Result<(), Violation> {
        for log in self.site.setup.logs() {
            let Some(found) = self.load.audit(&self.site, log) else { continue };
            let site = &mut self.site;
            note!(site.trace, "  {log}: {found:?}");
            if site.rots(log) {
                let named = found.iter().any(|words| site.explains(log, words) || site.names_bad_sector(words));
                crate::violation::must(named, "an audit names the damage", || format!("{log}: {found:?}"))?;
                site.tally.add("an offline audit that found damage", 1);
                continue;
            }
            let is_founded = |words: &str| site.names_harmed_snapshot(words) || site.names_bad_sector(words);
            let unfounded: Vec<&String> = found.iter().filter(|words| !is_founded(words)).collect();
            crate::violation::must(unfounded.is_empty(), "an audit finds nothing where nothing is wrong", || {
                format!("{log}: {unfounded:?}")
            })?;
        }
        Ok(())
    }
}

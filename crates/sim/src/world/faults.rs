//! What goes wrong with the machine, and the book in which it is written down, so that nothing else is excused.

use std::path::PathBuf;

use tidegate_journal::Position;
use tidegate_journal::disk::{Disk, DiskFile, FakeDisk};
use tidegate_journal::segment::{SEGMENT_HEADER_BYTES, parse_segment_name};
use tidegate_ledger::audit::audit_shard;

use super::process::End;
use super::{World, data};
use crate::node::{logs, snapshots};
use crate::note;
use crate::violation::{Violation, must};

/// Ticks after which an answer may still speak of a disk that has room again.
const FULL_IS_REMEMBERED: u64 = 1_500;
/// Bytes of a segment's header that mean anything.
const HEADER_BYTES_USED: u64 = 76;

/// One bit of a journal that is not what was written.
struct Rot {
    shard: u16,
    path: PathBuf,
    offset: u64,
    bit: u8,
    written: u8,
}

impl Rot {
    fn is_there(&self, disk: &FakeDisk) -> bool {
        disk.contents(&self.path).is_ok_and(|bytes| bytes.get(self.offset as usize) != Some(&self.written))
    }

    fn file_name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// The damage that was done.
pub(super) struct Damage {
    rot: Vec<Rot>,
    /// Snapshots that were harmed, by name.
    snapshots: Vec<String>,
    /// An id index was harmed since the process started, which rebuilds it.
    ids: bool,
    /// A sync was made to fail since the process started.
    sync: bool,
    full_until: Option<u64>,
    full_at: Option<u64>,
    stalled_until: Vec<u64>,
}

impl Damage {
    pub fn new(shards: u16) -> Damage {
        Damage {
            rot: Vec::new(),
            snapshots: Vec::new(),
            ids: false,
            sync: false,
            full_until: None,
            full_at: None,
            stalled_until: vec![0; shards as usize],
        }
    }

    pub fn process_started(&mut self) {
        self.ids = false;
        self.sync = false;
    }

    /// Whether a shard that stops itself has a reason.
    pub fn may_stop_a_shard(&self, disk: &FakeDisk) -> bool {
        self.ids || self.sync || self.rot.iter().any(|rot| rot.is_there(disk))
    }

    /// Whether `words` name a segment of the journal that really rots.
    pub fn names_rot(&self, disk: &FakeDisk, words: &str) -> bool {
        self.rot.iter().any(|rot| rot.is_there(disk) && words.contains(&rot.file_name()))
    }

    /// Whether rot of this shard explains `words`.
    pub fn explains(&self, disk: &FakeDisk, shard: u16, words: &str) -> bool {
        self.rot.iter().any(|rot| rot.shard == shard && rot.is_there(disk) && words.contains(&rot.file_name()))
    }

    fn rots(&self, disk: &FakeDisk, shard: u16) -> bool {
        self.rot.iter().any(|rot| rot.shard == shard && rot.is_there(disk))
    }

    /// Whether the journal may rot somewhere.
    pub fn has_rot(&self) -> bool {
        !self.rot.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.full_until.is_some()
    }

    /// Whether the disk is full, or was so lately that answers may still say so.
    pub fn was_full(&self, tick: u64) -> bool {
        self.full_at.is_some_and(|at| self.is_full() || tick < at + FULL_IS_REMEMBERED)
    }

    /// Every log gets disk time again.
    pub fn stall_nobody(&mut self) {
        self.stalled_until.fill(0);
    }

    pub fn is_stalled(&self, shard: u16, tick: u64) -> bool {
        tick < self.stalled_until[shard as usize]
    }
}

impl World {
    /// Draws the faults of this tick.
    pub(super) fn something_goes_wrong(&mut self) -> Result<(), Violation> {
        if self.damage.full_until.is_some_and(|until| until <= self.tick) {
            self.make_room();
        }
        let faults = self.plan.faults.clone();
        if self.draws(faults.power) {
            self.end(End::Power)?;
        }
        if self.draws(faults.kill) {
            self.end(End::Kill)?;
        }
        if self.draws(faults.stop) {
            self.end(End::Stop)?;
        }
        if self.draws(faults.power_in_operation) {
            let operations = self.chance.below(40);
            note!(self.trace, "the power will fail in operation {operations}");
            self.disk.crash_after_ops(operations);
        }
        if self.draws(faults.sync) && self.node.is_some() {
            note!(self.trace, "the next sync will fail");
            self.damage.sync = true;
            self.disk.fail_next_sync();
        }
        if self.draws(faults.full_disk) {
            self.fill_disk();
        }
        if self.draws(faults.stalled_disk) {
            let shard = self.chance.below(u64::from(self.plan.shards)) as usize;
            self.damage.stalled_until[shard] = self.tick + self.chance.within(5..=200);
        }
        if self.draws(faults.journal_rot) {
            self.rot_journal();
        }
        if self.draws(faults.snapshot_rot) {
            self.harm_snapshot();
        }
        if self.draws(faults.ids_rot) {
            self.rot_ids();
        }
        if self.draws(faults.clock_jump) {
            self.jump();
        }
        if self.damage.has_rot() && self.chance.happens(5) {
            self.scrub()?;
        }
        Ok(())
    }

    fn draws(&mut self, in_ten_thousand: u64) -> bool {
        self.chance.below(10_000) < in_ten_thousand
    }

    fn fill_disk(&mut self) {
        let left = self.chance.below(8 << 10);
        note!(self.trace, "the disk has {left} bytes left");
        self.disk.set_capacity(self.disk.used_bytes() + left);
        self.damage.full_until = Some(self.tick + self.chance.within(50..=1_200));
        self.damage.full_at = Some(self.tick);
    }

    /// The operator makes room on the disk.
    pub(super) fn make_room(&mut self) {
        if self.damage.full_until.take().is_some() {
            note!(self.trace, "the disk has room");
            self.damage.full_at = Some(self.tick);
            self.disk.set_capacity(u64::MAX);
        }
    }

    fn jump(&mut self) {
        const DAY_MS: u64 = 24 * 3_600 * 1_000;
        let most = *self.chance.one_of(&[100, 5_000, DAY_MS]);
        let by = self.chance.within(1..=most);
        let forward = self.chance.happens(500);
        note!(self.trace, "the clock jumps {} by {by} ms", if forward { "forward" } else { "back" });
        self.tally.clock_jumps += 1;
        self.now_ms = if forward { self.now_ms + by } else { self.now_ms.saturating_sub(by) };
    }

    /// Flips a bit that a journal knows to be durable; about younger ones, no journal could tell.
    fn rot_journal(&mut self) {
        let shard = self.chance.below(u64::from(self.plan.shards)) as u16;
        let Some(node) = &mut self.node else { return };
        let proven = node.logs()[shard as usize].1.proven_up_to();
        if proven == Position(0) {
            return;
        }
        let at = Position(self.chance.within(0..=proven.0 - 1));
        let folder = data().join("journal").join(format!("ledger-{shard}"));
        let segments = self.disk.files().into_iter().filter(|(path, _)| path.parent() == Some(folder.as_path()));
        let first = |path: &PathBuf| path.file_name().and_then(|name| parse_segment_name(&name.to_string_lossy()));
        let within =
            segments.filter_map(|(path, _)| first(&path).filter(|first| *first <= at).map(|first| (first, path)));
        let Some((first, path)) = within.max_by_key(|(first, _)| *first) else { return };
        let offset = match self.chance.happens(100) {
            true => self.chance.below(HEADER_BYTES_USED),
            false => at.0 - first.0 + SEGMENT_HEADER_BYTES as u64,
        };
        let bit = self.chance.below(8) as u8;
        let Ok(written) = self.disk.contents(&path).map(|bytes| bytes[offset as usize]) else { return };
        if self.disk.flip_bit(&path, offset, bit) {
            note!(self.trace, "bit {bit} at {offset} of {} rots", path.display());
            self.tally.rot += 1;
            self.damage.rot.push(Rot { shard, path, offset, bit, written });
        }
    }

    fn files_below(&self, folder: &str) -> Vec<(PathBuf, u64)> {
        let folder = data().join(folder);
        self.disk.files().into_iter().filter(|(path, len)| path.starts_with(&folder) && *len > 0).collect()
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
        self.tally.rot += 1;
        self.damage.snapshots.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
    }

    fn rot_ids(&mut self) {
        let files = self.files_below("ids");
        if files.is_empty() {
            return;
        }
        let (path, len) = self.chance.one_of(&files).clone();
        let at = self.chance.below(len);
        note!(self.trace, "{} rots at {at}", path.display());
        self.disk.flip_bit(&path, at, self.chance.below(8) as u8);
        self.tally.rot += 1;
        self.damage.ids = true;
    }

    /// The operator puts back what rotted, from a copy.
    pub(super) fn restore(&mut self) {
        for rot in std::mem::take(&mut self.damage.rot) {
            if rot.is_there(&self.disk) {
                note!(self.trace, "{} is restored", rot.path.display());
                self.disk.flip_bit(&rot.path, rot.offset, rot.bit);
            }
        }
    }

    /// The operator stops the process, audits the data directory, and restores what the audit names.
    fn scrub(&mut self) -> Result<(), Violation> {
        if self.node.is_none() || self.disk.has_stopped() {
            return Ok(());
        }
        note!(self.trace, "the data directory is audited");
        self.end(End::Kill)?;
        self.audit_offline()?;
        self.restore();
        Ok(())
    }

    /// `tidegate audit`: finds damage in every shard where there is some, names it, and finds none elsewhere.
    pub(super) fn audit_offline(&mut self) -> Result<(), Violation> {
        for shard in 0..self.plan.shards {
            let found: Vec<String> = self.offline_findings(shard);
            note!(self.trace, "  shard {shard}: {found:?}");
            if self.damage.rots(&self.disk, shard) {
                let named = found.iter().any(|words| self.damage.explains(&self.disk, shard, words));
                must(named, "an audit names the damage", || format!("shard {shard}: {found:?}"))?;
                self.tally.damage_found += 1;
                continue;
            }
            let harmed = |words: &String| self.damage.snapshots.iter().any(|name| words.contains(name));
            let unfounded: Vec<&String> = found.iter().filter(|words| !harmed(words)).collect();
            must(unfounded.is_empty(), "an audit finds nothing where nothing is wrong", || format!("{unfounded:?}"))?;
        }
        Ok(())
    }

    fn offline_findings(&self, shard: u16) -> Vec<String> {
        match audit_shard(&logs(&self.disk), &snapshots(&self.disk, shard), self.plan.shards, |_, _| {}) {
            Ok(findings) => findings.problems,
            Err(error) => vec![error.to_string()],
        }
    }
}

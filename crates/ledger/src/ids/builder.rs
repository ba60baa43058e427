//! Writes frozen tables as runs and merges runs, one step at a time, on the thread that steps it.
//!
//! ```text
//!   step:  manifest unsaved?  ─▶ save it, publish the new view
//!          table waiting?     ─▶ sort it, write a run (tier 0)              first: the shard waits for this ...
//!          fan-out runs of a tier? ─▶ merge a slice of them into one of the next tier, the lowest tier first
//!                                                        ... unless a tier has twice as many (lookup cost)
//! ```
//!
//! Promise: a view is published only after its manifest is durable, and a file is deleted only when no manifest names
//! it and nobody reads it. A step that fails changes nothing and can be tried again, with a new file, because the
//! content of a file after a failed sync is unknown.
//!
//! Invariant: a table arrives only when all its records are durable in the journal ([`super::IdIndex::maintain`]).

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_disk::Disk;
use tidegate_journal::{Cursor, LogId, Position, Timeline};

use super::condemn::condemn;
use super::entry::Entry;
use super::invariants::assert_in_order;
use super::lookup::Stamp;
use super::manifest::Manifest;
use super::merge::Merge;
use super::run::{Run, RunHeader};
use super::run_filter::FilterRoom;
use super::run_writer::write_run;
use super::scrub::Published;
use super::table::Table;
use super::{IdSeed, IdsError, IdsOptions};

/// The runs of an index at one moment, oldest first.
pub(super) struct View<D: Disk> {
    pub(super) runs: Arc<[Arc<Run<D::File>>]>,
    pub(super) covered: Position,
    /// Held by whoever looks into these runs.
    pub(super) stamp: Stamp,
}

impl<D: Disk> Clone for View<D> {
    fn clone(&self) -> View<D> {
        View { runs: Arc::clone(&self.runs), covered: self.covered, stamp: Arc::clone(&self.stamp) }
    }
}

/// What a step did.
pub(super) enum Step<D: Disk> {
    Idle,
    Worked,
    Published(View<D>),
}

impl<D: Disk> View<D> {
    /// The end of what runs with filters of their own hold; they are the oldest.
    pub(super) fn filtered_up_to(&self) -> Position {
        let filtered = self.runs.iter().take_while(|run| run.header().is_filtered());
        filtered.last().map_or(Position(0), |run| run.last())
    }
}

/// Everything that writes to the index's directory.
pub(super) struct Builder<D: Disk> {
    disk: D,
    dir: PathBuf,
    fan_out: usize,
    seed: IdSeed,
    log: LogId,
    timeline: Timeline,
    /// Of all filters of runs.
    filter_bytes_max: u64,
    next_number: u64,
    runs: Vec<Arc<Run<D::File>>>,
    /// Those that the manifest names, for who verifies them.
    published: Arc<Published<D>>,
    /// Whether `runs` is ahead of the manifest.
    unsaved: bool,
    waiting: VecDeque<Arc<Table>>,
    /// The entries of the last one, whose memory the next one takes: fresh memory costs as much as the sorting.
    sorted: Vec<Entry>,
    /// What [`Builder::cover`] said.
    to_cover: Position,
    /// Up to where the journal was durable when something was handed over last.
    stands_on: Cursor,
    /// Covered when it said that.
    covered_before: Position,
    /// At most one of a tier, lowest tier first.
    merges: Vec<Merge<D>>,
    /// Merged away, named by no manifest once `unsaved` is false; deleted when no lookup holds them.
    retired: Vec<Arc<Run<D::File>>>,
    /// A run that was to be merged is damaged. What it still has is needed, so nothing is merged any more until the
    /// next start builds the index again.
    met_damage: bool,
}

impl<D: Disk> Builder<D> {
    /// A builder that continues with `runs`, as the manifest names them.
    pub(super) fn new(
        disk: D,
        dir: &Path,
        options: &IdsOptions,
        manifest: &Manifest,
        stands_on: Cursor,
        runs: Vec<Arc<Run<D::File>>>,
    ) -> Builder<D> {
        Builder {
            disk,
            dir: dir.to_owned(),
            fan_out: options.fan_out,
            seed: manifest.seed,
            log: options.log,
            timeline: manifest.timeline,
            filter_bytes_max: options.run_filter_bytes_max(),
            next_number: manifest.next_number,
            published: Arc::new(Published::new(runs.iter().cloned().collect())),
            runs,
            unsaved: false,
            waiting: VecDeque::new(),
            sorted: Vec::new(),
            to_cover: manifest.covered,
            stands_on,
            covered_before: manifest.covered,
            merges: Vec::new(),
            retired: Vec::new(),
            met_damage: false,
        }
    }

    /// Whose log's index it is.
    pub(super) fn shard(&self) -> u16 {
        self.log.shard
    }

    /// The runs, for who verifies them.
    pub(super) fn published(&self) -> Arc<Published<D>> {
        Arc::clone(&self.published)
    }

    /// The runs as they are now.
    pub(super) fn view(&self) -> View<D> {
        let covered = self.covered();
        assert_in_order(self.runs.iter().map(|run| run.header()));
        View { runs: self.runs.iter().cloned().collect(), covered, stamp: Arc::new(covered) }
    }

    /// Every record up to here is in a run.
    fn covered(&self) -> Position {
        let last = self.runs.last().map_or(Position(0), |run| run.last());
        let waits =
            self.waiting.front().and_then(|table| table.range()).is_some_and(|(first, _)| first <= self.to_cover);
        last.max(if waits { self.covered_before } else { self.to_cover })
    }

    /// Hears that all records up to `position` are in runs when the tables that it has by now are. The journal is
    /// durable up to `durable`.
    pub(super) fn cover(&mut self, position: Position, durable: Cursor) {
        self.note_durable(durable);
        assert!(position >= self.to_cover, "ids: covered goes back: {position} after {}", self.to_cover);
        // What was covered stays so while the tables up to the new place wait.
        self.covered_before = self.covered();
        self.to_cover = position;
        self.unsaved |= self.waiting.is_empty();
    }

    /// Hears which timeline of the journal all records are of.
    pub(super) fn belong_to(&mut self, timeline: Timeline) {
        self.unsaved |= timeline != self.timeline;
        self.timeline = timeline;
    }

    fn note_durable(&mut self, durable: Cursor) {
        assert!(durable.position >= self.stands_on.position, "ids: what was durable cannot become undone");
        self.stands_on = durable;
    }

    /// Takes a full table; tables come in the order of their positions. The journal is durable up to `durable`.
    pub(super) fn build(&mut self, table: Arc<Table>, durable: Cursor) {
        self.note_durable(durable);
        let before = self.waiting.back().and_then(|table| table.range()).map(|(_, last)| last);
        let before = before.or(self.runs.last().map(|run| run.last()));
        let first = table.range().map(|(first, _)| first);
        assert!(
            first.is_none_or(|first| before.is_none_or(|before| before < first)),
            "ids: {first:?} after {before:?}"
        );
        self.waiting.push_back(table);
    }

    /// Does the most urgent piece of work. Damage condemns the index.
    pub(super) fn step(&mut self) -> Result<Step<D>, IdsError> {
        self.try_step().inspect_err(|error| condemn(&self.disk, &self.dir, error))
    }

    fn try_step(&mut self) -> Result<Step<D>, IdsError> {
        if self.unsaved {
            self.save_manifest()?;
            let view = self.view();
            self.published.put(Arc::clone(&view.runs));
            return Ok(Step::Published(view));
        }
        self.delete_retired();
        if !self.waiting.is_empty() && !self.merging_is_behind() {
            self.write_table()?;
            return Ok(Step::Worked);
        }
        if !self.met_damage {
            self.begin_merge()?;
        }
        if self.merges.is_empty() {
            return Ok(Step::Idle);
        }
        self.step_merge()?;
        Ok(Step::Worked)
    }

    fn save_manifest(&mut self) -> Result<(), IdsError> {
        let runs = self.runs.iter().map(|run| *run.header()).collect();
        let (seed, timeline, next_number) = (self.seed, self.timeline, self.next_number);
        let (covered, stands_on, log) = (self.covered(), Some(self.stands_on), Some(self.log));
        Manifest { seed, timeline, next_number, covered, stands_on, log, runs }.save(&self.disk, &self.dir)?;
        self.unsaved = false;
        Ok(())
    }

    fn write_table(&mut self) -> Result<(), IdsError> {
        let Some((table, range)) = self.waiting.front().and_then(|table| Some((table, table.range()?))) else {
            self.waiting.pop_front();
            return Ok(());
        };
        table.sort_into(&mut self.sorted);
        let number = self.take_number();
        let run = match write_run(&self.disk, &self.dir, number, &self.sorted, range) {
            Ok(run) => run,
            Err(error) => {
                self.delete(number);
                return Err(error);
            }
        };
        self.waiting.pop_front();
        self.runs.push(Arc::new(run));
        self.unsaved = true;
        Ok(())
    }

    /// Starts the merge of the lowest tier that has enough runs and no merge in progress.
    fn begin_merge(&mut self) -> Result<(), IdsError> {
        let Some(tier) = (0..=self.highest_tier()).find(|tier| self.is_due(*tier)) else { return Ok(()) };
        let inputs: Vec<_> =
            self.runs.iter().filter(|run| run.header().tier == tier).take(self.fan_out).cloned().collect();
        let number = self.take_number();
        // Those that it replaces leave memory when it is there.
        let stays = |run: &&Arc<Run<D::File>>| !inputs.iter().any(|input| Arc::ptr_eq(input, run));
        let in_use: u64 = self.runs.iter().filter(stays).map(|run| run.memory_bytes().1 as u64).sum();
        let room = FilterRoom::beside(in_use, self.filter_bytes_max);
        match Merge::begin(&self.disk, &self.dir, number, tier + 1, &inputs, room) {
            Ok(merge) => {
                let at = self.merges.partition_point(|other| other.tier() < merge.tier());
                self.merges.insert(at, merge);
                Ok(())
            }
            Err(error) => {
                self.delete(number);
                self.note_damage(&error);
                Err(error)
            }
        }
    }

    fn note_damage(&mut self, error: &IdsError) {
        if let IdsError::Damaged { .. } = error {
            self.met_damage = true;
            let numbers: Vec<u64> = self.merges.drain(..).map(|merge| merge.number()).collect();
            numbers.into_iter().for_each(|number| self.delete(number));
        }
    }

    fn highest_tier(&self) -> u32 {
        self.runs.iter().map(|run| run.header().tier).max().unwrap_or(0)
    }

    fn is_due(&self, tier: u32) -> bool {
        let is_under_way = self.merges.iter().any(|merge| merge.tier() == tier + 1);
        !is_under_way && self.runs_of(tier) >= self.fan_out
    }

    /// Then tables wait, the shard is informed, and the number of runs stays bounded at any rate of ids.
    fn merging_is_behind(&self) -> bool {
        !self.met_damage && (0..=self.highest_tier()).any(|tier| self.runs_of(tier) >= self.fan_out * 2)
    }

    fn runs_of(&self, tier: u32) -> usize {
        self.runs.iter().filter(|run| run.header().tier == tier).count()
    }

    fn step_merge(&mut self) -> Result<(), IdsError> {
        match self.merges[0].step() {
            Ok(false) => Ok(()),
            Ok(true) => self.finish_merge(),
            Err(error) => {
                let merge = self.merges.remove(0);
                self.delete(merge.number());
                self.note_damage(&error);
                Err(error)
            }
        }
    }

    fn finish_merge(&mut self) -> Result<(), IdsError> {
        let merge = self.merges.remove(0);
        let number = merge.number();
        let replaced = merge.replaced();
        let merged = match merge.finish(&self.dir) {
            Ok(merged) => merged,
            Err(error) => {
                self.delete(number);
                return Err(error);
            }
        };
        let is_replaced = |run: &Arc<Run<D::File>>| replaced.contains(&run.header().number);
        let at = self.runs.iter().position(is_replaced).expect("what is being merged stays until then");
        let retired = self.runs.splice(at..at + replaced.len(), [Arc::new(merged)]);
        self.retired.extend(retired.inspect(|run| assert!(is_replaced(run), "merged runs are neighbours")));
        self.unsaved = true;
        Ok(())
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Deletes files that are no longer needed. A failure leaves a file that the next open deletes.
    fn delete_retired(&mut self) {
        let (disk, held) = (&self.disk, std::mem::take(&mut self.retired));
        let still_read = |run: &Arc<Run<D::File>>| Arc::strong_count(run) > 1;
        self.retired = held
            .into_iter()
            .filter(|run| {
                if !still_read(run) {
                    let _ = disk.remove(run.path());
                }
                still_read(run)
            })
            .collect();
    }

    /// Deletes what a failed step left behind, as far as the disk lets us.
    fn delete(&self, number: u64) {
        let _ = self.disk.remove(&self.dir.join(RunHeader::file_name_of(number)));
    }
}

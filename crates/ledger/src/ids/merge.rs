//! Merges several neighbouring runs into one, a slice at a time.
//!
//! Why slices: a merge of 500 MB takes seconds, and a table that waits to become a run must not wait for it.

use std::path::Path;
use std::sync::Arc;

use tidegate_disk::Disk;
use tidegate_journal::Position;

use super::IdsError;
use super::entry::Entry;
use super::invariants::assert_in_order;
use super::run::{Run, RunHeader};
use super::run_filter::{FILTERED_TIER, FilterRoom, FilterShape};
use super::run_reader::RunReader;
use super::run_writer::RunWriter;

/// Entries that one step merges.
const SLICE_ENTRIES: usize = 1 << 16;

/// A merge in progress.
pub(super) struct Merge<D: Disk> {
    /// The next entry of each input, as a number.
    heads: Vec<u128>,
    /// In the same order. An input that has no more entries is in neither.
    inputs: Vec<Input<D>>,
    /// Numbers of the runs that the result replaces.
    replaced: Vec<u64>,
    writer: RunWriter<D>,
    tier: u32,
}

/// The header of the run that these inputs, oldest first, become.
pub(super) fn header_of<'a>(
    number: u64,
    tier: u32,
    (first, last): (Position, Position),
    inputs: impl Iterator<Item = &'a RunHeader> + Clone,
    room: FilterRoom,
) -> RunHeader {
    let entries = inputs.clone().map(|input| input.entries).sum();
    let ordered = inputs.clone().map(|input| input.ordered).sum();
    let timed = inputs.filter(|input| input.ordered > 0);
    let earliest = timed.clone().map(|input| input.times.0).min().unwrap_or(0);
    let latest = timed.map(|input| input.times.1).max().unwrap_or(0);
    let (random_filter, ordered_filter) = match tier >= FILTERED_TIER {
        true => {
            // Each gets its part of what is left.
            let best = |ids: u64| FilterShape::best(ids, room.part(ids, entries));
            (best(entries - ordered), best(ordered))
        }
        false => (FilterShape::default(), FilterShape::default()),
    };
    let times = (earliest, latest);
    RunHeader { number, tier, entries, first, last, ordered, times, random_filter, ordered_filter }
}

struct Input<D: Disk> {
    run: Arc<Run<D::File>>,
    reader: RunReader,
}

impl<D: Disk> Input<D> {
    #[inline]
    fn next(&mut self) -> Result<Option<u128>, IdsError> {
        let next = self.reader.next(self.run.file(), self.run.path())?;
        Ok(next.map(Entry::number))
    }
}

/// Where the least of these stands. A handful are compared without a branch: their order cannot be predicted.
#[inline]
fn place_of_least(numbers: &[u128]) -> Option<usize> {
    let (mut least, mut place) = (*numbers.first()?, 0);
    for (at, number) in numbers.iter().enumerate() {
        let is_less = *number < least;
        place = if is_less { at } else { place };
        least = if is_less { *number } else { least };
    }
    Some(place)
}

impl<D: Disk> Merge<D> {
    /// Begins to merge `runs`, which are neighbours, oldest first, all of tier `tier - 1`. `room` is for the filters of
    /// the result, if it gets any.
    pub(super) fn begin(
        disk: &D,
        dir: &Path,
        number: u64,
        tier: u32,
        runs: &[Arc<Run<D::File>>],
        room: FilterRoom,
    ) -> Result<Merge<D>, IdsError> {
        let (Some(oldest), Some(newest)) = (runs.first(), runs.last()) else { panic!("a merge has runs") };
        assert_in_order(runs.iter().map(|run| run.header()));
        assert!(
            runs.iter().all(|run| run.header().tier + 1 == tier),
            "ids: a merge into tier {tier} takes runs of one below"
        );
        let (first, last) = (oldest.first(), newest.last());
        let header = header_of(number, tier, (first, last), runs.iter().map(|run| run.header()), room);
        let (mut heads, mut inputs) = (Vec::with_capacity(runs.len()), Vec::with_capacity(runs.len()));
        for run in runs {
            let mut input = Input { run: Arc::clone(run), reader: RunReader::new(*run.header()) };
            if let Some(head) = input.next()? {
                heads.push(head);
                inputs.push(input);
            }
        }
        let replaced = runs.iter().map(|run| run.header().number).collect();
        Ok(Merge { heads, inputs, replaced, writer: RunWriter::create(disk, dir, header)?, tier })
    }

    /// Tier of the result.
    pub(super) fn tier(&self) -> u32 {
        self.tier
    }

    /// Number of the result.
    pub(super) fn number(&self) -> u64 {
        self.writer.number()
    }

    /// Numbers of the runs that the result replaces.
    pub(super) fn replaced(&self) -> Vec<u64> {
        self.replaced.clone()
    }

    /// Merges one slice. Whether that was the last.
    pub(super) fn step(&mut self) -> Result<bool, IdsError> {
        for _ in 0..SLICE_ENTRIES {
            let Some(least) = place_of_least(&self.heads) else { return Ok(true) };
            self.writer.push(Entry::of_number(self.heads[least]))?;
            match self.inputs[least].next()? {
                Some(head) => self.heads[least] = head,
                None => {
                    self.heads.swap_remove(least);
                    self.inputs.swap_remove(least);
                }
            }
        }
        Ok(false)
    }

    /// The result, durable.
    pub(super) fn finish(self, dir: &Path) -> Result<Run<D::File>, IdsError> {
        self.writer.finish(dir)
    }
}

//! Makes the index of a history without the requests that would have made it: for measurements with a billion ids.
//!
//! ```text
//!   history ─▶ Plan: which stretches of it are a run each in the end
//!      │ a stretch
//!      ▼
//!   Gathering (one for each thread) ─▶ buckets of entries, by key ─▶ sorted, on any thread ─▶ RunWriter, in order
//! ```
//!
//! Promise: its files are those that a shard makes which is asked for the same ids and whose builder keeps up. Headers
//! come from the builder's own code, numbers are counted as the builder counts them, and pages are written by the same
//! writer.
//!
//! Why not the builder itself: it writes each entry once as a table and once for each merge, with one thread. Of a
//! billion ids that is 64 GB and ten minutes. What is merged in the end is known before, so each entry is written once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_disk::Disk;
use tidegate_journal::{Cursor, LogId, Position, Timeline};

use super::entry::Entry;
use super::hash::RunKey;
use super::manifest::Manifest;
use super::merge::header_of;
use super::run::{Run, RunHeader};
use super::run_filter::{FilterRoom, FilterShape};
use super::run_writer::RunWriter;
use super::{IdSeed, IdsError, IdsFacts, IdsOptions};

/// Buckets of random entries. Ordered ones have a bucket for each second.
const BUCKETS: usize = 512;
/// Bits of a random key above those that choose its bucket: one, which is zero.
const BUCKET_SHIFT: u32 = 63 - BUCKETS.ilog2();
/// A sync for each megabyte, as the builder asks for, would take longer than all else.
const SYNC_BYTES: u64 = 64 << 20;

/// A record of the history.
#[derive(Clone, Copy, Debug)]
pub struct MadeId<'a> {
    /// What it is about.
    pub id: &'a [u8],
    /// Where it stands in the journal.
    pub position: Position,
    /// When it was decided, in seconds since 1970.
    pub now: u32,
}

/// An index in the making.
pub struct Maker<D: Disk> {
    disk: D,
    dir: PathBuf,
    seed: IdSeed,
    log: LogId,
    freeze_at: u64,
    records: u64,
    end: Cursor,
    plan: Plan,
    runs: Vec<Arc<Run<D::File>>>,
    /// What is written now.
    writer: Option<RunWriter<D>>,
}

/// Some records of a stretch, in buckets by their keys. One thread adds them, in the order of the history.
pub struct Gathering {
    seed: IdSeed,
    freeze_at: u64,
    stretch: Range<u64>,
    random: Vec<Vec<Entry>>,
    /// By the second by which they are kept.
    ordered: BTreeMap<u32, Vec<Entry>>,
    tables: BTreeMap<u64, TableFacts>,
}

/// Entries whose keys are above those of all buckets before.
#[derive(Default)]
pub struct Bucket {
    /// As they were gathered; one part once it is sorted.
    parts: Vec<Vec<Entry>>,
}

/// What the header of a table's run would say.
#[derive(Clone, Copy, Debug)]
struct TableFacts {
    first: Position,
    last: Position,
    entries: u64,
    ordered: u64,
    times: (u32, u32),
}

impl<D: Disk> Maker<D> {
    /// Begins an index in `dir`, which must have none, of `records` records in a journal that ends at `end`.
    pub fn begin(disk: D, dir: &Path, options: IdsOptions, records: u64, end: Cursor) -> Result<Maker<D>, IdsError> {
        options.check();
        disk.create_dir_all(dir).map_err(IdsError::io("create", dir))?;
        assert!(Manifest::load(&disk, dir)?.is_none(), "ids: there is an index in {} already", dir.display());
        let (freeze_at, plan) = (options.freeze_at as u64, Plan::new(&options));
        let (dir, seed, log) = (dir.to_owned(), options.seed, options.log);
        Ok(Maker { disk, dir, seed, log, freeze_at, records, end, plan, runs: Vec::new(), writer: None })
    }

    /// The stretches of the history that are a run each in the end, oldest first: numbers of records, from 0. Each is
    /// to be gathered and written, one after the other.
    pub fn stretches(&self) -> Vec<Range<u64>> {
        let mut tiers: Vec<(u32, Range<u64>)> = Vec::new();
        for begin in (0..self.records).step_by(self.freeze_at as usize) {
            tiers.push((0, begin..(begin + self.freeze_at).min(self.records)));
            while let Some((tier, at)) = due(tiers.iter().map(|(tier, _)| *tier), self.plan.fan_out) {
                let merged = tiers[at].1.start..tiers[at + self.plan.fan_out - 1].1.end;
                tiers.splice(at..at + self.plan.fan_out, [(tier + 1, merged)]);
            }
        }
        tiers.into_iter().map(|(_, stretch)| stretch).collect()
    }

    /// An empty gathering for records of a stretch. Several may share a stretch, in parts that follow each other.
    pub fn gather(&self, stretch: Range<u64>) -> Gathering {
        let (seed, freeze_at) = (self.seed, self.freeze_at);
        let random = (0..BUCKETS).map(|_| Vec::new()).collect();
        Gathering { seed, freeze_at, stretch, random, ordered: BTreeMap::new(), tables: BTreeMap::new() }
    }

    /// Begins the run of the next stretch, of which these are all records. Returns its buckets, to be sorted in any
    /// order and on any thread, and to be [written](Maker::write) in this one.
    pub fn begin_run(&mut self, gathered: Vec<Gathering>) -> Result<Vec<Bucket>, IdsError> {
        assert!(self.writer.is_none(), "ids: a run is ended before the next one begins");
        let mut tables: BTreeMap<u64, TableFacts> = BTreeMap::new();
        let mut buckets: Vec<Bucket> = (0..BUCKETS).map(|_| Bucket::default()).collect();
        let mut ordered: BTreeMap<u32, Bucket> = BTreeMap::new();
        for part in gathered {
            for (table, facts) in part.tables {
                tables.entry(table).and_modify(|before| before.extend(&facts)).or_insert(facts);
            }
            buckets.iter_mut().zip(part.random).for_each(|(bucket, more)| bucket.parts.push(more));
            part.ordered.into_iter().for_each(|(second, more)| ordered.entry(second).or_default().parts.push(more));
        }
        buckets.extend(ordered.into_values());
        let header = self.plan.add_tables(tables.into_values());
        let end = self.end.position;
        assert!(header.last < end, "ids: {header:?} is not in a journal that ends at {end}");
        self.writer = Some(RunWriter::create(&self.disk, &self.dir, header)?.syncing_each(SYNC_BYTES));
        Ok(buckets)
    }

    /// Writes the next bucket, which is sorted.
    pub fn write(&mut self, bucket: Bucket) -> Result<(), IdsError> {
        let writer = self.writer.as_mut().expect("a run was begun");
        assert!(bucket.parts.len() <= 1, "ids: a bucket is sorted before it is written");
        bucket.parts.into_iter().flatten().try_for_each(|entry| writer.push(entry))
    }

    /// All buckets are written.
    pub fn end_run(&mut self) -> Result<(), IdsError> {
        let run = self.writer.take().expect("a run was begun").finish(&self.dir)?;
        self.runs.push(Arc::new(run));
        Ok(())
    }

    /// All of it on this thread: `add` adds the record with a number.
    pub fn make(mut self, mut add: impl FnMut(u64, &mut Gathering)) -> Result<IdsFacts, IdsError> {
        for stretch in self.stretches() {
            let mut gathering = self.gather(stretch.clone());
            stretch.for_each(|number| add(number, &mut gathering));
            for mut bucket in self.begin_run(vec![gathering])? {
                bucket.sort();
                self.write(bucket)?;
            }
            self.end_run()?;
        }
        self.finish()
    }

    /// Has the index consist of these runs, covering all of the journal, as it does after a snapshot.
    pub fn finish(self) -> Result<IdsFacts, IdsError> {
        let headers: Vec<RunHeader> = self.runs.iter().map(|run| *run.header()).collect();
        assert_eq!(headers, self.plan.runs, "ids: all stretches were written");
        let (covered, stands_on) = (Position(self.end.position.0.saturating_sub(1)), Some(self.end));
        let (seed, timeline, next_number) = (self.seed, Timeline::FIRST, self.plan.next_number);
        let log = Some(self.log);
        Manifest { seed, timeline, next_number, covered, stands_on, log, runs: headers }.save(&self.disk, &self.dir)?;
        Ok(IdsFacts {
            entries: self.runs.iter().map(|run| run.entries()).sum(),
            runs: self.runs.len() as u64,
            run_bytes: self.runs.iter().map(|run| run.bytes()).sum(),
            filter_bytes: self.runs.iter().map(|run| run.memory_bytes().1 as u64).sum(),
            ..IdsFacts::default()
        })
    }
}

impl Gathering {
    /// Adds the record with this number.
    pub fn add(&mut self, number: u64, made: MadeId<'_>) {
        assert!(self.stretch.contains(&number), "ids: record {number} is not of {:?}", self.stretch);
        let hash = self.seed.hash(made.id);
        let seconds = hash.kept_by(made.now);
        let key = RunKey::new(hash.hash, seconds);
        let (entry, table) = (Entry::new(key, made.position), number / self.freeze_at);
        let (ordered, times) = if key.is_ordered() { (1, (seconds, seconds)) } else { (0, (0, 0)) };
        let facts = TableFacts { first: made.position, last: made.position, entries: 1, ordered, times };
        match self.tables.last_entry().filter(|last| *last.key() == table) {
            Some(mut last) => last.get_mut().extend(&facts),
            None => _ = self.tables.insert(table, facts),
        }
        match key.is_ordered() {
            true => self.ordered.entry(seconds).or_default().push(entry),
            false => self.random[(key.key >> BUCKET_SHIFT) as usize].push(entry),
        }
    }
}

impl Bucket {
    /// Sorts it.
    pub fn sort(&mut self) {
        let mut parts = std::mem::take(&mut self.parts).into_iter().filter(|part| !part.is_empty());
        let mut all = parts.next().unwrap_or_default();
        parts.for_each(|part| all.extend(part));
        all.sort_unstable();
        self.parts.push(all);
    }
}

impl TableFacts {
    /// With records that follow.
    fn extend(&mut self, further: &TableFacts) {
        assert!(self.last < further.first, "ids: records are added in the order of the journal");
        self.last = further.last;
        self.entries += further.entries;
        self.times = match (self.ordered, further.ordered) {
            (_, 0) => self.times,
            (0, _) => further.times,
            _ => (self.times.0.min(further.times.0), self.times.1.max(further.times.1)),
        };
        self.ordered += further.ordered;
    }
}

/// The lowest tier of which enough runs stand side by side to be merged, and where the first of them stands.
fn due(tiers: impl Iterator<Item = u32> + Clone, fan_out: usize) -> Option<(u32, usize)> {
    let lowest_first = 0..=tiers.clone().max()?;
    let count = |tier: u32| tiers.clone().filter(|of| *of == tier).count();
    let tier = lowest_first.into_iter().find(|tier| count(*tier) >= fan_out)?;
    Some((tier, tiers.clone().position(|of| of == tier).expect("there are some")))
}

/// What the builder would have done by now.
struct Plan {
    fan_out: usize,
    filter_bytes_max: u64,
    next_number: u64,
    runs: Vec<RunHeader>,
}

impl Plan {
    fn new(options: &IdsOptions) -> Plan {
        let filter_bytes_max = options.run_filter_bytes_max();
        Plan { fan_out: options.fan_out, filter_bytes_max, next_number: 1, runs: Vec::new() }
    }

    /// The tables of a stretch are full, one after the other. Returns the one run that they have become.
    fn add_tables(&mut self, tables: impl Iterator<Item = TableFacts>) -> RunHeader {
        let before = self.runs.len();
        for table in tables {
            self.add_table(&table);
        }
        assert_eq!(self.runs.len(), before + 1, "ids: a stretch is a run");
        self.runs[before]
    }

    fn add_table(&mut self, table: &TableFacts) {
        let TableFacts { first, last, entries, ordered, times } = *table;
        let (random_filter, ordered_filter) = (FilterShape::default(), FilterShape::default());
        let number = self.take_number();
        self.runs.push(RunHeader {
            number,
            tier: 0,
            entries,
            first,
            last,
            ordered,
            times,
            random_filter,
            ordered_filter,
        });
        while let Some((tier, at)) = due(self.runs.iter().map(|run| run.tier), self.fan_out) {
            let merged = at..at + self.fan_out;
            let number = self.take_number();
            let stays = |at: &usize| !merged.contains(at);
            let filters = |run: &RunHeader| run.random_filter.bytes() + run.ordered_filter.bytes();
            let in_use: u64 = (0..self.runs.len()).filter(stays).map(|at| filters(&self.runs[at])).sum();
            let room = FilterRoom::beside(in_use, self.filter_bytes_max);
            let inputs = &self.runs[merged.clone()];
            let stretch = (inputs[0].first, inputs[self.fan_out - 1].last);
            let header = header_of(number, tier + 1, stretch, inputs.iter(), room);
            self.runs.splice(merged, [header]);
        }
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }
}

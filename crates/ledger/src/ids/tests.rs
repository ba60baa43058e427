//! The whole index compared with a plain list: everything inserted is found again after freezing, merging, damage,
//! crashes and reopening.

mod cover;
mod crash;
mod damage;
mod made;
mod merges;
mod model;
mod scrubbed;
mod threads;
mod timed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tidegate_disk::FakeDisk;
use tidegate_journal::{Cursor, LogId, Position};

use super::*;

/// An id that no record is about.
const UNKNOWN: u64 = u64::MAX;

/// The hash of an id without a time, of so few that several ids share it.
fn hash(n: u64) -> IdHash {
    IdHash::of(n << 17)
}

/// A record of the journal: which id it is about, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    hash: IdHash,
    /// Several ids may share a hash, and several records an id.
    id: u64,
    position: Position,
    /// When it was decided, in seconds.
    now: u32,
}

/// A journal, the index over it, and what of it is durable.
struct World {
    disk: FakeDisk,
    options: IdsOptions,
    index: IdIndex<FakeDisk>,
    journal: Vec<Record>,
    durable: Position,
    /// The ledger's clock, in seconds.
    now: u32,
    /// Why the index was thrown away at the last open.
    discarded: Option<String>,
}

/// What one question of the ledger's came to.
#[derive(Debug)]
struct Answer {
    /// Candidates that the ledger was asked about, in that order.
    offered: Vec<Position>,
    found: Result<Option<Position>, Arc<IdsError>>,
    /// Lookups by which the count of false positives grew, and pages read.
    false_positives: u64,
    pages_read: u64,
}

fn dir() -> PathBuf {
    PathBuf::from("/data/ids")
}

fn small() -> IdsOptions {
    IdsOptions {
        freeze_at: 4,
        frozen_max: 2,
        fan_out: 3,
        filter_ids_first: 64,
        filter_bytes_max: 4096,
        builder: BuilderKind::Stepped,
        seed: IdSeed([1, 2]),
        log: LogId { directory: 7, family: 1, shard: 0 },
    }
}

/// A place of the journal that these tests make up.
fn place(position: Position) -> Cursor {
    Cursor { position, ..Cursor::START }
}

fn open(disk: &FakeDisk, options: IdsOptions, journal_end: Position) -> Opened<FakeDisk> {
    IdIndex::open(disk.clone(), &dir(), options, journal_end, &mut |_, _| {}).expect("the disk works")
}

impl World {
    fn new(seed: u64, options: IdsOptions) -> World {
        let disk = FakeDisk::new(seed);
        let Opened { index, covered, discarded } = open(&disk, options, Position(0));
        assert_eq!((covered, discarded), (Position(0), None));
        World { disk, options, index, journal: Vec::new(), durable: Position(0), now: 1_000, discarded: None }
    }

    /// Inserts `count` new ids.
    fn insert_new(&mut self, count: u64) {
        for _ in 0..count {
            let n = self.journal.len() as u64 + self.end().0 * 1000;
            self.insert(self.index.hash(&n.to_le_bytes()), n, 1);
        }
    }

    fn insert(&mut self, hash: IdHash, id: u64, gap: u64) {
        let position = Position(self.end().0 + gap);
        self.index.insert(hash, position, self.now);
        self.journal.push(Record { hash, id, position, now: self.now });
    }

    fn end(&self) -> Position {
        self.journal.last().map_or(Position(0), |record| record.position)
    }

    fn maintain(&mut self, times: usize) -> Result<(), IdsError> {
        (0..times).try_for_each(|_| self.index.maintain(place(self.durable)))
    }

    /// Everything inserted is durable from now on.
    fn sync_journal(&mut self) {
        self.durable = self.end();
    }

    /// The journal loses what was not durable, and the index is opened again and fed the rest.
    fn recover(&mut self) {
        self.journal.retain(|record| record.position <= self.durable);
        let Opened { index, covered, discarded } = open(&self.disk, self.options, self.end());
        assert!(covered <= self.durable, "covered {covered} beyond durable {}", self.durable);
        self.index = index;
        self.discarded = discarded;
        for record in self.journal.iter().filter(|record| record.position > covered) {
            self.index.insert(record.hash, record.position, record.now);
        }
    }

    /// Asks for the newest record of `id`, as the ledger does: it reads each candidate and compares the id in it.
    fn find_newest(&self, hash: IdHash, id: u64) -> Answer {
        let before = self.index.facts();
        let mut offered = Vec::new();
        let mut is_it = |at| -> Result<bool, Unsettled> {
            offered.push(at);
            let record = self.journal.binary_search_by_key(&at, |record| record.position);
            Ok(self.journal[record.expect("only positions of records are offered")].id == id)
        };
        let mut found = self.index.find_newest(hash, &Looked::default(), &mut is_it);
        if let Err(Unsettled::PagesUnread) = found {
            let looked = self.look(hash);
            offered.clear();
            let mut is_it = |at| -> Result<bool, Unsettled> {
                offered.push(at);
                let record = self.journal.binary_search_by_key(&at, |record| record.position);
                Ok(self.journal[record.expect("only positions of records are offered")].id == id)
            };
            found = self.index.find_newest(hash, &looked, &mut is_it);
        }
        let found = found.map_err(|unsettled| match unsettled {
            Unsettled::PagesDamaged(error) => error,
            Unsettled::PagesUnread => panic!("all pages were read"),
        });
        let after = self.index.facts();
        let false_positives = after.false_positives - before.false_positives;
        Answer { offered, found, false_positives, pages_read: after.pages_read - before.pages_read }
    }

    /// Reads what pages have under a hash, as another thread does for the ledger.
    fn look(&self, hash: IdHash) -> Looked {
        let mut lookup = self.index.lookup();
        self.index.look_for(hash, &mut lookup);
        let (looked, pages) = lookup.run();
        self.index.note_pages_read(pages);
        looked
    }

    /// For each record, the newest one of its id is found, and the candidates before it are all others of its hash that
    /// are newer. What was never inserted is not found, at the cost that is counted.
    fn check(&self) {
        assert_eq!(self.index.facts().entries, self.journal.len() as u64);
        let mut by_hash: BTreeMap<IdHash, Vec<Record>> = BTreeMap::new();
        for record in self.journal.iter().rev() {
            by_hash.entry(record.hash).or_default().push(*record);
        }
        for (hash, newest_first) in &by_hash {
            let ids: BTreeSet<u64> = newest_first.iter().map(|record| record.id).collect();
            for id in ids {
                let newest = newest_first.iter().position(|record| record.id == id).expect("it is one of them");
                self.check_answer(*hash, id, &newest_first[..=newest], Some(newest_first[newest].position));
            }
            self.check_answer(*hash, UNKNOWN, newest_first, None);
        }
        for n in 0..50u64 {
            let unknown = self.index.hash(format!("unknown {n}").as_bytes());
            self.check_answer(unknown, UNKNOWN, &[], None);
        }
    }

    fn check_answer(&self, hash: IdHash, id: u64, offered: &[Record], found: Option<Position>) {
        let answer = self.find_newest(hash, id);
        assert_eq!(answer.found.expect("the disk works"), found, "{hash:?}, id {id}");
        let offered: Vec<_> = offered.iter().map(|record| record.position).collect();
        assert_eq!(answer.offered, offered, "{hash:?}, id {id}");
        let hits = self.index.filter.hits(hash);
        let perhaps = !hits.is_none() || self.index.filtered().any(|run| run.may_hold(hash));
        assert!(offered.is_empty() || perhaps, "the filters never miss: {hash:?}");
        assert_eq!(answer.false_positives, u64::from(offered.is_empty() && perhaps), "{hash:?}, id {id}");
        assert!(perhaps || answer.pages_read == 0, "what the filters settle reads nothing: {hash:?}");
    }

    fn run_files(&self) -> Vec<PathBuf> {
        let files = self.disk.files().into_iter().map(|(path, _)| path);
        files.filter(|path| path.extension().is_some_and(|end| end == "run")).collect()
    }
}

fn manifest_path() -> PathBuf {
    Path::new(&dir()).join(manifest::MANIFEST)
}

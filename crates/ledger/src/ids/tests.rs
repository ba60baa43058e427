//! The whole index against a plain list: whatever is frozen, merged, damaged, crashed and opened again, what was inserted is
//! found.

mod crash;
mod damage;
mod model;
mod threads;

use std::path::{Path, PathBuf};

use tidegate_disk::FakeDisk;
use tidegate_journal::Position;

use super::*;

/// A journal of (hash, position), the index over it, and what of it is durable.
struct World {
    disk: FakeDisk,
    options: IdsOptions,
    index: IdIndex<FakeDisk>,
    journal: Vec<(IdHash, Position)>,
    durable: Position,
    /// Why the index was thrown away at the last open.
    discarded: Option<String>,
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
    }
}

fn open(disk: &FakeDisk, options: IdsOptions, journal_end: Position) -> Opened<FakeDisk> {
    IdIndex::open(disk.clone(), &dir(), options, journal_end, &mut |_, _| {}).expect("the disk works")
}

impl World {
    fn new(seed: u64, options: IdsOptions) -> World {
        let disk = FakeDisk::new(seed);
        let Opened { index, covered, discarded } = open(&disk, options, Position(0));
        assert_eq!((covered, discarded), (Position(0), None));
        World { disk, options, index, journal: Vec::new(), durable: Position(0), discarded: None }
    }

    /// Inserts `count` ids that nobody had.
    fn insert_new(&mut self, count: u64) {
        for _ in 0..count {
            let n = self.journal.len() as u64 + self.end().0 * 1000;
            self.insert(self.index.hash(&n.to_le_bytes()), 1);
        }
    }

    fn insert(&mut self, hash: IdHash, gap: u64) {
        let position = Position(self.end().0 + gap);
        self.index.insert(hash, position);
        self.journal.push((hash, position));
    }

    fn end(&self) -> Position {
        self.journal.last().map_or(Position(0), |(_, position)| *position)
    }

    fn maintain(&mut self, times: usize) -> Result<(), IdsError> {
        (0..times).try_for_each(|_| self.index.maintain(self.durable))
    }

    /// Everything inserted is durable from now on.
    fn sync_journal(&mut self) {
        self.durable = self.end();
    }

    /// The journal loses what was not durable, and the index is opened again and fed the rest.
    fn recover(&mut self) {
        self.journal.retain(|(_, position)| *position <= self.durable);
        let Opened { index, covered, discarded } = open(&self.disk, self.options, self.end());
        assert!(covered <= self.durable, "covered {covered} beyond durable {}", self.durable);
        self.index = index;
        self.discarded = discarded;
        for (hash, position) in self.journal.iter().filter(|(_, position)| *position > covered) {
            self.index.insert(*hash, *position);
        }
    }

    fn find(&self, hash: IdHash) -> Result<Vec<Position>, IdsError> {
        let mut found = vec![Position(77)];
        self.index.find(hash, &mut found).map(|()| found)
    }

    /// Every hash ever inserted is found at all its positions, newest first, and nowhere else.
    fn check(&self) {
        for (hash, _) in &self.journal {
            let mut expected: Vec<_> =
                self.journal.iter().filter(|(other, _)| other == hash).map(|(_, position)| *position).collect();
            expected.reverse();
            assert_eq!(self.find(*hash).expect("the disk works"), expected, "{hash:?}");
        }
        for n in 0..50u64 {
            let unknown = self.index.hash(format!("unknown {n}").as_bytes());
            assert_eq!(self.find(unknown).expect("the disk works"), []);
        }
    }

    fn run_files(&self) -> Vec<PathBuf> {
        let files = self.disk.files().into_iter().map(|(path, _)| path);
        files.filter(|path| path.extension().is_some_and(|end| end == "run")).collect()
    }
}

fn manifest_path() -> PathBuf {
    Path::new(&dir()).join(manifest::MANIFEST)
}

//! The manifest: which runs make up the index and how far into the journal they reach. Format: `docs/formats/ids.md`.
//!
//! Promise: it is replaced as a whole or not at all, and names only files that are durable.

use std::path::Path;

use tidegate_disk::{Disk, DiskFile, replace_file};
use tidegate_journal::{ChainHash, Cursor, LogId, Position, Sequence, Timeline};

use super::invariants::{are_in_order, assert_in_order};
use super::run::RunHeader;
use super::{IdSeed, IdsError};

/// Name of the manifest.
pub(super) const MANIFEST: &str = "manifest";
/// Where the next one is written before it takes the name.
pub(super) const MANIFEST_NEXT: &str = "manifest.next";

const MAGIC: [u8; 8] = *b"TGIDMAN\0";
const VERSION: u32 = 4;
const FIXED_BYTES: usize = 144;
/// Before the manifest named its log.
const VERSION_WITHOUT_LOG: u32 = 3;
/// Where its runs begin, and where the log stands in later ones.
const LOG_OFFSET: usize = 128;
/// Before the manifest named a place of the journal.
const VERSION_WITHOUT_PLACE: u32 = 2;
/// Where its runs begin, and where the place stands in later ones.
const PLACE_OFFSET: usize = 80;
const CHECKSUM_BYTES: usize = 4;
/// Runs of one index at most; at a fan-out of 64 that is still more ids than positions.
const RUNS_MAX: usize = 4096;
const BYTES_MAX: usize = FIXED_BYTES + RUNS_MAX * RunHeader::BYTES + CHECKSUM_BYTES;

/// What an index consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) seed: IdSeed,
    /// Of which timeline of the journal.
    pub(super) timeline: Timeline,
    /// Number of the next run.
    pub(super) next_number: u64,
    /// Every record up to here is in a run: not below the last run's last position.
    pub(super) covered: Position,
    /// Where the journal was durable up to when this was written: behind all that is covered. Its chain hash tells this
    /// journal from another one of the same length. `None`: an earlier version wrote the manifest and did not say.
    pub(super) stands_on: Option<Cursor>,
    /// The log whose records the index has, of which data directory: one that was copied from elsewhere is told by it.
    /// `None`: an earlier version wrote the manifest and did not say.
    pub(super) log: Option<LogId>,
    /// Oldest first; their stretches of the journal neither overlap nor leave out an id.
    pub(super) runs: Vec<RunHeader>,
}

impl Manifest {
    /// The last position in a run.
    fn last(&self) -> Position {
        self.runs.last().map_or(Position(0), |run| run.last)
    }

    /// Nothing is covered, or all of it stands before `place`.
    fn is_covered_before(&self, place: &Cursor) -> bool {
        self.covered < place.position || self.covered == Position(0)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        assert!(self.runs.len() <= RUNS_MAX, "merging keeps runs few");
        assert_in_order(&self.runs);
        assert!(self.last() <= self.covered, "ids: runs reach beyond {}", self.covered);
        assert!(self.runs.iter().all(|run| run.number < self.next_number), "ids: a run has a number not given yet");
        let place = self.stands_on.expect("ids: who writes a manifest knows its place in the journal");
        assert!(self.is_covered_before(&place), "ids: {place:?} is not behind {}", self.covered);
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.runs.len() * RunHeader::BYTES + CHECKSUM_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.runs.len() as u32).to_le_bytes());
        for field in [self.seed.0[0], self.seed.0[1], self.next_number, self.covered.0] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&self.timeline.0.0);
        bytes.extend_from_slice(&place.position.0.to_le_bytes());
        bytes.extend_from_slice(&place.sequence.0.to_le_bytes());
        bytes.extend_from_slice(&place.chain.0);
        let log = self.log.expect("ids: who writes a manifest knows its log");
        bytes.extend_from_slice(&log.directory.to_le_bytes());
        bytes.extend_from_slice(&[log.family, 0]);
        bytes.extend_from_slice(&log.shard.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        for run in &self.runs {
            run.encode_fields(&mut bytes);
        }
        let sum = crc_fast::crc32_iscsi(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Err says what is wrong.
    pub(super) fn decode(bytes: &[u8]) -> Result<Manifest, String> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes.len() < PLACE_OFFSET + CHECKSUM_BYTES || bytes[..8] != MAGIC {
            return Err("it is not a manifest of an id index".into());
        }
        let fixed_bytes = match half(8) {
            VERSION => FIXED_BYTES,
            VERSION_WITHOUT_LOG => LOG_OFFSET,
            VERSION_WITHOUT_PLACE => PLACE_OFFSET,
            other => return Err(format!("its version is {other}, known are {VERSION_WITHOUT_PLACE} to {VERSION}")),
        };
        if bytes.len() < fixed_bytes + CHECKSUM_BYTES {
            return Err("it is cut short".into());
        }
        let body = &bytes[..bytes.len() - CHECKSUM_BYTES];
        if half(body.len()) != crc_fast::crc32_iscsi(body) {
            return Err("it has a wrong checksum".into());
        }
        let (fields, rest) = body[fixed_bytes..].as_chunks::<{ RunHeader::BYTES }>();
        if !rest.is_empty() || fields.len() != half(12) as usize {
            return Err(format!("it has not the length of {} runs", half(12)));
        }
        let runs: Option<Vec<RunHeader>> = fields.iter().map(RunHeader::decode_fields).collect();
        let runs = runs.ok_or("it describes a run that cannot be")?;
        let hash = |at: usize| ChainHash(bytes[at..at + 32].try_into().expect("it has a fixed length"));
        let place = || Cursor { position: Position(word(80)), sequence: Sequence(word(88)), chain: hash(96) };
        let stands_on = (fixed_bytes > PLACE_OFFSET).then(place);
        let shard = || u16::from_le_bytes([bytes[LOG_OFFSET + 10], bytes[LOG_OFFSET + 11]]);
        let log = || LogId { directory: word(LOG_OFFSET), family: bytes[LOG_OFFSET + 8], shard: shard() };
        let log = (fixed_bytes > LOG_OFFSET).then(log);
        let (next_number, covered, timeline) = (word(32), Position(word(40)), Timeline(hash(48)));
        let seed = IdSeed([word(16), word(24)]);
        let manifest = Manifest { seed, timeline, next_number, covered, stands_on, log, runs };
        let in_order = are_in_order(&manifest.runs);
        let numbered = manifest.runs.iter().all(|run| run.number < manifest.next_number);
        let is_placed = manifest.stands_on.is_none_or(|place| manifest.is_covered_before(&place));
        if !in_order || !numbered || !is_placed || manifest.last() > manifest.covered {
            return Err("its runs contradict each other".into());
        }
        Ok(manifest)
    }

    /// Reads the manifest; `None` when there is none.
    pub(super) fn load<D: Disk>(disk: &D, dir: &Path) -> Result<Option<Manifest>, IdsError> {
        let path = dir.join(MANIFEST);
        if !disk.exists(&path).map_err(IdsError::io("look for", &path))? {
            return Ok(None);
        }
        let file = disk.open(&path).map_err(IdsError::io("open", &path))?;
        let len = file.len().map_err(IdsError::io("read the length of", &path))?;
        if len > BYTES_MAX as u64 {
            return Err(IdsError::damaged(&path, format!("it is {len} bytes long")));
        }
        let mut bytes = vec![0; len as usize];
        super::run::read_exact(&file, &path, &mut bytes, 0)?;
        Manifest::decode(&bytes).map(Some).map_err(|what| IdsError::damaged(&path, what))
    }

    /// Makes this the manifest, durably.
    pub(super) fn save<D: Disk>(&self, disk: &D, dir: &Path) -> Result<(), IdsError> {
        let path = dir.join(MANIFEST);
        replace_file(disk, &path, &dir.join(MANIFEST_NEXT), &self.encode()).map_err(IdsError::io("write", &path))
    }
}

#[cfg(test)]
mod tests {
    use super::super::run_filter::FilterShape;
    use super::*;

    fn manifest() -> Manifest {
        let run = |number, tier, first, last| RunHeader {
            number,
            tier,
            entries: 300,
            first: Position(first),
            last: Position(last),
            ordered: 100,
            times: (7, 9),
            random_filter: FilterShape { blocks: 4, probes: 5 },
            ordered_filter: FilterShape::default(),
        };
        Manifest {
            seed: IdSeed([7, 8]),
            timeline: Timeline(ChainHash([9; 32])),
            next_number: 9,
            covered: Position(905),
            stands_on: Some(Cursor { position: Position(950), sequence: Sequence(12), chain: ChainHash([3; 32]) }),
            log: Some(LogId { directory: 77, family: 1, shard: 3 }),
            runs: vec![run(8, 1, 10, 500), run(4, 0, 600, 900)],
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        assert_eq!(Manifest::decode(&manifest().encode()), Ok(manifest()));
        assert_eq!(manifest().last(), Position(900));
        let empty = Manifest { runs: Vec::new(), ..manifest() };
        assert_eq!(Manifest::decode(&empty.encode()), Ok(empty));
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_noticed() {
        let whole = manifest().encode();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            assert!(Manifest::decode(&flipped).is_err(), "byte {at}");
            assert!(Manifest::decode(&whole[..at]).is_err(), "cut at {at}");
        }
    }

    /// The manifest with another value in a field, under a checksum that is right.
    fn with(at: usize, value: u64) -> Vec<u8> {
        let mut bytes = manifest().encode();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let end = bytes.len() - CHECKSUM_BYTES;
        let sum = crc_fast::crc32_iscsi(&bytes[..end]);
        bytes[end..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn overlapping_runs_and_used_numbers_are_refused() {
        let (next_number, covered, second) = (32, 40, FIXED_BYTES + RunHeader::BYTES);
        let (number, tier, first) = (second, second + 8, second + 24);
        let place = PLACE_OFFSET;
        for (at, value) in
            [(next_number, 8), (covered, 899), (covered, 950), (place, 905), (number, 8), (tier, 2), (first, 500)]
        {
            assert_eq!(Manifest::decode(&with(at, value)), Err("its runs contradict each other".into()), "byte {at}");
        }
        assert_eq!(Manifest::decode(&with(first, 600)), Ok(manifest()));
    }

    #[test]
    fn a_manifest_of_an_earlier_version_is_read_and_names_no_place_or_no_log() {
        let without_log = Manifest { log: None, ..manifest() };
        let without_place = Manifest { stands_on: None, ..without_log.clone() };
        for (version, offset, expected) in
            [(VERSION_WITHOUT_LOG, LOG_OFFSET, without_log), (VERSION_WITHOUT_PLACE, PLACE_OFFSET, without_place)]
        {
            let mut bytes = manifest().encode();
            bytes.drain(offset..FIXED_BYTES);
            bytes[8] = version as u8;
            let end = bytes.len() - CHECKSUM_BYTES;
            let sum = crc_fast::crc32_iscsi(&bytes[..end]);
            bytes[end..].copy_from_slice(&sum.to_le_bytes());
            assert_eq!(Manifest::decode(&bytes), Ok(expected));
            assert!((0..bytes.len()).all(|cut| Manifest::decode(&bytes[..cut]).is_err()));
        }
    }

    #[test]
    fn as_many_runs_as_there_may_be_are_read_and_a_longer_file_is_not() {
        let (disk, dir) = (tidegate_disk::FakeDisk::new(1), Path::new("/ids"));
        disk.create_dir_all(dir).expect("the disk works");
        let run = manifest().runs[1];
        let runs = (0..RUNS_MAX as u64).map(|n| RunHeader {
            number: n,
            first: Position(2 * n),
            last: Position(2 * n + 1),
            ..run
        });
        let (covered, next_number) = (Position(2 * RUNS_MAX as u64), RUNS_MAX as u64);
        let place = manifest().stands_on.map(|place| Cursor { position: Position(covered.0 + 1), ..place });
        let full = Manifest { runs: runs.collect(), covered, next_number, stands_on: place, ..manifest() };
        full.save(&disk, dir).expect("the disk works");
        assert_eq!(Manifest::load(&disk, dir).expect("it is whole"), Some(full));
        let path = dir.join(MANIFEST);
        disk.overwrite(&path, BYTES_MAX as u64, &[0]).expect("the disk works");
        let refused = Manifest::load(&disk, dir).expect_err("it is a byte too long").to_string();
        assert!(refused.contains(&format!("it is {} bytes long", BYTES_MAX + 1)), "{refused}");
    }

    #[test]
    #[should_panic(expected = "runs out of order")]
    fn overlapping_runs_are_not_written() {
        let mut overlapping = manifest();
        overlapping.runs[1].first = Position(500);
        overlapping.encode();
    }
}

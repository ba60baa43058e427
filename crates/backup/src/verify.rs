//! Reading backups again, to see whether each is still what was taken, and whether it can be restored.
//!
//! ```text
//!   each file ─▶ hashed at each length that a backup needs ─▶ of a segment: its groups, as a start reads them
//!   each backup ─▶ its outline ─▶ its logs end where groups do ─▶ nothing rests on what they do not have
//! ```
//!
//! Promise: a backup with which nothing is wrong here is restored by [`crate::restore`], and a server starts on it.
//! Each byte is hashed once, each group read once, whatever the number of backups; nothing is written. Memory: the
//! manifests, one group, and one snapshot at a time.
//!
//! Why more than hashes: these only say that a copy is still what was copied, which may have been no log any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, LocalLogs, Mending, Position, Sequence};

use crate::Progress;
use crate::error::BackupError;
use crate::files::{Store, copy_bytes};
use crate::known::Known;
use crate::manifest::Manifest;
use crate::outline::{families, log_of, outline};
use crate::place::Copied;
use crate::reading::{Rested, check_ties};
use crate::walk::{Problem, Walk};

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Names of the backups, oldest first.
    pub backups: Vec<String>,
    /// Bytes.
    pub bytes: u64,
    /// Of each backup with which nothing is wrong, oldest first: up to which sequence it has each log.
    pub reach: Vec<Reach>,
    /// What is wrong, with the path of the file and the backups that are lost with it; empty when all is well.
    pub problems: Vec<String>,
}

/// How far a backup has each log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The name of the backup.
    pub backup: String,
    /// Each log (`ledger-0`), and the sequence of its last record.
    pub logs: Vec<(String, Sequence)>,
}

/// How long a file must be for a backup, and what it must then hash to.
struct Expected {
    bytes: u64,
    hash: blake3::Hash,
    backup: String,
    /// Of a segment: behind its last group of this backup.
    end: Option<Cursor>,
}

/// A file that backups consist of.
#[derive(Default)]
struct Copy {
    expected: Vec<Expected>,
    /// Of a segment: its log, and where it begins.
    segment: Option<(String, Position)>,
}

/// Verifies all backups in a directory: each byte that one of them consists of is read. `known` are all families that
/// they may have.
pub fn verify(from: &Path, known: &[Known], progress: Progress<'_>) -> Result<Verified, BackupError> {
    let store = Store { root: from.to_path_buf() };
    // As a restore reads.
    let sources = LocalLogs::new(RealDisk, from, &families(known)).mending(Mending::of_reader(|_| {}));
    let mut verified = Verified { backups: store.names()?, ..Verified::default() };
    let (mut manifests, mut copies) = (BTreeMap::new(), BTreeMap::new());
    for backup in &verified.backups {
        match store.manifest(backup) {
            Ok(manifest) => {
                expect(&store, backup, &manifest, &mut copies);
                manifests.insert(backup.clone(), manifest);
            }
            Err(error) => verified.problems.push(error.to_string()),
        }
    }
    let mut walks = walks(&manifests, known, &sources);
    let total = copies.values().map(Copy::bytes).sum();
    let mut lost = BTreeSet::new();
    for (path, mut copy) in copies {
        copy.expected.sort_by_key(|expected| expected.bytes);
        let walk = copy.segment.as_ref().and_then(|(log, first)| Some((walks.get_mut(log)?, *first)));
        let problems = copy.read(&path, walk, &mut |piece| {
            verified.bytes += piece;
            progress(verified.bytes, total);
        });
        for (problem, backups) in problems {
            verified.problems.push(problem);
            lost.extend(backups);
        }
    }
    // What is wrong with the others was said.
    for (backup, manifest) in manifests.iter().filter(|(backup, _)| !lost.contains(*backup)) {
        let checked = outline(&store, backup, manifest, known, &sources).and_then(|logs| {
            let ties = logs.iter().try_for_each(|(known, logs)| check_ties(known, &rested(&walks, backup, logs)));
            ties.map_err(|error| BackupError::damaged(&store.folder(backup), error.to_string()))
        });
        match checked {
            Ok(()) => verified.reach.push(Reach {
                backup: backup.clone(),
                logs: manifest.logs.iter().map(|log| (log.name.clone(), log.end.sequence)).collect(),
            }),
            Err(error) => verified.problems.push(error.to_string()),
        }
    }
    Ok(verified)
}

/// What the logs of a family rest on, each with its end in a backup.
fn rested(walks: &BTreeMap<String, Walk>, backup: &str, logs: &[Copied]) -> Vec<(Rested, Cursor)> {
    let of = |log: &Copied| walks.get(&log.name).and_then(|walk| walk.rested_at(backup)).unwrap_or_default();
    logs.iter().map(|log| (of(log), log.end)).collect()
}

impl Copy {
    /// As long as the longest backup needs it.
    fn bytes(&self) -> u64 {
        self.expected.iter().map(|expected| expected.bytes).max().unwrap_or_default()
    }

    /// Reads the file, and the groups of a segment as far as it is what was copied; what is wrong.
    fn read(&self, path: &Path, walk: Option<(&mut Walk, Position)>, read: &mut dyn FnMut(u64)) -> Vec<Problem> {
        let (mut problems, mut good) = (Vec::new(), self.expected.len());
        if let Err((error, from)) = check(path, &self.expected, read) {
            let backups = self.expected[from..].iter().map(|expected| expected.backup.clone()).collect();
            problems.push((error.to_string(), backups));
            good = from;
        }
        if let Some((walk, first)) = walk {
            let ends = self.expected.iter().filter_map(|expected| Some((expected.end?, &*expected.backup)));
            let ends: Vec<(Cursor, &str)> = ends.collect();
            problems.extend(walk.segment(first, &ends[..good]));
            if let Some((end, _)) = ends.last().filter(|_| good < ends.len()) {
                walk.pass_over(*end);
            }
        }
        problems
    }
}

fn expect(store: &Store, backup: &str, manifest: &Manifest, copies: &mut BTreeMap<PathBuf, Copy>) {
    let expected = |bytes, hash, end| Expected { bytes, hash, backup: backup.to_owned(), end };
    let beside = manifest.files.iter().chain(manifest.logs.iter().filter_map(|log| Some(&log.snapshot.as_ref()?.1)));
    for file in beside {
        let copy = copies.entry(store.folder(backup).join(&file.name)).or_default();
        copy.expected.push(expected(file.bytes, file.hash, None));
    }
    for log in &manifest.logs {
        for segment in &log.segments {
            let copy = copies.entry(segment_path(store, &log.name, segment.first)).or_default();
            copy.expected.push(expected(segment.bytes, segment.hash, Some(segment.end)));
            copy.segment = Some((log.name.clone(), segment.first));
        }
    }
}

/// One for each log of the backups that this program knows; of another one each backup's outline tells.
fn walks(
    manifests: &BTreeMap<String, Manifest>,
    known: &[Known],
    sources: &LocalLogs<RealDisk>,
) -> BTreeMap<String, Walk> {
    let mut walks = BTreeMap::new();
    for (backup, manifest) in manifests {
        for log in &manifest.logs {
            let Some(id) = log_of(&log.name, &families(known), manifest.directory) else { continue };
            let known = known.iter().find(|known| known.family.number == id.family).expect("its family is known");
            let walk = walks.entry(log.name.clone()).or_insert_with(|| Walk::new(*known, sources.files(id)));
            walk.want(backup, log, id);
        }
    }
    walks
}

/// `journal/<log>/segment-….tgj`
fn segment_path(store: &Store, log: &str, first: Position) -> PathBuf {
    store.root.join("journal").join(log).join(tidegate_journal::segment::segment_name(first))
}

/// Reads a file once, and compares at each length that a backup needs; `Err` says from which of them on it is not what
/// was copied.
fn check(path: &Path, expected: &[Expected], read: &mut dyn FnMut(u64)) -> Result<(), (BackupError, usize)> {
    let mut file = File::open(path).map_err(|cause| (BackupError::io("open", path)(cause), 0))?;
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    for (index, Expected { bytes, hash, .. }) in expected.iter().enumerate() {
        copy_bytes((&mut file, path), None, bytes - at, &mut hasher, read).map_err(|error| (error, index))?;
        at = *bytes;
        if hasher.finalize() != *hash {
            let lost: Vec<&str> = expected[index..].iter().map(|expected| &*expected.backup).collect();
            let what = format!("its first {bytes} bytes are not what was copied; backups that need them:");
            return Err((BackupError::damaged(path, format!("{what} {}", lost.join(", "))), index));
        }
    }
    Ok(())
}

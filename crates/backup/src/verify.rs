//! Reading backups again, to see whether each is still what was taken.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use tidegate_journal::{Family, LogId};

use crate::Progress;
use crate::error::BackupError;
use crate::files::{Store, copy_bytes};
use crate::manifest::Manifest;

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// Names of the backups, oldest first.
    pub backups: Vec<String>,
    /// Bytes.
    pub bytes: u64,
    /// What is wrong, with the path of the file and the backups that are lost with it; empty when all is well.
    pub problems: Vec<String>,
}

/// How long a file must be for a backup, and what it must then hash to.
struct Expected {
    bytes: u64,
    hash: blake3::Hash,
    backup: String,
}

/// Verifies all backups in a directory: each byte that one of them consists of is read once.
pub fn verify(from: &Path, progress: Progress<'_>) -> Result<Verified, BackupError> {
    let store = Store { root: from.to_path_buf() };
    let mut verified = Verified { backups: store.names()?, ..Verified::default() };
    let mut files: BTreeMap<PathBuf, Vec<Expected>> = BTreeMap::new();
    for backup in &verified.backups {
        match store.manifest(backup) {
            Ok(manifest) => {
                expect(&store, backup, &manifest, &mut files);
                // One that cannot be read is found below.
                if let Err(error @ BackupError::Damaged { .. }) = store.check_key(backup, &manifest.files) {
                    verified.problems.push(error.to_string());
                }
            }
            Err(error) => verified.problems.push(error.to_string()),
        }
    }
    let total = files.values().filter_map(|expected| expected.iter().map(|expected| expected.bytes).max()).sum();
    for (path, mut expected) in files {
        expected.sort_by_key(|expected| expected.bytes);
        if let Err(error) = check(&path, &expected, &mut |piece| {
            verified.bytes += piece;
            progress(verified.bytes, total);
        }) {
            verified.problems.push(error.to_string());
        }
    }
    Ok(verified)
}

fn expect(store: &Store, backup: &str, manifest: &Manifest, files: &mut BTreeMap<PathBuf, Vec<Expected>>) {
    let mut add = |path: PathBuf, bytes, hash| {
        files.entry(path).or_default().push(Expected { bytes, hash, backup: backup.to_owned() });
    };
    let beside = manifest.files.iter().chain(manifest.logs.iter().filter_map(|log| Some(&log.snapshot.as_ref()?.1)));
    beside.for_each(|file| add(store.folder(backup).join(&file.name), file.bytes, file.hash));
    for log in &manifest.logs {
        for segment in &log.segments {
            add(segment_path(store, &log.name, segment.first), segment.bytes, segment.hash);
        }
    }
}

/// `journal/<log>/segment-….tgj`
fn segment_path(store: &Store, log: &str, first: tidegate_journal::Position) -> PathBuf {
    store.root.join("journal").join(log).join(tidegate_journal::segment::segment_name(first))
}

/// Reads a file once, and compares at each length that a backup needs.
fn check(path: &Path, expected: &[Expected], read: &mut dyn FnMut(u64)) -> Result<(), BackupError> {
    let mut file = File::open(path).map_err(BackupError::io("open", path))?;
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    for (index, Expected { bytes, hash, .. }) in expected.iter().enumerate() {
        copy_bytes((&mut file, path), None, bytes - at, &mut hasher, read)?;
        at = *bytes;
        if hasher.finalize() != *hash {
            let lost: Vec<&str> = expected[index..].iter().map(|expected| &*expected.backup).collect();
            let what = format!("its first {bytes} bytes are not what was copied; backups that need them:");
            return Err(BackupError::damaged(path, format!("{what} {}", lost.join(", "))));
        }
    }
    Ok(())
}

/// The log of this folder name.
pub(crate) fn log_of(name: &str, families: &[Family], directory: u64) -> Option<LogId> {
    let (family, shard) = name.rsplit_once('-')?;
    let family = families.iter().find(|known| known.name == family)?;
    let shard: u16 = shard.parse().ok()?;
    (shard < tidegate_journal::limits::SHARDS_MAX).then(|| family.log(directory, shard))
}

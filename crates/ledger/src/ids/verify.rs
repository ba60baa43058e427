//! Verifies the files of an index that no server uses, and changes nothing.
//!
//! ```text
//!   manifest ─▶ each run: header, fences, filters, every page   damage in one keeps no other from being read
//! ```

use std::path::Path;

use tidegate_disk::Disk;
use tidegate_journal::LogId;

use super::IdsError;
use super::condemn::{CONDEMNED, condemned};
use super::manifest::{MANIFEST, Manifest};
use super::open::{load_run, verify_pages};
use super::run::RunHeader;

/// What was found.
#[derive(Debug, Default)]
pub struct VerifiedIndex {
    /// Runs that are sound.
    pub runs: usize,
    /// Their entries.
    pub entries: u64,
    /// What is wrong. A start builds the index again from the journal, so nothing is lost with it.
    pub damaged: Vec<IdsError>,
}

/// Verifies the index of `log` in `dir`. Without one nothing is wrong.
pub fn verify<D: Disk>(disk: &D, dir: &Path, log: LogId) -> VerifiedIndex {
    let mut verified = VerifiedIndex::default();
    if let Err(error) = verify_all(disk, dir, log, &mut verified) {
        verified.damaged.push(error);
    }
    verified
}

fn verify_all<D: Disk>(disk: &D, dir: &Path, log: LogId, verified: &mut VerifiedIndex) -> Result<(), IdsError> {
    if let Some(what) = condemned(disk, dir)? {
        return Err(IdsError::damaged(&dir.join(CONDEMNED), what));
    }
    let Some(manifest) = Manifest::load(disk, dir)? else { return Ok(()) };
    if let Some(other) = manifest.log.filter(|other| *other != log) {
        return Err(IdsError::damaged(&dir.join(MANIFEST), format!("it is of {other}, and not of {log}")));
    }
    for header in &manifest.runs {
        match verify_run(disk, dir, header) {
            Ok(entries) => {
                verified.runs += 1;
                verified.entries += entries;
            }
            Err(error) => verified.damaged.push(error),
        }
    }
    Ok(())
}

fn verify_run<D: Disk>(disk: &D, dir: &Path, header: &RunHeader) -> Result<u64, IdsError> {
    let run = load_run(disk, dir, header)?;
    let mut entries = 0;
    verify_pages(&run, &mut |_| entries += 1)?;
    Ok(entries)
}

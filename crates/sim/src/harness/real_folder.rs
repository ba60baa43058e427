//! Files of the fake disk in a folder of the real one, for what works on nothing else: backups and their restore.
//!
//! ```text
//!   fake disk ── written out, as they are between two operations ──▶ folder/data + DIRECTORY ─▶ the real code
//!   fake disk ◀─ read in ─────────────────────────────────────────── folder/restored ◀────────────┘
//! ```
//!
//! What the simulator leaves out of a data directory, its description, is written here; see `docs/formats/journal.md`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tidegate_journal::Retention;

use super::old_copy::LogFiles;
use super::store::Store;
use super::{Setup, Site, data};

/// A folder that is removed in the end.
pub struct RealFolder(TempDir);

impl RealFolder {
    /// An empty one.
    pub fn new() -> io::Result<RealFolder> {
        TempDir::with_prefix("tidegate-sim-").map(RealFolder)
    }

    /// A folder in it, which need not exist.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl<S: Store> Site<S> {
    /// Writes all logs into an empty folder, which becomes a data directory by it. Its description says `id`.
    pub fn write_out(&self, folder: &Path, id: u64) -> io::Result<()> {
        fs::create_dir(folder)?;
        for (path, _) in self.files_below("journal") {
            let to = folder.join(path.strip_prefix(data()).expect("it is in the data directory"));
            fs::create_dir_all(to.parent().expect("a file is in a folder"))?;
            fs::write(to, self.disk.contents(&path)?)?;
        }
        fs::write(folder.join("DIRECTORY"), description(&self.setup, id))
    }

    /// Reads the logs of a data directory, without the zeros at their ends.
    pub fn read_in(&self, folder: &Path) -> io::Result<LogFiles> {
        let mut files = Vec::new();
        for log in fs::read_dir(folder.join("journal"))? {
            for file in fs::read_dir(log?.path())? {
                let path = file?.path();
                let mut bytes = fs::read(&path)?;
                let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                bytes.truncate(end);
                files.push((data().join(path.strip_prefix(folder).expect("it was listed there")), bytes));
            }
        }
        Ok(files.into_iter().collect())
    }
}

/// The file `DIRECTORY`.
fn description(setup: &Setup, id: u64) -> String {
    let word = |retention| match retention {
        Retention::Whole => "whole",
        Retention::SinceSnapshot => "since-snapshot",
    };
    let line = |(family, shards): &(tidegate_journal::Family, u16)| {
        format!("family {} = {}, {}, {shards} shards\n", family.number, family.name, word(family.retention))
    };
    let families: String = setup.families.iter().map(line).collect();
    let body = format!(
        "tidegate data directory\nformat_version = 3\n{families}created_at_ms = 1700000000000\nid = {id:016x}\n"
    );
    let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, body.as_bytes());
    format!("{body}checksum = {checksum:08x}\n")
}

//! Copies of logs as they were, put back later: a disk that was restored from a backup, one log of several or all.
//!
//! ```text
//!   at rest: copy ─▶ the process goes on ─▶ killed, older segments put back ─▶ snapshots, ids and other logs are newer
//! ```
//!
//! Only of logs in files: nothing is ever cut from a stream.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use tidegate_journal::disk::{Disk, DiskFile, FakeDisk};

use super::store::Store;
use super::{Site, data};

/// The files of all logs at one moment, by their paths.
#[derive(Clone, PartialEq, Eq)]
pub struct LogFiles(BTreeMap<PathBuf, Vec<u8>>);

impl FromIterator<(PathBuf, Vec<u8>)> for LogFiles {
    fn from_iter<I: IntoIterator<Item = (PathBuf, Vec<u8>)>>(files: I) -> LogFiles {
        LogFiles(files.into_iter().collect())
    }
}

impl<S: Store> Site<S> {
    /// The files of all logs as they are.
    pub fn copy_logs(&self) -> io::Result<LogFiles> {
        let paths = self.files_below("journal").into_iter().map(|(path, _)| path);
        paths.map(|path| Ok((path.clone(), self.disk.contents(&path)?))).collect::<io::Result<_>>().map(LogFiles)
    }

    /// All files, with what is derived from the logs.
    pub fn copy_data(&self) -> io::Result<LogFiles> {
        self.copy_folders(&[data().to_owned()])
    }

    /// The files of these folders.
    pub fn copy_folders(&self, folders: &[PathBuf]) -> io::Result<LogFiles> {
        let paths = self.disk.files().into_iter().map(|(path, _)| path);
        let paths = paths.filter(|path| folders.iter().any(|folder| path.starts_with(folder)));
        paths.map(|path| Ok((path.clone(), self.disk.contents(&path)?))).collect::<io::Result<_>>().map(LogFiles)
    }

    /// Removes all files of the data directory.
    pub fn clear_data(&self) -> io::Result<()> {
        self.put_data_back(&LogFiles(BTreeMap::new()))
    }

    /// Puts all files back as they were.
    pub fn put_data_back(&self, copy: &LogFiles) -> io::Result<()> {
        self.put_folder_back(copy, data())
    }

    /// Puts back what `copy` has of the log in this folder, or of all logs: nothing else stays there.
    pub fn put_back(&self, copy: &LogFiles, only: Option<&str>) -> io::Result<()> {
        let folder = match only {
            Some(log) => data().join("journal").join(log),
            None => data().join("journal"),
        };
        self.put_folder_back(copy, &folder)
    }

    /// Puts the files of each of two folders in the place of the other's. Snapshots among them count as harmed: an
    /// audit may find that they are another's.
    pub fn exchange(&mut self, one: &Path, other: &Path) -> io::Result<()> {
        let to = |path: &Path| {
            let below = |from: &Path, to: &Path| path.strip_prefix(from).ok().map(|rest| to.join(rest));
            below(one, other).or_else(|| below(other, one))
        };
        let paths = self.disk.files().into_iter().map(|(path, _)| path);
        let moved = paths.filter_map(|path| to(&path).map(|to| (path, to)));
        let read = |(path, to): (PathBuf, PathBuf)| Ok((to, self.disk.contents(&path)?));
        let copy = moved.map(read).collect::<io::Result<_>>().map(LogFiles)?;
        self.put_folder_back(&copy, one)?;
        self.put_folder_back(&copy, other)?;
        self.count_as_harmed(copy.0.keys().filter(|path| path.extension().is_some_and(|kind| kind == "tgs")));
        Ok(())
    }

    /// Puts the files that another disk has in this folder in the place of those here.
    pub fn put_from(&self, elsewhere: &FakeDisk, folder: &Path) -> io::Result<()> {
        let paths = elsewhere.files().into_iter().map(|(path, _)| path).filter(|path| path.starts_with(folder));
        let read = |path: PathBuf| elsewhere.contents(&path).map(|bytes| (path, bytes));
        let copy = paths.map(read).collect::<io::Result<_>>().map(LogFiles)?;
        self.put_folder_back(&copy, folder)
    }

    fn put_folder_back(&self, copy: &LogFiles, folder: &Path) -> io::Result<()> {
        let of_folder = |path: &PathBuf| path.starts_with(folder);
        let there = self.disk.files().into_iter().map(|(path, _)| path);
        for path in there.filter(|path| of_folder(path) && !copy.0.contains_key(path)) {
            self.disk.remove(&path)?;
            sync_parent(&self.disk, &path)?;
        }
        for (path, bytes) in copy.0.iter().filter(|(path, _)| of_folder(path)) {
            let file = match self.disk.exists(path)? {
                true => self.disk.open(path)?,
                false => {
                    // A shard without a snapshot has no folder for them either.
                    self.disk.create_dir_all(path.parent().expect("a file is in a folder"))?;
                    self.disk.create_new(path)?
                }
            };
            file.set_len(bytes.len() as u64)?;
            file.write_all_at(bytes, 0)?;
            file.sync_data()?;
            sync_parent(&self.disk, path)?;
        }
        Ok(())
    }
}

fn sync_parent(disk: &FakeDisk, path: &Path) -> io::Result<()> {
    disk.sync_dir(path.parent().expect("a segment is in a folder"))
}

//! Snapshots: the state of one shard at one position of its log, so that a restart does not replay all of history.
//!
//! ```text
//!   state of the shard ─▶ write ─▶ snapshots/<family>-0/snapshot-00000000000010000000.tgs ─▶ read at the next start
//!                                  the newest are kept; one of another history is set aside
//! ```
//!
//! Promise: a snapshot is used only if its hash verifies with the key of its data directory, it is of this directory
//! and log, and the log's chain continues from its cursor. A damaged, truncated or foreign one is skipped in favour of
//! an older one. If a log is never compacted, its snapshots are only copies. If it is compacted, they are the only
//! record of what was removed; the oldest snapshot kept has all of that.

mod format;

use std::io::ErrorKind;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use tidegate_disk::owner::cause_words;
use tidegate_disk::{Disk, DiskFile};
use tidegate_journal::key::{KEY_FILE, Key};
use tidegate_journal::{Cursor, Durability, JournalError, LogId, LogReader, Position, Sequence, Timeline, Timelines};
use tidegate_machines::Machine;

use crate::fold::stands_at;
use crate::loss::Claim;
use crate::service::ShardFamily;

pub use format::check;
use format::{HEADER_BYTES, HashedWriter, check_header, cursor_in, header, timeline_in};

/// Behind the name of a snapshot that is of no use to its log.
const ASIDE: &str = ".set-aside";

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk.
    #[error("{}: {}", path.display(), cause_words(path, cause))]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The bytes.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// File.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// Where a state stands on its log: the place, and the timelines of the log up to there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stand {
    /// The place.
    pub cursor: Cursor,
    /// Timelines before it.
    pub timelines: Timelines,
}

/// Before the first record.
impl Default for Stand {
    fn default() -> Stand {
        Stand { cursor: Cursor::START, timelines: Timelines::default() }
    }
}

/// Where a snapshot stands, and how large its file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// Its place in the log.
    pub cursor: Cursor,
    /// The timeline that the place is in.
    pub timeline: Timeline,
    /// Bytes of its file.
    pub bytes: u64,
}

/// What the writing of a snapshot did.
#[derive(Clone, Debug)]
pub struct Written {
    /// The new one.
    pub path: PathBuf,
    /// Places of those that are there and good, newest first; the first is the new one's.
    pub kept: Vec<Cursor>,
    /// Others that are damaged, or of a timeline that the log has left, and were set aside, in words.
    pub set_aside: Vec<String>,
    /// Others that say that the log had a place, in its timeline of now, which it does not have: either they or the log
    /// are not what they were. They were set aside, in words.
    pub misplaced: Vec<String>,
    /// Others of which nobody can tell now whether the log has their place, in words. They are left as they are.
    pub unread: Vec<String>,
}

/// The snapshots of one shard.
pub struct Snapshots<F: ShardFamily, D: Disk> {
    disk: D,
    data: PathBuf,
    folder: PathBuf,
    log: LogId,
    /// The one that the directory had when it was opened; none to read it from there each time.
    key: Option<Key>,
    family: PhantomData<fn() -> F>,
}

impl<F: ShardFamily, D: Disk> Clone for Snapshots<F, D> {
    fn clone(&self) -> Self {
        let (data, folder) = (self.data.clone(), self.folder.clone());
        let (disk, key) = (self.disk.clone(), self.key.clone());
        Snapshots { disk, data, folder, log: self.log, key, family: PhantomData }
    }
}

impl<F: ShardFamily, D: Disk> Snapshots<F, D> {
    /// Those of the shard whose log is `log`, in the data directory `data`.
    pub fn new(disk: D, data: &Path, log: LogId) -> Snapshots<F, D> {
        assert_eq!(log.family, F::FAMILY.number, "a family has snapshots of its own logs");
        let folder = data.join("snapshots").join(format!("{}-{}", F::FAMILY.name, log.shard));
        Snapshots { disk, data: data.to_path_buf(), folder, log, key: None, family: PhantomData }
    }

    /// The same, authenticated with `key`, if there is one, whatever becomes of its file.
    pub fn with_key(self, key: Option<&Key>) -> Snapshots<F, D> {
        Snapshots { key: key.cloned(), ..self }
    }

    /// The log that they are snapshots of.
    pub fn log(&self) -> LogId {
        self.log
    }

    /// Where they are kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the state that the log gives up to `stand`, durably, and removes all but the newest that are good.
    /// `stands` says whether the log has the place of another one, see [`stands_at`]. What is damaged or out of place
    /// is set aside: it must not count as one to fall back to. What cannot be told now is asked again the next time.
    pub fn write(
        &self,
        stand: &Stand,
        state: &F::Machine,
        stands: impl Fn(Cursor) -> Result<bool, JournalError>,
    ) -> Result<Written, SnapshotError> {
        const { assert!(F::SNAPSHOTS_KEPT >= 2, "a damaged snapshot can be passed over for an older one") };
        let (disk, folder, cursor) = (&self.disk, &self.folder, stand.cursor);
        let key = match &self.key {
            Some(key) => key.clone(),
            None => Key::read_or_create(disk, &self.data).map_err(key_failed(&self.data))?,
        };
        let name = file_name(cursor.sequence);
        let path = folder.join(&name);
        let unfinished = folder.join("unfinished");
        disk.create_dir_all(folder).map_err(io(folder))?;
        if disk.exists(&unfinished).map_err(io(&unfinished))? {
            disk.remove(&unfinished).map_err(io(&unfinished))?;
        }
        let file = disk.create_new(&unfinished).map_err(io(&unfinished))?;
        if let Err(cause) = self.write_to(&file, &key, stand, state).and_then(|()| file.sync_data()) {
            // On a full disk it would hold the room that the next attempt needs.
            let _ = disk.remove(&unfinished);
            return Err(io(&unfinished)(cause));
        }
        disk.rename(&unfinished, &path).map_err(io(&path))?;
        disk.sync_dir(folder).map_err(io(folder))?;

        let (set_aside, misplaced, unread) = Default::default();
        let mut written = Written { path, kept: vec![cursor], set_aside, misplaced, unread };
        for other in self.names()?.into_iter().rev().filter(|other| *other != name) {
            let is_older = other < name;
            if is_older && written.kept.len() == F::SNAPSHOTS_KEPT {
                disk.remove(&folder.join(&other)).map_err(io(folder))?;
                continue;
            }
            match self.read(&folder.join(&other)) {
                Ok((place, _)) => match stands(place.cursor) {
                    Ok(true) if is_older => written.kept.push(place.cursor),
                    Ok(_) => {
                        let aside = self.set_aside(&other, of_another_history(place.cursor));
                        let is_of_another = stand.timelines.is_abandoned(place.timelines.current());
                        if is_of_another { &mut written.set_aside } else { &mut written.misplaced }.push(aside);
                    }
                    Err(error) => written.unread.push(unread_place(place.cursor, &error)),
                },
                Err(SnapshotError::Damaged { what, .. }) => {
                    written.set_aside.push(self.set_aside(&other, format!("{other}: {what}")));
                }
                // Perhaps it can be read next time: it is neither counted nor touched.
                Err(SnapshotError::Io { .. }) => {}
            }
        }
        assert!(written.kept.is_sorted_by(|newer, older| newer.sequence > older.sequence), "newest first");
        Ok(written)
    }

    /// All snapshots by age, newest first; damaged ones are errors in their place. Each is read when it is asked for.
    pub fn newest_first(
        &self,
    ) -> Result<impl Iterator<Item = Result<(Stand, F::Machine), SnapshotError>> + use<'_, F, D>, SnapshotError> {
        Ok(self.names()?.into_iter().rev().map(|name| self.read(&self.folder.join(name))))
    }

    /// The newest good snapshot that stands on the log which `reader` reads. Those that cannot be used, because they
    /// are damaged, of another history, or ahead of `up_to`, are put into `passed_over`, in words.
    pub fn newest_standing<R: LogReader>(
        &self,
        reader: &R,
        up_to: &Durability,
        passed_over: &mut Vec<String>,
    ) -> Result<Option<(Stand, F::Machine)>, SnapshotError> {
        for snapshot in self.newest_first()? {
            match snapshot {
                Err(error) => passed_over.push(error.to_string()),
                Ok((stand, state)) => match stands_at(reader, stand.cursor, up_to) {
                    Ok(true) => return Ok(Some((stand, state))),
                    Ok(false) => passed_over.push(of_another_history(stand.cursor)),
                    Err(error) => passed_over.push(unread_place(stand.cursor, &error)),
                },
            }
        }
        Ok(None)
    }

    /// Removes those that stand before a place.
    pub(crate) fn remove_before(&self, cursor: Cursor) -> Result<(), SnapshotError> {
        let newest = file_name(cursor.sequence);
        for older in self.names()?.into_iter().filter(|name| *name < newest) {
            self.disk.remove(&self.folder.join(older)).map_err(io(&self.folder))?;
        }
        self.disk.sync_dir(&self.folder).map_err(io(&self.folder))
    }

    /// Renames a snapshot to a name that is never read: it is of no use to this log, and because its sequence is higher
    /// than those of the next snapshots, these would be removed instead of it. Returns `why` and what was done, in
    /// words.
    pub(crate) fn set_aside_at(&self, cursor: Cursor, why: String) -> String {
        self.set_aside(&file_name(cursor.sequence), why)
    }

    fn set_aside(&self, name: &str, why: String) -> String {
        let aside = format!("{name}{ASIDE}");
        let (from, to) = (self.folder.join(name), self.folder.join(&aside));
        match self.disk.rename(&from, &to).and_then(|()| self.disk.sync_dir(&self.folder)) {
            Ok(()) => format!("{why}; it is set aside as {aside}"),
            Err(cause) => format!("{why}; it cannot be set aside: {cause}"),
        }
    }

    /// What the newest snapshot of this log that is not ahead of `end` says of itself, whether or not the rest of it is
    /// good: to decide if another one is due. `None` if there is none.
    pub fn newest_header(&self, end: Position) -> Result<Option<SnapshotHeader>, SnapshotError> {
        for path in self.names()?.into_iter().rev().map(|name| self.folder.join(name)) {
            if let Some(header) = self.header(&path)?.filter(|header| header.cursor.position <= end) {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// The highest place that a snapshot of this log says it stands at, whether or not it is good.
    pub(crate) fn newest_place(&self) -> Option<Position> {
        let paths = self.names().ok()?.into_iter().map(|name| self.folder.join(name));
        paths.filter_map(|path| Some(self.header(&path).ok()??.cursor.position)).max()
    }

    /// What the snapshots that stand behind `end` say of the log. What one says that is damaged, or was not written
    /// with this directory's key, is a claim in doubt, if it is what its name says, too.
    pub(crate) fn claims_behind(&self, end: Position) -> Vec<Claim> {
        let paths = self.names().into_iter().flatten().map(|name| self.folder.join(name));
        let claim = |path: PathBuf| {
            let header = self.header(&path).ok()?.filter(|header| header.cursor.position > end)?;
            let (timeline, cursor, doubt) = match self.read(&path) {
                Ok((Stand { cursor, timelines }, _)) => (timelines.current(), cursor, None),
                Err(error) => {
                    let is_named = path.file_name().is_some_and(|name| *name == *file_name(header.cursor.sequence));
                    is_named.then_some(())?;
                    (header.timeline, header.cursor, Some(error.to_string()))
                }
            };
            let (position, sequence) = (cursor.position, Some(cursor.sequence));
            Some(Claim { source: path, timeline, position, sequence, chain: None, doubt, is_kept: false })
        };
        paths.filter_map(claim).collect()
    }

    /// What the snapshot that stands at `stand` says of the log.
    pub(crate) fn claim_of(&self, stand: &Stand) -> Claim {
        let (cursor, timeline) = (stand.cursor, stand.timelines.current());
        let source = self.folder.join(file_name(cursor.sequence));
        let (position, sequence, chain) = (cursor.position, Some(cursor.sequence), Some(cursor.chain));
        Claim { source, timeline, position, sequence, chain, doubt: None, is_kept: false }
    }

    fn header(&self, path: &Path) -> Result<Option<SnapshotHeader>, SnapshotError> {
        let file = self.disk.open(path).map_err(io(path))?;
        let bytes = file.len().map_err(io(path))?;
        if bytes < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).map_err(io(path))?;
        let (cursor, timeline) = (cursor_in(&header), timeline_in(&header));
        Ok(check_header(&header, self.log).is_ok().then_some(SnapshotHeader { cursor, timeline, bytes }))
    }

    fn names(&self) -> Result<Vec<String>, SnapshotError> {
        if !self.disk.exists(&self.folder).map_err(io(&self.folder))? {
            return Ok(Vec::new());
        }
        let names = self.disk.list(&self.folder).map_err(io(&self.folder))?;
        Ok(names.into_iter().filter(|name| name.starts_with("snapshot-") && name.ends_with(".tgs")).collect())
    }

    fn read(&self, path: &Path) -> Result<(Stand, F::Machine), SnapshotError> {
        let file = self.disk.open(path).map_err(io(path))?;
        let mut bytes = vec![0; file.len().map_err(io(path))? as usize];
        file.read_exact_at(&mut bytes, 0).map_err(io(path))?;
        let key = match &self.key {
            Some(key) => Some(key.clone()),
            None => Key::read(&self.disk, &self.data).map_err(key_failed(&self.data))?,
        };
        let no_key = || damaged(path)(format!("there is no file {KEY_FILE} in the data directory to verify it with"));
        let key = key.ok_or_else(no_key)?;
        let (stand, body) = check(&bytes, self.log, key.bytes()).map_err(damaged(path))?;
        let named = file_name(stand.cursor.sequence);
        if path.file_name().is_some_and(|name| *name != *named) {
            return Err(damaged(path)(format!("it is the snapshot that is called {named}: it was copied or renamed")));
        }
        let state = F::Machine::read_snapshot(body).map_err(|error| damaged(path)(error.to_string()))?;
        Ok((stand, state))
    }

    /// The body is made twice, once for its length: a copy of it all would double the memory that a shard takes.
    fn write_to(&self, file: &impl DiskFile, key: &Key, stand: &Stand, state: &F::Machine) -> std::io::Result<()> {
        let mut body_bytes = 0;
        state.write_snapshot(&mut |part| body_bytes += part.len() as u64);
        let mut writer = HashedWriter::new(file, key);
        writer.write(&header(self.log, stand, body_bytes));
        state.write_snapshot(&mut |part| writer.write(part));
        writer.finish().map_err(|cause| match cause.kind() {
            ErrorKind::StorageFull => {
                std::io::Error::new(cause.kind(), format!("{cause}: it takes {} MiB", body_bytes.div_ceil(1 << 20)))
            }
            _ => cause,
        })
    }
}

/// Why a snapshot at `cursor` is passed over, if its place is not in the log: whatever the log has there, it may be
/// good.
pub(crate) fn of_another_history(cursor: Cursor) -> String {
    format!(
        "snapshot at sequence {} is of another history: the log has no group that ends there with its chain",
        cursor.sequence
    )
}

/// Why a snapshot at `cursor` is passed over for now, if the log cannot be read there.
pub(crate) fn unread_place(cursor: Cursor, error: &JournalError) -> String {
    let sequence = cursor.sequence;
    format!(
        "snapshot at sequence {sequence} is left as it is, and not used: its place in the log cannot be read: {error}"
    )
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> SnapshotError {
    let path = path.to_path_buf();
    move |cause| SnapshotError::Io { path, cause }
}

fn key_failed(data: &Path) -> impl FnOnce(JournalError) -> SnapshotError {
    let path = data.join(KEY_FILE);
    move |error| SnapshotError::Io { path, cause: std::io::Error::other(error.to_string()) }
}

fn damaged(path: &Path) -> impl FnOnce(String) -> SnapshotError {
    let path = path.to_path_buf();
    move |what| SnapshotError::Damaged { path, what }
}

fn file_name(sequence: Sequence) -> String {
    format!("snapshot-{:020}.tgs", sequence.0)
}

#[cfg(test)]
mod tests;

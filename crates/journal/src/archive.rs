//! Segments that were moved out of a data directory, and are read from where they are.
//!
//! ```text
//!   data/ARCHIVE   which segments, where, and the hash of each
//!   open ─▶ data/journal/<log>/segment-… ─missing─▶ listed in ARCHIVE? ─▶ a path: opened there
//!                                                                      └─▶ a URL: fetched into data/archive-cache
//! ```
//!
//! Promise: a segment that `ARCHIVE` lists belongs to the log as before. What is fetched is used only if its length and
//! hash are those that were written down when it was moved.
//!
//! Why the log knows of it and not the disk: a start need not fetch what it only checks the place of. `ARCHIVE` has the
//! cursors at both ends of each segment.
//!
//! Invariant: no network here. Whoever can fetch URLs says so with [`serve_with`].

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::directory::LockedFile;
use crate::disk::{Disk, DiskFile, RealDisk};
use crate::segment::segment_name;
use crate::{ChainHash, Cursor, JournalError, Position, Sequence};

/// The list of what was moved, in the data directory.
pub const ARCHIVE_FILE: &str = "ARCHIVE";
/// Where fetched segments are kept for a while.
pub const CACHE_FOLDER: &str = "archive-cache";
/// So many fetched segments are kept.
const CACHED_MAX: usize = 4;
/// Held (flock) by whoever changes the list.
pub const LOCK_FILE: &str = "ARCHIVE.lock";
/// What to do about a list that is damaged. No backup has one: a backup has the segments themselves.
const DAMAGED_LIST: &str = "it is damaged. It says where `tidegate archive` has moved segments to. Put back the newest \
                            ARCHIVE; without one, remove it, and copy each ID/LOG/segment-POSITION-….tgj of the \
                            archive to journal/LOG/segment-POSITION.tgj (ID as in the file DIRECTORY, LOG such as \
                            ledger-0). If none was moved, it is enough to remove it";
const TITLE: &str = "tidegate archive";
const ARCHIVE_VERSION: u32 = 1;
const ARCHIVE_BYTES_MAX: u64 = 1 << 28;

/// What can fetch a segment by its URL. May wait; called on threads that may.
pub trait ArchiveSource: Send + Sync {
    /// Writes what is at `url` to an empty file. `Err` in words for the operator.
    fn fetch(&self, url: &str, into: &mut File) -> Result<(), String>;
}

static SOURCE: OnceLock<Box<dyn ArchiveSource>> = OnceLock::new();

/// Lets all logs of this process fetch archived segments with `source`. The first call counts: where an archive is
/// says the data directory; what speaks a protocol is a property of the program.
pub fn serve_with(source: Box<dyn ArchiveSource>) {
    let _ = SOURCE.set(source);
}

/// A segment that was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    /// Name of its log's folder, such as `ledger-0`.
    pub log: String,
    /// The place of its first group.
    pub first: Cursor,
    /// The place behind its last group.
    pub end: Cursor,
    /// Bytes of its file.
    pub bytes: u64,
    /// BLAKE3 of its file.
    pub hash: [u8; 32],
    /// Absolute path of its file, or a URL such as `s3://bucket/prefix/name`.
    pub at: String,
}

/// What is at the place of `ARCHIVE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// No file.
    Missing,
    /// A list with its checksum.
    Good(Archive),
    /// Something else.
    Damaged,
}

impl Stored {
    /// Reads it; `Err` if it cannot be read.
    pub fn read<D: Disk>(disk: &D, data: &Path) -> Result<Stored, JournalError> {
        let path = data.join(ARCHIVE_FILE);
        // Not "read": that is said of a place in a segment.
        let failed = |cause| JournalError::io("open", &path, cause);
        if !disk.exists(&path).map_err(failed)? {
            return Ok(Stored::Missing);
        }
        let file = disk.open(&path).map_err(failed)?;
        let mut bytes = vec![0; file.len().map_err(failed)?.min(ARCHIVE_BYTES_MAX) as usize];
        file.read_exact_at(&mut bytes, 0).map_err(failed)?;
        Ok(Archive::parse(&String::from_utf8_lossy(&bytes)).map_or(Stored::Damaged, Stored::Good))
    }
}

/// Keeps everybody else from changing `ARCHIVE` until the lock is dropped; `None` if somebody does now.
pub fn lock_list(data: &Path) -> io::Result<Option<LockedFile>> {
    LockedFile::take(RealDisk.open_or_create(&data.join(LOCK_FILE))?, libc::LOCK_EX)
}

/// What `ARCHIVE` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// By log and position.
    pub segments: Vec<Archived>,
}

impl Archive {
    /// The archive of the data directory `data`; an empty one if nothing was moved.
    pub fn read<D: Disk>(disk: &D, data: &Path) -> Result<Archive, JournalError> {
        match Stored::read(disk, data)? {
            Stored::Missing => Ok(Archive::default()),
            Stored::Good(archive) => Ok(archive),
            Stored::Damaged => Err(Archive::damaged(data)),
        }
    }

    /// The error for a list that is damaged, with what to do.
    pub(crate) fn damaged(data: &Path) -> JournalError {
        JournalError::Io { doing: "use", path: data.join(ARCHIVE_FILE), cause: DAMAGED_LIST.into() }
    }

    /// Replaces what the data directory says, durably.
    pub fn write(&self, data: &Path) -> Result<(), JournalError> {
        let path = data.join(ARCHIVE_FILE);
        let unfinished = data.join(format!("{ARCHIVE_FILE}.new"));
        let write = || {
            if RealDisk.exists(&unfinished)? {
                RealDisk.remove(&unfinished)?;
            }
            let file = RealDisk.create_new(&unfinished)?;
            file.write_all_at(self.text().as_bytes(), 0)?;
            file.sync_all()?;
            RealDisk.rename(&unfinished, &path)?;
            RealDisk.sync_dir(data)
        };
        write().map_err(|cause| JournalError::io("write", &path, cause))
    }

    /// The segments of one log, ascending.
    pub fn of<'a>(&'a self, log: &'a str) -> impl Iterator<Item = &'a Archived> {
        self.segments.iter().filter(move |segment| segment.log == log)
    }

    /// The segment of a log that begins at `first`.
    pub fn segment(&self, log: &str, first: Position) -> Option<&Archived> {
        self.segments.iter().find(|segment| segment.log == log && segment.first.position == first)
    }

    fn text(&self) -> String {
        let mut text = format!("{TITLE}\nformat_version = {ARCHIVE_VERSION}\n");
        for Archived { log, first, end, bytes, hash, at } in &self.segments {
            let hash = blake3::Hash::from_bytes(*hash);
            text += &format!("segment {log} {} {} {bytes} {hash} {at}\n", words(first), words(end));
        }
        let checksum = blake3::hash(text.as_bytes());
        text + &format!("checksum = {checksum}\n")
    }

    /// Reads exactly what [`Archive::text`] writes.
    fn parse(text: &str) -> Option<Archive> {
        let mut archive = Archive::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("segment ")) {
            let mut words = line.splitn(10, ' ');
            archive.segments.push(Archived {
                log: words.next()?.into(),
                first: cursor(&mut words)?,
                end: cursor(&mut words)?,
                bytes: words.next()?.parse().ok()?,
                hash: hash(words.next()?)?,
                at: words.next()?.into(),
            });
        }
        (archive.text() == text).then_some(archive)
    }
}

fn words(cursor: &Cursor) -> String {
    format!("{} {} {}", cursor.position, cursor.sequence, cursor.chain)
}

fn cursor<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Cursor> {
    Some(Cursor {
        position: Position(words.next()?.parse().ok()?),
        sequence: Sequence(words.next()?.parse().ok()?),
        chain: ChainHash(hash(words.next()?)?),
    })
}

fn hash(text: &str) -> Option<[u8; 32]> {
    blake3::Hash::from_hex(text).ok().map(|hash| *hash.as_bytes())
}

/// A local file with the bytes of an archived segment: where it is, or a verified copy that was fetched.
pub(crate) fn local_path(data: &Path, segment: &Archived) -> Result<PathBuf, JournalError> {
    let path = PathBuf::from(&segment.at);
    if path.is_absolute() {
        return Ok(path);
    }
    let folder = data.join(CACHE_FOLDER);
    let cached = folder.join(format!("{}-{}", segment.log, segment_name(segment.first.position)));
    if RealDisk.exists(&cached).map_err(|cause| JournalError::io("look for", &cached, cause))? {
        return Ok(cached);
    }
    let failed = |cause| JournalError::Io { doing: "fetch", path: path.clone(), cause };
    let source = SOURCE.get().ok_or_else(|| failed("this program fetches nothing from there".into()))?;
    RealDisk.create_dir_all(&folder).map_err(|cause| JournalError::io("create", &folder, cause))?;
    // Two threads may fetch the same segment; each into a file of its own, and either copy is good.
    static FETCHES: AtomicU64 = AtomicU64::new(0);
    let number = FETCHES.fetch_add(1, Ordering::Relaxed);
    let unfinished = folder.join(format!("fetched-{}-{number}", std::process::id()));
    let mut file = RealDisk.create_new(&unfinished).map_err(|cause| JournalError::io("create", &unfinished, cause))?;
    let fetched = source.fetch(&segment.at, &mut file).and_then(|()| verify(&unfinished, segment));
    if let Err(cause) = fetched {
        let _ = RealDisk.remove(&unfinished);
        return Err(failed(cause));
    }
    make_room(&folder);
    RealDisk.rename(&unfinished, &cached).map_err(|cause| JournalError::io("name", &cached, cause))?;
    Ok(cached)
}

/// The error for an archived segment that does not open.
pub(crate) fn unopened(path: &Path, cause: io::Error) -> JournalError {
    let is_gone = matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    match JournalError::io("open", path, cause) {
        JournalError::Io { doing, path, cause } if is_gone => {
            let moved = moved_to(&path);
            let why = match RealDisk.exists(root_of(&path)) {
                Ok(true) => format!("{moved}, which is there without it: put it back from a copy of the archive"),
                _ => format!(
                    "{moved}, which is not there: mount its disk, or put the archive back to this path, and try again"
                ),
            };
            JournalError::Io { doing, cause: format!("{cause}. {why}"), path }
        }
        other => other,
    }
}

/// Where an archived segment of this path is, and by whose word, for those who look for it.
pub fn moved_to(path: &Path) -> String {
    let whose = "(`archive.to` of the configuration, or `--to` of `tidegate archive`)";
    format!("It was moved to the archive {} {whose}", root_of(path).display())
}

/// `ARCHIVE` of `ARCHIVE/ID/LOG/segment-….tgj`.
fn root_of(path: &Path) -> &Path {
    path.ancestors().nth(3).unwrap_or(path)
}

/// That the file has the bytes that were moved.
fn verify(path: &Path, segment: &Archived) -> Result<(), String> {
    let mut hasher = blake3::Hasher::new();
    let copied = RealDisk.open(path).and_then(|mut file| io::copy(&mut file, &mut hasher));
    let bytes = copied.map_err(|cause| cause.to_string())?;
    if bytes != segment.bytes || *hasher.finalize().as_bytes() != segment.hash {
        return Err(format!("what was fetched is not what was moved there: {bytes} bytes, of {}", segment.bytes));
    }
    Ok(())
}

/// Removes the fetched segments that were used longest ago. Whoever has one open goes on reading it.
fn make_room(folder: &Path) {
    let Ok(names) = RealDisk.list(folder) else { return };
    let used = |path: &PathBuf| RealDisk.open(path).and_then(|file| file.metadata()?.modified()).ok();
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "tgj");
    let mut cached: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).filter(is_segment).collect();
    cached.sort_by_key(used);
    let excess = (cached.len() + 1).saturating_sub(CACHED_MAX);
    cached.iter().take(excess).for_each(|path| _ = RealDisk.remove(path));
}

#[cfg(test)]
pub(crate) mod tests;

//! The data directory: who it is, how many shards of each kind it has, and that only one process uses it.
//!
//! ```text
//!   data/
//!     LOCK                  held (flock) while a process lives; says which
//!     DIRECTORY             format version, shard counts, creation time, random id; a text for people, with a checksum
//!     journal/shard-<n>/    one log each: shards of the ledger,
//!     journal/topics-<n>/   shards of topics
//! ```
//!
//! Why the logs are created before `DIRECTORY` gets its name: from then on a missing segment is a loss, not a beginning. A
//! directory of version 1 knows no topics. Whoever opens it to serve it gives it their logs, and then the new description, in the
//! same way: until the rename it is a directory of version 1, after it one of version 2.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, RealDisk};
use crate::folder::Folder;
use crate::group::checksum;
use crate::groups::missing_segment;
use crate::limits::SHARDS_MAX;
use crate::{Cursor, JournalError, LogId, recovery};

/// The version of the directory's layout that this program writes. It reads version 1, which has no shards of topics, as well.
pub const DIRECTORY_VERSION: u32 = 2;
/// The version before there were shards of topics.
const WITHOUT_TOPICS: u32 = 1;

const DIRECTORY: &str = "DIRECTORY";
const DIRECTORY_NEW: &str = "DIRECTORY.new";
const LOCK: &str = "LOCK";
const TITLE: &str = "tidegate data directory";
/// A description is seven short lines; more is somebody else's file.
const DESCRIPTION_BYTES_MAX: u64 = 4096;

/// A data directory, locked for as long as this value lives.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    description: Description,
    _lock: File,
}

/// What `DIRECTORY` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Description {
    shards: u16,
    /// Zero in a description of version 1, and only there.
    topic_shards: u16,
    created_at_ms: u64,
    id: u64,
}

impl Directory {
    /// Opens the directory at `path`, or creates it with `shards` shards of the ledger and `topic_shards` of topics (1 to
    /// [`SHARDS_MAX`] each) and their empty logs. One that has no topics yet gets `topic_shards` of them; one that has keeps its
    /// own number, because a client's shard follows from it: ask [`Directory::topic_shards`].
    ///
    /// Refuses a directory of an unknown version or another count of ledger shards, one that another process uses, and one whose
    /// description or whose logs are missing.
    pub fn open_or_create(
        path: &Path,
        shards: u16,
        topic_shards: u16,
        created_at_ms: u64,
    ) -> Result<Directory, JournalError> {
        RealDisk.create_dir_all(path).map_err(|cause| JournalError::io("create", path, cause))?;
        let lock = lock(path)?;
        if !exists(&path.join(DIRECTORY))? {
            create(path, shards, topic_shards, created_at_ms)?;
        }
        let mut directory = Directory::described(path, lock)?;
        let found = directory.description.shards;
        if found != shards {
            let what = format!(
                "it was created with {found} shards and cannot be used with {shards}: a key's shard follows from their \
                 number. Set data.shards = {found}, or begin another directory"
            );
            return Err(refuse(path, what));
        }
        if directory.description.topic_shards == 0 {
            directory.description = upgrade(path, directory.description, topic_shards)?;
        }
        Ok(directory)
    }

    /// Opens an existing directory, with as many shards as it has, and changes nothing in it.
    pub fn open(path: &Path) -> Result<Directory, JournalError> {
        if !exists(&path.join(DIRECTORY))? {
            return Err(refuse(
                path,
                "there is no file DIRECTORY in it: not a data directory, or one that never started".into(),
            ));
        }
        Directory::described(path, lock(path)?)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many shards of the ledger it has.
    pub fn shards(&self) -> u16 {
        self.description.shards
    }

    /// How many shards of topics it has: none if it is of version 1 and was opened with [`Directory::open`].
    pub fn topic_shards(&self) -> u16 {
        self.description.topic_shards
    }

    /// When it was created, in milliseconds since the Unix epoch.
    pub fn created_at_ms(&self) -> u64 {
        self.description.created_at_ms
    }

    /// The log of one shard of the ledger.
    pub fn log(&self, shard: u16) -> LogId {
        assert!(shard < self.shards(), "the directory has {} shards", self.shards());
        LogId::ledger(self.description.id, shard)
    }

    /// The logs of all shards of the ledger.
    pub fn logs(&self) -> impl Iterator<Item = LogId> + use<> {
        self.description.logs()
    }

    /// The logs of all shards of topics.
    pub fn topic_logs(&self) -> impl Iterator<Item = LogId> + use<> {
        self.description.topic_logs()
    }

    fn described(path: &Path, lock: File) -> Result<Directory, JournalError> {
        let description = Description::read(&path.join(DIRECTORY))?;
        let directory = Directory { path: path.to_path_buf(), description, _lock: lock };
        for log in directory.logs().chain(directory.topic_logs()) {
            let folder = Folder::new(RealDisk, path, log);
            if !exists(&folder.path)? || folder.list_segments()?.is_empty() {
                return Err(missing_segment(&Cursor::START, None));
            }
        }
        Ok(directory)
    }
}

/// Creates the logs and then the description. A creation that was cut short goes on with the identity it had begun with.
fn create(path: &Path, shards: u16, topic_shards: u16, created_at_ms: u64) -> Result<(), JournalError> {
    for count in [shards, topic_shards] {
        assert!((1..=SHARDS_MAX).contains(&count), "a directory has 1 to {SHARDS_MAX} shards of a kind, not {count}");
    }
    let begun = path.join(DIRECTORY_NEW);
    let description = match Description::read(&begun) {
        Ok(description) if description.shards == shards && description.topic_shards == topic_shards => description,
        _ if exists(&path.join("journal"))? => {
            let what = "there is a journal in it but no file DIRECTORY: restore that file from a copy";
            return Err(refuse(path, what.into()));
        }
        _ => {
            let description = Description { shards, topic_shards, created_at_ms, id: random_id(path)? };
            description.write(&begun)?;
            description
        }
    };
    finish(path, &description)
}

/// Gives a directory of version 1 its shards of topics. One that was cut short goes on with the number it had begun with.
fn upgrade(path: &Path, found: Description, topic_shards: u16) -> Result<Description, JournalError> {
    assert!((1..=SHARDS_MAX).contains(&topic_shards), "1 to {SHARDS_MAX} shards of topics, not {topic_shards}");
    let begun = path.join(DIRECTORY_NEW);
    let goes_on = |begun: &Description| begun.topic_shards > 0 && Description { topic_shards: 0, ..*begun } == found;
    let description = match Description::read(&begun) {
        Ok(description) if goes_on(&description) => description,
        _ => {
            let description = Description { topic_shards, ..found };
            description.write(&begun)?;
            description
        }
    };
    finish(path, &description)?;
    Ok(description)
}

/// Creates the logs that are not there yet, and then gives the description its name.
fn finish(path: &Path, description: &Description) -> Result<(), JournalError> {
    for log in description.logs().chain(description.topic_logs()) {
        recovery::create(RealDisk, path, log)?;
    }
    let begun = path.join(DIRECTORY_NEW);
    let failed = |cause| JournalError::io("create", &path.join(DIRECTORY), cause);
    fs::rename(&begun, path.join(DIRECTORY)).map_err(failed)?;
    RealDisk.sync_dir(path).map_err(failed)
}

impl Description {
    fn logs(&self) -> impl Iterator<Item = LogId> + use<> {
        let id = self.id;
        (0..self.shards).map(move |shard| LogId::ledger(id, shard))
    }

    fn topic_logs(&self) -> impl Iterator<Item = LogId> + use<> {
        let id = self.id;
        (0..self.topic_shards).map(move |shard| LogId::topics(id, shard))
    }

    fn text(&self) -> String {
        let Description { shards, topic_shards, created_at_ms, id } = self;
        let (version, topics) = match topic_shards {
            0 => (WITHOUT_TOPICS, String::new()),
            _ => (DIRECTORY_VERSION, format!("topic_shards = {topic_shards}\n")),
        };
        let body = format!(
            "{TITLE}\nformat_version = {version}\nshards = {shards}\n{topics}created_at_ms = {created_at_ms}\nid = {id:016x}\n"
        );
        format!("{body}checksum = {:08x}\n", checksum(body.as_bytes()))
    }

    fn write(&self, path: &Path) -> Result<(), JournalError> {
        let failed = |cause| JournalError::io("write", path, cause);
        let mut file = File::create(path).map_err(failed)?;
        file.write_all(self.text().as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        RealDisk.sync_dir(path.parent().unwrap_or(Path::new("."))).map_err(failed)
    }

    fn read(path: &Path) -> Result<Description, JournalError> {
        let mut text = String::new();
        File::open(path)
            .and_then(|file| file.take(DESCRIPTION_BYTES_MAX).read_to_string(&mut text))
            .map_err(|cause| JournalError::io("read", path, cause))?;
        Description::parse(&text).map_err(|fault| match fault {
            Fault::Version(found) => {
                JournalError::UnknownVersion { path: path.to_path_buf(), found, known: DIRECTORY_VERSION }
            }
            Fault::Unreadable(what) => {
                refuse(path.parent().unwrap_or(path), format!("its file DIRECTORY is damaged: {what}"))
            }
        })
    }

    /// The version is looked at before everything else, because only it is promised to stay where it is.
    fn parse(text: &str) -> Result<Description, Fault> {
        let number = |key: &str, radix| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            let digits = line.ok_or_else(|| Fault::Unreadable(format!("{key} is missing")))?;
            u64::from_str_radix(digits, radix).map_err(|_| Fault::Unreadable(format!("{key} = {digits}: not a number")))
        };
        if text.lines().next() != Some(TITLE) {
            return Err(Fault::Unreadable(format!("it does not begin with \"{TITLE}\"")));
        }
        let version = number("format_version", 10)?;
        let version = u32::try_from(version).unwrap_or(u32::MAX);
        if version != DIRECTORY_VERSION && version != WITHOUT_TOPICS {
            return Err(Fault::Version(version));
        }
        let count = |key| {
            let count = u16::try_from(number(key, 10)?).ok().filter(|count| (1..=SHARDS_MAX).contains(count));
            count.ok_or_else(|| Fault::Unreadable(format!("{key}: out of range")))
        };
        let description = Description {
            shards: count("shards")?,
            topic_shards: if version == WITHOUT_TOPICS { 0 } else { count("topic_shards")? },
            created_at_ms: number("created_at_ms", 10)?,
            id: number("id", 16)?,
        };
        if description.text() == text {
            Ok(description)
        } else {
            Err(Fault::Unreadable("its checksum does not match".into()))
        }
    }
}

enum Fault {
    Version(u32),
    Unreadable(String),
}

/// Takes the lock, or says who has it. The kernel releases it when the process ends, however it ends.
fn lock(path: &Path) -> Result<File, JournalError> {
    let lock_path = path.join(LOCK);
    let failed = |cause| JournalError::io("lock", &lock_path, cause);
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&lock_path).map_err(failed)?;
    // SAFETY: the descriptor is open; the call touches no memory of ours.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let cause = io::Error::last_os_error();
        if cause.kind() != io::ErrorKind::WouldBlock {
            return Err(failed(cause));
        }
        let mut holder = String::new();
        let read = file.take(32).read_to_string(&mut holder);
        let holder = read.ok().and_then(|_| holder.trim().parse::<u32>().ok());
        let holder = holder.map_or("another process".into(), |holder| format!("process {holder}"));
        return Err(refuse(path, format!("it is in use by {holder}; stop that first, or use another directory")));
    }
    file.set_len(0).map_err(failed)?;
    file.rewind().map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(file)
}

fn random_id(path: &Path) -> Result<u64, JournalError> {
    let mut bytes = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|cause| JournalError::io("draw a random id for", path, cause))?;
    Ok(u64::from_le_bytes(bytes))
}

fn exists(path: &Path) -> Result<bool, JournalError> {
    fs::exists(path).map_err(|cause| JournalError::io("look for", path, cause))
}

fn refuse(path: &Path, what: String) -> JournalError {
    JournalError::Directory { path: path.to_path_buf(), what }
}

#[cfg(test)]
mod tests;

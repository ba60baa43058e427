//! The data directory: who it is, which families of logs it has, how many shards of each, and that only one process
//! uses it.
//!
//! ```text
//!   data/
//!     LOCK                      held (flock) while a process lives; says which
//!     DIRECTORY                 held, too; format version, families, creation time, random id; a text for people,
//!                               with a checksum
//!     KEY                       authenticates what is derived, see [`crate::key`]
//!     journal/<family>-<n>/     one log each
//! ```
//!
//! Why the logs are created before `DIRECTORY` gets its name: from then on a missing segment is a loss, not a
//! beginning. A family that is wanted and not yet listed is added in the same way: its logs, then a new description
//! that replaces the old one.
//!
//! Why the families are written down: a program that knows less of them than the directory has would serve a part and
//! call it all, and one that believes a log may forget must not open one that was promised to be whole.

mod archive_list;
mod copied;
mod creation;
mod description;
mod guard;
mod lock;
mod owner;
mod remains;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tidegate_planted::{Bug, is_planted};

use crate::damage::missing_log;
use crate::disk::{Disk, Hold, RealDisk, is_at};
use crate::folder::Folder;
use crate::limits::{FAMILIES_MAX, SHARDS_MAX};
use crate::{Family, JournalError, Key, LogId, Retention, recovery};

use creation::{create, extend, unlisted};
use description::{Description, Listed};
use lock::{Locks, Unlocked, lock, lock_description, lock_shared};
use remains::{refuse_left_over, refuse_remains};

pub use copied::check_description;
pub use lock::LockedFile;

pub use guard::{Guard, GuardFault, Look};
pub use owner::check_owner;

/// The version of the directory's layout.
pub const DIRECTORY_VERSION: u32 = 3;

const DIRECTORY: &str = "DIRECTORY";
const DIRECTORY_NEW: &str = "DIRECTORY.new";
const LOCK: &str = "LOCK";
/// The folder of all logs.
const JOURNAL: &str = "journal";
/// A file that a directory has as long as a restore fills it. Its text is a line for people.
pub const UNFINISHED_RESTORE: &str = "RESTORE-UNFINISHED";

/// Whether a family's number of shards may differ from what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardCount {
    /// What is wanted is what must be: a key's shard follows from the number, which somebody configured.
    Fixed {
        /// The key of the configuration that says it, for the words of a refusal.
        setting: &'static str,
    },
    /// The directory keeps the number that it began with, whatever is wanted later: ask [`Directory::shards`].
    Kept,
}

/// A family that a program serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which.
    pub family: Family,
    /// How many shards; 1 to [`SHARDS_MAX`].
    pub shards: u16,
    /// Whether a directory with another number is refused or keeps it.
    pub count: ShardCount,
}

/// A data directory, locked for as long as this value lives.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    description: Description,
    /// None in a directory that is only looked at.
    locks: Option<Arc<Mutex<Locks>>>,
    /// None in one that was opened by a tool.
    key: Option<Key>,
    /// Whether this call of [`Directory::open_or_create`] made it.
    is_new: bool,
    /// As long as it is locked, paths below it lead to it, also when it is moved. None in one that is only looked at.
    hold: Option<Arc<Hold>>,
}

impl Directory {
    /// Opens the directory at `path`, or creates it with the wanted families and their empty logs. One that lacks a
    /// wanted family gets it.
    ///
    /// Refuses a directory of another version, one that another process uses, one whose description or whose logs are
    /// missing; one with a family that is not wanted (it would not be served), and one that has a wanted family
    /// otherwise than it is wanted; one of another user; and to make one where something remains of another, which is
    /// left as it is.
    pub fn open_or_create(path: &Path, wanted: &[Wanted], created_at_ms: u64) -> Result<Directory, JournalError> {
        check(wanted);
        check_owner(path)?;
        Directory::would_be_new(path)?;
        RealDisk.create_dir_all(path).map_err(|cause| JournalError::io("create", path, cause))?;
        let mut locks = lock(path).map_err(|unlocked| unlocked.into_error(path))?;
        let hold = hold(path, &locks)?;
        // Nobody makes one now but this process.
        let is_new = may_be_made(&RealDisk, path)?;
        if is_new {
            create(&RealDisk, path, wanted, created_at_ms)?;
        }
        let mut description = Description::read(&RealDisk, &path.join(DIRECTORY))?;
        let families: Vec<Family> = wanted.iter().map(|wanted| wanted.family).collect();
        refuse_foreign(path, &description, &families)?;
        for listed in &description.families {
            if !wanted.iter().any(|wanted| wanted.family.number == listed.number) {
                return Err(refuse(path, unknown_family(listed)));
            }
        }
        for wanted in wanted {
            match description.family(wanted.family.number) {
                Some(listed) => agree(path, listed, &wanted.family)?,
                None => continue,
            }
            let found = description.shards(wanted.family.number);
            if let ShardCount::Fixed { setting } = wanted.count
                && found != wanted.shards
            {
                return Err(refuse(path, other_count(wanted, found, setting)));
            }
        }
        find_logs(path, &description, &families)?;
        if wanted.iter().any(|wanted| description.family(wanted.family.number).is_none()) {
            description = extend(&RealDisk, path, description, wanted)?;
        }
        lock_made(path, &mut locks)?;
        let key = Some(Key::read_or_create(&RealDisk, path)?);
        assert!(wanted.iter().all(|wanted| description.shards(wanted.family.number) > 0), "what is wanted is there");
        let locks = Some(Arc::new(Mutex::new(locks)));
        Ok(Directory { path: path.to_path_buf(), description, locks, key, is_new, hold: Some(hold) })
    }

    /// Whether [`Directory::open_or_create`] would make a new directory at `path`. Refuses what it refuses for what is
    /// left there of another one, or because another process makes it now; changes nothing.
    pub fn would_be_new(path: &Path) -> Result<bool, JournalError> {
        may_be_made(&RealDisk, path).map_err(|refused| match lock_shared(path) {
            // What is not complete yet looks like something that remains.
            Err(in_use @ JournalError::Directory { .. }) => in_use,
            _ => refused,
        })
    }

    /// Opens an existing directory for a tool that reads logs of `families`, and changes nothing in it. What it has of
    /// other families is left alone: see [`Directory::others`]. Works in a directory that may only be read, too.
    pub fn open(path: &Path, families: &[Family]) -> Result<Directory, JournalError> {
        Directory::open_to_judge(path, families)?.with_all_logs(families)
    }

    /// The same for a tool that looks at each log and says of each what is wrong: one that is missing keeps none from
    /// being looked at.
    pub fn open_to_judge(path: &Path, families: &[Family]) -> Result<Directory, JournalError> {
        find_description(path)?;
        // LOCK is made if it is not there: somebody else's could not be locked by the owner.
        if !owner::is_owner(path) {
            return Directory::read(path, families, Some(lock_shared(path)?));
        }
        let lock = match lock(path) {
            Err(Unlocked::ReadOnly(_)) => lock_shared(path)?,
            locked => locked.map_err(|unlocked| unlocked.into_error(path))?,
        };
        Directory::read(path, families, Some(lock))
    }

    /// The same for a tool that writes: refuses a directory that may only be read, and one of another user.
    pub fn open_to_write(path: &Path, families: &[Family]) -> Result<Directory, JournalError> {
        Directory::open_to_mend(path, families)?.with_all_logs(families)
    }

    /// The same for a tool that also begins a log anew: one may be missing.
    pub fn open_to_mend(path: &Path, families: &[Family]) -> Result<Directory, JournalError> {
        find_description(path)?;
        check_owner(path)?;
        let lock = lock(path).map_err(|unlocked| unlocked.into_error(path))?;
        Directory::read(path, families, Some(lock))
    }

    /// Looks at an existing directory that a server may be using, for a tool that copies logs of `families`.
    pub fn look_at(path: &Path, families: &[Family]) -> Result<Directory, JournalError> {
        find_description(path)?;
        Directory::read(path, families, None)?.with_all_logs(families)
    }

    fn read(path: &Path, families: &[Family], locks: Option<Locks>) -> Result<Directory, JournalError> {
        let hold = locks.as_ref().map(|locks| hold(path, locks)).transpose()?;
        let description = Description::read(&RealDisk, &path.join(DIRECTORY))?;
        refuse_foreign(path, &description, families)?;
        for family in families {
            if let Some(listed) = description.family(family.number) {
                agree(path, listed, family)?;
            }
        }
        refuse_unlisted(path, &description, families)?;
        let locks = locks.map(|locks| Arc::new(Mutex::new(locks)));
        Ok(Directory { path: path.to_path_buf(), description, locks, key: None, is_new: false, hold })
    }

    /// This directory, if each of its logs of these families is there.
    fn with_all_logs(self, families: &[Family]) -> Result<Directory, JournalError> {
        find_logs(&self.path, &self.description, families)?;
        Ok(self)
    }

    /// Whether a process holds the lock of this directory now. One that is only looked at may be in use.
    pub fn is_in_use(&self) -> Result<bool, JournalError> {
        if self.locks.is_some() {
            return Ok(true);
        }
        match lock_shared(&self.path) {
            Ok(_) => Ok(false),
            Err(JournalError::Directory { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Its key, if it was opened to be served: whoever writes snapshots uses this one, whatever happens to the file.
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// Looks after it while it is served; none if it was not opened to be.
    pub fn guard(&self) -> Result<Option<Guard>, JournalError> {
        let (Some(locks), Some(key), Some(hold)) = (&self.locks, &self.key, &self.hold) else { return Ok(None) };
        Guard::new(&self.path, key.clone(), locks.clone(), hold.clone()).map(Some)
    }

    /// Whether it did not exist before it was opened: it was made then, or its creation was finished.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many shards of this family it has: none if it was opened with [`Directory::open`] and never had any.
    pub fn shards(&self, family: Family) -> u16 {
        self.description.shards(family.number)
    }

    /// The logs of all shards of this family, ascending.
    pub fn logs(&self, family: Family) -> impl Iterator<Item = LogId> + use<> {
        let id = self.description.id;
        (0..self.shards(family)).map(move |shard| family.log(id, shard))
    }

    /// Names of the families that are not among `families`: what a tool did not look at.
    pub fn others(&self, families: &[Family]) -> impl Iterator<Item = &str> {
        let is_other = |listed: &&Listed| families.iter().all(|family| family.number != listed.number);
        self.description.families.iter().filter(is_other).map(|listed| &*listed.name)
    }

    /// The random number that it got when it was created; every [`LogId`] of it has that.
    pub fn id(&self) -> u64 {
        self.description.id
    }

    /// When it was created, in milliseconds since the Unix epoch.
    pub fn created_at_ms(&self) -> u64 {
        self.description.created_at_ms
    }
}

/// Holds the directory at `path`, in which `locks` were taken.
fn hold(path: &Path, locks: &Locks) -> Result<Arc<Hold>, JournalError> {
    let hold = Hold::take(path).map_err(|cause| JournalError::io("open", path, cause))?;
    for (file, name) in [(&locks.lock, LOCK), (&locks.description, DIRECTORY)] {
        let (Some(file), path_of) = (file, path.join(name)) else { continue };
        if !is_at(file, &path_of).map_err(|cause| JournalError::io("look at", &path_of, cause))? {
            return Err(refuse(path, "it was moved or replaced while it was opened: try again".into()));
        }
    }
    Ok(Arc::new(hold))
}

/// Whether there is no directory at `path` and one may be made there; refuses it where something is left of another.
fn may_be_made<D: Disk>(disk: &D, path: &Path) -> Result<bool, JournalError> {
    if exists(disk, &path.join(DIRECTORY))? {
        return Ok(false);
    }
    refuse_unfinished(disk, path)?;
    refuse_remains(disk, path)?;
    Ok(true)
}

/// Locks `DIRECTORY` as well, if it was made or replaced since `locks` were taken. Nobody else has it: `LOCK` is held.
fn lock_made(path: &Path, locks: &mut Locks) -> Result<(), JournalError> {
    let description = path.join(DIRECTORY);
    let is_locked = match &locks.description {
        Some(file) => is_at(file, &description).map_err(|cause| JournalError::io("look at", &description, cause))?,
        None => false,
    };
    if !is_locked {
        locks.description = lock_description(path, libc::LOCK_EX)?;
    }
    Ok(())
}

/// What a program wants is written in it; a contradiction is a bug.
fn check(wanted: &[Wanted]) {
    assert!((1..=FAMILIES_MAX).contains(&wanted.len()), "a directory has 1 to {FAMILIES_MAX} families");
    for (index, Wanted { family, shards, .. }) in wanted.iter().enumerate() {
        family.check();
        assert!((1..=SHARDS_MAX).contains(shards), "a family has 1 to {SHARDS_MAX} shards, not {shards}");
        let others = wanted[..index].iter().map(|other| other.family);
        for other in others {
            assert!(other.number != family.number, "family {} is wanted twice", family.number);
            assert!(other.name != family.name, "two families are called \"{}\"", family.name);
        }
    }
}

/// Refuses a directory that has records of these families in logs that it does not list. Why: whoever reads only what
/// is listed would call a part the whole.
fn refuse_unlisted(path: &Path, description: &Description, families: &[Family]) -> Result<(), JournalError> {
    let journal = path.join(JOURNAL);
    let names = match RealDisk.list(&journal) {
        // Each log is missing, and whoever wants one says so.
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        names => names.map_err(|cause| JournalError::io("list", &journal, cause))?,
    };
    for family in families {
        let number = |name: &String| name.strip_prefix(family.name)?.strip_prefix('-')?.parse::<u16>().ok();
        let is_unlisted = |shard: &u16| *shard >= description.shards(family.number) && *shard < SHARDS_MAX;
        for shard in names.iter().filter_map(number).filter(is_unlisted) {
            let folder = Folder::new(RealDisk, path, family, family.log(description.id, shard));
            // An addition that was cut short leaves empty logs.
            if !folder.list_segments()?.is_empty() && !recovery::is_untouched(&folder)? {
                return Err(refuse(path, unlisted(&folder, family)));
            }
        }
    }
    Ok(())
}

/// That `DIRECTORY` is of the same directory as the logs. Each segment says of which one it is; a single one of another
/// directory is told by whoever opens it.
fn refuse_foreign(path: &Path, description: &Description, families: &[Family]) -> Result<(), JournalError> {
    let mut foreign = None;
    for family in families {
        for shard in 0..description.shards(family.number) {
            let folder = Folder::new(RealDisk, path, family, family.log(description.id, shard));
            let Some(id) = folder.directory_of_newest() else { continue };
            if id == description.id || is_planted(Bug::ForeignDirectoryServed) {
                return Ok(());
            }
            foreign = Some(id);
        }
    }
    let Some(id) = foreign else { return Ok(()) };
    let what = format!(
        "its file DIRECTORY is another data directory's: it says id {:016x}, and the logs in {JOURNAL} are of id \
         {id:016x}. The logs are as they were. Put back the file DIRECTORY of this one. {WHERE_COPIES_ARE}",
        description.id
    );
    Err(refuse(path, what))
}

/// Where an operator finds a good `DIRECTORY`.
const WHERE_COPIES_ARE: &str = "Each backup of this directory has one (backups/NAME/DIRECTORY in the directory of \
                                backups), and it changes only when a program adds a family of logs";

/// That every listed log of these families is there.
fn find_logs(path: &Path, description: &Description, families: &[Family]) -> Result<(), JournalError> {
    for family in families {
        for shard in 0..description.shards(family.number) {
            let folder = Folder::new(RealDisk, path, family, family.log(description.id, shard));
            if !exists(&RealDisk, &folder.path)? || folder.list_segments()?.is_empty() {
                return Err(missing_log(&folder));
            }
        }
    }
    Ok(())
}

/// That the program means by this number what the directory does.
fn agree(path: &Path, listed: &Listed, family: &Family) -> Result<(), JournalError> {
    if listed.name != family.name {
        let what = format!(
            "its family {} is \"{}\", and this program calls it \"{}\": use the program that wrote it",
            listed.number, listed.name, family.name
        );
        return Err(refuse(path, what));
    }
    if listed.retention != family.retention {
        let promise = |retention| match retention {
            Retention::Whole => "keeps its logs whole for ever",
            Retention::SinceSnapshot => "forgets what snapshots hold",
        };
        let what = format!(
            "its family {} \"{}\" {}, and this program's {}: use the program that wrote it",
            listed.number,
            listed.name,
            promise(listed.retention),
            promise(family.retention)
        );
        return Err(refuse(path, what));
    }
    Ok(())
}

fn unknown_family(listed: &Listed) -> String {
    format!(
        "it has a family {} \"{}\" ({} shards) that this program does not serve: use a program that does, or begin \
         another \
         directory",
        listed.number, listed.name, listed.shards
    )
}

fn other_count(wanted: &Wanted, found: u16, setting: &str) -> String {
    let Wanted { family, shards, .. } = wanted;
    format!(
        "it was created with {found} shards of family {} \"{}\" and cannot be used with {shards}: a key's shard \
         follows from \
         their number. Set {setting} = {found}, or begin another directory",
        family.number, family.name
    )
}

/// That there is a data directory at `path`.
fn find_description(path: &Path) -> Result<(), JournalError> {
    if exists(&RealDisk, &path.join(DIRECTORY))? {
        return Ok(());
    }
    refuse_unfinished(&RealDisk, path)?;
    if !path.is_dir() {
        let what = if exists(&RealDisk, path)? { "it is no directory" } else { "there is no such directory" };
        return Err(refuse(path, what.into()));
    }
    let names = RealDisk.list(path).map_err(|cause| JournalError::io("list", path, cause))?;
    refuse_left_over(&RealDisk, path, &names)?;
    Err(refuse(path, "there is no file DIRECTORY in it: not a data directory, or one that never started".into()))
}

/// Refuses what a restore left that did not come to its end.
fn refuse_unfinished<D: Disk>(disk: &D, path: &Path) -> Result<(), JournalError> {
    if !exists(disk, &path.join(UNFINISHED_RESTORE))? {
        return Ok(());
    }
    let what = format!(
        "a restore was writing it and did not come to its end (it has the file {UNFINISHED_RESTORE}). Unless that \
         restore still runs, restore into it again (tidegate restore --from BACKUP --data {}): that takes the place of \
         what is there. The backup is as it was",
        path.display()
    );
    Err(refuse(path, what))
}

fn exists<D: Disk>(disk: &D, path: &Path) -> Result<bool, JournalError> {
    match disk.exists(path) {
        // What should be the directory around it is a file.
        Err(cause) if cause.kind() == ErrorKind::NotADirectory => Ok(false),
        found => found.map_err(|cause| JournalError::io("look for", path, cause)),
    }
}

/// That the snapshots in the data directory at `path`, if there are some, can be verified: that its key is there, and
/// is whole. No server starts without.
pub fn check_key(path: &Path) -> Result<(), JournalError> {
    Key::check(&RealDisk, path)
}

fn refuse(path: &Path, what: String) -> JournalError {
    JournalError::Directory { path: path.to_path_buf(), what }
}

#[cfg(test)]
mod tests;

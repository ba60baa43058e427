//! The files of a directory of backups, and how bytes get into them.
//!
//! ```text
//!   DIR/LOCK                          held (flock) while a backup is taken
//!   DIR/journal/<log>/segment-….tgj   as in a data directory; what is behind the longest backup's bytes is nobody's
//!   DIR/backups/<name>/               MANIFEST, DIRECTORY, KEY, jwt.key, <log>.tgs; appears whole, by a rename
//! ```

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tidegate_journal::key::{KEY_FILE, Key};
use tidegate_journal::{Cursor, Position};

use crate::destination::around;
use crate::error::BackupError;
use crate::manifest::{FileCopy, Manifest, SegmentCopy};

pub(crate) const MANIFEST: &str = "MANIFEST";
pub(crate) const DIRECTORY: &str = "DIRECTORY";
/// Files of a data directory that belong to its identity, where they are there: the key of its snapshots, and the one
/// that signs tokens, unless the configuration has it elsewhere.
pub(crate) const IDENTITY: [&str; 3] = [DIRECTORY, KEY_FILE, "jwt.key"];
const BACKUPS: &str = "backups";
const LOCK: &str = "LOCK";
/// How much is copied at a time.
const COPY_BYTES: usize = 1 << 20;
/// Longer manifests are somebody else's files: a line for each segment has less than 300 bytes.
const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// A directory of backups.
pub(crate) struct Store {
    pub root: PathBuf,
}

impl Store {
    /// The folder of the backup of this name.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.root.join(BACKUPS).join(name)
    }

    /// Names of all backups, oldest first.
    pub fn names(&self) -> Result<Vec<String>, BackupError> {
        let folder = self.root.join(BACKUPS);
        let listed = fs::read_dir(&folder).map_err(|cause| match cause.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                let (root, what) = (self.root.display(), "what `tidegate backup --to` was given is one");
                BackupError::Refused(format!(
                    "{root}: it is no directory of backups: no folder {BACKUPS} is in it; {what}"
                ))
            }
            _ => BackupError::io("list the backups in", &folder)(cause),
        })?;
        let mut names = Vec::new();
        for entry in listed {
            let name = entry.map_err(BackupError::io("list", &folder))?.file_name().to_string_lossy().into_owned();
            names.extend((!name.starts_with('.')).then_some(name));
        }
        names.sort();
        Ok(names)
    }

    /// What the backup of this name consists of.
    pub fn manifest(&self, name: &str) -> Result<Manifest, BackupError> {
        let path = self.folder(name).join(MANIFEST);
        let advice = "use another backup";
        let file = File::open(&path).map_err(|cause| match cause.kind() {
            ErrorKind::NotFound => {
                let what = "it is missing, so nobody can tell what this backup has";
                BackupError::damaged(&path, format!("{what}; {advice}, or remove this folder"))
            }
            _ => BackupError::io("open", &path)(cause),
        })?;
        let mut bytes = Vec::new();
        file.take(MANIFEST_BYTES_MAX).read_to_end(&mut bytes).map_err(BackupError::io("read", &path))?;
        let text = String::from_utf8(bytes).map_err(|_| "it is no text".to_owned());
        let manifest = text.and_then(|text| Manifest::parse(&text));
        manifest.map_err(|what| BackupError::damaged(&path, format!("{what}; {advice}")))
    }

    /// That the key among `files` of a backup, if it has one, is a key. An earlier build copied a damaged one, too,
    /// with the hash of what it was.
    pub fn check_key(&self, name: &str, files: &[FileCopy]) -> Result<(), BackupError> {
        if !files.iter().any(|file| file.name == KEY_FILE) {
            return Ok(());
        }
        let path = self.folder(name).join(KEY_FILE);
        let bytes = fs::read(&path).map_err(BackupError::io("read", &path))?;
        let advice = "a directory restored with it would not start: use another backup";
        Key::parse(&bytes).map(drop).map_err(|what| BackupError::damaged(&path, format!("{what}; {advice}")))
    }

    /// Refuses a directory that others use for something else.
    pub fn check_free(&self) -> Result<(), BackupError> {
        let is_empty = || fs::read_dir(&self.root).map_or(true, |mut entries| entries.next().is_none());
        if self.folder("").is_dir() || is_empty() {
            return Ok(());
        }
        let what = "it is not empty and has no backups: give another directory, or an empty one";
        Err(BackupError::Refused(format!("{}: {what}", self.root.display())))
    }

    /// Keeps other backups out for as long as the file is open.
    pub fn lock(&self) -> Result<File, BackupError> {
        let path = self.root.join(LOCK);
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(BackupError::io("open", &path))?;
        // SAFETY: the descriptor is open; the call touches no memory of ours.
        match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
            0 => Ok(file),
            _ => Err(BackupError::Refused(format!("{}: another backup is being taken there", self.root.display()))),
        }
    }
}

/// Which bytes of which segment file backups have, for all backups of a directory.
pub(crate) struct Held(HashMap<(String, Position), SegmentCopy>);

impl Held {
    /// The longest copy of each segment. Refuses backups of another data directory. A backup whose manifest is damaged
    /// is passed over, unless all are, and told in `remarks`.
    pub fn of(store: &Store, directory: u64, remarks: &mut Vec<String>) -> Result<Held, BackupError> {
        let mut held: HashMap<(String, Position), SegmentCopy> = HashMap::new();
        let mut manifests: Vec<_> = store.names()?.iter().map(|name| store.manifest(name)).collect();
        if manifests.iter().any(Result::is_ok) {
            let of_lost = |error: &BackupError| format!("{error}. That backup cannot be restored: remove its folder");
            remarks.extend(manifests.iter().filter_map(|manifest| manifest.as_ref().err()).map(of_lost));
            manifests.retain(Result::is_ok);
        }
        for manifest in manifests {
            let manifest = manifest?;
            if manifest.directory != directory {
                return Err(BackupError::Refused(format!(
                    "{} has backups of data directory {:016x}, and this is {directory:016x}: give each its own",
                    store.root.display(),
                    manifest.directory
                )));
            }
            for log in manifest.logs {
                for segment in log.segments {
                    let longest = held.entry((log.name.clone(), segment.first)).or_insert_with(|| segment.clone());
                    if segment.bytes > longest.bytes {
                        *longest = segment;
                    }
                }
            }
        }
        Ok(Held(held))
    }

    /// Up to where backups have this log.
    pub fn end(&self, log: &str) -> Option<Cursor> {
        let ends = self.0.iter().filter(|((name, _), _)| name == log).map(|(_, segment)| segment.end);
        ends.max_by_key(|end| end.position)
    }

    /// What is held of the segment of this log.
    pub fn segment(&self, log: &str, first: Position) -> Option<&SegmentCopy> {
        self.0.get(&(log.to_owned(), first))
    }
}

/// Creates a folder and those around it, for their owner only, durably: a copy is not durable in a folder that is not.
pub(crate) fn create_folder(path: &Path) -> Result<(), BackupError> {
    if path.is_dir() {
        return Ok(());
    }
    create_folder(around(path))?;
    // Recursive: another thread may have made it since.
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(BackupError::io("create", path))?;
    sync_folder(around(path))
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), BackupError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(BackupError::io("sync", path))
}

/// Writes a small file, durably, for its owner only.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
    let write = || {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(BackupError::io("write", path))
}

/// Opens a file to be written, created if it is not there.
pub(crate) fn open_target(path: &Path) -> Result<File, BackupError> {
    let opened = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path);
    opened.map_err(BackupError::io("open", path))
}

/// Reads from where the file stands, exactly so many bytes, hashes them, and writes them to `target`, if there is one.
/// `copied` is told of each piece.
pub(crate) fn copy_bytes(
    (source, path): (&mut File, &Path),
    mut target: Option<(&mut File, &Path)>,
    bytes: u64,
    hasher: &mut blake3::Hasher,
    copied: &mut dyn FnMut(u64),
) -> Result<(), BackupError> {
    let mut buffer = vec![0; COPY_BYTES.min(usize::try_from(bytes).unwrap_or(COPY_BYTES)).max(1)];
    let mut left = bytes;
    while left > 0 {
        let piece = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = source.read(&mut buffer[..piece]).map_err(BackupError::io("read", path))?;
        if read == 0 {
            return Err(BackupError::damaged(path, format!("it ends {left} bytes too early")));
        }
        hasher.update(&buffer[..read]);
        if let Some((target, path)) = &mut target {
            target.write_all(&buffer[..read]).map_err(BackupError::io("write", path))?;
        }
        left -= read as u64;
        copied(read as u64);
    }
    Ok(())
}

/// Makes a file as long as `bytes`, and stands at its end.
pub(crate) fn end_at(file: &mut File, path: &Path, bytes: u64) -> Result<(), BackupError> {
    file.set_len(bytes).map_err(BackupError::io("cut", path))?;
    file.seek(SeekFrom::Start(bytes)).map(|_| ()).map_err(BackupError::io("seek in", path))
}

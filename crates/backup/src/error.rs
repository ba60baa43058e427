//! How a backup or a restore fails, in words for the person who meets it.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_journal::JournalError;
use tidegate_journal::disk::owner::cause_words;

/// Why there is no backup, or no restored directory.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The logs.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The world.
    #[error("{}: cannot {doing}: {}", path.display(), cause_words(path, cause))]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A file of a backup is not what was written.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// A restore failed, and what it had made until then could not be removed.
    #[error(
        "{error}. What was restored until then could not be removed ({cause}). No server starts on {}: it is marked as \
         unfinished, and a restore into it takes its place",
        data.display()
    )]
    Left {
        /// Why it failed.
        error: Box<BackupError>,
        /// The directory that is left.
        data: PathBuf,
        /// Why it is.
        cause: io::Error,
    },
    /// It cannot be done as it was asked.
    #[error("{0}")]
    Refused(String),
}

impl BackupError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
        let path = path.to_path_buf();
        move |cause| BackupError::Io { doing, path, cause }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> BackupError {
        BackupError::Damaged { path: path.to_path_buf(), what: what.into() }
    }
}

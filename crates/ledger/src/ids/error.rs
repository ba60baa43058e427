//! Errors of the index's files.

use std::io;
use std::path::{Path, PathBuf};

/// Why the id index cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum IdsError {
    /// The operating system refused.
    #[error("id index: cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not as it was written. The next start deletes the index and builds it again from the journal.
    #[error("id index: {} is damaged: {what}; restart to rebuild the index from the journal", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl IdsError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> IdsError {
        move |source| IdsError::Io { action, path: path.to_owned(), source }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> IdsError {
        IdsError::Damaged { path: path.to_owned(), what: what.into() }
    }
}

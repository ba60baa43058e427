//! Errors of the index's files.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_disk::owner::cause_words;
use tidegate_machines::DamagedPlace;

use super::run::RunHeader;

/// Why the id index cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum IdsError {
    /// The operating system refused.
    #[error("id index: cannot {action} {}: {}", path.display(), cause_words(path, cause))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A file is not as it was written. The next start deletes the index and builds it again from the journal.
    #[error("id index: {} is damaged: {what}; a start rebuilds the index from the journal", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl IdsError {
    /// The place that it speaks of, from the data directory on.
    pub fn place(&self) -> DamagedPlace {
        let (path, what) = match self {
            IdsError::Io { action, path, cause } => (path, format!("cannot {action}: {}", cause_words(path, cause))),
            IdsError::Damaged { path, what } => (path, what.clone()),
        };
        // `ids/<log>/<file>`: the index knows only its own directory's path.
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        let file = parts[parts.len().saturating_sub(3)..].join("/");
        // Which page it is stands in the words.
        let digits =
            what.strip_prefix("page ").unwrap_or("").chars().take_while(char::is_ascii_digit).collect::<String>();
        let offset = digits.parse().map_or(0, RunHeader::page_offset);
        let lost = "what some ids stand for; a restart builds the index again from the journal".into();
        DamagedPlace { file: file.into(), offset, what: what.into(), lost, is_away: false }
    }

    /// Whether an index with such a file is of no use any more: it is not as it was written, or something else stands
    /// there, or the disk does not give it. A system that is short of something may give it later.
    pub(super) fn is_of_the_file(&self) -> bool {
        match self {
            IdsError::Damaged { .. } => true,
            IdsError::Io { cause, .. } => matches!(cause.raw_os_error(), Some(libc::EIO | libc::EISDIR | libc::ELOOP)),
        }
    }

    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> IdsError {
        move |cause| IdsError::Io { action, path: path.to_owned(), cause }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> IdsError {
        IdsError::Damaged { path: path.to_owned(), what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_is_short_of_something_is_no_fault_of_a_file() {
        let of = |code| IdsError::io("open", Path::new("x.run"))(io::Error::from_raw_os_error(code)).is_of_the_file();
        assert_eq!([libc::EIO, libc::EISDIR, libc::ELOOP].map(of), [true; 3]);
        assert_eq!([libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EACCES].map(of), [false; 4]);
        assert!(IdsError::damaged(Path::new("x.run"), "it rotted").is_of_the_file());
    }
}

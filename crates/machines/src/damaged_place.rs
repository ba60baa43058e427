//! Names a place of stored bytes that cannot be read any more, for all who must be told.

use std::fmt;

/// Stored bytes that are not what was written, or that nobody gives: which, and what cannot be read without them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DamagedPlace {
    /// The file, from the data directory on.
    pub file: Box<str>,
    /// Offset in that file at which the first bad byte may be.
    pub offset: u64,
    /// What is wrong there.
    pub what: Box<str>,
    /// Which records cannot be read, with their sequences, as far as it can be told.
    pub lost: Box<str>,
    /// The file is not where it should be, or cannot be opened. Its bytes may be sound: it is read again when it is
    /// back.
    pub is_away: bool,
}

impl fmt::Display for DamagedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DamagedPlace { file, offset, what, lost, is_away } = self;
        match is_away {
            true => write!(f, "{file}: {what}; it has {lost}"),
            false => write!(f, "{file} is damaged at offset {offset}: {what}; lost: {lost}"),
        }
    }
}

//! Names a place of stored bytes that cannot be read any more, for all who must be told.

use std::fmt;

/// Stored bytes that are not what was written, or that the disk does not give: which, and what is lost with them.
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
}

impl fmt::Display for DamagedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged at offset {}: {}; lost: {}", self.file, self.offset, self.what, self.lost)
    }
}

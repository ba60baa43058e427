//! A configuration that cannot be used. The error tells the reader which line to change.

use std::fmt;

/// `config/dev.toml:12: gateway.accept_rate = "4k": expected an integer, connections per second`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// File as it was named, or the flag.
    pub place: String,
    /// Line, counted from one; `None` when the whole file is meant.
    pub line: Option<usize>,
    /// What was written, what is wrong, what to do.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.place, self.message),
            None => write!(f, "{}: {}", self.place, self.message),
        }
    }
}

impl std::error::Error for ConfigError {}

//! How an event fails to follow from the state before it.

use std::fmt;

use crate::RecordPosition;

/// An event that cannot have been decided on this state: the journal, or the state it is compared with, is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mismatch {
    /// The record.
    pub position: RecordPosition,
    /// Which kind of event.
    pub event: &'static str,
    /// The account that it names, if the account is known.
    pub account: Option<Box<str>>,
    /// Which figure does not agree, such as `balance`, `available`, `previous record`.
    pub figure: &'static str,
    /// What the fold of all events before says.
    pub expected: i128,
    /// What the event says.
    pub found: i128,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the record at position {} ({}", self.position.0, self.event)?;
        if let Some(account) = &self.account {
            write!(f, ", account {account}")?;
        }
        write!(f, ") does not follow from the records before it: {} is ", self.figure)?;
        write!(f, "{}, the record says {}", self.expected, self.found)
    }
}

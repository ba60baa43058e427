//! Which log it is, and what its family promises about old records.
//!
//! A family is all logs of one use: the shards of a ledger, the shards of topics. Whoever uses logs declares its family
//! as a constant; the journal knows none by name, so that a further one needs no edit here.

use std::fmt;
use std::sync::Arc;

use crate::limits::{FAMILY_NAME_BYTES_MAX, SHARDS_MAX};

/// What becomes of old records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retention {
    /// The log is whole for ever, from the first record on. One without its beginning is damaged.
    Whole,
    /// What a snapshot holds may be forgotten, by whole segments (see [`crate::LogReader::forget_before`]).
    SinceSnapshot,
}

/// All logs of one use. A constant of whoever uses them; data directories write it down, and refuse another one of that
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Family {
    /// Names the family in every file, for ever: from 1.
    pub number: u8,
    /// Names it in folders and for people: lower-case letters, digits and `_`, a letter first.
    pub name: &'static str,
    /// What becomes of its old records.
    pub retention: Retention,
}

impl Family {
    /// The log of one of its shards in the data directory of this id.
    pub const fn log(&self, directory: u64, shard: u16) -> LogId {
        assert!(shard < SHARDS_MAX, "a directory has fewer shards of a family");
        LogId { directory, family: self.number, shard }
    }

    /// The relations that a family's constants must keep; a violation is a bug of whoever declares it.
    pub(crate) fn check(&self) {
        assert!(self.number > 0, "family \"{}\": families are numbered from 1", self.name);
        assert!(is_name(self.name), "family {}: \"{}\" names no folder", self.number, self.name);
    }
}

/// The families whose logs may be opened.
#[derive(Clone, Debug)]
pub(crate) struct Families(Arc<[Family]>);

impl Families {
    /// These; two with one number or name are a bug of the caller.
    pub fn new(families: &[Family]) -> Families {
        families.iter().for_each(Family::check);
        for (index, family) in families.iter().enumerate() {
            let is_new =
                families[..index].iter().all(|other| other.number != family.number && other.name != family.name);
            assert!(is_new, "family {} \"{}\" is declared twice", family.number, family.name);
        }
        Families(families.into())
    }

    /// The family of `log`. One that was not declared is a bug of the caller.
    pub fn of(&self, log: LogId) -> &Family {
        let family = self.0.iter().find(|family| family.number == log.family);
        family.unwrap_or_else(|| panic!("{log}: its family was not declared"))
    }
}

/// Whether `name` may be a family's: it names folders, and stands in a line of `DIRECTORY`.
pub(crate) fn is_name(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= FAMILY_NAME_BYTES_MAX
        && name.bytes().all(letters)
        && name.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
}

/// Names one log for ever. Every group carries it, so that bytes of another directory, family or shard are never taken
/// for ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogId {
    /// The random number that the data directory got when it was created (see [`crate::directory`]).
    pub directory: u64,
    /// Number of its family.
    pub family: u8,
    /// Which shard of that family, counted from zero; below [`SHARDS_MAX`].
    pub shard: u16,
}

/// As messages about a log of the wrong owner say it.
impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log {}/{} of data directory {:016x}", self.family, self.shard, self.directory)
    }
}

#[cfg(test)]
mod tests;

//! One log of a directory of backups, read once for all of them, segment by segment.
//!
//! ```text
//!   segment │ group │ group ▲ group │ group ▲        ▲ where a backup ends, or has its snapshot: a group ends there,
//!                           └ backup 1      └ 2        with the sequence and the chain hash that the manifest says
//! ```
//!
//! Promise: a log that ends at such a place is opened by a start: it is whole groups of one chain up to there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tidegate_journal::disk::RealDisk;
use tidegate_journal::{Cursor, LogFiles, LogId, Position};

use crate::error::BackupError;
use crate::known::Known;
use crate::manifest::LogCopy;
use crate::outline::USE_ANOTHER;
use crate::reading::{Reading, Rested};

/// A place where a group must end.
struct Wanted {
    place: Cursor,
    backup: String,
    /// Whether the backup's log ends there; else its snapshot stands there.
    is_end: bool,
}

/// What is wrong, in words, and the backups that are lost with it.
pub(crate) type Problem = (String, BTreeSet<String>);

/// The groups of one log.
pub(crate) struct Walk {
    files: LogFiles<RealDisk>,
    reading: Reading,
    /// Behind the last group that was read.
    at: Option<Cursor>,
    wanted: BTreeMap<Position, Vec<Wanted>>,
    /// What the records of each backup's log rest on.
    rested: BTreeMap<String, Rested>,
    /// Backups that say the log is another directory's.
    foreign: BTreeSet<String>,
}

impl Walk {
    /// Of the log that these are the files of.
    pub fn new(known: Known, files: LogFiles<RealDisk>) -> Walk {
        let reading = Reading::new(known, files.log());
        let (wanted, rested, foreign) = Default::default();
        Walk { files, reading, at: None, wanted, rested, foreign }
    }

    /// Groups must end where this backup says; `id` is the log by its manifest.
    pub fn want(&mut self, backup: &str, log: &LogCopy, id: LogId) {
        if id != self.files.log() {
            self.foreign.insert(backup.to_owned());
        }
        let mut want = |place: Cursor, is_end| {
            let wanted = self.wanted.entry(place.position).or_default();
            wanted.push(Wanted { place, backup: backup.to_owned(), is_end });
        };
        want(log.end, true);
        if let Some((cursor, _)) = &log.snapshot {
            want(*cursor, false);
        }
    }

    /// What the records of a backup's log rest on, if its end was met.
    pub fn rested_at(&self, backup: &str) -> Option<Rested> {
        self.rested.get(backup).cloned()
    }

    /// The rest of a segment, up to `end`, is not what was copied, which is said elsewhere: it is passed over.
    pub fn pass_over(&mut self, end: Cursor) {
        self.at = None;
        self.wanted = self.wanted.split_off(&Position(end.position.0 + 1));
    }

    /// Reads the segment that begins at `first`; `ends` are behind the last groups that backups have of it, ascending.
    pub fn segment(&mut self, first: Position, ends: &[(Cursor, &str)]) -> Vec<Problem> {
        let Some((end, _)) = ends.last() else { return Vec::new() };
        let path = self.files.path(first);
        let mut problems: Vec<Problem> = Vec::new();
        let foreign: BTreeSet<String> = std::mem::take(&mut self.foreign);
        if !foreign.is_empty() {
            let what = "its manifest is of another data directory than those of other backups of this log";
            problems.push((problem(&path, what, &foreign), foreign));
        }
        let is_cut_at_first = ends.iter().any(|(end, _)| end.position == first);
        let reached = match self.read((first, is_cut_at_first), *end) {
            Ok(()) => end.position,
            Err((error, reached)) => {
                self.at = None;
                let lost = |(end, backup): &(Cursor, &str)| (end.position > reached).then(|| (*backup).to_owned());
                let mut backups: BTreeSet<String> = ends.iter().filter_map(lost).collect();
                if reached == first {
                    backups.extend(ends.iter().map(|(_, backup)| (*backup).to_owned()));
                }
                problems.push((problem(&path, &error.to_string(), &backups), backups));
                reached
            }
        };
        // What is behind the place that was reached is lost with the groups there, which is said.
        let behind = self.wanted.split_off(&Position(end.position.0 + 1));
        let unmet = std::mem::replace(&mut self.wanted, behind);
        for wanted in unmet.into_values().flatten().filter(|wanted| wanted.place.position <= reached) {
            let Cursor { position, sequence, .. } = wanted.place;
            let what = format!("no group ends at position {position}, sequence {sequence}, as the manifest says");
            let backups = BTreeSet::from([wanted.backup]);
            problems.push((problem(&path, &what, &backups), backups));
        }
        problems
    }

    /// Reads its groups, and notes the wanted places that are met; `Err` says up to where it was good. Where no group
    /// is before the end of a backup, the header is all that it has.
    fn read(&mut self, (first, is_cut_at_first): (Position, bool), end: Cursor) -> Result<(), (BackupError, Position)> {
        if is_cut_at_first {
            self.files.check_header(first).map_err(|error| (error.into(), first))?;
        }
        let begins = match self.at.filter(|at| at.position == first) {
            Some(at) => at,
            None => self.files.begins(first).map_err(|error| (error.into(), first))?,
        };
        let mut at = begins;
        let Walk { files, reading, wanted, rested, .. } = self;
        let mut met = |at: Cursor, so_far: &Rested| {
            let Some(here) = wanted.get_mut(&at.position) else { return };
            here.retain(|wanted| {
                let is_met = wanted.place == at;
                if is_met && wanted.is_end {
                    rested.insert(wanted.backup.clone(), so_far.clone());
                }
                !is_met
            });
        };
        met(begins, &reading.rested().clone());
        let read = reading.groups(files, (begins, end), |place, so_far| {
            at = place;
            met(place, so_far);
        });
        read.map_err(|error| (error, at.position))?;
        self.at = Some(at);
        Ok(())
    }
}

fn problem(path: &Path, what: &str, backups: &BTreeSet<String>) -> String {
    let backups: Vec<&str> = backups.iter().map(String::as_str).collect();
    BackupError::damaged(
        path,
        format!(
            "it is what was copied, but cannot be restored: {what}. Backups that need it: {}; {USE_ANOTHER}",
            backups.join(", ")
        ),
    )
    .to_string()
}

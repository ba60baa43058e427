//! What an operator can do about a log whose files are damaged or missing, in words.
//!
//! ```text
//!   a copy of the file ─▶ a backup, the one that reaches furthest ─▶ without both:
//!       damage in the newest segment        cut it, and say --cut
//!       a log that may forget, unreadable   begin it anew behind its snapshot: --anew
//!       the ledger, without its beginning   nothing: no balance follows from the rest
//! ```
//!
//! Promise: each way that is named leads out, and none of them drops a record without a command that says so in the
//! log.

use std::fs;
use std::path::Path;

use tidegate_journal::segment::{SEGMENT_HEADER_BYTES, parse_segment_name};
use tidegate_journal::{Family, JournalError, LogId, Retention};

/// What the folder of a log is called.
pub fn name_of(family: &Family, log: LogId) -> String {
    format!("{}-{}", family.name, log.shard)
}

/// What to do about what is `wrong` with a log of the data directory `data`: damage, which nobody can accept as it is,
/// because records behind it may still be read, and who was told of them could be told so.
pub fn way_out(data: &Path, family: &Family, log: LogId, wrong: &JournalError) -> String {
    let (name, new) = (name_of(family, log), data.with_extension("new"));
    let without = match wrong {
        JournalError::Damaged { segment, offset, .. } => without_a_backup(family, &name, Path::new(segment), *offset),
        JournalError::Io { .. } => String::new(),
        _ => return String::new(),
    };
    format!(
        ". Damage cannot be accepted as it is. Put the file right, or restore a backup into a new directory: tidegate \
         restore --from BACKUPS --data {} --backup NAME. Take the one that reaches furthest: it need not be the \
         newest, which may have been made of the damaged directory. Compare up to which sequence of {name} each of \
         them reaches: tidegate backup --verify BACKUPS says so.{without}",
        new.display()
    )
}

fn without_a_backup(family: &Family, name: &str, segment: &Path, offset: u64) -> String {
    if let Some(way) = way_to_a_missing_end(segment, offset) {
        return way;
    }
    match family.retention {
        Retention::SinceSnapshot => format!(
            " Without a backup: run this command with --anew {name}, which lists what is lost if this log begins anew \
             behind its newest snapshot; with --yes, too, it does, and its files are set aside"
        ),
        Retention::Whole => format!(
            " Without a copy of the file and without a backup, no command goes on with {name}: each balance follows \
             from all of its records. Keep this directory as it is, and begin a new one"
        ),
    }
}

/// How to make a missing end of what is damaged in the newest segment; `None` in any other, where all that is behind it
/// would be lost as well, and where there is nothing before it.
pub fn way_to_a_missing_end(segment: &Path, offset: u64) -> Option<String> {
    let position = |path: &Path| parse_segment_name(&path.file_name()?.to_string_lossy());
    let first = position(segment)?;
    let entries = fs::read_dir(segment.parent()?).ok()?;
    let others = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path != segment);
    let before = others.filter_map(|path| Some((position(&path)?, path))).max();
    if before.as_ref().is_some_and(|(other, _)| *other > first) {
        return None;
    }
    let log = segment.parent()?.file_name()?.to_string_lossy();
    let (name, then) = (segment.display(), format!("and run this command again with --cut {log}"));
    if offset >= SEGMENT_HEADER_BYTES as u64 {
        return Some(format!(
            " Without a backup: keep a copy of {name}, cut it before the damage (truncate -s {offset} {name}), {then}; \
             all records from there on are lost"
        ));
    }
    // The mark of the segment before says that there is this one. Without it, the log ends there.
    let (other, path) = before?;
    let (end, path) = (first.0 - other.0 + SEGMENT_HEADER_BYTES as u64, path.display());
    let away = match segment.exists() {
        true => format!("move {name} to another folder, "),
        false => String::new(),
    };
    Some(format!(
        " Without a backup: {away}cut the mark that says that there is such a file (truncate -s {end} {path}), {then}; \
         all records of {name} are lost"
    ))
}

//! What an operator can do about a log whose files are damaged or missing, in words.
//!
//! ```text
//!   a wrong name ─▶ the right one, or away with it
//!   a copy of the file, also from a backup ─▶ a backup, the one that reaches furthest ─▶ without both:
//!       damage in the newest segment        cut it, and say --cut
//!       damage before the newest snapshot   go on without that file and those before it
//!       a log that may forget, unreadable   begin it anew behind its snapshot: --anew
//!       the ledger, without its beginning   nothing: no balance follows from the rest
//! ```
//!
//! Promise: each way that is named leads out, and none of them drops a record without a command that says so in the
//! log.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use tidegate_journal::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, parse_segment_name, segment_name};
use tidegate_journal::{Family, JournalError, LogId, Position, Retention};

/// What the folder of a log is called.
pub fn name_of(family: &Family, log: LogId) -> String {
    format!("{}-{}", family.name, log.shard)
}

/// What to do about what is `wrong` with a log of the data directory `data`, whose newest snapshot stands at a place
/// (of a log that must be whole, none counts):
/// damage, which nobody can accept as it is, because records behind it may still be read, and who was told of them
/// could be told so.
pub fn way_out(data: &Path, family: &Family, (log, newest): (LogId, Position), wrong: &JournalError) -> String {
    let (name, new) = (name_of(family, log), data.with_extension("new"));
    let (copy, without) = match wrong {
        JournalError::Damaged { segment, offset, .. } => {
            let segment = Path::new(segment);
            if let Some(way) = way_of_a_wrong_name(segment, log) {
                return format!(".{way}");
            }
            (copy_in_a_backup(segment), without_a_backup(family, &name, (segment, *offset), (log, newest)))
        }
        JournalError::Io { .. } => Default::default(),
        _ => return String::new(),
    };
    format!(
        ". Damage cannot be accepted as it is. Put the file right{copy}. Or restore a backup into a new directory: \
         tidegate restore --from BACKUPS --data {} --backup NAME. Take the one that reaches furthest: it need not be \
         the newest, which may have been made of the damaged directory. Compare up to which sequence of {name} each of \
         them reaches: tidegate backup --verify BACKUPS says so.{without}",
        new.display()
    )
}

/// Where the bytes of a segment may still be. The newest one was never complete: what a backup has of it, lacks what
/// came later.
pub fn copy_in_a_backup(segment: &Path) -> String {
    let [Some(file), Some(log)] = [segment.file_name(), segment.parent().and_then(Path::file_name)] else {
        return String::new();
    };
    let others = segments_beside(segment).unwrap_or_default();
    if others.iter().all(|(_, path)| path.as_path() <= segment) {
        return String::new();
    }
    let copy = Path::new("BACKUPS/journal").join(log).join(file);
    format!(
        ": a backup that was taken when this segment was complete has it as {}, and with that nothing is lost. Keep \
         the damaged file elsewhere; a copy that is too short is refused as damaged, too",
        copy.display()
    )
}

/// What to do with a file whose header says that it is another segment than its name does: the one that is asked about,
/// or one beside it that is the one that is asked about.
fn way_of_a_wrong_name(segment: &Path, log: LogId) -> Option<String> {
    let is_named_wrong = |(named, path): &(Position, PathBuf)| {
        let first = header_of(path, log)?;
        (first != *named).then(|| (path.clone(), path.with_file_name(segment_name(first))))
    };
    let wrong = segments_beside(segment)?.iter().filter_map(is_named_wrong).collect::<Vec<_>>();
    let (name, right) = wrong.into_iter().find(|(name, right)| name == segment || right == segment)?;
    let (name_shown, right_shown) = (name.display(), right.display());
    let is_copy = || fs::read(&name).ok().zip(fs::read(&right).ok()).is_some_and(|(one, other)| one == other);
    Some(match right.exists() {
        false => format!(
            " By its header, {name_shown} has a wrong name: rename it (mv {name_shown} {right_shown}) and start the \
             server. Nothing is lost by that"
        ),
        true if is_copy() => format!(
            " {name_shown} is a copy of {right_shown}, under a wrong name. Move it to another folder and start the \
             server: nothing is lost by that, and nothing else is to be done"
        ),
        true => format!(
            " By its header, {name_shown} is {right_shown}, and that is another file. Keep copies of both elsewhere. \
             Move {name_shown} away and start the server; if that is refused, or the audit is (tidegate audit), put it \
             in the place of {right_shown} and try again. Cut neither before both were tried"
        ),
    })
}

/// Where a segment begins, by its header, if that can be read.
fn header_of(segment: &Path, log: LogId) -> Option<Position> {
    let mut page = [0; SEGMENT_HEADER_BYTES];
    fs::File::open(segment).and_then(|mut file| file.read_exact(&mut page)).ok()?;
    SegmentHeader::decode(&page).ok().filter(|header| header.log == log).map(|header| header.first.position)
}

/// How to keep more of a log than its newest snapshot, which stands at a place, without a copy of what is damaged.
pub fn way_without_a_copy(segment: &Path, offset: u64, (log, newest): (LogId, Position)) -> Option<String> {
    way_of_a_wrong_name(segment, log)
        .or_else(|| way_to_a_missing_end(segment, offset))
        .or_else(|| way_behind_the_damage(segment, newest))
}

/// How to go on with the segments behind a damaged or missing one, if the newest snapshot has all that was before them.
fn way_behind_the_damage(segment: &Path, newest: Position) -> Option<String> {
    let first = parse_segment_name(&segment.file_name()?.to_string_lossy())?;
    let segments = segments_beside(segment)?;
    let next = segments.iter().map(|(position, _)| *position).filter(|position| *position > first).min()?;
    let before = segments.iter().filter(|(position, _)| *position < next);
    let before: Vec<String> = before.map(|(_, path)| path.display().to_string()).collect();
    (next <= newest && !before.is_empty()).then(|| {
        format!(
            " Without a copy: the newest snapshot of this log stands behind the damage, so the log can go on without \
             this file and those before it. Move them to another folder, and keep them: {}. Then start the server. The \
             snapshot has what their records did; of messages that wait and whose bodies are in those files, none can \
             be delivered, and the server says so",
            before.join(" ")
        )
    })
}

/// The segments of a log, with the one that is asked about if it is there.
fn segments_beside(segment: &Path) -> Option<Vec<(Position, PathBuf)>> {
    let position = |path: &Path| parse_segment_name(&path.file_name()?.to_string_lossy());
    let entries = fs::read_dir(segment.parent()?).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut segments: Vec<_> = paths.filter_map(|path| Some((position(&path)?, path))).collect();
    segments.sort();
    Some(segments)
}

fn without_a_backup(
    family: &Family,
    name: &str,
    (segment, offset): (&Path, u64),
    (log, newest): (LogId, Position),
) -> String {
    if let Some(way) = way_without_a_copy(segment, offset, (log, newest)) {
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
fn way_to_a_missing_end(segment: &Path, offset: u64) -> Option<String> {
    let first = parse_segment_name(&segment.file_name()?.to_string_lossy())?;
    let before = segments_beside(segment)?.into_iter().filter(|(_, path)| path != segment).max();
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

//! What one backup consists of: a text with a checksum, see `docs/formats/backup.md`.

use std::fmt::Write;

use tidegate_journal::{ChainHash, Cursor, Position, Sequence};

const TITLE: &str = "tidegate backup";
/// The version of this format.
pub const MANIFEST_VERSION: u32 = 1;

/// One backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Id of the data directory.
    pub directory: u64,
    /// When its cuts were taken, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// Files of the data directory that are not logs, beside the manifest.
    pub files: Vec<FileCopy>,
    /// Every log, by family and shard.
    pub logs: Vec<LogCopy>,
}

/// A whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCopy {
    pub name: String,
    pub bytes: u64,
    pub hash: blake3::Hash,
}

/// One log up to its cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogCopy {
    /// `ledger-0`: its folder.
    pub name: String,
    /// The cut.
    pub end: Cursor,
    /// What stands in for the records before the first segment; also the name of its file beside the manifest.
    pub snapshot: Option<(Cursor, FileCopy)>,
    /// Ascending, without a gap.
    pub segments: Vec<SegmentCopy>,
}

/// The beginning of a segment file, or all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCopy {
    /// The place of its first group.
    pub first: Position,
    /// Behind its last group of this backup.
    pub end: Cursor,
    /// So many bytes of the file.
    pub bytes: u64,
    /// Their hash.
    pub hash: blake3::Hash,
    /// Whether they are the whole file, which ends with the mark of a sealed segment.
    pub sealed: bool,
}

impl Manifest {
    /// The file's bytes.
    pub fn text(&self) -> String {
        let mut text = format!("{TITLE}\nformat_version = {MANIFEST_VERSION}\n");
        let mut line = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a text takes lines");
        line(format_args!("directory = {:016x}", self.directory));
        line(format_args!("created_at_ms = {}", self.created_at_ms));
        for FileCopy { name, bytes, hash } in &self.files {
            line(format_args!("file {name} = {bytes} {hash}"));
        }
        for log in &self.logs {
            line(format_args!("log {} = {}", log.name, words(&log.end)));
            if let Some((cursor, FileCopy { bytes, hash, .. })) = &log.snapshot {
                line(format_args!("snapshot = {bytes} {hash} {}", words(cursor)));
            }
            for SegmentCopy { first, end, bytes, hash, sealed } in &log.segments {
                let state = if *sealed { "sealed" } else { "open" };
                line(format_args!("segment {first} = {state} {bytes} {hash} {}", words(end)));
            }
        }
        let checksum = blake3::hash(text.as_bytes());
        text + &format!("checksum = {checksum}\n")
    }

    /// Reads exactly what [`Manifest::text`] writes; `Err` says in words why it is none.
    pub fn parse(text: &str) -> Result<Manifest, String> {
        let rest = text.strip_prefix(TITLE).and_then(|rest| rest.strip_prefix("\nformat_version = "));
        let rest = rest.ok_or_else(|| format!("it does not begin with \"{TITLE}\" and a version"))?;
        let (version, _) = rest.split_once('\n').unwrap_or((rest, ""));
        if version != MANIFEST_VERSION.to_string() {
            return Err(format!("format version {version} is unknown: this program knows version {MANIFEST_VERSION}"));
        }
        let is_written = |manifest: &Manifest| manifest.text() == text;
        Manifest::read(text).filter(is_written).ok_or_else(|| "its checksum does not match".into())
    }

    fn read(text: &str) -> Option<Manifest> {
        let mut manifest = Manifest { directory: 0, created_at_ms: 0, files: Vec::new(), logs: Vec::new() };
        for line in text.lines().skip(2) {
            let (key, value) = line.split_once(" = ")?;
            let (key, name) = key.split_once(' ').unwrap_or((key, ""));
            let mut words = value.split(' ');
            match key {
                "directory" => manifest.directory = u64::from_str_radix(value, 16).ok()?,
                "created_at_ms" => manifest.created_at_ms = value.parse().ok()?,
                "file" => manifest.files.push(file(name.into(), &mut words)?),
                "log" => {
                    let end = cursor(&mut words)?;
                    manifest.logs.push(LogCopy { name: name.into(), end, snapshot: None, segments: Vec::new() });
                }
                "snapshot" => {
                    let log = manifest.logs.last_mut()?;
                    let copy = file(LogCopy::snapshot_name(&log.name), &mut words)?;
                    log.snapshot = Some((cursor(&mut words)?, copy));
                }
                "segment" => manifest.logs.last_mut()?.segments.push(segment(name, &mut words)?),
                "checksum" => {}
                _ => return None,
            }
        }
        Some(manifest)
    }
}

impl LogCopy {
    /// The file of the snapshot of the log of this name, beside the manifest.
    pub fn snapshot_name(log: &str) -> String {
        format!("{log}.tgs")
    }
}

fn words(cursor: &Cursor) -> String {
    format!("{} {} {}", cursor.position, cursor.sequence, cursor.chain)
}

fn file<'a>(name: String, words: &mut impl Iterator<Item = &'a str>) -> Option<FileCopy> {
    let is_name = !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
    is_name.then_some(())?;
    Some(FileCopy { name, bytes: words.next()?.parse().ok()?, hash: hash(words.next()?)? })
}

fn segment<'a>(first: &str, words: &mut impl Iterator<Item = &'a str>) -> Option<SegmentCopy> {
    let sealed = words.next()? == "sealed";
    Some(SegmentCopy {
        first: Position(first.parse().ok()?),
        sealed,
        bytes: words.next()?.parse().ok()?,
        hash: hash(words.next()?)?,
        end: cursor(words)?,
    })
}

fn cursor<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Cursor> {
    Some(Cursor {
        position: Position(words.next()?.parse().ok()?),
        sequence: Sequence(words.next()?.parse().ok()?),
        chain: ChainHash(*hash(words.next()?)?.as_bytes()),
    })
}

fn hash(text: &str) -> Option<blake3::Hash> {
    blake3::Hash::from_hex(text).ok()
}

#[cfg(test)]
mod tests;

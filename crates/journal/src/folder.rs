//! One log's folder: which segments there are, and how to open them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_disk::owner::cause_words;
use tidegate_planted::{Bug, is_planted};

use crate::archive::{self, Archive, Archived};
use crate::disk::{Disk, DiskFile};
use crate::family::Families;
use crate::group::{GROUP_HEADER_BYTES, GroupHeader};
use crate::limits::SHARDS_MAX;
use crate::mend::{MendedByte, Mending, WrongByte};
use crate::segment::{
    MARK_BYTES, Mark, MarkKind, SEGMENT_HEADER_BYTES, SegmentFault, SegmentHeader, offset_of, parse_segment_name,
    segment_name,
};
use crate::{Cursor, Family, JournalError, LogId, Position, Retention};

/// The folder of one log on some disk.
#[derive(Clone, Debug)]
pub(crate) struct Folder<D: Disk> {
    pub disk: D,
    pub path: PathBuf,
    pub log: LogId,
    pub retention: Retention,
    /// Whom to tell of bytes that were put right; `None`: none are.
    pub mending: Option<Mending>,
}

/// The folders of all logs of a data directory.
#[derive(Clone, Debug)]
pub(crate) struct Folders<D: Disk> {
    disk: D,
    data: Arc<Path>,
    families: Families,
    mending: Option<Mending>,
}

impl<D: Disk> Folders<D> {
    pub fn new(disk: D, data: &Path, families: &[Family]) -> Folders<D> {
        Folders { disk, data: data.into(), families: Families::new(families), mending: None }
    }

    /// The same, of a directory that is served: wrong bytes are put right, and told.
    pub fn mending(self, mending: Mending) -> Folders<D> {
        Folders { mending: Some(mending), ..self }
    }

    /// The folder of `log`, whose family was declared.
    pub fn of(&self, log: LogId) -> Folder<D> {
        let folder = Folder::new(self.disk.clone(), &self.data, self.family_of(log), log);
        Folder { mending: self.mending.clone(), ..folder }
    }

    /// The family of `log`. One that was not declared is a bug of the caller.
    pub fn family_of(&self, log: LogId) -> &Family {
        self.families.of(log)
    }
}

impl<D: Disk> Folder<D> {
    /// `journal/<family>-<shard>` in the data directory `data`.
    pub fn new(disk: D, data: &Path, family: &Family, log: LogId) -> Folder<D> {
        assert_eq!(family.number, log.family, "{log}: not a log of family \"{}\"", family.name);
        assert!(log.shard < SHARDS_MAX, "{log}: a directory has fewer shards of a family");
        let path = data.join("journal").join(format!("{}-{}", family.name, log.shard));
        Folder { disk, path, log, retention: family.retention, mending: None }
    }

    /// Whether wrong bytes are put right.
    pub fn mends(&self) -> bool {
        self.mending.is_some()
    }

    /// Whether what is read is put right, and files stay as they are.
    pub fn only_reads_right(&self) -> bool {
        self.mending.as_ref().is_some_and(|mending| !mending.writes())
    }

    /// Whether a wrong byte of the segment at `first` may be written: it is in the directory, and nobody writes it any
    /// more. The next segment has its name before the mark at the end of this one is written.
    pub fn may_write_right(&self, first: Position) -> bool {
        let is_sealed = || {
            let local = self.list_local().ok()?;
            let next = *local.get(local.binary_search(&first).ok()? + 1)?;
            let file = self.disk.open(&self.segment_path(first)).ok()?;
            let mut bytes = [0; MARK_BYTES];
            let got = read_up_to(&file, &mut bytes, offset_of(first, next)).ok()?;
            Some(Mark::decode(&bytes[..got]).ok()?.kind == MarkKind::Sealed)
        };
        self.mending.as_ref().is_some_and(Mending::writes) && is_sealed() == Some(true)
    }

    /// Writes these bytes into the segment at `first`, which is in the directory, durably, and tells of them, also if
    /// that fails. Nobody else writes that file. Whoever only reads tells of them.
    pub fn write_right(&self, first: Position, bytes: &[WrongByte]) -> Result<(), JournalError> {
        if self.only_reads_right() {
            self.tell_unwritten(first, bytes);
            return Ok(());
        }
        let path = self.segment_path(first);
        let written = self.disk.open(&path).and_then(|file| {
            bytes.iter().try_for_each(|byte| file.write_all_at(&[byte.written], byte.at as u64))?;
            file.sync_data()
        });
        bytes.iter().for_each(|byte| self.tell_right(first, *byte, written.is_ok()));
        match (written, bytes.first()) {
            (Err(cause), Some(WrongByte { at, found, written })) => Err(JournalError::NotPutRight {
                segment: self.segment_text(first),
                offset: *at as u64,
                found: *found,
                written: *written,
                cause: cause_words(&path, &cause),
            }),
            _ => Ok(()),
        }
    }

    /// Tells of bytes that are right in what was read of the segment at `first`, and writes them there if that can be.
    pub fn keep_right(&self, first: Position, bytes: &[WrongByte]) {
        match self.may_write_right(first) {
            // Whoever needs them has read them right.
            true => drop(self.write_right(first, bytes)),
            false => self.tell_unwritten(first, bytes),
        }
    }

    /// Tells of bytes that are right in what was read only.
    pub fn tell_unwritten(&self, first: Position, bytes: &[WrongByte]) {
        bytes.iter().for_each(|byte| self.tell_right(first, *byte, false));
    }

    fn tell_right(&self, first: Position, byte: WrongByte, is_durable: bool) {
        let WrongByte { at, found, written } = byte;
        let (log, segment, offset) = (self.log, self.segment_text(first), at as u64);
        let told = MendedByte { log, segment, offset, found, written, is_durable };
        self.mending.iter().for_each(|mending| mending.tell(told.clone()));
    }

    /// Whether the beginning of the log may be gone, see [`crate::forget`].
    pub fn may_forget(&self) -> bool {
        self.retention == Retention::SinceSnapshot
    }

    pub fn segment_path(&self, first: Position) -> PathBuf {
        self.path.join(segment_name(first))
    }

    /// Where the segment's bytes are, for messages: in the directory, or where they were moved to.
    pub fn segment_place(&self, first: Position) -> PathBuf {
        let path = self.segment_path(first);
        if self.may_forget() || self.disk.exists(&path).unwrap_or(true) {
            return path;
        }
        self.archived(first).ok().flatten().map_or(path, |segment| PathBuf::from(segment.at))
    }

    /// The same as a text.
    pub fn segment_text(&self, first: Position) -> String {
        self.segment_place(first).display().to_string()
    }

    /// First positions of all segments of the log, ascending, with those that were moved out of the directory.
    pub fn list_segments(&self) -> Result<Vec<Position>, JournalError> {
        let local = self.list_local()?;
        let archived = self.archived_before(&local)?;
        Ok(archived.iter().map(|segment| segment.first.position).chain(local).collect())
    }

    /// The archived segments before the first of these, the segments in the directory. Only the beginning of a log that
    /// is whole can be missing for that reason, so nothing is looked for where it is there.
    pub fn archived_before(&self, local: &[Position]) -> Result<Vec<Archived>, JournalError> {
        match local.first() {
            Some(first) if !self.may_forget() && *first > Cursor::START.position => {
                let archive = Archive::read(&self.disk, self.data())?;
                Ok(archive.of(&self.name()).filter(|segment| segment.first.position < *first).cloned().collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The segment that begins at `first`, if it was moved out of the directory.
    pub fn archived(&self, first: Position) -> Result<Option<Archived>, JournalError> {
        if self.may_forget() {
            return Ok(None);
        }
        Ok(Archive::read(&self.disk, self.data())?.segment(&self.name(), first).cloned())
    }

    /// A local file with the segment's bytes: in the directory, where it was moved to, or fetched from there.
    pub fn locate(&self, first: Position) -> Result<PathBuf, JournalError> {
        let path = self.segment_path(first);
        if self.disk.exists(&path).map_err(|cause| JournalError::io("look for", &path, cause))? {
            return Ok(path);
        }
        let Some(segment) = self.archived(first)? else { return Ok(path) };
        let path = archive::local_path(self.data(), &segment)?;
        match self.disk.exists(&path) {
            Ok(true) => Ok(path),
            Ok(false) => Err(archive::unopened(&path, ErrorKind::NotFound.into())),
            Err(cause) => Err(archive::unopened(&path, cause)),
        }
    }

    /// The data directory.
    fn data(&self) -> &Path {
        self.path.ancestors().nth(2).expect("a log is in a folder of the journal of a data directory")
    }

    /// `ledger-0`
    fn name(&self) -> String {
        self.path.file_name().expect("a log has a folder").to_string_lossy().into_owned()
    }

    /// First positions of the segments in the directory, ascending.
    pub fn list_local(&self) -> Result<Vec<Position>, JournalError> {
        let names = self.disk.list(&self.path).map_err(|cause| JournalError::io("list", &self.path, cause))?;
        let segments: Vec<Position> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
        assert!(segments.is_sorted_by(|first, next| first < next), "a disk lists names in order");
        Ok(segments)
    }

    /// The same of a log whose folder may be gone: then there is none.
    pub fn list_remaining(&self) -> Result<Vec<Position>, JournalError> {
        match self.disk.exists(&self.path).map_err(|cause| JournalError::io("look for", &self.path, cause))? {
            true => self.list_local(),
            false => Ok(Vec::new()),
        }
    }

    pub fn open_file(&self, first: Position) -> Result<D::File, JournalError> {
        let path = self.segment_path(first);
        let failed = |cause| JournalError::io("open", &path, cause);
        match self.disk.open(&path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => {
                let Some(segment) = self.archived(first)? else { return Err(failed(cause)) };
                let path = archive::local_path(self.data(), &segment)?;
                self.disk.open(&path).map_err(|cause| archive::unopened(&path, cause))
            }
            opened => opened.map_err(failed),
        }
    }

    /// The random id of the data directory that the newest segment here says it is of, if its header can be read.
    pub fn directory_of_newest(&self) -> Option<u64> {
        let newest = *self.list_local().ok()?.last()?;
        let file = self.disk.open(&self.segment_path(newest)).ok()?;
        let mut page = [0; SEGMENT_HEADER_BYTES];
        let got = read_up_to(&file, &mut page, 0).ok()?;
        Some(SegmentHeader::decode(&page[..got]).ok()?.log.directory)
    }

    /// Opens a segment and checks that its header is this log's and agrees with the file's name.
    pub fn open_segment(&self, first: Position) -> Result<(D::File, Cursor), JournalError> {
        let (file, begins) = self.open_rotten(first)?;
        Ok((file, begins?))
    }

    /// The same for a segment whose header may have rotted: then the inner `Err` says so. What is no accident (a header
    /// of another log, or of another version) is refused all the same.
    pub fn open_rotten(&self, first: Position) -> Result<(D::File, Result<Cursor, JournalError>), JournalError> {
        let file = self.open_file(first)?;
        let mut page = [0; SEGMENT_HEADER_BYTES];
        let got = match read_up_to(&file, &mut page, 0) {
            Ok(got) => got,
            Err(cause) => {
                let failed = JournalError::io("read the header of", &self.segment_place(first), cause);
                return Ok((file, Err(failed)));
            }
        };
        let damaged = |what: String| JournalError::Damaged {
            segment: self.segment_text(first),
            offset: 0,
            what,
            lost: match got {
                0 => "all records of this segment: the file is empty".into(),
                1..SEGMENT_HEADER_BYTES => {
                    format!("all records of this segment: the file ends after {got} bytes, within its header")
                }
                _ => "nothing, if its groups follow it: only the segment's header is bad".into(),
            },
        };
        let header = match SegmentHeader::decode(&page[..got]) {
            Ok(header) => header,
            Err(SegmentFault::UnknownVersion(found)) => {
                let (path, known) = (self.segment_place(first), crate::group::FORMAT_VERSION.into());
                return Err(JournalError::UnknownVersion { path, found: found.into(), known });
            }
            Err(SegmentFault::NoMagic) => return Ok((file, Err(damaged("it does not begin like a segment".into())))),
            Err(SegmentFault::Checksum) => {
                return Ok((file, Err(damaged("the segment header's checksum does not match".into()))));
            }
        };
        if got < SEGMENT_HEADER_BYTES {
            let what = format!("the file ends after {got} bytes, within its header");
            let lost = "all records of this segment".into();
            let segment = self.segment_text(first);
            return Ok((file, Err(JournalError::Damaged { segment, offset: 0, what, lost })));
        }
        if header.log != self.log && !is_planted(Bug::ForeignLogServed) {
            let what = format!("it belongs to {}, not to {}", header.log, self.log);
            let lost = "what this file should have: it is of another log. Put back the one that belongs here".into();
            return Err(JournalError::Damaged { segment: self.segment_text(first), offset: 0, what, lost });
        }
        if header.first.position != first {
            return Err(damaged(format!("its header says that it begins at position {}", header.first.position)));
        }
        Ok((file, Ok(header.first)))
    }

    /// Opens a segment for reads of single records. Where the header has rotted, the first group says whose records
    /// these are, and where: one bit there makes no record unreadable.
    pub fn open_for_records(&self, first: Position) -> Result<D::File, JournalError> {
        let (file, begins) = self.open_rotten(first)?;
        match begins {
            Err(rotten) if !self.begins_with_own_group(&file, first) => Err(rotten),
            _ => Ok(file),
        }
    }

    fn begins_with_own_group(&self, file: &D::File, first: Position) -> bool {
        let mut bytes = [0; GROUP_HEADER_BYTES];
        let got = read_up_to(file, &mut bytes, offset_of(first, first)).unwrap_or(0);
        GroupHeader::decode(&bytes[..got]).is_ok_and(|group| group.log == self.log && group.base == first)
    }

    /// Whether a mark proves that the last segment, which begins at `begins`, has no groups: it stands where the first
    /// one would, and each group takes the place of the mark before it.
    pub fn is_marked_empty(&self, file: &dyn DiskFile, begins: &Cursor) -> Result<bool, JournalError> {
        let first = begins.position;
        let mut bytes = [0; MARK_BYTES];
        let got = read_up_to(file, &mut bytes, offset_of(first, first))
            .map_err(|cause| JournalError::io("read", &self.segment_place(first), cause))?;
        Ok(Mark::decode(&bytes[..got]) == Ok(Mark { log: self.log, kind: MarkKind::Tail, end: *begins }))
    }

    /// [`Folder::open_segment`] with the kind of disk forgotten, for scans, which need no type parameter then.
    pub fn open_shared(&self, first: Position) -> Result<(Arc<dyn DiskFile>, Cursor), JournalError> {
        let (file, begins) = self.open_segment(first)?;
        Ok((Arc::new(file), begins))
    }
}

/// Reads until `into` is full or the file ends.
pub(crate) fn read_up_to(file: &dyn DiskFile, into: &mut [u8], offset: u64) -> std::io::Result<usize> {
    fill(into, |into, done| file.read_at(into, offset + done))
}

/// As [`read_up_to`], for what nobody will read again soon.
pub(crate) fn read_once_up_to(file: &dyn DiskFile, into: &mut [u8], offset: u64) -> std::io::Result<usize> {
    fill(into, |into, done| file.read_once_at(into, offset + done))
}

fn fill(into: &mut [u8], mut read: impl FnMut(&mut [u8], u64) -> std::io::Result<usize>) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match read(&mut into[filled..], filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests;

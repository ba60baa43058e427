//! One log's folder: which segments there are, and how to open them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::segment::{SEGMENT_HEADER_BYTES, SegmentFault, SegmentHeader, parse_segment_name, segment_name};
use crate::{Cursor, JournalError, LogId, Position};

/// The folder of one log on some disk.
#[derive(Clone, Debug)]
pub(crate) struct Folder<D: Disk> {
    pub disk: D,
    pub path: PathBuf,
    pub log: LogId,
}

/// The same with the kind of disk forgotten, so that readers need no type parameter.
pub(crate) trait Segments: Send {
    /// First positions of all segments, in order.
    fn list(&self) -> Result<Vec<Position>, JournalError>;
    /// Opens the segment that begins at `first`, and checks that its header says so.
    fn open(&self, first: Position) -> Result<(Arc<dyn DiskFile>, Cursor), JournalError>;
    /// Whose log it is.
    fn log(&self) -> LogId;
    /// The path of the segment that begins at `first`.
    fn path(&self, first: Position) -> PathBuf;
}

impl<D: Disk> Folder<D> {
    pub fn new(disk: D, data: &Path, log: LogId) -> Folder<D> {
        Folder { disk, path: log.folder(data), log }
    }

    pub fn segment_path(&self, first: Position) -> PathBuf {
        self.path.join(segment_name(first))
    }

    pub fn list_segments(&self) -> Result<Vec<Position>, JournalError> {
        let names = self.disk.list(&self.path).map_err(|cause| JournalError::io("list", &self.path, cause))?;
        Ok(names.iter().filter_map(|name| parse_segment_name(name)).collect())
    }

    pub fn open_file(&self, first: Position) -> Result<D::File, JournalError> {
        let path = self.segment_path(first);
        self.disk.open(&path).map_err(|cause| JournalError::io("open", &path, cause))
    }

    /// Opens a segment and checks that its header is this log's and agrees with the file's name.
    pub fn open_segment(&self, first: Position) -> Result<(D::File, Cursor), JournalError> {
        let path = self.segment_path(first);
        let file = self.open_file(first)?;
        let mut page = [0; SEGMENT_HEADER_BYTES];
        let got = read_up_to(&file, &mut page, 0).map_err(|cause| JournalError::io("read", &path, cause))?;
        let damaged = |what: String| JournalError::Damaged {
            segment: segment_name(first),
            offset: 0,
            what,
            lost: "perhaps nothing: only the segment's header is bad, its groups follow it".into(),
        };
        let header = SegmentHeader::decode(&page[..got]).map_err(|fault| match fault {
            SegmentFault::UnknownVersion(found) => JournalError::UnknownVersion {
                path: path.clone(),
                found: found.into(),
                known: crate::group::FORMAT_VERSION.into(),
            },
            SegmentFault::NoMagic => damaged("it does not begin like a segment".into()),
            SegmentFault::Checksum => damaged("the segment header's checksum does not match".into()),
        })?;
        if header.log != self.log {
            return Err(damaged(format!("it belongs to {}, not to {}", header.log, self.log)));
        }
        if header.first.position != first {
            return Err(damaged(format!("its header says that it begins at position {}", header.first.position)));
        }
        Ok((file, header.first))
    }
}

impl<D: Disk> Segments for Folder<D> {
    fn list(&self) -> Result<Vec<Position>, JournalError> {
        self.list_segments()
    }

    fn open(&self, first: Position) -> Result<(Arc<dyn DiskFile>, Cursor), JournalError> {
        let (file, cursor) = self.open_segment(first)?;
        Ok((Arc::new(file), cursor))
    }

    fn log(&self) -> LogId {
        self.log
    }

    fn path(&self, first: Position) -> PathBuf {
        self.segment_path(first)
    }
}

/// Reads until `into` is full or the file ends.
pub(crate) fn read_up_to(file: &dyn DiskFile, into: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read_at(&mut into[filled..], offset + filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(filled)
}

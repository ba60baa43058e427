//! Writes a run, entry by entry in order, and makes it durable.

use std::path::{Path, PathBuf};

use tidegate_disk::{Disk, DiskFile};
use tidegate_journal::Position;

use super::IdsError;
use super::entry::Entry;
use super::run::{PAGE_BYTES, PAGE_ENTRIES, Page, Run, RunHeader, RunIndex};
use super::run_filter::FilterShape;
use super::run_tail;

/// Bytes of one write.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes after which a sync is asked for, so that the last one is short: the journal syncs on the same device.
const SYNC_BYTES: u64 = 1 << 20;

const _: () = assert!(WRITE_BYTES.is_multiple_of(PAGE_BYTES));

/// A run in the making. Dropped before [`RunWriter::finish`], it leaves a file that no manifest names.
pub(super) struct RunWriter<D: Disk> {
    disk: D,
    file: D::File,
    path: PathBuf,
    header: RunHeader,
    index: RunIndex,
    buffer: Vec<u8>,
    /// Page that `buffer` begins with.
    buffer_page: u64,
    pushed: u64,
    /// Of those, the ones that are kept by their times.
    ordered: u64,
    last: Option<Entry>,
    synced_bytes: u64,
    /// Bytes after which a sync is asked for.
    sync_each: u64,
}

impl<D: Disk> RunWriter<D> {
    /// Creates the file and claims its room.
    pub(super) fn create(disk: &D, dir: &Path, header: RunHeader) -> Result<RunWriter<D>, IdsError> {
        let path = dir.join(header.file_name());
        let file = disk.create_new(&path).map_err(IdsError::io("create", &path))?;
        file.allocate(header.file_bytes()).map_err(IdsError::io("claim room for", &path))?;
        file.write_all_at(&header.encode_page(), 0).map_err(IdsError::io("write", &path))?;
        Ok(RunWriter {
            disk: disk.clone(),
            file,
            path,
            header,
            index: RunIndex::new(&header),
            buffer: Vec::with_capacity(WRITE_BYTES.min(header.file_bytes() as usize)),
            buffer_page: 0,
            pushed: 0,
            ordered: 0,
            last: None,
            synced_bytes: 0,
            sync_each: SYNC_BYTES,
        })
    }

    /// Asks for a sync after so many bytes: for who shares the device with no journal.
    pub(super) fn syncing_each(self, bytes: u64) -> RunWriter<D> {
        RunWriter { sync_each: bytes, ..self }
    }

    /// Appends the next entry. Panics when it is out of order or not of the run's stretch of the journal.
    pub(super) fn push(&mut self, entry: Entry) -> Result<(), IdsError> {
        assert!(self.last < Some(entry), "ids: {entry:?} follows {:?}", self.last);
        let stretch = self.header.first..=self.header.last;
        assert!(stretch.contains(&entry.position()), "ids: {entry:?} is not of {stretch:?}");
        self.last = Some(entry);
        let key = entry.key();
        let (earliest, latest) = self.header.times;
        assert!(!key.is_ordered() || (earliest..=latest).contains(&key.seconds()), "ids: {entry:?} is of another time");
        self.ordered += u64::from(key.is_ordered());
        let index = (self.pushed % PAGE_ENTRIES as u64) as usize;
        if index == 0 {
            self.begin_page()?;
        }
        let page = self.buffer_page + (self.buffer.len() / PAGE_BYTES) as u64 - 1;
        self.index.note(page, index == 0, key);
        let page_start = self.buffer.len() - PAGE_BYTES;
        entry.encode(&mut self.buffer[page_start..][Page::entry_place(index)]);
        self.pushed += 1;
        if index + 1 == PAGE_ENTRIES {
            self.end_page();
        }
        Ok(())
    }

    fn begin_page(&mut self) -> Result<(), IdsError> {
        if self.buffer.len() == WRITE_BYTES {
            self.flush()?;
        }
        self.buffer.resize(self.buffer.len() + PAGE_BYTES, 0);
        Ok(())
    }

    fn end_page(&mut self) {
        let start = self.buffer.len() - PAGE_BYTES;
        let page = self.buffer_page + (start / PAGE_BYTES) as u64;
        Page::seal(&mut self.buffer[start..], self.header.number, page);
    }

    fn flush(&mut self) -> Result<(), IdsError> {
        let offset = RunHeader::page_offset(self.buffer_page);
        self.file.write_all_at(&self.buffer, offset).map_err(IdsError::io("write", &self.path))?;
        self.buffer_page += (self.buffer.len() / PAGE_BYTES) as u64;
        self.buffer.clear();
        let written = RunHeader::page_offset(self.buffer_page);
        if written - self.synced_bytes >= self.sync_each {
            self.file.sync_data().map_err(IdsError::io("sync", &self.path))?;
            self.synced_bytes = written;
        }
        Ok(())
    }

    /// Completes the run: file and name are durable when this returns.
    pub(super) fn finish(mut self, dir: &Path) -> Result<Run<D::File>, IdsError> {
        assert_eq!(self.pushed, self.header.entries, "a run has as many entries as its header says");
        if !self.pushed.is_multiple_of(PAGE_ENTRIES as u64) {
            self.end_page();
        }
        assert_eq!(self.ordered, self.header.ordered, "a run has as many ids with times as its header says");
        self.flush()?;
        run_tail::write(&self.file, &self.path, &self.header, &self.index)?;
        self.file.sync_data().map_err(IdsError::io("sync", &self.path))?;
        self.disk.sync_dir(dir).map_err(IdsError::io("sync", dir))?;
        Ok(Run::new(self.file, self.path, self.header, self.index))
    }

    pub(super) fn number(&self) -> u64 {
        self.header.number
    }
}

/// Writes a whole run of sorted entries.
pub(super) fn write_run<D: Disk>(
    disk: &D,
    dir: &Path,
    number: u64,
    sorted: &[Entry],
    (first, last): (Position, Position),
) -> Result<Run<D::File>, IdsError> {
    let ordered = &sorted[sorted.partition_point(|entry| !entry.key().is_ordered())..];
    let seconds = |entry: Option<&Entry>| entry.map_or(0, |entry| entry.key().seconds());
    let header = RunHeader {
        number,
        tier: 0,
        entries: sorted.len() as u64,
        first,
        last,
        ordered: ordered.len() as u64,
        times: (seconds(ordered.first()), seconds(ordered.last())),
        random_filter: FilterShape::default(),
        ordered_filter: FilterShape::default(),
    };
    let mut writer = RunWriter::create(disk, dir, header)?;
    for entry in sorted {
        writer.push(*entry)?;
    }
    writer.finish(dir)
}

#[cfg(test)]
mod tests {
    use tidegate_disk::FakeDisk;

    use super::super::hash::RunKey;
    use super::*;

    fn written(entries: &[(u64, u64)]) {
        let disk = FakeDisk::new(1);
        disk.create_dir_all(Path::new("/ids")).expect("the disk works");
        let entry = |(hash, at): &(u64, u64)| Entry::new(RunKey { key: *hash, tail: 0 }, Position(*at));
        let sorted: Vec<_> = entries.iter().map(entry).collect();
        write_run(&disk, Path::new("/ids"), 1, &sorted, (Position(5), Position(9))).expect("the disk works");
    }

    #[test]
    fn a_run_is_written_in_order_of_hashes_then_positions() {
        written(&[(1, 9), (2, 5), (2, 6), (3, 7)]);
    }

    #[test]
    #[should_panic(expected = "follows Some(Entry { key: 2, word: 6 })")]
    fn an_entry_out_of_order_is_a_bug() {
        written(&[(1, 9), (2, 6), (2, 5)]);
    }

    #[test]
    #[should_panic(expected = "is not of Position(5)..=Position(9)")]
    fn an_entry_of_another_stretch_is_a_bug() {
        written(&[(1, 9), (2, 10)]);
    }
}

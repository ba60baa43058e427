//! Reads a run from its first entry to its last, verifying every page and the order.

use std::path::Path;

use tidegate_disk::DiskFile;

use super::IdsError;
use super::entry::Entry;
use super::run::{PAGE_BYTES, Page, RunHeader, read_exact};

/// Pages of one read.
const READ_PAGES: u64 = 32;

/// Where a reading of a run stands. Holds no file, so that what reads may own the run in whatever way it likes.
pub(super) struct RunReader {
    header: RunHeader,
    /// The pages of the last read.
    buffer: Vec<u8>,
    /// Entries of one verified page, in reverse.
    page: Vec<Entry>,
    next_page: u64,
    buffer_page: u64,
    last: Option<Entry>,
}

impl RunReader {
    pub(super) fn new(header: RunHeader) -> RunReader {
        RunReader { header, buffer: Vec::new(), page: Vec::new(), next_page: 0, buffer_page: 0, last: None }
    }

    /// The next entry; `None` after the last one.
    #[inline]
    pub(super) fn next<F: DiskFile>(&mut self, file: &F, path: &Path) -> Result<Option<Entry>, IdsError> {
        if self.page.is_empty() && self.next_page < self.header.pages() {
            self.load_page(file, path)?;
        }
        Ok(self.page.pop())
    }

    /// The entries of the next page, in order; empty after the last one. Not to be mixed with `next`.
    pub(super) fn next_page<F: DiskFile>(
        &mut self,
        file: &F,
        path: &Path,
    ) -> Result<impl Iterator<Item = Entry>, IdsError> {
        self.page.clear();
        if self.next_page < self.header.pages() {
            self.load_page(file, path)?;
        }
        Ok(self.page.drain(..).rev())
    }

    fn load_page<F: DiskFile>(&mut self, file: &F, path: &Path) -> Result<(), IdsError> {
        let number = self.next_page;
        let buffered = (self.buffer.len() / PAGE_BYTES) as u64;
        if number >= self.buffer_page + buffered {
            let pages = READ_PAGES.min(self.header.pages() - number);
            self.buffer.resize(pages as usize * PAGE_BYTES, 0);
            self.buffer_page = number;
            read_exact(file, path, &mut self.buffer, RunHeader::page_offset(number))?;
        }
        let start = (number - self.buffer_page) as usize * PAGE_BYTES;
        let page = Page::verify(&self.buffer[start..start + PAGE_BYTES], &self.header, number, path)?;
        self.page.extend((0..page.len()).rev().map(|index| page.entry(index)));
        self.next_page += 1;
        self.check(path)
    }

    /// A page whose checksum is right but whose content cannot be was written by a bug; better found here than as a
    /// vote that counts twice.
    fn check(&mut self, path: &Path) -> Result<(), IdsError> {
        for entry in self.page.iter().rev() {
            let is_next = self.last.is_none_or(|last| last < *entry);
            let (key, (earliest, latest)) = (entry.key(), self.header.times);
            let is_timely = !key.is_ordered() || (earliest..=latest).contains(&key.seconds());
            let is_ours = entry.position() >= self.header.first && entry.position() <= self.header.last;
            if !is_next || !is_timely || !is_ours {
                let what = format!("page {} holds entries out of order or range", self.next_page - 1);
                return Err(IdsError::damaged(path, what));
            }
            self.last = Some(*entry);
        }
        Ok(())
    }
}

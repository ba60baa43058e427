//! A run: the sorted, immutable entries of one stretch of the journal, in one file. Format: `docs/formats/ids.md`.
//!
//! ```text
//!   in memory   fences: the top half of the first hash of every page (or every 2nd, 4th, ... of a very long run)
//!                 │ binary search
//!   on disk     [ header | page 0 | page 1 | page 2 | ... ]     one read of 4 KiB, checksum, binary search
//! ```
//!
//! Why fences in memory: 4 bytes for 255 ids make a lookup one read. Their number per run is bounded; a run too long
//! for that reads a few neighbouring pages instead.

use std::path::{Path, PathBuf};

use tidegate_disk::DiskFile;
use tidegate_journal::Position;

use super::entry::Entry;
use super::{IdHash, IdsError};

/// Bytes of a page, the header's too.
pub(super) const PAGE_BYTES: usize = 4096;
const PAGE_HEADER_BYTES: usize = 16;
/// Entries of a full page.
pub(super) const PAGE_ENTRIES: usize = (PAGE_BYTES - PAGE_HEADER_BYTES) / Entry::BYTES;
/// Fences of one run, at most: 16 MiB, enough for a billion ids at one read each.
const FENCES_MAX: usize = 4 << 20;

const MAGIC: [u8; 8] = *b"TGIDRUN\0";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 60;

const _: () = assert!(PAGE_HEADER_BYTES + PAGE_ENTRIES * Entry::BYTES == PAGE_BYTES);

/// What a run is, as its header and the manifest say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunHeader {
    /// Never used twice within an index.
    pub(super) number: u64,
    /// How often its entries were merged.
    pub(super) tier: u32,
    pub(super) entries: u64,
    pub(super) first: Position,
    pub(super) last: Position,
}

impl RunHeader {
    /// Bytes of an encoded header, without its checksum.
    pub(super) const BYTES: usize = HEADER_BYTES - 12;

    pub(super) fn pages(&self) -> u64 {
        self.entries.div_ceil(PAGE_ENTRIES as u64)
    }

    pub(super) fn file_bytes(&self) -> u64 {
        (1 + self.pages()) * PAGE_BYTES as u64
    }

    pub(super) fn file_name(&self) -> String {
        RunHeader::file_name_of(self.number)
    }

    pub(super) fn file_name_of(number: u64) -> String {
        format!("{number:010}.run")
    }

    /// Entries of page `page`, counted from 0.
    pub(super) fn entries_in(&self, page: u64) -> usize {
        (self.entries - page * PAGE_ENTRIES as u64).min(PAGE_ENTRIES as u64) as usize
    }

    pub(super) fn page_offset(page: u64) -> u64 {
        (1 + page) * PAGE_BYTES as u64
    }

    /// The fields, as they stand in header pages and manifests.
    pub(super) fn encode_fields(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.number.to_le_bytes());
        into.extend_from_slice(&self.tier.to_le_bytes());
        into.extend_from_slice(&0u32.to_le_bytes());
        for field in [self.entries, self.first.0, self.last.0, self.file_bytes()] {
            into.extend_from_slice(&field.to_le_bytes());
        }
    }

    /// `None` when the fields contradict each other.
    pub(super) fn decode_fields(from: &[u8; RunHeader::BYTES]) -> Option<RunHeader> {
        let word = |at: usize| u64::from_le_bytes(from[at..at + 8].try_into().expect("eight bytes"));
        let tier = u32::from_le_bytes(from[8..12].try_into().expect("four bytes"));
        let header =
            RunHeader { number: word(0), tier, entries: word(16), first: Position(word(24)), last: Position(word(32)) };
        let is_sane = header.entries > 0
            && header.entries < 1 << 48
            && header.first <= header.last
            && header.file_bytes() == word(40);
        is_sane.then_some(header)
    }

    pub(super) fn encode_page(&self) -> [u8; PAGE_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        self.encode_fields(&mut bytes);
        let mut page = [0; PAGE_BYTES];
        page[..HEADER_BYTES].copy_from_slice(&bytes);
        let sum = crc_fast::crc32_iscsi(&page[..PAGE_BYTES - 4]);
        page[PAGE_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        page
    }
}

/// An open run.
pub(super) struct Run<F> {
    file: F,
    path: PathBuf,
    header: RunHeader,
    fences: Fences,
}

/// The first hashes of pages, thinned out so that they stay few.
#[derive(Debug)]
pub(super) struct Fences {
    tops: Vec<u32>,
    /// Pages per fence.
    stride: u64,
}

impl Fences {
    pub(super) fn for_pages(pages: u64) -> Fences {
        let stride = pages.div_ceil(FENCES_MAX as u64).max(1);
        Fences { tops: Vec::with_capacity(pages.div_ceil(stride) as usize), stride }
    }

    /// Notes the first hash of `page`; pages come in order.
    pub(super) fn note(&mut self, page: u64, first: IdHash) {
        if page.is_multiple_of(self.stride) {
            self.tops.push((first.0 >> 32) as u32);
        }
    }

    /// The first page that may hold `hash`.
    fn first_page(&self, hash: IdHash) -> u64 {
        let top = (hash.0 >> 32) as u32;
        // The page before the first fence that is not below: equal hashes may begin at its end.
        let fence = self.tops.partition_point(|fence| *fence < top);
        fence.saturating_sub(1) as u64 * self.stride
    }
}

impl<F: DiskFile> Run<F> {
    /// A run that was just written or verified, with the fences noted on the way.
    pub(super) fn new(file: F, path: PathBuf, header: RunHeader, fences: Fences) -> Run<F> {
        let (found, expected) = (fences.tops.len() as u64, header.pages().div_ceil(fences.stride));
        assert_eq!(found, expected, "ids: fences of {header:?}");
        Run { file, path, header, fences }
    }

    pub(super) fn header(&self) -> &RunHeader {
        &self.header
    }

    pub(super) fn first(&self) -> Position {
        self.header.first
    }

    pub(super) fn last(&self) -> Position {
        self.header.last
    }

    pub(super) fn entries(&self) -> u64 {
        self.header.entries
    }

    pub(super) fn bytes(&self) -> u64 {
        self.header.file_bytes()
    }

    pub(super) fn fence_bytes(&self) -> usize {
        self.fences.tops.capacity() * size_of::<u32>()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> &F {
        &self.file
    }

    /// Adds the positions of all entries with this hash to `out`. Returns how many pages it read.
    pub(super) fn find(&self, hash: IdHash, out: &mut Vec<Position>) -> Result<u64, IdsError> {
        let mut bytes = [0; PAGE_BYTES];
        let mut pages_read = 0;
        for page in self.fences.first_page(hash)..self.header.pages() {
            read_exact(&self.file, &self.path, &mut bytes, RunHeader::page_offset(page))?;
            pages_read += 1;
            let page = Page::verify(&bytes, &self.header, page, &self.path)?;
            if page.find(hash, out) {
                break;
            }
        }
        Ok(pages_read)
    }
}

/// Reads the header page of a run and compares it with what the manifest says.
pub(super) fn verify_header<F: DiskFile>(file: &F, path: &Path, expected: &RunHeader) -> Result<(), IdsError> {
    let mut page = [0; PAGE_BYTES];
    read_exact(file, path, &mut page, 0)?;
    if page != expected.encode_page() {
        return Err(IdsError::damaged(path, "its header is not the one that the manifest names"));
    }
    Ok(())
}

/// A read within a run; a file that ends too early is damage, not an error of the system.
pub(super) fn read_exact<F: DiskFile>(file: &F, path: &Path, into: &mut [u8], offset: u64) -> Result<(), IdsError> {
    file.read_exact_at(into, offset).map_err(|source| match source.kind() {
        std::io::ErrorKind::UnexpectedEof => IdsError::damaged(path, format!("it ends before byte {offset}")),
        _ => IdsError::Io { action: "read", path: path.to_owned(), source },
    })
}

/// Up to [`PAGE_ENTRIES`] entries, verified.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    entries: &'a [u8],
}

impl<'a> Page<'a> {
    /// Begins a page in `into`, whose entries follow; [`Page::seal`] completes it.
    pub(super) fn entry_place(index: usize) -> std::ops::Range<usize> {
        let start = PAGE_HEADER_BYTES + index * Entry::BYTES;
        start..start + Entry::BYTES
    }

    /// Writes number and checksum of a page whose entries stand. The run's number is part of it, so that a page of an
    /// older file that a disk returns by mistake is not taken for one of ours.
    pub(super) fn seal(bytes: &mut [u8], run: u64, page: u64) {
        bytes[4..8].copy_from_slice(&(page as u32).to_le_bytes());
        bytes[8..PAGE_HEADER_BYTES].copy_from_slice(&run.to_le_bytes());
        let sum = crc_fast::crc32_iscsi(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
    }

    pub(super) fn verify(bytes: &'a [u8], run: &RunHeader, page: u64, path: &Path) -> Result<Page<'a>, IdsError> {
        let is_whole = bytes[..4] == crc_fast::crc32_iscsi(&bytes[4..]).to_le_bytes();
        let is_ours =
            bytes[4..8] == (page as u32).to_le_bytes() && bytes[8..PAGE_HEADER_BYTES] == run.number.to_le_bytes();
        if !is_whole || !is_ours {
            let what = if is_whole { "is of another place or file" } else { "has a wrong checksum" };
            return Err(IdsError::damaged(path, format!("page {page} {what}")));
        }
        let end = PAGE_HEADER_BYTES + run.entries_in(page) * Entry::BYTES;
        Ok(Page { entries: &bytes[PAGE_HEADER_BYTES..end] })
    }

    pub(super) fn len(self) -> usize {
        self.entries.len() / Entry::BYTES
    }

    pub(super) fn entry(self, index: usize) -> Entry {
        Entry::decode(&self.entries[index * Entry::BYTES..])
    }

    /// Adds the positions under `hash` to `out`. Whether the search ends here: a larger hash follows in this page.
    fn find(self, hash: IdHash, out: &mut Vec<Position>) -> bool {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.entry(middle).hash < hash {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let same = (low..self.len()).map(|index| self.entry(index)).take_while(|entry| entry.hash == hash);
        let before = out.len();
        out.extend(same.map(|entry| entry.position));
        low + (out.len() - before) < self.len()
    }
}

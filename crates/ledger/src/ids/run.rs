//! A run: the sorted, immutable entries of one stretch of the journal, in one file. Format: `docs/formats/ids.md`.
//!
//! ```text
//!   in memory   filters: may it be here?     fences: the first key of every page (or every 2nd, ... of a long run)
//!                 │ one cache line each        │ binary search
//!   on disk     [ header | page 0 | page 1 | page 2 | ... | fences, filters ]     one read of 4 KiB, checksum
//! ```
//!
//! Why fences in memory: 8 bytes for 255 ids make a lookup one read. Their number per run is bounded; a run too long
//! for that reads a few neighbouring pages instead.
//!
//! Why fences and filters are in the file too: a start reads them, and no pages.

use std::path::{Path, PathBuf};

use tidegate_disk::DiskFile;
use tidegate_journal::Position;

use super::IdsError;
use super::entry::Entry;
use super::hash::{IdHash, RunKey};
use super::run_filter::{FILTERED_TIER, FilterShape, Part, RunFilters};
use super::run_tail::CHECKSUM_BYTES;

/// Bytes of a page, the header's too.
pub(super) const PAGE_BYTES: usize = 4096;
const PAGE_HEADER_BYTES: usize = 16;
/// Entries of a full page.
pub(super) const PAGE_ENTRIES: usize = (PAGE_BYTES - PAGE_HEADER_BYTES) / Entry::BYTES;
/// Fences of one run, at most: 32 MiB, enough for a billion ids at one read each.
const FENCES_MAX: u64 = 4 << 20;

const MAGIC: [u8; 8] = *b"TGIDRUN\0";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 12 + RunHeader::BYTES;

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
    /// Those of its entries that are kept by their times; they stand behind the others.
    pub(super) ordered: u64,
    /// The least and the greatest of these times, in seconds; zero without any.
    pub(super) times: (u32, u32),
    /// The filter over the other entries, and that over these.
    pub(super) random_filter: FilterShape,
    pub(super) ordered_filter: FilterShape,
}

impl RunHeader {
    /// Bytes of the encoded fields.
    pub(super) const BYTES: usize = 88;

    pub(super) fn pages(&self) -> u64 {
        self.entries.div_ceil(PAGE_ENTRIES as u64)
    }

    /// Pages for each fence.
    fn stride(&self) -> u64 {
        self.pages().div_ceil(FENCES_MAX).max(1)
    }

    pub(super) fn fences(&self) -> u64 {
        self.pages().div_ceil(self.stride())
    }

    /// Bytes of fences and filters, which stand behind the pages.
    pub(super) fn tail_bytes(&self) -> u64 {
        self.fences() * 8 + self.random_filter.bytes() + self.ordered_filter.bytes()
    }

    pub(super) fn tail_offset(&self) -> u64 {
        RunHeader::page_offset(self.pages())
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.tail_offset() + (self.tail_bytes() + CHECKSUM_BYTES as u64).next_multiple_of(PAGE_BYTES as u64)
    }

    /// Whether it has filters of its own.
    pub(super) fn is_filtered(&self) -> bool {
        self.tier >= FILTERED_TIER
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
        for field in [self.entries, self.first.0, self.last.0, self.file_bytes(), self.ordered] {
            into.extend_from_slice(&field.to_le_bytes());
        }
        for seconds in [self.times.0, self.times.1] {
            into.extend_from_slice(&seconds.to_le_bytes());
        }
        for shape in [self.random_filter, self.ordered_filter] {
            into.extend_from_slice(&(shape.blocks | u64::from(shape.probes) << 56).to_le_bytes());
        }
        into.extend_from_slice(&0u64.to_le_bytes());
    }

    /// `None` when the fields contradict each other.
    pub(super) fn decode_fields(from: &[u8; RunHeader::BYTES]) -> Option<RunHeader> {
        let word = |at: usize| u64::from_le_bytes(from[at..at + 8].try_into().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(from[at..at + 4].try_into().expect("four bytes"));
        let shape = |at: usize| FilterShape { blocks: word(at) & ((1 << 56) - 1), probes: u32::from(from[at + 7]) };
        let header = RunHeader {
            number: word(0),
            tier: half(8),
            entries: word(16),
            first: Position(word(24)),
            last: Position(word(32)),
            ordered: word(48),
            times: (half(56), half(60)),
            random_filter: shape(64),
            ordered_filter: shape(72),
        };
        let (RunHeader { entries, ordered, times, random_filter, ordered_filter, .. }, bytes) = (header, word(40));
        let is_sane = (1..1 << 40).contains(&entries)
            && header.first <= header.last
            && ordered <= entries
            && times.0 <= times.1
            && (ordered == 0) == (times.0 == 0)
            && (ordered > 0 || times.1 == 0)
            && random_filter.is_sane()
            && ordered_filter.is_sane()
            && (half(12), word(80)) == (0, 0)
            && header.file_bytes() == bytes;
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
    index: RunIndex,
}

/// What of a run is in memory.
pub(super) struct RunIndex {
    pub(super) fences: Fences,
    pub(super) filters: RunFilters,
}

/// The first keys of pages, thinned out so that they stay few.
#[derive(Debug)]
pub(super) struct Fences {
    pub(super) keys: Vec<u64>,
    /// Pages per fence.
    stride: u64,
}

impl RunIndex {
    /// To be filled.
    pub(super) fn new(header: &RunHeader) -> RunIndex {
        let filters = RunFilters {
            random: Part::new(header.entries - header.ordered, header.random_filter),
            ordered: Part::new(header.ordered, header.ordered_filter),
        };
        let fences = Fences { keys: Vec::with_capacity(header.fences() as usize), stride: header.stride() };
        RunIndex { fences, filters }
    }

    /// Notes an entry, the first of `page` if `is_first`; entries come in order.
    pub(super) fn note(&mut self, page: u64, is_first: bool, key: RunKey) {
        if is_first && page.is_multiple_of(self.fences.stride) {
            self.fences.keys.push(key.key);
        }
        self.filters.insert(key);
    }
}

impl RunIndex {
    /// Whether an entry with this key on `page` would be found there.
    pub(super) fn has(&self, page: u64, key: RunKey) -> bool {
        let part = if key.is_ordered() { &self.filters.ordered } else { &self.filters.random };
        part.may_hold(key) && self.fences.first_page(key) <= page
    }
}

impl Fences {
    /// The first page that may hold `key`.
    fn first_page(&self, key: RunKey) -> u64 {
        // The page before the first fence that is not below: equal keys may begin at its end.
        let fence = self.keys.partition_point(|fence| *fence < key.key);
        fence.saturating_sub(1) as u64 * self.stride
    }

    /// Whether `page`, or one behind it, may hold `key`.
    fn goes_on(&self, page: u64, key: RunKey) -> bool {
        // Where there is no fence the page itself must be asked.
        !page.is_multiple_of(self.stride) || self.keys.get((page / self.stride) as usize).is_some_and(|f| *f <= key.key)
    }
}

impl<F: DiskFile> Run<F> {
    /// A run that was just written or verified.
    pub(super) fn new(file: F, path: PathBuf, header: RunHeader, index: RunIndex) -> Run<F> {
        assert_eq!(index.fences.keys.len() as u64, header.fences(), "ids: fences of {header:?}");
        Run { file, path, header, index }
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

    /// Bytes of memory of its fences and of its filters.
    pub(super) fn memory_bytes(&self) -> (usize, usize) {
        (self.index.fences.keys.capacity() * size_of::<u64>(), self.index.filters.bytes())
    }

    pub(super) fn index(&self) -> &RunIndex {
        &self.index
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&self) -> &F {
        &self.file
    }

    /// Whether the time of an id lies in its range, and so the ordered entries must be asked.
    #[inline]
    fn ordered_key(&self, hash: IdHash) -> Option<RunKey> {
        let (earliest, latest) = self.header.times;
        if hash.seconds < earliest || hash.seconds > latest { None } else { hash.ordered() }
    }

    /// Loads what [`Run::may_hold`] of this hash looks at.
    #[inline]
    pub(super) fn prefetch(&self, hash: IdHash) {
        self.index.filters.random.prefetch(hash.random());
        if let Some(key) = self.ordered_key(hash) {
            self.index.filters.ordered.prefetch(key);
        }
    }

    /// Whether a record may be in it, as far as times and filters say.
    #[inline]
    pub(super) fn may_hold(&self, hash: IdHash) -> bool {
        self.keys(hash).next().is_some()
    }

    /// The keys under which it may hold this hash.
    #[inline]
    pub(super) fn keys(&self, hash: IdHash) -> impl Iterator<Item = RunKey> {
        let filters = &self.index.filters;
        let random = Some(hash.random()).filter(|key| filters.random.may_hold(*key));
        let ordered = self.ordered_key(hash).filter(|key| filters.ordered.may_hold(*key));
        random.into_iter().chain(ordered)
    }

    /// The first page that may hold `key`.
    pub(super) fn first_page(&self, key: RunKey) -> u64 {
        self.index.fences.first_page(key)
    }

    /// Takes the bytes of a page, if they are what was written.
    pub(super) fn verify<'b>(&self, bytes: &'b [u8; PAGE_BYTES], page: u64) -> Result<Page<'b>, IdsError> {
        Page::verify(bytes, &self.header, page, &self.path)
    }

    /// Looks for `key` on a page: adds positions to `out`. Whether the next page must be asked, too.
    pub(super) fn search(&self, page: Page<'_>, number: u64, key: RunKey, out: &mut Vec<Position>) -> bool {
        let has_ended = page.find(key, out);
        let next = number + 1;
        !has_ended && next < self.header.pages() && self.index.fences.goes_on(next, key)
    }

    /// Reads a page, and waits for the disk.
    pub(super) fn read_page(&self, page: u64, into: &mut [u8; PAGE_BYTES]) -> Result<(), IdsError> {
        read_exact(&self.file, &self.path, into, RunHeader::page_offset(page))
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
    file.read_exact_at(into, offset).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::UnexpectedEof => IdsError::damaged(path, format!("it ends before byte {offset}")),
        _ => IdsError::Io { action: "read", path: path.to_owned(), cause },
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

    /// Adds the positions under `key` to `out`. Whether the search ends here: a larger key follows in this page.
    fn find(self, key: RunKey, out: &mut Vec<Position>) -> bool {
        let wanted = Entry::first_of(key);
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.entry(middle) < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let same = (low..self.len()).map(|index| self.entry(index)).take_while(|entry| entry.key() == key);
        let before = out.len();
        out.extend(same.map(Entry::position));
        low + (out.len() - before) < self.len()
    }
}

#[cfg(test)]
mod tests;

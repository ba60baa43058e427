//! Slots by the hash of what stands in them: a hash table that grows without a pause.
//!
//! ```text
//!   hash ─▶ tag, 32 bits ─┬─ its first bits ─▶ directory ─▶ segment          8,192 entries at most
//!                         └─ the rest ──────▶ where to begin in the segment   ┌─────┬──────┐
//!                                             on from there until vacant      │ tag │ slot │ …
//!                                                                             └─────┴──────┘
//! ```
//!
//! Promise: an insertion moves the entries of one segment at most, some ten microseconds, however many there are.
//!
//! Why: one table that doubles moved 1.8 million entries at once, and every request of the shard waited 163 ms. A segment
//! grows by a quarter; one that is as large as it may be becomes two (extendible hashing: Fagin and others, 1979). The
//! tag is kept, so nothing is hashed again and no account is read, and so 8 bytes an entry are 10 to 13 bytes an account.

/// The slot of a vacant entry. There are fewer slots than this.
const VACANT: u32 = u32::MAX;
/// Entries of the smallest segment.
const ENTRIES_MIN: usize = 16;
/// Entries of a segment that is split instead of grown.
const ENTRIES_MAX: usize = 8_192;
/// A segment of this depth is grown, not split: only tags that are all alike lead there.
const DEPTH_MAX: u8 = 20;

// One entry of a segment is always vacant: a search ends there.
const _: () = assert!(is_full(ENTRIES_MIN, ENTRIES_MIN) && is_full(ENTRIES_MAX, ENTRIES_MAX));
// A place in the directory fits its type with room for one more bit.
const _: () = assert!(DEPTH_MAX < u32::BITS as u8);

/// Four fifths of the entries are taken at most. A search that finds looks at three entries then, on average.
const fn is_full(taken: usize, entries: usize) -> bool {
    taken * 5 >= entries * 4
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u32,
    slot: u32,
}

const NONE: Entry = Entry { tag: 0, slot: VACANT };

/// The entries whose tags begin with the same `depth` bits.
#[derive(Clone, Debug)]
struct Segment {
    entries: Box<[Entry]>,
    taken: usize,
    depth: u8,
}

impl Segment {
    /// A vacant one with room for `count` and some more.
    fn with_room(count: usize, depth: u8) -> Segment {
        let entries = (count * 25 / 16).max(ENTRIES_MIN);
        Segment { entries: vec![NONE; entries].into(), taken: 0, depth }
    }

    /// Where the search for a tag begins. Tags that follow each other begin near each other.
    #[inline]
    fn begin(&self, tag: u32) -> usize {
        let rest = u64::from(tag << self.depth);
        ((rest * self.entries.len() as u64) >> 32) as usize
    }

    #[inline]
    fn find(&self, tag: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let (before, after) = self.entries.split_at(self.begin(tag));
        for entry in after.iter().chain(before) {
            if entry.slot == VACANT {
                return None;
            }
            if entry.tag == tag && is(entry.slot) {
                return Some(entry.slot);
            }
        }
        unreachable!("a segment has vacant entries")
    }

    fn put(&mut self, entry: Entry) {
        assert!(self.taken < self.entries.len() - 1, "a segment has vacant entries");
        let mut at = self.begin(entry.tag);
        while self.entries[at].slot != VACANT {
            at = if at + 1 == self.entries.len() { 0 } else { at + 1 };
        }
        self.entries[at] = entry;
        self.taken += 1;
    }

    fn taken(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().copied().filter(|entry| entry.slot != VACANT)
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct SlotTable {
    /// Segments by the first `bits` bits of a tag.
    directory: Vec<u32>,
    bits: u8,
    segments: Vec<Segment>,
    len: usize,
}

impl Default for SlotTable {
    fn default() -> SlotTable {
        SlotTable { directory: vec![0], bits: 0, segments: vec![Segment::with_room(0, 0)], len: 0 }
    }
}

/// The part of a hash that is kept. The multiplication lets all bits of the hash take part.
#[inline]
fn tag_of(hash: u64) -> u32 {
    (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

impl SlotTable {
    /// How many slots.
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn place(&self, tag: u32) -> usize {
        ((u64::from(tag) << self.bits) >> 32) as usize
    }

    /// The slot of this hash of which `is` is true. `is` is asked about others, too, about one in a thousand times.
    #[inline]
    pub fn find(&self, hash: u64, is: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = tag_of(hash);
        self.segments[self.directory[self.place(tag)] as usize].find(tag, is)
    }

    /// Adds a slot that is not there.
    pub fn insert(&mut self, hash: u64, slot: u32) {
        assert!(slot != VACANT, "there is no slot left");
        let tag = tag_of(hash);
        let mut index = self.directory[self.place(tag)] as usize;
        let segment = &self.segments[index];
        if is_full(segment.taken + 1, segment.entries.len()) {
            if segment.entries.len() < ENTRIES_MAX || segment.depth == DEPTH_MAX {
                self.grow(index);
            } else {
                self.split(index, tag);
                index = self.directory[self.place(tag)] as usize;
            }
        }
        self.segments[index].put(Entry { tag, slot });
        self.len += 1;
    }

    fn grow(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        // A quarter more than there are.
        let mut larger = Segment::with_room(segment.taken + 1, segment.depth);
        segment.taken().for_each(|entry| larger.put(entry));
        assert!(larger.taken == segment.taken, "what was there is there");
        *segment = larger;
    }

    /// Makes two of the segment to which `tag` leads.
    fn split(&mut self, index: usize, tag: u32) {
        if self.segments[index].depth == self.bits {
            self.directory = self.directory.iter().flat_map(|segment| [*segment; 2]).collect();
            self.bits += 1;
        }
        let segment = &self.segments[index];
        let depth = segment.depth + 1;
        let is_upper = |entry: &Entry| entry.tag >> (32 - depth) & 1 == 1;
        let upper_count = segment.taken().filter(is_upper).count();
        let mut lower = Segment::with_room(segment.taken - upper_count + 1, depth);
        let mut upper = Segment::with_room(upper_count + 1, depth);
        for entry in segment.taken() {
            if is_upper(&entry) { upper.put(entry) } else { lower.put(entry) }
        }
        assert!(lower.taken + upper.taken == segment.taken, "what was there is there");
        let span = 1usize << (self.bits - depth);
        let first_upper = ((tag >> (32 - depth) | 1) as usize) << (self.bits - depth);
        let added = u32::try_from(self.segments.len()).expect("segments are fewer than slots");
        self.directory[first_upper..first_upper + span].fill(added);
        self.segments[index] = lower;
        self.segments.push(upper);
    }

    /// Walks all and panics if the directory and the segments do not fit each other.
    pub fn assert_sound(&self) {
        assert_eq!(self.directory.len(), 1 << self.bits, "the directory has a place for each beginning of a tag");
        let mut taken = 0;
        for (index, segment) in (0u32..).zip(&self.segments) {
            assert!(segment.depth <= self.bits, "a segment has places in the directory");
            assert!(segment.taken < segment.entries.len(), "a segment has vacant entries");
            assert_eq!(segment.taken().count(), segment.taken, "entries of a segment are counted");
            let places = self.directory.iter().filter(|of| **of == index).count();
            assert_eq!(places, 1 << (self.bits - segment.depth), "a segment has its share of the directory");
            let is_at_home = |entry: Entry| self.directory[self.place(entry.tag)] == index;
            assert!(segment.taken().all(is_at_home), "an entry stands in another's segment");
            taken += segment.taken;
        }
        assert_eq!(taken, self.len, "every slot is in a segment");
    }
}

#[cfg(test)]
mod tests;

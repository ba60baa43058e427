//! Slots by the hash of what stands in them: a hash table that grows without a pause.
//!
//! ```text
//!   hash ─▶ tag, 32 bits ─┬─ its first bits ─▶ directory ─▶ segment                8,192 entries at most
//!                         └─ the rest ──────▶ group ┌────────┬─────────┐
//!                                                   │ 8 tags │ 8 slots │   one line of the cache
//!                                                   ├────────┼─────────┤
//!                        if that is full, the next  │   …    │    …    │
//!                                                   └────────┴─────────┘
//! ```
//!
//! Promise: an insertion moves the entries of one segment at most, some ten microseconds, however many there are.
//!
//! Why: one table that doubles moved 1.8 million entries at once, and every request of the shard waited 163 ms. A
//! segment grows by a quarter; one that is as large as it may be becomes two (extendible hashing: Fagin and others,
//! 1979). The tag is kept, so nothing is hashed again and no account is read. 8 bytes an entry are 10 to 13 bytes an
//! account.
//!
//! Why groups: all tags of one are compared at once. Entries that were looked at one after the other ended in a branch
//! that no processor foresees, which made a transfer slower by a tenth.

use tidegate_memory::prefetch;

/// The slot of a vacant entry. There are fewer slots than this.
const VACANT: u32 = u32::MAX;
/// Entries of a group.
const GROUP: usize = 8;
/// Entries of the smallest segment.
const ENTRIES_MIN: usize = 2 * GROUP;
/// Entries of a segment that is split instead of grown.
const ENTRIES_MAX: usize = 8_192;
/// A segment of this depth is grown, not split: only tags that are all alike lead there.
const DEPTH_MAX: u8 = 20;

// One entry of a segment is always vacant: a search ends there.
const _: () = assert!(is_full(ENTRIES_MIN, ENTRIES_MIN) && is_full(ENTRIES_MAX, ENTRIES_MAX));
// A place in the directory fits its type with room for one more bit.
const _: () = assert!(DEPTH_MAX < u32::BITS as u8);

/// Four fifths of the entries are taken at most: most searches end in the group where they begin.
const fn is_full(taken: usize, entries: usize) -> bool {
    taken * 5 >= entries * 4
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u32,
    slot: u32,
}

/// Entries that are taken in order: if the last is vacant, the group is not full.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Group {
    tags: [u32; GROUP],
    slots: [u32; GROUP],
}

const _: () = assert!(size_of::<Group>() == 64);

impl Group {
    const VACANT: Group = Group { tags: [0; GROUP], slots: [VACANT; GROUP] };

    /// The places of a tag, a bit each. Vacant entries have tag 0, too.
    #[inline(always)]
    fn places_of(&self, tag: u32) -> u32 {
        (0..GROUP).fold(0, |places, at| places | u32::from(self.tags[at] == tag) << at)
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.slots[GROUP - 1] != VACANT
    }
}

/// The entries whose tags begin with the same `depth` bits.
#[derive(Clone, Debug)]
struct Segment {
    groups: Box<[Group]>,
    taken: usize,
    depth: u8,
}

impl Segment {
    /// A vacant one with room for `count` and a quarter more.
    fn with_room(count: usize, depth: u8) -> Segment {
        let entries = (count * 25 / 16).max(ENTRIES_MIN);
        Segment { groups: vec![Group::VACANT; entries.div_ceil(GROUP)].into(), taken: 0, depth }
    }

    fn entries(&self) -> usize {
        self.groups.len() * GROUP
    }

    /// The group where the search for a tag begins.
    #[inline(always)]
    fn begin(&self, tag: u32) -> usize {
        let rest = u64::from(tag << self.depth);
        ((rest * self.groups.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn find(&self, tag: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.begin(tag);
        loop {
            let group = &self.groups[at];
            let mut places = group.places_of(tag);
            while places != 0 {
                let slot = group.slots[places.trailing_zeros() as usize];
                if slot != VACANT && is(slot) {
                    return Some(slot);
                }
                places &= places - 1;
            }
            if !group.is_full() {
                return None;
            }
            at = self.behind(at);
        }
    }

    #[inline(always)]
    fn behind(&self, at: usize) -> usize {
        if at + 1 == self.groups.len() { 0 } else { at + 1 }
    }

    fn put(&mut self, entry: Entry) {
        assert!(self.taken < self.entries() - 1, "a segment has vacant entries");
        let mut at = self.begin(entry.tag);
        while self.groups[at].is_full() {
            at = self.behind(at);
        }
        let group = &mut self.groups[at];
        let place = group.slots.iter().position(|slot| *slot == VACANT).expect("the group is not full");
        (group.tags[place], group.slots[place]) = (entry.tag, entry.slot);
        self.taken += 1;
    }

    fn taken(&self) -> impl Iterator<Item = Entry> {
        let entries = self.groups.iter().flat_map(|group| group.tags.into_iter().zip(group.slots));
        entries.map(|(tag, slot)| Entry { tag, slot }).filter(|entry| entry.slot != VACANT)
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
    #[inline(always)]
    pub fn find(&self, hash: u64, is: impl FnMut(u32) -> bool) -> Option<u32> {
        let tag = tag_of(hash);
        self.segments[self.directory[self.place(tag)] as usize].find(tag, is)
    }

    /// Asks for the line where the search for a slot of this hash begins.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        let tag = tag_of(hash);
        let segment = &self.segments[self.directory[self.place(tag)] as usize];
        prefetch(&segment.groups[segment.begin(tag)]);
    }

    /// Adds a slot that is not there.
    pub fn insert(&mut self, hash: u64, slot: u32) {
        assert!(slot != VACANT, "there is no slot left");
        let tag = tag_of(hash);
        let mut index = self.directory[self.place(tag)] as usize;
        let segment = &self.segments[index];
        if is_full(segment.taken + 1, segment.entries()) {
            if segment.entries() < ENTRIES_MAX || segment.depth == DEPTH_MAX {
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
            assert!(segment.taken < segment.entries(), "a segment has vacant entries");
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

//! The filters of one run: whether a key may be in it, with one cache line and without a read.
//!
//! ```text
//!   random ids    ▐▌▐▌▐▌▐▌   blocks of 64 bytes in the order of the keys, as they come when the run is written
//!   ordered ids   ▐▌▐▌       asked only when the time of an id lies between the run's earliest and latest
//! ```
//!
//! Why two: an id with a time may have been kept among the random ones, because it came late. So every lookup asks the
//! random part of all runs. Where clients use times it is nearly empty, and therefore small and precise.
//!
//! Why fewer bits for more ids: a wrong "perhaps" costs one page whatever the run's length, so bits are best spent
//! where they are few. Why more of them while all filters together are small: up to a hundred million random ids there
//! is memory for so many that hardly a page is read for a new id. Why it is kept in the run's file: a start must not
//! read a billion entries.
//!
//! Only runs of [`FILTERED_TIER`] and above have filters; what is younger is in [`super::filter`].

use tidegate_memory::{Zeroed, prefetch};

use super::hash::RunKey;

/// Runs that were merged so often have filters of their own.
pub(super) const FILTERED_TIER: u32 = 2;

/// Words of 64 bits in a block.
pub(super) const BLOCK_WORDS: usize = 8;
const BLOCK_BITS: u64 = 512;
/// Nine bits choose one of a block; more than seven such choices do not fit a word.
const PROBES_MAX: u32 = 7;
/// Bits for each id of a run, in tenths: at least, at most, and with how many ids it is how many.
const TENTHS_MIN: u64 = 30;
const TENTHS_MAX: u64 = 160;
const TENTHS_AT: (u64, u64) = (1 << 25, 100);
/// Less for each doubling.
const TENTHS_PER_DOUBLING: u64 = 18;
/// A filter that the bound on memory leaves fewer tenths than this is not made.
const TENTHS_WORTH_IT: u64 = 20;
/// As long as all filters take this part of the bound at most, each has as many bits as are of use.
const SPARE_PART: u64 = 3;

/// Memory for the filters of a run to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilterRoom {
    /// Bytes at most.
    left: u64,
    /// Bytes that may be taken for more precision than is needed.
    spare: u64,
}

impl FilterRoom {
    /// What `bytes_max` leaves beside filters that have `in_use` bytes.
    pub(super) fn beside(in_use: u64, bytes_max: u64) -> FilterRoom {
        FilterRoom { left: bytes_max.saturating_sub(in_use), spare: (bytes_max / SPARE_PART).saturating_sub(in_use) }
    }

    /// The part of it for `ids` of `all` ids.
    pub(super) fn part(self, ids: u64, all: u64) -> FilterRoom {
        let part = |bytes: u64| (u128::from(bytes) * u128::from(ids) / u128::from(all)) as u64;
        FilterRoom { left: part(self.left), spare: part(self.spare) }
    }
}

/// How large one filter is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FilterShape {
    /// Blocks; none if there is no filter.
    pub(super) blocks: u64,
    /// Bits that an id sets.
    pub(super) probes: u32,
}

impl FilterShape {
    /// The best for `ids` ids; none for a filter that is not worth it.
    pub(super) fn best(ids: u64, room: FilterRoom) -> FilterShape {
        if ids == 0 {
            return FilterShape::default();
        }
        let (ids_at, tenths_at) = TENTHS_AT;
        let (log, log_at) = (u64::from(ids.ilog2()), u64::from(ids_at.ilog2()));
        let wanted = match log <= log_at {
            true => tenths_at + (log_at - log) * TENTHS_PER_DOUBLING,
            false => tenths_at.saturating_sub((log - log_at) * TENTHS_PER_DOUBLING),
        };
        let tenths_of = |bytes: u64| bytes.saturating_mul(80) / ids;
        let wanted = wanted.max(tenths_of(room.spare)).clamp(TENTHS_MIN, TENTHS_MAX);
        let tenths = wanted.min(tenths_of(room.left));
        if tenths < TENTHS_WORTH_IT {
            return FilterShape::default();
        }
        let blocks = (ids * tenths).div_ceil(BLOCK_BITS * 10).max(1);
        // 0.69 probes for each bit are best.
        let probes = ((tenths * 69 + 500) / 1000) as u32;
        FilterShape { blocks, probes: probes.clamp(1, PROBES_MAX) }
    }

    pub(super) fn bytes(self) -> u64 {
        self.blocks * BLOCK_WORDS as u64 * 8
    }

    pub(super) fn is_sane(self) -> bool {
        match self.blocks {
            0 => self.probes == 0,
            blocks => blocks < 1 << 32 && (1..=PROBES_MAX).contains(&self.probes),
        }
    }
}

/// One filter.
pub(super) struct RunFilter {
    shape: FilterShape,
    words: Zeroed<u64>,
}

/// Where a key is in a filter: the upper half chooses the block, in the order of the keys if they are random.
#[inline]
fn place(key: RunKey) -> u64 {
    if key.is_ordered() { mixed(key) } else { key.key << 1 }
}

/// Keys are keyed hashes or contain one, so that two rounds are enough.
#[inline]
fn mixed(key: RunKey) -> u64 {
    let word = (key.key ^ u64::from(key.tail).rotate_right(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (word ^ (word >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

impl RunFilter {
    /// Nothing in it yet.
    pub(super) fn new(shape: FilterShape) -> RunFilter {
        RunFilter { shape, words: Zeroed::new(shape.blocks as usize * BLOCK_WORDS) }
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    #[inline]
    fn start(&self, key: RunKey) -> usize {
        (((place(key) >> 32) * self.shape.blocks) >> 32) as usize * BLOCK_WORDS
    }

    /// The bits of a key in its block.
    #[inline]
    fn bits(&self, key: RunKey) -> impl Iterator<Item = (usize, u64)> + use<> {
        let word = mixed(RunKey { key: key.key.rotate_left(23), tail: key.tail });
        (0..self.shape.probes).map(move |probe| {
            let bit = word >> (9 * probe) & (BLOCK_BITS - 1);
            ((bit >> 6) as usize, 1 << (bit & 63))
        })
    }

    pub(super) fn insert(&mut self, key: RunKey) {
        let start = self.start(key);
        for (word, bit) in self.bits(key) {
            self.words[start + word] |= bit;
        }
    }

    #[inline]
    fn has(&self, key: RunKey) -> bool {
        let start = self.start(key);
        let block = &self.words[start..start + BLOCK_WORDS];
        self.bits(key).all(|(word, bit)| block[word] & bit != 0)
    }
}

/// The filters of a run, and what it holds.
pub(super) struct RunFilters {
    pub(super) random: Part,
    pub(super) ordered: Part,
}

/// The random, or the ordered, ids of a run.
pub(super) enum Part {
    /// There are none.
    Empty,
    /// Some, and no filter over them.
    Unfiltered,
    /// Some.
    Filtered(RunFilter),
}

impl Part {
    pub(super) fn new(ids: u64, shape: FilterShape) -> Part {
        match (ids, shape.blocks) {
            (0, _) => Part::Empty,
            (_, 0) => Part::Unfiltered,
            _ => Part::Filtered(RunFilter::new(shape)),
        }
    }

    pub(super) fn insert(&mut self, key: RunKey) {
        if let Part::Filtered(filter) = self {
            filter.insert(key);
        }
    }

    pub(super) fn filter_mut(&mut self) -> Option<&mut RunFilter> {
        match self {
            Part::Filtered(filter) => Some(filter),
            _ => None,
        }
    }

    pub(super) fn filter(&self) -> Option<&RunFilter> {
        match self {
            Part::Filtered(filter) => Some(filter),
            _ => None,
        }
    }

    /// Whether it may hold a key.
    #[inline]
    pub(super) fn may_hold(&self, key: RunKey) -> bool {
        match self {
            Part::Empty => false,
            Part::Unfiltered => true,
            Part::Filtered(filter) => filter.has(key),
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, key: RunKey) {
        if let Part::Filtered(filter) = self {
            prefetch(&filter.words[filter.start(key)]);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.filter().map_or(0, |filter| filter.words.len() * size_of::<u64>())
    }
}

impl RunFilters {
    pub(super) fn insert(&mut self, key: RunKey) {
        if key.is_ordered() { self.ordered.insert(key) } else { self.random.insert(key) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.random.bytes() + self.ordered.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IdHash, IdSeed};
    use super::*;

    /// Nothing to spare.
    fn room(left: u64) -> FilterRoom {
        FilterRoom { left, spare: 0 }
    }

    fn key(n: u64, seconds: u32) -> RunKey {
        let hash = IdSeed([3, 4]).hash(&n.to_le_bytes());
        IdHash { seconds, ..hash }.ordered().unwrap_or(hash.random())
    }

    #[test]
    fn nothing_is_missed_and_few_are_mistaken_at_any_size() {
        for (ids, seconds, bytes_max, at_most) in
            [(1, 0, 1 << 20, 0.01), (50_000, 0, 1 << 20, 0.004), (50_000, 9, 1 << 20, 0.004), (50_000, 9, 28_000, 0.16)]
        {
            let shape = FilterShape::best(ids, room(bytes_max));
            assert!(shape.is_sane() && shape.bytes() <= bytes_max + 64, "{shape:?}");
            let mut filter = RunFilter::new(shape);
            (0..ids).for_each(|n| filter.insert(key(n, seconds)));
            assert!((0..ids).all(|n| filter.has(key(n, seconds))));
            let mistaken = (0..20_000).filter(|n| filter.has(key(u64::MAX - n, seconds))).count();
            assert!(mistaken as f64 / 20_000.0 < at_most, "{mistaken} of 20,000 with {shape:?}");
        }
    }

    #[test]
    fn many_ids_get_fewer_bits_and_too_few_bytes_no_filter() {
        let tenths = |ids: u64| FilterShape::best(ids, room(u64::MAX / 80)).bytes() * 80 / ids;
        assert_eq!((tenths(1 << 25), tenths(1 << 28), tenths(1 << 40)), (100, 46, 30));
        assert_eq!(FilterShape::best(1 << 25, room((1 << 25) / 8 * 7 / 10 * 2)).blocks, 0);
        assert_eq!(FilterShape::best(0, room(1 << 30)), FilterShape::default());
    }

    #[test]
    fn while_all_filters_are_small_each_has_all_bits_that_are_of_use() {
        let (ids, bytes_max) = (1 << 25, 600 << 20);
        let tenths = |in_use: u64| {
            let shape = FilterShape::best(ids, FilterRoom::beside(in_use, bytes_max));
            (shape.bytes() * 80).div_ceil(ids)
        };
        assert_eq!((tenths(0), tenths(136 << 20)), (160, 160), "200 MiB are a third, and 64 MiB are 16 bits each");
        assert_eq!((tenths(150 << 20), tenths(300 << 20)), (125, 100), "what is left of the third; what is needed");
        let all = FilterRoom::beside(100, 1000);
        let half = all.part(2, 4);
        assert_eq!((all.left, all.spare, half.left, half.spare), (900, 233, 450, 116));
    }
}

//! A Bloom filter of the younger ids that grows by generations: answers "never seen" with one cache line per
//! generation.
//!
//! ```text
//!   generation 0      1 M ids   ▐▌                 positions  1 ..  x
//!   generation 1      3 M ids   ▐██▌                          x ..  y      each new generation makes the total four
//!   generation 2     12 M ids   ▐█████████▌ ◀── inserts       y ..  z      times larger: log4(N / 1 M) for N ids
//!
//!   block of 64 bytes:  8 words x 64 bits, one bit of each word per id (k = 8), 24 bits per id: 0.01 % false positives
//! ```
//!
//! Why generations: a filter cannot grow in place without the ids, and reading them back would block the shard. Why
//! each knows its range of positions: a hit in a small old generation then concerns only the few runs of that age, not
//! all of them. Why four times and not twice: half as many cache lines and false positives per lookup, for memory that
//! the bound allows anyway.
//!
//! Why the next generation is made at three quarters of the newest: its memory can be touched in advance by another
//! thread ([`Filter::prepare`]). On the shard's thread that would block the shard.
//!
//! Why generations are given up: when runs have been merged into a large one, that has a filter of its own, with fewer
//! bits ([`super::run_filter`]); then those of its age are not needed. So this filter stays as small as what is young.
//!
//! Promise: no false negatives; memory at most `bytes_max`. When that is used up the newest generation keeps filling,
//! false positives increase, and lookups read more pages: slower, but never wrong.

use tidegate_journal::Position;
use tidegate_memory::{Pages, Zeroed, prefetch};

use super::IdHash;

const LANES: usize = 8;
const BLOCK_BYTES: usize = LANES * 8;
/// With 16, a third of the memory less, false positives are ten times as many, and at 100 M ids the pages that they
/// read cost as much as all the rest of a new id.
const BITS_PER_ID: usize = 24;
const IDS_PER_BLOCK: usize = BLOCK_BYTES * 8 / BITS_PER_ID;
/// How many times larger the whole becomes with each generation.
const GROWTH: usize = 4;
/// Ids of one generation at most. Generations are given up as a whole, so a large one would stay for long.
const GENERATION_IDS_MAX: usize = 16 << 20;
/// A last generation that would be smaller than this part of the bound is not worth a cache line per lookup.
const SMALLEST_PART: usize = 8;

/// Which generations may hold a hash: a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hits(u64);

impl Hits {
    #[inline]
    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }
}

struct Generation {
    words: Zeroed<u64>,
    blocks: u64,
    capacity: u64,
    ids: u64,
    first: Position,
    last: Position,
}

/// A generation that is not needed any more.
#[allow(dead_code, reason = "it is only dropped, elsewhere")]
pub(super) struct Forgotten(Generation);

/// All ids that no run with a filter of its own has, oldest generation first.
pub(super) struct Filter {
    generations: Vec<Generation>,
    /// The one after the newest, once that is nearly full.
    next: Option<Generation>,
    /// All of them, the next one too.
    bytes: usize,
    bytes_max: usize,
    /// The last position of those that were given up.
    forgotten: Position,
}

/// One bit in each lane. The multiplication mixes all bits of the hash into the top 48, so that the bits are
/// independent of the block, which the top 32 bits of the hash itself choose.
#[inline]
fn lanes_of(hash: IdHash) -> [u64; LANES] {
    let mixed = (hash.hash ^ (hash.hash >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    std::array::from_fn(|lane| 1 << ((mixed >> (16 + 6 * lane)) & 63))
}

impl Generation {
    fn new(ids: usize, bytes_max: usize) -> Generation {
        let blocks = ids.div_ceil(IDS_PER_BLOCK).min(bytes_max / BLOCK_BYTES).max(1);
        Generation {
            words: Zeroed::new(blocks * LANES),
            blocks: blocks as u64,
            capacity: (blocks * IDS_PER_BLOCK) as u64,
            ids: 0,
            first: Position(u64::MAX),
            last: Position(0),
        }
    }

    #[inline]
    fn block_start(&self, hash: IdHash) -> usize {
        (((hash.hash >> 32) * self.blocks) >> 32) as usize * LANES
    }

    #[inline]
    fn has(&self, hash: IdHash, lanes: &[u64; LANES]) -> bool {
        let start = self.block_start(hash);
        let block = &self.words[start..start + LANES];
        // No early exit: eight words are four vector instructions, a branch in between costs more.
        block.iter().zip(lanes).fold(0, |missing, (word, lane)| missing | (lane & !word)) == 0
    }

    #[inline]
    fn insert(&mut self, hash: IdHash, lanes: &[u64; LANES]) {
        let start = self.block_start(hash);
        for (word, lane) in self.words[start..start + LANES].iter_mut().zip(lanes) {
            *word |= lane;
        }
        self.ids += 1;
    }
}

impl Filter {
    /// A filter for a history of `ids`, all of them at positions from `first` to `last`; they are added by
    /// [`Filter::restore`].
    pub(super) fn new(ids: usize, (first, last): (Position, Position), ids_first: usize, bytes_max: usize) -> Filter {
        // A long history leaves a part of the bound to what comes.
        let mut oldest = Generation::new(ids.max(ids_first), bytes_max / 4 * 3);
        if ids > 0 {
            (oldest.first, oldest.last) = (first, last);
        }
        let bytes = oldest.words.len() * 8;
        Filter { generations: vec![oldest], next: None, bytes, bytes_max, forgotten: Position(0) }
    }

    /// Adds an id of the history.
    pub(super) fn restore(&mut self, hash: IdHash) {
        self.generations[0].insert(hash, &lanes_of(hash));
    }

    #[inline]
    pub(super) fn insert(&mut self, hash: IdHash, position: Position) {
        let newest = self.newest();
        if newest.ids >= newest.capacity && self.grow() {
            return self.insert(hash, position);
        }
        let newest = self.newest();
        newest.insert(hash, &lanes_of(hash));
        newest.first = newest.first.min(position);
        newest.last = position;
    }

    #[inline]
    fn newest(&mut self) -> &mut Generation {
        self.generations.last_mut().expect("there is always one generation")
    }

    /// Makes the next generation if it will be needed soon. Returns its memory, once, for another thread to touch.
    pub(super) fn prepare(&mut self) -> Option<Pages> {
        let newest = self.newest();
        if newest.ids < newest.capacity / 4 * 3 || self.next.is_some() {
            return None;
        }
        self.next = self.next_generation();
        self.next.as_ref().map(|next| next.words.pages())
    }

    #[cold]
    fn grow(&mut self) -> bool {
        let Some(next) = self.next.take().or_else(|| self.next_generation()) else { return false };
        self.generations.push(next);
        true
    }

    /// `None` when the bound leaves no room for one that is worth it.
    fn next_generation(&mut self) -> Option<Generation> {
        let left = self.bytes_max - self.bytes;
        let whole: u64 = self.generations.iter().map(|generation| generation.capacity).sum();
        let wanted = (whole as usize * (GROWTH - 1)).min(GENERATION_IDS_MAX);
        let wanted_bytes = wanted / IDS_PER_BLOCK * BLOCK_BYTES;
        let is_worth_it = wanted_bytes <= left || left >= self.bytes_max / SMALLEST_PART;
        if !is_worth_it || self.generations.len() == u64::BITS as usize {
            return None;
        }
        let next = Generation::new(wanted, left);
        self.bytes += next.words.len() * 8;
        assert!(self.bytes <= self.bytes_max, "ids: the filter has {} bytes of {}", self.bytes, self.bytes_max);
        Some(next)
    }

    /// Gives up the generations whose ids are all at positions up to `last`: runs with filters of their own have them.
    /// Returns them, because to give a large one back to the system takes long.
    pub(super) fn forget(&mut self, last: Position) -> Vec<Forgotten> {
        let older = &self.generations[..self.generations.len() - 1];
        let count = older.iter().take_while(|generation| generation.last <= last).count();
        let forgotten: Vec<_> = self.generations.drain(..count).map(Forgotten).collect();
        if let Some(Forgotten(newest)) = forgotten.last() {
            self.forgotten = self.forgotten.max(newest.last);
        }
        self.bytes -= forgotten.iter().map(|Forgotten(generation)| generation.words.len() * 8).sum::<usize>();
        forgotten
    }

    /// The generations that may hold `hash`.
    #[inline]
    pub(super) fn hits(&self, hash: IdHash) -> Hits {
        let lanes = lanes_of(hash);
        let hits = self.generations.iter().enumerate();
        Hits(hits.fold(0, |hits, (index, generation)| hits | u64::from(generation.has(hash, &lanes)) << index))
    }

    /// Whether `hash` may have been inserted at a position behind `since`.
    #[inline]
    pub(super) fn may_have_since(&self, hash: IdHash, since: Position) -> bool {
        let lanes = lanes_of(hash);
        self.forgotten > since || self.since(since).any(|generation| generation.has(hash, &lanes))
    }

    /// The generations with positions behind `since`, and the newest, which gets the next one.
    #[inline]
    fn since(&self, since: Position) -> impl Iterator<Item = &Generation> {
        let newest = self.generations.len() - 1;
        let newer = move |(at, generation): &(usize, &Generation)| generation.last > since || *at == newest;
        self.generations.iter().enumerate().rev().take_while(newer).map(|(_, generation)| generation)
    }

    /// Loads what [`Filter::may_have_since`] looks at.
    #[inline]
    pub(super) fn prefetch_since(&self, hash: IdHash, since: Position) {
        for generation in self.since(since) {
            prefetch(&generation.words[generation.block_start(hash)]);
        }
    }

    /// Whether one of `hits` is of the age of what holds the positions from `first` to `last`.
    pub(super) fn may_hold(&self, hits: Hits, first: Position, last: Position) -> bool {
        self.generations
            .iter()
            .enumerate()
            .any(|(index, generation)| hits.0 >> index & 1 == 1 && generation.first <= last && first <= generation.last)
    }

    #[inline]
    pub(super) fn prefetch(&self, hash: IdHash) {
        for generation in &self.generations {
            prefetch(&generation.words[generation.block_start(hash)]);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::IdSeed;

    fn hash(n: u64) -> IdHash {
        IdSeed([3, 4]).hash(&n.to_le_bytes())
    }

    fn filled(ids: u64, bytes_max: usize) -> Filter {
        let mut filter = Filter::new(0, (Position(0), Position(0)), 1024, bytes_max);
        for n in 0..ids {
            filter.insert(hash(n), Position(n + 1));
        }
        filter
    }

    fn false_positives(filter: &Filter, tries: u64) -> f64 {
        let hits = (0..tries).filter(|n| !filter.hits(hash(u64::MAX - n)).is_none()).count();
        hits as f64 / tries as f64
    }

    #[test]
    fn nothing_that_was_inserted_is_ever_missed() {
        for (ids, bytes_max) in [(1, 4096), (5_000, 4096), (40_000, 1 << 20)] {
            let filter = filled(ids, bytes_max);
            for n in 0..ids {
                let hits = filter.hits(hash(n));
                assert!(filter.may_hold(hits, Position(n + 1), Position(n + 1)), "id {n} of {ids}");
            }
        }
    }

    #[test]
    fn generations_grow_fourfold_and_false_positives_stay_below_one_in_a_thousand_in_all_of_them_together() {
        let filter = filled(100_000, 1 << 20);
        assert_eq!(filter.generations.len(), 5); // 1 + 3 + 12 + 48 + 192 Ki
        let rate = false_positives(&filter, 100_000);
        assert!(rate < 0.001, "{rate}");
    }

    #[test]
    fn the_next_generation_is_made_once_before_it_is_needed() {
        let mut filter = Filter::new(0, (Position(0), Position(0)), 1024, 1 << 20);
        let capacity = filter.generations[0].capacity;
        let first_bytes = filter.bytes();
        for n in 0..capacity {
            filter.insert(hash(n), Position(n + 1));
            assert_eq!(filter.prepare().is_some(), n + 1 == capacity / 4 * 3, "after id {n} of {capacity}");
        }
        let bytes = filter.bytes();
        assert!(
            (first_bytes * 4 - 64..=first_bytes * 4).contains(&bytes),
            "{bytes} with the next, {first_bytes} without"
        );
        assert_eq!(filter.generations.len(), 1, "and not used before");
        filter.insert(hash(capacity), Position(capacity + 1));
        assert_eq!((filter.generations.len(), filter.bytes()), (2, bytes));
        let mut full = filled(100_000, 4096);
        assert!(full.prepare().is_none(), "the bound leaves no room");
    }

    #[test]
    fn the_bound_holds_and_false_positives_grow_instead() {
        let filter = filled(100_000, 64 << 10); // room for 21 Ki ids at full precision
        assert!(filter.bytes() <= 64 << 10);
        let rate = false_positives(&filter, 20_000);
        assert!((0.05..1.0).contains(&rate), "{rate}");
    }

    #[test]
    fn generations_that_are_covered_are_given_up_but_never_the_newest() {
        let mut filter = filled(100_000, 1 << 20);
        let before = filter.bytes();
        let second_ends = filter.generations[1].last;
        assert!(filter.forget(Position(second_ends.0 - 1)).len() == 1 && filter.generations.len() == 4);
        assert_eq!(filter.forget(second_ends).len(), 1);
        assert!(filter.bytes() < before);
        for n in second_ends.0..100_000 {
            assert!(filter.may_hold(filter.hits(hash(n)), Position(n + 1), Position(n + 1)), "id {n}");
        }
        filter.forget(Position(100_000));
        assert_eq!(filter.generations.len(), 1);
        filter.insert(hash(7), Position(100_001));
        assert!(!filter.hits(hash(7)).is_none());
    }

    #[test]
    fn what_came_behind_a_position_is_known_from_what_is_newer_alone() {
        let mut filter = filled(100_000, 1 << 20);
        let second_ends = filter.generations[1].last;
        for since in [0, second_ends.0 - 1, second_ends.0, 99_999].map(Position) {
            assert!((since.0..100_000).step_by(97).all(|n| filter.may_have_since(hash(n), since)), "since {since}");
        }
        let older = (0..second_ends.0).filter(|n| filter.may_have_since(hash(*n), second_ends)).count();
        assert!(older < 20, "{older} of {second_ends} older ones are taken for newer");
        assert_eq!(filter.since(Position(99_999)).count(), 1);
        filter.forget(second_ends);
        assert!(filter.may_have_since(hash(u64::MAX), Position(second_ends.0 - 1)), "it was given up, so nobody knows");
        assert!(!filter.may_have_since(hash(u64::MAX), second_ends));
    }

    #[test]
    fn a_long_history_is_one_generation_and_leaves_room() {
        let mut filter = Filter::new(1 << 20, (Position(1), Position(9)), 1024, 64 << 10);
        assert_eq!((filter.generations.len(), filter.bytes()), (1, 48 << 10));
        filter.insert(hash(1), Position(10));
        assert_eq!(filter.generations.len(), 1);
        for n in 0..filter.generations[0].capacity {
            filter.restore(hash(n));
        }
        filter.insert(hash(2), Position(11));
        assert_eq!((filter.generations.len(), filter.bytes()), (2, 64 << 10));
    }
}

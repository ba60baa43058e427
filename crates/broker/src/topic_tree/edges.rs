//! A hash table of ids only: the owner of the items supplies their hashes and compares them.
//!
//! ```text
//!   hash ─▶ bucket: one cache line │ 12 tags of a byte │ next │ 12 ids of 4 bytes │ ─next─▶ overflow bucket, seldom
//! ```
//!
//! Promise: a look-up reads one cache line (one in ten reads a second) before it reads an item, and an insertion costs
//! the same with ten ids and with ten million: the table grows by one bucket at a time (linear hashing: Litwin, 1980).
//!
//! Why not `hashbrown`, which is faster per probe: it doubles. At two million ids half of its memory is unused, both
//! tables exist while it copies, and the worker serves no client for the tenth of a second in which it hashes every
//! node again. Also its tags and values are on different cache lines.
//!
//! The table does not shrink: a broker that had a million clients may have them again.

use tidegate_memory::prefetch;

use crate::slab::Slab;

const PER_BUCKET: usize = 12;

/// Ids per bucket, on average, above which a bucket is added. Buckets not yet split hold up to twice the average, so at
/// 8 of 12 some overflow: 9 bytes an id, measured over a doubling. At 6 it would be 11.
const LOAD: usize = 8;

const NO_BUCKET: u32 = u32::MAX;

#[repr(align(64))]
struct Bucket {
    /// A byte of each id's hash, never 0; 0 where there is no id. Ids stand at the front.
    tags: [u8; PER_BUCKET],
    /// The overflow bucket behind this one.
    next: u32,
    ids: [u32; PER_BUCKET],
}

const _: () = assert!(size_of::<Bucket>() == 64, "a bucket is a cache line");

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket { tags: [0; PER_BUCKET], next: NO_BUCKET, ids: [0; PER_BUCKET] }
    }
}

impl Bucket {
    fn len(&self) -> usize {
        self.tags.iter().take_while(|tag| **tag != 0).count()
    }

    /// A bit for each place that has this tag. Without a branch, so that the compiler makes it a comparison of all
    /// twelve at once.
    #[inline]
    fn having(&self, tag: u8) -> u32 {
        let mut places = 0;
        for (place, there) in self.tags.iter().enumerate() {
            places |= u32::from(*there == tag) << place;
        }
        places
    }
}

/// See the module's description. A new one owns nothing yet.
#[derive(Default)]
pub(crate) struct IdTable {
    /// Home buckets, as many as have been split off so far; in chunks, which are never moved.
    homes: Vec<Box<[Bucket]>>,
    home_count: usize,
    /// In small pieces: a list with an index of its own has a table too.
    overflow: Slab<u32, Bucket, 4>,
    len: usize,
}

const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 5;

/// Where a bucket is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Home(usize),
    Overflow(u32),
}

impl IdTable {
    /// Heap bytes of the table.
    pub(crate) fn heap_bytes(&self) -> usize {
        let chunk_bytes = CHUNK * size_of::<Bucket>();
        self.homes.capacity() * size_of::<Box<[Bucket]>>() + self.homes.len() * chunk_bytes + self.overflow.heap_bytes()
    }

    /// Ids in the table.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The id with this hash that `is_it` recognises.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let tag = tag(hash);
        let mut bucket = self.bucket(Where::Home(self.home(hash)));
        loop {
            let mut places = bucket.having(tag);
            while places != 0 {
                let id = bucket.ids[places.trailing_zeros() as usize];
                if is_it(id) {
                    return Some(id);
                }
                places &= places - 1;
            }
            if bucket.next == NO_BUCKET {
                return None;
            }
            bucket = &self.overflow[bucket.next];
        }
    }

    /// Asks for the cache line in which a hash will be looked for.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        if self.len > 0 {
            prefetch(self.bucket(Where::Home(self.home(hash))));
        }
    }

    /// Adds an id that is not there. `hash_of` gives the hash of an id that is: some move when the table grows.
    pub(crate) fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        self.len += 1;
        if self.len > self.home_count * LOAD {
            self.grow(hash_of);
        }
        self.place(self.home(hash), tag(hash), id);
    }

    /// Removes an id; whether it was there.
    pub(crate) fn remove(&mut self, hash: u64, id: u32) -> bool {
        self.take(hash, id).is_some()
    }

    /// Puts `new` where `old` was: both have the same hash. Whether `old` was there.
    pub(crate) fn replace(&mut self, hash: u64, old: u32, new: u32) -> bool {
        let found = self.seek(hash, old);
        if let Some((at, place)) = found {
            self.bucket_mut(at).ids[place] = new;
        }
        found.is_some()
    }

    /// The home of a hash: its low bits, one more of them for buckets that have been split in this round.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        let mask = self.home_count.next_power_of_two() - 1;
        let bucket = hash as usize & mask;
        if bucket < self.home_count { bucket } else { bucket & (mask >> 1) }
    }

    #[inline]
    fn bucket(&self, at: Where) -> &Bucket {
        match at {
            Where::Home(nth) => &self.homes[nth >> CHUNK_BITS][nth & (CHUNK - 1)],
            Where::Overflow(id) => &self.overflow[id],
        }
    }

    fn bucket_mut(&mut self, at: Where) -> &mut Bucket {
        match at {
            Where::Home(nth) => &mut self.homes[nth >> CHUNK_BITS][nth & (CHUNK - 1)],
            Where::Overflow(id) => &mut self.overflow[id],
        }
    }

    fn seek(&self, hash: u64, id: u32) -> Option<(Where, usize)> {
        if self.len == 0 {
            return None;
        }
        let mut at = Where::Home(self.home(hash));
        loop {
            let bucket = self.bucket(at);
            let mut places = bucket.having(tag(hash));
            while places != 0 {
                let place = places.trailing_zeros() as usize;
                if bucket.ids[place] == id {
                    return Some((at, place));
                }
                places &= places - 1;
            }
            if bucket.next == NO_BUCKET {
                return None;
            }
            at = Where::Overflow(bucket.next);
        }
    }

    /// Adds an id to a home's chain: the first bucket with a free place, so that only the last one is not full.
    fn place(&mut self, home: usize, tag: u8, id: u32) {
        let mut at = Where::Home(home);
        loop {
            let bucket = self.bucket_mut(at);
            let len = bucket.len();
            if len < PER_BUCKET {
                bucket.tags[len] = tag;
                bucket.ids[len] = id;
                return;
            }
            let next = bucket.next;
            at = Where::Overflow(if next == NO_BUCKET {
                let new = self.overflow.insert(Bucket::default());
                self.bucket_mut(at).next = new;
                new
            } else {
                next
            });
        }
    }

    /// Removes an id and fills its place with the last one of the chain.
    fn take(&mut self, hash: u64, id: u32) -> Option<()> {
        let (hole, place) = self.seek(hash, id)?;
        let mut before = None;
        let mut last = Where::Home(self.home(hash));
        while self.bucket(last).next != NO_BUCKET {
            before = Some(last);
            last = Where::Overflow(self.bucket(last).next);
        }
        let tail = self.bucket_mut(last);
        let end = tail.len() - 1;
        assert!(tail.tags[end] != 0, "the last bucket of a chain is not empty");
        let (tag, moved) = (tail.tags[end], tail.ids[end]);
        tail.tags[end] = 0;
        if (hole, place) != (last, end) {
            let bucket = self.bucket_mut(hole);
            bucket.tags[place] = tag;
            bucket.ids[place] = moved;
        }
        if let (0, Some(before), Where::Overflow(empty)) = (end, before, last) {
            self.bucket_mut(before).next = NO_BUCKET;
            self.overflow.remove(empty);
        }
        assert!(self.len > 0, "what is removed was counted");
        self.len -= 1;
        Some(())
    }

    /// Adds one home bucket and moves to it what belongs there, all from one other: that whose number it shares but for
    /// the top bit.
    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let new = self.home_count;
        if new == self.homes.len() * CHUNK {
            self.homes.push((0..CHUNK).map(|_| Bucket::default()).collect());
        }
        self.home_count += 1;
        if new == 0 {
            return;
        }
        let split = new - (1 << new.ilog2());
        let mut next = Some(std::mem::take(self.bucket_mut(Where::Home(split))));
        while let Some(bucket) = next {
            for place in 0..bucket.len() {
                let id = bucket.ids[place];
                let home = self.home(hash_of(id));
                debug_assert!(
                    home == split || home == new,
                    "an id leaves its bucket only for that bucket's other half"
                );
                self.place(home, bucket.tags[place], id);
            }
            next = (bucket.next != NO_BUCKET).then(|| self.overflow.remove(bucket.next));
        }
    }
}

/// The top byte of a hash, which no home's number reaches down from the bottom; never 0.
#[inline]
fn tag(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(1)
}

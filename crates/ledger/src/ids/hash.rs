//! The hash of an id, the key that makes it unpredictable, and the keys under which runs keep it.
//!
//! ```text
//!   id ─▶ SipHash ─▶ hash, 47 bits                       tables and the filter in memory: hash only
//!    └─▶ time_in ─▶ seconds, window                      runs: one of two keys
//!
//!   key of a random id     0 │ hash, 47 bits, then 16 zero bits │ tail 0
//!   key of an ordered id   1 │ seconds, 32 bits │ hash, upper 31 bits │ tail: lower 16 bits of the hash
//! ```
//!
//! Why both keys have all 47 bits of the hash: the filter in memory is made of runs at start, and takes no other bits.
//!
//! Why two classes: see `docs/decisions/0013-ids-with-time.md`.

use siphasher::sip::SipHasher13;

use super::time::time_in;

/// Bits of a hash below these are zero.
const UNUSED_BITS: u32 = 17;
/// The uppermost bit of the key of an id that is kept by its time.
const ORDERED: u64 = 1 << 63;
const HASH_BITS_IN_KEY: u32 = 31;

/// What stands for an id in the index: a hash, which every structure takes as uniformly distributed, and the time that
/// the id carries, if it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdHash {
    pub(super) hash: u64,
    /// Seconds since 1970; zero for ids without a time.
    pub(super) seconds: u32,
    /// How far its time may be from that of its record, in seconds, for it to be kept by its time.
    pub(super) window: u32,
}

impl IdHash {
    /// An id without a time; the lowest bits of `hash` are not used.
    pub(super) const fn of(hash: u64) -> IdHash {
        IdHash { hash: hash >> UNUSED_BITS << UNUSED_BITS, seconds: 0, window: 0 }
    }

    /// The time by which a record of `now` is kept under this id; zero if it is kept among the random ones.
    #[inline]
    pub(super) fn kept_by(self, now: u32) -> u32 {
        if self.seconds.abs_diff(now) <= self.window { self.seconds } else { 0 }
    }

    /// Its key if it was kept among the random ones.
    #[inline]
    pub(super) fn random(self) -> RunKey {
        RunKey { key: self.hash >> 1, tail: 0 }
    }

    /// Its key if it was kept by its time.
    #[inline]
    pub(super) fn ordered(self) -> Option<RunKey> {
        (self.seconds != 0).then(|| RunKey::by_time(self.hash, self.seconds))
    }
}

/// Under which key a run has an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunKey {
    pub(super) key: u64,
    pub(super) tail: u16,
}

impl RunKey {
    /// The key of an entry with this hash; `seconds` as [`IdHash::kept_by`] says.
    #[inline]
    pub(super) fn new(hash: u64, seconds: u32) -> RunKey {
        if seconds == 0 { RunKey { key: hash >> 1, tail: 0 } } else { RunKey::by_time(hash, seconds) }
    }

    #[inline]
    fn by_time(hash: u64, seconds: u32) -> RunKey {
        let key = ORDERED | u64::from(seconds) << HASH_BITS_IN_KEY | hash >> (64 - HASH_BITS_IN_KEY);
        RunKey { key, tail: (hash >> UNUSED_BITS) as u16 }
    }

    /// Whether it is of an id that is kept by its time.
    #[inline]
    pub(super) fn is_ordered(self) -> bool {
        self.key & ORDERED != 0
    }

    /// The time by which it is kept; zero for random ones.
    #[inline]
    pub(super) fn seconds(self) -> u32 {
        if self.is_ordered() { (self.key >> HASH_BITS_IN_KEY) as u32 } else { 0 }
    }

    /// The hash that it was made of.
    #[inline]
    pub(super) fn hash(self) -> IdHash {
        let hash = match self.is_ordered() {
            false => self.key << 1,
            true => self.key << (64 - HASH_BITS_IN_KEY) | u64::from(self.tail) << UNUSED_BITS,
        };
        IdHash { hash, seconds: self.seconds(), window: 0 }
    }
}

/// Key of the hash, kept in the manifest for the life of an index. Why a key: ids are chosen by clients, and a client
/// that could make ids of equal hash would make every lookup read all of them. Why SipHash: it is specified, so that
/// runs stay readable whatever library computes it, and it withstands such clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdSeed(pub [u64; 2]);

impl IdSeed {
    /// The upper 47 bits of SipHash-1-3 of `id`, and the time in it.
    #[inline]
    pub fn hash(self, id: &[u8]) -> IdHash {
        let hash = IdHash::of(SipHasher13::new_with_keys(self.0[0], self.0[1]).hash(id));
        match time_in(id) {
            Some(time) => IdHash { seconds: time.seconds, window: time.window, ..hash },
            None => hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changing these numbers makes all existing runs useless: raise the manifest's version then.
    #[test]
    fn the_hash_of_an_id_never_changes() {
        let seed = IdSeed([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        assert_eq!(seed.hash(b""), IdHash::of(0xabac_0158_050f_c4dc));
        assert_eq!(seed.hash(b"").hash, 0xabac_0158_050e_0000);
        assert_ne!(seed.hash(b"vote-1"), IdSeed([1, 2]).hash(b"vote-1"));
    }

    #[test]
    fn both_keys_give_the_hash_back_and_random_ones_stand_before_ordered_ones() {
        for (hash, seconds) in [(0, 1), (u64::MAX, u32::MAX), (0x1234_5678_9abc_def0, 1_763_000_000)] {
            let id = IdHash { hash: IdHash::of(hash).hash, seconds, window: 60 };
            let (random, ordered) = (id.random(), id.ordered().expect("it has a time"));
            assert!(random < ordered && !random.is_ordered() && ordered.is_ordered());
            assert_eq!((random.hash().hash, ordered.hash().hash), (id.hash, id.hash));
            assert_eq!((random.seconds(), ordered.seconds()), (0, seconds));
            let later = IdHash { seconds: seconds.saturating_add(1), hash: 0, window: 60 };
            assert!(seconds == u32::MAX || ordered < later.ordered().expect("it has a time"));
        }
    }

    #[test]
    fn only_a_time_near_that_of_its_record_orders_an_id() {
        let id = IdHash { hash: 0, seconds: 1_000, window: 60 };
        for (now, kept_by) in [(939, 0), (940, 1_000), (1_000, 1_000), (1_060, 1_000), (1_061, 0)] {
            assert_eq!(id.kept_by(now), kept_by, "at {now}");
        }
        assert_eq!(IdHash::of(7).kept_by(0), 0);
    }
}

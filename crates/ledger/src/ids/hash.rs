//! The hash of an id, and the key that makes it unpredictable.

use siphasher::sip::SipHasher13;

/// 64 bits that stand for an id in the index. Every structure here takes them as uniformly distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdHash(pub u64);

/// Key of the hash, kept in the manifest for the life of an index. Why a key: ids are chosen by clients, and a client
/// that could make ids of equal hash would make every lookup read all of them. Why SipHash: it is specified, so that
/// runs stay readable whatever library computes it, and it withstands such clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdSeed(pub [u64; 2]);

impl IdSeed {
    /// SipHash-1-3 of `id`.
    #[inline]
    pub fn hash(self, id: &[u8]) -> IdHash {
        IdHash(SipHasher13::new_with_keys(self.0[0], self.0[1]).hash(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changing these numbers makes all existing runs useless: raise the manifest's version then.
    #[test]
    fn the_hash_of_an_id_never_changes() {
        let seed = IdSeed([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        assert_eq!(seed.hash(b""), IdHash(0xabac_0158_050f_c4dc));
        assert_ne!(seed.hash(b"vote-1"), IdSeed([1, 2]).hash(b"vote-1"));
    }
}

//! SipHash-2-4 (Aumasson and Bernstein, 2012) of three words.
//!
//! Why not the crate `siphasher`, whose results these are: it hashes any number of bytes, for which it copies its state
//! and the bytes. That took as long as the hash.

/// What tags are made with: the state before the first word.
#[derive(Clone)]
pub(super) struct TagKey([u64; 4]);

/// Bytes that are hashed, as the last word has them.
const LENGTH: u64 = 24 << 56;

impl TagKey {
    /// The two halves of a key, as SipHash numbers them.
    pub fn new(k0: u64, k1: u64) -> TagKey {
        // "somepseudorandomlygeneratedbytes".
        TagKey([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    /// The tag of these words.
    #[inline]
    pub fn tag(&self, [first, second, third]: [u64; 3]) -> u64 {
        let mut state = self.0;
        for word in [first, second, third, LENGTH] {
            state[3] ^= word;
            state = round(round(state));
            state[0] ^= word;
        }
        state[2] ^= 0xff;
        let [v0, v1, v2, v3] = round(round(round(round(state))));
        v0 ^ v1 ^ v2 ^ v3
    }
}

#[inline(always)]
fn round([mut v0, mut v1, mut v2, mut v3]: [u64; 4]) -> [u64; 4] {
    v0 = v0.wrapping_add(v1);
    v2 = v2.wrapping_add(v3);
    v1 = v1.rotate_left(13) ^ v0;
    v3 = v3.rotate_left(16) ^ v2;
    v0 = v0.rotate_left(32).wrapping_add(v3);
    v2 = v2.wrapping_add(v1);
    v3 = v3.rotate_left(21) ^ v0;
    v1 = v1.rotate_left(17) ^ v2;
    [v0, v1, v2.rotate_left(32), v3]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use siphasher::sip::SipHasher24;

    use super::*;

    proptest! {
        #[test]
        fn a_tag_is_the_hash_of_the_crate(k0: u64, k1: u64, words: [u64; 3]) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            prop_assert_eq!(TagKey::new(k0, k1).tag(words), SipHasher24::new_with_keys(k0, k1).hash(&bytes));
        }
    }
}

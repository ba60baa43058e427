//! The hashes that are part of the format: which shard owns a key, where an id is in an index, whether two contents are
//! equal. They never change.
//!
//! All are SipHash (Aumasson and Bernstein, 2012) because it is short, fully specified, needs no table, and mixes well
//! enough that similar keys (`wallet:1`, `wallet:2`) spread evenly.

use super::outcome::Refusal;
use super::request::{Hold, Label, Transfer};
use super::validity::{check_hold, check_transfer};
use crate::ShardIndex;

/// 128 bits that stand for the content of a transfer or hold, without its id.
///
/// Not a secret and not a proof: a client that finds two contents with one digest gets the answer of the first for the
/// second, and no money moves.
pub type ContentDigest = [u8; 16];

/// The shard that owns a key: an account, or the home of a transfer or hold id.
///
/// If the key has a `{tag}` that is not empty (the text between the first `{` and the first `}` after it, as in Redis
/// Cluster), only the tag counts, so that keys with one tag share a shard. SipHash-1-3 under the zero key, scaled to
/// the count of shards by its upper bits.
pub fn shard_of(key: &str, shard_count: u16) -> ShardIndex {
    if shard_count <= 1 {
        return ShardIndex(0);
    }
    let hash = u128::from(sip_64(tag(key).as_bytes(), SHARD_KEY));
    let shard = ((hash * u128::from(shard_count)) >> 64) as u16;
    assert!(shard < shard_count, "key {key} falls beyond the last shard");
    ShardIndex(shard)
}

/// A stable 64-bit hash of a transfer or hold id, for the shard's id index: SipHash-1-3 under the zero key.
pub fn id_hash(id: &str) -> u64 {
    sip_64(id.as_bytes(), SHARD_KEY)
}

/// As [`id_hash`], under a key of the data directory, so that a client cannot prepare ids that collide.
pub fn id_hash_keyed(id: &str, key: [u64; 2]) -> u64 {
    sip_64(id.as_bytes(), key)
}

/// What can be asked under an id, as [`content_digest`] takes it.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// A transfer.
    Transfer(Transfer<'a>),
    /// A hold.
    Hold(Hold<'a>),
}

impl<'a> Content<'a> {
    /// The id that it is asked under.
    pub fn id(&self) -> &'a str {
        match *self {
            Content::Transfer(Transfer { id, .. }) | Content::Hold(Hold { id, .. }) => id,
        }
    }

    /// The account to credit.
    pub fn credit(&self) -> &'a str {
        match *self {
            Content::Transfer(Transfer { credit, .. }) | Content::Hold(Hold { credit, .. }) => credit,
        }
    }

    /// What can be refused without knowing any account.
    pub fn check(&self) -> Result<(), Refusal> {
        match self {
            Content::Transfer(transfer) => check_transfer(transfer),
            Content::Hold(hold) => check_hold(hold),
        }
    }
}

impl<'a> From<&Transfer<'a>> for Content<'a> {
    fn from(transfer: &Transfer<'a>) -> Self {
        Content::Transfer(*transfer)
    }
}

impl<'a> From<&Hold<'a>> for Content<'a> {
    fn from(hold: &Hold<'a>) -> Self {
        Content::Hold(*hold)
    }
}

/// What a transfer or hold asks, without its id.
pub fn content_digest<'a>(content: impl Into<Content<'a>>) -> ContentDigest {
    match content.into() {
        Content::Transfer(Transfer { id: _, debit, credit, amount, memo, label }) => {
            digest(b't', debit, credit, amount, 0, memo, label)
        }
        Content::Hold(Hold { id: _, debit, credit, amount, expires_in_ms, memo, label }) => {
            digest(b'h', debit, credit, amount, expires_in_ms, memo, label)
        }
    }
}

/// SipHash-2-4 with 128 bits under the zero key over: kind, amount, lifetime (little-endian), then each text with its
/// length before it, so that no two contents have the same bytes. A label stands at the end, and only if there is one:
/// contents without are hashed as they were before labels existed.
fn digest(
    kind: u8,
    debit: &str,
    credit: &str,
    amount: u64,
    expires_in_ms: u64,
    memo: &str,
    label: Label<'_>,
) -> ContentDigest {
    let mut sip = SipHasher::<2, 4>::new(SHARD_KEY, true);
    sip.write(&[kind]);
    sip.write(&amount.to_le_bytes());
    sip.write(&expires_in_ms.to_le_bytes());
    for text in [debit, credit, memo] {
        sip.write(&(text.len() as u32).to_le_bytes());
        sip.write(text.as_bytes());
    }
    if !label.is_none() {
        sip.write(&label.code.to_le_bytes());
        sip.write(label.user_data.as_bytes());
    }
    sip.finish_128()
}

const SHARD_KEY: [u64; 2] = [0, 0];

fn tag(key: &str) -> &str {
    let Some(open) = key.find('{') else { return key };
    let inner = &key[open + 1..];
    match inner.find('}') {
        Some(close) if close > 0 => &inner[..close],
        _ => key,
    }
}

fn sip_64(bytes: &[u8], key: [u64; 2]) -> u64 {
    let mut sip = SipHasher::<1, 3>::new(key, false);
    sip.write(bytes);
    sip.finish_64()
}

/// SipHash-C-D: C rounds a word, D at the end.
struct SipHasher<const C: usize, const D: usize> {
    v: [u64; 4],
    tail: u64,
    tail_bytes: usize,
    length: u64,
}

impl<const C: usize, const D: usize> SipHasher<C, D> {
    #[inline(always)]
    fn new([k0, k1]: [u64; 2], wide: bool) -> Self {
        let v1 = 0x646f_7261_6e64_6f6d ^ k1 ^ if wide { 0xee } else { 0 };
        SipHasher {
            v: [0x736f_6d65_7073_6575 ^ k0, v1, 0x6c79_6765_6e65_7261 ^ k0, 0x7465_6462_7974_6573 ^ k1],
            tail: 0,
            tail_bytes: 0,
            length: 0,
        }
    }

    #[inline(always)]
    fn write(&mut self, mut bytes: &[u8]) {
        self.length = self.length.wrapping_add(bytes.len() as u64);
        while self.tail_bytes > 0 && !bytes.is_empty() {
            self.push_tail(bytes[0]);
            bytes = &bytes[1..];
        }
        debug_assert!(self.tail_bytes == 0 || bytes.is_empty(), "words begin where the tail ends");
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        for &byte in rest {
            self.push_tail(byte);
        }
    }

    #[inline(always)]
    fn push_tail(&mut self, byte: u8) {
        debug_assert!(self.tail_bytes < 8, "a full word is mixed in at once");
        self.tail |= u64::from(byte) << (8 * self.tail_bytes);
        self.tail_bytes += 1;
        if self.tail_bytes == 8 {
            let word = self.tail;
            self.tail = 0;
            self.tail_bytes = 0;
            self.word(word);
        }
    }

    #[inline(always)]
    fn word(&mut self, word: u64) {
        self.v[3] ^= word;
        self.rounds::<C>();
        self.v[0] ^= word;
    }

    #[inline(always)]
    fn rounds<const N: usize>(&mut self) {
        let [mut v0, mut v1, mut v2, mut v3] = self.v;
        for _ in 0..N {
            v0 = v0.wrapping_add(v1);
            v2 = v2.wrapping_add(v3);
            v1 = v1.rotate_left(13) ^ v0;
            v3 = v3.rotate_left(16) ^ v2;
            v0 = v0.rotate_left(32);
            v2 = v2.wrapping_add(v1);
            v0 = v0.wrapping_add(v3);
            v1 = v1.rotate_left(17) ^ v2;
            v3 = v3.rotate_left(21) ^ v0;
            v2 = v2.rotate_left(32);
        }
        self.v = [v0, v1, v2, v3];
    }

    #[inline(always)]
    fn last_word(&mut self) {
        let word = self.tail | (self.length & 0xff) << 56;
        self.word(word);
    }

    #[inline(always)]
    fn finish_64(mut self) -> u64 {
        self.last_word();
        self.v[2] ^= 0xff;
        self.rounds::<D>();
        self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3]
    }

    fn finish_128(mut self) -> [u8; 16] {
        self.last_word();
        self.v[2] ^= 0xee;
        self.rounds::<D>();
        let low = self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3];
        self.v[1] ^= 0xdd;
        self.rounds::<D>();
        let high = self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3];
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..].copy_from_slice(&high.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests;

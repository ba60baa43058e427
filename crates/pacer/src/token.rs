//! What a bid is known by when its auction is over: a client gives it back with the win or the loss.
//!
//! ```text
//!   0        8         12           16        21         24       32
//!   │ lease  │ number  │ price      │ bid at  │ opened   │ tag    │     little-endian
//!   │ u64    │ u32     │ u32 micros │ u40 ms  │ u24 ms   │ u64    │
//! ```
//!
//! The tag is SipHash-2-4 of what is before it, with a key of the data directory. Why not a longer one: a bid has
//! 100 ns of a processor, and a forged token is worth the price of one impression out of a lease that lives for
//! seconds. Who guesses 2^63 times meets the bounds of the door long before.

mod tag;

use tidegate_machines::TimeMs;

use tag::TagKey;

use crate::machine::{LeaseId, Win};
use crate::units::PriceMicros;

/// Times of bids are counted from here: the begin of the year 2020. Forty bits of milliseconds last until 2054.
const EPOCH_MS: u64 = 1_577_836_800_000;
/// Bits of the time of a bid, and of a lease's opening.
const AT_BITS: u32 = 40;
const OPENED_BITS: u32 = 24;

/// Bytes of a token: four words.
pub const TOKEN_BYTES: usize = 32;

/// A bid as its token says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bid {
    /// Of this lease.
    pub lease: LeaseId,
    /// Which bid of the lease.
    pub number: u32,
    /// What was bid.
    pub price: PriceMicros,
    /// When.
    pub at: TimeMs,
    /// When the lease was opened.
    pub opened: Opening,
}

/// When a lease was opened, as far as a token says it: the milliseconds within 4.7 hours. A lease of the same number on
/// another timeline, that of before a restore, was opened at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opening(u32);

impl Opening {
    /// Of this time.
    pub const fn of(opened: TimeMs) -> Opening {
        Opening(opened.0 as u32 & ((1 << OPENED_BITS) - 1))
    }
}

/// Signs tokens, and knows those that it has signed.
#[derive(Clone)]
pub struct TokenKey {
    bids: TagKey,
    losses: TagKey,
}

impl TokenKey {
    /// The key that follows from a secret.
    pub fn derive(secret: &[u8]) -> TokenKey {
        let key = |context| {
            let key = blake3::derive_key(context, secret);
            let half = |at: usize| u64::from_le_bytes(key[at..at + 8].try_into().expect("eight bytes"));
            TagKey::new(half(0), half(8))
        };
        TokenKey {
            bids: key("tidegate pacer: tokens of bids, layout 1"),
            losses: key("tidegate pacer: proofs of losses, layout 1"),
        }
    }

    /// The token of a bid.
    #[inline]
    pub fn sign(&self, bid: &Bid) -> [u8; TOKEN_BYTES] {
        let at = bid.at.0.saturating_sub(EPOCH_MS) & ((1 << AT_BITS) - 1);
        let signed = [
            bid.lease.0,
            u64::from(bid.number) | u64::from(bid.price.0) << 32,
            at | u64::from(bid.opened.0) << AT_BITS,
        ];
        let [lease, bid, times] = signed;
        let mut token = [0; TOKEN_BYTES];
        let words = [lease, bid, times, self.bids.tag(signed)];
        token.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        token
    }

    /// What shows, beside its token, that whoever says that a bid has lost may say so: a token alone is in the notice
    /// of a win, which a device may send that shows an ad.
    pub fn proof_of_loss(&self, token: &[u8; TOKEN_BYTES]) -> u64 {
        let [first, second, third, _] = words_of(token);
        self.losses.tag([first, second, third])
    }

    /// The bid of a token; `None` if this server has not signed it.
    pub fn open(&self, token: &[u8]) -> Option<Bid> {
        let token: &[u8; TOKEN_BYTES] = token.try_into().ok()?;
        let [lease, bid, times, tag] = words_of(token);
        let signed = [lease, bid, times];
        // The time of the comparison says nothing that helps: each token has one bid's worth.
        (self.bids.tag(signed) == tag).then(|| Bid {
            lease: LeaseId(lease),
            number: bid as u32,
            price: PriceMicros((bid >> 32) as u32),
            at: TimeMs(EPOCH_MS + (times & ((1 << AT_BITS) - 1))),
            opened: Opening((times >> AT_BITS) as u32),
        })
    }
}

fn words_of(token: &[u8; TOKEN_BYTES]) -> [u64; 4] {
    [0, 8, 16, 24].map(|at| u64::from_le_bytes(token[at..at + 8].try_into().expect("eight bytes")))
}

impl Bid {
    /// The bid has won, at this price. That was told at this time.
    pub fn won(&self, price: PriceMicros, at: TimeMs) -> Win {
        Win { bid: *self, price, at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_was_signed_and_nothing_else() {
        let key = TokenKey::derive(b"secret");
        let (lease, at) = (LeaseId(3 << 48 | 77), TimeMs(1_795_000_000_000));
        let opened = Opening::of(TimeMs(at.0 - 77));
        let bid = Bid { lease, number: 9, price: PriceMicros(2_500), at, opened };
        let token = key.sign(&bid);
        assert_eq!(key.open(&token), Some(bid));
        for bit in 0..TOKEN_BYTES * 8 {
            let mut other = token;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(&other), None, "bit {bit}");
        }
        assert_eq!(TokenKey::derive(b"other").open(&token), None);
        assert_eq!(key.open(&token[1..]), None);
    }
}

//! The key of a message: who took it, when, after which restart, and the how-manieth it is.
//!
//! ```text
//!   48 bits    16     8       16        40
//!   time ms  │ node │ shard │ restart │ number      as text: 26 letters and digits, in the same order as the keys
//! ```
//!
//! Promise: keys of one node grow as messages are taken, and so do their texts. A key says which shard has the message,
//! so that whoever has a key asks nobody else for it.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::{ShardIndex, TimeMs};

/// Numbers of messages are below this.
pub const NUMBER_END: u64 = 1 << 40;
/// Characters of a key's text.
pub const KEY_CHARS: usize = 26;

/// The alphabet of ULIDs (Crockford's base 32): no I, L, O, U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Names a message for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(u128);

impl MessageKey {
    /// The key of a message of a shard. Panics if its number is none.
    pub fn new(at: TimeMs, node: u16, shard: ShardIndex, restart: u16, number: u64) -> MessageKey {
        assert!(number < NUMBER_END, "a shard has fewer messages than {NUMBER_END}");
        assert!(shard.0 <= u16::from(u8::MAX), "queues have at most 256 shards");
        let time = u128::from(at.0.min(TimeMs::MAX.0));
        let place = u128::from(node) << 64 | u128::from(shard.0) << 56 | u128::from(restart) << 40;
        MessageKey(time << 80 | place | u128::from(number))
    }

    /// The key of these bits, all of which may be any.
    pub const fn from_bits(bits: u128) -> MessageKey {
        MessageKey(bits)
    }

    /// Its bits.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// The key after which no other one comes.
    pub const MAX: MessageKey = MessageKey(u128::MAX);

    /// The next one in order.
    pub const fn next(self) -> MessageKey {
        MessageKey(self.0.saturating_add(1))
    }

    /// The one before in order, if there is one.
    pub const fn before(self) -> Option<MessageKey> {
        match self.0.checked_sub(1) {
            Some(bits) => Some(MessageKey(bits)),
            None => None,
        }
    }

    /// The first and the last key whose texts begin so; a whole key is both.
    pub fn range_of(beginning: &str) -> Result<RangeInclusive<MessageKey>, NoKey> {
        let filled = |with: &str| -> Result<MessageKey, NoKey> {
            let missing = KEY_CHARS.checked_sub(beginning.len()).ok_or(NoKey)?;
            format!("{beginning}{}", with.repeat(missing)).parse()
        };
        match beginning {
            "" => Ok(MessageKey(0)..=MessageKey::MAX),
            _ => Ok(filled("0")?..=filled("Z")?),
        }
    }

    /// When the message was taken.
    pub const fn at(self) -> TimeMs {
        TimeMs((self.0 >> 80) as u64)
    }

    /// The node that took it.
    pub const fn node(self) -> u16 {
        (self.0 >> 64) as u16
    }

    /// The shard that has it.
    pub const fn shard(self) -> ShardIndex {
        ShardIndex((self.0 >> 56) as u8 as u16)
    }

    /// How many times the node had been started.
    pub const fn restart(self) -> u16 {
        (self.0 >> 40) as u16
    }

    /// Which message of its shard it is.
    pub const fn number(self) -> u64 {
        self.0 as u64 & (NUMBER_END - 1)
    }
}

/// As clients see it.
impl fmt::Display for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; KEY_CHARS];
        for (place, letter) in text.iter_mut().rev().enumerate() {
            *letter = ALPHABET[(self.0 >> (5 * place)) as usize & 31];
        }
        f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

/// A text that is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message key has {KEY_CHARS} characters: digits and upper-case letters without I, L, O and U")]
pub struct NoKey;

impl FromStr for MessageKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<MessageKey, NoKey> {
        // The first character has the upper three bits of 128.
        if text.len() != KEY_CHARS || !matches!(text.as_bytes()[0], b'0'..=b'7') {
            return Err(NoKey);
        }
        let mut bits = 0;
        for letter in text.bytes() {
            let value = ALPHABET.iter().position(|known| *known == letter).ok_or(NoKey)?;
            bits = bits << 5 | value as u128;
        }
        Ok(MessageKey(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_key_names_all_that_begin_so() {
        let key = MessageKey::new(TimeMs(1_790_000_000_000), 7, ShardIndex(1), 2, 3);
        let text = key.to_string();
        for length in 0..=KEY_CHARS {
            let range = MessageKey::range_of(&text[..length]).expect("it is the beginning of a key");
            assert!(range.contains(&key), "{range:?}");
        }
        assert_eq!(MessageKey::range_of(&text), Ok(key..=key));
        // Ten letters are the millisecond.
        let range = MessageKey::range_of(&text[..10]).expect("it is the beginning of a key");
        assert_eq!((range.start().at(), range.end().at()), (key.at(), key.at()));
        assert!(range.start().bits() & ((1 << 80) - 1) == 0 && range.end().node() == u16::MAX);
        for text in ["8", "U", "-", "ä", "0123456789012345678901234567"] {
            assert_eq!(MessageKey::range_of(text), Err(NoKey), "{text}");
        }
    }
}

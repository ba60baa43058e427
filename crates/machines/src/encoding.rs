//! The encodings that all formats of the machines use: little-endian integers of fixed width, LEB128 varints (zigzag
//! for signed ones), and strings with their length in front. Reading accepts only the shortest form, so bytes that
//! decode encode to themselves again.

use crate::{OutboundNumber, RecordPosition, ShardIndex};

/// Bytes of the longest varint of 64 bits.
pub(crate) const VARINT_BYTES_MAX: usize = 10;
/// Bytes of the longest varint of 128 bits.
const VARINT_128_BYTES_MAX: usize = 19;

const _: () = assert!(VARINT_BYTES_MAX == u64::BITS.div_ceil(7) as usize);
const _: () = assert!(VARINT_128_BYTES_MAX == u128::BITS.div_ceil(7) as usize);

/// Bytes that are not what was expected; `what` names the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub what: &'static str,
}

pub(crate) type Parsed<T> = Result<T, Malformed>;

#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub(crate) fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// A varint of up to 128 bits.
pub(crate) fn put_varint_128(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Whether a rule holds; else `what` is malformed.
pub(crate) fn require(holds: bool, what: &'static str) -> Parsed<()> {
    if holds { Ok(()) } else { Err(Malformed { what }) }
}

/// Reads from the front of some bytes; never beyond their end.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    #[inline]
    pub fn take(&mut self, count: usize, what: &'static str) -> Parsed<&'a [u8]> {
        let Some((head, rest)) = self.rest.split_at_checked(count) else { return Err(Malformed { what }) };
        self.rest = rest;
        Ok(head)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Parsed<[u8; N]> {
        let Some((head, rest)) = self.rest.split_first_chunk() else { return Err(Malformed { what }) };
        self.rest = rest;
        Ok(*head)
    }

    #[inline]
    pub fn byte(&mut self, what: &'static str) -> Parsed<u8> {
        let [byte] = self.array(what)?;
        Ok(byte)
    }

    #[inline]
    pub fn varint(&mut self, what: &'static str) -> Parsed<u64> {
        let mut value = 0u64;
        for (index, &byte) in self.rest.iter().take(VARINT_BYTES_MAX).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                let too_long = byte == 0 && index > 0;
                let too_big = index == 9 && byte > 1;
                if too_long || too_big {
                    break;
                }
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(Malformed { what })
    }

    pub fn varint_128(&mut self, what: &'static str) -> Parsed<u128> {
        let mut value = 0u128;
        for (index, &byte) in self.rest.iter().take(VARINT_128_BYTES_MAX).enumerate() {
            value |= u128::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                let too_long = byte == 0 && index > 0;
                let too_big = index == 18 && byte > 3;
                if too_long || too_big {
                    break;
                }
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(Malformed { what })
    }

    #[inline]
    pub fn zigzag(&mut self, what: &'static str) -> Parsed<i64> {
        let value = self.varint(what)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub fn u32(&mut self, what: &'static str) -> Parsed<u32> {
        u32::try_from(self.varint(what)?).map_err(|_| Malformed { what })
    }

    /// A text of `min` to `max` bytes of UTF-8.
    #[inline]
    pub fn text(&mut self, min: usize, max: usize, what: &'static str) -> Parsed<&'a str> {
        debug_assert!(min <= max, "no text is {min} to {max} bytes long");
        let length = self.varint(what)?;
        if length < min as u64 || length > max as u64 {
            return Err(Malformed { what });
        }
        let bytes = self.take(length as usize, what)?;
        std::str::from_utf8(bytes).map_err(|_| Malformed { what })
    }

    /// Bytes with their count before them.
    #[inline]
    pub fn bytes(&mut self, what: &'static str) -> Parsed<&'a [u8]> {
        let length = self.varint(what)?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX), what)
    }

    #[inline]
    pub fn position(&mut self, what: &'static str) -> Parsed<RecordPosition> {
        self.varint(what).map(RecordPosition)
    }

    pub fn number(&mut self, what: &'static str) -> Parsed<OutboundNumber> {
        self.varint(what).map(OutboundNumber)
    }

    pub fn shard(&mut self, what: &'static str) -> Parsed<ShardIndex> {
        let shard = self.varint(what)?;
        u16::try_from(shard).map(ShardIndex).map_err(|_| Malformed { what })
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn end(&self, what: &'static str) -> Parsed<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed { what }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back_and_are_the_shortest() {
        for shift in 0..128 {
            for value in [1u128 << shift, (1u128 << shift) - 1, u128::MAX >> shift] {
                let mut out = Vec::new();
                put_varint_128(&mut out, value);
                let mut reader = Reader::new(&out);
                assert_eq!(reader.varint_128("x"), Ok(value));
                assert_eq!(reader.end("x"), Ok(()));
                if let Ok(value) = u64::try_from(value) {
                    let mut narrow = Vec::new();
                    put_varint(&mut narrow, value);
                    assert_eq!(narrow, out);
                    assert_eq!(Reader::new(&out).varint("x"), Ok(value));
                }
            }
        }
        for bad in
            [&[0x80, 0][..], &[0x80], &[], &[0xff; 10], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            assert!(Reader::new(bad).varint("x").is_err(), "{bad:?}");
        }
        assert!(Reader::new(&[0xff; 19]).varint_128("x").is_err());
        // The last of 19 bytes has the upper two bits.
        for (last, fits) in [(0, false), (3, true), (4, false)] {
            let bytes = [&[0xff; 18][..], &[last]].concat();
            assert_eq!(Reader::new(&bytes).varint_128("x").is_ok(), fits, "{last}");
        }
        assert!(Reader::new(&[0x80, 0]).varint_128("x").is_err(), "it can be shorter");
    }

    #[test]
    fn texts_have_a_shortest_and_a_longest() {
        for (text, fits) in [("", false), ("a", true), ("abc", true), ("abcd", false)] {
            let mut out = Vec::new();
            put_text(&mut out, text);
            assert_eq!(Reader::new(&out).text(1, 3, "x").is_ok(), fits, "{text:?}");
        }
    }

    #[test]
    fn zigzag_comes_back() {
        for value in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_zigzag(&mut out, value);
            assert_eq!(Reader::new(&out).zigzag("x"), Ok(value));
        }
    }
}

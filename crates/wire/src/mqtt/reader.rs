//! Reads the fields of a packet's body one after the other. A field that ends too early is malformed.

use crate::mqtt::Malformed;
use crate::mqtt::fixed_header::{varint, varint_width};

/// The part of a body that has not been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

const TRUNCATED: Malformed = Malformed::packet("MQTT5 1.5", "a field ends beyond the packet");

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    #[inline]
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes that are still to be read.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Nothing may follow what was read.
    #[inline]
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.is_empty() { Ok(()) } else { Err(Malformed::packet("MQTT5 2.1.4", "bytes behind the last field")) }
    }

    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// A variable byte integer in the fewest bytes. Only MQTT 5 has them in a body.
    /// `[MQTT-1.5.5-1]`: a variable byte integer uses the fewest bytes that can hold its value.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u32, Malformed> {
        let (value, width) = varint(self.rest)?.ok_or(TRUNCATED)?;
        if width != varint_width(value) {
            return Err(Malformed::packet("MQTT-1.5.5-1", "variable byte integer in more bytes than it needs"));
        }
        self.rest = &self.rest[width..];
        Ok(value)
    }

    /// Binary data: two bytes of length, then so many.
    #[inline]
    pub(crate) fn binary(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    /// A UTF-8 encoded string. A byte order mark is a character like any other.
    /// `[MQTT-1.5.4-3]`: the bytes EF BB BF are the character U+FEFF and are not stripped.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.binary()?;
        if is_plain(bytes) {
            // SAFETY: plain bytes are ASCII.
            return Ok(unsafe { std::str::from_utf8_unchecked(bytes) });
        }
        if bytes.contains(&0) {
            return Err(Malformed::packet("MQTT-1.5.4-2", "a text with U+0000"));
        }
        // Rust's UTF-8 is the one that the text asks for: no surrogates, no longer forms than needed.
        std::str::from_utf8(bytes).map_err(|_| Malformed::packet("MQTT-1.5.4-1", "a text that is not UTF-8"))
    }

    /// A packet identifier, which is never zero.
    /// `[MQTT-2.2.1-3]`: a packet id chosen by the client is not 0 and not in use.
    #[inline]
    pub(crate) fn packet_id(&mut self) -> Result<u16, Malformed> {
        match self.u16()? {
            0 => Err(Malformed::protocol("MQTT-2.2.1-3", "packet identifier 0")),
            id => Ok(id),
        }
    }
}

/// Whether all bytes are ASCII and none is zero. Topics are short and nearly always so: eight bytes at a time.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // A byte of `word - LOW` gets its high bit if it was zero, or above 0x80, or if a lower byte borrowed, which a zero
    // did.
    let odd = |word: u64| (word | word.wrapping_sub(LOW)) & HIGH;
    let mut chunks = bytes.chunks_exact(8);
    let mut found = 0;
    for chunk in &mut chunks {
        found |= odd(u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
    }
    found == 0 && chunks.remainder().iter().all(|&byte| byte.wrapping_sub(1) < 0x7f)
}

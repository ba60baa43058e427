//! Base-128 varints, as protobuf writes them: seven bits a byte, the lowest first, the top bit says that more follow.

use crate::error::DecodeError;

/// Longest varint of 64 bits.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

/// Reads a varint at `*at` and moves `*at` behind it.
#[inline(always)]
pub(crate) fn read(bytes: &[u8], at: &mut usize) -> Result<u64, DecodeError> {
    match bytes.get(*at) {
        // Lengths, tags and small amounts: nearly every varint of a transfer has one byte.
        Some(&byte) if byte < 0x80 => {
            *at += 1;
            Ok(u64::from(byte))
        }
        Some(_) => read_long(bytes, at),
        None => Err(DecodeError::Truncated),
    }
}

#[inline]
fn read_long(bytes: &[u8], at: &mut usize) -> Result<u64, DecodeError> {
    let mut value = 0u64;
    for (index, &byte) in bytes[*at..].iter().take(VARINT_BYTES_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            // The tenth byte has room for one bit only.
            if index == VARINT_BYTES_MAX - 1 && byte > 1 {
                return Err(DecodeError::VarintTooLong);
            }
            *at += index + 1;
            return Ok(value);
        }
    }
    if bytes.len() - *at < VARINT_BYTES_MAX { Err(DecodeError::Truncated) } else { Err(DecodeError::VarintTooLong) }
}

/// Appends `value` in the fewest bytes.
#[inline(always)]
pub(crate) fn write(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        let (bytes, width) = encoded(value);
        out.extend_from_slice(&bytes[..width]);
    }
}

/// The fewest bytes of `value`, and how many they are.
#[inline]
pub(crate) fn encoded(mut value: u64) -> ([u8; VARINT_BYTES_MAX], usize) {
    let mut bytes = [0; VARINT_BYTES_MAX];
    let mut width = 0;
    while value >= 0x80 {
        bytes[width] = value as u8 | 0x80;
        value >>= 7;
        width += 1;
    }
    bytes[width] = value as u8;
    (bytes, width + 1)
}

/// As [`encoded`], without a branch: for numbers whose width nobody can guess.
#[inline(always)]
pub(crate) const fn spread(value: u32) -> ([u8; 8], usize) {
    let value = value as u64;
    let width = width(value);
    let groups = value & 0x7f
        | (value << 1) & 0x7f00
        | (value << 2) & 0x7f_0000
        | (value << 3) & 0x7f00_0000
        | (value << 4) & 0x7f_0000_0000;
    let more_follow = 0x80_8080_8080 & ((1 << (8 * (width - 1))) - 1);
    ((groups | more_follow).to_le_bytes(), width)
}

/// How many bytes `value` takes.
#[inline(always)]
pub(crate) const fn width(value: u64) -> usize {
    ((63 - (value | 1).leading_zeros() as usize) * 9 + 73) / 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            write(&mut out, value);
            prop_assert_eq!(out.len(), width(value));
            let mut at = 0;
            prop_assert_eq!(read(&out, &mut at), Ok(value));
            prop_assert_eq!(at, out.len());
            let (bytes, width) = spread(value as u32);
            let (expected, expected_width) = encoded(u64::from(value as u32));
            prop_assert_eq!((&bytes[..width], width), (&expected[..expected_width], expected_width));
        }
    }

    #[test]
    fn the_ends() {
        let read_all = |bytes: &[u8]| read(bytes, &mut 0);
        assert_eq!(read_all(&[]), Err(DecodeError::Truncated));
        assert_eq!(read_all(&[0x80; 9]), Err(DecodeError::Truncated));
        assert_eq!(read_all(&[0x80; 10]), Err(DecodeError::VarintTooLong));
        assert_eq!(read_all(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), Ok(u64::MAX));
        assert_eq!(
            read_all(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]),
            Err(DecodeError::VarintTooLong)
        );
        // Padded, as long frames carry their length.
        assert_eq!(read_all(&[0x85, 0x80, 0x80, 0x00]), Ok(5));
    }
}

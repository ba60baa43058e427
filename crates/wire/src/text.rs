//! UTF-8 checks. Ids and account names are short and nearly always ASCII, so ASCII is tested first, eight bytes at a
//! time.

use crate::error::DecodeError;

/// The bytes as text.
#[inline(always)]
pub(crate) fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    check(bytes)?;
    // SAFETY: `check` found the bytes to be ASCII or valid UTF-8.
    Ok(unsafe { std::str::from_utf8_unchecked(bytes) })
}

/// `Ok` when the bytes are valid UTF-8.
#[inline(always)]
pub(crate) fn check(bytes: &[u8]) -> Result<(), DecodeError> {
    if is_ascii(bytes) { Ok(()) } else { check_utf8(bytes) }
}

#[cold]
fn check_utf8(bytes: &[u8]) -> Result<(), DecodeError> {
    std::str::from_utf8(bytes).map(|_| ()).map_err(|_| DecodeError::NotUtf8)
}

/// Like `[u8]::is_ascii`, inlined and without its set-up, which costs more than the work at 10 to 40 bytes.
#[inline(always)]
fn is_ascii(bytes: &[u8]) -> bool {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    let mut seen = 0u64;
    if let Some((_, last)) = bytes.split_last_chunk::<8>() {
        for word in bytes.as_chunks::<8>().0 {
            seen |= u64::from_le_bytes(*word);
        }
        // Overlaps the words before it, which does no harm to an OR.
        seen |= u64::from_le_bytes(*last);
    } else {
        for &byte in bytes {
            seen |= u64::from(byte);
        }
    }
    seen & HIGH_BITS == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_high_bit_is_found_at_every_place() {
        for length in 0..40 {
            let mut bytes = vec![b'a'; length];
            assert!(is_ascii(&bytes));
            for place in 0..length {
                bytes[place] = 0xff;
                assert!(!is_ascii(&bytes), "length {length}, place {place}");
                assert_eq!(check(&bytes), Err(DecodeError::NotUtf8));
                bytes[place] = b'a';
            }
        }
        assert_eq!(text("Ünï".as_bytes()), Ok("Ünï"));
    }
}

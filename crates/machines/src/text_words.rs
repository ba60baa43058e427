//! Text looked at eight bytes at a time: what every id of every request is asked before anything else.
//!
//! Why not byte by byte: a transfer's id is looked at three times on its way, and that was a tenth of its decision.

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
/// A byte that no test here finds, to fill the word of a short text.
const FILL: u8 = b'0';

/// Whether `test` is true of one of the words of `text`. Words may overlap, and a short one is filled up with zeros
/// (the digit).
#[inline(always)]
fn any_word(text: &[u8], test: impl Fn(u64) -> bool) -> bool {
    let word_at = |at: usize| u64::from_le_bytes(text[at..at + 8].try_into().expect("eight bytes"));
    if text.len() < 8 {
        let filled = text.iter().fold(LOW * u64::from(FILL), |word, byte| word << 8 | u64::from(*byte));
        return test(filled);
    }
    let last = text.len() - 8;
    (0..last).step_by(8).any(|at| test(word_at(at))) || test(word_at(last))
}

/// The highest bit of each byte that is zero; behind the first such byte, also of others.
#[inline(always)]
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & HIGH
}

/// Whether one of the bytes is `one` or `other`.
#[inline]
pub fn has_either(text: &[u8], one: u8, other: u8) -> bool {
    let (one, other) = (LOW * u64::from(one), LOW * u64::from(other));
    any_word(text, |word| (zeros(word ^ one) | zeros(word ^ other)) != 0)
}

/// Whether every byte is printable ASCII, space to tilde.
#[inline]
pub fn is_printable_ascii(text: &[u8]) -> bool {
    const DELETE: u64 = LOW * 0x7f;
    const SPACE: u64 = LOW * 0x20;
    // Of a byte below the space the subtraction sets the highest bit.
    !any_word(text, |word| ((word | word.wrapping_sub(SPACE) & !word) & HIGH | zeros(word ^ DELETE)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte at each place of texts of each length.
    fn texts() -> impl Iterator<Item = Vec<u8>> {
        (0..20).flat_map(|length| {
            (0..length).flat_map(move |at| {
                (0..=255).map(move |byte| {
                    let mut text = vec![b'a'; length];
                    text[at] = byte;
                    text
                })
            })
        })
    }

    #[test]
    fn words_say_what_bytes_say() {
        for text in texts().chain([vec![]]) {
            let is_printable = text.iter().all(|byte| (b' '..=b'~').contains(byte));
            assert_eq!(is_printable_ascii(&text), is_printable, "{text:?}");
            let has = text.iter().any(|byte| [b':', 0x1f].contains(byte));
            assert_eq!(has_either(&text, b':', 0x1f), has, "{text:?}");
        }
    }

    #[test]
    fn one_byte_does_not_hide_another() {
        assert!(is_printable_ascii(b"  ~~  ~~  ~ ") && !is_printable_ascii(b"~~~ \x1f~ ~"));
        assert!(!is_printable_ascii("aaaa\u{7f}\u{80}aaa".as_bytes()) && !is_printable_ascii(&[0xff, 0x20, 0, 0x7e]));
        assert!(
            has_either(b"\x00\x01:\x3b\x39", b':', 0x1f) && !has_either(b"\x00\x3b\x39\x1e\x20\x9f\xba", b':', 0x1f)
        );
    }
}

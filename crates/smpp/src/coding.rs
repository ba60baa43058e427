//! How a text stands in a short message: `data_coding` and bytes.

use crate::alphabet;

/// A way to write texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// The default alphabet of GSM 03.38, unpacked: `data_coding` 0.
    Gsm,
    /// ISO-8859-1: `data_coding` 3.
    Latin1,
    /// UCS-2, and UTF-16 for what is beyond it: `data_coding` 8.
    Ucs2,
}

/// A text as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coded {
    /// How.
    pub coding: Coding,
    /// In full.
    pub bytes: Vec<u8>,
}

impl Coding {
    /// The value of `data_coding`.
    pub const fn data_coding(self) -> u8 {
        match self {
            Coding::Gsm => 0,
            Coding::Latin1 => 3,
            Coding::Ucs2 => 8,
        }
    }

    /// Bytes of a message that is alone, and of each of several, which have a header of six bytes: 140 bytes on the
    /// air, where a character of GSM takes 7 bits.
    pub const fn bytes_max(self) -> (usize, usize) {
        match self {
            Coding::Gsm => (160, 153),
            Coding::Latin1 | Coding::Ucs2 => (140, 134),
        }
    }

    fn encoded(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Coding::Gsm => alphabet::encoded(text),
            Coding::Latin1 => text.chars().map(|letter| u8::try_from(letter).ok()).collect(),
            Coding::Ucs2 => Some(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        }
    }

    /// Where a part ends that may have so many bytes: not within a character.
    pub(crate) fn cut(self, bytes: &[u8], bytes_max: usize) -> usize {
        if bytes.len() <= bytes_max {
            return bytes.len();
        }
        let is_high = |at: usize| matches!(bytes.get(at), Some(0xd8..=0xdb));
        match self {
            Coding::Gsm if bytes[bytes_max - 1] == alphabet::ESCAPE => bytes_max - 1,
            Coding::Ucs2 if is_high(bytes_max - 2) => bytes_max - 2,
            _ => bytes_max,
        }
    }
}

impl Coded {
    /// A text in the first of `codings` that has all of its characters; `None` if none has.
    pub fn first(text: &str, codings: &[Coding]) -> Option<Coded> {
        let encoded = |coding: &Coding| Some(Coded { coding: *coding, bytes: coding.encoded(text)? });
        codings.iter().find_map(encoded)
    }
}

/// A text of a short message; `None` if its `data_coding` says that it is none, or is one that is not known here.
pub fn decoded(data_coding: u8, bytes: &[u8]) -> Option<String> {
    match data_coding {
        0 => Some(alphabet::decoded(bytes)),
        // ASCII is a part of Latin 1.
        1 | 3 => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
        8 => {
            let units: Vec<u16> =
                bytes.chunks(2).map(|unit| unit.iter().fold(0, |all, byte| all << 8 | u16::from(*byte))).collect();
            Some(String::from_utf16_lossy(&units))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_coding_that_has_all_characters_is_taken() {
        let first = |text: &str, codings: &[Coding]| Coded::first(text, codings).map(|coded| coded.coding);
        let usual = [Coding::Gsm, Coding::Ucs2];
        assert_eq!(first("5 € {a}", &usual), Some(Coding::Gsm));
        assert_eq!(first("Łódź", &usual), Some(Coding::Ucs2));
        assert_eq!(first("ê", &[Coding::Gsm, Coding::Latin1, Coding::Ucs2]), Some(Coding::Latin1));
        assert_eq!(first("Łódź", &[Coding::Gsm]), None);
        assert_eq!(Coded::first("a🦀", &usual).unwrap().bytes, [0, 0x61, 0xd8, 0x3e, 0xdd, 0x80]);
    }

    #[test]
    fn texts_of_each_coding_are_read() {
        for (coding, text) in [(Coding::Gsm, "5 € à"), (Coding::Latin1, "ê à"), (Coding::Ucs2, "Łódź 🦀")] {
            let coded = Coded::first(text, &[coding]).unwrap();
            assert_eq!(decoded(coding.data_coding(), &coded.bytes).as_deref(), Some(text));
        }
        assert_eq!(decoded(8, &[0, 0x61, 0xd8, 0x3e, 0x41]).as_deref(), Some("a\u{fffd}A"));
        assert_eq!(decoded(4, b"binary"), None);
    }
}

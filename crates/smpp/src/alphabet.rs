//! The default alphabet of GSM 03.38 (3GPP TS 23.038, 6.2.1), one byte for each 7-bit character, as SMPP has it.

/// What a byte stands for; the escape stands for itself.
const BASIC: &str = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞ\u{1b}ÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?\
    ¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà";
/// What a byte behind an escape stands for.
const EXTENSION: [(u8, char); 10] = [
    (0x0a, '\u{c}'),
    (0x14, '^'),
    (0x28, '{'),
    (0x29, '}'),
    (0x2f, '\\'),
    (0x3c, '['),
    (0x3d, '~'),
    (0x3e, ']'),
    (0x40, '|'),
    (0x65, '€'),
];
/// The byte before one of the extension.
pub const ESCAPE: u8 = 0x1b;

/// A text in the alphabet; `None` if it has a character that the alphabet has not.
pub fn encoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    for letter in text.chars() {
        let basic = BASIC.chars().position(|other| other == letter && other != '\u{1b}');
        match (basic, EXTENSION.iter().find(|(_, other)| *other == letter)) {
            (Some(place), _) => bytes.push(place as u8),
            (None, Some((byte, _))) => bytes.extend([ESCAPE, *byte]),
            (None, None) => return None,
        }
    }
    Some(bytes)
}

/// A text from the alphabet. A byte that is none, or that no extension has, becomes U+FFFD.
pub fn decoded(bytes: &[u8]) -> String {
    let basic: Vec<char> = BASIC.chars().collect();
    let mut bytes = bytes.iter().copied();
    let mut text = String::new();
    while let Some(byte) = bytes.next() {
        let letter = match byte {
            ESCAPE => {
                let behind = bytes.next();
                EXTENSION.iter().find(|(of, _)| Some(*of) == behind).map(|(_, letter)| *letter)
            }
            _ => basic.get(usize::from(byte)).copied(),
        };
        text.push(letter.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_its_characters_at_their_places() {
        assert_eq!(BASIC.chars().count(), 128);
        // Places from 3GPP TS 23.038, 6.2.1.
        let known = [('@', 0x00), ('_', 0x11), ('Ξ', 0x1a), ('É', 0x1f), ('¤', 0x24), ('¡', 0x40), ('§', 0x5f)];
        for (letter, byte) in known.into_iter().chain([('¿', 0x60), ('à', 0x7f), ('A', 0x41), ('z', 0x7a)]) {
            assert_eq!(encoded(&letter.to_string()), Some(vec![byte]), "{letter}");
        }
        assert_eq!(encoded("€[]"), Some(vec![0x1b, 0x65, 0x1b, 0x3c, 0x1b, 0x3e]));
        assert_eq!((encoded("Ł"), encoded("\u{1b}"), encoded("`")), (None, None, None));
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let all: String = BASIC.chars().filter(|letter| *letter != '\u{1b}').collect();
        let all = all + &EXTENSION.iter().map(|(_, letter)| *letter).collect::<String>();
        assert_eq!(decoded(&encoded(&all).unwrap()), all);
        assert_eq!(decoded(&[0x41, 0x80, 0x1b, 0x41, 0x42, 0x1b]), "A\u{fffd}\u{fffd}B\u{fffd}");
    }
}

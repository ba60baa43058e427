//! Which characters a person can see: two ids that look the same must not differ in one that nobody sees, and no id
//! looks empty.
//!
//! The ranges are those of Unicode 16.0, of `UnicodeData.txt` and `DerivedCoreProperties.txt`. A code point that no
//! character has (Cn) looks like any other of them, so it is refused until a version of Unicode assigns it, as
//! `unicode-properties` knows.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Characters without a look of their own, in order: controls (Cc), formats (Cf), spaces and separators (Zs, Zl, Zp)
/// but U+0020, private use and noncharacters, Default_Ignorable_Code_Point, the blank Braille pattern, the filler of
/// the Khitan small script (U+16FE4) and the musical null notehead (U+1D159).
const INVISIBLE: &[(char, char)] = &[
    ('\u{0}', '\u{1f}'),
    ('\u{7f}', '\u{a0}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2000}', '\u{200f}'),
    ('\u{2028}', '\u{202f}'),
    ('\u{205f}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{e000}', '\u{f8ff}'),
    ('\u{fdd0}', '\u{fdef}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{fffe}', '\u{ffff}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d159}', '\u{1d159}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
    ('\u{f0000}', '\u{10ffff}'),
];

/// Whether a person sees something where `c` stands, or the space U+0020.
pub(super) fn is_visible(c: char) -> bool {
    let place = INVISIBLE.partition_point(|(_, last)| *last < c);
    let is_named = INVISIBLE.get(place).is_some_and(|(first, _)| *first <= c);
    !is_named && c.general_category() != GeneralCategory::Unassigned
}

/// The rule before the table: what older journals may have in their ids.
pub(super) fn was_visible(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        && !matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(INVISIBLE.iter().all(|(first, last)| first <= last));
        assert!(INVISIBLE.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    #[test]
    fn what_nobody_sees_is_invisible() {
        for c in ['\0', '\n', '\u{1f}', '\u{7f}', '\u{a0}', '\u{ad}', '\u{34f}', '\u{2003}', '\u{200b}', '\u{202e}'] {
            assert!(!is_visible(c), "{c:?}");
        }
        for c in ['\u{2800}', '\u{3000}', '\u{3164}', '\u{fe0f}', '\u{ffa0}', '\u{e0001}', '\u{e0041}', '\u{e01ef}'] {
            assert!(!is_visible(c), "{c:?}");
        }
        for c in ['\u{16fe4}', '\u{1d159}'] {
            assert!(!is_visible(c), "{c:?}");
        }
        for c in [' ', 'a', '~', 'ü', '票', 'ع', '👍', '\u{301}', '\u{10ffff}'] {
            assert_eq!(is_visible(c), c != '\u{10ffff}', "{c:?}");
        }
    }

    #[test]
    fn all_that_is_no_character_or_has_no_look_is_invisible() {
        use GeneralCategory::{
            Control, Format, LineSeparator, ParagraphSeparator, PrivateUse, SpaceSeparator, Unassigned,
        };
        let is_blank = |c: char| match c.general_category() {
            Control | Format | LineSeparator | ParagraphSeparator | PrivateUse | Unassigned => true,
            SpaceSeparator => c != ' ',
            _ => false,
        };
        let wrong: Vec<char> = ('\0'..=char::MAX).filter(|c| is_blank(*c) && is_visible(*c)).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert!(is_blank('\u{378}') && is_blank('\u{e0fff}'), "there are some that are no character");
    }

    #[test]
    fn nothing_became_visible() {
        assert!(('\0'..=char::MAX).all(|c| was_visible(c) || !is_visible(c)));
    }
}

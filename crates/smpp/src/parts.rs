//! A long text as several short messages, which the phone joins.

use crate::coding::Coded;

/// Messages that can belong together: their number is one byte.
pub const PARTS_MAX: usize = 255;

/// How the parts of a message say what they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// By a user data header in the text, with a reference of eight bits (3GPP TS 23.040, 9.2.3.24.1).
    Udh,
    /// By `sar_msg_ref_num`, `sar_total_segments` and `sar_segment_seqnum`: the SMSC makes the header.
    Sar,
}

/// One short message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its `short_message`.
    pub bytes: Vec<u8>,
    /// A user data header stands in it.
    pub has_header: bool,
    /// Reference, how many there are, and which this is, from 1, if TLVs say that.
    pub sar: Option<(u16, u8, u8)>,
}

/// A text has more parts than may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text takes {parts} short messages, and at most {parts_max} may be sent")]
pub struct TooLong {
    /// Of this text.
    pub parts: usize,
    /// The bound.
    pub parts_max: usize,
}

/// A text as parts: as one if it fits. Parts of one message have the same `reference`.
pub fn parts(coded: &Coded, numbering: Numbering, reference: u16, parts_max: usize) -> Result<Vec<Part>, TooLong> {
    let (alone, each) = coded.coding.bytes_max();
    if coded.bytes.len() <= alone {
        return Ok(vec![Part { bytes: coded.bytes.clone(), has_header: false, sar: None }]);
    }
    let mut texts = Vec::new();
    let mut rest = &*coded.bytes;
    while !rest.is_empty() {
        let (text, behind) = rest.split_at(coded.coding.cut(rest, each));
        texts.push(text);
        rest = behind;
    }
    let parts_max = parts_max.min(PARTS_MAX);
    if texts.len() > parts_max {
        return Err(TooLong { parts: texts.len(), parts_max });
    }
    let all = texts.len() as u8;
    let part = |(text, number): (&[u8], u8)| match numbering {
        Numbering::Udh => {
            let header = [5, 0, 3, reference as u8, all, number];
            Part { bytes: [&header, text].concat(), has_header: true, sar: None }
        }
        Numbering::Sar => Part { bytes: text.to_vec(), has_header: false, sar: Some((reference, all, number)) },
    };
    Ok(texts.into_iter().zip(1..=all).map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::{Coding, decoded};

    fn cut(text: &str, numbering: Numbering) -> Vec<Part> {
        let coded = Coded::first(text, &[Coding::Gsm, Coding::Ucs2]).unwrap();
        parts(&coded, numbering, 0x1234, PARTS_MAX).unwrap()
    }

    #[test]
    fn what_fits_is_one_part() {
        for text in ["", &"a".repeat(160), &"€".repeat(80), &"Ł".repeat(70)] {
            let parts = cut(text, Numbering::Udh);
            assert_eq!((parts.len(), parts[0].has_header), (1, false), "{text}");
        }
    }

    #[test]
    fn no_part_ends_within_a_character() {
        // The 153rd byte would be an escape, and the 67th unit the first half of an emoji.
        for (text, coding, first) in [
            (format!("{}€{}", "a".repeat(152), "b".repeat(20)), Coding::Gsm, 152),
            (format!("{}🦀{}", "Ł".repeat(66), "b".repeat(20)), Coding::Ucs2, 132),
        ] {
            let parts = cut(&text, Numbering::Udh);
            assert_eq!((parts.len(), parts[0].bytes.len()), (2, first + 6));
            assert_eq!(
                (&parts[0].bytes[..6], &parts[1].bytes[..6]),
                (&[5, 0, 3, 0x34, 2, 1][..], &[5, 0, 3, 0x34, 2, 2][..])
            );
            let texts = parts.iter().map(|part| decoded(coding.data_coding(), &part.bytes[6..]).unwrap());
            assert_eq!(texts.collect::<String>(), text);
        }
    }

    #[test]
    fn tlvs_can_number_the_parts() {
        let parts = cut(&"a".repeat(161), Numbering::Sar);
        let numbers: Vec<_> = parts.iter().map(|part| (part.bytes.len(), part.sar, part.has_header)).collect();
        assert_eq!(numbers, [(153, Some((0x1234, 2, 1)), false), (8, Some((0x1234, 2, 2)), false)]);
    }

    #[test]
    fn what_is_longer_than_may_be_is_refused() {
        let coded = |letters: usize| Coded::first(&"a".repeat(letters), &[Coding::Gsm]).unwrap();
        let most = parts(&coded(153 * 255), Numbering::Udh, 1, 1_000).unwrap();
        assert_eq!((most.len(), most[254].bytes.len()), (255, 159));
        let refused = parts(&coded(153 * 255 + 1), Numbering::Udh, 1, 1_000);
        assert_eq!(refused, Err(TooLong { parts: 256, parts_max: 255 }));
        assert_eq!(parts(&coded(161), Numbering::Udh, 1, 1), Err(TooLong { parts: 2, parts_max: 1 }));
    }
}

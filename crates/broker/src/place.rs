//! The place of a feed as a session keeps it: how many messages of each partition were acknowledged, whose it is, and
//! where its source reads on.
//!
//! ```text
//!   of a source with several partitions
//!                │ 2 │ partitions, u16 LE │ u64 LE for each: messages acknowledged │ one of the following   │
//!   of a user    │ 1 │ length of the name, u16 LE │ name, UTF-8 │ place, in the words of the source         │
//!   of nobody    │ place; it never begins with 1 or 2, because sources write text                         │
//! ```
//!
//! Why the name: whoever knows a client id may come with it. What a feed sends is what its reader may read, so the
//! place of one reader is no place of another. Why the messages of each partition: packet ids follow from them
//! ([`crate::feed::Numbers`]). The number of a [`KeptPlace`] is their sum, so that a source with one partition needs no
//! more.

use tidegate_machines::topic::{KeptPlace, PLACE_BYTES_MAX};

use crate::feed::{FeedPlace, Numbers};

/// The first byte of a place that is somebody's.
const OWNED: u8 = 1;
/// The first byte of a place of a source with several partitions.
const COUNTED: u8 = 2;
/// A place of a source with the most partitions that may be, of 72 bytes each, fits.
const _: () = assert!(1_024 * (72 + 8) < PLACE_BYTES_MAX);

/// The place of `owner`, or of nobody.
///
/// # Panics
/// If a name has more than 64 KiB, or a place of nobody begins like another form.
pub(crate) fn kept(owner: Option<&str>, place: &FeedPlace) -> KeptPlace {
    let numbers = &place.numbers;
    let mut bytes = Vec::new();
    if numbers.partitions() > 1 {
        bytes.push(COUNTED);
        bytes.extend_from_slice(&numbers.partitions().to_le_bytes());
        numbers.as_slice().iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    }
    match owner {
        Some(owner) => {
            let length = u16::try_from(owner.len()).expect("a user's name is short");
            bytes.push(OWNED);
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(owner.as_bytes());
        }
        None => assert!(!matches!(place.place.first(), Some(&(OWNED | COUNTED))), "sources write text"),
    }
    bytes.extend_from_slice(&place.place);
    KeptPlace { number: numbers.total(), place: bytes.into() }
}

/// Whose place it is, if it is somebody's.
pub(crate) fn owner(kept: &KeptPlace) -> Option<&str> {
    owned(counted(kept).1).0
}

/// The place, of a source with so many partitions; `Err` with what the source is to be told, if its messages were not
/// counted in each of them, as earlier versions did not.
pub(crate) fn of_source(kept: &KeptPlace, partitions: u16) -> Result<FeedPlace, &[u8]> {
    let (numbers, rest) = counted(kept);
    let place = owned(rest).1;
    if numbers.partitions() != partitions {
        return Err(place);
    }
    Ok(FeedPlace { numbers, place: place.into() })
}

/// The messages of each partition, and what stands behind them. What is no such place is one of one partition.
fn counted(kept: &KeptPlace) -> (Numbers, &[u8]) {
    let parts = || {
        let rest = kept.place.strip_prefix(&[COUNTED])?;
        let (partitions, rest) = rest.split_first_chunk()?;
        let (numbers, rest) = rest.split_at_checked(8 * usize::from(u16::from_le_bytes(*partitions)))?;
        let (numbers, _) = numbers.as_chunks();
        (!numbers.is_empty()).then(|| (numbers.iter().map(|number| u64::from_le_bytes(*number)).collect(), rest))
    };
    match parts() {
        Some((numbers, rest)) => (Numbers::of(numbers), rest),
        None => (Numbers::all(1, kept.number), &kept.place),
    }
}

/// Whose place these bytes are, if they are somebody's, and the place. What is no name is nobody's.
fn owned(bytes: &[u8]) -> (Option<&str>, &[u8]) {
    let parts = || {
        let rest = bytes.strip_prefix(&[OWNED])?;
        let (length, rest) = rest.split_first_chunk()?;
        let (owner, place) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        Some((std::str::from_utf8(owner).ok()?, place))
    };
    parts().map_or((None, bytes), |(owner, place)| (Some(owner), place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_kept() {
        for name in [None, Some(""), Some("dave"), Some("d\u{e4}ve")] {
            for text in [&b""[..], b"cursor", b"\x31\x01"] {
                for numbers in [&[7][..], &[0, u64::MAX >> 20, 3]] {
                    let place = FeedPlace { numbers: Numbers::of(numbers.into()), place: text.into() };
                    let kept = kept(name, &place);
                    assert_eq!((owner(&kept), kept.number), (name, numbers.iter().sum()));
                    assert_eq!(of_source(&kept, numbers.len() as u16), Ok(place));
                    assert_eq!(of_source(&kept, 2), Err(text), "of a source with other partitions");
                }
            }
        }
    }

    #[test]
    fn places_of_earlier_versions_are_read() {
        let of = |bytes: &[u8]| KeptPlace { number: 9, place: bytes.into() };
        let one = |text: &[u8]| Ok(FeedPlace { numbers: Numbers::all(1, 9), place: text.into() });
        let dave = of(b"\x01\x04\x00davecursor");
        assert_eq!((owner(&dave), of_source(&dave, 1)), (Some("dave"), one(b"cursor")));
        assert_eq!(of_source(&dave, 4), Err(&b"cursor"[..]));
        for bytes in [&b"cursor"[..], b"\x01\xff\xff", b"\x02\xff\xff", b"\x02\x00\x00", b""] {
            let nobodys = of(bytes);
            assert_eq!((owner(&nobodys), of_source(&nobodys, 1)), (None, one(bytes)), "old, or broken");
        }
    }
}

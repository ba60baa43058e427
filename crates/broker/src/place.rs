//! The place of a feed with the user whose it is, as a session keeps it.
//!
//! ```text
//!   of a user    │ 1 │ length of the name, u16 LE │ name, UTF-8 │ place, in the words of the source │
//!   of nobody    │ place; it never begins with 1, because sources write text                        │
//! ```
//!
//! Why the name: whoever knows a client id may come with it. What a feed sends is what its reader may read, so the
//! place of one reader is no place of another.

/// The first byte of a place that is somebody's.
const OWNED: u8 = 1;

/// The place of `owner`, or of nobody.
///
/// # Panics
/// If a name has more than 64 KiB, or a place of nobody begins like one that is somebody's.
pub(crate) fn owned(owner: Option<&str>, place: &[u8]) -> Box<[u8]> {
    let Some(owner) = owner else {
        assert!(place.first() != Some(&OWNED), "sources write text");
        return place.into();
    };
    let length = u16::try_from(owner.len()).expect("a user's name is short");
    [&[OWNED], &length.to_le_bytes()[..], owner.as_bytes(), place].concat().into()
}

/// Whose place it is, if it is somebody's, and the place. What is no name is nobody's.
pub(crate) fn split(kept: &[u8]) -> (Option<&str>, &[u8]) {
    let parts = || {
        let rest = kept.strip_prefix(&[OWNED])?;
        let (length, rest) = rest.split_at_checked(2)?;
        let length = u16::from_le_bytes([length[0], length[1]]);
        let (owner, place) = rest.split_at_checked(length.into())?;
        Some((std::str::from_utf8(owner).ok()?, place))
    };
    parts().map_or((None, kept), |(owner, place)| (Some(owner), place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_found_again_and_old_places_are_nobodys() {
        for owner in [None, Some(""), Some("dave"), Some("d\u{e4}ve")] {
            for place in [&b""[..], b"cursor", b"\x31\x01"] {
                assert_eq!(split(&owned(owner, place)), (owner, place));
            }
        }
        assert_eq!(split(b"cursor"), (None, &b"cursor"[..]));
        assert_eq!(split(b"\x01\xff\xff"), (None, &b"\x01\xff\xff"[..]), "broken");
    }
}

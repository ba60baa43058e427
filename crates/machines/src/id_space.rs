//! Id spaces: the id that a client chooses is unique among the ids of its space, not among those of everybody.
//!
//! ```text
//!   client's id    space of the client      the ledger's id
//!   order-17       (empty)             ─▶   order-17
//!   vote-1         dave                ─▶   dave U+001F vote-1
//! ```
//!
//! Ids of messages of queues have spaces as well, but for those that are keys which another node gave (`queue/ids.rs`).
//!
//! Why in the id: index, records, hashes and shards then know nothing of spaces. No space and no id that a client
//! chooses has a control character, so no id of one space reads as one of another.

use tidegate_planted::{Bug, is_planted};

use crate::ledger::is_printable;

/// Longest name of a space, in bytes of UTF-8.
pub const ID_SPACE_BYTES_MAX: usize = 64;

/// The name of the space of all clients that have shown no name.
const ANONYMOUS: &str = "tidegate.anonymous";

/// Between the name of a space and the client's id.
const SEPARATOR: char = '\u{1f}';

/// A space of ids. The empty one is that of services whose configuration names no other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IdSpace(Box<str>);

impl IdSpace {
    /// The space of this name: none or 1 to 64 bytes of printable UTF-8. `None` if it cannot be one.
    pub fn new(name: &str) -> Option<IdSpace> {
        let is_name = name.is_empty() || name.len() <= ID_SPACE_BYTES_MAX && is_printable(name);
        is_name.then(|| IdSpace(name.into()))
    }

    /// That of clients that have shown no name: what they send keeps nobody else's id from being taken.
    pub fn anonymous() -> IdSpace {
        IdSpace(ANONYMOUS.into())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Whether it is the empty one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the ledger's id of the client's `id`. Of an id that would read as one of another space nothing is left,
    /// so that the ledger refuses it as any malformed id.
    pub fn put(&self, id: &str, out: &mut Vec<u8>) {
        if self.is_empty() || is_ignored(id) {
            out.extend_from_slice(IdSpace::checked(id).as_bytes());
        } else {
            out.extend_from_slice(self.0.as_bytes());
            out.push(SEPARATOR as u8);
            out.extend_from_slice(id.as_bytes());
        }
    }

    /// The ledger's id of the client's `id`, as [`IdSpace::put`].
    pub fn whole(&self, id: &str) -> Box<str> {
        if self.is_empty() || is_ignored(id) {
            return IdSpace::checked(id).into();
        }
        format!("{}{SEPARATOR}{id}", self.0).into()
    }

    /// The id of the client's `id` with the separator before it in any space, the empty one, too: no plain id reads so.
    pub fn apart(&self, id: &str) -> Box<str> {
        format!("{}{SEPARATOR}{}", self.0, IdSpace::checked(id)).into()
    }

    /// What the client of the empty space sent, unless it names a space.
    #[inline]
    pub fn checked(id: &str) -> &str {
        if id.as_bytes().contains(&(SEPARATOR as u8)) { "" } else { id }
    }

    /// Whether texts among `bytes` may name a space; nearly none do, and one look at all of them says so.
    #[inline]
    pub fn may_be_named_in(bytes: &[u8]) -> bool {
        bytes.contains(&(SEPARATOR as u8))
    }

    /// The name of the space and the client's id in an id of the ledger.
    pub fn split(whole: &str) -> (&str, &str) {
        whole.split_once(SEPARATOR).unwrap_or(("", whole))
    }
}

/// Whether a bug that a test planted takes `id` for one of the empty space.
fn is_ignored(id: &str) -> bool {
    is_planted(Bug::IdSpaceIgnored) && id.ends_with('7')
}

// The separator is one byte of UTF-8.
const _: () = assert!((SEPARATOR as u32) < 0x80);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::is_transfer_id;

    #[test]
    fn an_id_is_the_same_in_no_two_spaces() {
        let (empty, dave, carol) = (IdSpace::default(), IdSpace::new("dave").unwrap(), IdSpace::new("carol").unwrap());
        let wholes = [&empty, &dave, &carol].map(|space| space.whole("vote-1"));
        assert_eq!(
            wholes.each_ref().map(|whole| IdSpace::split(whole)),
            [("", "vote-1"), ("dave", "vote-1"), ("carol", "vote-1")]
        );
        assert!(wholes.iter().all(|whole| is_transfer_id(whole)), "{wholes:?}");
    }

    #[test]
    fn a_client_cannot_name_a_space() {
        for space in ["", "carol"] {
            let space = IdSpace::new(space).unwrap();
            let whole = space.whole("dave\u{1f}vote-1");
            assert!(!is_transfer_id(&whole), "{whole:?}");
            let mut put = Vec::new();
            space.put("dave\u{1f}vote-1", &mut put);
            assert_eq!(put, whole.as_bytes());
        }
    }

    #[test]
    fn names_are_ids() {
        for name in ["", "dave", "ünï", &"x".repeat(64)] {
            assert!(IdSpace::new(name).is_some(), "{name:?}");
        }
        for name in ["a\u{1f}b", " dave", "da\u{a0}ve", "\u{3164}", &"x".repeat(65)] {
            assert_eq!(IdSpace::new(name), None, "{name:?}");
        }
    }
}

//! Seals where a list goes on, when that is behind an account that the reader may not see.
//!
//! ```text
//!   id ─▶ padded ─▶ tag: keyed hash of reader and id ─▶ stream from the tag ─▶ XOR ─▶ "/" + base64url(tag, text)
//! ```
//!
//! Promise: whoever gets such a cursor learns neither the id nor its length, cannot make one, and can use only those
//! that were made for them. A cursor stays good over restarts, because its key is made of the one that signs tokens.
//!
//! Why the tag is the nonce (SIV, RFC 5297): there is nothing to store, and the same place twice is the same cursor. No
//! account has an id with a slash, so a cursor is never taken for an id.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::secret::Secret;

/// What a sealed cursor begins with, and no id.
const MARK: char = '/';
/// Bytes of the tag.
const TAG_BYTES: usize = 16;
/// Bytes of a padded id: its length, and the longest id.
const PADDED_BYTES: usize = 1 + ID_BYTES_MAX;
/// The longest id of an account.
const ID_BYTES_MAX: usize = 128;

/// Seals and opens cursors. Its `Debug` does not show the keys.
pub struct CursorSeal {
    tags: [u8; 32],
    streams: [u8; 32],
}

impl CursorSeal {
    /// With keys that are made of `secret`.
    pub fn new(secret: &Secret) -> CursorSeal {
        CursorSeal {
            tags: blake3::derive_key("tidegate 2026-11-22 lists of accounts: tags of cursors", secret.bytes()),
            streams: blake3::derive_key("tidegate 2026-11-22 lists of accounts: text of cursors", secret.bytes()),
        }
    }

    /// The cursor for `reader` that stands for the account `id`.
    pub fn seal(&self, reader: &str, id: &str) -> String {
        let mut text = [0; PADDED_BYTES];
        let length = id.len().min(ID_BYTES_MAX);
        text[0] = length as u8;
        text[1..=length].copy_from_slice(&id.as_bytes()[..length]);
        let tag = self.tag(reader, &text);
        self.apply_stream(&tag, &mut text);
        let mut sealed = MARK.to_string();
        URL_SAFE_NO_PAD.encode_string([&tag[..], &text].concat(), &mut sealed);
        sealed
    }

    /// The id that `cursor` of `reader` stands for: itself, if it is one. `None` for what was not sealed here for this
    /// reader.
    pub fn open(&self, reader: &str, cursor: &str) -> Option<Box<str>> {
        let Some(sealed) = cursor.strip_prefix(MARK) else { return Some(cursor.into()) };
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (tag, text) = sealed.split_first_chunk::<TAG_BYTES>()?;
        let mut text: [u8; PADDED_BYTES] = text.try_into().ok()?;
        self.apply_stream(tag, &mut text);
        // Compared in constant time: how long it takes says nothing about the right tag.
        let is_ours = self.tag(reader, &text).iter().zip(tag).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0;
        let id = text.get(1..=usize::from(text[0])).filter(|_| is_ours)?;
        std::str::from_utf8(id).ok().map(Box::from)
    }

    fn tag(&self, reader: &str, text: &[u8; PADDED_BYTES]) -> [u8; TAG_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.tags);
        hasher.update(&(reader.len() as u64).to_le_bytes()).update(reader.as_bytes()).update(text);
        *hasher.finalize().as_bytes().first_chunk().expect("a hash is longer than a tag")
    }

    fn apply_stream(&self, tag: &[u8; TAG_BYTES], text: &mut [u8; PADDED_BYTES]) {
        let mut stream = [0; PADDED_BYTES];
        blake3::Hasher::new_keyed(&self.streams).update(tag).finalize_xof().fill(&mut stream);
        text.iter_mut().zip(stream).for_each(|(byte, key)| *byte ^= key);
    }
}

impl std::fmt::Debug for CursorSeal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CursorSeal(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(byte: u8) -> CursorSeal {
        CursorSeal::new(&Secret::from_bytes(&[byte; 32]).unwrap())
    }

    #[test]
    fn a_cursor_is_opened_by_its_reader_alone_and_says_nothing_of_the_id() {
        let longest = "é".repeat(64);
        let ids = ["wallet:carol", "a", &longest];
        let sealed = ids.map(|id| seal(1).seal("dave", id));
        for (id, cursor) in ids.iter().zip(&sealed) {
            assert_eq!(seal(1).open("dave", cursor).as_deref(), Some(*id));
            assert_eq!(seal(1).open("erin", cursor), None, "of another reader");
            assert_eq!(seal(2).open("dave", cursor), None, "of another server");
            assert_eq!(cursor.len(), sealed[0].len(), "all are of one length");
            assert!(!cursor.contains("carol") && cursor.starts_with('/'));
        }
    }

    #[test]
    fn a_changed_cursor_is_none_and_an_id_is_itself() {
        let cursor = seal(1).seal("dave", "wallet:carol");
        for at in 0..cursor.len() {
            let mut forged = cursor.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_ne!(seal(1).open("dave", &forged).as_deref(), Some("wallet:carol"), "changed at {at}");
        }
        for text in ["/", "/A", "/wallet:carol", &format!("/{}", "A".repeat(1_000))] {
            assert_eq!(seal(1).open("dave", text), None, "{text}");
        }
        assert_eq!(seal(1).open("dave", "candidate:1").as_deref(), Some("candidate:1"));
    }
}

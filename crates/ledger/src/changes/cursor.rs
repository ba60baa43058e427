//! A place between two records of every shard, as text that clients keep. Bytes: `docs/formats/changes.md`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate_journal::{ChainHash, Cursor, Position, Sequence};

use crate::router::CursorKey;

/// The first byte of a cursor.
const VERSION: u8 = 1;
/// Version and number of shards.
const HEAD_BYTES: usize = 3;
/// Position, sequence, chain hash, records.
const PLACE_BYTES: usize = 52;
/// SipHash-2-4 of all before.
const SIGNATURE_BYTES: usize = 8;

/// A place in one shard's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardPlace {
    /// Where a group begins.
    pub group: Cursor,
    /// Records of that group that were passed.
    pub passed: u32,
}

impl ShardPlace {
    /// Before the first record.
    pub const START: ShardPlace = ShardPlace { group: Cursor::START, passed: 0 };
}

/// A place in the journals of all shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeCursor {
    pub(super) places: Vec<ShardPlace>,
}

impl ChangeCursor {
    /// The text for clients.
    pub(super) fn text(&self, key: CursorKey) -> Box<str> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.places.len() * PLACE_BYTES + SIGNATURE_BYTES);
        bytes.push(VERSION);
        bytes.extend_from_slice(&(self.places.len() as u16).to_le_bytes());
        for place in &self.places {
            bytes.extend_from_slice(&place.group.position.0.to_le_bytes());
            bytes.extend_from_slice(&place.group.sequence.0.to_le_bytes());
            bytes.extend_from_slice(&place.group.chain.0);
            bytes.extend_from_slice(&place.passed.to_le_bytes());
        }
        let signature = key.sign_bytes(&bytes);
        bytes.extend_from_slice(&signature.to_le_bytes());
        URL_SAFE_NO_PAD.encode(bytes).into()
    }

    /// The cursor that `text` is; `None` if it is none that `key` signed for so many shards.
    pub(super) fn parse(text: &str, shards: usize, key: CursorKey) -> Option<ChangeCursor> {
        let length = HEAD_BYTES + shards * PLACE_BYTES + SIGNATURE_BYTES;
        if text.len() != (length * 4).div_ceil(3) {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (signed, signature) = bytes.split_at_checked(length - SIGNATURE_BYTES)?;
        let is_ours = signature == key.sign_bytes(signed).to_le_bytes();
        let (head, places) = signed.split_at(HEAD_BYTES);
        if !is_ours || head[0] != VERSION || usize::from(u16::from_le_bytes([head[1], head[2]])) != shards {
            return None;
        }
        let places = places.chunks_exact(PLACE_BYTES).map(|place| {
            let number = |at: usize| u64::from_le_bytes(place[at..at + 8].try_into().expect("eight bytes"));
            let group = Cursor {
                position: Position(number(0)),
                sequence: Sequence(number(8)),
                chain: ChainHash(place[16..48].try_into().expect("32 bytes")),
            };
            ShardPlace { group, passed: u32::from_le_bytes(place[48..].try_into().expect("four bytes")) }
        });
        Some(ChangeCursor { places: places.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: CursorKey = CursorKey([3, 4]);

    #[test]
    fn a_cursor_reads_as_it_was_written_and_no_other_text_is_one() {
        let place = |number: u64| ShardPlace {
            group: Cursor { position: Position(number), sequence: Sequence(number / 2), chain: ChainHash([7; 32]) },
            passed: number as u32 % 9,
        };
        let cursor = ChangeCursor { places: vec![place(4_711), ShardPlace::START] };
        let text = cursor.text(KEY);
        assert_eq!(ChangeCursor::parse(&text, 2, KEY), Some(cursor));
        assert_eq!(ChangeCursor::parse(&text, 1, KEY), None, "of a directory with more shards");
        assert_eq!(ChangeCursor::parse(&text, 2, CursorKey([3, 5])), None, "of another directory");
        for at in 0..text.len() {
            let mut forged = text.to_string().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(ChangeCursor::parse(&String::from_utf8(forged).unwrap(), 2, KEY), None, "changed at {at}");
        }
        for text in ["", "now", "0", &"A".repeat(1 << 16), "ä", "=", &text[1..]] {
            assert_eq!(ChangeCursor::parse(text, 2, KEY), None, "{text}");
        }
        let one = ChangeCursor { places: vec![place(1)] }.text(KEY);
        assert_eq!(one.len(), 84, "what each row of one shard carries");
    }
}

//! Ids that are keys of messages of other nodes, as links send them: those of one node come in order, so they are
//! remembered in chunks of 64 numbers, with some five bytes each.
//!
//! ```text
//!   node, shard, restart │ number / 64 ─▶ which numbers are there (8 bytes), then of each, as differences to the one
//!                                         before: time, key here (place, number, time), until when it is remembered
//! ```
//!
//! A key is remembered with its time: of another directory with the same node number, it is another id. A chunk is
//! forgotten when the last of its ids is.
//!
//! Promise: a chunk has one form; bytes that are read are what would be written.

use std::collections::BTreeMap;

use super::ids::Remembered;
use super::key::{MessageKey, NUMBER_END};
use super::message_table::NEVER;
use crate::TimeMs;
use crate::encoding::{Parsed, Reader, put_varint, put_zigzag, require};

/// Who gave a key: node, shard and restart, as the key has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source(u64);

/// Which chunk: of whom, and the number of its first key / 64.
pub(super) type ChunkName = (Source, u64);

/// Numbers of a chunk.
const CHUNK: u64 = 64;
/// Bits of a key that say who gave it.
const SOURCE_BITS: u32 = 40;

/// What is remembered of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// The time of the key.
    time: TimeMs,
    here: Remembered,
}

/// Some keys of one source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    taken: u64,
    bytes: Vec<u8>,
    /// That of the highest number: what comes next is compared with it.
    last: Known,
    /// When the last of them is forgotten.
    until: TimeMs,
}

/// Those of a queue.
#[derive(Debug, Default)]
pub(super) struct KeyIds {
    chunks: BTreeMap<ChunkName, Chunk>,
    len: u64,
}

fn source_of(key: MessageKey) -> Source {
    Source((key.bits() >> SOURCE_BITS) as u64 & ((1 << SOURCE_BITS) - 1))
}

fn key_of(time: TimeMs, source: Source, number: u64) -> MessageKey {
    MessageKey::from_bits(
        u128::from(time.0) << (2 * SOURCE_BITS) | u128::from(source.0) << SOURCE_BITS | u128::from(number),
    )
}

fn place(key: MessageKey) -> (ChunkName, u32) {
    ((source_of(key), key.number() / CHUNK), (key.number() % CHUNK) as u32)
}

/// What the first key of a chunk is compared with.
const NOTHING: Known = Known { time: TimeMs(0), here: Remembered { key: MessageKey::from_bits(0), until: TimeMs(0) } };

/// The fields of which differences are written.
fn fields(known: &Known) -> [u64; 5] {
    let Known { time, here: Remembered { key, until } } = known;
    [time.0, source_of(*key).0, key.number(), key.at().0, until.0.wrapping_sub(key.at().0)]
}

fn put(out: &mut Vec<u8>, before: &Known, known: &Known) {
    for (before, field) in fields(before).into_iter().zip(fields(known)) {
        put_zigzag(out, field.wrapping_sub(before) as i64);
    }
}

fn read(reader: &mut Reader<'_>, before: &Known) -> Parsed<Known> {
    let mut read = fields(before);
    for field in &mut read {
        *field = field.wrapping_add(reader.zigzag("a key that is remembered")? as u64);
    }
    let [time, source, number, at, life] = read;
    let until = at.wrapping_add(life);
    let is_time = |at: u64| at <= TimeMs::MAX.0;
    let is_key = is_time(time) && source < 1 << SOURCE_BITS && number < NUMBER_END && is_time(at);
    require(is_key && (is_time(until) || until == NEVER.0), "a key that is remembered")?;
    let key = key_of(TimeMs(at), Source(source), number);
    Ok(Known { time: TimeMs(time), here: Remembered { key, until: TimeMs(until) } })
}

/// The places that are taken, in order.
fn places(mut taken: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let place = (taken != 0).then(|| taken.trailing_zeros())?;
        taken &= taken - 1;
        Some(place)
    })
}

impl Chunk {
    fn of(known: &BTreeMap<u32, Known>) -> Chunk {
        let mut chunk = Chunk { taken: 0, bytes: Vec::new(), last: NOTHING, until: TimeMs(0) };
        known.iter().for_each(|(place, known)| chunk.append(*place, *known));
        chunk
    }

    /// Adds a key behind all others.
    fn append(&mut self, place: u32, known: Known) {
        self.taken |= 1 << place;
        put(&mut self.bytes, &self.last, &known);
        self.last = known;
        self.until = self.until.max(known.here.until);
    }

    fn has(&self, place: u32) -> bool {
        self.taken >> place & 1 == 1
    }

    fn is_behind_all(&self, place: u32) -> bool {
        self.taken.checked_shr(place).unwrap_or(0) == 0
    }

    fn iter(&self) -> impl Iterator<Item = (u32, Known)> {
        let (mut reader, mut before) = (Reader::new(&self.bytes), NOTHING);
        places(self.taken).map(move |place| {
            before = read(&mut reader, &before).expect("it was written here");
            (place, before)
        })
    }
}

impl KeyIds {
    /// Keys that are remembered.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Chunks of them.
    pub fn chunks(&self) -> u64 {
        self.chunks.len() as u64
    }

    pub fn get(&self, key: MessageKey) -> Option<Remembered> {
        let (name, place) = place(key);
        let chunk = self.chunks.get(&name).filter(|chunk| chunk.has(place))?;
        let (_, known) = chunk.iter().find(|(other, _)| *other == place)?;
        (known.time == key.at()).then_some(known.here)
    }

    /// Remembers a key. `None` if its place has another one; else the chunk in which it is now, if it is new.
    pub fn insert(&mut self, key: MessageKey, here: Remembered) -> Option<(ChunkName, bool)> {
        let (name, place) = place(key);
        let known = Known { time: key.at(), here };
        let Some(chunk) = self.chunks.get_mut(&name) else {
            self.chunks.insert(name, Chunk::of(&BTreeMap::from([(place, known)])));
            self.len += 1;
            return Some((name, true));
        };
        if chunk.is_behind_all(place) {
            chunk.append(place, known);
            self.len += 1;
            return Some((name, false));
        }
        let mut all: BTreeMap<u32, Known> = chunk.iter().collect();
        match all.insert(place, known) {
            Some(before) if before.time != known.time => return None,
            Some(_) => {}
            None => self.len += 1,
        }
        // The time at which the chunk is forgotten may only grow, so that it is the same however it came to be.
        let until = chunk.until;
        *chunk = Chunk::of(&all);
        chunk.until = chunk.until.max(until);
        Some((name, false))
    }

    /// When the last key of a chunk is forgotten, if it is there.
    pub fn until(&self, name: ChunkName) -> Option<TimeMs> {
        self.chunks.get(&name).map(|chunk| chunk.until)
    }

    /// Forgets a chunk that is there.
    pub fn remove(&mut self, name: ChunkName) {
        let chunk = self.chunks.remove(&name).expect("the chunk is there");
        self.len -= u64::from(chunk.taken.count_ones());
    }

    /// All chunks, and when each is forgotten.
    pub fn names(&self) -> impl ExactSizeIterator<Item = (ChunkName, TimeMs)> + '_ {
        self.chunks.iter().map(|(name, chunk)| (*name, chunk.until))
    }

    /// Hands on the bytes of all chunks, one by one.
    pub fn write(&self, mut each: impl FnMut(&dyn Fn(&mut Vec<u8>))) {
        each(&|out| put_varint(out, self.chunks.len() as u64));
        for ((source, index), chunk) in &self.chunks {
            each(&|out| {
                put_varint(out, source.0);
                put_varint(out, *index);
                out.extend_from_slice(&chunk.taken.to_le_bytes());
                out.extend_from_slice(&chunk.bytes);
                // What it was remembered for before counts, too.
                put_varint(out, chunk.until.0);
            });
        }
    }

    /// Reads exactly what [`KeyIds::write`] wrote.
    pub fn read(reader: &mut Reader<'_>) -> Parsed<KeyIds> {
        let mut ids = KeyIds::default();
        for _ in 0..reader.varint("a count of chunks of keys")? {
            let name = (Source(reader.varint("who gave keys")?), reader.varint("a chunk of keys")?);
            let is_next = ids.chunks.last_key_value().is_none_or(|(before, _)| *before < name);
            let is_chunk = name.0.0 < 1 << SOURCE_BITS && name.1 < NUMBER_END / CHUNK;
            require(is_next && is_chunk, "chunks of keys are in order")?;
            let taken = u64::from_le_bytes(reader.array("which keys are there")?);
            require(taken != 0, "a chunk has keys")?;
            let mut chunk = Chunk { taken: 0, bytes: Vec::new(), last: NOTHING, until: TimeMs(0) };
            for place in places(taken) {
                let known = read(reader, &chunk.last)?;
                chunk.append(place, known);
            }
            let until = TimeMs(reader.varint("until when keys are remembered")?);
            require(
                until >= chunk.until && (until <= TimeMs::MAX || until == NEVER),
                "until when keys are remembered",
            )?;
            chunk.until = until;
            ids.len += u64::from(taken.count_ones());
            ids.chunks.insert(name, chunk);
        }
        Ok(ids)
    }

    /// Panics if counts do not fit.
    pub fn assert_sound(&self) {
        let len: u64 = self.chunks.values().map(|chunk| u64::from(chunk.taken.count_ones())).sum();
        assert!(len == self.len, "keys are counted");
        for chunk in self.chunks.values() {
            let last = chunk.iter().last().map(|(_, known)| known);
            assert!(last == Some(chunk.last), "the last key of a chunk is known");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::ShardIndex;

    fn key() -> impl Strategy<Value = MessageKey> {
        (0..3u64, 0..2u16, 0..2u16, 1..300u64)
            .prop_map(|(at, node, restart, number)| MessageKey::new(TimeMs(at), node, ShardIndex(0), restart, number))
    }

    proptest! {
        #[test]
        fn what_is_remembered_is_what_was_said_last(
            steps in proptest::collection::vec((key(), key(), prop_oneof![Just(NEVER.0), 5..9u64]), 0..300),
        ) {
            let (mut ids, mut model, mut taken) = (KeyIds::default(), BTreeMap::new(), BTreeMap::new());
            for (key, here, until) in steps {
                let here = Remembered { key: here, until: TimeMs(until) };
                let is_free = *taken.entry(place(key)).or_insert(key.at()) == key.at();
                prop_assert_eq!(ids.insert(key, here).is_some(), is_free, "a place has one key");
                if is_free {
                    model.insert(key, here);
                }
            }
            ids.assert_sound();
            for (key, here) in &model {
                prop_assert_eq!(ids.get(*key), Some(*here));
            }
            prop_assert_eq!(ids.len(), model.len() as u64);
            let mut bytes = Vec::new();
            ids.write(|write| write(&mut bytes));
            let mut reader = Reader::new(&bytes);
            let mut again = KeyIds::read(&mut reader).expect("it was written");
            prop_assert!(reader.end("bytes behind").is_ok());
            prop_assert_eq!(&again.chunks, &ids.chunks);
            let names: Vec<_> = again.names().collect();
            names.into_iter().for_each(|(name, _)| again.remove(name));
            prop_assert_eq!(again.len(), 0);
        }
    }

    #[test]
    fn keys_that_come_in_order_take_a_few_bytes_each() {
        let mut ids = KeyIds::default();
        for number in 1..=6_400u64 {
            let at = TimeMs(1_790_000_000_000 + number / 3);
            let key = MessageKey::new(at, 7, ShardIndex(0), 4, number);
            let later = TimeMs(at.0 + 3);
            let here = MessageKey::new(later, 8, ShardIndex(0), 2, 1_000_000 + number);
            ids.insert(key, Remembered { key: here, until: TimeMs(later.0 + 300_000) });
        }
        let bytes: usize = ids.chunks.values().map(|chunk| size_of::<Chunk>() + chunk.bytes.len()).sum();
        assert!(bytes < 8 * 6_400, "{bytes} bytes for 6,400 keys");
    }
}

//! Chunks of messages as few bytes: what memory keeps of a long backlog, and what a snapshot has.
//!
//! ```text
//!   which places are taken (8 bytes), then of each message in order:
//!   what it shares with the one before it (a byte), priority and what it has (a byte), and what is left as varints
//! ```
//!
//! Messages that were sent together take two or three bytes each, one that was sent alone some six, one that waits for
//! a time five more. The byte diagram is in `docs/formats/queue.md`.
//!
//! Promise: a chunk has one form; bytes that are read are what would be written.

use tidegate_planted::{Bug, is_planted};

use super::event::QueueIndex;
use super::limits::PRIORITIES;
use super::message_table::{Entry, MessageState, NEVER, NO_GROUP};
use crate::encoding::{Malformed, Parsed, Reader, put_varint, put_zigzag, require};
use crate::{RecordPosition, TimeMs};

/// Messages of a chunk.
pub(super) const CHUNK: usize = 64;

/// The messages of a chunk by their places.
pub(super) type Entries = [Option<Entry>; CHUNK];

const _: () = assert!(CHUNK == u64::BITS as usize, "which places are taken is one number");

/// No messages.
pub(super) const fn empty() -> Entries {
    [None; CHUNK]
}

/// The state stands in the lowest bits of the first byte.
const STATE: u8 = 7;
/// It is in the queue of the one before it.
const SAME_QUEUE: u8 = 8;
/// It was sent in the same record as the one before it, directly behind it.
const NEXT_PART: u8 = 16;
/// Its newest record is the one that has its body.
const UNTOUCHED: u8 = 32;
/// It was never handed out.
const NEVER_OUT: u8 = 64;
/// It has as many bytes as the one before it.
const SAME_BYTES: u8 = 128;

/// The priority stands in the lowest bits of the second byte.
const PRIORITY: u8 = 15;
const HAS_UNTIL: u8 = 16;
const HAS_EXPIRY: u8 = 32;
const HAS_GROUP: u8 = 64;
/// It expires as long after it was sent as the one before it.
const SAME_LIFE: u8 = 128;

/// A packed chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packed {
    bytes: Box<[u8]>,
    wakes_at: TimeMs,
}

impl Packed {
    pub fn of(entries: &Entries) -> Packed {
        let mut bytes = Vec::with_capacity(8 * CHUNK);
        put(&mut bytes, entries, true);
        Packed::written(&bytes, entries)
    }

    /// A chunk of these entries, from the bytes that [`put`] writes of them, with their groups.
    pub fn written(bytes: &[u8], entries: &Entries) -> Packed {
        let wakes_at = entries.iter().flatten().filter_map(Entry::wake_at).min().unwrap_or(NEVER);
        let wakes_at = if is_planted(Bug::PackedTimerLost) { NEVER } else { wakes_at };
        Packed { bytes: bytes.into(), wakes_at }
    }

    pub fn len(&self) -> u64 {
        let taken = self.bytes.first_chunk().expect("a packed chunk begins with what is taken");
        u64::from(u64::from_le_bytes(*taken).count_ones())
    }

    /// When the first of its messages wakes.
    pub const fn wakes_at(&self) -> TimeMs {
        self.wakes_at
    }

    pub fn entries(&self) -> Entries {
        read(&mut Reader::new(&self.bytes), true).expect("it was packed here")
    }
}

/// What the first message of a chunk is compared with.
const NOTHING: Entry = Entry {
    body: RecordPosition(0),
    part: 0,
    last: RecordPosition(0),
    sent_at: TimeMs(0),
    until: TimeMs(0),
    expires_at: NEVER,
    queue: QueueIndex(0),
    group: NO_GROUP,
    bytes: 0,
    attempts: 0,
    tries: 0,
    priority: 0,
    state: MessageState::Ready,
};

fn is_next_part(before: &Entry, entry: &Entry) -> bool {
    before.body == entry.body && before.part.checked_add(1) == Some(entry.part) && before.sent_at == entry.sent_at
}

/// How long after it was sent a message expires, if it does.
fn life(entry: &Entry) -> Option<i64> {
    (entry.expires_at != NEVER).then(|| entry.expires_at.0.wrapping_sub(entry.sent_at.0) as i64)
}

const fn flag(holds: bool, flag: u8) -> u8 {
    if holds { flag } else { 0 }
}

/// Appends a chunk. Without groups, those are left out: a snapshot has them elsewhere.
pub(super) fn put(out: &mut Vec<u8>, entries: &Entries, with_groups: bool) {
    let taken = |sum: u64, (place, entry): (usize, &Option<Entry>)| sum | u64::from(entry.is_some()) << place;
    out.extend_from_slice(&entries.iter().enumerate().fold(0, taken).to_le_bytes());
    let mut before = NOTHING;
    for entry in entries.iter().flatten() {
        put_entry(out, &before, entry, with_groups);
        before = *entry;
    }
}

fn put_entry(out: &mut Vec<u8>, before: &Entry, entry: &Entry, with_groups: bool) {
    let same_queue = before.queue == entry.queue;
    let next_part = is_next_part(before, entry);
    let untouched = entry.last == entry.body;
    let never_out = entry.attempts == 0 && entry.tries == 0;
    let same_bytes = before.bytes == entry.bytes;
    out.push(
        entry.state as u8
            | flag(same_queue, SAME_QUEUE)
            | flag(next_part, NEXT_PART)
            | flag(untouched, UNTOUCHED)
            | flag(never_out, NEVER_OUT)
            | flag(same_bytes, SAME_BYTES),
    );
    let has_until = entry.until != TimeMs(0);
    let life_here = life(entry);
    let same_life = life_here.is_some() && life(before) == life_here;
    let has_expiry = life_here.is_some() && !same_life;
    let has_group = with_groups && entry.group != NO_GROUP;
    out.push(
        entry.priority
            | flag(has_until, HAS_UNTIL)
            | flag(has_expiry, HAS_EXPIRY)
            | flag(has_group, HAS_GROUP)
            | flag(same_life, SAME_LIFE),
    );
    if !same_queue {
        put_varint(out, u64::from(entry.queue.0));
    }
    if !next_part {
        put_zigzag(out, entry.body.0.wrapping_sub(before.body.0) as i64);
        put_varint(out, u64::from(entry.part));
        put_zigzag(out, entry.sent_at.0.wrapping_sub(before.sent_at.0) as i64);
    }
    if !untouched {
        put_varint(out, entry.last.0 - entry.body.0);
    }
    if !never_out {
        put_varint(out, u64::from(entry.attempts));
        put_varint(out, u64::from(entry.tries));
    }
    if !same_bytes {
        put_varint(out, u64::from(entry.bytes));
    }
    if has_until {
        let is_lost = is_planted(Bug::LeaseLostInSnapshot) && !with_groups && entry.state == MessageState::Leased;
        let until = if is_lost { entry.sent_at } else { entry.until };
        put_zigzag(out, until.0.wrapping_sub(entry.sent_at.0) as i64);
    }
    if let Some(life) = life_here.filter(|_| has_expiry) {
        put_zigzag(out, life);
    }
    if has_group {
        put_varint(out, u64::from(entry.group));
    }
}

/// Reads a chunk: exactly what [`put`] writes, with at least one message.
pub(super) fn read(reader: &mut Reader<'_>, with_groups: bool) -> Parsed<Entries> {
    let mut taken = u64::from_le_bytes(reader.array("which places are taken")?);
    require(taken != 0, "a chunk has messages")?;
    let (mut entries, mut before) = (empty(), NOTHING);
    while taken != 0 {
        let entry = read_entry(reader, &before, with_groups)?;
        entries[taken.trailing_zeros() as usize] = Some(entry);
        before = entry;
        taken &= taken - 1;
    }
    Ok(entries)
}

fn read_entry(reader: &mut Reader<'_>, before: &Entry, with_groups: bool) -> Parsed<Entry> {
    let [first, second] = reader.array("a message")?;
    let state = *MessageState::ALL.get(usize::from(first & STATE)).ok_or(Malformed { what: "a state" })?;
    let priority = second & PRIORITY;
    require(usize::from(priority) < PRIORITIES, "a priority")?;
    require(with_groups || second & HAS_GROUP == 0, "a group")?;
    let mut entry = Entry { state, priority, group: NO_GROUP, until: TimeMs(0), expires_at: NEVER, ..*before };
    if first & SAME_QUEUE == 0 {
        entry.queue = QueueIndex(reader.u32("a queue")?);
        require(entry.queue != before.queue, "a queue that is another one")?;
    }
    if first & NEXT_PART == 0 {
        entry.body = RecordPosition(moved(before.body.0, reader.zigzag("a position")?));
        entry.part = small(reader.varint("a part")?)?;
        entry.sent_at = time(before.sent_at, reader.zigzag("a time")?)?;
        require(entry.body != RecordPosition::NONE, "a position")?;
        require(!is_next_part(before, &entry), "a part that is not the next one")?;
    } else {
        entry.part = before.part.checked_add(1).ok_or(Malformed { what: "a part" })?;
        require(entry.body != RecordPosition::NONE, "a position")?;
    }
    entry.last = entry.body;
    if first & UNTOUCHED == 0 {
        let behind = reader.varint("the newest record")?;
        let last = entry.body.0.checked_add(behind).filter(|_| behind > 0);
        entry.last = RecordPosition(last.ok_or(Malformed { what: "the newest record" })?);
    }
    (entry.attempts, entry.tries) = (0, 0);
    if first & NEVER_OUT == 0 {
        (entry.attempts, entry.tries) = (reader.u32("deliveries")?, small(reader.varint("deliveries")?)?);
        require(entry.attempts < u32::MAX && (entry.attempts, entry.tries) != (0, 0), "deliveries")?;
    }
    if first & SAME_BYTES == 0 {
        entry.bytes = reader.u32("bytes")?;
        require(entry.bytes != before.bytes, "bytes")?;
    }
    if second & HAS_UNTIL != 0 {
        entry.until = time(entry.sent_at, reader.zigzag("a time")?)?;
        let has_until = matches!(state, MessageState::Scheduled | MessageState::Leased);
        require(has_until && entry.until != TimeMs(0), "until when it waits, or is leased")?;
    }
    if second & SAME_LIFE != 0 {
        let life = life(before).filter(|_| second & HAS_EXPIRY == 0).ok_or(Malformed { what: "when it expires" })?;
        entry.expires_at = time(entry.sent_at, life)?;
    } else if second & HAS_EXPIRY != 0 {
        let other = reader.zigzag("when it expires")?;
        require(life(before) != Some(other), "when it expires")?;
        entry.expires_at = time(entry.sent_at, other)?;
    }
    if second & HAS_GROUP != 0 {
        entry.group = reader.u32("a group")?;
    }
    Ok(entry)
}

const fn moved(from: u64, by: i64) -> u64 {
    from.wrapping_add(by as u64)
}

fn time(from: TimeMs, by: i64) -> Parsed<TimeMs> {
    let at = TimeMs(moved(from.0, by));
    require(at <= TimeMs::MAX, "a time")?;
    Ok(at)
}

fn small(value: u64) -> Parsed<u16> {
    u16::try_from(value).map_err(|_| Malformed { what: "a small number" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry() -> impl Strategy<Value = Entry> {
        let time = || (0..=TimeMs::MAX.0).prop_map(TimeMs);
        let place = (1..=3u64, 0..4u16, prop_oneof![Just(0), any::<u32>()]);
        let counts = (0..2u32, 0..2u32, prop_oneof![Just((0, 0)), (0..u32::MAX, any::<u16>())]);
        let times = (prop_oneof![Just(TimeMs(5)), time()], time(), prop_oneof![Just(NEVER), time()]);
        let groups = prop_oneof![Just(NO_GROUP), 0..NO_GROUP];
        (place, counts, times, groups, 0..PRIORITIES as u8, 0..MessageState::ALL.len()).prop_map(
            |((body, part, behind), (queue, bytes, out), (sent_at, until, expires_at), group, priority, state)| {
                let state = MessageState::ALL[state];
                let has_until = matches!(state, MessageState::Scheduled | MessageState::Leased);
                Entry {
                    body: RecordPosition(body),
                    part,
                    last: RecordPosition(body + u64::from(behind)),
                    sent_at,
                    until: if has_until { until } else { TimeMs(0) },
                    expires_at,
                    queue: QueueIndex(queue),
                    group,
                    bytes,
                    attempts: out.0,
                    tries: out.1,
                    priority,
                    state,
                }
            },
        )
    }

    fn entries() -> impl Strategy<Value = Entries> {
        proptest::collection::vec((entry(), any::<bool>()), 1..=CHUNK).prop_map(|drawn| {
            let mut entries = empty();
            for (place, (entry, is_there)) in drawn.into_iter().enumerate() {
                entries[place] = Some(entry).filter(|_| is_there || place == 0);
            }
            entries
        })
    }

    proptest! {
        #[test]
        fn a_chunk_is_read_as_it_was_written(entries in entries()) {
            prop_assert!(Packed::of(&entries).entries() == entries);
        }

        #[test]
        fn bytes_are_what_would_be_written_or_are_refused(
            entries in entries(),
            at in any::<proptest::sample::Index>(),
            with in any::<u8>(),
            with_groups in any::<bool>(),
        ) {
            let mut bytes = Vec::new();
            put(&mut bytes, &entries, with_groups);
            let at = at.index(bytes.len());
            bytes[at] = with;
            let mut reader = Reader::new(&bytes);
            if let Ok(read) = read(&mut reader, with_groups) {
                let mut again = Vec::new();
                put(&mut again, &read, with_groups);
                prop_assert!(bytes.starts_with(&again), "{bytes:?} is read as {again:?}");
            }
        }
    }

    /// A backlog of messages that were sent one by one, each at its own time and of another length.
    fn backlog(change: impl Fn(u64, &mut Entry)) -> Packed {
        let mut entries = empty();
        for number in 0..CHUNK as u64 {
            let at = RecordPosition(8_000_000_000 + 700 * number);
            let sent_at = TimeMs(1_790_000_000_000 + 3 * number);
            let bytes = 200 + 7 * number as u32;
            let mut entry = Entry { body: at, last: at, sent_at, bytes, priority: 4, ..NOTHING };
            change(number, &mut entry);
            entries[number as usize] = Some(entry);
        }
        Packed::of(&entries)
    }

    #[test]
    fn a_waiting_message_takes_a_few_bytes() {
        const YEAR_MS: u64 = 366 * 24 * 3_600_000;
        let plain = backlog(|_, _| {});
        let scheduled = backlog(|number, entry| {
            entry.state = MessageState::Scheduled;
            entry.until = TimeMs(entry.sent_at.0 + YEAR_MS / 64 * (number * 37 % 64 + 1));
        });
        let rich = backlog(|number, entry| {
            (entry.expires_at, entry.group) = (TimeMs(entry.sent_at.0 + 48 * 3_600_000), 1_000_000 + number as u32);
            entry.priority = (number % 10) as u8;
        });
        for (packed, most) in [(plain, 9), (scheduled, 14), (rich, 12)] {
            let bytes = packed.bytes.len();
            assert!(bytes <= most * CHUNK, "{bytes} bytes of 64 messages are more than {most} each");
        }
    }
}

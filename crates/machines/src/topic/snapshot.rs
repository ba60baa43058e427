//! The state as bytes, so that a restart folds only what came after it. Two states are equal exactly when their bytes are.

use std::collections::HashMap;

use super::codec::{TEXT_BYTES_MAX, message, origin, put_message, put_origin, put_will, will};
use super::command::Slot;
use super::state::{Body, Session, Subscription, Timer, Topics};
use crate::TimeMs;
use crate::encoding::{Malformed, Parsed, Reader, put_text, put_varint};
use crate::queue::{BodyIndex, Entry, EntryState, Inbox};

/// Version of the layout; the first thing in the bytes.
const VERSION: u64 = 1;
/// Bytes are handed on in pieces of about this size.
const CHUNK_BYTES: usize = 64 * 1024;

/// Bytes that are not a snapshot of a topic shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Made by another version.
    #[error("snapshot layout {0} is unknown; this program reads layout {VERSION}")]
    UnknownVersion(u64),
    /// Not of the expected form, or against a rule.
    #[error("snapshot is damaged: {0}")]
    Damaged(&'static str),
}

impl From<Malformed> for SnapshotError {
    fn from(malformed: Malformed) -> SnapshotError {
        SnapshotError::Damaged(malformed.what)
    }
}

/// Bodies in the order in which the snapshot meets them: each is written where it is first waited for.
#[derive(Default)]
struct Numbers {
    by_index: HashMap<BodyIndex, u64>,
}

impl Topics {
    /// Hands the state's bytes to `sink`, piece by piece.
    pub fn write_snapshot(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut out = Vec::with_capacity(CHUNK_BYTES);
        let mut numbers = Numbers::default();
        put_varint(&mut out, VERSION);
        put_varint(&mut out, u64::from(self.shard.0));
        put_varint(&mut out, self.sessions.len() as u64);
        for session in &self.sessions {
            out.push(u8::from(session.is_some()));
            if let Some(session) = session {
                self.put_session(&mut out, session, &mut numbers, sink);
            }
            pass_on(&mut out, sink, CHUNK_BYTES);
        }
        put_varint(&mut out, self.free.len() as u64);
        self.free.iter().for_each(|slot| put_varint(&mut out, u64::from(slot.0)));
        put_varint(&mut out, self.origins.len() as u64);
        self.origins.iter().for_each(|origin| put_origin(&mut out, origin));
        put_varint(&mut out, self.retained.len() as u64);
        for message in self.retained.values() {
            put_message(&mut out, message);
            pass_on(&mut out, sink, CHUNK_BYTES);
        }
        put_varint(&mut out, self.delayed.len() as u64);
        for (id, (at, message)) in &self.delayed {
            put_varint(&mut out, *id);
            put_varint(&mut out, at.0);
            put_message(&mut out, message);
            pass_on(&mut out, sink, CHUNK_BYTES);
        }
        for count in [self.counts.evicted, self.counts.dropped_full, self.counts.dropped_expired] {
            put_varint(&mut out, count);
        }
        pass_on(&mut out, sink, 0);
    }

    fn put_session(&self, out: &mut Vec<u8>, session: &Session, numbers: &mut Numbers, sink: &mut dyn FnMut(&[u8])) {
        put_text(out, &session.client_id);
        put_varint(out, session.incarnation);
        put_varint(out, u64::from(session.expiry_s));
        put_varint(out, session.detached_at.map_or(0, |at| at.0 + 1));
        put_will(out, session.will.as_deref());
        put_varint(out, session.subscriptions.len() as u64);
        for subscription in &session.subscriptions {
            put_text(out, &subscription.filter);
            out.push(subscription.options);
            put_varint(out, u64::from(subscription.subscription_id));
        }
        put_varint(out, session.inbox.front_number());
        put_varint(out, session.inbox.next_number());
        put_varint(out, session.inbox.len() as u64);
        for (number, entry) in session.inbox.entries_from(0) {
            put_varint(out, number);
            put_varint(out, entry.sequence);
            out.push(entry.qos);
            out.push(u8::from(entry.retain));
            out.push(u8::from(entry.state == EntryState::Received));
            let ids: &[u32] = entry.subscription_ids.as_ref().map_or(&[], |ids| ids);
            put_varint(out, ids.len() as u64);
            ids.iter().for_each(|id| put_varint(out, u64::from(*id)));
            let known = numbers.by_index.len() as u64;
            let body_number = *numbers.by_index.entry(entry.body).or_insert(known);
            put_varint(out, body_number);
            if body_number == known {
                let body = self.bodies.get(entry.body);
                put_varint(out, body.drop_at.0);
                put_message(out, &body.message);
            }
            pass_on(out, sink, CHUNK_BYTES);
        }
    }

    /// Reads a state. Takes any bytes; memory grows with what is there, not with what lengths say.
    pub fn decode_snapshot(bytes: &[u8]) -> Result<Topics, SnapshotError> {
        let mut reader = Reader::new(bytes);
        let version = reader.varint("version")?;
        if version != VERSION {
            return Err(SnapshotError::UnknownVersion(version));
        }
        let mut topics = Topics::new(reader.shard("shard")?);
        let mut bodies: Vec<BodyIndex> = Vec::new();
        for index in 0..reader.varint("sessions")? {
            let slot = Slot(u32::try_from(index).map_err(|_| Malformed { what: "sessions" })?);
            match reader.byte("session")? {
                0 => topics.sessions.push(None),
                1 => read_session(&mut reader, slot, &mut topics, &mut bodies)?,
                _ => return Err(SnapshotError::Damaged("session")),
            }
        }
        read_free(&mut reader, &mut topics)?;
        for _ in 0..reader.varint("origins")? {
            let new = topics.origins.insert(origin(&mut reader)?);
            require(new, "origins")?;
        }
        for _ in 0..reader.varint("retained")? {
            let message = message(&mut reader)?;
            require(!message.payload().is_empty(), "retained")?;
            topics.retained_bytes += message.body_bytes() as u64;
            let before = topics.retained.insert(message.topic().into(), message);
            require(before.is_none(), "retained")?;
        }
        for _ in 0..reader.varint("delayed")? {
            let id = reader.varint("delayed")?;
            let at = TimeMs(reader.varint("time")?);
            let before = topics.delayed.insert(id, (at, message(&mut reader)?));
            require(before.is_none(), "delayed")?;
            topics.timers.insert((at, Timer::Delayed(id)));
        }
        topics.counts.evicted = reader.varint("counts")?;
        topics.counts.dropped_full = reader.varint("counts")?;
        topics.counts.dropped_expired = reader.varint("counts")?;
        reader.end("end")?;
        Ok(topics)
    }
}

fn pass_on(out: &mut Vec<u8>, sink: &mut dyn FnMut(&[u8]), above: usize) {
    if out.len() > above {
        sink(out);
        out.clear();
    }
}

fn require(holds: bool, what: &'static str) -> Parsed<()> {
    if holds { Ok(()) } else { Err(Malformed { what }) }
}

/// The slots of ended sessions: exactly those without a session, in any order.
fn read_free(reader: &mut Reader<'_>, topics: &mut Topics) -> Parsed<()> {
    let empty = topics.sessions.iter().filter(|session| session.is_none()).count() as u64;
    require(reader.varint("free slots")? == empty, "free slots")?;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..empty {
        let slot = Slot(reader.u32("free slot")?);
        let is_free = topics.sessions.get(slot.0 as usize).is_some_and(Option::is_none);
        require(is_free && seen.insert(slot), "free slot")?;
        topics.free.push_back(slot);
    }
    Ok(())
}

fn read_session(reader: &mut Reader<'_>, slot: Slot, topics: &mut Topics, bodies: &mut Vec<BodyIndex>) -> Parsed<()> {
    let client_id: Box<str> = reader.text(0, TEXT_BYTES_MAX, "client id")?.into();
    require(topics.find(&client_id).is_none(), "client id")?;
    let incarnation = reader.varint("incarnation")?;
    let expiry_s = reader.u32("expiry")?;
    let detached_at = reader.varint("detached at")?.checked_sub(1).map(TimeMs);
    let will = will(reader)?.map(Box::new);
    let (subscriptions, inbox) = (Vec::new(), Inbox::default());
    let session = Session { client_id, incarnation, expiry_s, detached_at, will, subscriptions, inbox };
    let (will_at, ends_at) = (session.will_at(), session.ends_at());
    topics.place(slot, session);
    topics.timers.extend(will_at.map(|at| (at, Timer::Will(slot))));
    topics.timers.extend(ends_at.map(|at| (at, Timer::SessionEnd(slot))));
    for _ in 0..reader.varint("subscriptions")? {
        let filter: Box<str> = reader.text(0, TEXT_BYTES_MAX, "filter")?.into();
        let options = reader.byte("options")?;
        let subscription_id = reader.u32("subscription id")?;
        topics.subscribe(slot, Subscription { filter, options, subscription_id });
    }
    read_inbox(reader, slot, topics, bodies)
}

fn read_inbox(reader: &mut Reader<'_>, slot: Slot, topics: &mut Topics, bodies: &mut Vec<BodyIndex>) -> Parsed<()> {
    let front = reader.varint("inbox")?;
    let next = reader.varint("inbox")?;
    let count = reader.varint("inbox")?;
    // Numbers between entries are those that were acknowledged out of order: no more than a window of them.
    require(front <= next && count <= next - front, "inbox")?;
    let mut inbox = Inbox::starting_at(if count == 0 { next } else { front });
    for nth in 0..count {
        let number = reader.varint("entry")?;
        require(number >= inbox.next_number() && number < next && (nth > 0 || number == front), "entry")?;
        let sequence = reader.varint("entry")?;
        let qos = reader.byte("entry")?;
        let (retain, received) = (reader.byte("entry")?, reader.byte("entry")?);
        require((1..=2).contains(&qos) && retain < 2 && received < 2, "entry")?;
        let ids = super::codec::list(reader, "entry", |reader| reader.u32("subscription id"))?;
        let body_number = reader.varint("body")?;
        let body = match bodies.get(body_number as usize) {
            Some(body) => {
                topics.bodies.retain(*body);
                *body
            }
            None => {
                require(body_number == bodies.len() as u64, "body")?;
                let drop_at = TimeMs(reader.varint("time to drop")?);
                let message = message(reader)?;
                let bytes = message.body_bytes() as u32;
                let body = topics.bodies.put(Body { message, drop_at }, bytes, 1);
                bodies.push(body);
                body
            }
        };
        let (bytes, drop_at) = (topics.bodies.bytes_of(body), topics.bodies.get(body).drop_at);
        inbox.skip_to(number);
        let state = if received == 1 { EntryState::Received } else { EntryState::Queued };
        let subscription_ids = (!ids.is_empty()).then(|| Box::new(ids.into_vec()));
        inbox.push(Entry { sequence, subscription_ids, body, qos, retain: retain == 1, state }, bytes);
        topics.counts.inbox_messages += 1;
        if drop_at != TimeMs(0) && state == EntryState::Queued {
            topics.timers.insert((drop_at, Timer::Entry(slot, number)));
        }
    }
    if count > 0 {
        inbox.skip_to(next);
    }
    topics.sessions[slot.0 as usize].as_mut().expect("it was just placed").inbox = inbox;
    Ok(())
}

//! The snapshot of a topic shard, so that a restart replays only later records. The byte diagram is in
//! `docs/formats/topics.md`.
//!
//! Two states are equal exactly when their bytes are: sessions are in the order of their slots, everything else in its
//! own order. A body is written once, at its first entry. Timers are not written: they follow from the rest.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::codec::{
    RECEIVED_FLAG, TEXT_BYTES_MAX, copy, kept, message, origin, owner, put_copy, put_kept, put_message, put_origin,
    put_will, time, will,
};
use super::command::{KeptPlace, Slot};
use super::principal::Principal;
use super::state::{Body, Kept, KeptWill, Session, Subscription, Timer, TopicFacts, Topics};
use crate::TimeMs;
use crate::chunks::Chunks;
use crate::encoding::{Malformed, Parsed, Reader, put_text, put_varint, require};
use crate::inboxes::{Bodies, BodyIndex, Entry, EntryState, Inbox};

/// Version of the layout; the first thing in the bytes. Of a state without places whose time is not known, as programs
/// wrote it that kept neither.
const VERSION: u64 = 1;
/// The same with the places of subscriptions behind the delayed messages.
const VERSION_WITH_PLACES: u64 = 2;
/// The same, perhaps without any place, and with the time of the newest event behind them.
const VERSION_WITH_TIME: u64 = 3;
/// The same, the time perhaps unknown, and behind it the owners of sessions and messages, at least one.
const VERSION_WITH_OWNERS: u64 = 4;
/// The same, perhaps without any owner, and behind them the records of wills that another record brought than the one
/// that opened their session, at least one.
const VERSION_WITH_WILLS: u64 = 5;
/// Numbers of records, of entries, and counts stay below this, so that they never overflow.
const NUMBER_MAX: u64 = 1 << 62;

const _: () = assert!(NUMBER_MAX.checked_mul(2).is_some());

/// Bytes that are not a snapshot of a topic shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Made by another version.
    #[error("snapshot layout {0} is unknown; this program reads layouts {VERSION} to {VERSION_WITH_WILLS}")]
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

type Sink<'s> = dyn FnMut(&[u8]) + 's;

/// The state on its way out. Bodies are numbered in the order in which their first entries come.
struct Writer<'s> {
    chunks: Chunks<'s, Sink<'s>>,
    bodies: HashMap<BodyIndex, u64>,
}

impl Topics {
    /// Hands the state's bytes to `sink`, piece by piece.
    pub fn write_snapshot(&self, sink: &mut dyn FnMut(&[u8])) {
        match (self.wills_named().next().is_some(), self.has_owners(), self.time > TimeMs(0)) {
            (true, ..) => self.write_version(VERSION_WITH_WILLS, sink),
            (_, true, _) => self.write_version(VERSION_WITH_OWNERS, sink),
            (.., true) => self.write_version(VERSION_WITH_TIME, sink),
            (.., false) => self.write_snapshot_without_time(sink),
        }
    }

    /// The same as programs wrote it that kept no time.
    pub(super) fn write_snapshot_without_time(&self, sink: &mut dyn FnMut(&[u8])) {
        let version = if self.places.is_empty() { VERSION } else { VERSION_WITH_PLACES };
        self.write_version(version, sink);
    }

    fn write_version(&self, version: u64, sink: &mut dyn FnMut(&[u8])) {
        self.assert_slots_counted();
        let mut writer = Writer { chunks: Chunks::new(sink), bodies: HashMap::new() };
        writer.numbers(&[version, u64::from(self.shard.0), self.sequence, u64::from(self.sessions.len())]);
        for session in self.sessions.iter() {
            writer.chunks.put(|out| out.push(u8::from(session.is_some())));
            if let Some(session) = session {
                writer.session(session);
                writer.inbox(&session.inbox, &self.bodies);
            }
        }
        // How many there are, the sessions say.
        for slot in &self.free {
            writer.numbers(&[u64::from(slot.0)]);
        }
        writer.numbers(&[self.origins.len() as u64]);
        for origin in &self.origins {
            writer.chunks.put(|out| put_origin(out, origin));
        }
        writer.numbers(&[self.retained.len() as u64]);
        for Kept { message, .. } in self.retained.values() {
            writer.chunks.put(|out| put_message(out, message));
        }
        writer.numbers(&[self.delayed.len() as u64]);
        for (id, (at, Kept { message, .. })) in &self.delayed {
            writer.numbers(&[*id, at.0]);
            writer.chunks.put(|out| put_message(out, message));
        }
        if version != VERSION {
            writer.places(&self.places);
        }
        if version >= VERSION_WITH_TIME {
            writer.numbers(&[self.time.0]);
        }
        if version >= VERSION_WITH_OWNERS {
            writer.owners(|| self.sessions.iter().map(|session| session.as_ref()?.owner.as_ref()));
            writer.owners(|| self.retained.values().map(|kept| kept.owner.as_ref()));
            writer.owners(|| self.delayed.values().map(|(_, kept)| kept.owner.as_ref()));
        }
        if version == VERSION_WITH_WILLS {
            writer.numbers(&[self.wills_named().count() as u64]);
            self.wills_named().for_each(|(slot, record)| writer.numbers(&[u64::from(slot.0), record]));
        }
        let TopicFacts { evicted, dropped_full, dropped_expired, dropped_aged, .. } = self.counts;
        writer.numbers(&[evicted, dropped_full, dropped_expired, dropped_aged]);
        writer.chunks.flush();
    }

    /// Whether it is known of anything whose it is.
    fn has_owners(&self) -> bool {
        let messages = || self.retained.values().chain(self.delayed.values().map(|(_, kept)| kept));
        self.sessions().any(|(_, session)| session.owner.is_some()) || messages().any(|kept| kept.owner.is_some())
    }

    /// Sessions with a will that another record brought than the one that opened them, and that record.
    fn wills_named(&self) -> impl Iterator<Item = (Slot, u64)> + '_ {
        let named = |session: &Session| session.will_record().filter(|record| *record != session.incarnation);
        self.sessions().filter_map(move |(slot, session)| Some((slot, named(session)?)))
    }

    /// Reads a state. Takes any bytes; time and memory are in proportion to what is there, not to what counts say.
    pub fn decode_snapshot(bytes: &[u8]) -> Result<Topics, SnapshotError> {
        let mut reader = Reader::new(bytes);
        let version = reader.varint("version")?;
        if !(VERSION..=VERSION_WITH_WILLS).contains(&version) {
            return Err(SnapshotError::UnknownVersion(version));
        }
        let topics = read_topics(&mut reader, version)?;
        reader.end("bytes after the end")?;
        // What was let in is what the fold could have made.
        if cfg!(debug_assertions) {
            topics.assert_all_sound();
        }
        Ok(topics)
    }
}

impl Writer<'_> {
    fn numbers(&mut self, numbers: &[u64]) {
        self.chunks.put(|out| numbers.iter().for_each(|number| put_varint(out, *number)));
    }

    fn places(&mut self, places: &BTreeMap<Slot, BTreeMap<Box<str>, KeptPlace>>) {
        self.numbers(&[places.values().map(|of_session| of_session.len() as u64).sum()]);
        for (slot, of_session) in places {
            for (filter, kept) in of_session {
                self.chunks.put(|out| {
                    put_varint(out, u64::from(slot.0));
                    put_text(out, filter);
                    put_kept(out, kept);
                });
            }
        }
    }

    /// How many are known, and of each the place and the text.
    fn owners<'a, I: Iterator<Item = Option<&'a Principal>>>(&mut self, all: impl Fn() -> I) {
        self.numbers(&[all().flatten().count() as u64]);
        for (place, owner) in (0..).zip(all()).filter_map(|(place, owner): (u64, _)| Some((place, owner?))) {
            self.chunks.put(|out| {
                put_varint(out, place);
                put_text(out, owner.as_str());
            });
        }
    }

    fn session(&mut self, session: &Session) {
        self.chunks.put(|out| {
            put_text(out, &session.client_id);
            put_varint(out, session.incarnation);
            put_varint(out, u64::from(session.expiry_s));
            put_varint(out, session.detached_at.map_or(0, |at| at.0 + 1));
            put_will(out, session.will());
            put_varint(out, session.subscriptions.len() as u64);
        });
        for subscription in &session.subscriptions {
            self.chunks.put(|out| {
                put_text(out, &subscription.filter);
                out.push(subscription.options);
                put_varint(out, u64::from(subscription.subscription_id));
            });
        }
    }

    fn inbox(&mut self, inbox: &Inbox, bodies: &Bodies<Body>) {
        self.numbers(&[inbox.next_number(), inbox.len() as u64]);
        let mut left = inbox.len();
        for (number, entry) in inbox.entries_from(0) {
            left = left.checked_sub(1).expect("no more entries come than were counted");
            let known = self.bodies.len() as u64;
            let body = *self.bodies.entry(entry.body).or_insert(known);
            self.chunks.put(|out| {
                put_varint(out, number);
                put_varint(out, entry.sequence);
                put_entry(out, entry);
                put_varint(out, body);
                if body == known {
                    let body = bodies.get(entry.body);
                    put_varint(out, body.drop_at.0);
                    put_message(out, &body.message);
                }
            });
        }
        assert_eq!(left, 0, "as many entries are written as were counted");
    }
}

fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    let received = if entry.state == EntryState::Received { RECEIVED_FLAG } else { 0 };
    let ids = entry.subscription_ids.as_ref().map_or(&[][..], |ids| ids);
    put_copy(out, received, entry.qos, entry.retain, ids);
}

fn read_topics(reader: &mut Reader<'_>, version: u64) -> Parsed<Topics> {
    let mut topics = Topics::new(reader.shard("shard")?);
    topics.sequence = reader.varint("sequence")?;
    require(topics.sequence < NUMBER_MAX, "sequence")?;
    let mut bodies: Vec<BodyIndex> = Vec::new();
    for slot in 0..reader.u32("sessions")? {
        match reader.byte("session")? {
            0 => topics.sessions.push(None),
            1 => read_session(reader, Slot(slot), &mut topics, &mut bodies)?,
            _ => return Err(Malformed { what: "session" }),
        }
    }
    read_free(reader, &mut topics)?;
    for _ in 0..reader.varint("origins")? {
        let origin = origin(reader)?;
        require(topics.origins.last().is_none_or(|last| *last < origin), "order of origins")?;
        topics.origins.insert(origin);
    }
    for _ in 0..reader.varint("retained messages")? {
        let message = message(reader)?;
        require(!message.payload().is_empty(), "retained message without payload")?;
        let last = topics.retained.last_key_value();
        require(last.is_none_or(|(last, _)| **last < *message.topic()), "order of retained messages")?;
        topics.retained_bytes += message.body_bytes() as u64;
        topics.retained.insert(message.topic().into(), Kept { message, owner: None });
    }
    for _ in 0..reader.varint("delayed messages")? {
        let id = reader.varint("id of a delayed message")?;
        let at = time(reader, "time of a delayed message")?;
        let is_next = topics.delayed.last_key_value().is_none_or(|(last, _)| *last < id);
        require(is_next && id <= topics.sequence, "id of a delayed message")?;
        topics.delayed.insert(id, (at, Kept { message: message(reader)?, owner: None }));
        topics.timers.insert((at, Timer::Delayed(id)));
    }
    if version != VERSION {
        read_places(reader, &mut topics, version)?;
    }
    if version >= VERSION_WITH_TIME {
        topics.time = time(reader, "time")?;
        require(topics.time > TimeMs(0) || version >= VERSION_WITH_OWNERS, "time")?;
    }
    if version >= VERSION_WITH_OWNERS {
        read_owners(reader, &mut topics)?;
        require(topics.has_owners() || version == VERSION_WITH_WILLS, "no owners")?;
    }
    if version == VERSION_WITH_WILLS {
        read_records_of_wills(reader, &mut topics)?;
    }
    let counts = &mut topics.counts;
    for count in [&mut counts.evicted, &mut counts.dropped_full, &mut counts.dropped_expired, &mut counts.dropped_aged]
    {
        *count = reader.varint("counts")?;
        require(*count < NUMBER_MAX, "counts")?;
    }
    Ok(topics)
}

/// How far subscriptions were read: in a layout without time at least one, or it would be that without places.
fn read_places(reader: &mut Reader<'_>, topics: &mut Topics, version: u64) -> Parsed<()> {
    let count = reader.varint("places")?;
    require(count > 0 || version >= VERSION_WITH_TIME, "places")?;
    let mut last: Option<(Slot, Box<str>)> = None;
    for _ in 0..count {
        let slot = Slot(reader.u32("slot of a place")?);
        let filter: Box<str> = reader.text(0, TEXT_BYTES_MAX, "filter of a place")?.into();
        let kept = kept(reader)?;
        let is_known = topics.session(slot).is_some_and(|session| session.subscription(&filter).is_ok());
        require(is_known, "place of no subscription")?;
        let next = Some((slot, filter));
        require(last < next, "order of places")?;
        let (slot, filter) = next.as_ref().expect("it was just made");
        topics.keep_place(*slot, filter, kept);
        last = next;
    }
    Ok(())
}

/// Whose the sessions, the retained and the delayed messages are: each by its place among all of its kind.
fn read_owners(reader: &mut Reader<'_>, topics: &mut Topics) -> Parsed<()> {
    let of_sessions = read_owner_places(reader)?;
    for (place, owner) in of_sessions {
        let place = u32::try_from(place).map_err(|_| Malformed { what: "owner of no session" })?;
        let known = topics.sessions.get(place).is_some_and(Option::is_some);
        require(known, "owner of no session")?;
        topics.sessions[place].as_mut().expect("it was just looked at").owner = Some(owner);
    }
    let of_retained = read_owner_places(reader)?;
    set_owners(topics.retained.values_mut(), of_retained)?;
    let of_delayed = read_owner_places(reader)?;
    set_owners(topics.delayed.values_mut().map(|(_, kept)| kept), of_delayed)
}

/// Which records brought the wills that did not come with their session: at least one.
fn read_records_of_wills(reader: &mut Reader<'_>, topics: &mut Topics) -> Parsed<()> {
    let count = reader.varint("records of wills")?;
    require(count > 0, "records of wills")?;
    let mut last = None;
    for _ in 0..count {
        let slot = Slot(reader.u32("slot of a will")?);
        require(last < Some(slot), "order of wills")?;
        last = Some(slot);
        let record = reader.varint("record of a will")?;
        let known = topics.session(slot).filter(|session| session.will.is_some());
        let opened = known.ok_or(Malformed { what: "record of no will" })?.incarnation;
        require(opened < record && record <= topics.sequence, "record of a will")?;
        let session = topics.sessions[slot.0].as_mut().expect("it was just looked at");
        session.will.as_mut().expect("it was just looked at").record = record;
    }
    Ok(())
}

/// Pairs of place and owner, the places ascending.
fn read_owner_places(reader: &mut Reader<'_>) -> Parsed<Vec<(u64, Principal)>> {
    let mut all: Vec<(u64, Principal)> = Vec::new();
    for _ in 0..reader.varint("owners")? {
        let place = reader.varint("place of an owner")?;
        require(all.last().is_none_or(|(last, _)| *last < place), "order of owners")?;
        all.push((place, owner(reader)?));
    }
    Ok(all)
}

/// Both ascend, so one walk finds them all.
fn set_owners<'a>(messages: impl Iterator<Item = &'a mut Kept>, owners: Vec<(u64, Principal)>) -> Parsed<()> {
    let mut messages = (0..).zip(messages);
    for (place, owner) in owners {
        let found = messages.find(|(nth, _)| *nth == place);
        let (_, kept): (u64, &mut Kept) = found.ok_or(Malformed { what: "owner of no message" })?;
        kept.owner = Some(owner);
    }
    Ok(())
}

/// The slots of ended sessions: exactly those without a session, in the order in which they will be used.
fn read_free(reader: &mut Reader<'_>, topics: &mut Topics) -> Parsed<()> {
    let empty = topics.sessions.iter().filter(|session| session.is_none()).count();
    let mut seen = HashSet::new();
    for _ in 0..empty {
        let slot = Slot(reader.u32("free slot")?);
        let is_free = topics.sessions.get(slot.0).is_some_and(Option::is_none);
        require(is_free && seen.insert(slot), "free slot")?;
        topics.free.push_back(slot);
    }
    assert_eq!(topics.free.len(), empty, "every slot without a session is free");
    Ok(())
}

fn read_session(reader: &mut Reader<'_>, slot: Slot, topics: &mut Topics, bodies: &mut Vec<BodyIndex>) -> Parsed<()> {
    let client_id: Box<str> = reader.text(0, TEXT_BYTES_MAX, "client id")?.into();
    require(topics.find(&client_id).is_none(), "client id twice")?;
    let incarnation = reader.varint("incarnation")?;
    require(incarnation <= topics.sequence, "incarnation")?;
    let expiry_s = reader.u32("expiry")?;
    let detached_at = reader.varint("time of detachment")?.checked_sub(1).map(TimeMs);
    require(detached_at <= Some(TimeMs::MAX), "time of detachment")?;
    let will = will(reader)?.map(|will| Box::new(KeptWill { will, record: incarnation }));
    let (subscriptions, inbox) = (Vec::new(), Inbox::default());
    let owner = None;
    let session = Session { client_id, owner, incarnation, expiry_s, detached_at, will, subscriptions, inbox };
    let (will_at, ends_at) = (session.will_at(), session.ends_at());
    topics.place(slot, session);
    topics.timers.extend(will_at.map(|at| (at, Timer::Will(slot))));
    topics.timers.extend(ends_at.map(|at| (at, Timer::SessionEnd(slot))));
    for nth in 0..reader.varint("subscriptions")? {
        let filter: Box<str> = reader.text(0, TEXT_BYTES_MAX, "filter")?.into();
        let place = topics.session(slot).map(|session| session.subscription(&filter));
        require(place == Some(Err(nth as usize)), "order of subscriptions")?;
        let options = reader.byte("options")?;
        let subscription_id = reader.u32("subscription id")?;
        topics.subscribe(slot, Subscription { filter, options, subscription_id });
    }
    read_inbox(reader, slot, topics, bodies)
}

fn read_inbox(reader: &mut Reader<'_>, slot: Slot, topics: &mut Topics, bodies: &mut Vec<BodyIndex>) -> Parsed<()> {
    let next = reader.varint("next entry")?;
    require(next < NUMBER_MAX, "next entry")?;
    let mut inbox = Inbox::default();
    for _ in 0..reader.varint("entries")? {
        let number = reader.varint("number of an entry")?;
        // Numbers between entries are those of entries that have left.
        require(number >= inbox.next_number() && number < next, "number of an entry")?;
        let sequence = reader.varint("record of an entry")?;
        let is_later = topics.session(slot).is_some_and(|session| session.incarnation < sequence);
        require(is_later && sequence <= topics.sequence, "record of an entry")?;
        let copy = copy(reader, RECEIVED_FLAG)?;
        let state = if copy.flags == RECEIVED_FLAG { EntryState::Received } else { EntryState::Queued };
        let body = read_body(reader, topics, bodies)?;
        let drop_at = topics.bodies.get(body).drop_at;
        let expires = drop_at != TimeMs(0) && state == EntryState::Queued;
        if expires {
            topics.timers.insert((drop_at, Timer::Entry(slot, number)));
        }
        inbox.skip_to(number);
        let subscription_ids = (!copy.subscription_ids.is_empty()).then(|| Box::new(copy.subscription_ids.into_vec()));
        let entry = Entry { sequence, subscription_ids, body, qos: copy.qos, retain: copy.retain, state, expires };
        inbox.push(entry, topics.bodies.bytes_of(body));
        topics.counts.inbox_messages += 1;
    }
    inbox.skip_to(next);
    assert_eq!(inbox.next_number(), next, "the next entry has the number that was written");
    topics.sessions[slot.0].as_mut().expect("it was just placed").inbox = inbox;
    Ok(())
}

/// The body of an entry: one that came before, or a new one.
fn read_body(reader: &mut Reader<'_>, topics: &mut Topics, bodies: &mut Vec<BodyIndex>) -> Parsed<BodyIndex> {
    let number = reader.varint("number of a body")?;
    if let Some(body) = bodies.get(usize::try_from(number).unwrap_or(usize::MAX)) {
        topics.bodies.retain(*body);
        return Ok(*body);
    }
    require(number == bodies.len() as u64, "number of a body")?;
    let drop_at = time(reader, "time to drop")?;
    let message = message(reader)?;
    let bytes = u32::try_from(message.body_bytes()).map_err(|_| Malformed { what: "size of a body" })?;
    let body = topics.bodies.put(Body { message, drop_at }, bytes, 1);
    bodies.push(body);
    Ok(body)
}

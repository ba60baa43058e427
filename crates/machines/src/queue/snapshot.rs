//! The snapshot of the queues of a shard. The byte diagram is in `docs/formats/queue.md`.
//!
//! Two states are equal exactly when their bytes are: queues are in the order of their indices, messages in that of
//! their numbers, in chunks as memory has them ([`super::packed`]), everything else in its own order. What follows from
//! that (lists by state, timers, counts) is not written. Bodies are not written: they are in the log.

use std::collections::HashMap;

use super::codec;
use super::event::QueueIndex;
use super::ids::{Ids, Remembered};
use super::key::{MessageKey, NUMBER_END};
use super::key_ids::KeyIds;
use super::limits::{
    CRON_BYTES_MAX, ID_BYTES_MAX, QUEUE_NAME_CHARS_MAX, QUEUES_MAX, STANDING_MAX, WHOLE_ID_BYTES_MAX, ZONE_BYTES_MAX,
};
use super::message_table::{Entry, MessageState, NEVER, NO_GROUP, number_at};
use super::packed::{self, CHUNK, Packed};
use super::places::Places;
use super::settings::{Settings, is_queue_name, put_option, read_owner};
use super::standing::{Standing, StandingSettings};
use super::state::{Queue, Queues, Started};
use crate::chunks::Chunks;
use crate::encoding::{Malformed, Parsed, Reader, put_text, put_varint, put_varint_128, require};
use crate::{ShardIndex, TimeMs};

/// Version of the layout; the first thing in the bytes.
const VERSION: u64 = 3;
/// The same with owners. A state that has none is written without them: a state has one form.
const VERSION_WITH_OWNERS: u64 = 4;
/// The largest of the totals of a queue: no queue comes near it, and nothing that is added to it overflows.
const TOTAL_MAX: u64 = u64::MAX >> 1;

/// Bytes that are not a snapshot of the queues of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Made by another version.
    #[error("snapshot layout {0} is unknown; this program reads {VERSION} and {VERSION_WITH_OWNERS}")]
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

/// A time, or zero for never.
fn put_time_or_never(out: &mut Vec<u8>, at: TimeMs) {
    put_varint(out, if at == NEVER { 0 } else { at.0 + 1 });
}

fn time_or_never(reader: &mut Reader<'_>) -> Parsed<TimeMs> {
    match reader.varint("a time")? {
        0 => Ok(NEVER),
        at => known_time(at - 1),
    }
}

fn known_time(at: u64) -> Parsed<TimeMs> {
    require(at <= TimeMs::MAX.0, "a time")?;
    Ok(TimeMs(at))
}

fn time(reader: &mut Reader<'_>) -> Parsed<TimeMs> {
    known_time(reader.varint("a time")?)
}

fn put_standing(out: &mut Vec<u8>, name: &str, Standing { settings, next, last }: &Standing) {
    [name, &settings.cron, &settings.zone].into_iter().for_each(|text| put_text(out, text));
    put_option(out, settings.expiry_ms);
    codec::put_sent(out, &settings.message.as_sent());
    put_option(out, next.map(|next| next.0));
    out.push(u8::from(last.is_some()));
    last.iter().for_each(|key| put_varint_128(out, key.bits()));
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| put_varint(out, *number));
}

impl Queues {
    pub(super) fn write(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut chunks = Chunks::new(sink);
        let version = if self.has_owners() { VERSION_WITH_OWNERS } else { VERSION };
        let put_owner = |out: &mut Vec<u8>, owner: Option<&str>| {
            if version == VERSION_WITH_OWNERS {
                put_text(out, owner.unwrap_or(""));
            }
        };
        chunks.put(|out| {
            put_numbers(out, &[version, u64::from(self.shard.0), self.sequence, self.time.0, self.next]);
            put_varint(out, self.starts.len() as u64);
            for (first, started) in &self.starts {
                put_numbers(out, &[*first, u64::from(started.node), u64::from(started.restart)]);
            }
            put_varint(out, self.queues.len() as u64);
        });
        for queue in &self.queues {
            chunks.put(|out| out.push(u8::from(queue.is_some())));
            let Some(queue) = queue else { continue };
            chunks.put(|out| {
                put_text(out, &queue.name);
                queue.settings.put(out);
                put_owner(out, queue.settings.owner.as_deref());
                put_numbers(out, &[queue.picks, queue.rate_due_us]);
                let mut totals = queue.totals;
                totals.fields().iter().for_each(|total| put_varint(out, **total));
                put_varint(out, queue.ids.texts.len() as u64);
            });
            for (id, Remembered { key, until }) in queue.ids.as_forgotten() {
                chunks.put(|out| {
                    put_time_or_never(out, *until);
                    put_text(out, id);
                    put_varint_128(out, key.bits());
                });
            }
            queue.ids.keys.write(|write| chunks.put(|out| write(out)));
            chunks.put(|out| put_varint(out, queue.standing.len() as u64));
            for (name, standing) in &queue.standing {
                chunks.put(|out| {
                    put_standing(out, name, standing);
                    put_owner(out, standing.settings.owner.as_deref());
                });
            }
            chunks.put(|out| put_varint(out, queue.groups.iter().len() as u64));
            for (key, count, members) in queue.groups.iter() {
                chunks.put(|out| {
                    put_text(out, key);
                    put_varint(out, count);
                });
                members.for_each(|number| chunks.put(|out| put_varint(out, number)));
            }
        }
        let messages = self.messages.each_chunk();
        chunks.put(|out| put_varint(out, messages.len() as u64));
        let mut next = 0;
        for (index, entries) in messages {
            chunks.put(|out| {
                put_varint(out, index - next);
                packed::put(out, &entries, false);
            });
            next = index + 1;
        }
        chunks.put(|out| put_varint(out, self.finished.len() as u64));
        for (at, number) in &self.finished {
            chunks.put(|out| put_numbers(out, &[at.0, *number]));
        }
        chunks.flush();
    }

    pub(super) fn read(body: &[u8]) -> Result<Queues, SnapshotError> {
        let mut reader = Reader::new(body);
        let reader = &mut reader;
        let version = reader.varint("the layout")?;
        let owners = version == VERSION_WITH_OWNERS;
        if version != VERSION && !owners {
            return Err(SnapshotError::UnknownVersion(version));
        }
        let shard = reader.shard("the shard")?;
        require(shard.0 <= u16::from(u8::MAX), "the shard")?;
        let mut state = Queues::empty(ShardIndex(shard.0));
        (state.sequence, state.time) = (reader.varint("the sequence")?, time(reader)?);
        state.next = reader.varint("the next number")?;
        require((1..=NUMBER_END).contains(&state.next), "the next number")?;
        state.read_starts(reader)?;
        let mut grouped = Grouped::new();
        state.read_queues(reader, owners, &mut grouped)?;
        require(state.has_owners() == owners, "owners are written if there are any")?;
        let finished = state.read_messages(reader, &mut grouped)?;
        require(grouped.is_empty(), "a group has messages that are not there")?;
        state.read_finished(reader, finished)?;
        reader.end("bytes behind the state")?;
        Ok(state)
    }

    fn read_starts(&mut self, reader: &mut Reader<'_>) -> Parsed<()> {
        for _ in 0..reader.varint("a count of starts")? {
            let first = reader.varint("a number")?;
            let fits = self.starts.last_key_value().is_none_or(|(before, _)| *before < first) && first <= self.next;
            require(fits, "starts are in order")?;
            let small = |value: u64| u16::try_from(value).map_err(|_| Malformed { what: "a start" });
            let (node, restart) = (small(reader.varint("a node")?)?, small(reader.varint("a restart")?)?);
            self.starts.insert(first, Started { node, restart });
        }
        Ok(())
    }

    fn read_queues(&mut self, reader: &mut Reader<'_>, owners: bool, grouped: &mut Grouped) -> Parsed<()> {
        let count = reader.varint("a count of queues")?;
        require(count <= QUEUES_MAX as u64, "a count of queues")?;
        for index in 0..count as u32 {
            if !super::settings::flag(reader, "whether there is a queue")? {
                require(u64::from(index) + 1 < count, "the last queue is there")?;
                self.queues.push(None);
                continue;
            }
            let name = reader.text(1, QUEUE_NAME_CHARS_MAX, "a name")?;
            let mut settings = Settings::read(reader)?;
            settings.owner = if owners { read_owner(reader)? } else { None };
            require(is_queue_name(name) && settings.check(name).is_ok(), "a queue has a name and settings")?;
            let mut queue = Queue::new(name, settings);
            (queue.picks, queue.rate_due_us) = (reader.varint("picks")?, reader.varint("the rate")?);
            for total in queue.totals.fields() {
                *total = reader.varint("a total")?;
                require(*total <= TOTAL_MAX, "a total")?;
            }
            let known = self.names.insert(name.into(), QueueIndex(index));
            require(known.is_none(), "names of queues differ")?;
            self.queues.push(Some(queue));
            self.enter_owner(QueueIndex(index));
            self.read_ids(reader, QueueIndex(index))?;
            self.read_standing(reader, owners, QueueIndex(index))?;
            for _ in 0..reader.varint("a count of groups")? {
                let key = reader.text(1, ID_BYTES_MAX, "an ordering key")?;
                require(
                    self.queue(QueueIndex(index)).groups.last_key().is_none_or(|before| before < key),
                    "groups are in order",
                )?;
                let members = reader.varint("a count of members")?;
                require(members > 0, "a group has members")?;
                let mut before = 0;
                for _ in 0..members {
                    let number = reader.varint("a number")?;
                    require(number < self.next, "a group has messages that were taken")?;
                    require(number > before, "members of a group are in order")?;
                    let (slot, _) = self.change_groups(QueueIndex(index), |groups| groups.add(key, number));
                    require(grouped.insert(number, (QueueIndex(index), slot)).is_none(), "a message has one group")?;
                    before = number;
                }
            }
        }
        Ok(())
    }

    fn read_standing(&mut self, reader: &mut Reader<'_>, owners: bool, index: QueueIndex) -> Parsed<()> {
        for _ in 0..reader.varint("a count of schedules")? {
            require(self.standing_count() < STANDING_MAX, "a count of schedules")?;
            let name = reader.text(1, QUEUE_NAME_CHARS_MAX, "a schedule")?;
            let standing = self.queue(index).standing.last_key_value();
            require(standing.is_none_or(|(before, _)| **before < *name), "schedules are in order")?;
            let mut settings = StandingSettings {
                cron: reader.text(1, CRON_BYTES_MAX, "cron")?.into(),
                zone: reader.text(1, ZONE_BYTES_MAX, "a zone")?.into(),
                expiry_ms: super::settings::option(reader, "an expiry")?,
                message: codec::sent(reader)?.to_message(),
                owner: None,
            };
            require(settings.check(name).is_ok(), "a schedule has a name, texts and a message")?;
            let next = codec::optional_time(reader)?;
            let last = match super::settings::flag(reader, "whether it has fired")? {
                true => Some(MessageKey::from_bits(reader.varint_128("a key")?)),
                false => None,
            };
            settings.owner = if owners { read_owner(reader)? } else { None };
            self.put_standing(index, name, Standing { settings, next, last });
        }
        Ok(())
    }

    fn read_ids(&mut self, reader: &mut Reader<'_>, index: QueueIndex) -> Parsed<()> {
        let (mut ids, mut before) = (Ids::default(), None);
        for _ in 0..reader.varint("a count of ids")? {
            let until = time_or_never(reader)?;
            let id = reader.text(1, WHOLE_ID_BYTES_MAX, "an id")?;
            let key = MessageKey::from_bits(reader.varint_128("a key")?);
            require(before.is_none_or(|before| before < (until, id)), "ids are in order")?;
            let known = ids.texts.insert(id.into(), Remembered { key, until });
            require(known.is_none(), "an id is remembered once")?;
            before = Some((until, id));
        }
        ids.keys = KeyIds::read(reader)?;
        self.read_ids_of(index, ids);
        Ok(())
    }

    /// Returns how many of them are gone, and only their trails are left.
    fn read_messages(&mut self, reader: &mut Reader<'_>, grouped: &mut Grouped) -> Parsed<usize> {
        let (mut next, mut finished, mut places) = (0u64, 0, Places::default());
        for _ in 0..reader.varint("a count of chunks")? {
            let step = reader.varint("a chunk")?;
            let index = next.checked_add(step).filter(|index| *index <= NUMBER_END / CHUNK as u64);
            let index = index.ok_or(Malformed { what: "a chunk" })?;
            let bytes = reader.rest();
            let mut entries = packed::read(reader, false)?;
            let bytes = &bytes[..bytes.len() - reader.rest().len()];
            let mut has_groups = false;
            let numbered = entries.iter_mut().enumerate();
            for (place, entry) in numbered.filter_map(|(place, entry)| Some((place, entry.as_mut()?))) {
                let number = number_at(index, place);
                require(number > 0 && number < self.next, "a message was taken")?;
                require(self.get_queue(entry.queue).is_some(), "a message's queue is there")?;
                if entry.state.is_finished() {
                    finished += 1;
                    continue;
                }
                entry.group = self.read_live(number, entry, grouped)?;
                has_groups |= entry.group != NO_GROUP;
                places.insert(number, entry.body);
            }
            let packed = if has_groups { Packed::of(&entries) } else { Packed::written(bytes, &entries) };
            self.messages.push_packed(index, packed);
            next = index + 1;
        }
        self.places = places.into_sets();
        Ok(finished)
    }

    /// Takes in a message that is not gone. Returns its group.
    fn read_live(&mut self, number: u64, entry: &Entry, grouped: &mut Grouped) -> Parsed<u32> {
        let mut group = NO_GROUP;
        let grouped = if grouped.is_empty() { None } else { grouped.remove(&number) };
        match grouped {
            Some((queue, slot)) => {
                require(queue == entry.queue, "a message's group is of its queue")?;
                group = slot;
                let is_first = self.queue(queue).groups.is_first(slot, number);
                let fits = match entry.state {
                    MessageState::Ready | MessageState::Leased => is_first,
                    MessageState::Held => !is_first,
                    _ => true,
                };
                require(fits, "the first of a group goes first")?;
            }
            None => require(entry.state != MessageState::Held, "who is held is in a group")?,
        }
        self.live_bytes += u64::from(entry.bytes);
        self.queue_mut(entry.queue).members.insert(number);
        self.change_owned(entry.queue, |owned| owned.messages += 1);
        self.enter(number, entry);
        Ok(group)
    }

    fn read_finished(&mut self, reader: &mut Reader<'_>, finished: usize) -> Parsed<()> {
        let mut listed = std::collections::BTreeSet::new();
        for _ in 0..reader.varint("a count of finished messages")? {
            let (at, number) = (time(reader)?, reader.varint("a number")?);
            let is_finished = self.messages.get(number).is_some_and(|entry| entry.state.is_finished());
            let in_order = self.finished.back().is_none_or(|(before, _)| *before <= at);
            require(is_finished && in_order && listed.insert(number), "finished messages are listed once")?;
            self.finished.push_back((at, number));
        }
        require(finished == self.finished.len(), "finished messages are listed")
    }
}

/// The queue and the group of each message that has one.
type Grouped = HashMap<u64, (QueueIndex, u32)>;

impl Ids {
    /// Those that are texts, in the order in which they are forgotten.
    fn as_forgotten(&self) -> Vec<(&str, &Remembered)> {
        let mut ids: Vec<_> = self.texts.iter().map(|(id, remembered)| (&**id, remembered)).collect();
        ids.sort_unstable_by_key(|(id, remembered)| (remembered.until, *id));
        ids
    }
}

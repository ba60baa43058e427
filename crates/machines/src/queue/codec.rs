//! Encodes and decodes events: a tag, the time, then the fields in order, as in `docs/formats/queue.md`. One encoding
//! per event: decoding accepts exactly what encoding produces.

use super::event::{Event, Moved, QueueIndex, Sent, Touched, Verdict};
use super::key::NUMBER_END;
use super::limits::{
    BATCH_MESSAGES_MAX, CONSUMER_BYTES_MAX, CRON_BYTES_MAX, ID_BYTES_MAX, NOTE_BYTES_MAX, OWNER_BYTES_MAX, PRIORITIES,
    PURGED_PER_RECORD, QUEUE_NAME_CHARS_MAX, REASON_BYTES_MAX, REFERENCE_BYTES_MAX, VIA_BYTES_MAX, WHOLE_ID_BYTES_MAX,
    ZONE_BYTES_MAX,
};
use super::settings::{Settings, is_queue_name, option, put_option};
use super::via::{Via, is_via};
use crate::encoding::{Malformed, Parsed, Reader, put_bytes, put_text, put_varint, require};
use crate::{RecordPosition, TimeMs};

mod tag {
    pub const STARTED: u8 = 1;
    pub const QUEUE_SET: u8 = 2;
    pub const QUEUE_DELETED: u8 = 3;
    pub const SENT: u8 = 4;
    pub const LEASED: u8 = 5;
    pub const ACKNOWLEDGED: u8 = 6;
    pub const EXTENDED: u8 = 7;
    pub const REJECTED: u8 = 8;
    pub const TIME_PASSED: u8 = 9;
    pub const PURGED: u8 = 10;
    pub const CANCELLED: u8 = 11;
    pub const RESCHEDULED: u8 = 12;
    pub const REDRIVEN: u8 = 13;
    pub const MOVED: u8 = 14;
    pub const RETURNED: u8 = 15;
    pub const HANDED: u8 = 16;
    pub const NOTED: u8 = 17;
    pub const STANDING_SET: u8 = 18;
    pub const STANDING_REMOVED: u8 = 19;
    pub const FIRED: u8 = 20;
    pub const ROUTED: u8 = 21;
}

const ID_FLAG: u8 = 1;
const KEY_FLAG: u8 = 2;
const DELAY_FLAG: u8 = 4;
const EXPIRY_FLAG: u8 = 8;
const FLAGS: u8 = ID_FLAG | KEY_FLAG | DELAY_FLAG | EXPIRY_FLAG;
/// The priority stands above the flags.
const PRIORITY_SHIFT: u32 = 4;
/// In its place, of a message that links have brought: the priority is the next byte, and the way is behind the times.
const HAS_VIA: u8 = 15;
/// Likewise, of one that a walk has brought with what its first sender called it, which is behind the way.
const HAS_ORIGIN: u8 = 14;

const _: () = assert!(PRIORITIES <= HAS_ORIGIN as usize && (HAS_VIA as u32) << PRIORITY_SHIFT <= u8::MAX as u32);

/// Bytes that are not an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// An event of a newer program.
    #[error("event tag {0} is unknown: a newer program wrote it")]
    UnknownTag(u8),
    /// Not of the expected form.
    #[error("event is damaged: {0}")]
    Damaged(&'static str),
}

impl From<Malformed> for EventError {
    fn from(malformed: Malformed) -> EventError {
        EventError::Damaged(malformed.what)
    }
}

fn head(out: &mut Vec<u8>, tag: u8, at: TimeMs) {
    out.push(tag);
    put_varint(out, at.0);
}

fn put_touched(out: &mut Vec<u8>, touched: &Touched) {
    put_varint(out, touched.number);
    put_varint(out, touched.before.0);
}

fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_varint(out, items.len() as u64);
    items.iter().for_each(|item| put(out, item));
}

pub(super) fn put_sent(out: &mut Vec<u8>, sent: &Sent<'_>) {
    let flag = |there: bool, flag: u8| if there { flag } else { 0 };
    let flags = flag(sent.id.is_some(), ID_FLAG)
        | flag(sent.ordering_key.is_some(), KEY_FLAG)
        | flag(sent.visible_at.is_some(), DELAY_FLAG)
        | flag(sent.expires_at.is_some(), EXPIRY_FLAG);
    match (sent.via, sent.origin_id) {
        (None, _) => out.push(sent.priority << PRIORITY_SHIFT | flags),
        (Some(_), None) => out.extend([HAS_VIA << PRIORITY_SHIFT | flags, sent.priority]),
        (Some(_), Some(_)) => out.extend([HAS_ORIGIN << PRIORITY_SHIFT | flags, sent.priority]),
    }
    [sent.id, sent.ordering_key].into_iter().flatten().for_each(|text| put_text(out, text));
    [sent.visible_at, sent.expires_at].into_iter().flatten().for_each(|at| put_varint(out, at.0));
    if let Some(Via { before, node, queue }) = sent.via {
        put_text(out, before);
        put_varint(out, u64::from(node));
        put_text(out, queue);
        sent.origin_id.iter().for_each(|id| put_text(out, id));
    }
    put_bytes(out, sent.attributes);
    put_bytes(out, sent.body);
}

fn time(reader: &mut Reader<'_>, what: &'static str) -> Parsed<TimeMs> {
    let at = TimeMs(reader.varint(what)?);
    require(at <= TimeMs::MAX, what)?;
    Ok(at)
}

pub(super) fn optional_time(reader: &mut Reader<'_>) -> Parsed<Option<TimeMs>> {
    let at = option(reader, "a time")?.map(TimeMs);
    require(at.is_none_or(|at| at <= TimeMs::MAX), "a time")?;
    Ok(at)
}

/// At the end of a record, who made something; nothing if nobody did, as in records of before there were owners.
fn put_owner(out: &mut Vec<u8>, owner: Option<&str>) {
    owner.iter().for_each(|owner| put_text(out, owner));
}

/// Reads what [`put_owner`] wrote.
fn owner<'a>(reader: &mut Reader<'a>) -> Parsed<Option<&'a str>> {
    if reader.is_empty() { Ok(None) } else { reader.text(1, OWNER_BYTES_MAX, "an owner").map(Some) }
}

fn number(reader: &mut Reader<'_>) -> Parsed<u64> {
    let number = reader.varint("the number of a message")?;
    require(number < NUMBER_END, "the number of a message")?;
    Ok(number)
}

fn queue(reader: &mut Reader<'_>) -> Parsed<QueueIndex> {
    reader.u32("a queue").map(QueueIndex)
}

/// An id at the end of a record, if there is one.
fn last_id<'a>(reader: &mut Reader<'a>) -> Parsed<Option<&'a str>> {
    match reader.is_empty() {
        true => Ok(None),
        false => reader.text(1, WHOLE_ID_BYTES_MAX, "an id").map(Some),
    }
}

fn touched(reader: &mut Reader<'_>) -> Parsed<Touched> {
    let number = number(reader)?;
    Ok(Touched { number, before: RecordPosition(reader.varint("a position")?) })
}

/// Reads 1 to `most` items; takes memory for no more of them than there are bytes.
fn list<'a, T>(
    reader: &mut Reader<'a>,
    most: usize,
    mut item: impl FnMut(&mut Reader<'a>) -> Parsed<T>,
) -> Parsed<Vec<T>> {
    let count = reader.varint("a count")?;
    require((1..=most as u64).contains(&count), "a count")?;
    let mut items = Vec::with_capacity(reader.rest().len().min(count as usize));
    for _ in 0..count {
        items.push(item(reader)?);
    }
    Ok(items)
}

pub(super) fn sent<'a>(reader: &mut Reader<'a>) -> Parsed<Sent<'a>> {
    let byte = reader.byte("flags")?;
    let (flags, above) = (byte & FLAGS, byte >> PRIORITY_SHIFT);
    let has_origin = above == HAS_ORIGIN;
    let has_via = above == HAS_VIA || has_origin;
    let priority = if has_via { reader.byte("a priority")? } else { above };
    require(usize::from(priority) < PRIORITIES, "a priority")?;
    let text = |flag: u8, most: usize, reader: &mut Reader<'a>| match flags & flag {
        0 => Ok(None),
        _ => reader.text(1, most, "an id").map(Some),
    };
    let id = text(ID_FLAG, WHOLE_ID_BYTES_MAX, reader)?;
    let ordering_key = text(KEY_FLAG, ID_BYTES_MAX, reader)?;
    let visible_at = if flags & DELAY_FLAG == 0 { None } else { Some(time(reader, "a time")?) };
    let expires_at = if flags & EXPIRY_FLAG == 0 { None } else { Some(time(reader, "a time")?) };
    let via = if has_via { Some(via(reader)?) } else { None };
    let origin_id = if has_origin { Some(reader.text(1, WHOLE_ID_BYTES_MAX, "an id")?) } else { None };
    let (attributes, body) = (reader.bytes("attributes")?, reader.bytes("a body")?);
    Ok(Sent { id, ordering_key, priority, visible_at, expires_at, via, origin_id, attributes, body })
}

fn via<'a>(reader: &mut Reader<'a>) -> Parsed<Via<'a>> {
    let before = reader.text(0, VIA_BYTES_MAX, "the way of a message")?;
    require(before.is_empty() || is_via(before), "the way of a message")?;
    let node = node(reader)?;
    let queue = reader.text(1, QUEUE_NAME_CHARS_MAX, "a queue")?;
    require(is_queue_name(queue), "a queue")?;
    Ok(Via { before, node, queue })
}

fn node(reader: &mut Reader<'_>) -> Parsed<u16> {
    u16::try_from(reader.varint("a node")?).map_err(|_| Malformed { what: "a node" })
}

impl<'a> Event<'a> {
    /// Appends the event's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Event::Started { at, node } => {
                head(out, tag::STARTED, *at);
                put_varint(out, u64::from(*node));
            }
            Event::QueueSet { at, name, settings } => {
                head(out, tag::QUEUE_SET, *at);
                put_text(out, name);
                settings.put(out);
                put_owner(out, settings.owner.as_deref());
            }
            Event::QueueDeleted { at, queue } => {
                head(out, tag::QUEUE_DELETED, *at);
                put_varint(out, u64::from(queue.0));
            }
            Event::Sent { at, queue, first, messages } => {
                head(out, tag::SENT, *at);
                put_varint(out, u64::from(queue.0));
                put_varint(out, *first);
                put_list(out, messages, put_sent);
            }
            Event::Leased { at, queue, until, consumer, messages } => {
                head(out, tag::LEASED, *at);
                put_varint(out, u64::from(queue.0));
                put_varint(out, until.0);
                put_text(out, consumer);
                put_list(out, messages, put_touched);
            }
            Event::Acknowledged { at, queue, messages } => {
                head(out, tag::ACKNOWLEDGED, *at);
                put_varint(out, u64::from(queue.0));
                put_list(out, messages, put_touched);
            }
            Event::Extended { at, queue, until, messages } => {
                head(out, tag::EXTENDED, *at);
                put_varint(out, u64::from(queue.0));
                put_varint(out, until.0);
                put_list(out, messages, put_touched);
            }
            Event::Rejected { at, queue, reason, messages } => {
                head(out, tag::REJECTED, *at);
                put_varint(out, u64::from(queue.0));
                put_text(out, reason);
                put_list(out, messages, |out, (touched, verdict)| {
                    put_touched(out, touched);
                    let again = match verdict {
                        Verdict::Again(at) => Some(at.0),
                        Verdict::Dead => None,
                    };
                    put_option(out, again);
                });
            }
            Event::TimePassed { at } => head(out, tag::TIME_PASSED, *at),
            Event::Purged { at, queue, numbers } => {
                head(out, tag::PURGED, *at);
                put_varint(out, u64::from(queue.0));
                put_list(out, numbers, |out, number| put_varint(out, *number));
            }
            Event::Cancelled { at, message, id } => {
                head(out, tag::CANCELLED, *at);
                put_touched(out, message);
                id.iter().for_each(|id| put_text(out, id));
            }
            Event::Rescheduled { at, visible_at, message, id } => {
                head(out, tag::RESCHEDULED, *at);
                put_varint(out, visible_at.0);
                put_touched(out, message);
                id.iter().for_each(|id| put_text(out, id));
            }
            Event::Redriven { at, from, to, name, messages } => {
                head(out, tag::REDRIVEN, *at);
                put_varint(out, u64::from(from.0));
                put_varint(out, u64::from(to.0));
                put_list(out, messages, put_touched);
                // At the end: an index is used again when its queue is deleted, and a trail is read later.
                name.iter().for_each(|name| put_text(out, name));
            }
            Event::Returned { at, queue, visible_at, reason, messages } => {
                head(out, tag::RETURNED, *at);
                put_varint(out, u64::from(queue.0));
                put_varint(out, visible_at.0);
                put_text(out, reason);
                put_list(out, messages, put_touched);
            }
            Event::Handed { at, queue, to, messages } => {
                head(out, tag::HANDED, *at);
                put_varint(out, u64::from(queue.0));
                put_text(out, to);
                put_list(out, messages, |out, (touched, reference)| {
                    put_touched(out, touched);
                    put_text(out, reference);
                });
            }
            Event::Noted { at, message, text } => {
                head(out, tag::NOTED, *at);
                put_touched(out, message);
                put_text(out, text);
            }
            Event::StandingSet { at, queue, name, cron, zone, expiry_ms, next, message, owner } => {
                head(out, tag::STANDING_SET, *at);
                put_varint(out, u64::from(queue.0));
                [name, cron, zone].into_iter().for_each(|text| put_text(out, text));
                put_option(out, *expiry_ms);
                put_varint(out, next.0);
                put_sent(out, message);
                put_owner(out, *owner);
            }
            Event::StandingRemoved { at, queue, name } => {
                head(out, tag::STANDING_REMOVED, *at);
                put_varint(out, u64::from(queue.0));
                put_text(out, name);
            }
            Event::Fired { at, queue, name, due, next, first, message } => {
                head(out, tag::FIRED, *at);
                put_varint(out, u64::from(queue.0));
                put_text(out, name);
                put_varint(out, due.0);
                put_option(out, next.map(|next| next.0));
                put_varint(out, *first);
                put_sent(out, message);
            }
            Event::Routed { at, from, to, by, messages } => {
                head(out, tag::ROUTED, *at);
                put_varint(out, u64::from(from.0));
                [to, by].into_iter().for_each(|text| put_text(out, text));
                put_list(out, messages, put_touched);
            }
            Event::Moved { at, messages } => {
                head(out, tag::MOVED, *at);
                put_list(out, messages, |out, moved| {
                    put_touched(out, &moved.touched);
                    put_sent(out, &moved.message);
                });
            }
        }
    }

    /// Reads one event from exactly these bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Event<'a>, EventError> {
        let mut reader = Reader::new(bytes);
        let reader = &mut reader;
        let (tag, at) = (reader.byte("tag")?, time(reader, "the time")?);
        let most = BATCH_MESSAGES_MAX;
        let event = match tag {
            tag::STARTED => Event::Started { at, node: node(reader)? },
            tag::QUEUE_SET => {
                let name = reader.text(1, QUEUE_NAME_CHARS_MAX, "a name")?;
                let settings = Settings::read(reader)?;
                Event::QueueSet { at, name, settings: Settings { owner: owner(reader)?.map(Into::into), ..settings } }
            }
            tag::QUEUE_DELETED => Event::QueueDeleted { at, queue: queue(reader)? },
            tag::SENT => {
                let (queue, first) = (queue(reader)?, number(reader)?);
                Event::Sent { at, queue, first, messages: list(reader, most, sent)? }
            }
            tag::LEASED => {
                let (queue, until) = (queue(reader)?, time(reader, "the end of a lease")?);
                let consumer = reader.text(0, CONSUMER_BYTES_MAX, "a consumer")?;
                Event::Leased { at, queue, until, consumer, messages: list(reader, most, touched)? }
            }
            tag::ACKNOWLEDGED => {
                Event::Acknowledged { at, queue: queue(reader)?, messages: list(reader, most, touched)? }
            }
            tag::EXTENDED => {
                let (queue, until) = (queue(reader)?, time(reader, "the end of a lease")?);
                Event::Extended { at, queue, until, messages: list(reader, most, touched)? }
            }
            tag::REJECTED => {
                let (queue, reason) = (queue(reader)?, reader.text(0, REASON_BYTES_MAX, "a reason")?);
                let messages = list(reader, most, |reader| {
                    let touched = touched(reader)?;
                    let again = optional_time(reader)?;
                    Ok((touched, again.map_or(Verdict::Dead, Verdict::Again)))
                })?;
                Event::Rejected { at, queue, reason, messages }
            }
            tag::TIME_PASSED => Event::TimePassed { at },
            tag::PURGED => {
                Event::Purged { at, queue: queue(reader)?, numbers: list(reader, PURGED_PER_RECORD, number)? }
            }
            tag::CANCELLED => Event::Cancelled { at, message: touched(reader)?, id: last_id(reader)? },
            tag::RESCHEDULED => {
                let visible_at = time(reader, "a time")?;
                Event::Rescheduled { at, visible_at, message: touched(reader)?, id: last_id(reader)? }
            }
            tag::REDRIVEN => {
                let (from, to) = (queue(reader)?, queue(reader)?);
                let messages = list(reader, most, touched)?;
                let name = match reader.is_empty() {
                    true => None,
                    false => Some(reader.text(1, QUEUE_NAME_CHARS_MAX, "a queue")?),
                };
                Event::Redriven { at, from, to, name, messages }
            }
            tag::RETURNED => {
                let (queue, visible_at) = (queue(reader)?, time(reader, "a time")?);
                let reason = reader.text(0, REASON_BYTES_MAX, "a reason")?;
                Event::Returned { at, queue, visible_at, reason, messages: list(reader, most, touched)? }
            }
            tag::HANDED => {
                let (queue, to) = (queue(reader)?, reader.text(0, CONSUMER_BYTES_MAX, "a system")?);
                let messages = list(reader, most, |reader| {
                    Ok((touched(reader)?, reader.text(0, REFERENCE_BYTES_MAX, "a reference")?))
                })?;
                Event::Handed { at, queue, to, messages }
            }
            tag::NOTED => {
                Event::Noted { at, message: touched(reader)?, text: reader.text(1, NOTE_BYTES_MAX, "a note")? }
            }
            tag::STANDING_SET => Event::StandingSet {
                at,
                queue: queue(reader)?,
                name: reader.text(1, QUEUE_NAME_CHARS_MAX, "a schedule")?,
                cron: reader.text(1, CRON_BYTES_MAX, "cron")?,
                zone: reader.text(1, ZONE_BYTES_MAX, "a zone")?,
                expiry_ms: option(reader, "an expiry")?,
                next: time(reader, "a time")?,
                message: sent(reader)?,
                owner: owner(reader)?,
            },
            tag::STANDING_REMOVED => Event::StandingRemoved {
                at,
                queue: queue(reader)?,
                name: reader.text(1, QUEUE_NAME_CHARS_MAX, "a schedule")?,
            },
            tag::FIRED => Event::Fired {
                at,
                queue: queue(reader)?,
                name: reader.text(1, QUEUE_NAME_CHARS_MAX, "a schedule")?,
                due: time(reader, "a time")?,
                next: optional_time(reader)?,
                first: number(reader)?,
                message: sent(reader)?,
            },
            tag::ROUTED => Event::Routed {
                at,
                from: queue(reader)?,
                to: reader.text(1, QUEUE_NAME_CHARS_MAX, "a queue")?,
                by: reader.text(0, CONSUMER_BYTES_MAX, "who routes")?,
                messages: list(reader, most, touched)?,
            },
            tag::MOVED => {
                let messages =
                    list(reader, most, |reader| Ok(Moved { touched: touched(reader)?, message: sent(reader)? }))?;
                Event::Moved { at, messages }
            }
            other => return Err(EventError::UnknownTag(other)),
        };
        reader.end("bytes behind the event")?;
        Ok(event)
    }
}

//! Encodes and decodes events: a tag, then the fields in order, as in `docs/formats/topics.md`. One encoding per event:
//! decoding accepts exactly what encoding produces.

use std::sync::Arc;

use super::command::{DropReason, KeptPlace, Origin, PLACE_BYTES_MAX, Receiver, Slot, Will};
use super::event::Event;
use super::message::{Message, MessageMeta};
use super::principal::{PRINCIPAL_BYTES_MAX, Principal};
use crate::TimeMs;
use crate::encoding::{Malformed, Parsed, Reader, put_bytes, put_text, put_varint, require};

mod tag {
    pub const SESSION_OPENED: u8 = 1;
    pub const SESSION_ATTACHED: u8 = 2;
    pub const SESSION_DETACHED: u8 = 3;
    pub const SESSION_ENDED: u8 = 4;
    pub const WILL_CLEARED: u8 = 5;
    pub const SUBSCRIBED: u8 = 6;
    pub const UNSUBSCRIBED: u8 = 7;
    pub const PUBLISHED: u8 = 8;
    pub const ACKNOWLEDGED: u8 = 9;
    pub const RECEIVED: u8 = 10;
    pub const DROPPED: u8 = 11;
    pub const ORIGIN_FORGOTTEN: u8 = 12;
    pub const ORIGINS_FORGOTTEN: u8 = 13;
    pub const RETAINED: u8 = 14;
    pub const DELAYED: u8 = 15;
    pub const DELAYED_SENT: u8 = 16;
    pub const PLACE_KEPT: u8 = 17;
    pub const SESSION_OPENED_AT: u8 = 18;
    pub const SESSION_ATTACHED_AT: u8 = 19;
    /// Before one of those that may have an owner.
    pub const OWNED: u8 = 20;
    pub const SESSION_ATTACHED_WITH_WILL: u8 = 21;
}

/// The QoS among the flags of a message or a copy.
const QOS_BITS: u8 = 0b11;
const RETAIN_FLAG: u8 = 1 << 2;
const IDS_FLAG: u8 = 1 << 3;
/// An entry that its receiver has.
pub(super) const RECEIVED_FLAG: u8 = 1 << 4;

const _: () = assert!(QOS_BITS & (RETAIN_FLAG | IDS_FLAG | RECEIVED_FLAG) == 0);
const _: () = assert!(RETAIN_FLAG ^ IDS_FLAG ^ RECEIVED_FLAG == RETAIN_FLAG | IDS_FLAG | RECEIVED_FLAG);

/// Longest text: what two bytes of length in the protocol allow.
pub(super) const TEXT_BYTES_MAX: usize = u16::MAX as usize;

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

impl Event {
    /// Appends the event's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Some(owner) = self.owner() {
            out.push(tag::OWNED);
            put_text(out, owner.as_str());
        }
        match self {
            Event::SessionOpened { at, slot, client_id, expiry_s, will, .. } => {
                head_at(out, (tag::SESSION_OPENED, tag::SESSION_OPENED_AT), *slot, *at);
                put_short(out, client_id);
                put_varint(out, u64::from(*expiry_s));
                put_will(out, will.as_ref());
            }
            Event::SessionAttached { at, slot, expiry_s, will: Some(will), names_will: true, .. } => {
                head(out, tag::SESSION_ATTACHED_WITH_WILL, *slot);
                put_time(out, *at);
                put_varint(out, u64::from(*expiry_s));
                put_the_will(out, will);
            }
            Event::SessionAttached { at, slot, expiry_s, will, names_will, .. } => {
                assert!(!names_will, "a will is named that is not there");
                head_at(out, (tag::SESSION_ATTACHED, tag::SESSION_ATTACHED_AT), *slot, *at);
                put_varint(out, u64::from(*expiry_s));
                put_will(out, will.as_ref());
            }
            Event::SessionDetached { slot, at, expiry_s, keep_will } => {
                head(out, tag::SESSION_DETACHED, *slot);
                put_time(out, *at);
                put_varint(out, u64::from(*expiry_s));
                out.push(u8::from(*keep_will));
            }
            Event::SessionEnded { slot } => head(out, tag::SESSION_ENDED, *slot),
            Event::WillCleared { slot } => head(out, tag::WILL_CLEARED, *slot),
            Event::Subscribed { slot, filter, options, subscription_id } => {
                head(out, tag::SUBSCRIBED, *slot);
                put_short(out, filter);
                out.push(*options);
                put_varint(out, u64::from(*subscription_id));
            }
            Event::Unsubscribed { slot, filter } => {
                head(out, tag::UNSUBSCRIBED, *slot);
                put_short(out, filter);
            }
            Event::PlaceKept { slot, filter, kept } => {
                head(out, tag::PLACE_KEPT, *slot);
                put_short(out, filter);
                put_kept(out, kept);
            }
            Event::Published { at, message, drop_at, origin, receivers, evicted, dropped } => {
                out.push(tag::PUBLISHED);
                put_time(out, *at);
                put_time(out, *drop_at);
                put_option(out, origin.as_ref(), put_origin);
                put_varint(out, u64::from(*dropped));
                put_varint(out, receivers.len() as u64);
                receivers.iter().for_each(|receiver| put_receiver(out, receiver));
                put_varint(out, evicted.len() as u64);
                evicted.iter().for_each(|count| put_varint(out, u64::from(*count)));
                put_option(out, message.as_deref(), put_message);
            }
            Event::Acknowledged { slot, number } => {
                head(out, tag::ACKNOWLEDGED, *slot);
                put_varint(out, *number);
            }
            Event::Received { slot, number } => {
                head(out, tag::RECEIVED, *slot);
                put_varint(out, *number);
            }
            Event::Dropped { slot, number, reason } => {
                head(out, tag::DROPPED, *slot);
                put_varint(out, *number);
                out.push(match reason {
                    DropReason::Expired => 0,
                    DropReason::Aged => 1,
                });
            }
            Event::OriginForgotten(origin) => {
                out.push(tag::ORIGIN_FORGOTTEN);
                put_origin(out, origin);
            }
            Event::OriginsForgotten { shard, incarnation } => {
                out.push(tag::ORIGINS_FORGOTTEN);
                put_varint(out, u64::from(*shard));
                put_varint(out, *incarnation);
            }
            Event::Retained { message, .. } => {
                out.push(tag::RETAINED);
                put_message(out, message);
            }
            Event::Delayed { at, message, origin, .. } => {
                out.push(tag::DELAYED);
                put_time(out, *at);
                put_option(out, origin.as_ref(), put_origin);
                put_message(out, message);
            }
            Event::DelayedSent { id } => {
                out.push(tag::DELAYED_SENT);
                put_varint(out, *id);
            }
        }
    }

    /// Whose that is which it makes, where it says so.
    fn owner(&self) -> Option<&Principal> {
        match self {
            Event::SessionOpened { owner, .. }
            | Event::SessionAttached { owner, .. }
            | Event::Retained { owner, .. }
            | Event::Delayed { owner, .. } => owner.as_ref(),
            _ => None,
        }
    }

    /// Reads one event, which must be all of `bytes`. Takes any bytes.
    pub fn decode(bytes: &[u8]) -> Result<Event, EventError> {
        let mut reader = Reader::new(bytes);
        let mut tag = reader.byte("tag")?;
        let owner = match tag {
            tag::OWNED => Some(owner(&mut reader)?),
            _ => None,
        };
        if owner.is_some() {
            tag = reader.byte("tag")?;
            require(may_be_owned(tag), "owner of what has none")?;
        }
        let event = match tag {
            tag::SESSION_OPENED | tag::SESSION_OPENED_AT => Event::SessionOpened {
                slot: slot(&mut reader)?,
                at: time_if(&mut reader, tag == tag::SESSION_OPENED_AT)?,
                client_id: text(&mut reader, "client id")?,
                owner,
                expiry_s: reader.u32("expiry")?,
                will: will(&mut reader)?,
            },
            tag::SESSION_ATTACHED | tag::SESSION_ATTACHED_AT => Event::SessionAttached {
                slot: slot(&mut reader)?,
                at: time_if(&mut reader, tag == tag::SESSION_ATTACHED_AT)?,
                owner,
                expiry_s: reader.u32("expiry")?,
                will: will(&mut reader)?,
                names_will: false,
            },
            tag::SESSION_ATTACHED_WITH_WILL => Event::SessionAttached {
                slot: slot(&mut reader)?,
                at: time(&mut reader, "time")?,
                owner,
                expiry_s: reader.u32("expiry")?,
                will: Some(the_will(&mut reader)?),
                names_will: true,
            },
            tag::SESSION_DETACHED => Event::SessionDetached {
                slot: slot(&mut reader)?,
                at: time(&mut reader, "time")?,
                expiry_s: reader.u32("expiry")?,
                keep_will: flag(&mut reader, "keep will")?,
            },
            tag::SESSION_ENDED => Event::SessionEnded { slot: slot(&mut reader)? },
            tag::WILL_CLEARED => Event::WillCleared { slot: slot(&mut reader)? },
            tag::SUBSCRIBED => Event::Subscribed {
                slot: slot(&mut reader)?,
                filter: text(&mut reader, "filter")?,
                options: reader.byte("options")?,
                subscription_id: reader.u32("subscription id")?,
            },
            tag::UNSUBSCRIBED => Event::Unsubscribed { slot: slot(&mut reader)?, filter: text(&mut reader, "filter")? },
            tag::PLACE_KEPT => Event::PlaceKept {
                slot: slot(&mut reader)?,
                filter: text(&mut reader, "filter")?,
                kept: kept(&mut reader)?,
            },
            tag::PUBLISHED => Event::Published {
                at: time(&mut reader, "time")?,
                drop_at: time(&mut reader, "time to drop")?,
                origin: option(&mut reader, "origin", origin)?,
                dropped: reader.u32("dropped")?,
                receivers: list(&mut reader, "receivers", receiver)?,
                evicted: list(&mut reader, "evicted", |reader| reader.u32("evicted"))?,
                message: option(&mut reader, "message", message)?,
            },
            tag::ACKNOWLEDGED => Event::Acknowledged { slot: slot(&mut reader)?, number: reader.varint("number")? },
            tag::RECEIVED => Event::Received { slot: slot(&mut reader)?, number: reader.varint("number")? },
            tag::DROPPED => Event::Dropped {
                slot: slot(&mut reader)?,
                number: reader.varint("number")?,
                reason: match reader.byte("reason")? {
                    0 => DropReason::Expired,
                    1 => DropReason::Aged,
                    _ => return Err(EventError::Damaged("reason")),
                },
            },
            tag::ORIGIN_FORGOTTEN => Event::OriginForgotten(origin(&mut reader)?),
            tag::ORIGINS_FORGOTTEN => {
                Event::OriginsForgotten { shard: reader.shard("shard")?.0, incarnation: reader.varint("incarnation")? }
            }
            tag::RETAINED => Event::Retained { message: message(&mut reader)?, owner },
            tag::DELAYED => {
                let at = time(&mut reader, "time")?;
                let origin = option(&mut reader, "origin", origin)?;
                Event::Delayed { at, message: message(&mut reader)?, origin, owner }
            }
            tag::DELAYED_SENT => Event::DelayedSent { id: reader.varint("id")? },
            unknown => return Err(EventError::UnknownTag(unknown)),
        };
        reader.end("end")?;
        Ok(event)
    }
}

fn head(out: &mut Vec<u8>, tag: u8, slot: Slot) {
    out.push(tag);
    put_varint(out, u64::from(slot.0));
}

/// The head of an event that has a time, with the second tag; or as programs wrote it that had none, with the first.
fn head_at(out: &mut Vec<u8>, (without, with): (u8, u8), slot: Slot, at: TimeMs) {
    if at == TimeMs(0) {
        return head(out, without, slot);
    }
    head(out, with, slot);
    put_time(out, at);
}

/// A time that stands behind the slot, above zero; zero if there is none.
fn time_if(reader: &mut Reader<'_>, is_there: bool) -> Parsed<TimeMs> {
    if !is_there {
        return Ok(TimeMs(0));
    }
    let at = time(reader, "time")?;
    require(at > TimeMs(0), "time")?;
    Ok(at)
}

/// Whether events with this tag may have an owner before them.
fn may_be_owned(tag: u8) -> bool {
    let opened = [tag::SESSION_OPENED, tag::SESSION_OPENED_AT];
    let attached = [tag::SESSION_ATTACHED, tag::SESSION_ATTACHED_AT, tag::SESSION_ATTACHED_WITH_WILL];
    opened.contains(&tag) || attached.contains(&tag) || tag == tag::RETAINED || tag == tag::DELAYED
}

pub(super) fn owner(reader: &mut Reader<'_>) -> Parsed<Principal> {
    let text = reader.text(1, PRINCIPAL_BYTES_MAX, "owner")?;
    Principal::from_text(text).ok_or(Malformed { what: "owner" })
}

fn slot(reader: &mut Reader<'_>) -> Parsed<Slot> {
    reader.u32("slot").map(Slot)
}

/// A text that can be read again.
fn put_short(out: &mut Vec<u8>, text: &str) {
    assert!(text.len() <= TEXT_BYTES_MAX, "a text of {} bytes", text.len());
    put_text(out, text);
}

/// A time that can be read again.
fn put_time(out: &mut Vec<u8>, time: TimeMs) {
    assert!(time <= TimeMs::MAX, "a time that no record can carry");
    put_varint(out, time.0);
}

fn text(reader: &mut Reader<'_>, what: &'static str) -> Parsed<Box<str>> {
    reader.text(0, TEXT_BYTES_MAX, what).map(Box::from)
}

pub(super) fn time(reader: &mut Reader<'_>, what: &'static str) -> Parsed<TimeMs> {
    let time = TimeMs(reader.varint(what)?);
    require(time <= TimeMs::MAX, what)?;
    Ok(time)
}

fn flag(reader: &mut Reader<'_>, what: &'static str) -> Parsed<bool> {
    match reader.byte(what)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed { what }),
    }
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn option<T>(
    reader: &mut Reader<'_>,
    what: &'static str,
    read: impl FnOnce(&mut Reader<'_>) -> Parsed<T>,
) -> Parsed<Option<T>> {
    if flag(reader, what)? { read(reader).map(Some) } else { Ok(None) }
}

/// A list with its length before it. Memory grows with the bytes that are there, not with what the length says.
fn list<T>(
    reader: &mut Reader<'_>,
    what: &'static str,
    mut read: impl FnMut(&mut Reader<'_>) -> Parsed<T>,
) -> Parsed<Box<[T]>> {
    let length = reader.varint(what)?;
    let mut items = Vec::new();
    for _ in 0..length {
        items.push(read(reader)?);
    }
    Ok(items.into())
}

pub(super) fn put_origin(out: &mut Vec<u8>, origin: &Origin) {
    put_varint(out, u64::from(origin.shard));
    put_varint(out, origin.incarnation);
    put_varint(out, u64::from(origin.part) << 16 | u64::from(origin.packet_id));
}

pub(super) fn origin(reader: &mut Reader<'_>) -> Parsed<Origin> {
    let shard = reader.shard("origin's shard")?.0;
    let incarnation = reader.varint("origin's session")?;
    let packet = reader.varint("origin's packet id")?;
    let part = u32::try_from(packet >> 16).map_err(|_| Malformed { what: "origin's part" })?;
    Ok(Origin { shard, incarnation, packet_id: packet as u16, part })
}

pub(super) fn put_kept(out: &mut Vec<u8>, kept: &KeptPlace) {
    assert!(kept.place.len() <= PLACE_BYTES_MAX, "a place of {} bytes", kept.place.len());
    put_varint(out, kept.number);
    put_bytes(out, &kept.place);
}

pub(super) fn kept(reader: &mut Reader<'_>) -> Parsed<KeptPlace> {
    let number = reader.varint("number of a place")?;
    let place = reader.bytes("place")?;
    require(place.len() <= PLACE_BYTES_MAX, "place")?;
    Ok(KeptPlace { number, place: place.into() })
}

fn put_receiver(out: &mut Vec<u8>, receiver: &Receiver) {
    put_varint(out, u64::from(receiver.slot.0));
    put_copy(out, 0, receiver.qos, receiver.retain, &receiver.subscription_ids);
}

fn receiver(reader: &mut Reader<'_>) -> Parsed<Receiver> {
    let slot = slot(reader)?;
    let Copy { qos, retain, subscription_ids, .. } = copy(reader, 0)?;
    Ok(Receiver { slot, qos, retain, subscription_ids })
}

/// What is said of one copy of a message.
pub(super) struct Copy {
    pub qos: u8,
    pub retain: bool,
    pub subscription_ids: Box<[u32]>,
    /// The others.
    pub flags: u8,
}

pub(super) fn put_copy(out: &mut Vec<u8>, flags: u8, qos: u8, retain: bool, subscription_ids: &[u32]) {
    assert!((1..=2).contains(&qos), "QoS {qos} needs no inbox");
    let retain = if retain { RETAIN_FLAG } else { 0 };
    let ids = if subscription_ids.is_empty() { 0 } else { IDS_FLAG };
    out.push(flags | qos | retain | ids);
    if !subscription_ids.is_empty() {
        put_varint(out, subscription_ids.len() as u64);
        subscription_ids.iter().for_each(|id| put_varint(out, u64::from(*id)));
    }
}

/// Reads a copy that may have `allowed` among its flags.
pub(super) fn copy(reader: &mut Reader<'_>, allowed: u8) -> Parsed<Copy> {
    let flags = reader.byte("flags of a copy")?;
    let qos = flags & QOS_BITS;
    require((1..=2).contains(&qos) && flags & !(allowed | IDS_FLAG | RETAIN_FLAG | QOS_BITS) == 0, "flags of a copy")?;
    let subscription_ids = match flags & IDS_FLAG {
        0 => Box::default(),
        _ => list(reader, "subscription ids", |reader| reader.u32("subscription id"))?,
    };
    require(flags & IDS_FLAG == 0 || !subscription_ids.is_empty(), "subscription ids")?;
    Ok(Copy { qos, retain: flags & RETAIN_FLAG != 0, subscription_ids, flags: flags & allowed })
}

pub(super) fn put_will(out: &mut Vec<u8>, will: Option<&Will>) {
    put_option(out, will, put_the_will);
}

fn put_the_will(out: &mut Vec<u8>, will: &Will) {
    put_varint(out, u64::from(will.delay_s));
    put_option(out, will.expiry_s.as_ref(), |out, expiry_s| put_varint(out, u64::from(*expiry_s)));
    put_message(out, &will.message);
}

pub(super) fn will(reader: &mut Reader<'_>) -> Parsed<Option<Will>> {
    option(reader, "will", the_will)
}

fn the_will(reader: &mut Reader<'_>) -> Parsed<Will> {
    Ok(Will {
        delay_s: reader.u32("will's delay")?,
        expiry_s: option(reader, "will's expiry", |reader| reader.u32("will's expiry"))?,
        message: message(reader)?,
    })
}

pub(super) fn put_message(out: &mut Vec<u8>, message: &Message) {
    let retain = if message.retain() { RETAIN_FLAG } else { 0 };
    out.push(message.qos() | retain);
    put_option(out, message.expires_at().as_ref(), |out, at| put_time(out, *at));
    put_short(out, message.topic());
    put_bytes(out, message.properties());
    put_bytes(out, message.payload());
}

pub(super) fn message(reader: &mut Reader<'_>) -> Parsed<Arc<Message>> {
    let flags = reader.byte("message's flags")?;
    let qos = flags & QOS_BITS;
    require(qos <= 2 && flags <= (RETAIN_FLAG | QOS_BITS), "message's flags")?;
    let expires_at = option(reader, "message's expiry", |reader| time(reader, "message's expiry"))?;
    let topic = reader.text(0, TEXT_BYTES_MAX, "topic")?;
    let properties = reader.bytes("properties")?;
    let payload = reader.bytes("payload")?;
    let meta = MessageMeta { qos, retain: flags & RETAIN_FLAG != 0, expires_at };
    Ok(Arc::new(Message::new(topic, properties, payload, meta)))
}

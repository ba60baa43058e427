//! What an SMSC sends, from bytes.

use bytes::BytesMut;
use rusmpp::decode::DecodeWithLength;
use rusmpp::pdus::DeliverSm;
use rusmpp::tlvs::{Tlv, TlvValue};
use rusmpp::types::COctetString;
use rusmpp::{Command, CommandId, Pdu};

use crate::address::Address;
use crate::status::Status;

/// Bytes of the longest packet that is read: a `message_payload` has up to 64 KiB.
pub const FRAME_BYTES_MAX: usize = 70_000;
/// Length, command, status and sequence number.
const HEADER_BYTES: usize = 16;

/// Something that an SMSC sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// An answer to a request of ours.
    Response {
        /// Its `command_id`: that of the request with [`RESPONSE`], or `generic_nack`, which is that bit alone.
        command: u32,
        /// The request.
        sequence: u32,
        /// What became of it.
        status: Status,
        /// Of a submission: the id of the message there; else empty.
        message_id: Box<str>,
    },
    /// `enquire_link`.
    Enquire {
        /// Its number.
        sequence: u32,
    },
    /// `unbind`.
    Unbind {
        /// Its number.
        sequence: u32,
    },
    /// `deliver_sm`.
    Deliver {
        /// Its number.
        sequence: u32,
        /// What it has.
        delivered: Box<Delivered>,
    },
    /// A notification that has no answer.
    Notification,
    /// A request that a client does not serve, or one that cannot be read.
    Strange {
        /// Its `command_id`.
        command: u32,
        /// Its number.
        sequence: u32,
        /// What is wrong with it; empty if it can be read.
        why: String,
    },
}

/// A message or a receipt that came with `deliver_sm`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Who sent it.
    pub source: Address,
    /// To whom.
    pub destination: Address,
    /// What it is.
    pub esm_class: u8,
    /// The coding of its text.
    pub data_coding: u8,
    /// Its text, without the header that may stand before it.
    pub text: Vec<u8>,
    /// Which part of a longer message it is.
    pub segment: Option<Segment>,
    /// `receipted_message_id`.
    pub receipted_id: Option<Box<str>>,
    /// `message_state`.
    pub message_state: Option<u8>,
}

/// A part of a longer message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Parts of one message have one reference.
    pub reference: u16,
    /// How many there are.
    pub all: u8,
    /// Which this is, from 1.
    pub number: u8,
}

/// The bytes are no packets, and what follows cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packet says that it has {0} bytes; expected 16 to {FRAME_BYTES_MAX}")]
pub struct NotSmpp(pub u32);

/// The bit of a `command_id` by which it is a response.
pub const RESPONSE: u32 = 0x8000_0000;
/// `submit_sm_resp`.
const SUBMIT_SM_RESP: u32 = RESPONSE | 4;
/// Bytes of an id of a message that are read; the standard has 64.
const ID_BYTES_MAX: usize = 255;

/// Takes the next packet from what was read; `None` if it is not there in full.
pub fn next(read: &mut BytesMut) -> Result<Option<Incoming>, NotSmpp> {
    let Some(head) = read.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let (length, command, sequence) = (number(0), number(4), number(12));
    if !(HEADER_BYTES..=FRAME_BYTES_MAX).contains(&(length as usize)) {
        return Err(NotSmpp(length));
    }
    if read.len() < length as usize {
        return Ok(None);
    }
    // A frame of its own: no field can reach into the next one.
    let mut frame = read.split_to(length as usize);
    if command & RESPONSE != 0 {
        // Whatever is behind the header: the SMSC has the message, and would get it again.
        let message_id = if command == SUBMIT_SM_RESP { id_in(&frame[HEADER_BYTES..]) } else { Box::default() };
        let status = Status(u32::from_be_bytes(frame[8..12].try_into().expect("four bytes")));
        return Ok(Some(Incoming::Response { command, sequence, status, message_id }));
    }
    let mut body = frame.split_off(4);
    let bytes = body.len();
    Ok(Some(match Command::decode(&mut body, bytes) {
        Ok((command, _)) => incoming(command),
        Err(error) => Incoming::Strange { command, sequence, why: error.to_string() },
    }))
}

fn incoming(command: Command) -> Incoming {
    let (sequence, id) = (command.sequence_number(), command.id());
    let strange = |why: &str| Incoming::Strange { command: id.into(), sequence, why: why.to_owned() };
    match (id, command.pdu()) {
        (CommandId::EnquireLink, _) => Incoming::Enquire { sequence },
        (CommandId::Unbind, _) => Incoming::Unbind { sequence },
        (CommandId::DeliverSm, Some(Pdu::DeliverSm(body))) => {
            Incoming::Deliver { sequence, delivered: Box::new(delivered(body)) }
        }
        (CommandId::DeliverSm, _) => strange("it has no body"),
        (CommandId::AlertNotification | CommandId::Outbind, _) => Incoming::Notification,
        _ => strange(""),
    }
}

/// The id of a message at the beginning of a body: up to a NUL, or to its end if an SMSC leaves that out.
fn id_in(body: &[u8]) -> Box<str> {
    let end = body.iter().take(ID_BYTES_MAX).position(|byte| *byte == 0);
    String::from_utf8_lossy(&body[..end.unwrap_or(body.len().min(ID_BYTES_MAX))]).into()
}

fn address(ton: impl Into<u8>, npi: impl Into<u8>, digits: &COctetString<1, 21>) -> Address {
    Address { ton: ton.into(), npi: npi.into(), digits: digits.as_str().into() }
}

fn delivered(body: &DeliverSm) -> Delivered {
    let values = || body.tlvs().iter().filter_map(Tlv::value);
    let payload = values().find_map(|value| match value {
        TlvValue::MessagePayload(payload) => Some(payload.value.as_ref()),
        _ => None,
    });
    let esm_class = u8::from(body.esm_class);
    let whole = payload.unwrap_or(body.short_message().as_ref());
    let (header, text) = if esm_class & 0x40 != 0 { behind_header(whole) } else { (&[][..], whole) };
    Delivered {
        source: address(body.source_addr_ton, body.source_addr_npi, &body.source_addr),
        destination: address(body.dest_addr_ton, body.dest_addr_npi, &body.destination_addr),
        esm_class,
        data_coding: body.data_coding.into(),
        text: text.to_vec(),
        segment: segment_of_header(header).or_else(|| segment_of(values())),
        receipted_id: values().find_map(|value| match value {
            TlvValue::ReceiptedMessageId(id) if !id.is_empty() => Some(id.as_str().into()),
            _ => None,
        }),
        message_state: values().find_map(|value| match value {
            TlvValue::MessageState(state) => Some((*state).into()),
            _ => None,
        }),
    }
}

/// The user data header, and the text behind it. A length that cannot be leaves all as text.
fn behind_header(whole: &[u8]) -> (&[u8], &[u8]) {
    match whole.split_first() {
        Some((length, rest)) if usize::from(*length) <= rest.len() => rest.split_at(usize::from(*length)),
        _ => (&[], whole),
    }
}

/// What a user data header says of parts (3GPP TS 23.040, 9.2.3.24.1 and 9.2.3.24.8).
fn segment_of_header(mut header: &[u8]) -> Option<Segment> {
    while let [id, length, rest @ ..] = header {
        let (value, behind) = rest.split_at_checked(usize::from(*length))?;
        match (id, value) {
            (0, [reference, all, number]) => return segment((*reference).into(), *all, *number),
            (8, [high, low, all, number]) => return segment(u16::from_be_bytes([*high, *low]), *all, *number),
            _ => header = behind,
        }
    }
    None
}

fn segment_of<'a>(values: impl Iterator<Item = &'a TlvValue>) -> Option<Segment> {
    let (mut reference, mut all, mut number) = (None, None, None);
    for value in values {
        match value {
            TlvValue::SarMsgRefNum(of) => reference = Some(*of),
            TlvValue::SarTotalSegments(of) => all = Some(*of),
            TlvValue::SarSegmentSeqnum(of) => number = Some(*of),
            _ => {}
        }
    }
    segment(reference?, all?, number?)
}

fn segment(reference: u16, all: u8, number: u8) -> Option<Segment> {
    (1..=all).contains(&number).then_some(Segment { reference, all, number })
}

#[cfg(test)]
mod tests;

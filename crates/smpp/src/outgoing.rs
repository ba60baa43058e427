//! What a client sends, as bytes.

use bytes::BytesMut;
use rusmpp::encode::Length;
use rusmpp::encode::owned::Encode;
use rusmpp::pdus::{BindTransceiver, DeliverSmResp, SubmitSm};
use rusmpp::tlvs::MessageSubmissionRequestTlvValue as Value;
use rusmpp::types::{EmptyOrFullCOctetString, OctetString};
use rusmpp::values::{InterfaceVersion, ServiceType};
use rusmpp::{Command, CommandId, CommandStatus, Pdu};

use crate::address::Address;
use crate::coding::Coding;
use crate::incoming::RESPONSE;
use crate::parts::Part;
use crate::status::Status;

/// The version that a client says it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 3.4.
    V34,
    /// 5.0.
    V50,
}

/// Who binds. Lengths are the caller's to check: `system_id` 15, `password` 8, `system_type` 12, `address_range` 40.
#[derive(Clone, Debug)]
pub struct Bind {
    /// The account.
    pub system_id: Box<str>,
    /// Its password.
    pub password: Box<str>,
    /// A word that some SMSCs want.
    pub system_type: Box<str>,
    /// What is spoken.
    pub version: Version,
    /// For which addresses messages of phones are wanted; empty for those of the account.
    pub address_range: Box<str>,
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Submit<'a> {
    /// At most 5 characters; empty for the SMSC's own.
    pub service_type: &'a str,
    /// From whom; empty for the SMSC's own.
    pub source: &'a Address,
    /// To whom.
    pub destination: &'a Address,
    /// How the text is written.
    pub coding: Coding,
    /// The text, or a part of it.
    pub part: &'a Part,
    /// Whether the SMSC is to tell what becomes of it.
    pub wants_receipt: bool,
    /// For how long the SMSC tries, in seconds; `None` for as long as it likes.
    pub validity_s: Option<u64>,
}

/// A request of a client.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// `bind_transceiver`.
    Bind(&'a Bind),
    /// `submit_sm`.
    Submit(Submit<'a>),
    /// `enquire_link`.
    Enquire,
    /// `unbind`.
    Unbind,
}

impl Request<'_> {
    /// The `command_id` of its response.
    pub const fn response(&self) -> u32 {
        RESPONSE
            | match self {
                Request::Bind(_) => 0x09,
                Request::Submit(_) => 0x04,
                Request::Enquire => 0x15,
                Request::Unbind => 0x06,
            }
    }
}

/// A request with its number, as bytes.
pub fn bytes_of(request: &Request<'_>, sequence: u32) -> Vec<u8> {
    let pdu = match request {
        Request::Bind(bind) => Pdu::BindTransceiver(BindTransceiver {
            system_id: text(&bind.system_id),
            password: text(&bind.password),
            system_type: text(&bind.system_type),
            interface_version: match bind.version {
                Version::V34 => InterfaceVersion::Smpp3_4,
                Version::V50 => InterfaceVersion::Smpp5_0,
            },
            address_range: text(&bind.address_range),
            ..BindTransceiver::default()
        }),
        Request::Submit(submit) => Pdu::SubmitSm(submit_sm(submit)),
        Request::Enquire => Pdu::EnquireLink,
        Request::Unbind => Pdu::Unbind,
    };
    written(Command::new(CommandStatus::EsmeRok, sequence, pdu))
}

/// The answer to a request of the SMSC, by its `command_id`: one that has no answer of its own gets `generic_nack`.
pub fn response_to(command: u32, sequence: u32, status: Status) -> Vec<u8> {
    let pdu = match CommandId::from(command) {
        CommandId::EnquireLink => Pdu::EnquireLinkResp,
        CommandId::Unbind => Pdu::UnbindResp,
        CommandId::DeliverSm => Pdu::DeliverSmResp(DeliverSmResp::default()),
        _ => Pdu::GenericNack,
    };
    written(Command::new(CommandStatus::from(status.0), sequence, pdu))
}

fn written(command: Command) -> Vec<u8> {
    let mut bytes = BytesMut::with_capacity(command.length() + 4);
    bytes.extend_from_slice(&(command.length() as u32 + 4).to_be_bytes());
    command.encode(&mut bytes);
    bytes.into()
}

/// A field that was checked before; what does not fit all the same is sent empty, which an SMSC refuses.
fn text<T: std::str::FromStr + Default>(text: &str) -> T {
    text.parse().unwrap_or_default()
}

fn submit_sm(submit: &Submit<'_>) -> SubmitSm {
    let Submit { source, destination, part, .. } = submit;
    let mut body = SubmitSm::default();
    body.service_type = ServiceType::new(text(submit.service_type));
    body.source_addr_ton = source.ton.into();
    body.source_addr_npi = source.npi.into();
    body.source_addr = text(&source.digits);
    body.dest_addr_ton = destination.ton.into();
    body.dest_addr_npi = destination.npi.into();
    body.destination_addr = text(&destination.digits);
    // Not the default of the library: its `EsmClass` says "delivery acknowledgement".
    body.esm_class = (if part.has_header { 0x40 } else { 0 }).into();
    body.validity_period = submit.validity_s.map_or_else(EmptyOrFullCOctetString::null, validity);
    body.registered_delivery = u8::from(submit.wants_receipt).into();
    body.data_coding = submit.coding.data_coding().into();
    body.set_short_message(OctetString::from_slice(&part.bytes).expect("a part has at most 160 bytes"));
    if let Some((reference, all, number)) = part.sar {
        body.push_tlv(Value::SarMsgRefNum(reference));
        body.push_tlv(Value::SarTotalSegments(all));
        body.push_tlv(Value::SarSegmentSeqnum(number));
    }
    body
}

/// A relative time (SMPP 3.4, 7.1.1): years, months, days, hours, minutes, seconds. At least one second; at most 99
/// days, more than SMSCs try.
fn validity(seconds: u64) -> EmptyOrFullCOctetString<17> {
    let seconds = seconds.clamp(1, 99 * 86_400);
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    text(&format!("0000{days:02}{hours:02}{:02}{:02}000R", seconds / 60 % 60, seconds % 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submitted(part: &Part, validity_s: Option<u64>) -> Vec<u8> {
        let source = Address::read("Tide", (0, 0)).unwrap();
        let destination = Address::read("+4917012", (0, 0)).unwrap();
        let (coding, wants_receipt) = (Coding::Gsm, true);
        let submit = Submit {
            service_type: "",
            source: &source,
            destination: &destination,
            coding,
            part,
            wants_receipt,
            validity_s,
        };
        bytes_of(&Request::Submit(submit), 9)
    }

    /// Byte for byte as SMPP 3.4, 4.4.1 has it.
    #[test]
    fn a_submission_is_as_the_standard_says() {
        let part = Part { bytes: b"hi".to_vec(), has_header: false, sar: None };
        let head = [0, 0, 0, 46, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 9];
        let body = b"\0\x05\0Tide\0\x01\x014917012\0\0\0\0\0\0\x01\0\0\0\x02hi";
        assert_eq!(submitted(&part, None), [&head[..], &body[..]].concat());
    }

    #[test]
    fn parts_and_validity_stand_in_their_fields() {
        let part = Part { bytes: b"hi".to_vec(), has_header: false, sar: Some((0x0102, 2, 1)) };
        let bytes = submitted(&part, Some(90_061));
        let tlvs = [2, 0x0c, 0, 2, 1, 2, 2, 0x0e, 0, 1, 2, 2, 0x0f, 0, 1, 1];
        assert!(bytes.ends_with(&tlvs), "{bytes:x?}");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.contains("000001010101000R\0"), "{text:?}");
        let with_header = Part { bytes: vec![5, 0, 3, 1, 2, 1, b'a'], has_header: true, sar: None };
        let bytes = submitted(&with_header, None);
        // Behind service type, source and destination.
        assert_eq!(bytes[16 + 1 + 7 + 10], 0x40, "{bytes:x?}");
    }

    #[test]
    fn answers_carry_number_and_status() {
        let answer = response_to(5, 3, Status::TEMPORARY);
        assert_eq!(answer, [0, 0, 0, 17, 0x80, 0, 0, 5, 0, 0, 0, 0x64, 0, 0, 0, 3, 0]);
        assert_eq!(response_to(0x15, 3, Status::OK)[4..8], [0x80, 0, 0, 0x15]);
        assert_eq!(response_to(3, 3, Status::INVALID_COMMAND)[4..12], [0x80, 0, 0, 0, 0, 0, 0, 3]);
    }

    #[test]
    fn a_bind_says_who_and_which_version() {
        let bind = Bind {
            system_id: "me".into(),
            password: "secret08".into(),
            system_type: "".into(),
            version: Version::V34,
            address_range: "".into(),
        };
        let bytes = bytes_of(&Request::Bind(&bind), 1);
        assert_eq!(&bytes[16..], b"me\0secret08\0\0\x34\0\0\0");
        let bytes = bytes_of(&Request::Bind(&Bind { version: Version::V50, ..bind }), 1);
        assert_eq!(&bytes[16..], b"me\0secret08\0\0\x50\0\0\0");
    }
}

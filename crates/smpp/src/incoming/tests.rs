use rusmpp::encode::Length;
use rusmpp::encode::owned::Encode;
use rusmpp::pdus::{DeliverSm, SubmitSmResp};
use rusmpp::tlvs::MessageDeliveryRequestTlvValue as Value;
use rusmpp::types::{AnyOctetString, OctetString};
use rusmpp::values::{DataCoding, EsmClass, MessagePayload};
use rusmpp::{Command, CommandStatus};

use super::*;

fn bytes(status: CommandStatus, sequence: u32, pdu: impl Into<Pdu>) -> BytesMut {
    let command = Command::new(status, sequence, pdu);
    let mut bytes = BytesMut::new();
    bytes.extend_from_slice(&(command.length() as u32 + 4).to_be_bytes());
    command.encode(&mut bytes);
    bytes
}

fn deliver(esm_class: u8, text: &[u8], tlvs: Vec<Value>) -> Delivered {
    let mut body = DeliverSm::default();
    body.source_addr = "4917012345".parse().unwrap();
    body.source_addr_ton = 1.into();
    body.esm_class = EsmClass::from(esm_class);
    body.data_coding = DataCoding::Ucs2;
    body.set_short_message(OctetString::from_slice(text).unwrap());
    body.set_tlvs(tlvs);
    match next(&mut bytes(CommandStatus::EsmeRok, 7, body)) {
        Ok(Some(Incoming::Deliver { sequence: 7, delivered })) => *delivered,
        other => panic!("{other:?}"),
    }
}

#[test]
fn packets_are_taken_one_by_one_however_they_arrive() {
    let mut all = bytes(CommandStatus::EsmeRok, 1, SubmitSmResp::new("0A1b".parse().unwrap(), Vec::new()));
    all.extend_from_slice(&bytes(CommandStatus::EsmeRthrottled, 2, SubmitSmResp::default()));
    all.extend_from_slice(&bytes(CommandStatus::EsmeRok, 3, Pdu::EnquireLink));
    all.extend_from_slice(&bytes(CommandStatus::EsmeRok, 4, Pdu::Unbind));
    all.extend_from_slice(&bytes(CommandStatus::EsmeRok, 5, Pdu::EnquireLinkResp));
    let response = |command, sequence, status, id: &str| {
        let (command, status) = (RESPONSE | command, Status(status));
        Incoming::Response { command, sequence, status, message_id: id.into() }
    };
    let expected = [
        response(4, 1, 0, "0A1b"),
        response(4, 2, 0x58, ""),
        Incoming::Enquire { sequence: 3 },
        Incoming::Unbind { sequence: 4 },
        response(0x15, 5, 0, ""),
    ];
    let (mut read, mut seen) = (BytesMut::new(), Vec::new());
    for byte in all {
        read.extend_from_slice(&[byte]);
        seen.extend(next(&mut read).unwrap());
    }
    assert_eq!((seen, read.len()), (expected.to_vec(), 0));
}

/// The header says what became of the request. Of its body only the id is wanted, as far as it can be read.
#[test]
fn a_response_counts_whatever_its_body_is() {
    let id_of = |body: &[u8]| {
        let mut read = BytesMut::new();
        read.extend_from_slice(&(16 + body.len() as u32).to_be_bytes());
        [0x8000_0004_u32, 0, 7].iter().for_each(|number| read.extend_from_slice(&number.to_be_bytes()));
        read.extend_from_slice(body);
        match next(&mut read).unwrap() {
            Some(Incoming::Response { command: 0x8000_0004, sequence: 7, status: Status::OK, message_id }) => {
                message_id
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(&*id_of(b"abc\0"), "abc");
    for body in [&b"abc"[..], b"abc\0\x02", b"abc\0\x04\x27\0\x09x"] {
        assert_eq!(&*id_of(body), "abc", "{body:?}");
    }
    assert_eq!(&*id_of(b""), "");
    assert_eq!(&*id_of(b"a\xe9\0"), "a\u{fffd}");
    assert_eq!((id_of(&[b'x'; 100]).len(), id_of(&[b'x'; 1_000]).len()), (100, 255));
}

#[test]
fn deliveries_say_what_they_have() {
    let plain = deliver(0, b"\0a", Vec::new());
    assert_eq!((plain.source.written(), plain.text, plain.data_coding), ("+4917012345".into(), b"\0a".to_vec(), 8));
    let by_header = deliver(0x40, &[6, 8, 4, 1, 2, 3, 2, b'a'], Vec::new());
    let segment = Segment { reference: 0x0102, all: 3, number: 2 };
    assert_eq!((by_header.segment, by_header.text), (Some(segment), b"a".to_vec()));
    let tlvs = vec![Value::SarMsgRefNum(0x0102), Value::SarTotalSegments(3), Value::SarSegmentSeqnum(2)];
    assert_eq!(deliver(0, b"a", tlvs).segment, Some(segment));
    let payload = MessagePayload::new(AnyOctetString::from_slice(&[b'x'; 60_000]));
    let long = deliver(4, b"", vec![Value::MessagePayload(payload), Value::ReceiptedMessageId("9f".parse().unwrap())]);
    assert_eq!((long.text.len(), long.receipted_id.as_deref()), (60_000, Some("9f")));
    // A header that is longer than the text, and a part that cannot be.
    assert_eq!(deliver(0x40, &[9, 0, 3, 1, 2, 3], Vec::new()).text.len(), 6);
    assert_eq!(deliver(0x40, &[5, 0, 3, 1, 2, 3, b'a'], Vec::new()).segment, None);
}

#[test]
fn what_cannot_be_read_can_be_answered() {
    let mut bad = BytesMut::new();
    bad.extend_from_slice(&[0, 0, 0, 20, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff]);
    assert!(matches!(next(&mut bad), Ok(Some(Incoming::Strange { command: 5, sequence: 9, why })) if !why.is_empty()));
    let query = [0, 0, 0, 16, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9];
    assert!(matches!(next(&mut query[..].into()), Ok(Some(Incoming::Strange { command: 3, sequence: 9, .. }))));
    for length in [0, 15, FRAME_BYTES_MAX as u32 + 1, u32::MAX] {
        let mut bytes = BytesMut::zeroed(16);
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        assert_eq!(next(&mut bytes), Err(NotSmpp(length)));
    }
}

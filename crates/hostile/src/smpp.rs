//! What an SMSC sends: bytes of a session, and the text of a delivery.

use std::fmt::Debug;

use bytes::BytesMut;
use tidegate_smpp::{Coded, Coding, Delivered, Incoming, Numbering, decoded, next, parts, receipt_of, response_to};

/// Bytes of a session: the same packets however they arrive, each can be answered, and each delivery can be read.
pub fn check(bytes: &[u8]) {
    let whole = packets(&[bytes]);
    let ones: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(packets(&ones), whole, "packets do not depend on how they arrive");
    for packet in &whole.0 {
        match packet {
            Incoming::Deliver { sequence, delivered } => {
                check_delivery(delivered);
                assert!(response_to(5, *sequence, tidegate_smpp::Status::OK).len() >= 16);
            }
            Incoming::Strange { command, sequence, .. } => {
                let answer = response_to(*command, *sequence, tidegate_smpp::Status::INVALID_COMMAND);
                assert_eq!(answer[12..16], sequence.to_be_bytes(), "the answer has the number of the request");
            }
            _ => {}
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_text(text);
    }
}

/// All packets, and what came of the end.
fn packets(chunks: &[&[u8]]) -> (Vec<Incoming>, impl Debug + PartialEq + use<>) {
    let (mut read, mut packets) = (BytesMut::new(), Vec::new());
    for chunk in chunks {
        read.extend_from_slice(chunk);
        loop {
            match next(&mut read) {
                Ok(Some(packet)) => packets.push(packet),
                Ok(None) => break,
                Err(error) => return (packets, Err(error)),
            }
        }
    }
    (packets, Ok(read.len()))
}

fn check_delivery(delivered: &Delivered) {
    if let Some(segment) = delivered.segment {
        assert!((1..=segment.all).contains(&segment.number), "a part is one of all");
    }
    let _ = decoded(delivered.data_coding, &delivered.text);
    if let Some(receipt) = receipt_of(delivered) {
        assert!(receipt.text_id.is_none_or(|id| !id.is_empty()), "an id is not empty");
    }
}

/// A text that was coded and cut is the same text when its parts are joined.
fn check_text(text: &str) {
    let Some(coded) = Coded::first(text, &[Coding::Gsm, Coding::Latin1, Coding::Ucs2]) else {
        panic!("UCS-2 has all characters")
    };
    let Ok(parts) = parts(&coded, Numbering::Sar, 7, 255) else { return };
    let texts = parts.iter().map(|part| decoded(coded.coding.data_coding(), &part.bytes).expect("a text"));
    assert_eq!(texts.collect::<String>(), text, "no part ends within a character");
}

//! Frames split in every way, and every violation of RFC 6455 that a decoder can see.

use super::*;
use proptest::prelude::*;

/// All that a decoder tells about `bytes`, given in pieces of `piece` bytes, and the MQTT bytes among it.
fn read(decoder: &mut FrameDecoder, bytes: &[u8], piece: usize) -> Result<(Vec<Event>, Vec<u8>), Violation> {
    let mut events = Vec::new();
    let mut data = Vec::new();
    for chunk in bytes.chunks(piece.max(1)) {
        let mut chunk = chunk.to_vec();
        let mut at = 0;
        while at < chunk.len() {
            let step = decoder.next(&mut chunk[at..])?;
            assert!(step.used > 0, "a call takes something");
            match step.event {
                Some(Event::Data(range)) => data.extend_from_slice(&chunk[at..][range]),
                Some(event) => events.push(event),
                None => assert_eq!(at + step.used, chunk.len(), "without an event all is taken"),
            }
            at += step.used;
        }
    }
    Ok((events, data))
}

/// A client's frame whose header is as given.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_client_frame(Opcode::Binary, [1, 2, 3, 4], payload, &mut out);
    out[0] = first;
    out
}

#[test]
fn breaches_of_rfc_6455_and_their_close_codes() {
    let cases: &[(&str, Vec<u8>, u16)] = &[
        ("MQTT-6.0.0-1 text", frame(0x81, b"hi"), 1003),
        ("MQTT-6.0.0-1 fragmented text", frame(0x01, b"hi"), 1003),
        ("5.1 unmasked", vec![0x82, 0x01, 0xff], 1002),
        ("5.1 unmasked ping", vec![0x89, 0x00], 1002),
        ("5.2 RSV1", frame(0xc2, b""), 1002),
        ("5.2 RSV2", frame(0xa2, b""), 1002),
        ("5.2 RSV3", frame(0x92, b""), 1002),
        ("5.2 opcode 3", frame(0x83, b""), 1002),
        ("5.2 opcode 7", frame(0x87, b""), 1002),
        ("5.2 opcode 11", frame(0x8b, b""), 1002),
        ("5.2 opcode 15", frame(0x8f, b""), 1002),
        ("5.2 125 in 16 bits", vec![0x82, 0xfe, 0, 125], 1002),
        ("5.2 65535 in 64 bits", vec![0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff], 1002),
        ("5.2 64 bits", vec![0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0], 1002),
        ("7.4.1 too long", vec![0x82, 0xff, 0, 0, 0, 0, 0x10, 0, 0, 5], 1009),
        ("5.4 continuation of nothing", frame(0x80, b"x"), 1002),
        ("5.4 continuation after the end", [frame(0x02, b"x"), frame(0x80, b"y"), frame(0x80, b"z")].concat(), 1002),
        ("5.4 message inside a message", [frame(0x02, b"x"), frame(0x82, b"y")].concat(), 1002),
        ("5.5 fragmented ping", frame(0x09, b""), 1002),
        ("5.5 fragmented close", frame(0x08, b""), 1002),
        ("5.5 ping of 126 bytes", frame(0x89, &[0; 126]), 1002),
        ("5.5 close of 65536 bytes", vec![0x88, 0xff], 1002),
        ("5.5.1 half a code", frame(0x88, &[3]), 1002),
        ("5.5.1 reason not UTF-8", frame(0x88, &[3, 0xe8, 0xff]), 1007),
        ("7.4.1 code 1004", frame(0x88, &1004u16.to_be_bytes()), 1002),
        ("7.4.1 code 1005", frame(0x88, &1005u16.to_be_bytes()), 1002),
        ("7.4.1 code 1006", frame(0x88, &1006u16.to_be_bytes()), 1002),
        ("7.4.1 code 1015", frame(0x88, &1015u16.to_be_bytes()), 1002),
        ("7.4.2 code 999", frame(0x88, &999u16.to_be_bytes()), 1002),
        ("7.4.2 code 2000", frame(0x88, &2000u16.to_be_bytes()), 1002),
        ("7.4.2 code 5000", frame(0x88, &5000u16.to_be_bytes()), 1002),
    ];
    for (case, bytes, code) in cases {
        for piece in [usize::MAX, 1, 3] {
            let error = read(&mut FrameDecoder::server(), bytes, piece.min(bytes.len())).expect_err(case);
            assert_eq!(error.code, CloseCode(*code), "{case}: {error}");
        }
    }
    let masked = read(&mut FrameDecoder::client(), &frame(0x82, b"x"), 100).unwrap_err();
    assert_eq!((masked.code, masked.section), (CloseCode::PROTOCOL_ERROR, "RFC 6455 5.1"));
}

#[test]
fn what_will_be_refused_is_not_waited_for() {
    assert!(FrameDecoder::server().next(&mut [0x81]).is_err(), "text shows in the first byte");
    assert!(FrameDecoder::server().next(&mut [0x82, 0x05]).is_err(), "a missing mask in the second");
}

#[test]
fn codes_that_may_be_sent_are_taken() {
    for code in (1000..=1003).chain(1007..=1014).chain([3000, 4999]) {
        let mut decoder = FrameDecoder::server();
        let (events, _) = read(&mut decoder, &frame(0x88, &u16::to_be_bytes(code)), 1).unwrap();
        assert_eq!(events, [Event::Close(CloseCode(code))]);
    }
    let (events, _) = read(&mut FrameDecoder::server(), &frame(0x88, b""), 9).unwrap();
    assert_eq!(events, [Event::Close(CloseCode::NONE_GIVEN)]);
}

#[test]
fn nothing_counts_after_a_close() {
    let bytes = [frame(0x88, b"\x03\xe8bye"), frame(0x82, b"more"), vec![0xff; 40]].concat();
    let (events, data) = read(&mut FrameDecoder::server(), &bytes, 7).unwrap();
    assert_eq!(events, [Event::Close(CloseCode::NORMAL)]);
    assert!(data.is_empty());
}

#[test]
fn control_frames_come_between_fragments() {
    let bytes =
        [frame(0x02, b"ab"), frame(0x89, b"are you there"), frame(0x00, b""), frame(0x8a, b"x"), frame(0x80, b"cd")];
    for piece in 1..30 {
        let mut decoder = FrameDecoder::server();
        let (events, data) = read(&mut decoder, &bytes.concat(), piece).unwrap();
        assert_eq!(data, b"abcd");
        let [Event::Ping(payload), Event::Pong] = &events[..] else { panic!("{events:?}") };
        assert_eq!(payload.as_slice(), b"are you there");
        assert!(decoder.is_idle());
    }
}

#[test]
fn the_example_of_rfc_6455() {
    assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/// `[MQTT-6.0.0-3]`: WebSocket: the client requests the subprotocol mqtt.
#[test]
fn the_subprotocol_is_mqtt_and_nothing_like_it() {
    assert!(offers_mqtt("mqtt"));
    assert!(offers_mqtt("mqttv3.1, mqtt"));
    assert!(!offers_mqtt("mqttv3.1"));
    assert!(!offers_mqtt("MQTT"));
    assert!(!offers_mqtt(""));
}

#[test]
fn a_close_frame_is_never_too_long_nor_cut_inside_a_character() {
    let mut out = Vec::new();
    encode_close(CloseCode::GOING_AWAY, &"ü".repeat(100), &mut out);
    assert_eq!(out.len(), 2 + 2 + 122);
    let (events, _) = read(&mut FrameDecoder::client(), &out, 5).unwrap();
    assert_eq!(events, [Event::Close(CloseCode::GOING_AWAY)]);
    out.clear();
    encode_close(CloseCode::NONE_GIVEN, "unsaid", &mut out);
    assert_eq!(out, [0x88, 0]);
}

proptest! {
    /// `[MQTT-6.0.0-2]`: WebSocket: packets need not be aligned with frames.
    #[test]
    fn data_comes_through_in_any_pieces_both_ways(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 1..6),
        key: [u8; 4],
        piece in 1usize..500,
    ) {
        let (mut masked, mut plain) = (Vec::new(), Vec::new());
        for (index, payload) in payloads.iter().enumerate() {
            // One message of several fragments.
            let start = masked.len();
            encode_client_frame(Opcode::Binary, key, payload, &mut masked);
            let fin = if index + 1 == payloads.len() { 0x80 } else { 0 };
            masked[start] = fin | if index == 0 { 2 } else { 0 };
            frame_header(payload.len(), Opcode::Binary, &mut plain);
            plain.extend_from_slice(payload);
        }
        let mut server = FrameDecoder::server();
        prop_assert_eq!(read(&mut server, &masked, piece), Ok((vec![], payloads.concat())));
        prop_assert!(server.is_idle());
        prop_assert_eq!(read(&mut FrameDecoder::client(), &plain, piece), Ok((vec![], payloads.concat())));
    }

    #[test]
    fn lengths_of_each_form(length in prop_oneof![0usize..300, 65_530usize..65_540], key: [u8; 4]) {
        let payload: Vec<u8> = (0..length).map(|index| index as u8).collect();
        let mut out = Vec::new();
        encode_client_frame(Opcode::Binary, key, &payload, &mut out);
        prop_assert_eq!(read(&mut FrameDecoder::server(), &out, 1_000), Ok((vec![], payload)));
    }

    #[test]
    fn any_bytes_in_any_pieces_mean_the_same(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1usize..20) {
        for decoder in [FrameDecoder::server, FrameDecoder::client] {
            prop_assert_eq!(read(&mut decoder(), &bytes, piece), read(&mut decoder(), &bytes, bytes.len()));
        }
    }
}

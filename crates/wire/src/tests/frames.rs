//! Frames, one by one: bounds of lists, faults, repeated fields, and the example of the documentation.

use super::*;

/// A body of `count` empty items in field 1, two bytes each: the most items that fit in a frame.
fn frame_of_empty_items(body_number: u8, count: usize) -> Vec<u8> {
    let mut out = vec![];
    let frame = frame::OpenFrame::open(&mut out, 9, body_number);
    out.extend([0x0a, 0].repeat(count));
    frame.close(&mut out);
    only_frame(&out).to_vec()
}

#[test]
#[cfg_attr(miri, ignore = "about sizes; nothing new for Miri, and slow there")]
fn the_8191st_item_is_refused_in_every_list() {
    for body_number in [4, 5, 6, 7, 13] {
        assert!(to_proto(&frame_of_empty_items(body_number, limits::TRANSFERS_MAX)).is_ok());
        let refused = to_proto(&frame_of_empty_items(body_number, limits::TRANSFERS_MAX + 1));
        assert_eq!(refused, Err(DecodeError::TooManyItems), "body {body_number}");
        assert_eq!(refused.unwrap_err().code(), "batch_size_invalid");
    }
    for body_number in [6, 7, 8] {
        let bad = decode_reply(&frame_of_empty_items(body_number, limits::TRANSFERS_MAX + 1)).unwrap_err();
        assert_eq!(bad, BadFrame { correlation: 9, error: DecodeError::TooManyItems }, "body {body_number}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "about sizes; nothing new for Miri, and slow there")]
fn differences_of_an_audit_are_bounded_over_all_shards() {
    let report = AuditReport { differences: vec![AuditDifference::default(); 3_000], ..Default::default() };
    let frame = |shards| {
        let audit = Audit { shards: vec![report.clone(); shards], conservation: Vec::new() };
        ReplyFrame { correlation: 1, body: Some(reply_frame::Body::Audit(audit)) }.encode_to_vec()
    };
    assert!(decode_reply(&frame(2)).is_ok());
    assert_eq!(decode_reply(&frame(3)).unwrap_err().error, DecodeError::TooManyItems);
}

/// Each kind of fault has its own name, and the correlation that was read before it is kept for the answer.
#[test]
fn faults_are_told_apart() {
    let check = |bytes: &[u8], correlation: u64, error: DecodeError| match decode_request(bytes) {
        Err(bad) => assert_eq!(bad, BadFrame { correlation, error }, "{bytes:02x?}"),
        Ok(RequestRef { correlation: read, body: BodyRef::Transfers(transfers) }) => {
            assert_eq!((read, transfers.read(|_| ())), (correlation, Err(error)), "{bytes:02x?}");
        }
        Ok(other) => panic!("{bytes:02x?}: {other:?}"),
    };
    check(&[], 0, DecodeError::BodyMissing);
    check(&[0x08, 5], 5, DecodeError::BodyMissing);
    check(&[0x08, 5, 0x72, 0], 5, DecodeError::BodyMissing);
    check(&[0x08, 5, 0x62, 0, 0x62, 0], 5, DecodeError::BodyRepeated);
    check(&[0x08, 5, 0x62, 1], 5, DecodeError::Truncated);
    check(&[0x08, 5, 0x60, 1], 5, DecodeError::WireTypeMismatch);
    check(&[0x0a, 0], 0, DecodeError::WireTypeMismatch);
    check(&[0x00, 0], 0, DecodeError::TagInvalid);
    check(&[0x08, 5, 0x63, 0x64], 5, DecodeError::TagInvalid);
    check(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], 0, DecodeError::VarintTooLong);
    check(&[0x08, 5, 0x12, 3, 0x0a, 1, 0xff], 5, DecodeError::NotUtf8);
    check(&[0x08, 5, 0x22, 5, 0x0a, 3, 0x0a, 1, 0xff], 5, DecodeError::NotUtf8);
    check(&[0x08, 5, 0x22, 5, 0x0a, 3, 0x0a, 2, b'a'], 5, DecodeError::Truncated);
    check(&[0x08, 5, 0x22, 4, 0x0a, 2, 0x08, 1], 5, DecodeError::WireTypeMismatch);
    check(&[0x08, 5, 0x22, 2, 0x08, 1], 5, DecodeError::WireTypeMismatch);
}

/// Of a repeated scalar the last one counts, also when its tag is padded.
#[test]
fn the_last_of_a_repeated_field_counts() {
    let item = [0x0a, 1, b'a', 0x20, 1, 0x8a, 0x00, 1, b'b', 0x20, 2];
    let mut bytes = vec![0x22, 2 + item.len() as u8, 0x0a, item.len() as u8];
    bytes.extend(item);
    let Some(request_frame::Body::Transfers(read)) = to_proto(&bytes).unwrap().body else { panic!("transfers") };
    assert_eq!(read, Transfers::decode(&bytes[2..]).unwrap());
    assert_eq!((&read.transfers[0].id[..], read.transfers[0].amount), ("b", 2));
}

/// The bytes that docs/formats/binary.md prints.
#[test]
fn a_room_s_body_is_read_where_it_lies_and_in_replies_too() {
    for body in [vec![], b"add".to_vec(), vec![7; 100_000]] {
        let mut out = Vec::new();
        encode_room(&mut out, 9, RoomRef { family: 1_024, body: &body });
        let frame = only_frame(&out);
        let BodyRef::Room(asked) = decode_request(frame).unwrap().body else { panic!("a room") };
        assert_eq!(asked, RoomRef { family: 1_024, body: &body });
        assert!(body.is_empty() || frame.as_ptr_range().contains(&asked.body.as_ptr()), "it was copied");
        let reply = decode_reply(frame).unwrap();
        let ReplyBodyRef::Room(answered) = reply.body else { panic!("a room") };
        assert_eq!((reply.correlation, answered), (9, asked));
        let by_prost = ReplyFrame::decode(frame).unwrap();
        let expected = RoomFrame { family: 1_024, body };
        assert_eq!(by_prost.body, Some(reply_frame::Body::Room(expected)));
    }
}

#[test]
fn the_example_of_the_documentation() {
    let mut hex = String::new();
    let mut add = |title: &str, bytes: &[u8]| {
        hex += &format!("{title}:\n");
        for line in bytes.chunks(32) {
            let line: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            hex += &format!("  {}\n", line.join(" "));
        }
    };
    let mut out = vec![];
    encode_request(&mut out, 1, request_frame::Body::Hello(Hello { token: "dev-service-token".into() }));
    add("hello", &out);
    out.clear();
    let mut frame = TransfersEncoder::begin(&mut out, 2, false);
    let (debit, credit) = (b"wallet:dave", b"candidate:3");
    frame.push(&TransferRef { id: b"v-1", debit, credit, amount: 1, memo: b"", ..Default::default() });
    frame.push(&TransferRef { id: b"v-2", debit, credit, amount: 300, memo: b"", ..Default::default() });
    frame.finish();
    add("transfers", &out);
    out.clear();
    let mut frame = OutcomesEncoder::begin(&mut out, 2, 2);
    frame.applied();
    frame.refused("insufficient_funds", 9);
    frame.finish();
    add("outcomes", &out);
    expect_test::expect![[r#"
        hello:
          17 08 01 12 13 0a 11 64 65 76 2d 73 65 72 76 69 63 65 2d 74 6f 6b 65 6e
        transfers:
          4b 08 02 22 47 0a 21 0a 03 76 2d 31 12 0b 77 61 6c 6c 65 74 3a 64 61 76 65 1a 0b 63 61 6e 64 69
          64 61 74 65 3a 33 20 01 0a 22 0a 03 76 2d 32 12 0b 77 61 6c 6c 65 74 3a 64 61 76 65 1a 0b 63 61
          6e 64 69 64 61 74 65 3a 33 20 ac 02
        outcomes:
          22 08 02 22 1e 0a 02 10 01 0a 18 10 03 1a 12 69 6e 73 75 66 66 69 63 69 65 6e 74 5f 66 75 6e 64
          73 20 09
    "#]]
    .assert_eq(&hex);
}

#[test]
fn a_frame_that_is_not_finished_leaves_nothing_behind() {
    let mut out = b"before".to_vec();
    let mut frame = TransfersEncoder::begin(&mut out, 2, true);
    frame.push(&TransferRef { id: b"v-1", ..TransferRef::default() });
    drop(frame);
    assert_eq!(out, b"before");
}

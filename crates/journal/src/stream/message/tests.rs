use proptest::prelude::*;

use super::*;

const LOG: LogId = LogId { directory: 0x0102_0304_0506_0708, family: 2, shard: 0x0a0b };

fn part() -> MessageHeader {
    let chain = ChainHash([9; 32]);
    let kind = MessageKind::Part { epoch: 3, settled: 5, first: 7, part: 1, parts: 2, chain };
    MessageHeader { log: LOG, number: 8, kind }
}

#[test]
fn a_message_is_written_as_the_format_says() {
    let bytes = part().encode(b"body");
    assert_eq!(&bytes[..8], b"TGSM\x01\x02\x0b\x0a");
    assert_eq!(&bytes[8..16], b"\x08\x07\x06\x05\x04\x03\x02\x01");
    assert_eq!((bytes[16], bytes[24], bytes[32], bytes[40], bytes[42], bytes[44]), (3, 5, 7, 1, 2, 4));
    assert_eq!(&bytes[48..80], [9; 32]);
    assert_eq!(&bytes[84..], b"body");
    let epoch = MessageHeader { log: LOG, number: 9, kind: MessageKind::Epoch { writer: 77 } };
    let bytes = epoch.encode(&[]);
    assert_eq!((bytes.len(), bytes[16], bytes[32], bytes[84]), (92, 9, 9, 77));
    assert_eq!(decode(&bytes).map(|(header, _)| header), Ok(epoch));
}

#[test]
fn what_is_no_message_says_why() {
    let good = part().encode(b"body").to_vec();
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        decode(&bytes).unwrap_err()
    };
    assert_eq!(decode(b"TGS"), Err(MessageFault::NoMessage));
    assert_eq!(decode(b"TGSM\x01"), Err(MessageFault::Length));
    assert_eq!(decode(&good[..good.len() - 1]), Err(MessageFault::Length));
    assert_eq!((changed(4, 2), changed(90 - 6, 0)), (MessageFault::UnknownVersion(2), MessageFault::Checksum));
    assert_eq!(changed(40, 0), MessageFault::Checksum);
    let mut absurd = part();
    absurd.kind = MessageKind::Part { epoch: 7, settled: 7, first: 7, part: 1, parts: 2, chain: ChainHash::default() };
    assert_eq!(decode(&absurd.encode(b"x")), Err(MessageFault::Absurd), "an epoch begins before its groups");
    assert_eq!(decode(&part().encode(b"")), Err(MessageFault::Absurd), "a part holds something");
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded_and_no_flipped_bit_passes(
        epoch in 1u64..1000, settled in 0u64..100, more in 1u64..1000, part in 0u16..5, last in 0u16..5,
        payload in proptest::collection::vec(any::<u8>(), 1..300), at in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let first = epoch + settled + more;
        let chain = ChainHash([payload[0]; 32]);
        let kind = MessageKind::Part { epoch, settled: epoch + settled, first, part, parts: part + last + 1, chain };
        let header = MessageHeader { log: LOG, number: first + u64::from(part), kind };
        let mut bytes = header.encode(&payload).to_vec();
        prop_assert_eq!(decode(&bytes), Ok((header, &payload[..])));
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        let _ = decode(&[&MESSAGE_MAGIC[..], &[1], &bytes].concat());
    }
}

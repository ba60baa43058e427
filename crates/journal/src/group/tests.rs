use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::builder::GroupLimits;
use crate::{GroupBuilder, NoRoom};

const LOG: LogId = LogId { directory: 0x1122_3344_5566_7788, family: 5, shard: 0x0103 };
/// The largest that may be.
const LIMITS: GroupLimits = GroupLimits { group_bytes_max: GROUP_BYTES_MAX, record_bytes_max: RECORD_BYTES_MAX };

fn before() -> Cursor {
    Cursor { position: Position(5000), sequence: Sequence(41), chain: ChainHash([9; 32]) }
}

/// A sealed group of these records, and where `append` said they would stand.
fn sealed(payloads: &[Vec<u8>]) -> (Vec<u8>, Vec<Position>, Cursor) {
    let mut group = GroupBuilder::new(Position(5000), Sequence(42), LIMITS, Vec::new());
    let positions: Vec<Position> =
        payloads.iter().map(|payload| group.append(|buffer| buffer.extend_from_slice(payload))).collect();
    for (at, payload) in std::iter::zip(&positions, payloads) {
        assert_eq!(group.record_at(*at), Some(&payload[..]));
    }
    let next = group.next_position();
    let record_count = group.records();
    let mut image = Vec::new();
    let seal = Seal { log: LOG, before: before(), synced_up_to: Position(4500), record_count };
    let end = super::seal(seal, &group.into_body(), &mut image);
    assert_eq!(end.position, next);
    (image, positions, end)
}

fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 1..200), 1..40)
}

proptest! {
    #[test]
    fn what_is_sealed_is_decoded(payloads in payloads(), trailing in vec(any::<u8>(), 0..50)) {
        let (mut image, positions, end) = sealed(&payloads);
        image.extend(trailing);
        let group = decode(&image).unwrap();
        prop_assert_eq!(group.header.log, LOG);
        prop_assert_eq!(group.header.end(), end);
        prop_assert_eq!(group.header.follows(LOG, &before()), Ok(()));
        let expected: Vec<_> = payloads
            .iter()
            .zip(&positions)
            .enumerate()
            .map(|(n, (payload, at))| (Sequence(42 + n as u64), *at, &payload[..]))
            .collect();
        prop_assert_eq!(group.records().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_flipped_bit_is_never_accepted(payloads in payloads(), place in any::<prop::sample::Index>(), bit in 0..8u8) {
        let (mut image, _, _) = sealed(&payloads);
        let at = place.index(image.len());
        image[at] ^= 1u8 << bit;
        prop_assert!(decode(&image).is_err());
    }

    #[test]
    fn a_group_cut_short_is_never_accepted(payloads in payloads(), place in any::<prop::sample::Index>()) {
        let (mut image, _, _) = sealed(&payloads);
        let len = place.index(image.len());
        prop_assert!(decode(&image[..len]).is_err());
        image[len..].fill(0);
        // A group may end in zeros; then nothing was cut.
        if image != sealed(&payloads).0 {
            prop_assert!(decode(&image).is_err());
        }
    }

    #[test]
    fn hostile_bytes_are_refused_without_a_panic(
        mut bytes in vec(any::<u8>(), 0..400),
        count in 0..5u32,
        len in 0..500u32,
        honest_hash in any::<bool>(),
    ) {
        // With repaired checksums, so that more than the first check is reached.
        if bytes.len() >= GROUP_HEADER_BYTES {
            let body = bytes[GROUP_HEADER_BYTES..].to_vec();
            let mut header = GroupHeader {
                log: LOG, first_sequence: Sequence(1), base: Position(4096), synced_up_to: Position(0),
                record_count: count, body_bytes: len, previous: ChainHash::default(), chain: ChainHash::default(),
            };
            if honest_hash {
                header.body_bytes = body.len() as u32;
                header.chain = chain_hash(&header.encode()[..HASHED_BYTES], &body);
            }
            bytes[..GROUP_HEADER_BYTES].copy_from_slice(&header.encode());
        }
        if let Ok(group) = decode(&bytes) {
            prop_assert_eq!(group.records().count(), group.header.record_count as usize);
        }
    }
}

#[test]
fn the_bytes_are_those_of_the_format_document() {
    let (image, positions, end) = sealed(&[b"abc".to_vec(), b"d".to_vec()]);
    assert_eq!(positions, [Position(5120), Position(5131)]);
    assert_eq!(image.len(), 120 + 11 + 9);
    assert_eq!(&image[0..4], b"TGGR");
    assert_eq!(image[4], 2, "version");
    assert_eq!(image[5], 5, "family");
    assert_eq!(image[6..8], [3, 1], "shard");
    assert_eq!(image[8..16], [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11], "directory");
    assert_eq!(u64_at(&image, 16), 42, "first sequence");
    assert_eq!(u64_at(&image, 24), 5000, "base");
    assert_eq!(u64_at(&image, 32), 4500, "synced up to");
    assert_eq!(u32_at(&image, 40), 2, "records");
    assert_eq!(u32_at(&image, 44), 20, "body bytes");
    assert_eq!(image[48..80], [9; 32], "previous chain");
    let mut hashed = image[..80].to_vec();
    hashed.extend_from_slice(&image[120..]);
    assert_eq!(image[80..112], *blake3::hash(&hashed).as_bytes(), "chain");
    assert_eq!(end.chain.0, image[80..112]);
    assert_eq!(image[112..116], [0; 4], "reserved");
    assert_eq!(u32_at(&image, 116), crc32c(&image[..116]), "checksum");
    assert_eq!(u32_at(&image, 120), 3, "length of the first record");
    let place = [3, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0];
    assert_eq!(u32_at(&image, 124), crc32c(b"abc") ^ crc32c(&place));
    assert_eq!(&image[128..131], b"abc");
    assert_eq!(&image[139..140], b"d");
}

/// Bit by bit, from the polynomial: the library must be the Castagnoli one.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn a_changed_record_is_named_and_a_repaired_checksum_is_seen() {
    let (good, positions, _) = sealed(&[vec![1; 20], vec![2; 20], vec![3; 20]]);
    let second = 120 + 28;
    let mut image = good.clone();
    image[second + 8] ^= 0x10;
    assert_eq!(decode(&image).unwrap_err(), GroupFault::Record { sequence: Sequence(43), at: positions[1] });
    let repaired = record_checksum(positions[1], &image[second + 8..second + 28]);
    image[second + 4..second + 8].copy_from_slice(&repaired.to_le_bytes());
    assert_eq!(decode(&image).unwrap_err(), GroupFault::ChainHash);
    let mut torn = good.clone();
    torn[second..].fill(0);
    assert_eq!(decode(&torn).unwrap_err(), GroupFault::Record { sequence: Sequence(43), at: positions[1] });
}

#[test]
fn a_group_of_version_1_is_named_as_such() {
    let (mut image, ..) = sealed(&[vec![1; 40]]);
    // As version 1 began: two bytes of version, then the shard.
    image[4..8].copy_from_slice(&[1, 0, 3, 0]);
    let repaired = checksum(&image[..CHECKSUM_OFFSET]);
    image[CHECKSUM_OFFSET..GROUP_HEADER_BYTES].copy_from_slice(&repaired.to_le_bytes());
    assert_eq!(decode(&image).unwrap_err(), GroupFault::UnknownVersion(1));
}

#[test]
fn a_group_without_records_is_none() {
    let (image, ..) = sealed(&[vec![1; 40]]);
    let header = GroupHeader::decode(&image).unwrap();
    for (record_count, body_bytes) in [(0, 0), (0, 48), (5, 44), (6, 48)] {
        let encoded = GroupHeader { record_count, body_bytes, ..header }.encode();
        let as_records = with_version(encoded, FORMAT_VERSION);
        assert_eq!(GroupHeader::decode(&as_records), Err(GroupFault::Absurd), "{record_count} in {body_bytes}");
    }
}

/// The header as if it said this version.
fn with_version(mut header: [u8; GROUP_HEADER_BYTES], version: u8) -> [u8; GROUP_HEADER_BYTES] {
    header[4] = version;
    let repaired = checksum(&header[..CHECKSUM_OFFSET]);
    header[CHECKSUM_OFFSET..].copy_from_slice(&repaired.to_le_bytes());
    header
}

#[test]
fn a_notice_is_neither_a_group_of_records_nor_without_bounds() {
    let (image, ..) = sealed(&[vec![1; 40]]);
    let header = GroupHeader::decode(&image).unwrap();
    assert_eq!(GroupHeader::decode(&with_version(header.encode(), 3)), Err(GroupFault::Absurd), "it has records");
    for (body_bytes, is_one) in [(35, false), (36, true), (1_060, true), (1_061, false)] {
        let encoded = GroupHeader { record_count: 0, body_bytes, ..header }.encode();
        assert_eq!(encoded[4], 3);
        assert_eq!(GroupHeader::decode(&encoded).is_ok(), is_one, "{body_bytes} bytes");
    }
    // One that is sound to its hash, but holds something else than a notice.
    let mut image = Vec::new();
    let mut body =
        notice_body(&crate::Notice { kind: crate::NoticeKind::Restored, time_ms: 1, lost: None, text: "why".into() });
    let what = Seal { log: header.log, before: Cursor::START, synced_up_to: Position(0), record_count: 0 };
    seal(what, &body, &mut image);
    assert_eq!(decode(&image).unwrap().records().count(), 0);
    body[RECORD_HEADER_BYTES + 1] = 9;
    image.clear();
    seal(what, &body, &mut image);
    assert_eq!(decode(&image).unwrap_err(), GroupFault::Absurd);
}

#[test]
#[should_panic(expected = "a group holds the largest record")]
fn limits_that_contradict_each_other_are_a_bug() {
    let limits = GroupLimits { group_bytes_max: 1000, record_bytes_max: 1000 };
    GroupBuilder::new(Position(5000), Sequence(1), limits, Vec::new());
}

#[test]
#[should_panic(expected = "a record has 1 to 1048576 bytes")]
fn an_empty_record_is_a_bug() {
    GroupBuilder::new(Position(5000), Sequence(1), LIMITS, Vec::new()).append(|_| {});
}

#[test]
fn room_is_told_before_it_is_taken() {
    let limits = GroupLimits { group_bytes_max: 300, record_bytes_max: 172 };
    let mut group = GroupBuilder::new(Position(5000), Sequence(1), limits, Vec::new());
    assert!(group.has_room(172) && !group.has_room(173));
    group.append(|buffer| buffer.extend_from_slice(&[1; 172]));
    assert_eq!(group.bytes(), 300);
    assert!(!group.has_room(1));
    // To the last byte also where only the record knows its size.
    let mut group = GroupBuilder::new(Position(5000), Sequence(1), limits, Vec::new());
    assert!(group.try_append(|buffer| buffer.extend_from_slice(&[1; 172])).is_ok());
    assert_eq!(group.bytes(), 300);
}

#[test]
fn a_record_that_does_not_fit_leaves_the_group_as_it_was() {
    let limits = GroupLimits { group_bytes_max: 4 * RECORD_BYTES_MAX, ..LIMITS };
    let mut group = GroupBuilder::new(Position(5000), Sequence(42), limits, Vec::new());
    let fill = |bytes: usize| move |buffer: &mut Vec<u8>| buffer.extend(std::iter::repeat_n(7, bytes));
    assert_eq!(group.try_append(fill(RECORD_BYTES_MAX + 1)), Err(NoRoom::Ever));
    assert!(group.is_empty() && group.bytes() == GROUP_HEADER_BYTES);
    for _ in 0..3 {
        group.try_append(fill(RECORD_BYTES_MAX)).unwrap();
    }
    let (bytes, next) = (group.bytes(), group.next_position());
    assert_eq!(group.try_append(fill(RECORD_BYTES_MAX)), Err(NoRoom::Here));
    assert_eq!((group.bytes(), group.records()), (bytes, 3));
    assert_eq!(group.try_append(fill(9)), Ok(next));
    let limits = GroupLimits { group_bytes_max: 1000, record_bytes_max: 500 };
    let mut small = GroupBuilder::new(Position(5000), Sequence(42), limits, Vec::new());
    assert_eq!(small.try_append(fill(501)), Err(NoRoom::Ever), "no record of this log is that large");
    small.try_append(fill(500)).unwrap();
    assert_eq!(small.try_append(fill(500)), Err(NoRoom::Here));
}

#[test]
fn a_record_of_the_largest_size_is_sealed_and_read() {
    let (image, positions, _) = sealed(&[vec![1; RECORD_BYTES_MAX], vec![2]]);
    let group = decode(&image).unwrap();
    let records: Vec<_> = group.records().map(|(_, at, payload)| (at, payload.len())).collect();
    assert_eq!(records, [(positions[0], RECORD_BYTES_MAX), (positions[1], 1)]);
}

#[test]
fn the_family_of_a_log_is_part_of_what_is_verified() {
    let (image, ..) = sealed(&[vec![1; 40]]);
    let header = GroupHeader::decode(&image).unwrap();
    let other = LogId { family: 6, ..LOG };
    assert_eq!(header.follows(other, &before()), Err(GroupFault::ForeignLog(LOG)));
    let theirs = GroupHeader { log: other, ..header }.encode();
    assert_eq!(GroupHeader::decode(&theirs).unwrap().log, other);
    let mut forged = image.clone();
    forged[..GROUP_HEADER_BYTES].copy_from_slice(&theirs);
    assert_eq!(decode(&forged).unwrap_err(), GroupFault::ChainHash, "the chain hash covers the family");
}

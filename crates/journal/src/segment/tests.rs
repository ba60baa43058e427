use super::*;
use crate::ChainHash;

const LOG: LogId = LogId { directory: 0xabcd, family: 9, shard: 2 };

fn place() -> Cursor {
    Cursor { position: Position(70_000), sequence: Sequence(12), chain: ChainHash([7; 32]) }
}

#[test]
fn names_sort_like_positions_and_are_parsed_strictly() {
    let name = segment_name(Position(4096));
    assert_eq!(name, "segment-00000000000000004096.tgj");
    assert_eq!(parse_segment_name(&name), Some(Position(4096)));
    assert!(name < segment_name(Position(70_000)) && segment_name(Position(70_000)) < segment_name(Position(u64::MAX)));
    for other in
        ["spare.tgj", "segment-4096.tgj", "segment-+0000000000000004096.tgj", "segment-00000000000000004096.tgj~"]
    {
        assert_eq!(parse_segment_name(other), None, "{other}");
    }
}

#[test]
fn headers_and_marks_are_read_back_and_every_flipped_bit_is_seen() {
    let header = SegmentHeader { log: LOG, first: place() };
    let page = header.encode();
    assert_eq!(page[8..12], [2, 9, 2, 0], "version, family, shard");
    assert_eq!(page[16..24], [0xcd, 0xab, 0, 0, 0, 0, 0, 0], "directory");
    assert_eq!(page.len(), SEGMENT_HEADER_BYTES);
    assert_eq!(SegmentHeader::decode(&page), Ok(header));
    for (kind, number) in [(MarkKind::Tail, 1), (MarkKind::Sealed, 2)] {
        let mark = Mark { log: LOG, kind, end: place() };
        let bytes = mark.encode();
        assert_eq!(bytes[4..8], [2, 9, 2, 0], "version, family, shard");
        assert_eq!((bytes[64], bytes[65]), (number, 0));
        assert_eq!(Mark::decode(&bytes), Ok(mark));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Mark::decode(&flipped).is_err(), "bit {bit}");
        }
    }
    for bit in 0..76 * 8 {
        let mut flipped = page.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(SegmentHeader::decode(&flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn short_and_unknown_bytes_are_refused() {
    let page = SegmentHeader { log: LOG, first: place() }.encode();
    for len in 0..76 {
        assert!(SegmentHeader::decode(&page[..len]).is_err());
        assert!(Mark::decode(&page[..len]).is_err());
    }
    // Version 1 had two bytes for its number, the low one first; now the second one is the family.
    for (bytes, version) in [([1, 0], 1), ([3, 9], 3), ([0, 2], 0)] {
        let mut other = page.clone();
        other[8..10].copy_from_slice(&bytes);
        let repaired = checksum(&other[..72]);
        other[72..76].copy_from_slice(&repaired.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&other), Err(SegmentFault::UnknownVersion(version)));
        let mut other = Mark { log: LOG, kind: MarkKind::Tail, end: place() }.encode();
        other[4..6].copy_from_slice(&bytes);
        let repaired = checksum(&other[..76]);
        other[76..80].copy_from_slice(&repaired.to_le_bytes());
        assert_eq!(Mark::decode(&other), Err(SegmentFault::UnknownVersion(version)));
    }
}

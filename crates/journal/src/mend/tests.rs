use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::group::{Seal, decode, seal};
use crate::{ChainHash, Position, Sequence};

const LOG: LogId = LogId { directory: 7, family: 2, shard: 3 };

fn before() -> Cursor {
    Cursor { position: Position(9_000), sequence: Sequence(20), chain: ChainHash([7; 32]) }
}

/// A group of these records.
fn group_of(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    for payload in payloads {
        body.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(payload);
    }
    let (record_count, synced_up_to) = (payloads.len() as u32, Position(8_000));
    let mut image = Vec::new();
    seal(Seal { log: LOG, before: before(), synced_up_to, record_count }, &body, &mut image);
    image
}

/// Puts a whole group right, as a scan does.
fn mend(group: &mut [u8]) -> Option<WrongByte> {
    match GroupHeader::decode(group) {
        Ok(header) => mend_records(&header, group),
        Err(_) => mend_header(&mut group[..GROUP_HEADER_BYTES], LOG, &before()),
    }
}

proptest! {
    #[test]
    fn any_wrong_byte_of_a_group_is_what_it_was_again(
        payloads in vec(vec(any::<u8>(), 1..300), 1..20),
        place in any::<prop::sample::Index>(),
        change in 1..=u8::MAX,
    ) {
        let sound = group_of(&payloads);
        let (mut group, at) = (sound.clone(), place.index(sound.len()));
        group[at] ^= change;
        let byte = WrongByte { at, found: group[at], written: sound[at] };
        prop_assert_eq!(mend(&mut group), Some(byte));
        prop_assert_eq!(&group, &sound);
        byte.undo(&mut group);
        prop_assert_eq!(group[at], sound[at] ^ change);
    }

    #[test]
    fn of_two_wrong_bytes_nothing_is_guessed(
        payloads in vec(vec(any::<u8>(), 1..300), 1..20),
        places in any::<[prop::sample::Index; 2]>(),
        change in 1..=u8::MAX,
    ) {
        let mut group = group_of(&payloads);
        let body = group.len() - GROUP_HEADER_BYTES;
        let places = places.map(|place| GROUP_HEADER_BYTES + place.index(body));
        prop_assume!(places[0] != places[1]);
        places.iter().for_each(|at| group[*at] ^= change);
        let harmed = group.clone();
        prop_assert_eq!(mend(&mut group), None);
        prop_assert_eq!(group, harmed, "what cannot be put right is left");
    }

    #[test]
    fn what_is_no_group_is_not_made_one(mut bytes in vec(any::<u8>(), GROUP_HEADER_BYTES..400)) {
        let found = bytes.clone();
        prop_assert_eq!(mend(&mut bytes), None);
        prop_assert_eq!(bytes, found);
    }
}

#[test]
fn every_byte_of_a_group_with_a_long_record_can_be_put_right() {
    let sound = group_of(&[vec![1; 3], (0..70_000_u32).map(|at| at as u8).collect(), vec![0; 9]]);
    let header = GROUP_HEADER_BYTES + 11;
    for at in (0..header + 40).chain([30_000, sound.len() - 1]) {
        let mut group = sound.clone();
        group[at] ^= 0x10;
        assert_eq!(mend(&mut group).map(|byte| (byte.at, byte.written)), Some((at, sound[at])), "{at}");
        assert!(decode(&group).is_ok());
    }
}

#[test]
fn a_record_that_was_changed_with_its_checksum_is_not_put_right() {
    let mut group = group_of(&[vec![5; 40]]);
    let payload = GROUP_HEADER_BYTES + RECORD_HEADER_BYTES;
    group[payload] ^= 1;
    let checksum = record_checksum(Position(9_000 + GROUP_HEADER_BYTES as u64), &group[payload..]);
    group[payload - 4..payload].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(decode(&group).unwrap_err(), GroupFault::ChainHash);
    assert_eq!(mend(&mut group), None);
}

#[test]
fn a_header_of_another_place_or_log_is_not_put_right() {
    let sound = group_of(&[vec![5; 40]]);
    let elsewhere = Cursor { position: Position(9_001), ..before() };
    let after_others = Cursor { chain: ChainHash([8; 32]), ..before() };
    let other = LogId { shard: 4, ..LOG };
    for (log, cursor) in [(LOG, elsewhere), (LOG, after_others), (other, before())] {
        let mut header = sound[..GROUP_HEADER_BYTES].to_vec();
        header[50] ^= 1;
        assert_eq!(mend_header(&mut header, log, &cursor), None);
        assert_eq!(header[50], sound[50] ^ 1);
    }
}

#[test]
fn what_is_told_is_heard() {
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mending = Mending::new({
        let heard = heard.clone();
        move |byte| heard.lock().unwrap().push(byte)
    });
    let byte = MendedByte { log: LOG, segment: "s".into(), offset: 5, found: 1, written: 2, is_durable: true };
    mending.clone().tell(byte.clone());
    assert_eq!((*heard.lock().unwrap()).clone(), [byte]);
}

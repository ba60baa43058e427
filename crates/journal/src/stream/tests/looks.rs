//! What a log in a stream says of itself: names, counts, sizes, and why a place holds no record.

use super::*;
use crate::group::GROUP_HEADER_BYTES;

fn why(reader: &StreamReader<FakeStream>, at: u64) -> String {
    match reader.read(Position(at), &mut Vec::new()) {
        Err(JournalError::NoRecord { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn streams_and_messages_have_the_names_of_the_format_document() {
    assert_eq!(name_of(WHOLE), "tidegate-0000000000000005-whole-0");
    assert_eq!(message_name(7), "message-00000000000000000007");
}

#[test]
fn where_no_record_stands_is_said_why() {
    let streams = FakeStreams::new(1);
    let mut log = open(&streams, WHOLE, Cursor::START).log;
    let places = append(&mut log, &[10, 1_000]);
    settle(&streams, WHOLE, &mut log);
    let reader = log.reader().unwrap();
    let group = 2 << 22;
    for at in [0, 7, group, group + GROUP_HEADER_BYTES as u64 - 1, u64::MAX] {
        assert_eq!(why(&reader, at), "no record can stand there", "{at}");
    }
    // Within a record, bytes that would be a length beyond all bounds.
    assert_eq!(why(&reader, places[1].0 + 100), "no record begins there");
    assert_eq!(why(&reader, places[1].0 + 8 + 1_000), "the group ends there");
    assert_eq!(why(&reader, places[1].0 + 8 + 1_000 - 7), "the group ends there");
    assert_eq!(why(&reader, (1 << 22) + 200), "no group begins with this message");
    assert_eq!(why(&reader, (3 << 22) + 200), "no group begins with this message");
    assert_eq!(why(&reader, (99 << 22) + 200), "there is no message of this number");
}

#[test]
fn a_log_is_created_once_and_a_report_says_whether_there_is_a_group() {
    let streams = FakeStreams::new(1);
    let logs = logs(&streams, 1);
    for _ in 0..2 {
        logs.create(log_of(WHOLE)).unwrap();
        assert_eq!(logs.inspect(log_of(WHOLE), Cursor::START).unwrap().groups_verified, 0);
    }
    let Opened { mut log, report } = open(&streams, WHOLE, Cursor::START);
    assert_eq!((report.groups_verified, report.end), (0, Cursor::START));
    assert_eq!(
        append(&mut log, &[5])[0],
        Position((3 << 22) + 120),
        "one epoch message of the two, and one of this log"
    );
    settle(&streams, WHOLE, &mut log);
    drop(log);
    assert_eq!(open(&streams, WHOLE, Cursor::START).report.groups_verified, 1);
}

#[test]
fn what_became_durable_is_told_group_by_group() {
    let streams = FakeStreams::new(1);
    let mut log = open(&streams, WHOLE, Cursor::START).log;
    assert!(!log.has_news());
    for lengths in [&[5][..], &[6, 7], &[8]] {
        append(&mut log, lengths);
        settle(&streams, WHOLE, &mut log);
    }
    let mut told = Vec::new();
    log.take_facts(&mut |facts| told.push((facts.groups, facts.records, facts.bytes as usize)));
    let bytes = |payloads: &[usize]| GROUP_HEADER_BYTES + payloads.iter().map(|bytes| 8 + bytes).sum::<usize>();
    assert_eq!(told, [(1, 1, bytes(&[5])), (1, 2, bytes(&[6, 7])), (1, 1, bytes(&[8]))]);
    log.take_facts(&mut |facts| panic!("each is told once: {facts:?}"));
}

#[test]
fn the_size_of_a_part_is_about_its_share_of_the_messages() {
    let streams = FakeStreams::new(1);
    let mut log = open(&streams, WHOLE, Cursor::START).log;
    for _ in 0..20 {
        append(&mut log, &[150]);
        settle(&streams, WHOLE, &mut log);
    }
    let (reader, end) = (log.reader().unwrap(), log.poll_durable().unwrap().position());
    let middle = place_of(number_of(end) / 2);
    let all = reader.bytes_between(Position(0), end);
    // Each group is two messages with a header each.
    let written = 20 * (150 + 8 + GROUP_HEADER_BYTES as u64);
    assert!((written..2 * written).contains(&all), "{all} of {written}");
    let halves = [reader.bytes_between(Position(0), middle), reader.bytes_between(middle, end)];
    assert!(halves.iter().all(|half| (all / 3..2 * all / 3).contains(half)), "{halves:?} of {all}");
    assert_eq!(reader.bytes_between(end, middle), 0, "backwards there is nothing");
}

#[test]
fn whoever_reads_from_before_what_was_forgotten_is_told_so() {
    let streams = FakeStreams::new(1);
    let mut log = open(&streams, FORGETS, Cursor::START).log;
    let mut ends = Vec::new();
    for _ in 0..6 {
        append(&mut log, &[150]);
        ends.push(settle(&streams, FORGETS, &mut log));
    }
    let reader = log.reader().unwrap();
    assert_eq!(reader.begins_at_or_before(Position(0)).unwrap(), Cursor::START);
    assert!(reader.forget_before(ends[3].position()).unwrap().segments > 0);
    let begins = reader.begins_at_or_before(ends[5].position()).unwrap();
    assert!(begins.position > Position(0) && begins.position <= ends[3].position(), "{begins:?}");
    assert_eq!(reader.begins_at_or_before(begins.position).unwrap(), begins, "exactly there it begins");
    let before = Position(begins.position.0 - 1);
    let refused = reader.begins_at_or_before(before);
    assert!(matches!(refused, Err(JournalError::Forgotten { at, .. }) if at == before), "{refused:?}");
}

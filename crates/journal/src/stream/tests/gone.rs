//! Logs whose stream has lost messages that it may not lose, or has forgotten those that it may; strangers in a run.

use super::*;
use crate::group::GROUP_HEADER_BYTES;
use crate::limits::RECORD_BYTES_MAX;

/// A log with this many groups of one record, each several messages, and the places behind them.
fn groups(streams: &FakeStreams, family: Family, count: usize) -> (Log, Vec<Cursor>) {
    let mut log = open(streams, family, Cursor::START).log;
    let mut ends = Vec::new();
    for _ in 0..count {
        append(&mut log, &[600]);
        ends.push(settle(streams, family, &mut log).cursor().expect("who seals a group knows its chain"));
    }
    (log, ends)
}

fn purge(streams: &FakeStreams, family: Family, below: u64) {
    streams.open(&name_of(family)).unwrap().purge_below(below).unwrap();
}

/// Which message is damaged, and why.
fn damage(found: Result<impl std::fmt::Debug, JournalError>) -> (String, String) {
    match found {
        Err(JournalError::Damaged { segment, what, .. }) => (segment, what),
        other => panic!("damage expected: {other:?}"),
    }
}

#[test]
fn a_log_that_forgets_nothing_and_has_lost_its_beginning_is_damaged_wherever_it_is_read() {
    let streams = FakeStreams::new(1);
    let (log, ends) = groups(&streams, WHOLE, 3);
    let first = number_of(ends[0].position);
    purge(&streams, WHOLE, first);
    let (reader, missing) = (log.reader().unwrap(), "the message is missing");
    let whole = Durability::at(ends[2]);
    let lost = (message_name(1), format!("{missing}: the log has lost its beginning"));
    assert_eq!(damage(reader.settled_end()), lost);
    assert_eq!(damage(logs(&streams, 1).inspect(log_of(WHOLE), Cursor::START)).1, missing);
    assert_eq!(
        damage(reader.groups(Cursor::START, &whole).unwrap().next_group().map(|_| ())),
        (message_name(1), missing.into())
    );
    // The run that goes on there shows in the message before, and that is gone.
    let before = reader.groups(ends[0], &whole).unwrap().next_group().map(|_| ());
    assert_eq!(damage(before), (message_name(first - 1), missing.into()));
    let record = Position(place_of(2).0 + GROUP_HEADER_BYTES as u64);
    let read = reader.read(record, &mut Vec::new());
    assert!(matches!(read, Err(JournalError::NoRecord { .. })), "{read:?}");
}

#[test]
fn a_log_that_forgets_and_has_lost_its_last_group_is_no_empty_log() {
    let streams = FakeStreams::new(1);
    let (log, ends) = groups(&streams, FORGETS, 2);
    let reader = log.reader().unwrap();
    purge(&streams, FORGETS, number_of(ends[1].position));
    let refused = reader.settled_end();
    assert!(matches!(refused, Err(JournalError::Damaged { .. } | JournalError::Forgotten { .. })), "{refused:?}");
    let refused = logs(&streams, 1).open(log_of(FORGETS), ends[1], SIZES).err();
    assert!(refused.is_some(), "where it ends is not known");
}

#[test]
fn an_empty_log_that_forgets_has_forgotten_nothing() {
    let streams = FakeStreams::new(1);
    let reader = logs(&streams, 1).reader(log_of(FORGETS)).unwrap();
    let read = reader.read(Position(place_of(1).0 + GROUP_HEADER_BYTES as u64), &mut Vec::new());
    assert!(matches!(read, Err(JournalError::NoRecord { .. })), "{read:?}");
}

#[test]
fn what_is_forgotten_is_counted_in_messages_and_positions() {
    let streams = FakeStreams::new(1);
    let (log, ends) = groups(&streams, FORGETS, 4);
    let reader = log.reader().unwrap();
    let begins = || reader.begins_at_or_before(ends[3].position).unwrap().position;
    let first = reader.forget_before(ends[1].position).unwrap();
    let between = begins();
    let second = reader.forget_before(ends[3].position).unwrap();
    assert_eq!((first.positions, second.positions), (between.0, begins().0 - between.0));
    assert!(second.segments > 0 && second.positions == (second.segments as u64) << 22, "{second:?}");
}

#[test]
fn from_the_first_message_to_the_end_there_is_all_that_the_stream_holds() {
    let streams = FakeStreams::new(1);
    let (log, ends) = groups(&streams, FORGETS, 6);
    let reader = log.reader().unwrap();
    for forgotten in [0, 3, 5] {
        reader.forget_before(ends[forgotten].position).unwrap();
        let extent = streams.extent(&name_of(FORGETS));
        let all = reader.bytes_between(place_of(extent.first), place_of(extent.last + 1));
        assert_eq!(all, extent.bytes, "{extent:?}");
    }
}

#[test]
fn a_stranger_in_a_run_is_void_also_for_a_reader_who_goes_on_there() {
    let streams = FakeStreams::new(4);
    let settled = number_of(groups(&streams, WHOLE, 1).1[0].position) - 1;
    // A second writer's group, behind which one of the first writer's messages arrives.
    let mut second = open(&streams, WHOLE, Cursor::START).log;
    append(&mut second, &[7]);
    let end = settle(&streams, WHOLE, &mut second).cursor().unwrap();
    let number = number_of(end.position);
    drop(second);
    let kind =
        message::MessageKind::Part { epoch: 1, settled, first: number, part: 0, parts: 1, chain: Default::default() };
    let stranger = message::MessageHeader { log: log_of(WHOLE), number, kind }.encode(b"not even a group");
    let mut stream = streams.open(&name_of(WHOLE)).unwrap();
    stream.publish(number - 1, stranger);
    stream.wait().unwrap();
    let mut log = open(&streams, WHOLE, Cursor::START).log;
    append(&mut log, &[8]);
    settle(&streams, WHOLE, &mut log);
    let reader = log.reader().unwrap();
    assert_eq!(read_all(&reader, Cursor::START).unwrap(), [(1, 600), (2, 7), (3, 8)]);
    assert_eq!(read_all(&reader, end).unwrap(), [(3, 8)]);
    // Up to a place where no group ends: what is behind it is not looked at.
    let nowhere = Durability::at(Cursor { position: place_of(number + 2), ..end });
    let refused = reader.groups(end, &nowhere).unwrap().next_group().map(|_| ());
    let Err(JournalError::BadCursor { .. }) = &refused else { panic!("{refused:?}") };
    assert!(refused.unwrap_err().to_string().contains("no group ends at position"));
}

#[test]
fn void_bytes_are_those_of_the_messages_that_arrived() {
    let mut arrived = 0;
    for seed in 0..40 {
        let streams = FakeStreams::new(seed);
        let mut log = open(&streams, WHOLE, Cursor::START).log;
        append(&mut log, &[5]);
        settle(&streams, WHOLE, &mut log);
        let before = streams.extent(&name_of(WHOLE)).bytes;
        append(&mut log, &[2_000]);
        streams.kill_clients();
        drop(log);
        let report = open(&streams, WHOLE, Cursor::START).report;
        let extent = streams.extent(&name_of(WHOLE));
        let epoch = streams.message(&name_of(WHOLE), extent.last).unwrap().len() as u64;
        assert_eq!(report.bytes_cut, extent.bytes - before - epoch, "seed {seed}");
        arrived += u64::from(report.bytes_cut > 0);
    }
    assert!(arrived > 5, "{arrived}");
}

#[test]
fn a_group_that_follows_another_history_is_damage_within_a_log_and_a_wrong_cursor_at_its_beginning() {
    let streams = FakeStreams::new(1);
    let (log, ends) = groups(&streams, WHOLE, 2);
    // A third group, all of whose checksums are right, that does not continue the second one.
    let number = number_of(ends[1].position);
    let what = crate::group::Seal { log: log_of(WHOLE), before: ends[0], synced_up_to: Position(0), record_count: 0 };
    let mut image = Vec::new();
    let notice = Notice { kind: NoticeKind::LossAccepted, time_ms: 7, lost: None, text: "x".into() };
    let sealed = crate::group::seal(
        crate::group::Seal { before: Cursor { position: ends[1].position, ..ends[0] }, ..what },
        &crate::group::notice_body(&notice),
        &mut image,
    );
    let kind = message::MessageKind::Part {
        epoch: 1,
        settled: number - 1,
        first: number,
        part: 0,
        parts: 1,
        chain: sealed.chain,
    };
    let message = message::MessageHeader { log: log_of(WHOLE), number, kind }.encode(&image);
    let mut stream = streams.open(&name_of(WHOLE)).unwrap();
    stream.publish(number - 1, message);
    stream.wait().unwrap();
    let reader = log.reader().unwrap();
    let up_to = Durability::at(Cursor { position: place_of(number + 1), ..sealed });
    let mut groups = reader.groups(ends[0], &up_to).unwrap();
    assert!(groups.next_group().unwrap().is_some());
    assert_eq!(damage(groups.next_group().map(|_| ())).0, message_name(number));
    let refused = reader.groups(ends[1], &up_to).unwrap().next_group().map(|_| ());
    assert!(matches!(refused, Err(JournalError::BadCursor { .. })), "{refused:?}");
}

#[test]
fn the_largest_record_is_read_and_whoever_waits_is_woken() {
    let streams = FakeStreams::new(1);
    let sizes = Options::small(64 << 20);
    let options = StreamOptions { messages_in_flight_max: 8, ..StreamOptions::of(1) };
    let logs = StreamLogs::new(streams.clone(), &[WHOLE, FORGETS], options);
    let mut log = logs.open(log_of(WHOLE), Cursor::START, sizes).unwrap().log;
    let woken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = woken.clone();
    log.set_wake(std::sync::Arc::new(move || told.store(true, std::sync::atomic::Ordering::SeqCst)));
    let at = append(&mut log, &[RECORD_BYTES_MAX])[0];
    assert!(!log.has_news() && !woken.load(std::sync::atomic::Ordering::SeqCst));
    for _ in 0..100 {
        streams.step(&name_of(WHOLE));
    }
    assert!(log.has_news() && woken.load(std::sync::atomic::Ordering::SeqCst), "a message is stored");
    settle(&streams, WHOLE, &mut log);
    let mut bytes = Vec::new();
    let reader = log.reader().unwrap();
    reader.read(at, &mut bytes).unwrap();
    assert_eq!(bytes.len(), RECORD_BYTES_MAX);
    // A stream has no files.
    assert_eq!((reader.is_here(at).unwrap(), reader.place_of(at)), (true, ("no file".into(), at.0)));
    reader.examine(at).unwrap();
    assert!(reader.examine(Position(at.0 + 1)).is_err());
}

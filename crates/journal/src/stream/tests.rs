//! The log over a fake stream: what was acknowledged is there after any end of its writer, and nobody writes beside a
//! newer one.

mod gone;
mod looks;

use proptest::prelude::*;

use super::*;
use crate::{
    Cursor, Durability, Family, LogReader, LogStore, Logs, NotReady, Notice, NoticeKind, Opened, Options, Retention,
    Scrubbed, Sequence,
};

const WHOLE: Family = Family { number: 1, name: "whole", retention: Retention::Whole };
const FORGETS: Family = Family { number: 2, name: "forgets", retention: Retention::SinceSnapshot };
const SIZES: Options = Options::small(64 * 1024);

type Log = StreamLog<FakeStream>;

fn logs(streams: &FakeStreams, writer: u64) -> StreamLogs<FakeStreams> {
    // Small messages, so that a group is several.
    let options = StreamOptions { message_bytes_max: 300, messages_in_flight_max: 8, ..StreamOptions::of(writer) };
    StreamLogs::new(streams.clone(), &[WHOLE, FORGETS], options)
}

fn log_of(family: Family) -> LogId {
    family.log(5, 0)
}

fn name_of(family: Family) -> String {
    StreamLogs::<FakeStreams>::stream_name(&family, log_of(family))
}

fn open(streams: &FakeStreams, family: Family, since: Cursor) -> Opened<Log> {
    logs(streams, 1).open(log_of(family), since, SIZES).unwrap()
}

/// Appends a group with a record of each length; returns their positions.
fn append(log: &mut Log, lengths: &[usize]) -> Vec<Position> {
    let mut group = log.begin_group();
    let first = group.first_sequence().0;
    let record = |sequence: u64, length: usize| vec![sequence as u8; length];
    let places = lengths
        .iter()
        .zip(first..)
        .map(|(length, sequence)| group.append(|buffer| buffer.extend_from_slice(&record(sequence, *length))));
    let places = places.collect();
    log.submit(group).unwrap();
    places
}

fn settle(streams: &FakeStreams, family: Family, log: &mut Log) -> Durability {
    for _ in 0..5_000 {
        streams.step(&name_of(family));
        if log.poll_durable().unwrap().sequence() == log.last_sequence() {
            return log.poll_durable().unwrap();
        }
    }
    panic!("a stream that is calm stores what is published")
}

/// All records from `from` on, as the sequence and length of each.
fn read_all(reader: &StreamReader<FakeStream>, from: Cursor) -> Result<Vec<(u64, usize)>, JournalError> {
    let mut groups = reader.groups(from, &reader.settled_end()?)?.checking_every_record();
    let mut records = Vec::new();
    while let Some(group) = groups.next_group()? {
        for (sequence, _, bytes) in group.records() {
            assert!(bytes.iter().all(|byte| *byte == sequence.0 as u8), "a record says its sequence");
            records.push((sequence.0, bytes.len()));
        }
    }
    assert_eq!(groups.cursor().position, reader.settled_end()?.position());
    Ok(records)
}

#[test]
fn a_group_is_several_messages_and_each_record_is_read_by_its_position() {
    let streams = FakeStreams::new(1);
    let Opened { mut log, report } = open(&streams, WHOLE, Cursor::START);
    assert_eq!((report.end, report.begins, report.bytes_cut), (Cursor::START, Position(0), 0));
    let lengths = [10, 1_000, 1, 700];
    let places = append(&mut log, &lengths);
    assert_eq!(places[0], Position((2 << 22) + 120), "the first message behind the epoch message is number 2");
    assert_eq!(log.peek(places[1]), Some(&[2; 1_000][..]), "in flight");
    assert_eq!(log.poll_durable().unwrap().sequence(), Sequence(0));
    let durable = settle(&streams, WHOLE, &mut log);
    assert_eq!(durable.position(), place_of(11), "1,863 bytes are nine messages of 216");
    let (reader, mut bytes) = (log.reader().unwrap(), Vec::new());
    for (place, (sequence, length)) in places.iter().zip((1u8..).zip(lengths)) {
        reader.read(*place, &mut bytes).unwrap();
        assert_eq!(bytes, vec![sequence; length]);
        let wrong = reader.read(Position(place.0 + 1), &mut bytes);
        assert!(matches!(wrong, Err(JournalError::NoRecord { .. })), "{wrong:?}");
    }
    assert!(matches!(reader.read(Position(99 << 22), &mut bytes), Err(JournalError::NoRecord { .. })));
    assert_eq!(read_all(&reader, Cursor::START).unwrap(), [(1, 10), (2, 1_000), (3, 1), (4, 700)]);
}

#[test]
fn the_last_message_makes_a_group_durable_and_one_without_it_is_void() {
    let mut voided = 0;
    for seed in 0..40 {
        let streams = FakeStreams::new(seed);
        let mut log = open(&streams, WHOLE, Cursor::START).log;
        append(&mut log, &[5]);
        settle(&streams, WHOLE, &mut log);
        append(&mut log, &[2_000]);
        // Some of its ten messages arrive.
        streams.kill_clients();
        drop(log);
        let Opened { mut log, report } = open(&streams, WHOLE, Cursor::START);
        assert_eq!((report.end.sequence, log.last_sequence()), (Sequence(1), Sequence(1)), "seed {seed}");
        voided += u64::from(report.bytes_cut > 0);
        append(&mut log, &[7]);
        settle(&streams, WHOLE, &mut log);
        let reader = log.reader().unwrap();
        assert_eq!(read_all(&reader, Cursor::START).unwrap(), [(1, 5), (2, 7)], "seed {seed}");
        assert_eq!(open(&streams, WHOLE, Cursor::START).report.bytes_cut, 0, "what is void is counted once");
    }
    assert!(voided > 5, "{voided} times some messages of the group had arrived");
}

#[test]
fn whoever_opens_fences_out_who_wrote_before() {
    let streams = FakeStreams::new(4);
    let mut old = open(&streams, WHOLE, Cursor::START).log;
    append(&mut old, &[5]);
    settle(&streams, WHOLE, &mut old);
    let mut new = logs(&streams, 2).open(log_of(WHOLE), Cursor::START, SIZES).unwrap().log;
    append(&mut old, &[6]);
    append(&mut new, &[7]);
    settle(&streams, WHOLE, &mut new);
    let fenced = (0..50).find_map(|_| {
        streams.step(&name_of(WHOLE));
        old.poll_durable().err()
    });
    let Some(JournalError::Fenced { number, .. }) = fenced else { panic!("{fenced:?}") };
    assert_eq!(number, 3, "the epoch message of the other");
    assert!(old.has_news() && matches!(old.ready(), Err(NotReady::Failed(JournalError::Fenced { .. }))));
    assert!(matches!(old.close(), Err(JournalError::Fenced { .. })));
    assert_eq!(read_all(&new.reader().unwrap(), Cursor::START).unwrap(), [(1, 5), (2, 7)]);
}

#[test]
fn a_straggler_of_a_fenced_writer_is_void_although_its_number_fits() {
    let streams = FakeStreams::new(4);
    let mut old = open(&streams, WHOLE, Cursor::START).log;
    append(&mut old, &[5]);
    let end = settle(&streams, WHOLE, &mut old);
    // The stream takes a message whose expected number is right, whoever sends it.
    let mut new = logs(&streams, 2).open(log_of(WHOLE), Cursor::START, SIZES).unwrap().log;
    let kind =
        message::MessageKind::Part { epoch: 1, settled: 2, first: 4, part: 0, parts: 1, chain: Default::default() };
    let straggler = message::MessageHeader { log: log_of(WHOLE), number: 4, kind }.encode(b"not even a group");
    let mut stream = streams.open(&name_of(WHOLE)).unwrap();
    stream.publish(3, straggler);
    stream.wait().unwrap();
    append(&mut new, &[7]);
    let fenced = (0..50).find_map(|_| {
        streams.step(&name_of(WHOLE));
        new.poll_durable().err()
    });
    assert!(matches!(fenced, Some(JournalError::Fenced { number: 4, .. })), "its place was taken: {fenced:?}");
    let Opened { mut log, report } = open(&streams, WHOLE, Cursor::START);
    assert_eq!(report.end.position, end.position());
    append(&mut log, &[8]);
    settle(&streams, WHOLE, &mut log);
    assert_eq!(read_all(&log.reader().unwrap(), Cursor::START).unwrap(), [(1, 5), (2, 8)]);
}

#[test]
fn a_log_forgets_before_a_snapshot_and_says_so() {
    let streams = FakeStreams::new(5);
    let mut log = open(&streams, FORGETS, Cursor::START).log;
    let first = append(&mut log, &[50])[0];
    settle(&streams, FORGETS, &mut log);
    let mut cursors = vec![Cursor::START];
    for length in [600, 70, 80] {
        append(&mut log, &[length]);
        settle(&streams, FORGETS, &mut log);
        let reader = log.reader().unwrap();
        let mut groups = reader.groups(Cursor::START, &reader.settled_end().unwrap()).unwrap();
        while groups.next_group().unwrap().is_some() {}
        cursors.push(groups.cursor());
    }
    let reader = log.reader().unwrap();
    assert!(
        reader.bytes_between(Position(0), cursors[3].position)
            > reader.bytes_between(cursors[1].position, cursors[3].position)
    );
    let forgotten = reader.forget_before(cursors[2].position).unwrap();
    assert_eq!(forgotten.segments, 6, "an epoch message, a group of one and of four: {forgotten:?}");
    assert_eq!(reader.forget_before(cursors[2].position).unwrap(), Default::default(), "once");
    let error = reader.read(first, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, JournalError::Forgotten { .. }), "{error}");
    let from_start = read_all(&reader, Cursor::START);
    assert!(matches!(from_start, Err(JournalError::Forgotten { .. })), "{from_start:?}");
    assert_eq!(read_all(&reader, cursors[2]).unwrap(), [(4, 80)]);
    let scrubbed = reader.scrub(Cursor::START, 1 << 20).unwrap();
    assert_eq!(scrubbed, Scrubbed { reached: cursors[3], groups: 2, records: 2, bytes: scrubbed.bytes, at_end: true });

    let again = logs(&streams, 1).open(log_of(FORGETS), Cursor::START, SIZES);
    assert!(matches!(again.err(), Some(JournalError::Damaged { .. })), "without a snapshot its beginning is missing");
    let report = open(&streams, FORGETS, cursors[2]).report;
    assert_eq!((report.end, report.begins), (cursors[3], place_of(7)));
    let ahead = Cursor { position: place_of(1_000), ..cursors[3] };
    let refused = logs(&streams, 1).open(log_of(FORGETS), ahead, SIZES).err();
    assert!(matches!(refused, Some(JournalError::BadCursor { .. })), "{refused:?}");
    // The last group stays, whatever is forgotten: it says where the log ends.
    reader.forget_before(cursors[3].position).unwrap();
    assert_eq!(open(&streams, FORGETS, cursors[3]).report.end, cursors[3]);
}

#[test]
fn rot_is_found_and_named_wherever_it_is() {
    let streams = FakeStreams::new(6);
    let mut log = open(&streams, WHOLE, Cursor::START).log;
    for length in [50, 600, 70] {
        append(&mut log, &[length]);
        settle(&streams, WHOLE, &mut log);
    }
    let extent = streams.extent(&name_of(WHOLE));
    for number in 1..=extent.last {
        let bytes = streams.message(&name_of(WHOLE), number).unwrap().len() as u64;
        for offset in [3, 20, 60, bytes - 1] {
            assert!(streams.flip_bit(&name_of(WHOLE), number, offset, 2));
            let found = read_all(&log.reader().unwrap(), Cursor::START).expect_err("a bit was flipped").to_string();
            assert!(found.contains(&message_name(number)), "message {number} at {offset}: {found}");
            assert!(streams.flip_bit(&name_of(WHOLE), number, offset, 2));
        }
    }
    read_all(&log.reader().unwrap(), Cursor::START).unwrap();
}

#[test]
fn a_cursor_of_another_history_is_refused() {
    let streams = FakeStreams::new(6);
    let mut log = open(&streams, WHOLE, Cursor::START).log;
    append(&mut log, &[50]);
    let durable = settle(&streams, WHOLE, &mut log);
    append(&mut log, &[60]);
    settle(&streams, WHOLE, &mut log);
    let reader = log.reader().unwrap();
    for place in [
        Cursor { position: durable.position(), sequence: Sequence(1), ..Cursor::START },
        Cursor { position: Position(durable.position().0 + 7), sequence: Sequence(1), ..Cursor::START },
        Cursor { position: place_of(50), sequence: Sequence(1), ..Cursor::START },
    ] {
        let refused = read_all(&reader, place);
        assert!(matches!(refused, Err(JournalError::BadCursor { .. })), "{place:?}: {refused:?}");
    }
}

#[test]
fn a_stream_that_cannot_be_reached_is_an_error_and_no_verdict() {
    let streams = FakeStreams::new(7);
    streams.refuse_next_open();
    let refused = logs(&streams, 1).open(log_of(WHOLE), Cursor::START, SIZES).err().unwrap();
    assert!(matches!(refused, JournalError::Unavailable { .. }), "{refused}");
    streams.set_weather(StreamWeather { request_loss: 1_000, ..StreamWeather::calm() });
    let refused = logs(&streams, 1).open(log_of(WHOLE), Cursor::START, SIZES).err().unwrap();
    assert!(matches!(refused, JournalError::Unavailable { .. }), "{refused}");
    streams.set_weather(StreamWeather::calm());
    assert_eq!(open(&streams, WHOLE, Cursor::START).report.end, Cursor::START);
}

/// What a client of the log knows over all its lives.
#[derive(Default)]
struct Known {
    /// Lengths of the records submitted in this history.
    submitted: Vec<usize>,
    acknowledged: usize,
    fenced: u64,
    voided: u64,
}

impl Known {
    /// Writes until it has done enough, or is fenced out by somebody who takes over.
    fn live(&mut self, streams: &FakeStreams, log: &mut Log, next: &mut dyn FnMut(u64) -> u64) {
        for _ in 0..20 + next(100) {
            let done = match next(8) {
                0..3 if log.ready().is_ok() => {
                    let lengths: Vec<usize> = (0..1 + next(4)).map(|_| 1 + next(400) as usize).collect();
                    append(log, &lengths);
                    self.submitted.extend(lengths);
                    Ok(())
                }
                3 if next(20) == 0 => {
                    streams.interrupt(&name_of(WHOLE), next(60));
                    Ok(())
                }
                4 if next(30) == 0 => logs(streams, 2).open(log_of(WHOLE), Cursor::START, SIZES).map(|_| ()),
                _ => {
                    streams.step(&name_of(WHOLE));
                    Ok(())
                }
            };
            match done.and_then(|()| log.poll_durable()) {
                Ok(durable) => self.acknowledged = durable.sequence().0 as usize,
                Err(JournalError::Fenced { .. }) => {
                    self.fenced += 1;
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn run(seed: u64) -> Known {
    let mut random = seed;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let streams = FakeStreams::new(seed);
    let mut known = Known::default();
    for life in 0..6 {
        let (delay, burst) = (1 + next(6), 1 + next(5));
        let [request_loss, outcome_loss, straggle] = std::array::from_fn(|_| next(2) * next(150));
        streams.set_weather(StreamWeather { delay, burst, request_loss, outcome_loss, straggle });
        let opened = logs(&streams, 100 + life).open(log_of(WHOLE), Cursor::START, SIZES);
        // A stream as bad as this may refuse for long; the next life tries again.
        let Ok(Opened { mut log, report }) = opened else { continue };
        let recovered = report.end.sequence.0 as usize;
        assert!(recovered >= known.acknowledged, "seed {seed}: {recovered} of {} are left", known.acknowledged);
        assert!(recovered <= known.submitted.len(), "seed {seed}: more than was submitted");
        known.voided += u64::from(report.bytes_cut > 0);
        known.submitted.truncate(recovered);
        known.acknowledged = recovered;
        let expected: Vec<(u64, usize)> = (1..).zip(known.submitted.iter().copied()).collect();
        assert_eq!(read_all(&log.reader().unwrap(), Cursor::START).unwrap(), expected, "seed {seed}");
        known.live(&streams, &mut log, &mut next);
        if next(3) == 0 {
            streams.kill_clients();
        } else if next(2) == 0 && known.fenced == 0 {
            streams.set_weather(StreamWeather::calm());
            streams.interrupt(&name_of(WHOLE), 0);
            known.acknowledged = log.close().map_or(known.acknowledged, |last| last.0 as usize);
        }
    }
    known
}

#[test]
fn many_lives_keep_what_was_acknowledged() {
    let (mut fenced, mut voided, mut acknowledged) = (0, 0, 0);
    for seed in 0..600 {
        let known = run(seed);
        fenced += known.fenced;
        voided += known.voided;
        acknowledged += known.acknowledged;
    }
    assert!(fenced > 50 && voided > 50 && acknowledged > 5_000, "{fenced} fenced, {voided} voided, {acknowledged}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_groups_are_read_as_they_were_written(
        groups in proptest::collection::vec(proptest::collection::vec(1usize..3_000, 1..5), 1..6), seed in any::<u64>(),
    ) {
        let streams = FakeStreams::new(seed);
        let mut log = open(&streams, WHOLE, Cursor::START).log;
        let mut expected = Vec::new();
        for lengths in &groups {
            let places = append(&mut log, lengths);
            settle(&streams, WHOLE, &mut log);
            expected.extend(places.into_iter().zip(lengths));
        }
        let (reader, mut bytes) = (log.reader().unwrap(), Vec::new());
        for (place, length) in &expected {
            reader.read(*place, &mut bytes).unwrap();
            prop_assert_eq!(bytes.len(), **length);
        }
        prop_assert_eq!(read_all(&reader, Cursor::START).unwrap().len(), expected.len());
    }
}

#[test]
fn a_notice_is_a_group_of_a_writer_of_its_own_and_folds_pass_over_it() {
    let streams = FakeStreams::new(3);
    let mut first = open(&streams, WHOLE, Cursor::START).log;
    append(&mut first, &[10, 500]);
    settle(&streams, WHOLE, &mut first);
    first.close().unwrap();
    let notice = Notice { kind: NoticeKind::LossAccepted, time_ms: 7, lost: None, text: "x".repeat(900) };
    let behind = logs(&streams, 2).append_notice(log_of(WHOLE), Cursor::START, SIZES, &notice).unwrap();
    assert_eq!(behind.sequence, Sequence(2));

    let Opened { mut log, report } = open(&streams, WHOLE, Cursor::START);
    assert_eq!((report.end, report.bytes_cut), (behind, 0));
    append(&mut log, &[20]);
    settle(&streams, WHOLE, &mut log);
    let reader = log.reader().unwrap();
    assert_eq!(read_all(&reader, Cursor::START).unwrap(), [(1, 10), (2, 500), (3, 20)]);
    assert_eq!(read_all(&reader, behind).unwrap(), [(3, 20)]);
    let mut groups = reader.groups(Cursor::START, &reader.settled_end().unwrap()).unwrap();
    groups.next_group().unwrap();
    assert_eq!(groups.next_group().unwrap().unwrap().notice, Some(notice));
    assert_eq!(groups.cursor(), behind);
}

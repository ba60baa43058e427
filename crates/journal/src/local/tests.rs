use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::Retention;
use crate::disk::{FakeDisk, RealDisk};
use crate::segment::{MARK_BYTES, Mark, MarkKind, offset_of, segment_name};

const FAMILY: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const LOG: LogId = FAMILY.log(7, 0);
const SMALL: Options = Options { group_bytes_max: 8 * 1024, record_bytes_max: 2 * 1024, ..Options::small(64 * 1024) };

fn open<D: Disk>(disk: D, data: &Path) -> (LocalLog<D>, RecoveryReport, Receiver<()>) {
    let (sender, woken) = channel();
    let wake: Wake = Arc::new(move || {
        // A test that has ended no longer listens.
        let _ = sender.send(());
    });
    let Opened { mut log, report } = LocalLogs::new(disk, data, &[FAMILY]).open(LOG, Cursor::START, SMALL).unwrap();
    log.set_wake(wake);
    (log, report, woken)
}

fn commit(log: &mut LocalLog<impl Disk>, woken: &Receiver<()>, payloads: &[Vec<u8>]) -> Vec<Position> {
    while log.ready().is_err() {
        woken.recv().unwrap();
        log.poll_durable().unwrap();
    }
    let mut group = log.begin_group();
    let positions = payloads.iter().map(|payload| group.append(|buffer| buffer.extend_from_slice(payload))).collect();
    log.submit(group).unwrap();
    positions
}

fn wait_durable(log: &mut LocalLog<impl Disk>, woken: &Receiver<()>) {
    while log.poll_durable().unwrap().sequence() < log.last_sequence() {
        woken.recv().unwrap();
    }
}

#[test]
fn what_was_committed_is_read_back_over_many_segments_and_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let (mut log, report, woken) = open(RealDisk, data.path());
    assert_eq!((report.end, report.segments), (Cursor::START, 1));
    let mut written = Vec::new();
    for round in 0..200u32 {
        let payloads: Vec<Vec<u8>> =
            (0..20).map(|n| format!("record {round}.{n} {}", "x".repeat(50)).into_bytes()).collect();
        let positions = commit(&mut log, &woken, &payloads);
        assert_eq!(log.peek(positions[3]), Some(&payloads[3][..]), "read while in flight");
        written.extend(positions.into_iter().zip(payloads));
    }
    wait_durable(&mut log, &woken);
    let mut facts = BatchFacts::default();
    log.take_facts(&mut |batch| facts.records += batch.records);
    assert_eq!(facts.records, 4000);
    assert_eq!(log.close().unwrap(), Sequence(4000));

    let (log, report, _woken) = open(RealDisk, data.path());
    assert_eq!((report.end.sequence, report.bytes_cut), (Sequence(4000), 0));
    assert!(report.segments >= 4, "{report:?}");
    let (mut read, reader) = (Vec::new(), log.reader().unwrap());
    for (at, payload) in &written {
        assert_eq!(log.peek(*at), None);
        reader.read(*at, &mut read).unwrap();
        assert_eq!(read, *payload);
    }
    let mut groups = reader.groups(Cursor::START, &report.durability()).unwrap();
    let mut replayed = Vec::new();
    while let Some(group) = groups.next_group().unwrap() {
        replayed.extend(group.records().map(|(_, at, payload)| (at, payload.to_vec())));
    }
    assert_eq!(replayed, written);
    assert_eq!(groups.cursor(), report.end);
}

#[test]
fn a_failed_sync_is_told_to_the_owner_and_nothing_after_it_is_acknowledged() {
    let disk = FakeDisk::new(1);
    let (mut log, _, woken) = open(disk.clone(), Path::new("data"));
    commit(&mut log, &woken, &[b"good".to_vec()]);
    wait_durable(&mut log, &woken);
    disk.fail_next_sync();
    commit(&mut log, &woken, &[b"bad".to_vec()]);
    let failure = loop {
        match log.poll_durable() {
            Ok(durable) => assert_eq!(durable.sequence(), Sequence(1)),
            Err(failure) => break failure,
        }
        woken.recv().unwrap();
    };
    assert!(matches!(failure, JournalError::SyncFailed { .. }), "{failure}");
    assert!(matches!(log.ready(), Err(NotReady::Failed(JournalError::SyncFailed { .. }))));
    let group = log.begin_group();
    assert!(matches!(log.submit(group), Err(JournalError::SyncFailed { .. })));
    assert!(matches!(log.close(), Err(JournalError::SyncFailed { .. })));
}

#[test]
fn a_full_disk_refuses_and_service_resumes_by_itself() {
    let disk = FakeDisk::new(1);
    let (mut log, _, woken) = open(disk.clone(), Path::new("data"));
    disk.set_capacity(disk.used_bytes() + 50_000);
    let record = vec![7; 1000];
    loop {
        match log.ready() {
            Ok(()) => {
                commit(&mut log, &woken, std::slice::from_ref(&record));
            }
            Err(NotReady::DiskFull) => break,
            Err(NotReady::Busy) => woken.recv().unwrap(),
            Err(NotReady::Failed(error)) => panic!("{error}"),
        }
        log.poll_durable().unwrap();
    }
    wait_durable(&mut log, &woken);
    assert!(log.last_sequence().0 > 20, "{}", log.last_sequence());
    disk.set_capacity(u64::MAX);
    // Nothing is submitted and nothing polled: the companion finds the room and wakes its owner.
    while log.ready().is_err() {
        woken.recv().unwrap();
    }
    commit(&mut log, &woken, &[record]);
    wait_durable(&mut log, &woken);
}

#[test]
fn the_tail_is_marked_when_the_log_is_left_alone() {
    let disk = FakeDisk::new(1);
    let (mut log, _, woken) = open(disk.clone(), Path::new("data"));
    commit(&mut log, &woken, &[b"last words".to_vec()]);
    wait_durable(&mut log, &woken);
    let path = Path::new("data/journal/ledger-0").join(segment_name(Cursor::START.position));
    let offset = offset_of(Cursor::START.position, log.poll_durable().unwrap().position()) as usize;
    let mark = loop {
        if let Ok(mark) = Mark::decode(&disk.contents(&path).unwrap()[offset..]) {
            break mark;
        }
        thread::yield_now();
    };
    assert_eq!((mark.kind, mark.end.sequence), (MarkKind::Tail, Sequence(1)));
    // The next group takes the mark's place.
    commit(&mut log, &woken, &[b"and more".to_vec()]);
    wait_durable(&mut log, &woken);
    log.close().unwrap();
    assert_eq!(open(disk, Path::new("data")).1.end.sequence, Sequence(2));
}

#[test]
fn an_empty_group_is_no_group() {
    let (mut log, _, _woken) = open(FakeDisk::new(1), Path::new("data"));
    let group = log.begin_group();
    log.submit(group).unwrap();
    assert_eq!(log.last_sequence(), Sequence(0));
    assert_eq!(log.close().unwrap(), Sequence(0));
}

#[test]
#[should_panic(expected = "a group is begun after the one before it was submitted")]
fn a_group_begun_too_early_is_a_bug() {
    let (mut log, _, woken) = open(FakeDisk::new(1), Path::new("data"));
    let mut early = log.begin_group();
    early.append(|buffer| buffer.push(1));
    commit(&mut log, &woken, &[b"first".to_vec()]);
    let _ = log.submit(early);
}

#[test]
fn news_from_before_somebody_was_named_to_wake_is_asked_for() {
    let data = Path::new("data");
    let logs = LocalLogs::new(FakeDisk::new(1), data, &[FAMILY]);
    let Opened { mut log, .. } = logs.open(LOG, Cursor::START, SMALL).unwrap();
    let mut group = log.begin_group();
    group.append(|buffer| buffer.push(1));
    log.submit(group).unwrap();
    while !log.has_news() {
        thread::yield_now();
    }
    let (sender, woken) = channel();
    log.set_wake(Arc::new(move || {
        let _ = sender.send(());
    }));
    assert_eq!(log.poll_durable().unwrap().sequence(), Sequence(1));
    commit(&mut log, &woken, &[b"second".to_vec()]);
    wait_durable(&mut log, &woken);
    assert_eq!(log.close().unwrap(), Sequence(2));
}

/// A full disk is asked now and then: some file systems take long to say no, and nobody may be waiting.
#[test]
fn a_full_disk_is_asked_ever_less_often_and_little_is_asked_for() {
    let disk = FakeDisk::new(1);
    let (mut log, _, woken) = open(disk.clone(), Path::new("/data"));
    disk.set_capacity(disk.used_bytes());
    while !matches!(log.ready(), Err(NotReady::DiskFull)) {
        if log.ready().is_ok() {
            let mut group = log.begin_group();
            group.append(|buffer| buffer.extend_from_slice(&[7; 1_500]));
            log.submit(group).unwrap();
        }
        woken.recv().unwrap();
        log.poll_durable().unwrap();
    }
    // Its tail is marked meanwhile.
    thread::sleep(std::time::Duration::from_millis(300));
    let before = disk.counts().operations;
    thread::sleep(std::time::Duration::from_millis(3_000));
    let asked = disk.counts().operations - before;
    assert!((1..=5).contains(&asked), "{asked} times in three seconds");
    disk.set_capacity(u64::MAX);
    let begun = Instant::now();
    while log.ready().is_err() {
        woken.recv().unwrap();
    }
    assert!(begun.elapsed().as_secs() < 3, "room is found again");
    log.close().unwrap();
}

#[test]
fn others_see_how_far_it_is_durable_and_whether_there_is_room() {
    let disk = FakeDisk::new(1);
    let (mut log, report, woken) = open(disk.clone(), Path::new("data"));
    let (end, room) = (log.durable_end(), log.disk_room());
    assert_eq!((end.cursor(), room.is_full()), (report.end, false));
    for _ in 0..5 {
        commit(&mut log, &woken, &[vec![7; 100]]);
        wait_durable(&mut log, &woken);
        let durable = log.poll_durable().unwrap();
        assert_eq!(Some(end.cursor()), durable.cursor(), "the one who sealed the group told its chain");
    }
    let until_full = |log: &mut LocalLog<FakeDisk>| {
        while !room.is_full() {
            if log.ready().is_ok() {
                commit(log, &woken, &[vec![7; 1_500]]);
            }
            log.poll_durable().unwrap();
            thread::yield_now();
        }
        room.failure().map(|error| error.to_string())
    };
    disk.set_capacity(disk.used_bytes());
    assert_eq!(until_full(&mut log), None);
    disk.set_capacity(u64::MAX);
    while room.is_full() {
        thread::yield_now();
    }
    disk.fail_allocations(true);
    let told = until_full(&mut log).expect("the disk is not full");
    assert!(told.contains("allocate room in") && told.contains("input/output error"), "{told}");
    disk.fail_allocations(false);
    while room.is_full() {
        thread::yield_now();
    }
    log.close().unwrap();
}

#[test]
fn a_log_that_is_dropped_has_written_what_it_was_given_and_its_thread_has_ended() {
    for round in 0..20 {
        let (mut log, _, woken) = open(FakeDisk::new(round), Path::new("data"));
        for _ in 0..20 {
            commit(&mut log, &woken, &[vec![7; 1_000]]);
        }
        let (end, last) = (log.durable_end(), log.last_sequence());
        drop(log);
        assert_eq!((end.cursor().sequence, Arc::strong_count(&end.progress)), (last, 1));
    }
}

#[test]
fn a_log_that_is_created_has_its_first_segment() {
    let (disk, data) = (FakeDisk::new(1), Path::new("data"));
    LocalLogs::new(disk.clone(), data, &[FAMILY]).create(LOG).unwrap();
    let names: Vec<_> = disk.files().into_iter().map(|(path, _)| path).collect();
    assert!(names.iter().any(|path| path.ends_with(segment_name(Cursor::START.position))), "{names:?}");
}

#[test]
fn who_waits_for_room_is_woken_when_there_is_more_and_not_when_nothing_has_changed() {
    let (disk, progress) = (FakeDisk::new(1), Arc::new(Progress::default()));
    let logs = LocalLogs::new(disk, Path::new("data"), &[FAMILY]);
    logs.create(LOG).unwrap();
    let (writer, _) = recovery::open(logs.folders.of(LOG), SMALL, Cursor::START).unwrap();
    let (sender, woken) = channel();
    *progress.wake.lock().unwrap() = Some(Arc::new(move || sender.send(()).expect("the test listens")));
    let (inbox, facts) = (sync_channel(1).1, sync_channel(1).0);
    let mut companion = Companion::new(writer, inbox, progress.clone(), facts);
    for wakes in [1, 0, 0] {
        companion.claim_room();
        assert_eq!(woken.try_iter().count(), wakes);
    }
    assert!(progress.room_up_to.load(Ordering::Acquire) > 0);
}

/// A group and its mark fill a segment to the last byte: the next segment begins behind them, not before.
#[test]
fn a_segment_is_filled_to_its_last_byte() {
    let disk = FakeDisk::new(1);
    let (mut log, _, woken) = open(disk.clone(), Path::new("data"));
    let mut commit = |byte: u8, bytes: usize| {
        let before = log.durable_end().cursor().position.0;
        commit(&mut log, &woken, &[vec![byte; bytes]]);
        wait_durable(&mut log, &woken);
        log.durable_end().cursor().position.0 - before - bytes as u64
    };
    let around = commit(1, 1_000);
    let used = |groups: u64| offset_of(Position(0), Position(groups * (around + 1_000))) + MARK_BYTES as u64;
    let groups = (1..).find(|groups| SMALL.segment_bytes - used(*groups) < 2_000).expect("a segment ends");
    (1..groups).for_each(|_| assert_eq!(commit(1, 1_000), around));
    let last = SMALL.segment_bytes - used(groups) - around;
    assert_eq!(commit(2, last as usize), around);
    commit(3, 1_000);
    let first =
        disk.contents(&Path::new("data/journal/ledger-0").join(segment_name(Position(0)))).expect("it is there");
    let count = |byte: u8| first.windows(100).filter(|some| *some == [byte; 100]).count();
    assert_eq!((count(2), count(3)), (last as usize - 99, 0));
}

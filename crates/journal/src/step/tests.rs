use super::*;
use crate::Retention;
use crate::disk::FakeDisk;

const FAMILY: Family = Family { number: 1, name: "ledger", retention: Retention::Whole };
const LOG: LogId = FAMILY.log(5, 0);
const SMALL: Options = Options::small(16 * 1024);

fn data() -> &'static Path {
    Path::new("data")
}

fn open(disk: &FakeDisk) -> Result<StepLog<FakeDisk>, JournalError> {
    Ok(opened(disk)?.log)
}

fn opened(disk: &FakeDisk) -> Result<Opened<StepLog<FakeDisk>>, JournalError> {
    StepLogs::new(disk.clone(), data(), &[FAMILY]).open(LOG, Cursor::START, SMALL)
}

/// A log under test with what its client knows: each record says its sequence and the life in which it was submitted.
struct Client {
    submitted: Vec<Vec<u8>>,
    acknowledged: u64,
    life: u32,
}

impl Client {
    /// Works until the disk stops: submits groups of uneven sizes, steps, polls.
    fn live(&mut self, log: &mut StepLog<FakeDisk>, mut random: u64) -> JournalError {
        loop {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let choice = random >> 33;
            let done = match choice % 3 {
                0 if log.ready().is_ok() => self.submit(log, (choice / 3 % 30) as usize),
                _ => log.step().map(|_| ()),
            };
            match done.and_then(|()| log.poll_durable()) {
                Ok(durable) => self.acknowledged = self.acknowledged.max(durable.sequence().0),
                Err(error) => return error,
            }
        }
    }

    fn submit(&mut self, log: &mut StepLog<FakeDisk>, records: usize) -> Result<(), JournalError> {
        self.submitted.truncate(log.last_sequence().0 as usize);
        let mut group = log.begin_group();
        for _ in 0..records {
            let record = format!("{} in life {}: {}", self.submitted.len() + 1, self.life, "x".repeat(records * 3));
            group.append(|buffer| buffer.extend_from_slice(record.as_bytes()));
            self.submitted.push(record.into_bytes());
        }
        log.submit(group)
    }

    /// Everything acknowledged is there, once, in order, and nothing is there that was not submitted.
    fn check(&self, log: &mut StepLog<FakeDisk>, seed: u64) {
        let recovered = log.last_sequence().0;
        assert!(recovered >= self.acknowledged, "seed {seed}: {recovered} of {} recovered", self.acknowledged);
        let durable = log.poll_durable().unwrap();
        let mut groups = log.reader().unwrap().groups(Cursor::START, &durable).unwrap();
        let mut expected = self.submitted.iter();
        let mut last = Sequence(0);
        while let Some(group) = groups.next_group().unwrap() {
            for (sequence, _, payload) in group.records() {
                assert_eq!(Some(payload), expected.next().map(|record| &record[..]), "seed {seed}");
                last = sequence;
            }
        }
        assert_eq!(last.0, recovered, "seed {seed}");
    }
}

fn live_through(seed: u64, lives: u32, mut end_of_life: impl FnMut(&FakeDisk, u64)) -> u64 {
    let disk = FakeDisk::new(seed);
    let mut client = Client { submitted: Vec::new(), acknowledged: 0, life: 0 };
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while client.life < lives {
        client.life += 1;
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        disk.crash_after_ops((random >> 33) % 60);
        // The machine may stop, and a sync may fail, while it recovers, too.
        match open(&disk) {
            Ok(mut log) => {
                client.check(&mut log, seed);
                client.submitted.truncate(log.last_sequence().0 as usize);
                client.live(&mut log, random);
            }
            Err(error) => {
                let failed_sync = error.to_string().contains("input/output error");
                assert!(disk.has_stopped() || failed_sync, "seed {seed}: {error}");
            }
        }
        end_of_life(&disk, random >> 20);
    }
    disk.kill();
    let mut log = open(&disk).unwrap();
    client.check(&mut log, seed);
    client.acknowledged
}

#[test]
fn no_acknowledged_record_is_lost_over_many_power_failures() {
    let acknowledged: u64 = (0..150).map(|seed| live_through(seed, 20, |disk, _| disk.crash())).sum();
    assert!(acknowledged > 150 * 500, "the test must get somewhere: {acknowledged}");
}

#[test]
fn no_acknowledged_record_is_lost_over_kills_failed_syncs_and_power_failures() {
    for seed in 0..150 {
        live_through(seed, 20, |disk, random| {
            match random % 3 {
                0 => disk.crash(),
                _ => disk.kill(),
            }
            if random % 5 == 0 {
                disk.fail_next_sync();
            }
        });
    }
}

#[test]
fn a_failed_sync_stops_the_log_for_good_and_pages_called_clean_are_written_again_at_the_next_start() {
    for seed in 0..40 {
        let disk = FakeDisk::new(seed);
        let mut log = open(&disk).unwrap();
        let mut client = Client { submitted: Vec::new(), acknowledged: 0, life: 1 };
        client.submit(&mut log, 10).unwrap();
        while log.step().unwrap() != Step::Wrote {}
        disk.fail_next_sync();
        assert!(matches!(log.step(), Err(JournalError::SyncFailed { .. })));
        for _ in 0..2 {
            assert!(matches!(log.step(), Err(JournalError::SyncFailed { .. })), "no second try");
            assert!(matches!(log.poll_durable(), Err(JournalError::SyncFailed { .. })));
            assert!(matches!(log.ready(), Err(NotReady::Failed(JournalError::SyncFailed { .. }))));
            let group = log.begin_group();
            assert!(matches!(log.submit(group), Err(JournalError::SyncFailed { .. })));
        }
        disk.kill();
        // The page cache still has the group, so it is recovered; only then a power failure would show what the disk
        // has.
        let mut log = open(&disk).unwrap();
        assert_eq!(log.last_sequence(), Sequence(10));
        client.submit(&mut log, 10).unwrap();
        while log.poll_durable().unwrap().sequence() < Sequence(20) {
            log.step().unwrap();
        }
        client.acknowledged = 20;
        disk.crash();
        client.check(&mut open(&disk).unwrap(), seed);
    }
}

#[test]
fn a_full_disk_is_refused_at_the_door_and_service_resumes() {
    for spare in (0..40).map(|n| n * 1000) {
        let disk = FakeDisk::new(1);
        let mut log = open(&disk).unwrap();
        let mut client = Client { submitted: Vec::new(), acknowledged: 0, life: 1 };
        disk.set_capacity(disk.used_bytes() + spare);
        let mut full_times = 0;
        while client.acknowledged < 3000 {
            match log.ready() {
                Ok(()) => client.submit(&mut log, 29).unwrap(),
                Err(NotReady::Busy) => {}
                Err(NotReady::DiskFull) => {
                    full_times += 1;
                    while log.step().unwrap() != Step::Idle {}
                    client.acknowledged = log.poll_durable().unwrap().sequence().0;
                    assert_eq!(log.last_sequence().0, client.acknowledged, "what was let in becomes durable");
                    if log.ready().is_ok() {
                        // A segment was sealed meanwhile, and what it had too much was room for the next.
                        continue;
                    }
                    disk.set_capacity(disk.used_bytes() + 16_000 + spare);
                    while log.step().unwrap() != Step::Idle {}
                    assert!(log.ready().is_ok(), "there is room again");
                }
                Err(NotReady::Failed(error)) => panic!("{error}"),
            }
            log.step().unwrap();
            client.acknowledged = log.poll_durable().unwrap().sequence().0;
        }
        assert!(full_times > 3, "{full_times}");
        log.close().unwrap();
        disk.set_capacity(u64::MAX);
        client.check(&mut open(&disk).unwrap(), spare);
    }
}

#[test]
fn a_graceful_stop_leaves_nothing_to_cut_and_nothing_unproven() {
    let disk = FakeDisk::new(1);
    let mut log = open(&disk).unwrap();
    let mut client = Client { submitted: Vec::new(), acknowledged: 0, life: 1 };
    client.submit(&mut log, 10).unwrap();
    assert_eq!(log.close().unwrap(), Sequence(10));
    disk.crash();
    let Opened { log, report } = opened(&disk).unwrap();
    assert_eq!((report.end.sequence, report.bytes_cut), (Sequence(10), 0));
    assert_eq!(log.proven_up_to(), report.end.position);
}

#[test]
fn another_reader_follows_the_writer_over_segments() {
    let disk = FakeDisk::new(1);
    let mut log = open(&disk).unwrap();
    let mut client = Client { submitted: Vec::new(), acknowledged: 0, life: 1 };
    let reader = log.reader().unwrap();
    let mut groups = reader.groups(Cursor::START, &log.poll_durable().unwrap()).unwrap();
    let (mut followed, mut single) = (0, Vec::new());
    for _ in 0..60 {
        client.submit(&mut log, 20).unwrap();
        while log.poll_durable().unwrap().sequence() < log.last_sequence() {
            log.step().unwrap();
        }
        groups.extend_to(&log.poll_durable().unwrap());
        while let Some(group) = groups.next_group().unwrap() {
            for (sequence, at, payload) in group.records() {
                followed += 1;
                assert_eq!(sequence.0, followed);
                reader.read(at, &mut single).unwrap();
                assert_eq!(single, payload);
            }
        }
        assert_eq!(followed, log.last_sequence().0);
        while log.step().unwrap() != Step::Idle {}
    }
    assert!(disk.files().len() > 4);
}

#[test]
fn whoever_has_the_handle_steps_a_log_that_somebody_else_owns() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let disk = FakeDisk::new(1);
    let mut log = open(&disk).unwrap();
    let (handle, woken) = (log.handle(), Arc::new(AtomicU32::new(0)));
    let counter = woken.clone();
    log.set_wake(Arc::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    }));
    let mut client = Client { submitted: Vec::new(), acknowledged: 0, life: 1 };
    client.submit(&mut log, 10).unwrap();
    assert_eq!((handle.step().unwrap(), woken.load(Ordering::Relaxed)), (Step::Wrote, 0), "written is no news");
    assert!(!log.has_news());
    assert_eq!((handle.clone().step().unwrap(), woken.load(Ordering::Relaxed)), (Step::Synced, 1));
    assert!(log.has_news());
    assert_eq!(handle.proven_up_to(), Position(0), "nothing later vouches for it yet");
    let durable = log.poll_durable().unwrap();
    assert_eq!((durable.sequence(), log.has_news()), (Sequence(10), false));
    while handle.step().unwrap() != Step::Idle {}
    assert_eq!(handle.proven_up_to(), durable.position());
    // A failure is the log's, whoever stepped it.
    client.submit(&mut log, 1).unwrap();
    handle.step().unwrap();
    disk.fail_next_sync();
    assert!(handle.step().is_err() && log.has_news() && log.poll_durable().is_err());
}

#[test]
#[should_panic(expected = "its family was not declared")]
fn a_log_of_a_family_that_was_not_declared_is_a_bug() {
    let _ = StepLogs::new(FakeDisk::new(1), data(), &[FAMILY]).reader(LogId { family: 2, ..LOG });
}

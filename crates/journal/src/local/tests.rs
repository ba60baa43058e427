use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::disk::RealDisk;

const LOG: LogId = LogId { directory: 7, shard: 0 };
const SMALL: Options =
    Options { segment_bytes: 64 * 1024, allocation_step_bytes: 16 * 1024, group_bytes_max: 8 * 1024 };

fn open(data: &Path) -> (LocalLog<RealDisk>, RecoveryReport, Receiver<()>) {
    let (sender, woken) = channel();
    let wake: Wake = Arc::new(move || {
        // A test that has ended no longer listens.
        let _ = sender.send(());
    });
    let (log, report) = LocalLog::open(RealDisk, data, LOG, SMALL, wake).unwrap();
    (log, report, woken)
}

fn commit(log: &mut LocalLog<RealDisk>, woken: &Receiver<()>, payloads: &[Vec<u8>]) -> Vec<Position> {
    while log.ready().is_err() {
        woken.recv().unwrap();
        log.poll_durable().unwrap();
    }
    let mut group = log.begin_group();
    let positions = payloads.iter().map(|payload| group.append(|buffer| buffer.extend_from_slice(payload))).collect();
    log.submit(group).unwrap();
    positions
}

fn wait_durable(log: &mut LocalLog<RealDisk>, woken: &Receiver<()>) {
    while log.poll_durable().unwrap() < log.last_sequence() {
        woken.recv().unwrap();
    }
}

#[test]
fn what_was_committed_is_read_back_over_many_segments_and_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let (mut log, report, woken) = open(data.path());
    assert_eq!((report.end, report.segments), (Cursor::START, 1));
    let mut written = Vec::new();
    for round in 0..200u32 {
        let payloads: Vec<Vec<u8>> =
            (0..20).map(|n| format!("record {round}.{n} {}", "x".repeat(50)).into_bytes()).collect();
        let positions = commit(&mut log, &woken, &payloads);
        let mut read = Vec::new();
        log.read_record(positions[3], &mut read).unwrap();
        assert_eq!(read, payloads[3], "read while in flight");
        written.extend(positions.into_iter().zip(payloads));
    }
    wait_durable(&mut log, &woken);
    let mut facts = BatchFacts::default();
    log.drain_facts(|batch| facts.records += batch.records);
    assert_eq!(facts.records, 4000);
    assert_eq!(log.close().unwrap(), Sequence(4000));

    let (log, report, _woken) = open(data.path());
    assert_eq!((report.end.sequence, report.bytes_cut), (Sequence(4000), 0));
    assert!(report.segments >= 4, "{report:?}");
    let mut read = Vec::new();
    for (at, payload) in &written {
        log.read_record(*at, &mut read).unwrap();
        assert_eq!(read, *payload);
    }
    let mut groups = log.read_from(Cursor::START).unwrap();
    let mut replayed = Vec::new();
    while let Some(group) = groups.next_group().unwrap() {
        replayed.extend(group.records().map(|(_, at, payload)| (at, payload.to_vec())));
    }
    assert_eq!(replayed, written);
    assert_eq!(groups.cursor(), report.end);
}

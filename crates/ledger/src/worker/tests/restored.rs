//! Logs that were put back from a copy, beside snapshots of what came later.

use super::*;

/// All files of the journal, as a backup has them.
fn back_up(disk: &FakeDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let journal = disk.files().into_iter().map(|(path, _)| path).filter(|path| path.starts_with("/data/journal"));
    journal.map(|path| (path.clone(), disk.contents(&path).expect("it is listed"))).collect()
}

/// Puts exactly these files back, and leaves all others as they are.
fn restore(disk: &FakeDisk, backup: &[(PathBuf, Vec<u8>)]) {
    for (path, _) in disk.files().into_iter().filter(|(path, _)| path.starts_with("/data/journal")) {
        disk.remove(&path).expect("it is listed");
    }
    for (path, contents) in backup {
        let file = disk.create_new(path).expect("it was removed");
        file.write_all_at(contents, 0).and_then(|()| file.sync_data()).expect("there is room");
        disk.sync_dir(path.parent().expect("in a folder")).expect("the disk works");
    }
}

/// Writes a snapshot of what the journal gives now, as the auditor does.
pub(super) fn write_snapshot(disk: &FakeDisk) {
    let open: OpenShard<LedgerFamily, _, _> =
        OpenShard::open(&logs(disk), snapshots(disk, 0), SMALL).expect("the log is whole");
    let end = open.recovered().end;
    let back = open.replay(1, &mut NothingDerived, |_| {}).expect("the log is whole");
    let end = tidegate_shard::Stand { cursor: end, ..tidegate_shard::Stand::default() };
    snapshots(disk, 0).write(&end, &back.state, |_| Ok(true)).expect("there is room");
}

/// Two timelines part after two sales. A disk with the journal of the one and a snapshot of the other.
#[track_caller]
fn restored(of_snapshot: &[&str], of_journal: &[&str]) -> FakeDisk {
    let stop = |node: TestWorker| {
        node.worker.into_logs().into_iter().for_each(|log| _ = log.close().expect("the disk works"));
        node.disk
    };
    let lived = |disk: FakeDisk, ids: &[&str]| {
        let mut node = TestWorker::over(disk, 1);
        ids.iter().for_each(|id| assert_eq!(node.ask(sale(id)), Reply::Outcomes(vec![Outcome::Applied])));
        stop(node)
    };
    let disk = lived(TestWorker::with_a_durable_vote().disk, &["before they part"]);
    let parted = back_up(&disk);
    let disk = lived(disk, of_journal);
    let backup = back_up(&disk);
    restore(&disk, &parted);
    let disk = lived(disk, of_snapshot);
    write_snapshot(&disk);
    restore(&disk, &backup);
    disk
}

/// What a start finds there: the wallet's credits, and the node.
#[track_caller]
fn after_a_restore(of_snapshot: &[&str], of_journal: &[&str]) -> (u64, TestWorker) {
    let mut node = TestWorker::over(restored(of_snapshot, of_journal), 1);
    let credits = match node.ask(Request::ReadAccount { id: "wallet".into() }) {
        Reply::Account(account) => account.balance as u64,
        other => panic!("{other:?}"),
    };
    (credits, node)
}

#[test]
fn a_snapshot_of_another_timeline_is_passed_over_after_a_restore() {
    // The groups of the new timeline end where those of the old one did: only the chain tells them apart.
    let (credits, node) = after_a_restore(&["a1", "a2", "a3"], &["b1", "b2", "b3"]);
    assert_eq!(credits, 5);
    let passed_over = &node.replayed.snapshots_passed_over;
    assert!(
        matches!(&passed_over[..], [one] if one.contains("is of another history") && one.contains("set aside")),
        "{passed_over:?}"
    );
    // The same, in the middle of the log, and of other lengths.
    let (credits, node) = after_a_restore(&["a1", "a2"], &["b1", "b2", "b3", "b4"]);
    assert_eq!((credits, node.replayed.snapshots_passed_over.len()), (6, 1));
    let (credits, node) = after_a_restore(&["a long id", "another"], &["b", "c", "d", "e", "f"]);
    assert_eq!((credits, node.replayed.snapshots_passed_over.len()), (7, 1));
    // It is out of the way then.
    let node = TestWorker::over(node.disk, 1);
    assert_eq!(node.replayed.snapshots_passed_over, [""; 0]);
    // From before they part, it is of use to both.
    let (credits, node) = after_a_restore(&[], &["b1"]);
    assert_eq!((credits, node.replayed.snapshot_sequence, node.replayed.snapshots_passed_over.len()), (3, 4, 0));
}

#[test]
fn a_snapshot_ahead_of_the_log_stops_the_start_until_the_loss_is_accepted() {
    let disk = restored(&["a1", "a2", "a3"], &["b1"]);
    let refused =
        OpenShard::open(&logs(&disk), snapshots(&disk, 0), SMALL).err().expect("two sales are lost").to_string();
    assert!(refused.starts_with("records 6 to 7 are lost: journal/ledger-0 ends at sequence 5"), "{refused}");
    let notice = Notice { kind: NoticeKind::Restored, time_ms: 7, lost: None, text: "a copy of yesterday".into() };
    logs(&disk).append_notice(log_id(0), Cursor::START, SMALL, &notice).expect("it is written");

    let mut node = TestWorker::over(disk, 1);
    let wallet = node.ask(Request::ReadAccount { id: "wallet".into() });
    assert!(matches!(&wallet, Reply::Account(wallet) if wallet.balance == 3), "{wallet:?}");
    let passed_over = &node.replayed.snapshots_passed_over;
    assert!(
        matches!(&passed_over[..], [one] if one.contains("is ahead of the log's end") && one.contains("set aside")),
        "{passed_over:?}"
    );
}

//! The id index of a shard: what is covered behind a snapshot, what a tool makes, other timelines, bounded turns.

use tidegate_journal::{Position, Timeline};
use tidegate_machines::Place;
use tidegate_machines::ledger::{Event, Ledger};
use tidegate_shard::{Derived, OpenError};

use super::restored::write_snapshot;
use super::*;
use crate::ids::make::{MadeId, Maker};
use crate::ids::{IdsError, claim};
use crate::operation::{Message, Operation};
use crate::room::claim_of_index;

/// Has the ids of all that is durable covered, as the auditor does behind a snapshot.
fn cover_ids(node: &mut TestWorker) {
    let asked = Message::Call {
        from: Address::new(7, 0),
        ticket: 1,
        caller: Caller::SERVER,
        shard: ShardIndex(0),
        operation: Operation::CoverIds,
    };
    let (mut out, mut finished) = (Outgoing::new(), Finished::new());
    node.worker.deliver(asked, &mut out, &mut finished);
    for _ in 0..64 {
        node.worker.step(node.now, &mut out, &mut finished);
    }
    assert!(matches!(&out[..], [(_, Message::Answer { answer: Ok(_), .. })]), "{out:?}");
}

#[test]
fn a_restart_reads_only_what_is_behind_the_snapshot_however_few_ids_there_are() {
    for covered in [false, true] {
        let mut node = TestWorker::with_a_durable_vote();
        for n in 0..100 {
            assert_eq!(node.ask(sale(&format!("before-{n}"))), Reply::Outcomes(vec![Outcome::Applied]));
        }
        write_snapshot(&node.disk);
        if covered {
            cover_ids(&mut node);
        }
        for n in 0..3 {
            assert_eq!(node.ask(sale(&format!("behind-{n}"))), Reply::Outcomes(vec![Outcome::Applied]));
        }
        let mut node = TestWorker::over(node.disk, 1);
        let report = &node.replayed;
        assert_eq!((report.snapshot_sequence, report.events), (103, 3));
        assert_eq!(report.derived_only, if covered { 0 } else { 103 });
        for id in ["before-0", "before-99", "behind-0", "behind-2"] {
            assert_eq!(node.ask(sale(id)), Reply::Outcomes(vec![Outcome::Duplicate]), "{id}");
        }
    }
}

#[test]
fn ids_that_a_tool_makes_are_the_files_that_requests_make() {
    let uuid = |n: u64, millis: u64| format!("{:08x}-{:04x}-7000-8000-{n:012x}", millis >> 16, millis & 0xFFFF);
    let mut node = TestWorker::open(1);
    node.now = TimeMs(1_700_000_000_000);
    node.ask_all(vec![open("source", AccountKind::Source), open("wallet", AccountKind::Wallet)]);
    for batch in 0..500 {
        node.now.0 += 400;
        let ids = (0..40).map(|n| batch * 40 + n).map(|n| match n % 4 {
            0 => format!("order-{n}"),
            // A time of now, one of long ago, and a day.
            1 => uuid(n, node.now.0 + n % 7 * 1_000),
            2 => uuid(n, n),
            _ => format!("till:20231114:1:{n:06}"),
        });
        let items: Vec<_> = ids.map(|id| (id, "source".into(), "wallet".into())).collect();
        assert_eq!(node.ask(transfers(&items)), Reply::Outcomes(vec![Outcome::Applied; 40]));
    }
    cover_ids(&mut node);
    let folder = Path::new(DATA).join("ids").join("ledger-0");
    let files = |disk: &FakeDisk| -> Vec<(PathBuf, Vec<u8>)> {
        let in_folder = disk.files().into_iter().map(|(path, _)| path).filter(|path| path.starts_with(&folder));
        in_folder.map(|path| (path.clone(), disk.contents(&path).expect("it is listed"))).collect()
    };
    let of_requests = files(&node.disk);
    assert!(of_requests.len() >= 4, "a manifest and several runs");

    // The tool is told of the same records, which the journal has.
    let open: OpenShard<LedgerFamily, _, _> =
        OpenShard::open(&logs(&node.disk), snapshots(&node.disk, 0), SMALL).expect("the log is whole");
    let end = open.recovered().end;
    let disk = FakeDisk::new(2);
    let mut records = Records(Vec::new());
    open.replay(1, &mut records, |_| {}).expect("the log is whole");
    let count = records.0.len() as u64;
    let maker = Maker::begin(disk.clone(), &folder, ids_options(), count, end).expect("the disk works");
    let made = maker.make(|n, gathering| {
        let (id, position, now) = &records.0[n as usize];
        gathering.add(n, MadeId { id: id.as_bytes(), position: *position, now: *now });
    });
    let facts = made.expect("the disk works");
    assert_eq!(facts.entries, 20_000);
    let of_tool = files(&disk);
    assert_eq!(
        of_tool.iter().map(|(path, _)| path).collect::<Vec<_>>(),
        of_requests.iter().map(|(path, _)| path).collect::<Vec<_>>()
    );
    assert!(of_tool == of_requests, "each file has the same bytes");
}

/// What a replay passes: ids, where their records stand, and when these were decided, in seconds.
struct Records(Vec<(String, Position, u32)>);

impl Derived<Ledger> for Records {
    type Error = IdsError;

    fn covered(&self) -> Position {
        Position(0)
    }

    fn note(&mut self, event: &Event<'_>, at: Place) {
        let Some(id) = event.id() else { return };
        let now = (event.time().0 / 1_000) as u32;
        self.0.push((id.to_owned(), Position(at.position.0), now));
    }

    fn stands_on(&self) -> Cursor {
        Cursor::START
    }

    fn give_up(&mut self) -> Result<(), IdsError> {
        Ok(())
    }

    fn catch_up(&mut self, _reached: Cursor) -> Result<(), IdsError> {
        Ok(())
    }

    fn belong_to(&mut self, _timeline: Timeline) -> Result<bool, IdsError> {
        Ok(true)
    }
}

/// Has `batches` decided; how many of their items at most were decided in one turn.
fn decided_in_turns(node: &mut TestWorker, batches: Vec<Request>) -> u64 {
    let (mut out, mut finished) = (Outgoing::new(), Finished::new());
    let count = batches.len();
    for (token, request) in batches.into_iter().enumerate() {
        node.worker.start(token as u64, request, &mut out, &mut finished);
    }
    let mut most = 0;
    while finished.len() < count {
        let before = node.worker.shards()[0].appended().0;
        node.turn(&mut finished);
        most = most.max(node.worker.shards()[0].appended().0 - before);
    }
    assert!(finished.iter().all(|(_, reply)| matches!(reply, Reply::Outcomes(_))));
    most
}

#[test]
fn a_turn_decides_no_more_than_others_can_wait_for() {
    let options = Options { segment_bytes: 64 << 20, group_bytes_max: 4 << 20, ..SMALL };
    let mut node = TestWorker::with(TestWorker::with_a_durable_vote().disk, 1, options);
    let batch = |name: &str| {
        let items = (0..8_000).map(|n| (format!("{name}-{n}"), "source".into(), "wallet".into()));
        transfers(&items.collect::<Vec<_>>())
    };
    let most = decided_in_turns(&mut node, vec![batch("a"), batch("b"), batch("c")]);
    assert_eq!(most, crate::limits::DECISIONS_PER_STEP as u64);
}

/// A log of so many sales with ids that begin with `name`, with a snapshot at its end and an id index that covers it.
fn history_of(name: &str, sales: usize) -> FakeDisk {
    let mut node = TestWorker::with_a_durable_vote();
    for n in 0..sales {
        assert_eq!(node.ask(sale(&format!("{name}-{n}"))), Reply::Outcomes(vec![Outcome::Applied]));
    }
    write_snapshot(&node.disk);
    cover_ids(&mut node);
    let TestWorker { worker, disk, .. } = node;
    worker.into_logs().into_iter().for_each(|log| _ = log.close().expect("the disk works"));
    disk
}

#[test]
fn an_id_index_of_another_history_is_built_again_by_the_start() {
    let (disk, other) = (history_of("first", 5), history_of("second", 9));
    let journal = Path::new(DATA).join("journal");
    let files =
        |disk: &FakeDisk| disk.files().into_iter().map(|(path, _)| path).filter(|path| path.starts_with(&journal));
    files(&disk).collect::<Vec<_>>().iter().for_each(|path| disk.remove(path).expect("it is there"));
    for path in files(&other).collect::<Vec<_>>() {
        let bytes = other.contents(&path).expect("it is listed");
        let file = disk.create_new(&path).expect("it was removed");
        file.write_all_at(&bytes, 0).and_then(|()| file.sync_data()).expect("the disk works");
        disk.sync_dir(path.parent().expect("a folder")).expect("the disk works");
    }
    let folder = Path::new(DATA).join("ids").join("ledger-0");
    let place = claim(&disk, &folder).and_then(|claim| claim.stands_on).expect("it is covered");
    let end = claim(&other, &folder).and_then(|claim| claim.stands_on).expect("it is covered");
    assert!(place.position < end.position, "nothing is proven to be lost");

    let mut node = TestWorker::over(disk, 1);
    assert_eq!(node.replayed.events, end.sequence.0, "its snapshot is of another history, too");
    for id in ["vote", "second-0", "second-4", "second-8"] {
        assert_eq!(node.ask(sale(id)), Reply::Outcomes(vec![Outcome::Duplicate]), "{id}");
    }
    assert_eq!(node.ask(sale("first-0")), Reply::Outcomes(vec![Outcome::Applied]));
    write_snapshot(&node.disk);
    cover_ids(&mut node);
    let node = TestWorker::over(node.disk, 1);
    assert_eq!((node.replayed.events, node.replayed.derived_only), (0, 0), "once");
}

#[test]
fn an_id_index_of_a_timeline_that_was_left_is_built_again_by_the_start() {
    let mut node = TestWorker::with_a_durable_vote();
    for n in 0..5 {
        assert_eq!(node.ask(sale(&format!("before-{n}"))), Reply::Outcomes(vec![Outcome::Applied]));
    }
    write_snapshot(&node.disk);
    cover_ids(&mut node);
    let TestWorker { worker, disk, .. } = node;
    worker.into_logs().into_iter().for_each(|log| _ = log.close().expect("the disk works"));
    let folder = Path::new(DATA).join("ids").join("ledger-0");
    let timeline_of_index = |disk: &FakeDisk| claim(disk, &folder).expect("there is an index").timeline;
    assert_eq!(timeline_of_index(&disk), Timeline::FIRST);
    let notice = Notice { kind: NoticeKind::LossAccepted, time_ms: 7, lost: None, text: "gone for ever".into() };
    logs(&disk).append_notice(log_id(0), Cursor::START, SMALL, &notice).expect("it is written");

    let mut node = TestWorker::over(disk, 1);
    let report = node.replayed.clone();
    assert_ne!(report.timelines.current(), Timeline::FIRST);
    assert_eq!((report.snapshot_sequence, report.events, report.derived_only), (8, 0, 8), "all ids are read again");
    for id in ["vote", "before-0", "before-4"] {
        assert_eq!(node.ask(sale(id)), Reply::Outcomes(vec![Outcome::Duplicate]), "{id}");
    }
    cover_ids(&mut node);
    assert_eq!(timeline_of_index(&node.disk), report.timelines.current());
    let node = TestWorker::over(node.disk, 1);
    assert_eq!((node.replayed.snapshot_sequence, node.replayed.derived_only), (8, 0), "once");
}

/// Puts an index beside the log of shard 0 that was made of `log`, up to a place far behind that log's end.
fn put_index_of(disk: &FakeDisk, log: LogId) {
    let folder = Path::new(DATA).join("ids").join("ledger-0");
    let old = disk.files().into_iter().map(|(path, _)| path).filter(|path| path.starts_with(&folder));
    old.for_each(|path| disk.remove(&path).expect("it is there"));
    let end = Cursor { position: Position(1 << 20), sequence: tidegate_journal::Sequence(1_000), ..Cursor::START };
    let options = IdsOptions { log, ..ids_options() };
    let maker = Maker::begin(disk.clone(), &folder, options, 100, end).expect("the disk works");
    let made = maker.make(|n, gathering| {
        gathering.add(n, MadeId { id: format!("vote-{n}").as_bytes(), position: Position(n * 100 + 1), now: 7 });
    });
    assert_eq!(made.expect("the disk works").entries, 100);
}

#[test]
fn an_index_of_another_directory_or_shard_proves_no_loss_and_is_built_again() {
    for log in [LEDGER.log(2, 0), LEDGER.log(1, 1), log_id(0)] {
        let TestWorker { worker, disk, .. } = TestWorker::with_a_durable_vote();
        worker.into_logs().into_iter().for_each(|log| _ = log.close().expect("the disk works"));
        put_index_of(&disk, log);
        let claims = claim_of_index(&disk, Path::new(DATA).join("ids").join("ledger-0"), log_id(0));
        let opened = OpenShard::open_with(&logs(&disk), snapshots(&disk, 0), SMALL, claims.as_slice()).map(|_| ());
        if log == log_id(0) {
            assert!(matches!(&opened, Err(OpenError::Loss(loss)) if loss.lost().to.is_some()), "{opened:?}");
            continue;
        }
        opened.expect("what another log has says nothing of this one");
        let folder = Path::new(DATA).join("ids").join("ledger-0");
        let index = IdIndex::open(disk.clone(), &folder, ids_options(), Position(2 << 20), &mut |_, _| {});
        let discarded = index.expect("the disk works").discarded.expect("it is named");
        assert!(discarded.contains(&format!("it is of {log}, and not of {}", log_id(0))), "{discarded}");
        put_index_of(&disk, log);
        let mut node = TestWorker::over(disk, 1);
        assert_eq!(node.ask(sale("vote")), Reply::Outcomes(vec![Outcome::Duplicate]));
        assert_eq!(node.ask(sale("vote-7")), Reply::Outcomes(vec![Outcome::Applied]));
    }
}

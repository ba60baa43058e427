//! What the room starts: shards that answer, audits on their schedule, readers of changes; and that it starts again.

use std::time::Duration;

use super::*;
use crate::changes::{After, ChangeFilter, ChangeKind, Interest};
use crate::message::AuditState;

const HOUR: Duration = Duration::from_secs(3_600);

/// Rounds so long after each other.
fn audited(interval: Duration) -> LedgerOptions {
    let schedule = Schedule { audit_interval: Some(interval), snapshot_interval: Some(interval) };
    LedgerOptions { schedule, ..options() }
}

fn is_agreed(reports: &[AuditReport]) -> bool {
    reports.iter().all(|report| report.state() == AuditState::Agreed)
}

#[test]
fn a_node_serves_audits_writes_snapshots_and_begins_behind_them() {
    let folder = folder();
    let mut node = TestNode::start(folder.path(), 2, audited(Duration::ZERO)).expect("it starts");
    let (source, wallet) = (id_of(0, "source"), id_of(1, "wallet"));
    node.open(&source, AccountKind::Source);
    node.open(&wallet, AccountKind::Wallet);
    let ids: Vec<_> = (0..5).map(|number| id_of(0, &format!("sale-{number}"))).collect();
    node.sell(&ids, &source, &wallet);
    wait_for(|| (node.balance(&wallet) == 5).then_some(()));
    assert_eq!(node.balance(&source), -5);

    // The reports are those of a round that began when all had arrived.
    let all_here = |reports: &[AuditReport]| {
        let [first, second] = reports else { panic!("each shard has one: {reports:?}") };
        let conserved = |report: &AuditReport| report.conservation.iter().map(|of| (of.sum, of.in_transit)).collect();
        let conserved: [Vec<_>; 2] = [conserved(first), conserved(second)];
        first.sequence >= 6 && second.sequence >= 6 && conserved == [[(0, 0)], [(0, 0)]]
    };
    let reports = node.wait_for_reports(|reports| is_agreed(reports) && all_here(reports));
    assert_eq!(reports.iter().map(|report| report.shard).collect::<Vec<_>>(), [0, 1]);
    let both = |name| [0, 1].map(|shard| node.metric(name, shard));
    wait_for(|| (both("tidegate_audit_accounts_compared") == [1, 1]).then_some(()));
    assert_eq!((both("tidegate_audit_differences"), both("tidegate_audit_not_conserved")), ([0, 0], [0, 0]));
    assert_eq!((node.status().differing_shards(), node.status().unread_shards()), (0, 0));
    let covered = |node: &TestNode| [0, 1].map(|shard| node.metric("tidegate_ids_runs", shard));
    wait_for(|| (covered(&node)[0] > 0).then_some(()));
    node.stop();

    let mut node = TestNode::start(folder.path(), 2, audited(HOUR)).expect("it starts again");
    assert!(node.metric("tidegate_recovery_snapshot_sequence", 0) > 0, "the start began from a snapshot");
    assert_eq!((node.balance(&source), node.balance(&wallet)), (-5, 5));
    // What the snapshots say follows from the first record, as reading all again shows.
    node.wait_for_reports(|reports| {
        is_agreed(reports) && reports.iter().all(|report| report.first_fold.agreed_at_sequence > 0)
    });
    node.stop();
}

#[test]
fn health_and_a_metric_say_that_an_index_of_ids_cannot_be_written() {
    let folder = folder();
    let mut node = TestNode::start(folder.path(), 2, audited(Duration::ZERO)).expect("it starts");
    let failing = |node: &TestNode| {
        let shards = [0, 1].map(|shard| node.metric("tidegate_ids_failing", shard));
        (node.status().failing_ids(), shards)
    };
    assert_eq!(failing(&node), (0, [0, 0]));
    let ids = ids_folder(folder.path(), 0);
    let away = folder.path().join("away");
    std::fs::rename(&ids, &away).expect("it is there");
    // The record of an account is what a snapshot covers.
    node.open(&id_of(0, "source"), AccountKind::Source);
    node.open(&id_of(0, "wallet"), AccountKind::Wallet);
    node.transfer(&id_of(0, "sale"), &id_of(0, "source"), &id_of(0, "wallet"), 1);
    wait_for(|| (failing(&node) == (1, [1, 0])).then_some(()));
    assert!(node.metric("tidegate_ids_retries_total", 0) > 0);
    std::fs::rename(&away, &ids).expect("nothing stands there");
    wait_for(|| (failing(&node) == (0, [0, 0])).then_some(()));
    node.stop();
}

#[test]
fn readers_of_changes_have_the_journals_as_soon_as_the_node_serves() {
    let folder = folder();
    let mut node = TestNode::start(folder.path(), 1, options()).expect("it starts");
    node.open("source", AccountKind::Source);
    let changes = node.changes.clone();
    let interest = Box::new(|_: &str| Interest { visible: true, wanted: true });
    let everything = ChangeFilter { interest, without_account: true, kinds: ChangeKind::ALL.to_vec() };
    let reader = changes.read(After::Start, everything).expect("it can be read").expect("it was opened");
    assert!(changes.has_more_than(&reader), "the account is a change");
    assert!(Arc::ptr_eq(changes.listeners(), node.changes.listeners()), "whoever listens is woken by all shards");
    node.stop();
}

#[test]
fn a_room_has_one_thread_beside_the_workers_and_its_shards_are_members() {
    let room = LedgerRoom::new(options());
    assert_eq!(Room::<Parcel>::families(&room), [(LEDGER, Home::Member)]);
    assert_eq!(Room::<Parcel>::endpoints(&room), 1);
}

#[test]
fn an_index_of_ids_says_how_far_its_log_was_durable() {
    let folder = folder();
    let mut node = TestNode::start(folder.path(), 1, options()).expect("it starts");
    let log = directory_log(folder.path());
    assert_eq!(claim_of_ids(folder.path(), log), None, "there is none yet");
    node.open("source", AccountKind::Source);
    node.open("wallet", AccountKind::Wallet);
    node.sell(&["sale".to_owned()], "source", "wallet");
    let Answer::DurableEnd { durable } = node.call(0, Operation::CoverIds) else { panic!("the shard covers") };
    wait_for(|| (node.metric("tidegate_ids_runs", 0) == 1).then_some(()));
    node.stop();

    let claim = claim_of_ids(folder.path(), log).expect("there is one");
    let source = folder.path().join("ids").join("ledger-0");
    assert_eq!((claim.source, claim.doubt, claim.chain), (source.clone(), None, None));
    assert_eq!((claim.position, claim.sequence), (durable.position(), Some(tidegate_journal::Sequence(3))));
    let other = LogId { directory: log.directory + 1, ..log };
    assert_eq!(claim_of_index(&RealDisk, source, other), None, "it was made of another log");
}

fn directory_log(data: &Path) -> LogId {
    let directory = Directory::look_at(data, &[LEDGER]).expect("it was made");
    directory.logs(LEDGER).next().expect("it has a shard")
}

#[test]
fn a_log_that_ends_before_what_its_index_of_ids_has_is_refused() {
    let folder = folder();
    let mut node = TestNode::start(folder.path(), 1, options()).expect("it starts");
    node.open("source", AccountKind::Source);
    node.open("wallet", AccountKind::Wallet);
    node.stop();
    let journal = folder.path().join("journal").join("ledger-0");
    let earlier = copied(&journal);

    let mut node = TestNode::start(folder.path(), 1, options()).expect("it starts");
    node.sell(&["sale".to_owned()], "source", "wallet");
    node.call(0, Operation::CoverIds);
    wait_for(|| (node.metric("tidegate_ids_runs", 0) == 1).then_some(()));
    node.stop();

    for (name, bytes) in earlier {
        std::fs::write(journal.join(name), bytes).expect("the folder is the test's own");
    }
    let refused = TestNode::start(folder.path(), 1, options()).err().expect("records are lost").to_string();
    assert!(refused.contains("ids/ledger-0") && refused.contains("tidegate accept-loss"), "{refused}");
}

/// The files of a folder.
fn copied(folder: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it can be read"));
    entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).expect("it can be read"))).collect()
}

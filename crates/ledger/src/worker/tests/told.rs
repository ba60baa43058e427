//! What a shard says of itself: to metrics, to health, to the auditor, and to who looks for seeds.

use std::sync::Arc;

use tidegate_runtime::{Damages, ShardMetrics};
use tidegate_telemetry::{Reading, Registry};

use super::alone::{Alone, fill};
use super::*;
use crate::auditor::tests::difference;
use crate::message::{AuditReport, Conservation};
use crate::metrics::LedgerMetrics;
use crate::operation::{Answer, Operation, SeedId};

/// The value of a metric with one series of its own.
fn value(registry: &Registry, name: &str, of: &str) -> i64 {
    let snapshot = registry.snapshot();
    let series = snapshot.family(name).expect("it is declared").series();
    let series = series.iter().find(|series| series.label_values().last().is_some_and(|last| **last == *of));
    match series.expect("it was counted").reading() {
        Reading::Counter(count) => *count as i64,
        Reading::Gauge(value) => *value,
        Reading::Histogram(_) => panic!("{name} is no number"),
    }
}

#[test]
fn metrics_say_what_a_shard_has_decided_and_what_its_auditor_found() {
    let mut node = TestWorker::with_a_durable_vote();
    assert_eq!(node.ask(sale("vote")), Reply::Outcomes(vec![Outcome::Duplicate]));
    assert_eq!(node.ask(sale("new")), Reply::Outcomes(vec![Outcome::Applied]));
    let to_nobody = transfers(&[("no".into(), "source".into(), "nobody".into())]);
    (0..3).for_each(|_| drop(node.ask(to_nobody.clone())));
    let conserved = |sum, in_transit| Conservation { asset: "credit".into(), sum, in_transit };
    let sound = [conserved(0, 0), conserved(0, 0), conserved(0, 5), conserved(0, 7)];
    let not_conserved = [conserved(1, 0), conserved(0, -1), conserved(2, -3)];
    let report = AuditReport {
        sequence: 5,
        accounts_compared: 2,
        holds_compared: 4,
        differences: vec![difference("balance"); 2],
        damage: Some("it cannot be read".into()),
        conservation: sound.into_iter().chain(not_conserved).collect(),
        ..AuditReport::default()
    };
    node.call(0, Operation::KeepAudit(Box::new(report.clone())));
    assert_eq!(node.worker.shards()[0].service().last_audit(), &report);

    let registry = Registry::of(&[LedgerMetrics::ROWS, ShardMetrics::ROWS]);
    let (metrics, of_shard) = (LedgerMetrics::register(&registry, 0), ShardMetrics::register(&registry, "ledger", 0));
    metrics.observe(&node.worker.shards()[0], &of_shard.refusals);
    let of_shard = |name| value(&registry, name, "0");
    let outcomes = ["applied", "duplicate", "refused"].map(|of| value(&registry, "tidegate_outcomes_total", of));
    assert_eq!(outcomes, [1, 1, 3]);
    assert_eq!(of_shard("tidegate_accounts"), 2);
    assert_eq!((of_shard("tidegate_audit_sequence"), of_shard("tidegate_audit_accounts_compared")), (5, 2));
    assert_eq!((of_shard("tidegate_audit_differences"), of_shard("tidegate_audit_holds_compared")), (2, 4));
    assert_eq!(of_shard("tidegate_audit_not_conserved"), 3);
    assert_eq!((of_shard("tidegate_ids_entries"), of_shard("tidegate_ids_damaged_places")), (3, 0));
}

#[test]
fn damage_is_told_to_who_was_named() {
    let mut node = TestWorker::with(TestWorker::with_a_durable_vote().disk, 1, COLD);
    let damages = Arc::<Damages>::default();
    node.worker.shards_mut()[0].service_mut().tell_damage_to(damages.clone(), log_id(0));
    node.rot("memo of vote");
    let reply = node.ask(sale("vote"));
    let Reply::Outcomes(outcomes) = &reply else { panic!("{reply:?}") };
    assert!(matches!(outcomes[0], Outcome::Refused(Refusal::Damaged(_))), "{outcomes:?}");
    assert_eq!(damages.count(), 1);
    assert_eq!(node.worker.shards()[0].service().ids_damage().len(), 0, "its index is sound");
}

#[test]
fn the_id_of_a_seed_is_used_damaged_or_new() {
    let mut node = TestWorker::with(TestWorker::with_a_durable_vote().disk, 1, COLD);
    let find = |node: &mut TestWorker| match node.call(0, Operation::FindSeeds(vec!["vote".into(), "new".into()])) {
        Answer::Seeds(seeds) => seeds,
        other => panic!("{other:?}"),
    };
    assert_eq!(find(&mut node), [SeedId::Used(ShardIndex(0)), SeedId::New]);
    let mut node = TestWorker::with(node.disk, 1, COLD);
    node.rot("memo of vote");
    let found = find(&mut node);
    assert!(matches!(found[..], [SeedId::Damaged(_), SeedId::New]), "{found:?}");
}

/// Nothing is fetched to find out: a start that had to read its archive for seeds would take as long as that takes.
#[test]
fn the_id_of_a_seed_whose_record_is_not_here_is_archived() {
    let mut node = TestWorker::with_a_durable_vote();
    let segments = |disk: &FakeDisk| {
        let paths = disk.files().into_iter().map(|(path, _)| path);
        paths.filter(|path| path.to_string_lossy().contains("/segment-")).collect::<Vec<_>>()
    };
    for batch in 0.. {
        if segments(&node.disk).len() > 1 {
            break;
        }
        let items: Vec<_> = (0..500).map(|n| (format!("n-{batch}-{n}"), "source".into(), "wallet".into())).collect();
        assert_eq!(node.ask(transfers(&items)), Reply::Outcomes(vec![Outcome::Applied; 500]));
    }
    let mut node = TestWorker::with(node.disk, 1, COLD);
    node.disk.remove(&segments(&node.disk)[0]).expect("it is there");
    let found = node.call(0, Operation::FindSeeds(vec!["vote".into(), "new".into()]));
    assert!(matches!(&found, Answer::Seeds(seeds) if seeds[..] == [SeedId::Archived, SeedId::New]), "{found:?}");
}

fn waits(alone: &mut Alone) -> bool {
    match alone.answer(Operation::ReadPeers) {
        Answer::Peers { waits, .. } => waits,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_shard_says_that_credits_wait_while_its_disk_is_full() {
    let mut alone = Alone::open();
    assert!(!waits(&mut alone));
    alone.disk.set_capacity(alone.disk.used_bytes());
    fill(&mut alone);
    assert!(waits(&mut alone));
    alone.disk.set_capacity(u64::MAX);
    alone.settle();
}

#[test]
fn a_page_of_a_history_costs_a_row_more_than_it_has() {
    let mut node = TestWorker::with_a_durable_vote();
    (0..4).for_each(|number| drop(node.ask(sale(&format!("v-{number}")))));
    let page = Request::ReadHistory { id: "wallet".into(), before: None, limit: 2, times: TimeSpan::ALL };
    let Reply::History { rows, next, rows_read, .. } = node.ask(page) else { panic!("it is whole") };
    assert_eq!((rows.len(), next.is_some(), rows_read), (2, true, 3));
}

#[test]
fn a_worker_has_worked_though_nobody_is_answered_and_is_not_idle_while_credits_are_under_way() {
    let of = |shard: u16, name: &str| {
        let mut ids = (0..).map(|number| format!("{name}-{number}"));
        ids.find(|id| shard_of(id, 2) == ShardIndex(shard)).expect("each shard is some id's home")
    };
    let (source, wallet, sale) = (of(0, "source"), of(1, "wallet"), of(0, "sale"));
    let mut node = TestWorker::open(2);
    node.ask_all(vec![open(&source, AccountKind::Source), open(&wallet, AccountKind::Wallet)]);
    node.begin(Vec::new(), &mut Finished::new());
    let (mut out, mut finished) = (Outgoing::new(), Finished::new());
    node.worker.start(0, transfers(&[(sale, source, wallet)]), &mut out, &mut finished);
    let mut is_under_way = false;
    for _ in 0..64 {
        node.worker.step(node.now, &mut out, &mut finished);
        is_under_way |= node.worker.pending() == 0 && !node.worker.is_idle();
        node.worker.shards_mut().iter_mut().for_each(|shard| drop(shard.log_mut().step()));
    }
    assert_eq!((finished.len(), is_under_way), (1, true));

    // One shard has nobody to ask, so it releases nothing before its record is durable.
    let mut node = TestWorker::open(1);
    node.worker.start(0, open("source", AccountKind::Source), &mut out, &mut finished);
    assert!(node.worker.step(node.now, &mut out, &mut finished) && finished.len() == 1, "it was decided");
}

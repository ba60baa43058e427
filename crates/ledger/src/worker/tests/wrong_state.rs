//! A shard whose state is not what its log says, as its auditor found, decides nothing new.

use super::*;
use crate::auditor::tests::difference;
use crate::message::{ARRIVED, AuditReport};
use crate::operation::Operation;

const WRONG: Reply = Reply::Unavailable(Unavailable::StateDiffers);

/// The auditor reports that this figure differs, or that nothing does.
fn report(node: &mut TestWorker, figure: Option<&'static str>) {
    let differences = figure.into_iter().map(difference).collect();
    node.call(0, Operation::KeepAudit(Box::new(AuditReport { differences, ..AuditReport::default() })));
}

fn hold(id: &str) -> Request {
    Request::PlaceHolds(vec![small_hold(id)])
}

#[test]
fn nothing_new_is_decided_and_what_was_decided_is_answered() {
    let mut node = TestWorker::with_a_durable_vote();
    report(&mut node, Some("balance"));
    assert_eq!(node.ask(sale("new")), WRONG);
    assert_eq!(node.ask(hold("hold")), WRONG);
    assert_eq!(node.ask(open("other", AccountKind::Wallet)), WRONG);
    assert_eq!(node.ask(sale("vote")), Reply::Outcomes(vec![Outcome::Duplicate]));
    assert!(matches!(node.ask(Request::ReadAccount { id: "wallet".into() }), Reply::Account(_)), "reads are served");
    report(&mut node, None);
    assert_eq!(node.ask(sale("new")), Reply::Outcomes(vec![Outcome::Applied]), "the next audit agrees");
}

#[test]
fn a_hold_is_not_released_while_the_state_is_wrong() {
    let mut node = TestWorker::with_a_durable_vote();
    assert_eq!(node.ask(hold("hold")), Reply::Outcomes(vec![Outcome::Applied]));
    report(&mut node, Some("held"));
    let held_then = |node: &mut TestWorker| {
        node.now = TimeMs(node.now.0 + 1_000);
        node.begin(Vec::new(), &mut Finished::new());
        node.worker.shards()[0].state_ahead().open_holds()
    };
    assert_eq!(held_then(&mut node), 1);
    report(&mut node, None);
    assert_eq!(held_then(&mut node), 0);
}

#[test]
fn money_that_did_not_arrive_from_another_shard_stops_nobody() {
    let mut node = TestWorker::with_a_durable_vote();
    report(&mut node, Some(ARRIVED));
    assert_eq!(node.ask(sale("new")), Reply::Outcomes(vec![Outcome::Applied]));
}

//! Callers take turns before a shard.

use tidegate_machines::ledger::TRANSFERS_PER_REQUEST_MAX;

use super::*;
use crate::limits::DECISIONS_PER_STEP;
use crate::message::CallerRequest;

const FLOODER: Caller = Caller(1);
const OTHER: Caller = Caller(2);
/// The token of the small request.
const VOTE: u64 = 1_000;

/// A worker that has a flood of `batches` full batches of one caller, of which it decides one already, and then one
/// transfer of `caller`.
fn behind_a_flood(batches: usize, caller: Caller, finished: &mut Finished) -> TestWorker {
    behind_a_flood_of(batches, false, caller, finished)
}

/// The same with linked groups instead, perhaps.
fn behind_a_flood_of(batches: usize, linked: bool, caller: Caller, finished: &mut Finished) -> TestWorker {
    let options = Options { segment_bytes: 64 << 20, group_bytes_max: 4 << 20, ..SMALL };
    let mut node = TestWorker::with(TestWorker::with_a_durable_vote().disk, 1, options);
    for token in 0..batches {
        let ids = (0..TRANSFERS_PER_REQUEST_MAX).map(|n| (format!("{token}-{n}"), "source".into(), "wallet".into()));
        let Request::Transfers { batch, .. } = transfers(&ids.collect::<Vec<_>>()) else { unreachable!("these are") };
        let request = CallerRequest { caller: FLOODER, request: Request::Transfers { linked, batch } };
        node.worker.start(token as u64, request, &mut Outgoing::new(), finished);
    }
    node.turn(finished);
    let request = transfers(&[("small".into(), "source".into(), "wallet".into())]);
    node.worker.start(VOTE, CallerRequest { caller, request }, &mut Outgoing::new(), finished);
    node
}

/// Takes turns until the small request is answered; how many records were appended before.
fn appended_until_answered(node: &mut TestWorker, finished: &mut Finished) -> usize {
    let before = node.worker.shards()[0].appended().0;
    for _ in 0..STEPS_MAX {
        if finished.iter().any(|(token, _)| *token == VOTE) {
            return (node.worker.shards()[0].appended().0 - before) as usize;
        }
        node.turn(finished);
    }
    panic!("the small request was not answered");
}

#[test]
fn a_small_request_waits_for_a_step_of_another_callers_flood_and_not_for_its_batches() {
    let mut finished = Finished::new();
    let mut node = behind_a_flood(8, OTHER, &mut finished);
    let appended = appended_until_answered(&mut node, &mut finished);
    // Itself, in a step of its own, and three steps in which the journal of this test writes and syncs its group.
    assert!(appended <= 1 + 3 * DECISIONS_PER_STEP, "{appended} records before its answer");
}

#[test]
fn a_small_request_waits_for_one_linked_group_of_another_caller_at_a_time() {
    let mut finished = Finished::new();
    let mut node = behind_a_flood_of(8, true, OTHER, &mut finished);
    let appended = appended_until_answered(&mut node, &mut finished);
    assert!(appended <= 1 + 3 * TRANSFERS_PER_REQUEST_MAX, "{appended} records before its answer");
}

#[test]
fn a_small_request_of_the_same_caller_waits_for_what_was_asked_before_it() {
    let mut finished = Finished::new();
    let mut node = behind_a_flood(2, FLOODER, &mut finished);
    appended_until_answered(&mut node, &mut finished);
    let tokens: Vec<u64> = finished.iter().map(|(token, _)| *token).collect();
    assert_eq!(tokens, [0, 1, VOTE], "as they were asked");
}

#[test]
fn batches_of_two_callers_are_decided_in_turn_and_whole() {
    let mut finished = Finished::new();
    let mut node = behind_a_flood(3, OTHER, &mut finished);
    let ids = (0..TRANSFERS_PER_REQUEST_MAX).map(|n| (format!("other-{n}"), "source".into(), "wallet".into()));
    let request = transfers(&ids.collect::<Vec<_>>());
    node.worker.start(7, CallerRequest { caller: OTHER, request }, &mut Outgoing::new(), &mut finished);
    while finished.len() < 5 {
        node.turn(&mut finished);
    }
    let tokens: Vec<u64> = finished.iter().map(|(token, _)| *token).collect();
    assert_eq!(tokens, [VOTE, 0, 7, 1, 2], "a caller's batch goes on when others had as much");
    for (_, reply) in finished.drain(..) {
        let Reply::Outcomes(outcomes) = reply else { panic!("{reply:?}") };
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Applied));
    }
}

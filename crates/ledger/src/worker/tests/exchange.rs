//! What a shard asks of another and says to it, and when.

use tidegate_machines::{OutboundNumber, RecordPosition};

use super::alone::{Alone, HERE, THERE, fill, on};
use super::*;
use crate::limits::{DAMAGE_RETRY_MS, PULL_RETRY_MS};
use crate::operation::{Answer, Credit, Operation};
use crate::service::{Note, Output};

const NOTHING: [u64; 0] = [];

fn credit(number: u64, to: &str) -> Credit {
    Credit {
        number: OutboundNumber(number),
        posted: false,
        id: format!("credit-{number}").into(),
        debit: on(THERE, "source").into(),
        credit: to.into(),
        memo: "".into(),
        code: 0,
        user_data: "".into(),
        amount: 1,
        debit_position: RecordPosition(number),
        time_ms: START.0,
    }
}

fn pull(after: u64) -> Note {
    Note::Pull { by: THERE, after: OutboundNumber(after) }
}

/// The watermarks that left.
fn pulls(left: Vec<(Ticket, Output)>) -> Vec<u64> {
    let watermark = |(ticket, output)| match (ticket, output) {
        (Ticket::Pull { from: THERE }, Output::Watermark(number)) => Some(number.0),
        _ => None,
    };
    left.into_iter().filter_map(watermark).collect()
}

/// The numbers of the credits that left.
fn given(left: Vec<(Ticket, Output)>) -> Vec<u64> {
    let numbers = |(_, output)| match output {
        Output::Credits(credits) => credits.into_iter().map(|credit| credit.number.0).collect(),
        _ => Vec::new(),
    };
    left.into_iter().flat_map(numbers).collect()
}

#[test]
fn a_question_that_is_not_answered_is_asked_again_after_a_while_and_no_sooner() {
    let mut alone = Alone::open();
    assert_eq!(pulls(alone.settle()), [0]);
    alone.now.0 += PULL_RETRY_MS - 1;
    assert_eq!(pulls(alone.settle()), NOTHING);
    alone.now.0 += 1;
    assert_eq!(pulls(alone.settle()), [0]);
    alone.now.0 += 1;
    assert_eq!(pulls(alone.settle()), NOTHING);
}

#[test]
fn credits_are_asked_for_behind_those_that_are_durable() {
    let mut alone = Alone::open();
    let wallet = on(HERE, "wallet");
    alone.answer(Operation::OpenAccount {
        id: wallet.as_str().into(),
        asset: "credit".into(),
        kind: AccountKind::Wallet,
    });
    assert!(alone.shard.is_idle());
    let credits = vec![credit(1, &wallet), credit(2, &wallet)];
    alone.shard.note(Note::Credits { from: THERE, credits });
    assert!(!alone.shard.is_idle(), "they are to be applied");
    // Without the journal's steps nothing becomes durable.
    alone.shard.step(alone.now);
    assert!(alone.shard.released().is_none());
    assert_eq!(pulls(alone.settle()), [2]);
    // Whatever is appended meanwhile, they are asked for again.
    let another = on(HERE, "another");
    alone.answer(Operation::OpenAccount {
        id: another.as_str().into(),
        asset: "credit".into(),
        kind: AccountKind::Wallet,
    });
    alone.now.0 += PULL_RETRY_MS;
    assert_eq!(pulls(alone.settle()), [2]);
    assert_eq!(alone.shard.state_ahead().account(&wallet).map(|view| view.balance), Some(2));
}

#[test]
fn credits_that_are_not_the_next_ones_stop_the_shard() {
    let mut alone = Alone::open();
    alone.settle();
    let credits = vec![credit(5, &on(HERE, "wallet")), credit(6, &on(HERE, "wallet"))];
    alone.shard.note(Note::Credits { from: THERE, credits });
    alone.step();
    let stop = alone.shard.failure().map(|stop| format!("{stop:?}")).unwrap_or_default();
    assert_eq!(stop, "PeerAhead { peer: ShardIndex(1), number: 4, reached: 0 }");
}

#[test]
fn a_debit_that_is_damaged_is_read_again_after_a_while_and_no_sooner() {
    let mut alone = Alone::open();
    alone.owing(1);
    let segment =
        alone.disk.files().into_iter().map(|(path, _)| path).find(|path| path.to_string_lossy().contains("/segment-"));
    alone.disk.fail_reads_of(segment.as_deref());
    alone.shard.note(pull(0));
    alone.settle();
    let reads = alone.jobs();
    assert_eq!(reads.len(), 1, "nothing that is durable is in memory");
    alone.run(reads);
    assert_eq!(given(alone.settle()), NOTHING);
    assert_eq!((alone.shard.service().credits_stuck(), alone.jobs().len()), (1, 0));
    let told = alone.answer(Operation::ReadPeers);
    assert!(matches!(told, Answer::Peers { waits: true, .. }), "an auditor that compares shards is told: {told:?}");

    alone.now.0 += DAMAGE_RETRY_MS - 1;
    alone.settle();
    assert_eq!(alone.jobs().len(), 0);
    alone.disk.fail_reads_of(None);
    alone.now.0 += 1;
    alone.settle();
    let reads = alone.jobs();
    assert_eq!(reads.len(), 1);
    alone.run(reads);
    assert_eq!((given(alone.settle()), alone.shard.service().credits_stuck()), (vec![1], 0));
}

#[test]
fn what_the_other_has_applied_is_journaled_once_there_is_room() {
    let mut alone = Alone::open();
    alone.owing(3);
    let confirmed = |alone: &Alone| alone.shard.state_ahead().outbound_confirmed(THERE).0;
    alone.shard.note(pull(2));
    alone.settle();
    assert_eq!(confirmed(&alone), 2);
    let appended = alone.shard.appended();
    alone.shard.note(pull(1));
    alone.settle();
    assert_eq!((confirmed(&alone), alone.shard.appended()), (2, appended), "what is old is no news");

    alone.disk.set_capacity(alone.disk.used_bytes());
    fill(&mut alone);
    let appended = alone.shard.appended();
    alone.shard.note(pull(3));
    alone.settle();
    assert_eq!((confirmed(&alone), alone.shard.appended()), (2, appended), "it waits");
    alone.disk.set_capacity(u64::MAX);
    alone.settle();
    assert_eq!(confirmed(&alone), 3);
    assert!(alone.shard.failure().is_none());
}

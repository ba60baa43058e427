//! What a shard decides when something is in the way: a full disk, a full group, an unknown account, an earlier answer.

use tidegate_machines::RecordPosition;

use super::alone::{Alone, HERE, THERE, fill, on};
use super::*;
use crate::limits::PAGE_ROWS_MAX;
use crate::operation::{AccountFact, Answer, Operation, Selection};
use crate::service::Output;

#[test]
fn on_a_full_disk_what_is_read_is_answered_and_what_is_written_is_turned_away() {
    let mut alone = Alone::open();
    alone.owing(1);
    alone.disk.set_capacity(alone.disk.used_bytes());
    fill(&mut alone);
    let source = on(HERE, "source");
    let read = alone.answer(Operation::ReadAccount { id: source.as_str().into() });
    assert!(matches!(read, Answer::Account(Some(account)) if account.balance == -1), "it is there");
    alone.call(owed(&["new"], false));
    alone.step();
    let released = alone.shard.released().expect("it is turned away at once").1;
    assert_eq!(released.map(|_| ()), Err(Unavailable::DiskFull));
}

/// What was appended while the log was busy waits for room once the disk is full. A read is about that too, so it waits
/// with it; what would have to be written as well is turned away at once.
#[test]
fn while_a_group_waits_for_room_on_the_disk_a_read_waits_and_is_not_turned_away() {
    let mut alone = Alone::open();
    alone.owing(1);
    alone.disk.set_capacity(alone.disk.used_bytes());
    let is_turned_away = |alone: &mut Alone, operation| {
        alone.call(operation);
        let released = alone.shard.released();
        matches!(released, Some((_, Err(Unavailable::DiskFull))))
    };
    let open = |n: u32| {
        let id = on(HERE, &format!("{}{n}", "x".repeat(60)));
        Operation::OpenAccount { id: id.into(), asset: "credit".into(), kind: AccountKind::Wallet }
    };
    let mut opens = 0..10_000;
    // Steps of the shard between those of its log: the group fills while others are in flight.
    while !is_turned_away(&mut alone, open(opens.next().expect("a group waits for room before"))) {
        alone.shard.step(alone.now);
        alone.shard.step(alone.now);
        alone.shard.log_mut().step().expect("the disk is full and works");
        while alone.shard.released().is_some() {}
    }
    let source = on(HERE, "source");
    let read = Operation::ReadAccount { id: source.as_str().into() };
    assert!(!is_turned_away(&mut alone, read));
    alone.disk.set_capacity(u64::MAX);
    let mut left = alone.settle().into_iter().map(|(_, output)| output);
    let account = left.find_map(|output| match output {
        Output::Answer(Answer::Account(account)) => Some(account),
        _ => None,
    });
    assert_eq!(account.flatten().map(|account| account.balance), Some(-1));
}

/// Transfers with these ids, of the content that [`Alone::owing`] gives them.
fn owed(ids: &[&str], linked: bool) -> Operation {
    let (source, there) = (on(HERE, "source"), on(THERE, "wallet"));
    let items: Vec<_> = ids.iter().map(|id| (id.to_string(), source.clone(), there.clone())).collect();
    let Request::Transfers { batch, .. } = transfers(&items) else { unreachable!() };
    Operation::Transfers { batch: batch.into(), selection: Selection::All, linked, failed: false, facts: Vec::new() }
}

/// What is answered to a call that may be turned away.
fn try_answer(alone: &mut Alone, operation: Operation) -> Result<Answer, Unavailable> {
    alone.call(operation);
    for _ in 0..64 {
        alone.step();
        if let Some((_, released)) = alone.shard.released() {
            return released.map(|output| match output.into_inner() {
                Output::Answer(answer) => answer,
                other => panic!("{other:?}"),
            });
        }
        let reads = alone.jobs();
        alone.run(reads);
    }
    panic!("it is not answered");
}

#[test]
fn on_a_full_disk_a_retry_of_what_was_done_is_told_so() {
    let mut alone = Alone::open();
    alone.owing(3);
    alone.disk.set_capacity(alone.disk.used_bytes());
    fill(&mut alone);
    let outcomes = |outcomes: &[Outcome]| Ok(Answer::Outcomes { outcomes: outcomes.into(), need_credit: Vec::new() });
    let appended = alone.shard.appended();
    assert_eq!(try_answer(&mut alone, owed(&["t0", "t2"], false)), outcomes(&[Outcome::Duplicate; 2]));
    let group = try_answer(&mut alone, owed(&["t0", "t1"], true));
    assert_eq!(group, outcomes(&[Outcome::Duplicate; 2]), "its members keep their answers");
    assert_eq!(try_answer(&mut alone, owed(&["t0", "new"], false)), Err(Unavailable::DiskFull));
    assert_eq!(try_answer(&mut alone, owed(&["t0", "new"], true)), Err(Unavailable::DiskFull));
    let source = on(HERE, "source");
    let open = Operation::OpenAccount { id: source.as_str().into(), asset: "credit".into(), kind: AccountKind::Source };
    assert!(matches!(try_answer(&mut alone, open), Ok(Answer::Opened { created: false, .. })));
    assert_eq!(alone.shard.appended(), appended, "nothing was written");
    alone.disk.set_capacity(u64::MAX);
    alone.settle();
    assert_eq!(try_answer(&mut alone, owed(&["t0", "new"], false)), outcomes(&[Outcome::Duplicate, Outcome::Applied]));
}

#[test]
fn a_retry_of_what_was_done_is_told_so_though_the_id_index_finds_no_room() {
    let mut alone = Alone::with_ids(IdsOptions { freeze_at: 4, ..ids_options() });
    alone.owing(3);
    alone.settle();
    // The log has claimed room ahead; runs of ids find none.
    alone.disk.set_capacity(alone.disk.used_bytes());
    let outcomes = |outcomes: &[Outcome]| Ok(Answer::Outcomes { outcomes: outcomes.into(), need_credit: Vec::new() });
    let more: Vec<String> = (0..30).map(|n| format!("more-{n}")).collect();
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    assert_eq!(try_answer(&mut alone, owed(&more, false)), outcomes(&[Outcome::Applied; 30]), "all or none of a call");
    let appended = alone.shard.appended();
    assert_eq!(try_answer(&mut alone, owed(&["t0", "more-29"], false)), outcomes(&[Outcome::Duplicate; 2]));
    assert_eq!(try_answer(&mut alone, owed(&["t0", "t1"], true)), outcomes(&[Outcome::Duplicate; 2]));
    for linked in [false, true] {
        assert_eq!(try_answer(&mut alone, owed(&["t0", "new"], linked)), Err(Unavailable::Busy));
        assert_eq!(try_answer(&mut alone, owed(&["new", "newer"], linked)), Err(Unavailable::Busy));
    }
    assert_eq!(alone.shard.appended(), appended, "nothing was written");
    alone.disk.set_capacity(u64::MAX);
    (0..16).for_each(|_| drop(alone.settle()));
    assert_eq!(try_answer(&mut alone, owed(&["t0", "new"], false)), outcomes(&[Outcome::Duplicate, Outcome::Applied]));
}

#[test]
fn a_hold_whose_time_is_over_waits_for_room_on_the_disk() {
    let mut alone = Alone::open();
    alone.owing(1);
    let (source, wallet) = (on(HERE, "source"), on(THERE, "wallet"));
    let hold = HoldRequest { debit: source.as_str().into(), credit: wallet.as_str().into(), ..small_hold("h") };
    let place = Operation::PlaceHolds { holds: vec![hold].into(), selection: Selection::All, facts: Vec::new() };
    let applied = Answer::Outcomes { outcomes: vec![Outcome::Applied], need_credit: Vec::new() };
    assert_eq!(alone.answer(place), applied);
    let capacity = alone.disk.used_bytes();
    alone.disk.set_capacity(capacity);
    fill(&mut alone);
    let open = |alone: &Alone| alone.shard.state_ahead().open_holds();
    alone.now.0 += 1_000;
    for _ in 0..3 {
        alone.settle();
        let reads = alone.jobs();
        alone.run(reads);
    }
    assert!(alone.shard.failure().is_none());
    assert_eq!(open(&alone), 1);
    alone.disk.set_capacity(u64::MAX);
    for _ in 0..3 {
        alone.settle();
        let reads = alone.jobs();
        alone.run(reads);
    }
    assert_eq!(open(&alone), 0);
}

#[test]
fn the_member_that_fails_a_linked_group_gets_its_own_refusal() {
    let mut alone = Alone::open();
    let (source, wallet) = (on(HERE, "source"), on(HERE, "wallet"));
    for (id, kind) in [(&source, AccountKind::Source), (&wallet, AccountKind::Wallet)] {
        alone.answer(Operation::OpenAccount { id: id.as_str().into(), asset: "credit".into(), kind });
    }
    let linked = |alone: &mut Alone, items: &[(&str, &str, &str)]| {
        let owned = |(id, debit, credit): &(&str, &str, &str)| (id.to_string(), debit.to_string(), credit.to_string());
        let Request::Transfers { batch, .. } = transfers(&items.iter().map(owned).collect::<Vec<_>>()) else {
            unreachable!()
        };
        let (selection, facts) = (Selection::All, Vec::new());
        let asked = Operation::Transfers { batch: batch.into(), selection, linked: true, failed: false, facts };
        match alone.answer(asked) {
            Answer::Outcomes { outcomes, need_credit } if need_credit.is_empty() => {
                outcomes.into_iter().map(Outcome::as_if_new).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let [failed, short] = [Refusal::LinkedFailed, Refusal::InsufficientFunds { available: 0 }].map(Outcome::Refused);
    let pay = [("a", &*source, &*wallet), ("b", &*wallet, &*source), ("c", &*wallet, &*source)];
    assert_eq!(linked(&mut alone, &pay), [failed, failed, short]);
    let twice = [("d", &*source, &*wallet), ("d", &*source, &*wallet)];
    assert_eq!(linked(&mut alone, &twice), [failed, failed], "an id stands once");
    let fine = [("e", &*source, &*wallet), ("f", &*wallet, &*source)];
    assert_eq!(linked(&mut alone, &fine), [Outcome::Applied; 2]);
}

/// Asks for these transfers (id, debit, credit), of 1 each, with what is known of accounts elsewhere.
fn ask(alone: &mut Alone, items: &[(&str, &str, &str)], linked: bool, facts: &[AccountFact]) -> Answer {
    let owned = |(id, debit, credit): &(&str, &str, &str)| (id.to_string(), debit.to_string(), credit.to_string());
    let Request::Transfers { batch, .. } = transfers(&items.iter().map(owned).collect::<Vec<_>>()) else {
        unreachable!()
    };
    let (selection, facts) = (Selection::All, facts.to_vec());
    alone.answer(Operation::Transfers { batch: batch.into(), selection, linked, failed: false, facts })
}

fn outcomes(outcomes: &[Outcome], need_credit: &[u32]) -> Answer {
    Answer::Outcomes { outcomes: outcomes.to_vec(), need_credit: need_credit.to_vec() }
}

#[test]
fn a_linked_group_with_a_member_that_was_decided_before_is_not_applied() {
    let mut alone = Alone::open();
    alone.owing(1);
    let (source, wallet) = (on(HERE, "source"), on(THERE, "wallet"));
    let balance = |alone: &Alone| alone.shard.state_ahead().account(&source).map(|account| account.balance);
    let failed = Outcome::Refused(Refusal::LinkedFailed);
    // The first was decided alone, the last is new.
    let group = [("t0", &*source, &*wallet), ("new", &*source, &*wallet)];
    assert_eq!(ask(&mut alone, &group, true, &[]), outcomes(&[Outcome::Duplicate, failed], &[]));
    let turned = [("newer", &*source, &*wallet), ("t0", &*source, &*wallet)];
    assert_eq!(ask(&mut alone, &turned, true, &[]), outcomes(&[failed, Outcome::Duplicate], &[]));
    assert_eq!(balance(&alone), Some(-1));
}

#[test]
fn what_is_not_known_of_an_account_elsewhere_is_asked_for_once() {
    let mut alone = Alone::open();
    alone.owing(1);
    let (source, stranger) = (on(HERE, "source"), on(THERE, "stranger"));
    let fact = |found: Option<AccountKind>| AccountFact {
        id: stranger.as_str().into(),
        found: found.map(|kind| ("credit".into(), kind)),
    };
    let missing = Outcome::Refused(Refusal::CreditAccountNotFound);
    let failed = Outcome::Refused(Refusal::LinkedFailed);
    let appended = alone.shard.appended();
    let group = [("a", &*source, &*stranger), ("b", &*source, &*stranger)];
    assert_eq!(ask(&mut alone, &group, false, &[]), outcomes(&[missing; 2], &[0, 1]));
    assert_eq!(ask(&mut alone, &group, true, &[]), outcomes(&[failed; 2], &[0, 1]));
    assert_eq!(alone.shard.appended(), appended, "nothing was decided");
    // It is not there: that is the answer for ever.
    assert_eq!(ask(&mut alone, &group[..1], false, &[fact(None)]), outcomes(&[missing], &[]));
    assert_eq!(ask(&mut alone, &group[1..], true, &[fact(None)]), outcomes(&[missing], &[]));
    let found = [fact(Some(AccountKind::Wallet))];
    let new = [("c", &*source, &*stranger)];
    assert_eq!(ask(&mut alone, &new, false, &found), outcomes(&[Outcome::Applied], &[]));
    let nobody = on(HERE, "nobody");
    let here = [("d", &*source, &*nobody)];
    assert_eq!(ask(&mut alone, &here, false, &[]), outcomes(&[missing], &[]), "an account of its own it knows");
}

#[test]
fn a_batch_of_holds_that_no_group_holds_is_decided_over_several() {
    const HOLDS: usize = 600;
    let mut alone = Alone::open();
    alone.owing(1);
    let hold = |n: usize| HoldRequest {
        debit: on(HERE, "source").into(),
        credit: on(THERE, "wallet").into(),
        amount: 1,
        expires_in_ms: 1_000_000,
        memo: "x".repeat(60).into(),
        ..small_hold(&format!("h{n}"))
    };
    let holds: Vec<HoldRequest> = (0..HOLDS).map(hold).collect();
    let place = Operation::PlaceHolds { holds: holds.into(), selection: Selection::All, facts: Vec::new() };
    assert_eq!(alone.answer(place), outcomes(&[Outcome::Applied; HOLDS], &[]));
    let ids: Vec<Box<str>> = (0..HOLDS).map(|n| format!("h{n}").into()).collect();
    let void = Operation::VoidHolds { ids: ids.into(), selection: Selection::All };
    assert_eq!(alone.answer(void), outcomes(&[Outcome::Applied; HOLDS], &[]));
    assert_eq!(alone.shard.state_ahead().open_holds(), 0);
    assert!(alone.shard.facts().groups > 6, "a group holds fewer");
}

#[test]
fn a_history_is_read_from_memory_as_long_as_it_is_not_durable() {
    let mut alone = Alone::open();
    alone.owing(3);
    let (source, wallet) = (on(HERE, "source"), on(THERE, "wallet"));
    let read = |from, limit| Operation::ReadHistory { id: source.as_str().into(), from, limit };
    let items: Vec<_> = (0..2).map(|n| (format!("young-{n}"), source.clone(), wallet.clone())).collect();
    let Request::Transfers { batch, .. } = transfers(&items) else { unreachable!() };
    let (selection, facts) = (Selection::All, Vec::new());
    alone.call(Operation::Transfers { batch: batch.into(), selection, linked: false, failed: false, facts });
    alone.call(read(None, 2));
    alone.shard.step(alone.now);
    assert_eq!(alone.jobs().len(), 0, "what is not durable is on no disk");
    let left = alone.settle();
    let rows = left.into_iter().find_map(|(_, output)| match output {
        crate::service::Output::Answer(Answer::Rows { rows, damaged: None, .. }) => Some(rows),
        _ => None,
    });
    let rows = rows.expect("the history is answered");
    assert_eq!(rows.iter().map(|row| &*row.row.id).collect::<Vec<_>>(), ["young-1", "young-0"]);
}

/// The answer to a history of the source, nothing of which is in memory.
fn history(alone: &mut Alone, from: Option<RecordPosition>, limit: u32) -> Answer {
    alone.answer(Operation::ReadHistory { id: on(HERE, "source").into(), from, limit })
}

#[test]
fn a_cursor_that_names_no_record_is_refused_and_is_no_damage() {
    let mut alone = Alone::open();
    alone.owing(3);
    let Answer::Rows { rows, .. } = history(&mut alone, None, 2) else { panic!("it is there") };
    let inside = RecordPosition(rows[1].at.0 + 1);
    let beyond = RecordPosition(rows[0].at.0 + (1 << 30));
    for from in [inside, beyond] {
        let refused = history(&mut alone, Some(from), 2);
        assert_eq!(refused, Answer::Refused(Refusal::CursorInvalid), "{from:?}");
    }
    assert!(alone.shard.failure().is_none());
}

#[test]
fn a_page_of_a_history_has_a_row_more_than_clients_may_ask_for() {
    let mut alone = Alone::open();
    // One more shows whether there is a next page.
    let most = PAGE_ROWS_MAX as usize + 1;
    alone.owing(most + 1);
    let Answer::Rows { rows, next, .. } = history(&mut alone, None, u32::MAX) else { panic!("it is there") };
    assert_eq!((rows.len(), next != RecordPosition::NONE), (most, true));
}

#[test]
fn a_small_page_is_read_before_the_rest_of_large_ones() {
    let mut alone = Alone::open();
    alone.owing(PAGE_ROWS_MAX as usize);
    let read = |limit| Operation::ReadHistory { id: on(HERE, "source").into(), from: None, limit };
    let large = 20;
    (0..large).for_each(|_| alone.call(read(PAGE_ROWS_MAX)));
    alone.settle();
    let beginnings = alone.jobs();
    assert_eq!(beginnings.len(), large, "each begins at once");
    alone.run(beginnings);
    alone.settle();
    let few = alone.jobs();
    assert!((1..large / 4).contains(&few.len()), "{} of the rest at once", few.len());
    alone.call(read(10));
    alone.settle();
    let small = alone.jobs();
    assert_eq!(small.len(), 1, "it waits for none of those that wait");
    alone.run(small);
    assert_eq!(alone.settle().len(), 1);
    alone.run(few);
    let answered = (0..large * 8).map(|_| {
        let answered = alone.settle().len();
        let jobs = alone.jobs();
        alone.run(jobs);
        answered
    });
    assert_eq!(answered.sum::<usize>(), large);
}

//! Turns without a shard: whose call is next.

use super::*;

const FLOODER: Caller = Caller(1);
const OTHER: Caller = Caller(2);

/// A full batch of the ledger.
const BATCH: usize = 8_190;

fn all(inbox: &mut Inbox<&'static str>) -> Vec<&'static str> {
    std::iter::from_fn(|| inbox.take_next()).collect()
}

/// Takes `calls` calls that are their own callers and work, and says how much work each of the two callers was given.
fn given(
    inbox: &mut Inbox<(Caller, usize)>,
    calls: usize,
    mut taken: impl FnMut(&mut Inbox<(Caller, usize)>, Caller),
) -> [usize; 2] {
    let mut given = [0; 2];
    for _ in 0..calls {
        let (caller, work) = inbox.take_next().expect("both have calls");
        given[usize::from(caller == OTHER)] += work;
        taken(inbox, caller);
    }
    given
}

fn push(inbox: &mut Inbox<(Caller, usize)>, caller: Caller, work: usize) {
    inbox.push(caller, work, (caller, work));
}

#[test]
fn a_small_call_waits_for_no_more_than_the_batch_that_is_being_served() {
    let mut inbox = Inbox::default();
    (0..8).for_each(|_| inbox.push(FLOODER, BATCH, "batch"));
    assert_eq!(inbox.take_next(), Some("batch"));
    inbox.push(OTHER, 1, "vote");
    assert_eq!(inbox.take_next(), Some("vote"));
    assert_eq!(all(&mut inbox), ["batch"; 7]);
}

#[test]
fn what_is_not_done_goes_on_behind_the_turns_of_others_and_before_all_of_its_caller() {
    let mut inbox = Inbox::default();
    inbox.push(FLOODER, BATCH, "first");
    inbox.push(FLOODER, BATCH, "second");
    let first = inbox.take_next().expect("it waits");
    inbox.put_back(FLOODER, first);
    assert_eq!(inbox.len(), 2);
    ["vote", "another"].into_iter().for_each(|vote| inbox.push(OTHER, 1, vote));
    assert_eq!(all(&mut inbox), ["vote", "another", "first", "second"]);
}

#[test]
fn calls_of_a_caller_keep_their_order() {
    let mut inbox = Inbox::default();
    for (caller, call) in [(FLOODER, "a1"), (OTHER, "b1"), (FLOODER, "a2"), (OTHER, "b2"), (FLOODER, "a3")] {
        inbox.push(caller, 40, call);
    }
    assert_eq!(all(&mut inbox), ["a1", "a2", "b1", "b2", "a3"], "a round has work for two of them");
}

/// Both were given as much, but for one call.
#[track_caller]
fn assert_even(batches: usize, small: usize) {
    assert!(batches.abs_diff(small) <= BATCH + WORK_IN_ROUND as usize, "{batches} and {small}");
}

#[test]
fn who_calls_much_at_once_is_given_as_much_as_who_calls_little_at_a_time() {
    let mut inbox = Inbox::default();
    (0..10).for_each(|_| push(&mut inbox, FLOODER, BATCH));
    (0..80_000).for_each(|_| push(&mut inbox, OTHER, 1));
    let [batches, small] = given(&mut inbox, 60_000, |_, _| {});
    assert_even(batches, small);
}

#[test]
fn who_comes_with_the_next_batch_when_the_last_is_taken_is_no_new_caller() {
    let mut inbox = Inbox::default();
    push(&mut inbox, FLOODER, BATCH);
    (0..80_000).for_each(|_| push(&mut inbox, OTHER, 1));
    let [batches, small] = given(&mut inbox, 60_000, |inbox, caller| {
        if caller == FLOODER {
            push(inbox, FLOODER, BATCH);
        }
    });
    assert_even(batches, small);
}

#[test]
fn what_a_caller_had_while_it_was_alone_does_not_count_but_for_its_last_call() {
    let mut inbox = Inbox::default();
    (0..100).for_each(|_| push(&mut inbox, FLOODER, BATCH));
    (0..50).for_each(|_| assert!(inbox.take_next().is_some()));
    (0..80_000).for_each(|_| push(&mut inbox, OTHER, 1));
    let [batches, small] = given(&mut inbox, 60_000, |_, _| {});
    assert_even(batches, small);
}

#[test]
fn callers_without_calls_are_forgotten() {
    let mut inbox = Inbox::default();
    for caller in 0..1_000 {
        inbox.push(Caller(caller), 1, "vote");
    }
    inbox.push(FLOODER, BATCH, "batch");
    assert_eq!((all(&mut inbox).len(), inbox.len()), (1_001, 0));
    assert!(inbox.lanes.is_empty() && inbox.order.is_empty());
    assert_eq!(inbox.spare.len(), SPARE_LANES_MAX);
}

/// With a round of nothing whoever is in debt stays so, and the search for the next call has no end.
#[test]
#[should_panic(expected = "whoever waits is given something")]
fn a_round_of_nothing_is_a_bug() {
    Inbox::<()>::with_round(0);
}

#[test]
fn whoever_is_held_has_no_turn_and_keeps_its_order() {
    let mut inbox = Inbox::default();
    inbox.push(FLOODER, 1, "first");
    let first = inbox.take_next().expect("it waits");
    inbox.push(FLOODER, 1, "second");
    inbox.hold(FLOODER, first);
    inbox.push(OTHER, 1, "vote");
    inbox.push(FLOODER, 1, "third");
    assert_eq!(inbox.held(FLOODER).map(|call| &**call).collect::<Vec<_>>(), ["first", "second", "third"]);
    assert_eq!(inbox.held(OTHER).count(), 0);
    assert_eq!((all(&mut inbox), inbox.len()), (vec!["vote"], 3));
    inbox.release(FLOODER);
    inbox.push(OTHER, 1, "another");
    assert_eq!(all(&mut inbox), ["first", "second", "third", "another"]);
    assert_eq!(inbox.len(), 0);
}

/// Its first batch was counted when it was taken, so it goes on when others have had as much.
#[test]
fn whoever_is_held_still_owes_what_it_was_given() {
    let mut inbox = Inbox::default();
    inbox.push(FLOODER, BATCH, (FLOODER, 0));
    inbox.push(OTHER, 1, (OTHER, 1));
    let batch = inbox.take_next().expect("it waits");
    inbox.hold(FLOODER, batch);
    (1..BATCH + 10).for_each(|_| push(&mut inbox, OTHER, 1));
    inbox.release(FLOODER);
    let before = std::iter::from_fn(|| inbox.take_next()).position(|(caller, _)| caller == FLOODER);
    assert!(before.is_some_and(|before| before + 2 * WORK_IN_ROUND as usize >= BATCH), "{before:?}");
}

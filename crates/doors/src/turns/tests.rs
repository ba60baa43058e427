//! Turns without sockets: who is next, and how much is done.

use super::limits::{HANDSHAKE_WORK_IN_TURN_MAX, WORK_IN_TURN_MAX};
use super::*;

type TestTurns = Turns<CallerName, usize>;

fn viewer(name: &str) -> CallerName {
    CallerName::Viewer(name.into())
}

/// Serves a turn in which every frame is worth `work`; who was served, in order. Everybody always has another frame.
fn turn(turns: &mut TestTurns, work: impl Fn(usize) -> isize) -> Vec<usize> {
    let mut served = Vec::new();
    turns.begin(WORK_IN_TURN_MAX);
    while let Some((caller, connection, may)) = turns.take_next() {
        let mut done = 0;
        while done < may {
            done += work(connection);
        }
        served.push(connection);
        turns.served(caller, done);
        turns.wait(caller, connection);
    }
    served
}

#[test]
fn one_connection_waits_for_one_round_of_a_caller_with_two_hundred() {
    let mut turns = TestTurns::default();
    let flooder = turns.join(viewer("flooder"));
    for connection in 0..200 {
        assert!(connection == 0 || turns.join(viewer("flooder")) == flooder);
        turns.wait(flooder, connection);
    }
    assert_eq!(turn(&mut turns, |_| 1).len() as isize, WORK_IN_TURN_MAX / WORK_IN_ROUND_MAX);
    let other = turns.join(viewer("other"));
    turns.wait(other, 1_000);
    let served = turn(&mut turns, |_| 1);
    assert!(served[..2].contains(&1_000), "{served:?}");
    let of_other = served.iter().filter(|connection| **connection == 1_000).count();
    assert_eq!(of_other, served.len() / 2, "and has half of the turn if it needs it");
}

#[test]
fn who_asks_pages_gets_as_much_work_as_who_asks_little() {
    let mut turns = TestTurns::default();
    let (pages, small) = (turns.join(viewer("pages")), turns.join(viewer("small")));
    turns.wait(pages, 1);
    turns.wait(small, 2);
    let mut work = [0; 3];
    for _ in 0..64 {
        for connection in turn(&mut turns, |connection| if connection == 1 { 251 } else { 1 }) {
            work[connection] += if connection == 1 { 251 } else { WORK_IN_ROUND_MAX };
        }
    }
    let ratio = work[1] as f64 / work[2] as f64;
    assert!((0.9..1.1).contains(&ratio), "{work:?}");
}

#[test]
fn a_turn_is_short_whatever_is_asked() {
    let mut turns = TestTurns::default();
    let caller = turns.join(viewer("a"));
    (0..200).for_each(|connection| turns.wait(caller, connection));
    let pages = turn(&mut turns, |_| 251).len() as isize;
    assert!(pages <= WORK_IN_TURN_MAX / 251 + 1, "{pages} pages of a thousand rows in one turn");
}

#[test]
fn a_caller_leaves_room_for_others_and_waits_without_being_forgotten() {
    let mut turns = TestTurns::default();
    let (many, other) = (turns.join(viewer("many")), turns.join(viewer("other")));
    let mut under_way = 0;
    while turns.may_begin(many) {
        turns.start(many, Weight::default());
        under_way += 1;
    }
    assert_eq!(under_way, ENDPOINT_REQUESTS_MAX * 3 / 4);
    assert!(turns.may_begin(other), "a quarter is left");
    turns.wait(many, 1);
    turns.wait(other, 2);
    turns.begin(WORK_IN_TURN_MAX);
    let (next, connection, _) = turns.take_next().unwrap();
    assert_eq!((next, connection), (other, 2), "who may not ask is not looked at");
    turns.served(other, 1);
    assert_eq!(turns.take_next(), None);
    turns.end(many, Weight::default());
    turns.begin(WORK_IN_TURN_MAX);
    assert_eq!(turns.take_next().map(|(next, connection, _)| (next, connection)), Some((many, 1)));
}

#[test]
fn who_is_gone_is_forgotten_when_the_last_answer_is_there() {
    let mut turns = TestTurns::default();
    let caller = turns.join(viewer("a"));
    turns.wait(caller, 7);
    turns.start(caller, Weight::default());
    turns.take_back(caller, 7);
    turns.leave(caller);
    assert_eq!((turns.callers.len(), turns.any_waiting(|_| true)), (1, false));
    turns.end(caller, Weight::default());
    assert!(turns.callers.is_empty() && turns.places.is_empty() && turns.is_empty());
    assert_eq!(turns.take_next(), None);
}

#[test]
fn strangers_share_the_turn_of_their_address() {
    let of = |text: &str| CallerName::of_address(text.parse().unwrap());
    assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    assert_eq!(of("2001:db8:0:1::5"), of("2001:db8:0:1:ffff::9"));
    assert_ne!(of("2001:db8:0:1::5"), of("2001:db8:0:2::5"));
}

#[test]
fn a_connection_may_join_only_while_it_waits() {
    let mut turns: Turns<CallerMark, usize> = Turns::default();
    let marks = CallerMarks::default();
    let line_up = |turns: &mut Turns<CallerMark, usize>, name: &str, connection: usize| {
        let caller = turns.join(marks.of(&viewer(name)));
        turns.wait(caller, connection);
    };
    (0..100).for_each(|connection| line_up(&mut turns, "flooder", connection));
    line_up(&mut turns, "other", 1_000);
    turns.begin(WORK_IN_TURN_MAX);
    let mut served = Vec::new();
    while let Some((caller, connection, _)) = turns.take_next() {
        turns.served(caller, WORK_IN_ROUND_MAX);
        served.push(connection);
        if connection != 1_000 {
            line_up(&mut turns, "flooder", connection);
        }
        turns.leave(caller);
    }
    assert!(served[..2].contains(&1_000), "{served:?}");
    assert_eq!(turns.callers.len(), 1, "who waits no longer is forgotten");
    assert!(!turns.is_empty() && turns.any_waiting(|connection| connection == 99));
}

#[test]
fn handshakes_of_a_thousand_addresses_keep_nobody_waiting_and_wait_for_each_other_alone() {
    const HANDSHAKE_WORK: isize = HANDSHAKE_WORK_IN_TURN_MAX / 2;
    const VOTER: usize = 5_000;
    let mut turns = TestTurns::default();
    for stranger in 0..1_000_u32 {
        let address = IpAddr::from((0x0a00_0000 + stranger).to_be_bytes());
        let caller = turns.join_in(Lane::of(true), CallerName::of_address(address));
        turns.wait(caller, stranger as usize);
    }
    // Whoever is connected from the same address stands in the other lane.
    let voter = turns.join(CallerName::of_address([10, 0, 0, 0].into()));
    turns.wait(voter, VOTER);
    for number in 0..10 {
        turns.begin(WORK_IN_TURN_MAX);
        let mut served = Vec::new();
        while let Some((caller, connection, _)) = turns.take_next() {
            let is_voter = connection == VOTER;
            turns.served(caller, if is_voter { 1 } else { HANDSHAKE_WORK });
            served.push(connection);
            if !is_voter {
                turns.leave(caller);
            }
        }
        assert_eq!(served, [VOTER, 2 * number, 2 * number + 1], "two in each turn, in the order of their addresses");
        assert!(!turns.is_empty());
        turns.wait(voter, VOTER);
    }
    // What is done for one that is gone by then counts as well.
    turns.begin(WORK_IN_TURN_MAX);
    turns.take_next().expect("the voter");
    let (caller, ..) = turns.take_next().expect("a handshake");
    turns.leave(caller);
    turns.served(caller, HANDSHAKE_WORK_IN_TURN_MAX);
    assert_eq!(turns.take_next(), None);
}

#[test]
fn what_a_request_turns_out_to_take_counts_until_it_ends() {
    let mut turns: Turns<CallerName, usize> = Turns::default();
    let caller = turns.join(CallerName::Viewer("a".into()));
    turns.start(caller, Weight::default());
    assert!(turns.may_begin(caller));
    let bytes = ENDPOINT_REQUEST_BYTES_MAX / 4 * 3;
    turns.grow(caller, bytes);
    assert!(!turns.may_begin(caller), "the others have what is left");
    turns.end(caller, Weight { bytes, ..Weight::default() });
    assert!(turns.may_begin(caller));
}

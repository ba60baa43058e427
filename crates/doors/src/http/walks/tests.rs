//! In which order large pieces are read.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::*;
use crate::turns::{CallerMarks, CallerName};

fn poll(turn: &mut Pin<Box<impl Future<Output = WalkPlace>>>) -> Option<WalkPlace> {
    match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(place) => Some(place),
        Poll::Pending => None,
    }
}

#[test]
fn a_caller_waits_for_a_piece_of_each_other_caller_and_not_for_all_their_requests() {
    let (walks, marks) = (Walks::default(), CallerMarks::default());
    let mark = |n: u8| marks.of(&CallerName::of_address(IpAddr::from([10, 0, 0, n])));
    let mut turns: Vec<_> = (0..200).map(|_| (1, Box::pin(walks.place(mark(1))))).collect();
    let mut held: VecDeque<WalkPlace> = turns.iter_mut().filter_map(|(_, turn)| poll(turn)).collect();
    assert_eq!(held.len(), PIECES_AT_ONCE, "few at once");
    turns.drain(..PIECES_AT_ONCE);
    turns.extend((0..10).map(|_| (2, Box::pin(walks.place(mark(2))))));
    turns.iter_mut().for_each(|(_, turn)| assert!(poll(turn).is_none()));
    // Some give up; nothing of them is left.
    turns.drain(..50);
    let mut order = Vec::new();
    while !turns.is_empty() {
        held.pop_front().expect("somebody reads");
        let at = turns.iter_mut().position(|(caller, turn)| match poll(turn) {
            Some(place) => {
                held.push_back(place);
                order.push(*caller);
                true
            }
            None => false,
        });
        drop(turns.remove(at.expect("the place that is free is given")));
    }
    let last_of_two = order.iter().rposition(|caller| *caller == 2).expect("it is served");
    assert!(last_of_two <= 2 * 10, "ten pieces of each in turn: {last_of_two}");
    assert_eq!(order.len(), 200 - PIECES_AT_ONCE - 50 + 10);
    held.clear();
    let state = walks.state();
    assert!(state.given == 0 && state.waiting.is_empty() && state.turns.is_empty());
}

#[test]
fn a_place_that_was_given_to_who_gave_up_is_given_to_the_next() {
    let (walks, marks) = (Walks::default(), CallerMarks::default());
    let mark = marks.of(&CallerName::of_address(IpAddr::from([10, 0, 0, 1])));
    let mut held: Vec<_> = (0..PIECES_AT_ONCE).map(|_| poll(&mut Box::pin(walks.place(mark))).expect("free")).collect();
    let (mut first, mut second) = (Box::pin(walks.place(mark)), Box::pin(walks.place(mark)));
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    held.pop();
    drop(first);
    assert!(poll(&mut second).is_some());
}

//! In which order places are given.

use std::collections::VecDeque;

use super::*;

type Turning = Pin<Box<dyn Future<Output = PlaceInTurn>>>;

fn poll(turn: &mut Turning) -> Option<PlaceInTurn> {
    match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(place) => Some(place),
        Poll::Pending => None,
    }
}

fn viewer(n: usize) -> CallerName {
    CallerName::Viewer(format!("viewer-{n}").into())
}

fn service() -> CallerName {
    CallerName::Service("shop".into())
}

fn places(at_once: usize, of_caller_at_once: usize, for_services: usize) -> PlacesInTurn {
    PlacesInTurn::new(PlaceLimits { at_once, of_caller_at_once, for_services })
}

/// Those who wait, and those who have a place.
struct Crowd {
    places: PlacesInTurn,
    waiting: Vec<(CallerName, Turning)>,
    held: VecDeque<PlaceInTurn>,
}

impl Crowd {
    fn of(places: PlacesInTurn) -> Crowd {
        Crowd { places, waiting: Vec::new(), held: VecDeque::new() }
    }

    fn ask(&mut self, caller: CallerName) {
        let mut turn: Turning = Box::pin(self.places.place(caller.clone()));
        match poll(&mut turn) {
            Some(place) => self.held.push_back(place),
            None => self.waiting.push((caller, turn)),
        }
    }

    /// The place that was given first is free; who gets one.
    fn next(&mut self) -> CallerName {
        self.held.pop_front().expect("somebody has a place");
        let mut given: Vec<usize> = Vec::new();
        for (n, (_, turn)) in self.waiting.iter_mut().enumerate() {
            if let Some(place) = poll(turn) {
                self.held.push_back(place);
                given.push(n);
            }
        }
        assert_eq!(given.len(), 1, "one place, one caller");
        self.waiting.remove(given[0]).0
    }
}

#[test]
fn a_caller_waits_for_one_of_each_other_caller_and_not_for_all_their_requests() {
    let mut crowd = Crowd::of(places(4, 4, 0));
    (0..200).for_each(|_| crowd.ask(viewer(1)));
    assert_eq!(crowd.held.len(), 4, "few at once");
    (0..10).for_each(|_| crowd.ask(viewer(2)));
    // Some give up; nothing of them is left.
    crowd.waiting.drain(..50);
    let order: Vec<CallerName> = (0..200 - 4 - 50 + 10).map(|_| crowd.next()).collect();
    let last_of_two = order.iter().rposition(|caller| *caller == viewer(2)).expect("it is served");
    assert!(last_of_two <= 2 * 10, "ten of each in turn: {last_of_two}");
    crowd.held.clear();
    let state = crowd.places.state();
    assert!(state.given == [0, 0] && state.waiting.is_empty() && state.callers.is_empty(), "{state:?}");
    assert!(state.order.iter().all(VecDeque::is_empty));
}

#[test]
fn one_of_a_caller_is_one_and_it_stands_at_the_end_again() {
    let mut crowd = Crowd::of(places(3, 1, 0));
    (0..5).for_each(|_| crowd.ask(viewer(1)));
    assert_eq!(crowd.held.len(), 1, "its others wait, although there are places");
    (2..4).for_each(|n| (0..2).for_each(|_| crowd.ask(viewer(n))));
    crowd.ask(viewer(4));
    assert_eq!(crowd.held.len(), 3);
    assert_eq!((0..5).map(|_| crowd.next()).collect::<Vec<_>>(), [4, 1, 2, 3, 1].map(viewer));
}

#[test]
fn a_service_waits_for_one_of_all_viewers() {
    let mut crowd = Crowd::of(places(1, 1, 0));
    (0..20).for_each(|n| (0..3).for_each(|_| crowd.ask(viewer(n))));
    (0..3).for_each(|_| crowd.ask(service()));
    assert_eq!(crowd.next(), service());
    assert_eq!([crowd.next(), crowd.next()], [viewer(1), service()]);
    assert_eq!([crowd.next(), crowd.next()], [viewer(2), service()]);
    assert_eq!([crowd.next(), crowd.next()], [viewer(3), viewer(4)]);
}

#[test]
fn viewers_leave_places_to_services() {
    let mut crowd = Crowd::of(places(4, 4, 2));
    (0..9).for_each(|n| crowd.ask(viewer(n)));
    assert_eq!(crowd.held.len(), 2);
    (0..2).for_each(|_| crowd.ask(service()));
    assert_eq!((crowd.held.len(), crowd.waiting.len()), (4, 7), "at once");
    crowd.ask(service());
    assert_eq!(crowd.waiting.len(), 8);
}

#[test]
fn a_place_that_was_given_to_who_gave_up_is_given_to_the_next() {
    let places = places(2, 2, 0);
    let turn = || -> Turning { Box::pin(places.place(viewer(1))) };
    let mut held: Vec<_> = (0..2).map(|_| poll(&mut turn()).expect("free")).collect();
    let (mut first, mut second) = (turn(), turn());
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    held.pop();
    drop(first);
    assert!(poll(&mut second).is_some());
}

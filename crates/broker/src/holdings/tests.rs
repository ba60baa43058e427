//! Bounds, parts, and that nothing stays behind.

use std::thread;

use super::*;

const THING: Thing = Thing::Session;

fn holdings(principal: u64, address: u64, all: u64) -> Holdings {
    let bound = |count| Bound { count, bytes: 0 };
    let mut limits = HoldingLimits::NONE;
    limits[THING] = ThingLimits { principal: bound(principal), address: bound(address), all: bound(all) };
    Holdings::new(limits)
}

#[test]
fn each_principal_has_its_own_bound_and_gets_back_what_is_gone() {
    let holdings = holdings(2, 1, 0);
    let (anna, bert) = (Principal::user("anna"), Principal::service("anna"));
    let of = |principal: &Principal| holdings.holder(principal);
    let first = of(&anna).hold(THING, 1, 5).expect("there is room");
    of(&anna).hold(THING, 1, 7).expect("there is room").keep();
    assert_eq!(of(&anna).hold(THING, 1, 0).err(), Some(Exceeded(THING)));
    assert_eq!(holdings.held_by(&anna, THING), (2, 12));
    let other = of(&bert).hold(THING, 2, 0).expect("a service is not the user of its name");
    drop(first);
    assert_eq!((holdings.held_by(&anna, THING), holdings.held(THING)), ((1, 7), (3, 7)));
    of(&anna).release(THING, 1, 7);
    drop(other);
    assert_eq!((holdings.held(THING), holdings.principals()), ((0, 0), 0), "who holds nothing is forgotten");
}

#[test]
fn who_is_not_known_leaves_a_part_to_those_who_are() {
    let holdings = holdings(9, 3, 8);
    let address = |nth: u32| holdings.holder(&Principal::address(&format!("10.0.0.{nth}")));
    let of_addresses: Vec<_> = (0..9).filter_map(|nth| address(nth / 3).hold(THING, 1, 0).ok()).collect();
    assert_eq!(of_addresses.len(), 4, "three of one address, and half of it all");
    let user = holdings.holder(&Principal::user("anna"));
    let of_user: Vec<_> = (0..9).filter_map(|_| user.hold(THING, 1, 0).ok()).collect();
    assert_eq!(of_user.len(), 4, "the other half");
    drop(of_addresses);
    assert!(user.hold(THING, 4, 0).is_ok(), "and all of it, while nobody else is there");
}

#[test]
fn bytes_are_bounded_too_and_what_is_refused_is_not_counted() {
    let mut limits = HoldingLimits::NONE;
    limits[THING].all.bytes = 100;
    limits[THING].principal.bytes = 60;
    let holdings = Holdings::new(limits);
    let (anna, bert) = (holdings.holder(&Principal::user("anna")), holdings.holder(&Principal::user("bert")));
    let _held = anna.hold(THING, 1, 60).expect("there is room");
    assert!(anna.hold(THING, 1, 1).is_err());
    assert!(bert.hold(THING, 1, 41).is_err());
    assert_eq!((holdings.held(THING), holdings.held_by(bert.principal(), THING)), ((1, 60), (0, 0)));
    let recovered = bert.charge(THING, 1, 500);
    assert_eq!(holdings.held(THING), (2, 560), "what the disk has is counted, whatever the bounds say now");
    drop(recovered);
    assert!(bert.hold(THING, 1, 40).is_ok());
}

#[test]
fn threads_that_come_and_go_leave_nothing() {
    let holdings = holdings(3, 0, 0);
    let principal = Principal::user("anna");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    let held = holdings.holder(&principal).hold(THING, 1, 9);
                    assert!(holdings.held_by(&principal, THING).0 <= 3, "the bound holds at any time");
                    drop(held);
                }
            });
        }
    });
    assert_eq!((holdings.held(THING), holdings.principals()), ((0, 0), 0));
}

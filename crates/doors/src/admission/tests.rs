//! Bounds per listener, per address, and over all clients.

use super::*;

const HERE: ListenerIndex = ListenerIndex(0);
const THERE: ListenerIndex = ListenerIndex(1);
/// Clients that a small bound lets in to be told.
const TOLD: usize = REFUSED_MIN - REFUSED_MIN / EARLY_PART;

fn admission(all: usize, per_listener: usize, per_address: u32) -> Admission {
    let limits = AdmissionLimits { connections_max: all, connections_per_address_max: per_address, turn_ms_max: 0 };
    Admission::new(limits, &[ListenerLimits { connections_max: per_listener, connections_per_s: 0 }; 2], 2)
}

fn address(n: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, n])
}

/// How many are welcome, and how many are told that they are not, before the door is shut.
fn flood(admission: &Admission, listener: ListenerIndex, address: impl Fn(usize) -> IpAddr) -> (usize, usize) {
    let (mut admitted, mut refused) = (0, 0);
    for n in 0.. {
        match admission.enter(listener, address(n), Some(0)) {
            Entry::Admitted(_) => admitted += 1,
            Entry::Refused(_, reason) => {
                assert_eq!(reason, ReasonCode::QUOTA_EXCEEDED);
                refused += 1;
            }
            Entry::Closed => break,
        }
    }
    (admitted, refused)
}

#[test]
fn a_listener_has_its_bound_and_some_are_told() {
    let admission = admission(10_000, 3_200, 0);
    assert_eq!(flood(&admission, HERE, |_| address(1)), (3_200, 150));
    // Of 256 in all, a quarter is kept for those who come early.
    assert_eq!(flood(&admission, THERE, |_| address(1)), (3_200, 42));
    assert_eq!(admission.connections(), 6_592);
}

#[test]
fn all_together_have_a_bound() {
    let admission = admission(100, 1_000, 0);
    assert_eq!(flood(&admission, HERE, |_| address(1)), (100, TOLD));
    // Who leaves makes room, and who is only told takes none of it.
    admission.leave(HERE, AddressMark::default(), Standing::Served);
    assert_eq!(flood(&admission, THERE, |_| address(1)), (1, 0));
    admission.leave(HERE, AddressMark::default(), Standing::Told);
    assert_eq!(flood(&admission, THERE, |_| address(1)), (0, 1));
}

#[test]
fn one_that_may_give_way_is_asked_to_where_a_bound_is_reached() {
    let admission = admission(12, 10, 0);
    assert_eq!(flood(&admission, HERE, |_| address(1)).0, 10);
    assert_eq!(flood(&admission, THERE, |_| address(1)).0, 2);
    // Told slots are full, so whoever comes is let in, or closed.
    assert_eq!(admission.enter(HERE, address(2), Some(0)), Entry::Closed);
    let giving_way = admission.giving_way();
    giving_way.join(1, THERE);
    assert_eq!(admission.enter(HERE, address(2), Some(0)), Entry::Closed, "one of another listener is of no use");
    assert!(matches!(admission.enter(THERE, address(2), Some(0)), Entry::Admitted(_)));
    assert_eq!(admission.enter(THERE, address(2), Some(0)), Entry::Closed, "there was one");
    assert_eq!((giving_way.take_asked(1, HERE), giving_way.take_asked(1, THERE)), (0, 1));
    giving_way.leave(1, THERE);
    admission.leave(THERE, AddressMark::default(), Standing::Served);
    giving_way.join(0, HERE);
    assert!(matches!(admission.enter(HERE, address(2), None), Entry::Admitted(_)));
    assert_eq!(giving_way.take_asked(0, HERE), 1);
}

#[test]
fn few_come_before_another_worker_has_made_room() {
    let admission = admission(1_000, 1_000, 0);
    let (served, _) = flood(&admission, HERE, |_| address(1));
    (0..served).for_each(|_| admission.giving_way().join(1, HERE));
    let early = flood(&admission, HERE, |_| address(2)).0;
    assert_eq!((served, early), (1_000, early_max(1_000)));
    assert!(admission.connections() <= let_in_max(1_000), "descriptors are for so many");
}

#[test]
fn an_address_has_its_bound_and_others_have_theirs() {
    let admission = admission(10_000, 10_000, 5);
    assert_eq!(flood(&admission, HERE, |_| address(1)), (5, 5));
    assert!(matches!(admission.enter(HERE, address(2), Some(0)), Entry::Admitted(_)));
    // The same, as a socket of IPv6 shows it.
    assert_eq!(admission.enter(THERE, "::ffff:10.0.0.1".parse().unwrap(), Some(0)), Entry::Closed);
    let sixes = |n: usize| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, n as u16]);
    assert_eq!(flood(&admission, THERE, sixes), (5, 5), "a /64 is one address");
    let Entry::Admitted(mark) = admission.enter(HERE, address(3), Some(0)) else { panic!("a new address is welcome") };
    admission.leave(HERE, mark, Standing::Served);
    assert_eq!(flood(&admission, HERE, |_| address(3)), (5, 5));
}

#[test]
fn an_overloaded_worker_is_busy_for_all() {
    let admission = admission(10, 10, 0);
    admission.set_overloaded(1, true);
    assert!(matches!(admission.enter(HERE, address(1), Some(0)), Entry::Refused(_, ReasonCode::SERVER_BUSY)));
    admission.set_overloaded(1, false);
    assert!(matches!(admission.enter(HERE, address(1), Some(0)), Entry::Admitted(_)));
}

#[test]
fn a_bound_for_so_many_descriptors_lets_in_no_more() {
    for clients in (2..3_000).chain([10_000, 1 << 20, 1 << 24]) {
        let bound = bound_for(clients);
        assert!(bound > 0 && let_in_max(bound) <= clients, "{bound} for {clients}");
        assert!(clients < 200 || bound > clients / 2, "{bound} for {clients}");
    }
    assert_eq!(bound_for(10_000), 9_744);
}

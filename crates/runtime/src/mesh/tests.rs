use super::*;

/// What arrives at `endpoint`: senders and bodies.
fn heard(endpoint: &mut Endpoint<u32>) -> Vec<(u16, u32)> {
    let mut heard = Vec::new();
    endpoint.receive(|envelope| heard.push((envelope.from.endpoint.0, envelope.body)));
    heard
}

#[test]
fn a_parcel_that_finds_the_ring_full_waits_and_keeps_its_place() {
    let mut endpoints = mesh::<u32>(2, 0);
    let (mine, other) = (Address::new(0, 0), Address::new(1, 0));
    let count = RING_MESSAGES as u32 + 10;
    for number in 0..count {
        endpoints[0].send(mine, other, number);
    }
    assert!(!endpoints[0].has_room(other.endpoint));
    assert!(!endpoints[0].sleep_unless(|| false), "who has something to send does not sleep");
    let mut all = heard(&mut endpoints[1]);
    endpoints[0].send(mine, other, count);
    endpoints[0].wake_receivers();
    all.extend(heard(&mut endpoints[1]));
    assert!(all.into_iter().map(|(_, number)| number).eq(0..=count));
    assert!(endpoints[0].has_room(other.endpoint));
}

#[test]
fn a_sleeper_is_woken_once_for_all_that_was_sent() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let mut endpoints = mesh::<u32>(1, 1);
    let woken = Arc::new(AtomicU32::new(0));
    let count = woken.clone();
    endpoints[1].parker().set_wake(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    assert!(endpoints[1].sleep_unless(|| false));
    for number in 0..3 {
        endpoints[0].send(Address::new(0, 0), Address::new(1, 0), number);
    }
    assert_eq!(woken.load(Ordering::Relaxed), 0, "not before all is sent");
    endpoints[0].wake_receivers();
    endpoints[0].wake_receivers();
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    endpoints[1].awake();
    assert_eq!(heard(&mut endpoints[1]), [(0, 0), (0, 1), (0, 2)]);
}

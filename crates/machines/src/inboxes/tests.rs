//! Inboxes, compared with a simple list.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn entry(body: BodyIndex) -> Entry {
    Entry {
        sequence: 1,
        subscription_ids: None,
        body,
        qos: 1,
        retain: false,
        state: EntryState::Queued,
        expires: false,
    }
}

#[test]
fn a_body_goes_with_its_last_entry() {
    let mut bodies = Bodies::default();
    let (mut a, mut b) = (Inbox::default(), Inbox::starting_at(7));
    let body = bodies.put("tide", 4, 2);
    assert_eq!((a.push(entry(body), 4), b.push(entry(body), 4)), (0, 7));
    assert_eq!((bodies.len(), bodies.bytes(), a.bytes(), b.bytes()), (1, 4, 4, 4));
    assert!(a.remove(0, &mut bodies) && !a.remove(0, &mut bodies), "each leaves once");
    assert_eq!(*bodies.get(body), "tide");
    b.clear(&mut bodies);
    assert!(bodies.is_empty() && b.is_empty());
    assert_eq!((bodies.bytes(), a.front_number(), b.front_number()), (0, 1, 8));
}

#[test]
fn what_is_acknowledged_out_of_order_leaves_a_hole_until_all_before_it_are_gone() {
    let mut bodies = Bodies::default();
    let mut inbox = Inbox::default();
    for _ in 0..4 {
        let body = bodies.put((), 1, 1);
        inbox.push(entry(body), 1);
    }
    assert!(inbox.remove(2, &mut bodies) && inbox.remove(1, &mut bodies));
    assert!(inbox.mark_received(3, 9) && !inbox.mark_received(2, 9));
    let left: Vec<u64> = inbox.entries_from(0).map(|(number, _)| number).collect();
    assert_eq!((left, inbox.front_number(), inbox.len()), (vec![0, 3], 0, 2));
    assert!(inbox.remove(0, &mut bodies));
    assert_eq!((inbox.front_number(), inbox.next_number()), (3, 4));
    assert_eq!(inbox.entry(3).map(|entry| entry.state), Some(EntryState::Received));
}

proptest! {
    #[test]
    fn an_inbox_is_a_list_with_numbers(moves in proptest::collection::vec((0u8..32, 0u64..40), 0..200)) {
        let mut bodies = Bodies::default();
        let mut inbox = Inbox::default();
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        let mut next = 0;
        for (kind, number) in moves {
            if kind == 0 {
                inbox.clear(&mut bodies);
                model.clear();
            } else if kind == 1 {
                next = next.max(number);
                inbox.skip_to(number);
            } else if kind < 4 {
                let number = inbox.front_number() + number % 8;
                let is_queued = inbox.entry(number).is_some_and(|entry| entry.state == EntryState::Queued);
                prop_assert_eq!(inbox.mark_received(number, 2), is_queued);
            } else if kind < 18 {
                let bytes = number as u32;
                let body = bodies.put(next, bytes, 1);
                prop_assert_eq!(inbox.push(entry(body), bytes), next);
                model.insert(next, bytes);
                next += 1;
            } else {
                let number = inbox.front_number() + number % 8;
                prop_assert_eq!(inbox.remove(number, &mut bodies), model.remove(&number).is_some());
            }
            inbox.assert_sound(&bodies);
            bodies.assert_sound(inbox.entries_from(0).map(|(_, entry)| entry.body));
            let found: Vec<(u64, u64)> =
                inbox.entries_from(0).map(|(number, entry)| (number, *bodies.get(entry.body))).collect();
            let wanted: Vec<(u64, u64)> = model.keys().map(|number| (*number, *number)).collect();
            prop_assert_eq!(found, wanted);
            prop_assert_eq!(inbox.bytes(), model.values().map(|bytes| u64::from(*bytes)).sum::<u64>());
            prop_assert_eq!(bodies.bytes(), inbox.bytes());
            prop_assert_eq!((inbox.len(), inbox.next_number()), (model.len(), next));
            prop_assert_eq!(inbox.front_number(), model.keys().next().copied().unwrap_or(next));
        }
    }
}

/// What only a bug can do is found where it is done.
mod bugs {
    use super::*;
    use crate::machine::tests::words_of_panic;

    /// An inbox with one entry, and a second one that shares its body without being counted.
    fn uncounted() -> (Bodies<&'static str>, Inbox, Inbox) {
        let mut bodies = Bodies::default();
        let (mut a, mut b) = (Inbox::default(), Inbox::default());
        let body = bodies.put("tide", 4, 1);
        a.push(entry(body), 4);
        b.push(entry(body), 4);
        (bodies, a, b)
    }

    #[test]
    fn a_body_that_more_wait_for_than_were_counted() {
        let (mut bodies, mut a, mut b) = uncounted();
        let waiting = [0, 0].map(BodyIndex);
        assert!(words_of_panic(|| bodies.assert_sound(waiting.into_iter())).contains("entries that wait for body 0"));
        assert!(a.remove(0, &mut bodies));
        assert_eq!(words_of_panic(|| b.assert_sound(&bodies)), "an entry waits for a body that is gone");
        let said = words_of_panic(|| assert!(b.remove(0, &mut bodies)));
        assert_eq!(said, "an entry waits for a body that is gone");
    }

    #[test]
    fn an_entry_of_other_bytes_than_its_body() {
        let mut bodies = Bodies::default();
        let mut inbox = Inbox::default();
        let body = bodies.put("tide", 4, 1);
        inbox.push(entry(body), 5);
        assert!(words_of_panic(|| inbox.assert_sound(&bodies)).contains("bytes that wait"));
        let said = words_of_panic(|| assert!(inbox.remove(0, &mut bodies)));
        assert_eq!(said, "bytes of no entry are left");
    }

    #[test]
    fn an_entry_that_is_received_before_it_came() {
        let (_, mut inbox, _) = uncounted();
        assert_eq!(words_of_panic(|| assert!(inbox.mark_received(0, 1))), "an entry is received by a later record");
    }
}

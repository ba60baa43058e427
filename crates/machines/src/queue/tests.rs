//! Inboxes against a list that does the same the slow way.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn entry(body: BodyIndex) -> Entry {
    Entry { sequence: 1, subscription_ids: None, body, qos: 1, retain: false, state: EntryState::Queued }
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
    fn an_inbox_is_a_list_with_numbers(moves in proptest::collection::vec((0u8..4, 0u64..40), 0..200)) {
        let mut bodies = Bodies::default();
        let mut inbox = Inbox::default();
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        let mut next = 0;
        for (kind, number) in moves {
            if kind < 2 {
                let bytes = number as u32;
                let body = bodies.put(next, bytes, 1);
                prop_assert_eq!(inbox.push(entry(body), bytes), next);
                model.insert(next, bytes);
                next += 1;
            } else {
                let number = inbox.front_number() + number % 8;
                prop_assert_eq!(inbox.remove(number, &mut bodies), model.remove(&number).is_some());
            }
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

use super::*;
use tidegate_machines::topic::MessageMeta;

fn waiter(payload: &str) -> Waiter {
    let message = Arc::new(Message::new("t", &[], payload.as_bytes(), MessageMeta::default()));
    Waiter { message, qos: 1, retain: false, subscription_ids: Box::default() }
}

fn payload(waiter: Option<Waiter>) -> Option<String> {
    waiter.map(|waiter| String::from_utf8(waiter.message.payload().to_vec()).unwrap())
}

#[test]
fn retained_messages_go_first_and_do_not_count() {
    let mut room = WaitingRoom::default();
    room.push(waiter("live"));
    room.push_retained(Waiter { retain: true, ..waiter("kept") });
    assert!(room.has_room(&waiter("x").message, 2, 1000) && !room.has_room(&waiter("x").message, 1, 1000));
    assert_eq!([room.pop(), room.pop(), room.pop()].map(payload), [Some("kept".into()), Some("live".into()), None]);
    assert!(room.is_empty());
}

#[test]
fn bytes_are_given_back() {
    let mut room = WaitingRoom::default();
    let bytes = waiter("12345678").bytes();
    room.push(waiter("12345678"));
    assert!(!room.has_room(&waiter("12345678").message, 10, 2 * bytes - 1));
    assert_eq!(payload(room.drop_oldest()).as_deref(), Some("12345678"));
    assert!(room.has_room(&waiter("12345678").message, 10, bytes));
    assert_eq!(payload(room.drop_oldest()), None);
}

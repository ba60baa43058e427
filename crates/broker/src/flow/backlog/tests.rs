use super::*;
use tidegate_machines::topic::MessageMeta;

fn queued(payload: &str) -> QueuedMessage {
    let message = Arc::new(Message::new("t", &[], payload.as_bytes(), MessageMeta::default()));
    QueuedMessage { message, qos: 1, retain: false, subscription_ids: Box::default(), of_group: None }
}

fn payload(queued: Option<QueuedMessage>) -> Option<String> {
    queued.map(|queued| String::from_utf8(queued.message.payload().to_vec()).unwrap())
}

#[test]
fn retained_messages_go_first_and_do_not_count() {
    let mut room = Backlog::default();
    room.push(queued("live"));
    room.push_retained(QueuedMessage { retain: true, ..queued("kept") });
    assert!(room.has_room(&queued("x").message, 2, 1000) && !room.has_room(&queued("x").message, 1, 1000));
    assert_eq!([room.pop(), room.pop(), room.pop()].map(payload), [Some("kept".into()), Some("live".into()), None]);
    assert!(room.is_empty());
}

#[test]
fn bytes_are_given_back() {
    let mut room = Backlog::default();
    let bytes = queued("12345678").bytes();
    room.push(queued("12345678"));
    assert!(!room.has_room(&queued("12345678").message, 10, 2 * bytes - 1));
    assert_eq!(payload(room.drop_oldest()).as_deref(), Some("12345678"));
    assert!(room.has_room(&queued("12345678").message, 10, bytes));
    assert_eq!(payload(room.drop_oldest()), None);
}

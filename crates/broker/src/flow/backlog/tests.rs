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

#[test]
fn what_came_by_a_group_is_kept_until_it_is_acknowledged_and_taken_by_its_group() {
    let [one, other] = ["$share/g/t", "$share/h/t"].map(GroupName::of);
    let of = |group| OfGroup { group, client: 7 };
    let sent = |payload, group| GroupMessage { message: queued(payload).message, of_group: of(group) };
    let mut backlog = Backlog::default();
    let small = backlog.may_keep(&queued("1").message, 1, usize::MAX);
    for (number, group) in [(3, one), (4, other), (7, one), (9, one)] {
        backlog.keep(number, sent("sent", group));
    }
    let is_bounded = backlog.may_keep(&queued("1").message, 4, usize::MAX);
    assert_eq!((small, is_bounded, backlog.is_empty()), (true, false, true), "it does not wait");
    backlog.push(queued("of nobody"));
    backlog.push(QueuedMessage { of_group: Some(of(other)), ..queued("other") });
    backlog.push(QueuedMessage { of_group: Some(of(one)), ..queued("waits") });
    assert_eq!([7, 8, 7].map(|number| backlog.acknowledged(number)), [true, false, false], "in any order, once");
    backlog.assert_sound();
    let payloads = |taken: Vec<GroupMessage>| {
        taken.iter().map(|taken| String::from_utf8_lossy(taken.message.payload()).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(payloads(backlog.take_waiting_of_groups(|group| group == other)), ["other"]);
    assert_eq!(payloads(backlog.take_of_groups(|group| group == one)), ["sent", "sent", "waits"]);
    backlog.assert_sound();
    assert_eq!((backlog.len(), backlog.acknowledged(4)), (1, true), "those of the other group are left");
    assert_eq!(backlog.pop().map(|left| left.message.payload().to_vec()), Some(b"of nobody".to_vec()));
    assert_eq!(backlog.bytes(), 0);
}

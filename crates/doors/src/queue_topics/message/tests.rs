//! Messages from properties, and back.

use std::sync::Arc;

use tidegate_queue::machine::{Delivery, Lease, MessageKey};

use super::*;

const NOW: TimeMs = TimeMs(1_700_000_000_000);

fn block(user: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    user.iter().for_each(|(name, value)| push_user_property(&mut block, name, value));
    block
}

fn sent(user: &[(&str, &str)]) -> Result<Message, QueueRefusal> {
    message_of(&block(user), None, b"body"[..].into(), NOW)
}

fn shown(message: Message) -> Vec<(String, String)> {
    let delivery = Delivery { lease: Lease { key: MessageKey::from_bits(77), attempt: 3 }, until: NOW };
    let properties = properties_of(&Received {
        delivery,
        attempts: 3,
        lease_left_ms: 0,
        expires_in_ms: None,
        message: Arc::new(message),
    });
    let properties = PublishProperties::read(&properties).expect("a client can read it");
    let mut shown: Vec<_> = properties.user().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut of_mqtt =
        |name: &str, value: Option<&str>| shown.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    of_mqtt("> content type", properties.content_type);
    of_mqtt("> response topic", properties.response_topic);
    of_mqtt("> correlation data", properties.correlation_data.map(|data| std::str::from_utf8(data).unwrap()));
    shown
}

#[test]
fn fields_and_attributes_come_from_properties() {
    let mut properties = block(&[("lang", "en"), ("id", "order-17"), ("ordering_key", "+49170"), ("priority", "9")]);
    properties.extend(block(&[("delay_ms", "1500"), ("key", "of another"), ("attempts", "4"), ("empty", "")]));
    push_content_type(&mut properties, "text/plain");
    push_response_topic(&mut properties, "answers/7");
    push_correlation_data(&mut properties, b"c-7");
    let message = message_of(&properties, Some(TimeMs(NOW.0 + 60_000)), b"body"[..].into(), NOW).unwrap();
    assert_eq!((message.id.as_deref(), message.ordering_key.as_deref()), (Some("order-17"), Some("+49170")));
    assert_eq!(
        (message.priority, message.visible_at, message.expires_at),
        (9, Some(When::After(1_500)), Some(When::After(60_000)))
    );
    assert_eq!(
        std::str::from_utf8(&message.attributes).unwrap(),
        concat!(
            r#"{"content_type":"text/plain","correlation_data":{"type":"Binary","value":"Yy03"},"#,
            r#""empty":"","lang":"en","response_topic":"answers/7"}"#,
        )
    );
    let key = MessageKey::from_bits(77).to_string();
    let expected = [
        ("key", &*key),
        ("attempts", "3"),
        ("id", "order-17"),
        ("ordering_key", "+49170"),
        ("priority", "9"),
        ("empty", ""),
        ("lang", "en"),
        ("> content type", "text/plain"),
        ("> response topic", "answers/7"),
        ("> correlation data", "c-7"),
    ];
    assert_eq!(shown(message), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn fields_that_cannot_be_are_refused() {
    let long = "x".repeat(129);
    for (user, refusal) in [
        (&[("id", "")][..], ID_INVALID),
        (&[("id", &long)], ID_INVALID),
        (&[("ordering_key", "a\u{7}")], ID_INVALID),
        (&[("priority", "10")], PRIORITY_INVALID),
        (&[("priority", "+1")], PRIORITY_INVALID),
        (&[("delay_ms", "1.5")], TIME_INVALID),
        (&[("delay_ms", "18446744073709551615")], TIME_INVALID),
        (&[("deliver_at_ms", "9999999999999999")], TIME_INVALID),
        (&[("delay_ms", "1"), ("deliver_at_ms", "1700000000001")], TIME_INVALID),
        (&[("a", "1"), ("a", "2")], NAME_TWICE),
        (&[("id", "1"), ("id", "2")], NAME_TWICE),
        (
            &[
                ("a", &"x".repeat(65_535)),
                ("b", &"x".repeat(65_535)),
                ("c", &"x".repeat(65_535)),
                ("d", &"x".repeat(65_535)),
            ],
            TOO_LARGE,
        ),
    ] {
        assert_eq!(sent(user), Err(refusal), "{user:?}");
    }
    assert_eq!(message_of(&[], Some(NOW), Box::default(), NOW), Err(EXPIRED));
    assert_eq!(sent(&[("deliver_at_ms", "5")]).unwrap().visible_at, Some(When::At(TimeMs(5))), "the past is at once");
}

#[test]
fn attributes_that_mqtt_cannot_show_are_counted() {
    let mut attributes = QueueAttributes::new();
    let mut add = |name: &str, kind: &str, value: &str| {
        attributes.insert(name.into(), QueueAttributeBody::new(kind, value.into()).unwrap());
    };
    add("long", "String", &"x".repeat(65_536));
    add("zero", "String", "a\0b");
    add("key", "String", "what HTTP allows");
    add("tries", "Number", "4");
    add("bytes", "Binary", "AAE=");
    add("content_type", "Number", "4");
    add("response_topic", "String", "a/#");
    let message =
        Message { attributes: write_attributes(&attributes), priority: PRIORITY_DEFAULT, ..Message::default() };
    let key = MessageKey::from_bits(77).to_string();
    let expected = [
        ("key", &*key),
        ("attempts", "3"),
        ("bytes", "AAE="),
        ("content_type", "4"),
        ("response_topic", "a/#"),
        ("tries", "4"),
        ("attributes_left_out", "3"),
    ];
    assert_eq!(shown(message), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

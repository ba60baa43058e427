//! Names, digests and attributes of messages.

use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_queue::machine::{Limit, Message, MessageKey, Refusal};

use super::digest;
use super::error::AwsError;
use super::message::{Given, attributes_of, chosen, shown, take_own};
use super::names::{arn_of, message_id, queue_of, queue_of_arn, url_of};
use super::noted::Noted;
use super::settings::QueueAttributes;
use crate::queue_attributes::{QueueAttributeBody, write_attributes};

fn given(text: &str) -> Given {
    serde_json::from_str(text).unwrap()
}

/// The second was computed with Python's hashlib, apart from this code.
#[test]
fn digests_are_those_that_sdks_compute() {
    assert_eq!(digest::of_body(b"hello"), "5d41402abc4b2a76b9719d911017c592");
    let attributes = attributes_of(given(
        r#"{"tries": {"DataType": "Number", "StringValue": "4"},
            "key": {"DataType": "Binary.aes", "BinaryValue": "3q2+7w=="},
            "lang": {"DataType": "String", "StringValue": "é"}}"#,
    ));
    assert_eq!(digest::of_attributes(&attributes.unwrap()).as_deref(), Some("5608cefd9b1cd4caa1cc3aa79f12965a"));
    assert_eq!(digest::of_attributes(&Default::default()), None);
}

#[test]
fn what_is_no_attribute_is_refused() {
    for (name, attribute) in [
        ("", r#"{"DataType": "String", "StringValue": "a"}"#),
        ("a b", r#"{"DataType": "String", "StringValue": "a"}"#),
        ("a", r#"{"DataType": "String"}"#),
        ("a", r#"{"DataType": "String", "StringValue": ""}"#),
        ("a", r#"{"StringValue": "a"}"#),
        ("a", r#"{"DataType": "Date", "StringValue": "a"}"#),
        ("a", r#"{"DataType": "Binary", "StringValue": "a"}"#),
        ("a", r#"{"DataType": "Binary", "BinaryValue": "?"}"#),
    ] {
        let body = format!("{{\"{name}\": {attribute}}}");
        assert!(attributes_of(given(&body)).is_err(), "{body}");
    }
    let many: Vec<String> =
        (0..11).map(|number| format!(r#""a{number}": {{"DataType": "String", "StringValue": "a"}}"#)).collect();
    assert!(attributes_of(given(&format!("{{{}}}", many.join(",")))).is_err());
}

#[test]
fn attributes_of_ours_say_what_sqs_cannot() {
    let number = |name: &str, value: &str| format!(r#""{name}": {{"DataType": "Number", "StringValue": "{value}"}}"#);
    let own = |text: String| {
        let mut attributes = attributes_of(given(&format!("{{{text}}}"))).unwrap();
        take_own(&mut attributes).map(|own| (own.priority, own.deliver_at, own.expires_at, attributes.len()))
    };
    let all = [number("Tidegate.Priority", "9"), number("Tidegate.DeliverAt", "7"), number("x", "1")].join(",");
    assert_eq!(own(all).unwrap(), (9, Some(TimeMs(7)), None, 1));
    assert_eq!(own(number("Tidegate.ExpiresAt", "8")).unwrap(), (4, None, Some(TimeMs(8)), 0));
    for wrong in [("Tidegate.Priority", "10"), ("Tidegate.Priority", "x"), ("Tidegate.Colour", "1")] {
        assert!(own(number(wrong.0, wrong.1)).is_err(), "{wrong:?}");
    }
}

#[test]
fn a_receiver_gets_the_attributes_that_it_names() {
    let attributes = attributes_of(given(
        r#"{"order.id": {"DataType": "Number", "StringValue": "4"},
            "lang": {"DataType": "String", "StringValue": "en"}}"#,
    ));
    let message = Message { attributes: write_attributes(&attributes.unwrap()), ..Message::default() };
    let key = MessageKey::new(TimeMs(1), 0, ShardIndex(0), 1, 1);
    let names = |wanted: &[&str]| {
        let wanted: Vec<Box<str>> = wanted.iter().map(|name| (*name).into()).collect();
        chosen(&message, key, true, &wanted).into_keys().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&[]), "");
    assert_eq!(names(&["All"]), "lang order.id");
    assert_eq!(names(&[".*"]), "lang order.id");
    assert_eq!(names(&["order.*", "other"]), "order.id");
    assert_eq!(names(&["lang", "Tidegate.*"]), "Tidegate.Key Tidegate.Priority lang");
    let all = chosen(&message, key, false, &["lang".into()]);
    let shown = shown(&all);
    assert_eq!(shown["Tidegate.BodyEncoding"].to_string(), r#"{"DataType":"String","StringValue":"base64"}"#);
    assert_eq!(shown["lang"].to_string(), r#"{"DataType":"String","StringValue":"en"}"#);
}

#[test]
fn no_sender_says_in_what_form_a_body_is() {
    // Another door takes such names.
    let mut attributes = crate::queue_attributes::QueueAttributes::new();
    for name in ["Tidegate.BodyEncoding", "Tidegate.Key", "lang"] {
        attributes.insert(name.into(), QueueAttributeBody::new("String", "base64".into()).unwrap());
    }
    let message =
        Message { attributes: write_attributes(&attributes), body: b"aGk=".as_slice().into(), ..Message::default() };
    let key = MessageKey::new(TimeMs(1), 0, ShardIndex(0), 1, 1);
    for wanted in ["All", ".*", "Tidegate.BodyEncoding"] {
        let chosen = chosen(&message, key, true, &[wanted.into()]);
        assert!(chosen.keys().all(|name| &**name == "lang"), "{wanted}: {chosen:?}");
    }
    let chosen = chosen(&message, key, true, &["Tidegate.*".into()]);
    assert_eq!(chosen["Tidegate.Key"].value(), key.to_string(), "the server's word, not the sender's");
}

#[test]
fn queues_and_messages_have_names_of_sqs() {
    assert_eq!(url_of("https", "h:1", "a{b}.fifo"), "https://h:1/000000000000/a%7Bb%7D.fifo");
    let name = |url: &str| queue_of(Some(url)).map(String::from).map_err(|error| error.code.name);
    assert_eq!(name("http://h:1/000000000000/a%7Bb%7D.fifo").as_deref(), Ok("a{b}.fifo"));
    assert_eq!(name("jobs").as_deref(), Ok("jobs"));
    assert_eq!(name("http://h:1/000000000000/"), Err("InvalidParameterValue"));
    assert_eq!(name("http://h:1/000000000000/%00"), Err("InvalidParameterValue"));
    assert_eq!(name(""), Err("MissingParameter"));
    assert_eq!(queue_of_arn(&arn_of("jobs")), Some("jobs"));
    assert_eq!(queue_of_arn("arn:aws:sqs:us-east-1:000000000000:a:b"), Some("a:b"));
    for other in ["", "jobs", "arn:aws:sqs:x:1:jobs", "arn:aws:sns:x:000000000000:jobs", "arn:aws:sqs:x:000000000000:"]
    {
        assert_eq!(queue_of_arn(other), None, "{other}");
    }
    let key = MessageKey::from_bits(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    assert_eq!(message_id(key), "01234567-89ab-cdef-0011-223344556677");
}

#[test]
fn attributes_of_a_queue_are_settings_and_notes() {
    let mut attributes = QueueAttributes::of_new_queue();
    let given = [
        ("VisibilityTimeout", "0"),
        ("ReceiveMessageWaitTimeSeconds", "20"),
        ("RedrivePolicy", r#"{"deadLetterTargetArn":"arn:aws:sqs:tidegate:000000000000:dead","maxReceiveCount":"3"}"#),
    ];
    let given = given.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    attributes.change("jobs", &given).unwrap();
    let settings = attributes.clone().into_settings();
    assert_eq!((settings.lease_ms, settings.attempts_max, settings.dead_letter.as_deref()), (1, Some(3), Some("dead")));
    assert_eq!(std::str::from_utf8(&settings.notes).unwrap(), r#"{"receive_wait_s":20}"#);
    assert_eq!(QueueAttributes::of(&settings), attributes);
    for (name, value) in [
        ("VisibilityTimeout", "43201"),
        ("DelaySeconds", "-1"),
        ("MessageRetentionPeriod", "59"),
        ("RedrivePolicy", "{}"),
        ("RedrivePolicy", r#"{"deadLetterTargetArn":"dead","maxReceiveCount":1}"#),
        ("FifoQueue", "true"),
        ("ContentBasedDeduplication", "true"),
        ("Policy", "{}"),
        ("Colour", "red"),
    ] {
        let given = [(name.into(), value.into())].into_iter().collect();
        assert!(attributes.change("jobs", &given).is_err(), "{name} {value}");
    }
}

#[test]
fn notes_that_are_none_are_as_if_there_were_none() {
    assert_eq!(Noted::read(b"[1]"), Noted::default());
    assert_eq!(Noted::read(br#"{"receive_wait_s":3,"colour":1}"#).receive_wait_s, 3);
    assert!(Noted::default().write().is_empty());
}

#[test]
fn a_bound_that_is_met_is_over_limit() {
    for refusal in [
        Refusal::TooManyQueues,
        Refusal::TooManyQueuesOfOwner,
        Refusal::Full(Limit::MessagesOfOwner, 7),
        Refusal::Full(Limit::IdsOfOwner, 7),
    ] {
        let response = AwsError::from(&refusal).into_response();
        assert_eq!(response.headers()["x-amzn-errortype"], "OverLimit", "{refusal}");
    }
}

//! Encoded events: pinned examples, and damaged ones.

use std::sync::Arc;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::topic::{
    DropReason, Event, EventError, KeptPlace, Message, MessageMeta, Origin, Principal, Receiver, Slot, Topics, Will,
};
use crate::{Machine, ShardIndex, TimeMs};

fn time() -> impl Strategy<Value = TimeMs> {
    prop_oneof![Just(0), 0..=TimeMs::MAX.0].prop_map(TimeMs)
}

fn message() -> impl Strategy<Value = Arc<Message>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
    let meta = (0..=2u8, any::<bool>(), proptest::option::of(time()));
    ("\\PC{0,40}", bytes(), bytes(), meta).prop_map(|(topic, properties, payload, (qos, retain, expires_at))| {
        Arc::new(Message::new(&topic, &properties, &payload, MessageMeta { qos, retain, expires_at }))
    })
}

fn will() -> impl Strategy<Value = Option<Will>> {
    let will = (message(), any::<u32>(), proptest::option::of(any::<u32>()));
    proptest::option::of(will.prop_map(|(message, delay_s, expiry_s)| Will { message, delay_s, expiry_s }))
}

fn origin() -> impl Strategy<Value = Origin> {
    let parts = (any::<u16>(), any::<u64>(), any::<u16>(), any::<u32>());
    parts.prop_map(|(shard, incarnation, packet_id, part)| Origin { shard, incarnation, packet_id, part })
}

fn receiver() -> impl Strategy<Value = Receiver> {
    let ids = proptest::collection::vec(any::<u32>(), 0..4);
    (any::<u32>(), 1..=2u8, any::<bool>(), ids).prop_map(|(slot, qos, retain, ids)| Receiver {
        slot: Slot(slot),
        qos,
        retain,
        subscription_ids: ids.into(),
    })
}

fn published() -> impl Strategy<Value = Event> {
    let receivers = proptest::collection::vec(receiver(), 0..5);
    let evicted = proptest::collection::vec(any::<u32>(), 0..5);
    let times = (time(), time());
    (times, proptest::option::of(message()), proptest::option::of(origin()), receivers, evicted, any::<u32>()).prop_map(
        |((at, drop_at), message, origin, receivers, evicted, dropped)| Event::Published {
            at,
            message,
            drop_at,
            origin,
            receivers: receivers.into(),
            evicted: evicted.into(),
            dropped,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let slot = || any::<u32>().prop_map(Slot);
    let entry = || (slot(), any::<u64>());
    let text = || "\\PC{0,40}".prop_map(|text: String| text.into_boxed_str());
    let owner = || proptest::option::of("\\PC{0,40}".prop_map(|name: String| Principal::user(&name)));
    prop_oneof![
        published(),
        (time(), slot(), text(), owner(), any::<u32>(), will()).prop_map(
            |(at, slot, client_id, owner, expiry_s, will)| Event::SessionOpened {
                at,
                slot,
                client_id,
                owner,
                expiry_s,
                will
            }
        ),
        (time(), slot(), owner(), any::<u32>(), will(), any::<bool>()).prop_map(
            |(at, slot, owner, expiry_s, will, is_new)| {
                let names_will = is_new && will.is_some();
                Event::SessionAttached { at, slot, owner, expiry_s, will, names_will }
            }
        ),
        (slot(), time(), any::<u32>(), any::<bool>())
            .prop_map(|(slot, at, expiry_s, keep_will)| Event::SessionDetached { slot, at, expiry_s, keep_will }),
        slot().prop_map(|slot| Event::SessionEnded { slot }),
        slot().prop_map(|slot| Event::WillCleared { slot }),
        (slot(), text(), any::<u8>(), any::<u32>()).prop_map(|(slot, filter, options, subscription_id)| {
            Event::Subscribed { slot, filter, options, subscription_id }
        }),
        (slot(), text()).prop_map(|(slot, filter)| Event::Unsubscribed { slot, filter }),
        (slot(), text(), any::<u64>(), proptest::collection::vec(any::<u8>(), 0..40)).prop_map(
            |(slot, filter, number, place)| Event::PlaceKept {
                slot,
                filter,
                kept: KeptPlace { number, place: place.into() }
            }
        ),
        entry().prop_map(|(slot, number)| Event::Acknowledged { slot, number }),
        entry().prop_map(|(slot, number)| Event::Received { slot, number }),
        (entry(), any::<bool>()).prop_map(|((slot, number), aged)| {
            let reason = if aged { DropReason::Aged } else { DropReason::Expired };
            Event::Dropped { slot, number, reason }
        }),
        origin().prop_map(Event::OriginForgotten),
        (any::<u16>(), any::<u64>()).prop_map(|(shard, incarnation)| Event::OriginsForgotten { shard, incarnation }),
        (message(), owner()).prop_map(|(message, owner)| Event::Retained { message, owner }),
        (time(), message(), proptest::option::of(origin()), owner())
            .prop_map(|(at, message, origin, owner)| Event::Delayed { at, message, origin, owner }),
        any::<u64>().prop_map(|id| Event::DelayedSent { id }),
    ]
}

fn encoded(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    Topics::encode(event, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn every_event_comes_back(event in event()) {
        let bytes = encoded(&event);
        let decoded = Topics::decode(&bytes);
        prop_assert_eq!(decoded.as_ref(), Ok(&event));
        for cut in 0..bytes.len() {
            prop_assert!(Topics::decode(&bytes[..cut]).is_err(), "cut at {}", cut);
        }
        prop_assert_eq!(Topics::decode(&[&bytes[..], &[0]].concat()), Err(EventError::Damaged("end")));
    }

    #[test]
    fn what_decodes_has_one_form(event in event(), at in any::<prop::sample::Index>(), change in 1..=255u8) {
        let mut bytes = encoded(&event);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        if let Ok(other) = Topics::decode(&bytes) {
            prop_assert_eq!(encoded(&other), bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Topics::decode(&bytes);
        let _ = Topics::read_snapshot(&bytes);
    }
}

fn hex(event: &Event, expected: Expect) {
    let words: Vec<String> = encoded(event).iter().map(|byte| format!("{byte:02x}")).collect();
    expected.assert_eq(&words.join(" "));
}

/// The examples of `docs/formats/topics.md`.
#[test]
fn bytes_are_as_documented() {
    let meta = MessageMeta { qos: 1, retain: false, expires_at: None };
    let message = Arc::new(Message::new("a/b", &[], b"hi", meta));
    let receivers = [Receiver { slot: Slot(7), qos: 1, retain: false, subscription_ids: [].into() }];
    hex(
        &Event::Published {
            at: TimeMs(1_800_000_000_000),
            message: Some(message),
            drop_at: TimeMs(0),
            origin: None,
            receivers: receivers.into(),
            evicted: [].into(),
            dropped: 0,
        },
        expect!["08 80 a0 f1 c2 b1 34 00 00 00 01 07 01 00 01 01 00 03 61 2f 62 00 02 68 69"],
    );
    hex(&Event::Acknowledged { slot: Slot(7), number: 300 }, expect!["09 07 ac 02"]);
    let will: Option<Will> = None;
    let opened = |at| Event::SessionOpened {
        at: TimeMs(at),
        slot: Slot(7),
        client_id: "c1".into(),
        owner: None,
        expiry_s: 60,
        will: will.clone(),
    };
    hex(&opened(1_800_000_000_000), expect!["12 07 80 a0 f1 c2 b1 34 02 63 31 3c 00"]);
    // As programs wrote it that kept no time.
    hex(&opened(0), expect!["01 07 02 63 31 3c 00"]);
    let message = Arc::new(Message::new("a/b", &[], b"hi", meta));
    let will = Some(Will { message: Arc::clone(&message), delay_s: 5, expiry_s: None });
    let attached = |names_will| Event::SessionAttached {
        at: TimeMs(1_800_000_000_000),
        slot: Slot(7),
        owner: None,
        expiry_s: 60,
        will: will.clone(),
        names_will,
    };
    hex(&attached(true), expect!["15 07 80 a0 f1 c2 b1 34 3c 05 00 01 00 03 61 2f 62 00 02 68 69"]);
    // As programs wrote it that named all wills of a session by the record that opened it.
    hex(&attached(false), expect!["13 07 80 a0 f1 c2 b1 34 3c 01 05 00 01 00 03 61 2f 62 00 02 68 69"]);
    hex(
        &Event::Retained { message, owner: Some(Principal::user("eve")) },
        expect!["14 05 75 3a 65 76 65 0e 01 00 03 61 2f 62 00 02 68 69"],
    );
    let kept = KeptPlace { number: 300, place: b"xyz"[..].into() };
    hex(
        &Event::PlaceKept { slot: Slot(7), filter: "a/b".into(), kept },
        expect!["11 07 03 61 2f 62 ac 02 03 78 79 7a"],
    );
    let mut empty = Vec::new();
    Machine::write_snapshot(&Topics::new(ShardIndex(2)), &mut |part| empty.extend_from_slice(part));
    assert_eq!(empty, [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn an_event_of_a_newer_program_is_named() {
    assert_eq!(Topics::decode(&[99, 1, 2]), Err(EventError::UnknownTag(99)));
}

#[test]
fn a_time_of_zero_is_no_time_and_has_no_second_form() {
    let at = TimeMs(5);
    let attached =
        Event::SessionAttached { at, slot: Slot(9), owner: None, expiry_s: 1, will: None, names_will: false };
    let owner = Some(Principal::service("s"));
    let opened = Event::SessionOpened { at, slot: Slot(9), client_id: "anna".into(), owner, expiry_s: 1, will: None };
    for event in [attached, opened] {
        let bytes = encoded(&event);
        for at in 0..bytes.len() {
            let mut zeroed = bytes.clone();
            zeroed[at] = 0;
            if let Ok(other) = Event::decode(&zeroed) {
                assert_eq!(encoded(&other), zeroed, "byte {at} of {event:?}");
            }
        }
    }
}

//! What is taken once: each part of a message with more receivers than fit in one record, and delayed messages.

use super::shard::{Shard, message};
use crate::TimeMs;
use crate::topic::{Command, Event, Origin, Receiver, Refusal, Slot};

fn publish(slot: u32, origin: Origin) -> Command {
    let receivers = [Receiver { slot: Slot(slot), qos: 2, retain: false, subscription_ids: Box::default() }];
    Command::Publish {
        message: message("t", "x", 2, None),
        receivers: receivers.into(),
        origin: Some(origin),
        unheeded: [].into(),
    }
}

#[test]
fn each_part_of_a_message_is_taken_once_until_its_origin_is_forgotten() {
    let mut shard = Shard::new();
    for client_id in ["a", "b"] {
        let opened =
            shard.ask(&Command::OpenSession { client_id: client_id.into(), owner: None, expiry_s: 10, will: None });
        assert!(opened.is_ok());
    }
    let (first, other) = (Origin::new(1, 7, 3), Origin::new(1, 7, 4));
    let second = Origin { part: 1, ..first };
    assert!(shard.ask(&publish(0, first)).is_ok());
    // As after a crash between the two records.
    assert_eq!(shard.ask(&publish(0, first)), Err(Refusal::Duplicate));
    assert!(shard.ask(&publish(1, second)).is_ok());
    assert_eq!(shard.ask(&publish(1, second)), Err(Refusal::Duplicate));
    assert!(shard.ask(&publish(1, Origin { part: u32::MAX, ..other })).is_ok());
    assert_eq!((0..2).map(|slot| shard.topics.inbox(Slot(slot)).len()).collect::<Vec<_>>(), [1, 2]);

    assert_eq!(shard.ask(&Command::ForgetOrigin(first)), Ok(Event::OriginForgotten(first)));
    assert_eq!(shard.ask(&Command::ForgetOrigin(first)), Err(Refusal::Nothing));
    assert!(!shard.topics.knows_origin(second) && shard.topics.knows_origin(other));
    assert!(shard.ask(&Command::ForgetOrigins { shard: 1, incarnation: 7 }).is_ok());
    assert!(!shard.topics.knows_origin(other));
    shard.check();
}

#[test]
fn what_is_delayed_is_taken_once_until_its_origin_is_forgotten() {
    let mut shard = Shard::new();
    let origin = Origin::new(1, 7, 3);
    let delay = Command::Delay {
        at: TimeMs(2_000_000),
        message: message("d", "x", 2, None),
        origin: Some(origin),
        owner: None,
    };
    assert!(shard.ask(&delay).is_ok());
    assert_eq!(shard.ask(&delay), Err(Refusal::Duplicate));
    assert!(shard.ask(&Command::ForgetOrigin(origin)).is_ok());
    assert!(shard.ask(&delay).is_ok());
    assert_eq!(shard.topics.facts().delayed, 2);
    shard.check();
}

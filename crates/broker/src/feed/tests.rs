use super::{Feed, FeedKind, FeedMessage, FeedPlace, FeedStart, Numbers};
use crate::index::SessionIndex;
use crate::limits::FEED_WINDOW;
use crate::session::SessionRef;

const SESSION: SessionRef = SessionRef { index: SessionIndex::new(1), generation: 0 };

fn place(number: u64) -> Box<[u8]> {
    number.to_string().into_bytes().into()
}

fn at(number: u64) -> FeedPlace {
    FeedPlace { numbers: Numbers::all(1, number), place: place(number) }
}

fn start(number: u64, dup_below: u64) -> FeedStart {
    FeedStart { from: at(number), dup_below: Numbers::all(1, dup_below), is_durable: true }
}

/// Message `number` of its partition.
fn message(partition: u16, number: u64) -> FeedMessage {
    FeedMessage { partition, place: place(number + 1), properties: [].into(), payload: place(number) }
}

/// A feed that has read messages `from..to`.
fn feed(from: u64, to: u64, dup_below: u64) -> Feed {
    let mut feed = Feed::new(SESSION, "f/#", FeedKind::Kept, start(from, dup_below));
    assert!(feed.demands() && !feed.demands(), "one part is asked for");
    feed.take((from..to).map(|n| message(0, n)).collect(), place(to));
    feed
}

fn send(feed: &mut Feed) -> Vec<(u16, bool)> {
    let mut sent = Vec::new();
    while let Some((_, packet_id, is_dup)) = feed.front() {
        sent.push((packet_id, is_dup));
        feed.sent(false);
        feed.assert_sound();
    }
    sent
}

#[test]
fn the_place_goes_on_in_order_whatever_the_order_of_acknowledgements() {
    let mut feed = feed(0, 3, 0);
    let ids: Vec<u16> = send(&mut feed).into_iter().map(|(id, _)| id).collect();
    assert_eq!(feed.in_flight(), 3);
    assert!(feed.acknowledge(ids[1]) && feed.acknowledge(ids[2]));
    assert_eq!(feed.next_to_keep(), None, "the first is still under way");
    assert!(!feed.acknowledge(ids[1]), "once is enough");
    assert!(feed.uses(ids[0]) && !feed.uses(ids[1]));
    assert!(feed.acknowledge(ids[0]));
    assert_eq!(feed.next_to_keep(), Some(at(3)));
    assert_eq!(feed.next_to_keep(), None, "one record at a time");
    feed.is_durable();
    assert_eq!((feed.left_to_keep(), feed.in_flight()), (None, 0));
}

#[test]
fn no_more_is_sent_beyond_the_durable_place_than_the_window() {
    let mut feed = feed(0, FEED_WINDOW + 5, 0);
    let ids: Vec<u16> = send(&mut feed).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len() as u64, FEED_WINDOW);
    assert!(feed.acknowledge(ids[0]));
    assert!(feed.front().is_none(), "acknowledged is not durable");
    assert_eq!(feed.next_to_keep(), Some(at(1)));
    feed.is_durable();
    assert_eq!(send(&mut feed).len(), 1);
}

#[test]
fn after_a_restart_the_same_messages_have_the_same_ids_and_say_that_they_may_come_again() {
    let mut before = feed(70_000, 70_003, 0);
    let ids = send(&mut before);
    assert!(ids.iter().all(|(_, is_dup)| !is_dup));
    assert!(before.acknowledge(ids[0].0));
    let kept = before.next_to_keep().expect("one was acknowledged");
    let number = kept.numbers.get(0);
    let mut after = feed(number, number + 3, number + 2);
    let again = send(&mut after);
    assert_eq!(again[..2], [(ids[1].0, true), (ids[2].0, true)]);
    assert!(!again[2].1, "what cannot have been sent does not say so");
}

#[test]
fn what_is_of_no_interest_is_passed_and_kept() {
    let mut feed = Feed::new(SESSION, "f/#", FeedKind::Kept, start(7, 0));
    assert!(feed.demands());
    feed.take(Vec::new(), place(99));
    assert_eq!(feed.next_to_keep(), Some(FeedPlace { place: place(99), ..at(7) }));
    assert_eq!(feed.read(), &*place(99));
    feed.is_durable();
    assert!(feed.demands());
    feed.again();
    assert!(feed.demands(), "what was not ready is asked for again");
}

#[test]
fn a_live_feed_needs_no_acknowledgement_and_keeps_nothing() {
    let mut feed = Feed::new(SESSION, "f/#", FeedKind::Live, start(0, 0));
    assert!(feed.demands());
    let count = FEED_WINDOW * 2;
    feed.take((0..count).map(|n| message(0, n)).collect(), place(count));
    for _ in 0..count {
        let (_, packet_id, is_dup) = feed.front().expect("it waits");
        assert_eq!((packet_id, is_dup), (0, false));
        feed.sent(true);
    }
    assert_eq!((feed.in_flight(), feed.next_to_keep()), (0, None));
    assert!(feed.demands());
}

/// Two partitions whose messages come in the order in which they are written, and then in another one.
#[test]
fn a_message_that_is_read_in_another_turn_has_the_id_that_it_had() {
    let begin = FeedPlace { numbers: Numbers::of([70, 9].into()), place: place(0) };
    let read = |start: FeedStart, messages: &[(u16, u64)]| {
        let mut feed = Feed::new(SESSION, "f/#", FeedKind::Kept, start);
        assert!(feed.demands());
        feed.take(messages.iter().map(|(partition, number)| message(*partition, *number)).collect(), place(99));
        let sent = send(&mut feed);
        (feed, sent)
    };
    let (mut feed, first) = read(FeedStart::anew(begin, true), &[(0, 70), (1, 9), (1, 10), (0, 71)]);
    assert!(feed.acknowledge(first[1].0) && feed.acknowledge(first[0].0));
    let kept = feed.next_to_keep().expect("two were acknowledged");
    assert_eq!(kept.numbers.as_slice(), [71, 10]);

    let (_, again) = read(FeedStart::behind(kept), &[(0, 71), (0, 72), (1, 10)]);
    assert_eq!((again[0], again[2]), ((first[3].0, true), (first[2].0, true)), "under way before");
    assert!(first.iter().all(|(id, _)| *id != again[1].0), "another message has an id of its own");
}

#[test]
fn before_its_place_is_durable_nothing_is_sent() {
    let mut feed = Feed::new(SESSION, "f/#", FeedKind::Kept, FeedStart::anew(at(5), false));
    assert!(feed.demands());
    feed.take(vec![message(0, 5)], place(6));
    assert!(feed.front().is_none());
    assert_eq!(feed.next_to_keep(), Some(at(5)));
    feed.is_durable();
    assert!(feed.front().is_some_and(|(_, _, is_dup)| !is_dup));
}

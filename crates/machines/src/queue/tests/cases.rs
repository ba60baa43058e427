use super::*;
use crate::queue::event::{Event, QueueIndex, Touched};

#[test]
fn what_is_not_acknowledged_comes_again() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    driven.send("jobs", &[message("a"), message("b")]);
    let first = driven.receive("jobs", 10);
    assert_eq!(driven.counts("jobs"), (0, 0, 2));
    assert_eq!(driven.received("jobs", 10), []);
    assert_eq!(driven.acknowledge("jobs", &first[..1]), [Ok(())]);
    driven.wait(29_999);
    assert_eq!(driven.received("jobs", 10), []);
    driven.wait(1);
    assert_eq!(driven.received("jobs", 10), [(2, 2)], "its lease has ended");
    assert_eq!(driven.acknowledge("jobs", &first), [Ok(()), Err(LeaseRefusal::Lost)]);
    assert_eq!(driven.counts("jobs"), (0, 0, 1));
}

#[test]
fn a_late_acknowledgement_counts_while_nobody_else_has_the_message() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    driven.send("jobs", &[message("a")]);
    let lease = driven.receive("jobs", 1);
    driven.wait(30_000);
    assert_eq!(driven.counts("jobs"), (1, 0, 0));
    assert_eq!(driven.acknowledge("jobs", &lease), [Ok(())]);
    assert_eq!(driven.acknowledge("jobs", &lease), [Ok(())], "an answer may have been lost");
    assert_eq!(driven.counts("jobs"), (0, 0, 0));
    let forged = Lease { attempt: 0, ..lease[0] };
    driven.send("jobs", &[message("b")]);
    let forged = Lease { key: driven.queues.browse("jobs", ALL_KEYS).unwrap().next().unwrap().key, ..forged };
    assert_eq!(driven.acknowledge("jobs", &[forged]), [Err(LeaseRefusal::Lost)], "nobody got it yet");
}

#[test]
fn a_clock_that_is_set_back_ends_and_begins_nothing() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { delay_ms: 100, ..Settings::default() });
    driven.send("jobs", &[message("a")]);
    driven.now.0 -= 500;
    driven.send("jobs", &[message("b")]);
    driven.wait(550);
    assert_eq!(driven.counts("jobs"), (0, 2, 0));
    driven.wait(50);
    assert_eq!(driven.received("jobs", 10), [(1, 1), (2, 1)]);
}

#[test]
fn leases_can_be_made_longer_and_shorter() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    driven.send("jobs", &[message("a")]);
    let lease = driven.receive("jobs", 1);
    driven.wait(20_000);
    let extend = Command::Extend { queue: "jobs", leases: &lease, lease_ms: 30_000 };
    assert_eq!(leases_of(driven.ask(extend.clone())), [Ok(())]);
    driven.wait(29_999);
    assert_eq!(driven.counts("jobs"), (0, 0, 1));
    driven.wait(1);
    assert_eq!(leases_of(driven.ask(extend)), [Err(LeaseRefusal::Lost)]);
}

#[test]
fn delays_hold_and_can_be_changed() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { delay_ms: 500, ..Settings::default() });
    let year = 365 * 24 * 3_600_000;
    let later = Message { visible_at: Some(When::At(TimeMs(driven.now.0 + year))), ..message("b") };
    let receipts = driven.send("jobs", &[message("a"), later]);
    assert_eq!(driven.counts("jobs"), (0, 2, 0));
    driven.wait(499);
    assert_eq!(driven.received("jobs", 10), []);
    driven.wait(1);
    assert_eq!(driven.received("jobs", 10), [(1, 1)]);
    let visible_at = When::At(TimeMs(driven.now.0 + 5));
    assert_eq!(driven.ask(Command::Reschedule { key: receipts[1].key, visible_at, ids: &[] }), Outcome::Done);
    driven.wait(5);
    assert_eq!(driven.received("jobs", 10), [(2, 1)]);
    let refused = driven.ask(Command::Cancel { key: receipts[1].key, ids: &[] });
    assert_eq!(refused, Outcome::Refused(Refusal::MessageLeased));
}

#[test]
fn a_cancelled_message_is_not_handed_out() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    let receipts = driven.send("jobs", &[message("a"), message("b")]);
    assert_eq!(driven.ask(Command::Cancel { key: receipts[0].key, ids: &[] }), Outcome::Done);
    assert_eq!(driven.received("jobs", 10), [(2, 1)]);
    assert_eq!(driven.queues.message(receipts[0].key).unwrap().state, MessageState::Cancelled);
    let again = driven.ask(Command::Cancel { key: receipts[0].key, ids: &[] });
    assert_eq!(again, Outcome::Refused(Refusal::MessageNotFound));
}

#[test]
fn an_id_is_taken_once_while_it_is_remembered() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { id_window_ms: Some(1_000), ..Settings::default() });
    let with_id = Message { id: Some("x".into()), ..message("a") };
    let receipts = driven.send("jobs", &[with_id.clone(), with_id.clone()]);
    assert!(!receipts[0].is_duplicate && receipts[1].is_duplicate);
    assert_eq!(receipts[0].key, receipts[1].key);
    let lease = driven.receive("jobs", 10);
    driven.acknowledge("jobs", &lease);
    driven.wait(999);
    assert!(driven.send("jobs", std::slice::from_ref(&with_id))[0].is_duplicate, "also when the first one is gone");
    assert_eq!(driven.queues.key_of_id("jobs", "x", driven.now), Some(receipts[0].key));
    driven.wait(1);
    let anew = driven.send("jobs", &[with_id]);
    assert!(!anew[0].is_duplicate && anew[0].key > receipts[0].key);
    assert_eq!(driven.queues.ids_due.len(), 1);
}

#[test]
fn an_id_may_be_remembered_from_when_its_message_is_due() {
    for (until_due, is_remembered) in [(true, [true, true, false]), (false, [false; 3])] {
        let mut driven = Driven::new();
        let window = Settings { id_window_ms: Some(1_000), ids_until_due: until_due, ..Settings::default() };
        driven.queue("jobs", window.clone());
        driven.queue("slow", Settings { delay_ms: 50_000, ..window });
        let due = driven.now.0 + 50_000;
        let with_id = |visible_at| Message { id: Some("x".into()), visible_at, ..message("a") };
        driven.send("jobs", &[with_id(Some(When::At(TimeMs(due))))]);
        driven.send("slow", &[with_id(None)]);
        driven.now.0 = due - 1;
        let mut seen = |at: u64| {
            driven.wait(at - driven.now.0);
            let has = |queue| driven.queues.key_of_id(queue, "x", driven.now).is_some();
            assert_eq!(has("jobs"), has("slow"), "whoever says when it is due");
            has("jobs")
        };
        assert_eq!([due, due + 999, due + 1_000].map(&mut seen), is_remembered);
        // What is due at once is remembered for the window, as elsewhere.
        driven.send("jobs", &[Message { id: Some("y".into()), ..message("b") }]);
        driven.wait(1_000);
        assert_eq!(driven.queues.key_of_id("jobs", "y", driven.now), None);
    }
}

/// Else a retry behind the first time is another message, and who takes much back fills the ids of a queue for years.
#[test]
fn an_id_that_lasts_until_its_message_is_due_follows_what_becomes_of_that() {
    let mut driven = Driven::new();
    let settings = Settings { id_window_ms: Some(1_000), ids_until_due: true, ..Settings::default() };
    driven.queue("jobs", settings.clone());
    driven.queue("short", Settings { ids_until_due: false, ..settings });
    let begun = driven.now.0;
    let with_id = |id: &str| Message { visible_at: Some(When::After(50_000)), id: Some(id.into()), ..message("a") };
    let [x, y, z] = ["x", "y", "z"].map(|id| driven.send("jobs", &[with_id(id)])[0].key);
    let short = driven.send("short", &[with_id("x")])[0].key;
    let ids = |id: &str| vec!["another".into(), id.into()];
    let has = |driven: &Driven, queue, id| driven.queues.key_of_id(queue, id, driven.now).is_some();
    let later = When::After(90_000);
    for key in [x, short] {
        let anew = Command::Reschedule { key, visible_at: later, ids: &ids("x") };
        assert_eq!(driven.ask(anew), Outcome::Done);
    }
    assert_eq!(driven.ask(Command::Cancel { key: y, ids: &ids("y") }), Outcome::Done);
    assert_eq!(driven.ask(Command::Cancel { key: z, ids: &ids("y") }), Outcome::Done);
    driven.wait(999);
    assert!(has(&driven, "jobs", "y") && has(&driven, "short", "x"), "a retry that was on its way is taken back, too");
    driven.wait(1);
    assert!(!has(&driven, "jobs", "y"));
    assert!(!has(&driven, "short", "x"), "its window has begun when it came");
    assert!(has(&driven, "jobs", "z"), "that was the id of another message");
    for (at, is_there) in
        [(50_999, [true, true]), (51_000, [true, false]), (90_999, [true, false]), (91_000, [false; 2])]
    {
        driven.wait(begun + at - driven.now.0);
        assert_eq!(["x", "z"].map(|id| has(&driven, "jobs", id)), is_there, "{at}");
    }
}

#[test]
fn an_id_may_be_remembered_for_ever_or_not_at_all() {
    let mut driven = Driven::new();
    driven.queue("ever", Settings { id_window_ms: None, ..Settings::default() });
    driven.queue("never", Settings { id_window_ms: Some(0), ..Settings::default() });
    let with_id = Message { id: Some("x".into()), ..message("a") };
    for _ in 0..2 {
        driven.send("ever", std::slice::from_ref(&with_id));
        driven.send("never", std::slice::from_ref(&with_id));
        driven.wait(1 << 40);
    }
    assert_eq!((driven.counts("ever").0, driven.counts("never").0), (1, 2));
}

#[test]
fn messages_of_one_key_go_one_after_the_other() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { retry_ms: 100, ..Settings::default() });
    let keyed = |key: &str, body| Message { ordering_key: Some(key.into()), ..message(body) };
    driven.send("jobs", &[keyed("a", "1"), keyed("a", "2"), keyed("b", "3"), message("4"), keyed("a", "5")]);
    let first = driven.receive("jobs", 10);
    assert_eq!(first.iter().map(|lease| lease.key.number()).collect::<Vec<_>>(), [1, 3, 4]);
    assert_eq!(driven.reject("jobs", &first[..1], Rejection::Retry(None)), [Ok(())]);
    assert_eq!(driven.received("jobs", 10), [], "who waits for another try is not passed");
    driven.wait(100);
    let second = driven.receive("jobs", 10);
    assert_eq!(second.iter().map(|lease| lease.key.number()).collect::<Vec<_>>(), [1]);
    driven.acknowledge("jobs", &second);
    assert_eq!(driven.received("jobs", 10), [(2, 1)]);
}

#[test]
fn the_highest_level_goes_first_and_the_others_have_a_share() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    let at = |priority: u8| Message { priority, ..message("m") };
    driven.send("jobs", &(0..20).map(|_| at(1)).collect::<Vec<_>>());
    driven.send("jobs", &(0..20).map(|_| at(9)).collect::<Vec<_>>());
    let received: Vec<u64> = driven.receive("jobs", 20).iter().map(|lease| lease.key.number()).collect();
    let low: Vec<usize> = (0..20).filter(|place| received[*place] <= 20).collect();
    assert_eq!(low, [7, 15]);
}

#[test]
fn what_is_delivered_too_often_goes_to_the_dead_letters_and_back() {
    let mut driven = Driven::new();
    driven.queue("dead", Settings::default());
    let dead_letter = Some("dead".into());
    driven.queue("jobs", Settings { attempts_max: Some(2), dead_letter, lease_ms: 10, ..Settings::default() });
    driven.send("jobs", &[message("a"), message("b")]);
    driven.receive("jobs", 10);
    driven.wait(10);
    let again = driven.receive("jobs", 10);
    assert_eq!(driven.reject("jobs", &again[..1], Rejection::Retry(Some(0))), [Ok(())]);
    assert_eq!(driven.counts("dead").0, 1, "rejected for the second time");
    driven.wait(10);
    assert_eq!(driven.counts("dead").0, 2, "its lease ended for the second time");
    assert_eq!(driven.queues.view("jobs").unwrap().totals.dead, 2);
    assert_eq!(driven.acknowledge("jobs", &again), [Err(LeaseRefusal::Lost); 2]);
    let moved = driven.ask(Command::Redrive { from: "dead", to: "jobs", max: 1 });
    assert_eq!(moved, Outcome::Some { count: 1, more: true });
    assert_eq!(driven.received("jobs", 10), [(1, 3)], "its deliveries are counted on, so that old leases are none");
    assert_eq!(driven.acknowledge("jobs", &again[..1]), [Err(LeaseRefusal::Lost)]);
    let deleted = driven.ask(Command::DeleteQueue { name: "dead" });
    assert_eq!(deleted, Outcome::Refused(Refusal::QueueNotEmpty));
}

#[test]
fn retries_wait_twice_as_long_each_time() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { retry_ms: 100, retry_max_ms: 350, ..Settings::default() });
    driven.send("jobs", &[message("a")]);
    for waits in [100, 200, 350, 350] {
        let lease = driven.receive("jobs", 1);
        driven.reject("jobs", &lease, Rejection::Retry(None));
        driven.wait(waits - 1);
        assert_eq!(driven.counts("jobs"), (0, 1, 0));
        driven.wait(1);
    }
    assert_eq!(driven.counts("jobs"), (1, 0, 0));
}

#[test]
fn what_nobody_acknowledged_expires() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { expiry_ms: Some(1_000), ..Settings::default() });
    let receipts = driven.send("jobs", &[message("a"), message("b")]);
    let lease = driven.receive("jobs", 1);
    driven.wait(1_000);
    assert_eq!(driven.counts("jobs"), (0, 0, 1), "who has it may still acknowledge it");
    assert_eq!(driven.acknowledge("jobs", &lease), [Ok(())]);
    assert_eq!(driven.queues.message(receipts[1].key).unwrap().state, MessageState::Expired);
    assert_eq!(driven.queues.view("jobs").unwrap().totals.expired, 1);
}

#[test]
fn a_rate_allows_bursts() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { rate_per_s: Some(10), burst: 3, ..Settings::default() });
    driven.send("jobs", &(0..10).map(|_| message("m")).collect::<Vec<_>>());
    assert_eq!(driven.received("jobs", 10).len(), 3);
    assert_eq!(driven.received("jobs", 10).len(), 0);
    assert_eq!(driven.queues.offers("jobs", driven.now), Offer::From(TimeMs(driven.now.0 + 100)));
    driven.wait(100);
    assert_eq!(driven.received("jobs", 10).len(), 1);
    driven.wait(1_000);
    assert_eq!(driven.received("jobs", 10).len(), 3);
}

#[test]
fn a_paused_queue_takes_messages_and_hands_out_none() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { is_paused: true, ..Settings::default() });
    driven.send("jobs", &[message("a")]);
    assert_eq!(driven.received("jobs", 1), []);
    assert_eq!(driven.queues.offers("jobs", driven.now), Offer::Nothing);
    driven.queue("jobs", Settings::default());
    assert_eq!(driven.received("jobs", 1), [(1, 1)]);
}

#[test]
fn a_purge_removes_what_was_there() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    driven.send("jobs", &[message("a"), message("b"), message("c")]);
    driven.receive("jobs", 1);
    let purged = driven.ask(Command::Purge { queue: "jobs", up_to: 2 });
    assert_eq!(purged, Outcome::Some { count: 2, more: false });
    assert_eq!(driven.counts("jobs"), (1, 0, 0));
    driven.ask(Command::Purge { queue: "jobs", up_to: 3 });
    assert_eq!(driven.ask(Command::DeleteQueue { name: "jobs" }), Outcome::Done);
    assert_eq!(driven.ask(Command::DeleteQueue { name: "jobs" }), {
        Outcome::Refused(Refusal::QueueNotFound("jobs".into()))
    });
}

#[test]
fn bounds_hold() {
    let mut driven = Driven::new();
    driven.bounds = Bounds::new(3, 1, 8);
    driven.queue("jobs", Settings { messages_max: Some(2), ..Settings::default() });
    driven.queue("others", Settings::default());
    driven.send("jobs", &[message("a"), message("b")]);
    let send = |driven: &mut Driven, queue: &str, message: Message| {
        driven.ask(Command::Send { queue, messages: &[Arc::new(message)] })
    };
    let is_full = |outcome: Outcome| matches!(outcome, Outcome::Refused(Refusal::Full(..)));
    assert!(is_full(send(&mut driven, "jobs", message("c"))));
    driven.send("others", &[Message { id: Some("1".into()), ..message("c") }]);
    assert!(is_full(send(&mut driven, "others", message("d"))));
    let lease = driven.receive("jobs", 1);
    driven.acknowledge("jobs", &lease);
    assert!(is_full(send(&mut driven, "others", Message { id: Some("2".into()), ..message("d") })));
    driven.send("others", &[message("d")]);
    let large = Message { body: vec![0; limits::MESSAGE_BYTES_MAX + 1].into(), ..message("") };
    let refused = send(&mut driven, "others", large);
    assert!(matches!(refused, Outcome::Refused(Refusal::MessageInvalid { index: 0, .. })), "{refused:?}");
}

#[test]
fn one_queue_leaves_room_for_others() {
    let mut driven = Driven::new();
    driven.bounds = Bounds::new(8, 4, 8);
    for name in ["flood", "other", "third"] {
        driven.queue(name, Settings { id_window_ms: Some(10), ..Settings::default() });
    }
    let with_id = |id: &str| Message { id: Some(id.into()), ..message("") };
    let send = |driven: &mut Driven, queue: &str, message: Message| match driven
        .ask(Command::Send { queue, messages: &[Arc::new(message)] })
    {
        Outcome::Sent(_) => None,
        Outcome::Refused(Refusal::Full(limit, _)) => Some(limit),
        outcome => panic!("{outcome:?}"),
    };
    for id in ["1", "2"] {
        assert_eq!(send(&mut driven, "flood", with_id(id)), None);
    }
    assert_eq!(send(&mut driven, "flood", with_id("3")), Some(Limit::IdsOfQueue));
    for id in ["3", "4"] {
        assert_eq!(send(&mut driven, "other", with_id(id)), None, "others go on");
    }
    assert_eq!(send(&mut driven, "third", with_id("5")), Some(Limit::Ids));
    driven.now.0 += 10;
    assert_eq!(send(&mut driven, "flood", with_id("4")), None, "ids whose window is over count no more");
    assert_eq!(send(&mut driven, "flood", message("")), None);
    assert_eq!(send(&mut driven, "flood", message("")), Some(Limit::MessagesOfQueue));
    for message in [with_id("6"), message("")] {
        assert_eq!(send(&mut driven, "third", message), None);
    }
    assert_eq!(send(&mut driven, "third", message("")), Some(Limit::Messages));
    driven.queues.assert_sound();
}

#[test]
fn ids_whose_window_is_over_make_room_in_all_queues() {
    let mut driven = Driven::new();
    driven.bounds = Bounds { ids_of_queue_max: 2, ..Bounds::new(1_000, 2, 8) };
    for (name, window) in [("short", Some(10)), ("other", None), ("gone", None)] {
        driven.queue(name, Settings { id_window_ms: window, ..Settings::default() });
    }
    let of = |id: &str| [Message { id: Some(id.into()), ..message("") }];
    driven.send("short", &of("1"));
    driven.send("short", &of("2"));
    driven.now.0 += 10;
    driven.send("short", &of("1"));
    driven.send("gone", &of("1"));
    let third =
        |driven: &mut Driven| driven.ask(Command::Send { queue: "other", messages: &[Arc::new(of("3")[0].clone())] });
    assert!(matches!(third(&mut driven), Outcome::Refused(Refusal::Full(..))), "two are remembered");
    driven.queues.assert_sound();
    driven.now.0 += 10;
    driven.send("other", &of("4"));
    let up_to = driven.queues.newest_number();
    driven.ask(Command::Purge { queue: "gone", up_to });
    assert_eq!(driven.ask(Command::DeleteQueue { name: "gone" }), Outcome::Done);
    driven.send("other", &of("3"));
    driven.queues.assert_sound();
    let bytes = snapshot(&driven.queues);
    assert_eq!(snapshot(&Queues::read_snapshot(&bytes).unwrap()), bytes);
}

#[test]
fn a_shard_that_has_given_all_numbers_takes_no_message() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    driven.queues.next = NUMBER_END - 2;
    driven.send("jobs", &[message("the last")]);
    let refused = driven.ask(Command::Send { queue: "jobs", messages: &[Arc::new(message("one more"))] });
    assert!(matches!(refused, Outcome::Refused(Refusal::Full(..))), "{refused:?}");
}

#[test]
fn keys_grow_and_say_where_their_message_is() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    let mut keys = Vec::new();
    for node in [7, 7, 9] {
        driven.ask(Command::Start { node });
        keys.extend(driven.send("jobs", &[message("a")]).iter().map(|receipt| receipt.key));
        driven.wait(1);
    }
    assert!(keys.is_sorted_by(|one, next| one < next && one.to_string() < next.to_string()));
    assert_eq!(keys.iter().map(|key| (key.node(), key.restart())).collect::<Vec<_>>(), [(7, 0), (7, 1), (9, 2)]);
    for key in keys {
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(driven.queues.message(key).map(|view| view.key), Some(key));
        let forged = MessageKey::from_bits(key.bits() ^ 1 << 40);
        assert_eq!(driven.queues.message(forged), None, "the whole key counts");
    }
    for bad in ["", "0", "ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "0000000000000000000000000I", "000000000000000000000000000"] {
        assert_eq!(bad.parse::<MessageKey>(), Err(NoKey), "{bad}");
    }
}

/// A message that comes a second time on its way to a queue is refused; one that is given a second time is a duplicate.
#[test]
fn a_queue_does_not_take_what_has_come_through_it() {
    let mut driven = Driven::new();
    driven.ask(Command::Start { node: 4 });
    ["jobs", "other"].into_iter().for_each(|name| driven.queue(name, Settings::default()));
    let of_other_node = MessageKey::new(TimeMs(5), 9, ShardIndex(0), 1, 7).to_string();
    let sent = |via: Option<&str>| {
        [Message { id: Some(of_other_node.clone().into()), via: via.map(Into::into), ..message("a") }]
    };
    let first = driven.send("jobs", &sent(Some("9/out")));
    let again = driven.send("jobs", &sent(Some("9/out")));
    assert!(again[0].is_duplicate && again[0].key == first[0].key);
    let node = first[0].key.node();
    let round = format!("9/out {node}/jobs 3/out");
    let refused = |driven: &mut Driven, via: &str| {
        let messages = sent(Some(via)).map(Arc::new);
        let answer = driven.ask(Command::Send { queue: "jobs", messages: &messages });
        matches!(answer, Outcome::Refused(Refusal::MessageInvalid { index: 0, .. }))
    };
    assert!(refused(&mut driven, &round));
    // Under another number, the node is the one that it was.
    driven.ask(Command::Start { node: node + 1 });
    assert!(refused(&mut driven, &round));
    assert!(!refused(&mut driven, &format!("9/out {}/jobs", node + 2)));
    // Another queue here is not there yet.
    assert!(!driven.send("other", &sent(Some(&round)))[0].is_duplicate);
    assert!(refused(&mut driven, "not a way"));
}

/// What is sent again to the queue that a walk brings it to is taken once, whichever of the two comes first.
#[test]
fn what_a_walk_brings_has_the_id_of_its_sender_beside_the_key() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { id_window_ms: Some(1_000), ..Settings::default() });
    let key = |number| MessageKey::new(TimeMs(5), 9, ShardIndex(0), 1, number).to_string();
    let brought =
        |number, origin: &str| Message { id: Some(key(number).into()), origin_id: Some(origin.into()), ..message("a") };
    let of_sender = |id: &str| Message { id: Some(id.into()), ..message("a") };
    let direct = driven.send("jobs", &[of_sender("shop\u{1f}2")])[0].key;
    let receipts = driven.send("jobs", &[brought(1, "1"), brought(2, "shop\u{1f}2"), brought(3, "1"), of_sender("1")]);
    let taken = receipts[0].key;
    let keys: Vec<_> = receipts.iter().map(|receipt| (receipt.key, receipt.is_duplicate)).collect();
    assert_eq!(keys, [(taken, false), (direct, true), (taken, true), (taken, true)]);
    for id in [key(1).as_str(), "1"] {
        assert_eq!(driven.queues.key_of_id("jobs", id, driven.now), Some(taken), "{id}");
    }
    assert_eq!(driven.queues.ids(), 3 - 1 + 1 / limits::KEYS_PER_ID + 1, "both count");
    let whole = driven.body(taken.number());
    assert_eq!(whole.origin(), Some(("", "1")));
    let (place, moved) = (driven.queues.body_place(taken.number()), [(taken.number(), Arc::new(whole.clone()))]);
    assert_eq!(driven.ask(Command::Move { messages: &moved }), Outcome::Done);
    assert_ne!(driven.queues.body_place(taken.number()), place);
    assert_eq!(driven.body(taken.number()), whole, "it is moved with it");
    driven.wait(1_000);
    assert!(!driven.send("jobs", &[of_sender("1")])[0].is_duplicate, "it is remembered for the window");
    // Nobody says so of what they send first.
    let forged = [of_sender("3"), message("a")].map(|message| {
        let messages = [Arc::new(Message { origin_id: Some("4".into()), ..message })];
        driven.ask(Command::Send { queue: "jobs", messages: &messages })
    });
    assert!(forged.iter().all(|said| matches!(said, Outcome::Refused(Refusal::MessageInvalid { .. }))), "{forged:?}");
    driven.queues.assert_sound();
}

/// What a link gives on has the queue that it comes from in its way; what its first sender sends has none.
#[test]
fn a_record_has_the_way_of_a_message() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    let key = MessageKey::new(TimeMs(5), 9, ShardIndex(0), 1, 7).to_string();
    let of_link = Message { id: Some(key.into()), ..message("b") };
    let through = Message { via: Some("9/out".into()), ..message("c") };
    let receipts = driven.send("jobs", &[message("a"), of_link, through]);
    let ways = receipts.iter().map(|receipt| driven.body(receipt.key.number()).via.map(String::from));
    let here = format!("{}/jobs", receipts[0].key.node());
    assert_eq!(ways.collect::<Vec<_>>(), [None, Some(here.clone()), Some(format!("9/out {here}"))]);
    // They are moved with it.
    let messages: Vec<_> =
        receipts.iter().map(|of| (of.key.number(), Arc::new(driven.body(of.key.number())))).collect();
    let before: Vec<_> = messages.iter().map(|(number, _)| driven.queues.body_place(*number)).collect();
    assert_eq!(driven.ask(Command::Move { messages: &messages }), Outcome::Done);
    for ((number, message), place) in messages.iter().zip(before) {
        assert_ne!(driven.queues.body_place(*number), place);
        assert_eq!(driven.body(*number), **message);
    }
}

/// Links that lead round in a circle: whoever had it before would take it for what it has already.
#[test]
fn a_queue_does_not_take_a_message_under_the_key_that_it_gave_it() {
    let mut driven = Driven::new();
    ["jobs", "other"].into_iter().for_each(|name| driven.queue(name, Settings::default()));
    let key = driven.send("jobs", &[message("a")])[0].key;
    let back = || [Arc::new(Message { id: Some(key.to_string().into()), ..message("a") })];
    let refused = |driven: &mut Driven| {
        let answer = driven.ask(Command::Send { queue: "jobs", messages: &back() });
        matches!(answer, Outcome::Refused(Refusal::MessageInvalid { index: 0, .. }))
    };
    assert!(refused(&mut driven), "while it waits");
    let leases = driven.receive("jobs", 1);
    assert!(refused(&mut driven), "while it is under way");
    driven.acknowledge("jobs", &leases);
    assert!(refused(&mut driven), "when it is done with");
    // Another queue of the same node may be on its way.
    let taken = driven.send("other", &back().map(|message| Message::clone(&message)));
    assert!(!taken[0].is_duplicate);
}

#[test]
fn what_became_of_a_message_is_remembered_for_a_time() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { trail_ms: 1_000, ..Settings::default() });
    let receipts = driven.send("jobs", &[message("a")]);
    let lease = driven.receive("jobs", 1);
    driven.acknowledge("jobs", &lease);
    driven.wait(999);
    driven.send("jobs", &[message("b")]);
    assert_eq!(driven.queues.message(receipts[0].key).unwrap().state, MessageState::Acknowledged);
    driven.wait(1);
    driven.send("jobs", &[message("c")]);
    assert_eq!(driven.queues.message(receipts[0].key), None);
}

#[test]
fn bodies_are_moved_to_the_end_of_the_log() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    for _ in 0..30 {
        driven.send("jobs", &[message("a"), message("b")]);
    }
    let oldest = driven.queues.keeps_since().unwrap();
    let old = driven.queues.in_oldest_place();
    assert!(!old.is_empty() && old.len() < 60);
    let messages: Vec<_> = old.iter().map(|place| (place.number, Arc::new(message("a")))).collect();
    assert_eq!(driven.ask(Command::Move { messages: &messages }), Outcome::Done);
    assert!(driven.queues.keeps_since().unwrap() > oldest);
    let place = driven.queues.body_place(old[1].number).unwrap();
    let (bytes, at) = driven.records.last().unwrap();
    assert_eq!(place.record, at.position);
    let event = Queues::decode(bytes).unwrap();
    assert_eq!(event.part(place.part).unwrap().body, b"a");
    assert_eq!(driven.received("jobs", 1), [(1, 1)]);
}

#[test]
fn what_is_given_back_is_not_counted() {
    let mut driven = Driven::new();
    driven.queue("dead", Settings::default());
    driven.queue("jobs", Settings { attempts_max: Some(1), dead_letter: Some("dead".into()), ..Settings::default() });
    driven.send("jobs", &[message("a")]);
    for attempt in 1..=3 {
        let leases = driven.receive("jobs", 1);
        assert_eq!(leases[0].attempt, attempt, "each delivery has a lease of its own");
        assert_eq!(driven.reject("jobs", &leases, Rejection::Back(50)), [Ok(())]);
        assert_eq!(driven.counts("jobs"), (0, 1, 0));
        driven.wait(50);
    }
    let leases = driven.receive("jobs", 1);
    driven.reject("jobs", &leases, Rejection::Retry(None));
    assert_eq!((driven.counts("jobs"), driven.counts("dead")), ((0, 0, 0), (1, 0, 0)), "that one counted");
}

#[test]
fn a_message_that_was_handed_on_is_found_by_what_it_is_called_there() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { trail_ms: 1_000, ..Settings::default() });
    driven.send("jobs", &[message("a"), message("b")]);
    let leases = driven.receive("jobs", 2);
    let handed = [(leases[0], "17".into()), (leases[1], "".into())];
    let hand = Command::Hand { queue: "jobs", messages: &handed, to: "carrier" };
    assert_eq!(driven.ask(hand.clone()), Outcome::Leases(vec![Ok(()), Ok(())]));
    assert_eq!(driven.counts("jobs"), (0, 0, 0));
    let records = driven.records.len();
    assert_eq!(driven.ask(hand), Outcome::Leases(vec![Ok(()), Ok(())]), "again");
    assert_eq!(driven.records.len(), records, "nothing happened");
    let note = Command::Note { queue: "jobs", reference: "17", text: "delivered" };
    let last = |driven: &Driven| driven.queues.message(leases[0].key).map(|view| view.last);
    let before = last(&driven).expect("its trail is kept");
    assert_eq!(driven.ask(note.clone()), Outcome::Done);
    assert!(last(&driven).expect("its trail is kept") > before, "the note is the newest of its trail");
    for reference in ["18", ""] {
        let unknown = Command::Note { queue: "jobs", reference, text: "delivered" };
        assert_eq!(driven.ask(unknown), Outcome::Refused(Refusal::MessageNotFound));
    }
    driven.wait(1_001);
    assert_eq!(driven.ask(note), Outcome::Refused(Refusal::MessageNotFound), "its trail is over");
}

#[test]
fn what_cannot_be_remembered_is_handed_on_all_the_same() {
    let mut driven = Driven::new();
    driven.bounds.ids_max = 0;
    driven.queue("jobs", Settings::default());
    driven.send("jobs", &[message("a")]);
    let handed = [(driven.receive("jobs", 1)[0], "17".into())];
    let hand = Command::Hand { queue: "jobs", messages: &handed, to: "carrier" };
    assert_eq!(driven.ask(hand), Outcome::Leases(vec![Ok(())]));
    let note = Command::Note { queue: "jobs", reference: "17", text: "delivered" };
    assert_eq!(driven.ask(note), Outcome::Refused(Refusal::MessageNotFound));
}

#[test]
fn a_lease_of_a_message_of_another_queue_says_nothing_about_it() {
    let mut driven = Driven::new();
    driven.queue("other", Settings::default());
    driven.queue("dead", Settings::default());
    driven.queue("jobs", Settings { dead_letter: Some("dead".into()), ..Settings::default() });
    driven.send("other", &[message("a")]);
    driven.send("jobs", &[message("b")]);
    let (there, here) = (driven.receive("other", 1), driven.receive("jobs", 1));
    let acknowledge =
        |driven: &mut Driven, leases: &[Lease]| match driven.ask(Command::Acknowledge { queue: "jobs", leases }) {
            Outcome::Leases(outcomes) => outcomes,
            outcome => panic!("{outcome:?}"),
        };
    assert_eq!(acknowledge(&mut driven, &there), [Err(LeaseRefusal::Unknown)]);
    driven.ask(Command::Reject { queue: "jobs", leases: &here, then: Rejection::Dead, reason: "" });
    assert_eq!(acknowledge(&mut driven, &here), [Err(LeaseRefusal::Lost)], "it is a dead letter of this queue");
}

fn route(driven: &mut Driven, leases: &[Lease]) -> Outcome {
    let messages: Vec<_> = leases.iter().map(|lease| (*lease, Arc::new(message("a")))).collect();
    driven.ask(Command::Route { from: "from", to: "to", messages: &messages, by: "route:x" })
}

#[test]
fn what_is_routed_keeps_its_key_its_order_and_its_end() {
    let mut driven = Driven::new();
    driven.queue("from", Settings::default());
    driven.queue(
        "to",
        Settings { delay_ms: 50, attempts_max: Some(1), dead_letter: Some("from".into()), ..Settings::default() },
    );
    let keyed = |key: &str| Message { ordering_key: Some(key.into()), ..message("a") };
    let expires_at = Some(When::After(300));
    driven.send("from", &[keyed("k"), keyed("k"), Message { expires_at, ..message("short") }]);
    let leases = driven.receive("from", 10);
    assert_eq!(route(&mut driven, &leases), Outcome::Leases(vec![Ok(()); 2]));
    assert_eq!((driven.counts("from"), driven.counts("to")), ((1, 0, 0), (0, 2, 0)), "it waits as the queue says");
    let late = route(&mut driven, &leases);
    assert_eq!(late, Outcome::Leases(vec![Err(LeaseRefusal::Unknown); 2]), "it is not routed twice");
    let leases = driven.receive("from", 10);
    assert_eq!(route(&mut driven, &leases), Outcome::Leases(vec![Ok(())]), "the next one of its ordering key");
    driven.wait(50);
    let first = driven.receive("to", 10);
    let numbers: Vec<u64> = first.iter().map(|lease| lease.key.number()).collect();
    assert_eq!((numbers, driven.counts("to")), (vec![1, 3], (1, 0, 2)), "one of an ordering key is out");
    assert_eq!(driven.acknowledge("to", &first[..1]), [Ok(())]);
    assert_eq!(driven.received("to", 10), [(2, 2)]);
    let back = Command::Reject { queue: "to", leases: &first[1..], then: Rejection::Back(0), reason: "" };
    assert_eq!(leases_of(driven.ask(back)), [Ok(())]);
    driven.wait(250);
    assert_eq!(driven.counts("to"), (0, 0, 1), "one has expired where it is now");
    let totals = |driven: &Driven, name: &str| driven.queues.view(name).unwrap().totals;
    assert_eq!((totals(&driven, "from").acknowledged, totals(&driven, "to").sent), (3, 3));
}

#[test]
fn a_route_fills_the_room_that_there_is_and_overtakes_nothing() {
    let mut driven = Driven::new();
    driven.queue("from", Settings::default());
    driven.queue("to", Settings { messages_max: Some(2), ..Settings::default() });
    let keyed = || Message { ordering_key: Some("k".into()), ..message("a") };
    driven.send("from", &[keyed(), message("a"), message("b"), message("c")]);
    driven.send("to", &[keyed()]);
    let there = driven.receive("to", 10);
    let leases = driven.receive("from", 10);
    let not_now = Err(LeaseRefusal::NotNow);
    let outcome = Outcome::Leases(vec![not_now, Ok(()), not_now, not_now]);
    assert_eq!(route(&mut driven, &leases), outcome, "a later one of its key is out, and there is room for one");
    assert_eq!(route(&mut driven, &leases[2..]), Outcome::Refused(Refusal::Full(Limit::OfSettings, 2)));
    let reject = Command::Reject { queue: "to", leases: &there, then: Rejection::Back(0), reason: "" };
    assert_eq!(leases_of(driven.ask(reject)), [Ok(())]);
    driven.queue("to", Settings { messages_max: Some(3), ..Settings::default() });
    assert_eq!(route(&mut driven, &leases[..1]), Outcome::Leases(vec![Ok(())]));
    assert_eq!(driven.received("to", 10), [(1, 2), (2, 2)], "the order is that in which messages were taken");
    let unknown = Command::Route { from: "from", to: "nowhere", messages: &[], by: "" };
    assert_eq!(driven.ask(unknown), Outcome::Refused(Refusal::QueueNotFound("nowhere".into())));
}

#[test]
fn a_redrive_takes_what_waits_for_a_receiver_and_nothing_comes_sooner_or_lives_longer() {
    let mut driven = Driven::new();
    ["from", "to"].iter().for_each(|name| driven.queue(name, Settings::default()));
    let (visible_at, expires_at) = (Some(When::After(5_000)), Some(When::After(100)));
    let scheduled = Message { visible_at, ..message("later") };
    let short = Message { expires_at, ..message("short") };
    driven.send("from", &[scheduled, short, message("a")]);
    let redrive = Command::Redrive { from: "from", to: "to", max: 10 };
    assert_eq!(driven.ask(redrive), Outcome::Some { count: 2, more: false });
    assert_eq!((driven.counts("from"), driven.counts("to")), ((0, 1, 0), (2, 0, 0)));
    driven.wait(100);
    assert_eq!(driven.counts("to"), (1, 0, 0), "one has expired where it is now");
}

#[test]
fn a_record_of_a_redrive_names_its_target_and_one_of_before_does_not() {
    let messages = vec![Touched { number: 7, before: RecordPosition(5) }];
    let (at, from, to) = (TimeMs(9), QueueIndex(1), QueueIndex(2));
    let record = |name| {
        let mut record = Vec::new();
        Queues::encode(&Event::Redriven { at, from, to, name, messages: messages.clone() }, &mut record);
        record
    };
    let [named, before] = [record(Some("to")), record(None)];
    assert_eq!(named[..before.len()], before[..], "what was written before is a beginning of it");
    for (record, name) in [(&named, Some("to")), (&before, None)] {
        let event = Queues::decode(record).expect("a record");
        assert_eq!(event, Event::Redriven { at, from, to, name, messages: messages.clone() });
    }
    assert!(Queues::decode(&named[..named.len() - 1]).is_err());
}

/// The time of the shard is a minute ahead of the clock by which senders name times.
#[test]
fn a_time_that_a_sender_names_is_as_much_later_as_the_shard_is_ahead() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    driven.bounds.ahead_ms = 60_000;
    driven.now.0 += 100_000;
    let host_now = driven.now.0 - 60_000;
    let host = |in_ms: u64| Some(When::At(TimeMs(host_now + in_ms)));
    let (at, expires_at) = (host(20), host(40));
    let messages = [
        Message { visible_at: at, ..message("at") },
        Message { visible_at: Some(When::After(20)), ..message("after") },
        Message { expires_at, ..message("short") },
    ];
    driven.send("jobs", &messages);
    let expired = Arc::new(Message { expires_at: host(0), ..message("over") });
    let refused = driven.ask(Command::Send { queue: "jobs", messages: &[expired] });
    assert!(matches!(refused, Outcome::Refused(Refusal::MessageInvalid { .. })), "{refused:?}");
    driven.wait(19);
    assert_eq!(driven.counts("jobs"), (1, 2, 0));
    driven.wait(1);
    assert_eq!(driven.counts("jobs"), (3, 0, 0));
    driven.wait(20);
    assert_eq!(driven.counts("jobs"), (2, 0, 0), "one has expired");
}

#[test]
fn what_a_clock_ends_is_counted_as_it_is_told() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings { lease_ms: 500, ..Settings::default() });
    let after = |ms: u64| Some(When::After(ms));
    let messages = [
        message("leased"),
        Message { expires_at: after(900), ..message("leased, and expires") },
        Message { visible_at: after(50), ..message("due") },
        Message { visible_at: after(50), expires_at: after(80), ..message("expired") },
        Message { visible_at: after(5_000), ..message("later") },
    ];
    driven.send("jobs", &messages);
    assert_eq!(driven.receive("jobs", 2).len(), 2);
    for ms in [0, 50, 80, 500, 900, 5_000] {
        let time = TimeMs(driven.now.0 + ms);
        let (mut told, mut over) = (0, Vec::new());
        driven.queues.ends(&mut |at| told += u64::from(at <= time));
        driven.queues.over_at(time, &mut |kind, count| over.push((kind, count)));
        assert_eq!(told, over.iter().map(|(_, count)| count).sum::<u64>(), "{ms}: {over:?}");
        let (expired, due) = ("messages of queues that expire", "delayed messages of queues that fall due");
        let wanted = match ms {
            0 => vec![],
            50 => vec![(due, 2)],
            80 | 500 => vec![(expired, 1), (due, 1)],
            900 => vec![(expired, 2), (due, 1)],
            _ => vec![(expired, 2), (due, 2)],
        };
        assert_eq!(over, wanted, "{ms}");
    }
}

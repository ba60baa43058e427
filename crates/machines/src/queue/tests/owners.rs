use super::limits::{
    OWNER_BYTES_MAX, QUEUES_MAX, QUEUES_OF_OWNER_MAX, QUEUES_OF_OWNERS_MAX, STANDING_MAX, STANDING_OF_OWNER_MAX,
    STANDING_OF_OWNERS_MAX,
};
use super::schedules::every_morning;
use super::*;
use crate::queue::owners::Owned;

/// Settings of a queue that somebody has made.
fn of(owner: &str) -> Settings {
    Settings { owner: Some(owner.into()), id_window_ms: Some(10), ..Settings::default() }
}

fn make(driven: &mut Driven, name: &str, owner: Option<&str>) -> Outcome {
    let settings = Settings { owner: owner.map(Into::into), ..Settings::default() };
    driven.ask(Command::SetQueue { name, settings: &settings })
}

fn owned(queues: u64, schedules: u64, messages: u64, ids: u64) -> Owned {
    Owned { queues, schedules, messages, ids, ordering_keys: 0 }
}

fn with_id(id: &str) -> Message {
    Message { id: Some(id.into()), ..message("") }
}

/// Sends a message, and returns the bound that does not allow it.
fn limit(driven: &mut Driven, queue: &str, message: Message) -> Option<(Limit, u64)> {
    match driven.ask(Command::Send { queue, messages: &[Arc::new(message)] }) {
        Outcome::Sent(_) => None,
        Outcome::Refused(Refusal::Full(limit, most)) => Some((limit, most)),
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn one_owner_of_two_queues_leaves_room_for_others() {
    let mut driven = Driven::new();
    driven.bounds = Bounds::new(8, 4, 8);
    for (name, owner) in [("one", "ann"), ("two", "ann"), ("other", "bob")] {
        driven.queue(name, of(owner));
    }
    driven.queue("declared", Settings { id_window_ms: None, ..Settings::default() });
    for (queue, id) in [("one", "1"), ("one", "2"), ("two", "1")] {
        assert_eq!(limit(&mut driven, queue, with_id(id)), None);
    }
    assert_eq!(limit(&mut driven, "two", with_id("2")), Some((Limit::IdsOfOwner, 3)));
    assert_eq!(limit(&mut driven, "other", with_id("1")), None, "another owner goes on");
    assert_eq!(limit(&mut driven, "declared", with_id("1")), Some((Limit::Ids, 4)));
    for queue in ["two", "two", "one"] {
        assert_eq!(limit(&mut driven, queue, message("")), None);
    }
    assert_eq!(driven.queues.owned_by("ann"), owned(2, 0, 6, 3));
    assert_eq!(limit(&mut driven, "one", message("")), Some((Limit::MessagesOfOwner, 6)));
    assert_eq!(limit(&mut driven, "declared", message("")), None, "a queue of the configuration goes on");
    assert_eq!(limit(&mut driven, "other", message("")), Some((Limit::Messages, 8)));
    driven.queues.assert_sound();
    // What is done with makes room, and so do ids whose window is over.
    let leases = driven.receive("one", 2);
    driven.acknowledge("one", &leases);
    driven.now.0 += 10;
    assert_eq!(limit(&mut driven, "two", with_id("2")), None);
    assert_eq!(driven.queues.owned_by("ann"), owned(2, 0, 5, 1));
    driven.queues.assert_sound();
}

#[test]
fn a_queue_without_an_owner_is_bounded_by_itself_alone() {
    let mut driven = Driven::new();
    driven.bounds = Bounds { messages_of_owner_max: 0, ids_of_owner_max: 0, ..Bounds::new(8, 8, 8) };
    driven.queue("declared", Settings::default());
    driven.queue("own", of("ann"));
    assert_eq!(limit(&mut driven, "declared", with_id("1")), None);
    assert_eq!(limit(&mut driven, "own", message("")), Some((Limit::MessagesOfOwner, 0)));
}

#[test]
fn what_leaves_a_queue_leaves_its_owner() {
    let mut driven = Driven::new();
    driven.queue("dead", of("bob"));
    let dying = Settings { attempts_max: Some(1), dead_letter: Some("dead".into()), ..of("ann") };
    driven.queue("jobs", dying);
    driven.send("jobs", &[with_id("1"), with_id("2"), with_id("3"), with_id("4")]);
    let leases = driven.receive("jobs", 2);
    driven.reject("jobs", &leases[..1], Rejection::Dead);
    assert_eq!((driven.queues.owned_by("ann"), driven.queues.owned_by("bob")), (owned(1, 0, 3, 4), owned(1, 0, 1, 0)));
    driven.ask(Command::Redrive { from: "dead", to: "jobs", max: 1 });
    assert_eq!((driven.queues.owned_by("ann"), driven.queues.owned_by("bob")), (owned(1, 0, 4, 4), owned(1, 0, 0, 0)));
    driven.queues.assert_sound();
    // The configuration claims it: its owner has no more of it.
    driven.queue("jobs", Settings { dead_letter: Some("dead".into()), ..Settings::default() });
    assert_eq!(driven.queues.owned_by("ann"), Owned::default());
    driven.queue("jobs", of("bob"));
    assert_eq!(driven.queues.owned_by("bob"), owned(2, 0, 4, 4));
    let up_to = driven.queues.newest_number();
    driven.ask(Command::Purge { queue: "jobs", up_to });
    for name in ["jobs", "dead"] {
        assert_eq!(driven.ask(Command::DeleteQueue { name }), Outcome::Done);
    }
    assert_eq!(driven.queues.owned_by("bob"), Owned::default());
    driven.queues.assert_sound();
}

#[test]
fn one_owner_leaves_queues_to_others_and_all_of_them_leave_some_to_the_configuration() {
    let mut driven = Driven::new();
    for number in 0..QUEUES_OF_OWNER_MAX {
        assert_eq!(make(&mut driven, &format!("a{number}"), Some("ann")), Outcome::Done);
    }
    let refused = make(&mut driven, "more", Some("ann"));
    assert_eq!(refused, Outcome::Refused(Refusal::TooManyQueuesOfOwner));
    assert_eq!(make(&mut driven, "a0", Some("ann")), Outcome::Done, "it is there");
    for number in QUEUES_OF_OWNER_MAX..QUEUES_OF_OWNERS_MAX {
        assert_eq!(make(&mut driven, &format!("b{number}"), Some("bob")), Outcome::Done);
    }
    assert_eq!(make(&mut driven, "more", Some("bob")), Outcome::Refused(Refusal::TooManyQueues));
    for number in QUEUES_OF_OWNERS_MAX..QUEUES_MAX {
        assert_eq!(make(&mut driven, &format!("c{number}"), None), Outcome::Done);
    }
    assert_eq!(make(&mut driven, "more", None), Outcome::Refused(Refusal::TooManyQueues));
    driven.ask(Command::DeleteQueue { name: "a1" });
    assert_eq!(make(&mut driven, "more", None), Outcome::Done);
}

#[test]
fn schedules_are_of_who_makes_them_whosever_the_queue_is() {
    let mut driven = Driven::new();
    driven.queue("declared", Settings::default());
    driven.queue("own", of("bob"));
    let by = |owner: &str| StandingSettings { owner: Some(owner.into()), ..every_morning("a") };
    for number in 0..STANDING_OF_OWNER_MAX {
        let queue = ["declared", "own"][number % 2];
        assert_eq!(driven.schedule(queue, &number.to_string(), &by("ann"), 100), Outcome::Done);
    }
    for queue in ["declared", "own"] {
        let refused = driven.schedule(queue, "more", &by("ann"), 100);
        assert_eq!(refused, Outcome::Refused(Refusal::TooManySchedulesOfOwner));
    }
    for number in STANDING_OF_OWNER_MAX..STANDING_OF_OWNERS_MAX {
        assert_eq!(driven.schedule("own", &number.to_string(), &by("bob"), 100), Outcome::Done);
    }
    let refused = driven.schedule("own", "more", &by("bob"), 100);
    assert_eq!(refused, Outcome::Refused(Refusal::TooManySchedules));
    for number in STANDING_OF_OWNERS_MAX..STANDING_MAX {
        assert_eq!(driven.schedule("declared", &number.to_string(), &by("bob"), 100), Outcome::Done);
    }
    let refused = driven.schedule("declared", "more", &by("bob"), 100);
    assert_eq!(refused, Outcome::Refused(Refusal::TooManySchedules));
    assert_eq!(driven.queues.owned_by("ann"), owned(0, STANDING_OF_OWNER_MAX as u64, 0, 0));
    driven.queues.assert_sound();
    driven.ask(Command::RemoveStanding { queue: "own", name: "1" });
    assert_eq!(driven.schedule("own", "more", &by("ann"), 100), Outcome::Refused(Refusal::TooManySchedules));
    assert_eq!(driven.schedule("declared", "more", &by("ann"), 100), Outcome::Done);
}

#[test]
fn owners_are_in_snapshots_and_a_state_without_has_the_layout_of_before() {
    let mut driven = Driven::new();
    driven.queue("jobs", Settings::default());
    driven.schedule("jobs", "morning", &every_morning("a"), 100);
    let before = snapshot(&driven.queues);
    assert_eq!(before[0], 3);
    for (queue, schedule, what) in [(true, false, "a queue"), (false, true, "a schedule"), (true, true, "both")] {
        let owner = |is_owned: bool| is_owned.then(|| Box::from("ann"));
        let settings = Settings { owner: owner(queue), ..Settings::default() };
        let standing = StandingSettings { owner: owner(schedule), ..every_morning("a") };
        driven.ask(Command::SetQueue { name: "jobs", settings: &settings });
        driven.schedule("jobs", "morning", &standing, 100);
        driven.send("jobs", &[with_id(what)]);
        let bytes = snapshot(&driven.queues);
        assert_eq!(bytes[0], 4, "{what}");
        let read = Queues::read_snapshot(&bytes).expect(what);
        read.assert_sound();
        assert_eq!(snapshot(&read), bytes, "{what}");
        assert_eq!(read.owned_by("ann"), driven.queues.owned_by("ann"), "{what}");
        assert_eq!(read.settings("jobs"), Some(&settings), "{what}");
    }
    // The layout with owners has one.
    let mut none = before.clone();
    none[0] = 4;
    assert!(Queues::read_snapshot(&none).is_err());
}

#[test]
fn an_owner_has_a_name_that_is_not_too_long() {
    let mut driven = Driven::new();
    for (length, is_good) in [(0, false), (1, true), (OWNER_BYTES_MAX, true), (OWNER_BYTES_MAX + 1, false)] {
        let outcome = make(&mut driven, &format!("q{length}"), Some(&"o".repeat(length)));
        assert_eq!(outcome == Outcome::Done, is_good, "{length}: {outcome:?}");
    }
}

/// Each key takes memory of its own, whatever messages it has.
#[test]
fn ordering_keys_have_bounds_of_their_own() {
    let mut driven = Driven::new();
    driven.bounds = Bounds { ordering_keys_of_queue_max: 3, ..Bounds::new(1_000, 0, 6) };
    for (name, owner) in [("one", "ann"), ("two", "ann"), ("other", "bob")] {
        driven.queue(name, of(owner));
    }
    let keyed = |key: &str| Message { ordering_key: Some(key.into()), ..message("") };
    for key in ["a", "b", "c"] {
        assert_eq!(limit(&mut driven, "one", keyed(key)), None);
    }
    assert_eq!(limit(&mut driven, "one", keyed("d")), Some((Limit::OrderingKeysOfQueue, 3)));
    assert_eq!(limit(&mut driven, "one", keyed("a")), None, "one that is there takes no more room");
    assert_eq!(limit(&mut driven, "one", message("")), None);
    assert_eq!(limit(&mut driven, "two", keyed("a")), None, "a queue has its own");
    assert_eq!(driven.queues.owned_by("ann").ordering_keys, 4);
    assert_eq!(limit(&mut driven, "two", keyed("b")), None);
    assert_eq!(limit(&mut driven, "two", keyed("c")), Some((Limit::OrderingKeysOfOwner, 5)));
    assert_eq!(limit(&mut driven, "other", keyed("a")), None, "another owner goes on");
    assert_eq!(limit(&mut driven, "other", keyed("b")), Some((Limit::OrderingKeys, 6)));
    // A batch counts each new key once.
    let leases = driven.receive("one", 3);
    driven.acknowledge("one", &leases);
    let batch = |keys: &[&str]| keys.iter().map(|key| Arc::new(keyed(key))).collect::<Vec<_>>();
    let refused = driven.ask(Command::Send { queue: "one", messages: &batch(&["x", "y", "z"]) });
    assert!(matches!(refused, Outcome::Refused(Refusal::Full(Limit::OrderingKeysOfQueue, 3))), "{refused:?}");
    let sent = driven.ask(Command::Send { queue: "one", messages: &batch(&["x", "x", "a", "y", "y"]) });
    assert!(matches!(sent, Outcome::Sent(_)), "{sent:?}");
    assert_eq!(driven.queues.owned_by("ann").ordering_keys, 5);
}

/// Messages without a key, and under keys that are there, pass those that wait for one.
#[test]
fn a_route_puts_no_more_ordering_keys_into_a_queue_than_it_may_have() {
    let mut driven = Driven::new();
    ["from", "to"].into_iter().for_each(|name| driven.queue(name, Settings::default()));
    driven.bounds = Bounds { ordering_keys_of_queue_max: 2, ..driven.bounds };
    let keyed = |key: &str| Message { ordering_key: Some(key.into()), ..message(key) };
    driven.send("to", &[keyed("a")]);
    driven.bounds.ordering_keys_of_queue_max = 9;
    driven.send("from", &[keyed("b"), keyed("c"), keyed("a"), message("none")]);
    driven.bounds.ordering_keys_of_queue_max = 2;
    let leases = driven.receive("from", 9);
    let messages: Vec<_> = leases.iter().map(|lease| (*lease, Arc::new(message("")))).collect();
    let routed = driven.ask(Command::Route { messages: &messages, from: "from", to: "to", by: "route" });
    let waits = Err(LeaseRefusal::NotNow);
    assert_eq!(leases_of(routed), [Ok(()), waits, Ok(()), Ok(())]);
    let leases = driven.receive("to", 9);
    driven.acknowledge("to", &leases);
    let again = driven.ask(Command::Route { messages: &messages[1..2], from: "from", to: "to", by: "route" });
    assert_eq!(leases_of(again), [Ok(())]);
}

#[test]
fn a_refusal_says_the_bound_and_what_to_do() {
    for (limit, texts) in [
        (Limit::OfSettings, ["7;", "messages_max"]),
        (Limit::MessagesOfQueue, ["7 (", "queues.messages_of_queue_max"]),
        (Limit::MessagesOfOwner, ["7 (", "queues.messages_of_owner_max"]),
        (Limit::Messages, ["7 (", "queues.messages_max"]),
        (Limit::IdsOfQueue, ["7 (", "queues.ids_of_queue_max"]),
        (Limit::IdsOfOwner, ["7 (", "queues.ids_of_owner_max"]),
        (Limit::Ids, ["7 (", "queues.ids_max"]),
        (Limit::OrderingKeysOfQueue, ["7 (", "queues.ordering_keys_of_queue_max"]),
        (Limit::OrderingKeysOfOwner, ["7 (", "queues.ordering_keys_of_owner_max"]),
        (Limit::OrderingKeys, ["7 (", "queues.ordering_keys_max"]),
    ] {
        let text = Refusal::Full(limit, 7).to_string();
        assert!(texts.iter().all(|part| text.contains(part)), "{text}");
        let counted =
            ["have as many messages", "has as many messages", "as many ids", "as many different ordering keys"];
        let named = counted.iter().filter(|what| text.contains(**what)).count();
        assert_eq!(named, 1, "{text}");
        assert!(!text.contains("  "), "{text}");
    }
    for (refusal, number) in [
        (Refusal::TooManyQueues, "9000 of 10000"),
        (Refusal::TooManyQueuesOfOwner, "7500 of 10000"),
        (Refusal::TooManySchedules, "900"),
        (Refusal::TooManySchedulesOfOwner, "750 of 1000"),
    ] {
        let text = refusal.to_string();
        assert!(text.contains(number) && text.contains("ask the operator") && !text.contains("  "), "{text}");
    }
}

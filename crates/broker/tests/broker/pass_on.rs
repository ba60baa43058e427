//! What waits for a member of a share group that does not take it is given to another, and is never lost on the way.

use tidegate_broker::BrokerLimits;
use tidegate_machines::topic::{InboxLimits, InboxPolicy};

use crate::support::{World, WorldOptions};

fn world() -> World {
    let limits = BrokerLimits { share_stalled_ms: 5_000, sys_interval_ms: 0, ..BrokerLimits::default() };
    World::new(WorldOptions { limits, ..WorldOptions::default() })
}

/// Which payloads a member was sent, in order.
fn payloads(heard: &str, member: &str) -> Vec<String> {
    let lines = heard.lines().filter_map(|line| line.trim().strip_prefix(&format!("{member} < PUBLISH t ")));
    lines.map(|rest| rest.split(' ').next().unwrap_or_default().to_owned()).collect()
}

fn publish(payloads: impl Iterator<Item = u32>, qos: u8) -> String {
    payloads.map(|payload| format!("p: PUBLISH t {payload} qos={qos};")).collect()
}

fn passed_on(world: &World) -> u64 {
    world.brokers().iter().map(|broker| broker.facts().shares_passed_on).sum()
}

/// A member acknowledges what it was sent when it came back, and what comes from now on.
fn acknowledge(member: &str, count: u32) -> String {
    (1..=count).map(|id| format!("{member}: PUBACK {id};")).collect::<String>() + &format!("{member}: auto")
}

/// Two members of a group whose sessions stay, the second on worker 1 or 0, and a publisher.
fn members(home: &str, qos: u8) -> World {
    let mut world = world();
    world.run(&format!(
        "x: CONNECT expiry=1000; x: SUBSCRIBE $share/g/t qos={qos}
         y{home}: CONNECT expiry=1000; y: SUBSCRIBE $share/g/t qos={qos}; p: CONNECT"
    ));
    world
}

#[test]
fn what_waits_for_who_is_away_goes_to_who_is_there() {
    for home in ["", "@1"] {
        let mut world = members(home, 1);
        world.run(&format!("x: drop; y: drop; {}", publish(1..11, 1)));
        let heard = world.run(&format!("y{home}: CONNECT keep expiry=1000; {}", acknowledge("y", 5)));
        let (own, heard) = (payloads(&heard, "y"), world.run("wait 4000"));
        assert_eq!((own.len(), payloads(&heard, "y").len()), (5, 0), "it may still come back: {heard}");
        let heard = world.run("wait 2000");
        assert_eq!((payloads(&heard, "y").len(), passed_on(&world)), (5, 5), "{heard}");
        let heard = world.run("x: CONNECT keep expiry=1000");
        assert_eq!(payloads(&heard, "x"), [""; 0], "nothing waits for it any more");
    }
}

#[test]
fn what_was_sent_and_not_acknowledged_goes_to_another_as_a_new_message() {
    for (home, end) in [("", "x: drop"), ("@1", "x: drop"), ("", "x: PING"), ("@1", "x: PING")] {
        let mut world = members(home, 1);
        let heard = world.run(&format!("y: auto; {}", publish(1..7, 1)));
        let (mine, others) = (payloads(&heard, "x"), payloads(&heard, "y"));
        assert_eq!((mine.len(), others.len()), (3, 3), "{heard}");
        // Gone, or connected and taking nothing.
        let heard = world.run(&format!("{end}; wait 7000"));
        assert_eq!(payloads(&heard, "y").len(), 3, "{end}: {heard}");
        assert!(payloads(&heard, "y").iter().all(|payload| mine.contains(payload)), "{heard}");
        assert!(!heard.contains("dup"), "for the other it is a message like others: {heard}");
        assert_eq!(passed_on(&world), 3);
        // A late acknowledgement of who had it harms nobody.
        if end == "x: PING" {
            let heard = world.run(&format!("x: PUBACK 1; x: auto; {}", publish(7..11, 1)));
            assert_eq!(payloads(&heard, "x").len(), 2, "it takes again: {heard}");
        }
    }
}

/// `[MQTT-4.8.2-5]`: a QoS 2 delivery that was started with a member is sent to no other member.
#[test]
fn what_has_qos_2_stays_with_its_member() {
    let mut world = members("@1", 2);
    let heard = world.run(&format!("y: auto; {}", publish(1..7, 2)));
    let mine = payloads(&heard, "x");
    let heard = world.run("x: drop; wait 10000");
    assert_eq!((payloads(&heard, "y").len(), passed_on(&world)), (0, 0), "{heard}");
    let heard = world.run("x: CONNECT keep expiry=1000");
    assert_eq!(payloads(&heard, "x"), mine);
}

/// The rest is acknowledged to its publishers, and nobody else would ever get it.
#[test]
fn what_has_qos_2_and_was_not_sent_goes_to_another_when_its_member_leaves() {
    for (home, end) in ["", "@1"].into_iter().flat_map(|home| ENDS.map(|end| (home, end))) {
        for end in [end, "x: UNSUBSCRIBE $share/g/t"] {
            let mut world = members(home, 2);
            world.run("x: CONNECT keep expiry=1000 recv=2; y: auto");
            let heard = world.run(&publish(1..11, 2));
            let (mine, others) = (payloads(&heard, "x"), payloads(&heard, "y"));
            assert_eq!((mine.len(), others.len()), (2, 8), "{home}: who has no room is not asked: {heard}");
            world.run(&format!("y: drop; x: drop; {}", publish(11..15, 2)));
            let back = format!("y{home}: CONNECT keep expiry=1000; y: auto; x: CONNECT keep expiry=1000 recv=2");
            let heard = world.run(&back) + &world.run(&format!("{end}; wait 200"));
            let others = [others, payloads(&heard, "y")].concat();
            let of_both: Vec<_> = (1..15).map(|payload: u32| payload.to_string()).collect();
            assert!(others.iter().all(|payload| !mine.contains(payload)), "{end} {home}: {others:?}");
            let mut all = [mine, others].concat();
            all.sort_by_key(|payload| payload.parse::<u32>().expect("a number"));
            assert_eq!(all, of_both, "{end} {home}: {heard}");
        }
    }
}

#[test]
fn what_may_have_come_by_another_subscription_stays() {
    let mut world = members("", 1);
    world.run("x: SUBSCRIBE t qos=1; x: drop; y: drop");
    world.run(&publish(1..5, 1));
    let heard = world.run(&format!("y: CONNECT keep expiry=1000; {}; wait 10000", acknowledge("y", 5)));
    assert_eq!((payloads(&heard, "y").len(), passed_on(&world)), (2, 0), "its own: {heard}");
    let heard = world.run("x: CONNECT keep expiry=1000");
    assert_eq!(payloads(&heard, "x").len(), 4 + 2, "its own, and two of the group");
}

#[test]
fn what_is_on_the_disk_is_given_only_to_who_keeps_it_there() {
    let mut world = members("", 1);
    world.run(&format!("x: drop; y: drop; {}", publish(1..5, 1)));
    let heard = world.run("z: CONNECT; z: auto; z: SUBSCRIBE $share/g/t qos=1; wait 10000");
    assert_eq!((payloads(&heard, "z").len(), passed_on(&world)), (0, 0), "{heard}");
}

#[test]
fn what_a_session_has_when_it_expires_goes_to_another() {
    for (home, is_there) in [("", true), ("@1", true), ("@1", false)] {
        let mut world = world();
        world.run(&format!(
            "x: CONNECT expiry=2; x: SUBSCRIBE $share/g/t qos=1
             y{home}: CONNECT expiry=1000; y: SUBSCRIBE $share/g/t qos=1; y: drop; p: CONNECT"
        ));
        world.run(&format!("{}; x: drop", publish(1..4, 1)));
        if is_there {
            let heard = world.run(&format!("y{home}: CONNECT keep expiry=1000; y: auto; wait 3000"));
            assert_eq!(payloads(&heard, "y"), ["1", "2", "3"], "{heard}");
        } else {
            world.run("wait 3000");
            let heard = world.run(&format!("y{home}: CONNECT keep expiry=1000"));
            assert_eq!(payloads(&heard, "y"), ["1", "2", "3"], "{heard}");
        }
        let sessions: u64 = world.brokers().iter().map(|broker| broker.facts().sessions_durable).sum();
        assert_eq!((sessions, passed_on(&world)), (1, 3), "the session has ended all the same");
    }
}

/// How a member ends its session, or another does: a goodbye, a clean start, and an operator.
const ENDS: [&str; 4] =
    ["x: DISCONNECT expiry=0", "x: drop; x: CONNECT", "x: drop; operate end x", "x: DISCONNECT; operate end x"];

fn sessions(world: &World) -> u64 {
    world.brokers().iter().map(|broker| broker.facts().sessions_durable).sum()
}

#[test]
fn what_a_session_has_when_it_is_ended_goes_to_another() {
    for (home, end) in ["", "@1"].into_iter().flat_map(|home| ENDS.map(|end| (home, end))) {
        let mut world = members(home, 1);
        let heard = world.run(&format!("y: auto; {}", publish(1..9, 1)));
        let (mine, others) = (payloads(&heard, "x"), payloads(&heard, "y"));
        assert_eq!((mine.len(), others.len()), (4, 4), "{heard}");
        let heard = world.run(&format!("{end}; wait 200"));
        assert_eq!(payloads(&heard, "y"), mine, "{end} {home}: {heard}");
        assert_eq!(heard.contains("x < CONNACK success"), end.contains("x: CONNECT"), "{end} {home}: {heard}");
        assert_eq!(heard.contains("operator < Done"), end.contains("operate"), "{end} {home}: {heard}");
        assert_eq!((sessions(&world), passed_on(&world)), (1, 4), "{end} {home}: the session has ended");
    }
}

#[test]
fn members_that_end_at_the_same_time_give_each_other_nothing_for_ever() {
    for home in ["", "@1"] {
        let mut world = members(home, 1);
        world.run(&publish(1..41, 1));
        world.run("x: DISCONNECT expiry=0; y: DISCONNECT expiry=0; wait 10000");
        assert_eq!(sessions(&world), 0, "{home}: both have ended");
        assert!(passed_on(&world) <= 40, "{home}: {} were given on", passed_on(&world));
    }
}

#[test]
fn what_members_have_that_end_at_the_same_time_goes_to_one_who_stays() {
    for home in ["", "@1"] {
        let mut world = members(home, 1);
        world.run("z: CONNECT expiry=1000; z: SUBSCRIBE $share/g/t qos=1; z: drop");
        let heard = world.run(&publish(1..41, 1));
        assert_eq!(payloads(&heard, "x").len() + payloads(&heard, "y").len(), 40, "{heard}");
        world.run("x: DISCONNECT expiry=0; y: DISCONNECT expiry=0; wait 10000");
        let heard = world.run("z: CONNECT keep expiry=1000");
        let heard = heard + &world.run(&format!("{}; wait 200", acknowledge("z", 40)));
        let mut all = payloads(&heard, "z");
        all.sort();
        all.dedup();
        assert_eq!((all.len(), sessions(&world)), (40, 1), "{home}: {heard}");
    }
}

#[test]
fn a_long_inbox_of_who_unsubscribes_goes_to_another() {
    let inboxes = InboxLimits { messages_max: 10_000, ..InboxLimits::default() };
    let mut world = World::new(WorldOptions { inboxes, ..WorldOptions::default() });
    world.run(&format!(
        "x: CONNECT expiry=1000 recv=2; x: SUBSCRIBE $share/g/t qos=1; p: CONNECT; {}
         y@1: CONNECT expiry=1000; y: auto; y: SUBSCRIBE $share/g/t qos=1",
        publish(1..6_001, 1)
    ));
    let heard = world.run("x: UNSUBSCRIBE $share/g/t; wait 2000");
    assert_eq!((payloads(&heard, "y").len(), passed_on(&world)), (5_998, 5_998), "all that was not sent");
}

#[test]
fn a_long_inbox_goes_to_another_in_rounds() {
    for end in ENDS {
        let inboxes = InboxLimits { messages_max: 10_000, ..InboxLimits::default() };
        let mut world = World::new(WorldOptions { inboxes, ..WorldOptions::default() });
        world.run(&format!(
            "x: CONNECT expiry=1000; x: SUBSCRIBE $share/g/t qos=1; x: drop; p: CONNECT; {}",
            publish(1..2_501, 1)
        ));
        world.run("y@1: CONNECT expiry=1000; y: auto; y: SUBSCRIBE $share/g/t qos=1; x: CONNECT keep expiry=1000");
        let heard = world.run(&format!("{end}; wait 1000"));
        let mut heard = payloads(&heard, "y");
        heard.sort();
        heard.dedup();
        assert_eq!((heard.len(), sessions(&world), passed_on(&world)), (2_500, 1, 2_500), "{end}");
    }
}

#[test]
fn what_is_not_on_the_disk_yet_is_waited_for() {
    for (home, end) in ["", "@1"].into_iter().flat_map(|home| ENDS.map(|end| (home, end))) {
        let mut world = members(home, 1);
        let heard = world.run(&format!("y: auto; disk-slow; {}", publish(1..9, 1)));
        assert!(!heard.contains("PUBACK"), "nothing is durable: {heard}");
        let heard = world.run(&format!("{end}; wait 100; disk-fast; wait 500"));
        let mut all = payloads(&heard, "y");
        all.sort();
        all.dedup();
        assert_eq!((all.len(), sessions(&world)), (8, 1), "{end} {home}: {heard}");
    }
}

#[test]
fn who_waits_for_the_end_of_a_session_waits_for_a_while() {
    for end in ["x: CONNECT", "operate end x"] {
        let mut world = members("@1", 1);
        world.run(&format!("{}; x: drop; y: drop", publish(1..9, 1)));
        let heard = world.run(&format!("disk-slow; {end}; wait 2000"));
        let is_answered = |heard: &str| heard.contains("CONNACK") || heard.contains("operator <");
        assert!(!is_answered(&heard), "what was passed on is not durable: {heard}");
        if end == "operate end x" {
            let heard = world.run(end);
            assert!(heard.contains("operator < Busy"), "one operator at a time: {heard}");
        }
        let heard = world.run("wait 2000; disk-fast; wait 100");
        assert!(is_answered(&heard), "{heard}");
        assert_eq!(sessions(&world), 1, "{end}: the session has ended");
    }
}

#[test]
fn who_comes_later_has_the_session_that_another_waits_for() {
    let mut world = members("@1", 1);
    world.run(&format!("{}; x: drop; y: drop", publish(1..9, 1)));
    let heard = world.run("disk-slow; x: CONNECT; z: CONNECT id=x keep expiry=1000; disk-fast; wait 100");
    assert!(heard.contains("x < closed") && heard.contains("z < CONNACK success present"), "{heard}");
    assert_eq!(sessions(&world), 2, "it goes on");
    // Whoever waited has gone: nobody has said that the session is over.
    world.run(&format!("z: drop; {}", publish(9..17, 1)));
    let heard = world.run("disk-slow; x: CONNECT; x: drop; disk-fast; wait 5000; z: CONNECT id=x keep");
    assert!(heard.contains("z < CONNACK success present"), "{heard}");
}

#[test]
fn what_waits_for_who_unsubscribes_goes_to_another() {
    for home in ["", "@1"] {
        for disk in ["", "disk-slow;"] {
            let mut world = world();
            world.run(&format!(
                "x: CONNECT expiry=1000 recv=2; x: SUBSCRIBE $share/g/t qos=1; x: SUBSCRIBE $share/h/s qos=1
                 p: CONNECT; {}; p: PUBLISH s other qos=1
                 y{home}: CONNECT expiry=1000; y: auto; y: SUBSCRIBE $share/g/t qos=1",
                publish(1..9, 1)
            ));
            let heard = world.run(&format!("{disk} x: UNSUBSCRIBE $share/g/t; wait 100; disk-fast; wait 100"));
            assert_eq!(payloads(&heard, "y"), ["3", "4", "5", "6", "7", "8"], "{home}, {disk}: {heard}");
            assert!(heard.contains("x < UNSUBACK"), "{heard}");
            // What it was sent is completed, and what is of another group stays.
            let heard = world.run("x: PUBACK 1; x: PUBACK 2; wait 7000");
            assert!(heard.contains("x < PUBLISH s other"), "{heard}");
            assert_eq!((payloads(&heard, "x").len(), payloads(&heard, "y").len()), (0, 0), "{heard}");
        }
    }
}

#[test]
fn what_nobody_takes_of_who_unsubscribes_is_sent_or_withheld() {
    let mut world = world();
    world.run(&format!(
        "x: CONNECT expiry=1000 recv=2; x: SUBSCRIBE $share/g/t qos=1; p: CONNECT; {}",
        publish(1..9, 1)
    ));
    world.run("x: UNSUBSCRIBE $share/g/t; x: auto; x: PUBACK 1; x: PUBACK 2; wait 100");
    world.run("x: SUBSCRIBE t qos=1; p: PUBLISH t 9 qos=1; operate list 9");
    let withheld: u64 = world.brokers().iter().map(|broker| broker.facts().withheld).sum();
    assert_eq!((withheld, passed_on(&world)), (6, 0), "each of them is counted");
}

#[test]
fn what_another_has_no_room_for_stays() {
    for home in ["", "@1"] {
        let limits = BrokerLimits { share_stalled_ms: 5_000, sys_interval_ms: 0, ..BrokerLimits::default() };
        let inboxes = InboxLimits { messages_max: 3, policy: InboxPolicy::DropNewest, ..InboxLimits::default() };
        let mut world = World::new(WorldOptions { limits, inboxes, ..WorldOptions::default() });
        world.run(&format!(
            "x: CONNECT expiry=1000; x: SUBSCRIBE $share/g/t qos=1; x: drop
             y{home}: CONNECT expiry=1000; y: SUBSCRIBE $share/g/t qos=1; y: drop; p: CONNECT; {}; wait 6000",
            publish(1..7, 1)
        ));
        let heard = world.run(&format!("y{home}: CONNECT keep expiry=1000; wait 2000"));
        assert_eq!((payloads(&heard, "y").len(), passed_on(&world)), (3, 0), "its inbox is full: {heard}");
        let heard = world.run(&format!("{}; wait 2000", acknowledge("y", 3)));
        assert_eq!((payloads(&heard, "y").len(), passed_on(&world)), (3, 3), "none was lost: {heard}");
    }
}

#[test]
fn nothing_is_lost_when_the_process_is_killed_while_a_session_ends() {
    for end in ENDS {
        for power in ["kill", "crash"] {
            let mut world = members("@1", 1);
            let heard = world.run(&format!("y: auto; {}", publish(1..41, 1)));
            let mut all = payloads(&heard, "y");
            let heard =
                world.run(&format!("disk-slow; {end}; {power}; disk-fast; y@1: CONNECT keep expiry=1000; y: auto"));
            all.extend(payloads(&heard, "y"));
            let heard = world.run("wait 1000; x: CONNECT keep expiry=1000; x: auto; wait 100");
            all.extend(payloads(&heard, "x").into_iter().chain(payloads(&heard, "y")));
            all.sort();
            all.dedup();
            assert_eq!(all.len(), 40, "{end}, {power}: {heard}");
        }
    }
}

#[test]
fn nothing_is_lost_when_the_process_is_killed_on_the_way() {
    for (home, power) in [("", "kill"), ("@1", "kill"), ("@1", "crash")] {
        let mut passed = 0;
        for waits in 0..10 {
            let mut world = members(home, 1);
            world.run(&format!("x: drop; y: drop; {}", publish(1..41, 1)));
            let connect = format!("y{home}: CONNECT keep expiry=1000; {};", acknowledge("y", 60));
            let mut heard = world.run(&format!("{connect} wait {}; {power}", 4_700 + 100 * waits));
            heard += &world.run(&format!("{connect} wait 12000"));
            passed += usize::from(passed_on(&world) > 0);
            heard += &world.run("x: CONNECT keep expiry=1000; x: auto");
            let mut all: Vec<String> = payloads(&heard, "x").into_iter().chain(payloads(&heard, "y")).collect();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), 40, "{power} after {waits}: {heard}");
        }
        assert!(passed > 0, "some were passed on after the {power}");
    }
}

/// A full inbox of a member makes no room for what was another's, and what it has no room for waits.
#[test]
fn what_a_member_has_no_room_for_when_a_session_ends_is_offered_until_it_has() {
    for (home, end) in
        ["", "@1"].into_iter().flat_map(|home| ["x: DISCONNECT expiry=0", "x: drop"].map(|end| (home, end)))
    {
        let inboxes = InboxLimits { messages_max: 20, policy: InboxPolicy::DropOldest, ..InboxLimits::default() };
        let mut world = World::new(WorldOptions { inboxes, ..WorldOptions::default() });
        world.run(&format!(
            "x: CONNECT expiry=1; x: SUBSCRIBE $share/g/t qos=1
             y{home}: CONNECT expiry=1000; y: SUBSCRIBE $share/g/t qos=1; p: CONNECT"
        ));
        let heard = world.run(&publish(1..33, 1));
        let mut all = payloads(&heard, "y");
        assert_eq!(all.len(), 16, "{heard}");
        all.extend(payloads(&world.run(&format!("{end}; wait 5000")), "y"));
        let evicted: u64 = world.brokers().iter().map(|broker| broker.facts().evicted_inbox).sum();
        assert_eq!((passed_on(&world), evicted, sessions(&world)), (4, 0, 2), "{home}, {end}: it is full");
        let heard = world.run(&format!("{}; wait 5000", acknowledge("y", 20)));
        all.extend(payloads(&heard, "y"));
        all.sort();
        all.dedup();
        assert_eq!((all.len(), passed_on(&world), sessions(&world)), (32, 16, 1), "{home}, {end}: {heard}");
    }
}

/// Sessions do not outlive their end for ever because others take nothing.
#[test]
fn what_nobody_has_room_for_ends_with_its_session_after_a_while() {
    let inboxes = InboxLimits { messages_max: 20, ..InboxLimits::default() };
    let mut world = World::new(WorldOptions { inboxes, ..WorldOptions::default() });
    world.run(&format!(
        "x: CONNECT expiry=1000; x: SUBSCRIBE $share/g/t qos=1; y: CONNECT expiry=1000; y: SUBSCRIBE $share/g/t qos=1
         p: CONNECT; {}; y: drop; x: DISCONNECT expiry=0; wait 50000",
        publish(1..33, 1)
    ));
    let ended = |world: &World| -> u64 { world.brokers().iter().map(|broker| broker.facts().dropped_ended).sum() };
    assert_eq!((sessions(&world), ended(&world)), (2, 0));
    world.run("wait 12000");
    assert_eq!((sessions(&world), ended(&world), passed_on(&world)), (1, 12, 4), "those that were left are counted");
    // A client that comes back before that has none of it.
    let heard = world.run("x: CONNECT keep expiry=1000");
    assert!(heard.contains("x < CONNACK success") && !heard.contains("present"), "{heard}");
}

#[test]
fn who_begins_anew_while_what_it_left_is_on_its_way_waits_for_that() {
    for end in ["x: CONNECT", "operate end x"] {
        let mut world = members("@1", 1);
        world.run(&format!("y: auto; {}; x: drop; disk-slow; wait 7000", publish(1..9, 1)));
        let heard = world.run(&format!("{end}; disk-fast; wait 1000"));
        assert!(heard.contains("x < CONNACK success") || heard.contains("operator < Done"), "{end}: {heard}");
        assert_eq!(passed_on(&world), 4, "{end}: {heard}");
    }
}

/// The first topic that waits is one that nobody may take; the member has so many filters that a look compares one.
#[test]
fn what_nobody_may_take_keeps_nothing_behind_it_from_others() {
    let mut world = members("@1", 1);
    let filters =
        |names: std::ops::Range<u32>| names.map(|name| format!("x: SUBSCRIBE f/{name} qos=1;")).collect::<String>();
    world.run(&filters(0..9_000));
    let own = "p: PUBLISH f/1 own qos=1; p: PUBLISH f/2 own qos=1";
    world.run(&format!("x: drop; y: drop; {own}; {}", publish(1..9, 1)));
    world.run(&format!("y@1: CONNECT keep expiry=1000; {}", acknowledge("y", 4)));
    let heard = world.run("wait 9000");
    assert_eq!((passed_on(&world), payloads(&heard, "y").len()), (4, 4), "{heard}");
}

/// Each of many filters of one packet is looked at for what came by it alone, and others are served between.
#[test]
fn many_groups_that_are_left_at_once_give_all_that_was_not_sent_to_others() {
    const GROUPS: u32 = 400;
    let mut world = world();
    let groups = |who: &str| {
        let names = (0..GROUPS).map(|name| format!("{who}: SUBSCRIBE $share/g{name}/t/{name} qos=1;"));
        names.collect::<String>()
    };
    world.run(&format!("x: CONNECT expiry=1000 recv=1; y@1: CONNECT expiry=1000; {} {}", groups("x"), groups("y")));
    let publish: String =
        (0..GROUPS).map(|name| format!("p: PUBLISH t/{name} a qos=1; p: PUBLISH t/{name} b qos=1;")).collect();
    world.run(&format!("x: drop; y: drop; p: CONNECT; {publish}"));
    let sent = |heard: &str, who: &str| heard.matches(&format!("{who} < PUBLISH t/")).count();
    let heard = world.run("x: CONNECT keep expiry=1000 recv=1; y@1: CONNECT keep expiry=1000");
    let (of_x, mut of_y) = (sent(&heard, "x"), sent(&heard, "y"));
    of_y += sent(&world.run(&acknowledge("y", GROUPS)), "y");
    assert_eq!((of_x, of_y), (1, GROUPS as usize), "one message of each group");
    let filters: Vec<String> = (0..GROUPS).map(|name| format!("$share/g{name}/t/{name}")).collect();
    let heard = world.run(&format!("x: UNSUBSCRIBE {}; wait 500", filters.join(" ")));
    assert_eq!(sent(&heard, "y"), GROUPS as usize - 1, "all but the one that was sent: {heard}");
    assert!(heard.contains("x < UNSUBACK"), "{heard}");
}

/// An operator is told that it will end, and nothing of it is lost for that.
#[test]
fn a_session_that_an_operator_ends_ends_when_others_have_room() {
    let inboxes = InboxLimits { messages_max: 20, ..InboxLimits::default() };
    let mut world = World::new(WorldOptions { inboxes, ..WorldOptions::default() });
    world.run(&format!(
        "x: CONNECT expiry=1000; x: SUBSCRIBE $share/g/t qos=1; y@1: CONNECT expiry=1000; y: SUBSCRIBE $share/g/t qos=1
         p: CONNECT; {}; x: drop",
        publish(1..33, 1)
    ));
    let heard = world.run("operate end x; wait 4000");
    assert!(heard.contains("operator < Begun"), "{heard}");
    let again = world.run("operate end x; wait 1000");
    assert!(!again.contains("operator <"), "it waits, too: {again}");
    let mut all = payloads(&heard, "y");
    let heard = world.run(&format!("{}; wait 5000", acknowledge("y", 20)));
    assert!(heard.contains("operator < Done"), "{heard}");
    all.extend(payloads(&heard, "y"));
    assert_eq!((passed_on(&world), sessions(&world)), (16, 1), "{heard}");
    let ended: u64 = world.brokers().iter().map(|broker| broker.facts().dropped_ended).sum();
    assert_eq!(ended, 0, "nothing was lost");
}

//! Sessions belong to who made them: others do not get at them, whatever they know.

use crate::support::{World, WorldOptions, check, check_with};
use expect_test::expect;
use tidegate_broker::{Bound, HoldingLimits, Principal, Thing, ThingLimits};

#[test]
fn nobody_else_gets_at_a_session_that_waits() {
    check(
        "a: CONNECT id=s user=anna keep expiry=100; a: SUBSCRIBE t qos=1; a: DISCONNECT
         p: CONNECT user=pat; p: PUBLISH t one qos=1; p: PUBLISH t two qos=2
         b: CONNECT id=s user=bert keep expiry=100 why; c: CONNECT id=s user=bert; d@1: CONNECT v3 id=s
         e: CONNECT id=s keep; kill; f@1: CONNECT id=s user=bert; g: CONNECT id=s keep
         a@1: CONNECT id=s user=anna keep expiry=100",
        expect![[r#"
            a: CONNECT id=s user=anna keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            a: DISCONNECT
                a < closed
            p: CONNECT user=pat
                p < CONNACK success
            p: PUBLISH t one qos=1
                p < PUBACK 1
            p: PUBLISH t two qos=2
                p < PUBREC 2
            b: CONNECT id=s user=bert keep expiry=100 why
                b < CONNACK 0x87 not_authorized why=the user may not connect, leave this will, or have another's session
                b < closed
            c: CONNECT id=s user=bert
                c < CONNACK 0x87 not_authorized
                c < closed
            d@1: CONNECT v3 id=s
                d < CONNACK 0x87 not_authorized
                d < closed
            e: CONNECT id=s keep
                e < CONNACK 0x87 not_authorized
                e < closed
            kill
            f@1: CONNECT id=s user=bert
                f < CONNACK 0x87 not_authorized
                f < closed
            g: CONNECT id=s keep
                g < CONNACK 0x87 not_authorized
                g < closed
            a@1: CONNECT id=s user=anna keep expiry=100
                a < CONNACK success present
                a < PUBLISH t one qos=1 id=1 dup
                a < PUBLISH t two qos=1 id=2 dup
        "#]],
    );
}

#[test]
fn nobody_else_takes_a_session_over() {
    check(
        "a: CONNECT id=s user=anna; a: SUBSCRIBE t; b: CONNECT id=s user=bert; c: CONNECT id=s; a: PING
         d: CONNECT id=k user=anna keep expiry=9; e: CONNECT id=k user=bert keep expiry=9; d: PING
         f: CONNECT id=k user=anna keep expiry=9; a: drop; b2: CONNECT id=s user=bert",
        expect![[r#"
            a: CONNECT id=s user=anna
                a < CONNACK success
            a: SUBSCRIBE t
                a < SUBACK 1 0
            b: CONNECT id=s user=bert
                b < CONNACK 0x87 not_authorized
                b < closed
            c: CONNECT id=s
                c < CONNACK 0x87 not_authorized
                c < closed
            a: PING
                a < PINGRESP
            d: CONNECT id=k user=anna keep expiry=9
                d < CONNACK success
            e: CONNECT id=k user=bert keep expiry=9
                e < CONNACK 0x87 not_authorized
                e < closed
            d: PING
                d < PINGRESP
            f: CONNECT id=k user=anna keep expiry=9
                d < DISCONNECT 0x8e session_taken_over
                d < closed
                f < CONNACK success present
            a: drop
            b2: CONNECT id=s user=bert
                b2 < CONNACK success
        "#]],
    );
}

#[test]
fn who_has_no_user_is_known_by_the_address() {
    check(
        "a: CONNECT id=s keep expiry=100; a: SUBSCRIBE t qos=1; a: drop; address 10.0.0.2
         b: CONNECT id=s keep expiry=100; c: CONNECT id=s user=10.0.0.1 keep; crash; d: CONNECT id=s
         address 10.0.0.1; a@1: CONNECT id=s keep expiry=100",
        expect![[r#"
            a: CONNECT id=s keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            a: drop
            address 10.0.0.2
            b: CONNECT id=s keep expiry=100
                b < CONNACK 0x87 not_authorized
                b < closed
            c: CONNECT id=s user=10.0.0.1 keep
                c < CONNACK 0x87 not_authorized
                c < closed
            crash
            d: CONNECT id=s
                d < CONNACK 0x87 not_authorized
                d < closed
            address 10.0.0.1
            a@1: CONNECT id=s keep expiry=100
                a < CONNACK success present
        "#]],
    );
}

#[test]
fn an_id_with_a_name_in_it_is_only_for_that_user() {
    check(
        "a: CONNECT id=of-anna-phone user=bert why; b: CONNECT v3 id=of-anna-phone; c: CONNECT id=of-anna-tv user=anna
         d: CONNECT id= user=bert",
        expect![[r#"
            a: CONNECT id=of-anna-phone user=bert why
                a < CONNACK 0x85 client_identifier_not_valid why=the client id is too long, or not one for this user
                a < closed
            b: CONNECT v3 id=of-anna-phone
                b < CONNACK 0x85 client_identifier_not_valid
                b < closed
            c: CONNECT id=of-anna-tv user=anna
                c < CONNACK success
            d: CONNECT id= user=bert
                d < CONNACK success assigned=xxxxxxxxxxxxxxxxxxxxxx
        "#]],
    );
}

#[test]
fn of_an_old_session_the_first_who_shows_who_it_is_becomes_the_owner() {
    check(
        "a: CONNECT id=s user=anna keep expiry=100; a: SUBSCRIBE t qos=1; a: drop; kill-old; b: CONNECT id=s keep
         c: CONNECT id=s; d: CONNECT id=s user=bert keep expiry=100; a: CONNECT id=s user=anna keep expiry=100
         d: DISCONNECT; a: CONNECT id=s user=anna; d: CONNECT id=s user=bert keep expiry=100",
        expect![[r#"
            a: CONNECT id=s user=anna keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE t qos=1
                a < SUBACK 1 1
            a: drop
            kill-old
            b: CONNECT id=s keep
                b < CONNACK 0x87 not_authorized
                b < closed
            c: CONNECT id=s
                c < CONNACK 0x87 not_authorized
                c < closed
            d: CONNECT id=s user=bert keep expiry=100
                d < CONNACK success present
            a: CONNECT id=s user=anna keep expiry=100
                a < CONNACK 0x87 not_authorized
                a < closed
            d: DISCONNECT
                d < closed
            a: CONNECT id=s user=anna
                a < CONNACK 0x87 not_authorized
                a < closed
            d: CONNECT id=s user=bert keep expiry=100
                d < CONNACK success present
        "#]],
    );
}

#[test]
fn a_session_ends_with_what_its_owner_has_paid() {
    let mut world = World::new(WorldOptions::default());
    let anna = Principal::user("anna");
    let sessions = |world: &World| world.holdings().held_by(&anna, Thing::Session).0;
    let bytes = |world: &World| world.holdings().held(Thing::Session).1;
    world.run("a: CONNECT user=anna keep expiry=100; b: CONNECT user=anna expiry=100; c: CONNECT user=anna");
    assert_eq!(sessions(&world), 2, "one that ends with its connection leaves nothing behind");
    let plain = bytes(&world);
    world.run("a: CONNECT user=anna keep expiry=100 will=w,gone");
    assert!(bytes(&world) > plain, "a will is paid for");
    world.run("kill");
    assert_eq!((sessions(&world), bytes(&world) > plain), (2, true), "and after a restart");
    world.run("a: CONNECT user=anna keep expiry=100; b: CONNECT user=anna");
    assert_eq!((sessions(&world), bytes(&world)), (1, plain / 2));
    world.run("a: DISCONNECT expiry=1; b: drop; wait 2000");
    assert_eq!((sessions(&world), world.holdings().principals()), (0, 0), "it expires, and nobody is known any more");
}

#[test]
fn too_many_sessions_of_one_are_refused_and_others_go_on() {
    let mut holdings = HoldingLimits::NONE;
    holdings[Thing::Session].principal.count = 2;
    holdings[Thing::Session].address.count = 1;
    holdings[Thing::Session].all.count = 4;
    check_with(
        WorldOptions { holdings, ..WorldOptions::default() },
        "a: CONNECT user=anna expiry=9; b: CONNECT user=anna expiry=9; c: CONNECT user=anna expiry=9 why
         d: CONNECT user=anna; e: CONNECT expiry=9; f: CONNECT v3 keep; address 10.0.0.2; g: CONNECT expiry=9
         address 10.0.0.3; h: CONNECT expiry=9; a: CONNECT user=anna keep expiry=9; b: DISCONNECT expiry=0
         c: CONNECT user=anna expiry=9",
        expect![[r#"
            a: CONNECT user=anna expiry=9
                a < CONNACK success
            b: CONNECT user=anna expiry=9
                b < CONNACK success
            c: CONNECT user=anna expiry=9 why
                c < CONNACK 0x97 quota_exceeded why=a bound of this server is reached: try again later
                c < closed
            d: CONNECT user=anna
                d < CONNACK success
            e: CONNECT expiry=9
                e < CONNACK success
            f: CONNECT v3 keep
                f < CONNACK 0x88 server_unavailable
                f < closed
            address 10.0.0.2
            g: CONNECT expiry=9
                g < CONNACK success
            address 10.0.0.3
            h: CONNECT expiry=9
                h < CONNACK 0x97 quota_exceeded
                h < closed
            a: CONNECT user=anna keep expiry=9
                a < CONNACK success present
                a' < DISCONNECT 0x8e session_taken_over
                a' < closed
            b: DISCONNECT expiry=0
                b < closed
            c: CONNECT user=anna expiry=9
                c < CONNACK success
        "#]],
    );
}

/// Bounds of how many of `thing` there may be, and no others.
fn at_most(thing: Thing, principal: u64, address: u64, all: u64) -> HoldingLimits {
    let [principal, address, all] = [principal, address, all].map(|count| Bound { count, bytes: 0 });
    let mut holdings = HoldingLimits::NONE;
    holdings[thing] = ThingLimits { principal, address, all };
    holdings
}

/// A filter of ten levels that no other has the shape of, and that is not common.
fn odd(bits: u32) -> String {
    let levels = (0..10).map(|nth| if bits >> nth & 1 == 1 { "+" } else { "a" });
    levels.collect::<Vec<_>>().join("/")
}

#[test]
fn odd_filters_of_one_leave_room_for_others_and_common_ones_are_always_free() {
    let holdings = at_most(Thing::Shape, 20, 10, 30);
    for version in ["", "v3 keep"] {
        let mut world = World::new(WorldOptions { holdings, ..WorldOptions::default() });
        let shapes = |world: &World| world.holdings().held(Thing::Shape).0;
        world.run(&format!("a: CONNECT {version}"));
        let odd_filters: Vec<String> = (0..1 << 10).filter(|bits: &u32| bits.count_ones() > 4).map(odd).collect();
        for part in odd_filters.chunks(100) {
            world.run(&format!("a: SUBSCRIBE {}", part.join(" ")));
        }
        assert_eq!(shapes(&world), 10, "of one address");
        let told = world.run("a: SUBSCRIBE +/+/+/+ a/+/# # + $share/g/+/b");
        assert!(told.contains("SUBACK") && !told.contains("0x"), "{told}");
        world.run("address 10.0.0.2; b: CONNECT; address 10.0.0.3; c: CONNECT; d: CONNECT user=dora");
        for client in ["b", "c", "d"] {
            world.run(&format!("{client}: SUBSCRIBE {}", odd_filters.join(" ")));
        }
        assert_eq!(shapes(&world), 30, "anonymous ones have half of it, dora the other");
        assert_eq!(world.holdings().held_by(&Principal::user("dora"), Thing::Shape).0, 15);
        // What is in use already is free, and gone when nobody has it any more.
        let first = odd_filters[0].replace('a', "b");
        let told = world.run(&format!("c: SUBSCRIBE {first}; e: CONNECT user=emil; e: SUBSCRIBE {first}"));
        assert!(!told.contains("0x97"), "{told}");
        world.run("address 10.0.0.1; a: DISCONNECT; a: CONNECT; b: DISCONNECT; c: DISCONNECT; d: DISCONNECT");
        assert!(shapes(&world) > 0, "emil's is still there");
        world.run("e: DISCONNECT");
        assert_eq!((shapes(&world), world.holdings().held(Thing::Filter)), (0, (0, 0)));
    }
}

#[test]
fn filters_are_paid_for_as_long_as_they_are_there() {
    let mut holdings = HoldingLimits::NONE;
    holdings[Thing::Filter].principal.count = 3;
    let mut world = World::new(WorldOptions { holdings, ..WorldOptions::default() });
    let filters = |world: &World| world.holdings().held(Thing::Filter).0;
    let told = world.run(
        "a: CONNECT user=anna; b@1: CONNECT user=anna keep expiry=100; a: SUBSCRIBE a b a; b: SUBSCRIBE c c d qos=1
         c: CONNECT user=carl; c: SUBSCRIBE a b c; b: SUBSCRIBE c",
    );
    assert_eq!(filters(&world), 6, "{told}");
    assert!(told.contains("b < SUBACK 1 1 1 0x97") || told.contains("quota"), "{told}");
    world.run("kill");
    assert_eq!(filters(&world), 1, "what is durable is paid for again");
    world.run("b: CONNECT user=anna keep expiry=100; b: UNSUBSCRIBE c");
    assert_eq!(filters(&world), 0);
    world.run("b: SUBSCRIBE x y z qos=1; b: DISCONNECT; b: CONNECT user=anna");
    assert_eq!(filters(&world), 0, "they end with their session");
}

#[test]
fn delayed_messages_of_one_leave_room_for_others_and_are_paid_for_until_they_are_sent() {
    let holdings = at_most(Thing::Delayed, 3, 2, 6);
    let mut world = World::new(WorldOptions { holdings, ..WorldOptions::default() });
    let delayed = |world: &World| world.holdings().held(Thing::Delayed).0;
    let told = world.run(
        "a: CONNECT; a: PUBLISH $delayed/50/t/1 a1 qos=1; b@1: CONNECT v3; b: PUBLISH $delayed/50/t/2 b1
         a: PUBLISH $delayed/50/t/3 no qos=1; a: PUBLISH $delayed/50/t/4 no qos=2; b: PUBLISH $delayed/50/t/5 no",
    );
    assert_eq!(delayed(&world), 2, "{told}");
    assert_eq!((told.matches("0x97").count(), told.matches("PUBACK 1\n").count()), (2, 1), "{told}");
    let told = world.run(
        "address 10.0.0.2; c: CONNECT; c: PUBLISH $delayed/50/t c1 qos=1; c: PUBLISH $delayed/50/t no qos=1
         d: CONNECT user=dora; d: PUBLISH $delayed/90/t/1 d1 qos=2; d: PUBLISH $delayed/50/t d2 qos=1
         d: PUBLISH $delayed/50/t/2 d3; d: PUBLISH $delayed/50/t no qos=1",
    );
    assert_eq!((delayed(&world), told.matches("0x97").count()), (6, 2), "{told}");
    world.run("kill");
    assert_eq!(delayed(&world), 4, "what is journaled is paid for again");
    assert_eq!(world.holdings().held_by(&Principal::user("dora"), Thing::Delayed).0, 2);
    world.run("wait 60000");
    assert_eq!(delayed(&world), 1, "what was sent is not");
    let told = world.run("d: CONNECT user=dora; d: PUBLISH $delayed/50/t d4 qos=1; wait 60000");
    assert!(!told.contains("0x97"), "{told}");
    assert_eq!((delayed(&world), world.holdings().held(Thing::Delayed).1), (0, 0));
}

#[test]
fn retained_messages_are_paid_for_by_who_published_the_last_one() {
    let mut holdings = HoldingLimits::NONE;
    holdings[Thing::Retained].principal.count = 2;
    let mut world = World::new(WorldOptions { holdings, ..WorldOptions::default() });
    let by = |world: &World, name| world.holdings().held_by(&Principal::user(name), Thing::Retained);
    let told = world.run(
        "a: CONNECT user=anna; b@1: CONNECT user=bert; s: CONNECT; s: SUBSCRIBE r/#; a: PUBLISH r/1 one retain qos=1
         a: PUBLISH r/2 two retain; a: PUBLISH r/3 no retain qos=1; a: PUBLISH r/3 no retain qos=2
         a: PUBLISH r/4 no retain; a: PUBLISH r/1 new retain qos=1; a: PUBLISH r/3 live qos=1",
    );
    assert_eq!((by(&world, "anna").0, told.matches("0x97").count()), (2, 2), "{told}");
    assert!(!told.contains("< PUBLISH r/3 no") && !told.contains("< PUBLISH r/4 no"), "{told}");
    assert!(told.contains("s < PUBLISH r/1 new") && told.contains("s < PUBLISH r/3 live"), "{told}");
    world.run("b: PUBLISH r/1 mine retain qos=1");
    assert_eq!((by(&world, "anna").0, by(&world, "bert").0), (1, 1), "who replaces it pays for it");
    let bytes = by(&world, "bert").1;
    world.run("b: PUBLISH r/1 longer-than-before retain qos=1; crash");
    assert!(by(&world, "bert").1 > bytes);
    assert_eq!((by(&world, "anna").0, by(&world, "bert").0), (1, 1), "over a restart, too");
    world.run("c: CONNECT user=carl will=r/5,gone,retain,qos=1; c: drop");
    assert_eq!(by(&world, "carl").0, 1, "so is a will");
    world.run("a: CONNECT user=anna; a: PUBLISH r/1 retain qos=1; a: PUBLISH r/2 retain; a: PUBLISH r/5 retain qos=2");
    assert_eq!(world.holdings().held(Thing::Retained), (0, 0));
    world.run("a: PUBLISH r/1 short retain qos=1 expiry=2; wait 3000");
    assert_eq!(world.holdings().held(Thing::Retained), (0, 0), "it expires");
}

#[test]
fn what_waits_for_those_who_are_away_is_paid_for_until_they_have_it() {
    let mut holdings = HoldingLimits::NONE;
    holdings[Thing::Queued].principal = Bound { count: 3, bytes: 900 };
    let mut world = World::new(WorldOptions { holdings, ..WorldOptions::default() });
    let queued = |world: &World| world.holdings().held(Thing::Queued);
    world.run(
        "a: CONNECT user=anna keep expiry=100; a: SUBSCRIBE t qos=1; a: drop; p@1: CONNECT
         b: CONNECT user=bert keep expiry=100; b: SUBSCRIBE t qos=1; b: drop
         p: PUBLISH t 1 qos=1; p: PUBLISH t 2 qos=1; p: PUBLISH t 3 qos=2",
    );
    let paid = queued(&world);
    assert_eq!(paid.0, 6, "one for each of them");
    assert!((6 * 100..6 * 200).contains(&paid.1), "a topic and a payload, and the memory around them: {}", paid.1);
    let told = world.run("p: PUBLISH t 4 qos=1; kill; p: CONNECT; p: PUBLISH t 5 qos=1");
    assert!(told.contains("p < PUBACK"), "its publisher hears nothing of it: {told}");
    assert_eq!(queued(&world), paid, "over a restart, too");
    let told = world.run("b: CONNECT user=bert keep expiry=100; p: PUBLISH t 6 qos=1; b: PUBACK 1; b: PUBACK 2");
    assert!(told.contains("b < PUBLISH t 6"), "who is there takes what comes: {told}");
    assert_eq!(world.holdings().held_by(&Principal::user("bert"), Thing::Queued).0, 2);
    world.run("a: CONNECT user=anna");
    assert_eq!(queued(&world).0, 2, "it ends with its session");
    world.run("b: PUBACK 3; b: PUBACK 4; b: drop");
    let long = "x".repeat(300);
    world.run(&format!("p: PUBLISH t {long} qos=1; p: PUBLISH t {long} qos=1"));
    assert_eq!(queued(&world).0, 1, "bytes are bounded as well");
}

#[test]
fn half_packets_are_paid_for_until_the_rest_is_there() {
    let mut holdings = HoldingLimits::NONE;
    holdings[Thing::Unread].principal.bytes = 5_000;
    let mut world = World::new(WorldOptions { holdings, ..WorldOptions::default() });
    world.run("a: CONNECT user=anna; b: CONNECT user=bert; s: CONNECT user=sam; s: SUBSCRIBE t");
    let long = |bytes| "x".repeat(bytes);
    let told = world.run_by_bytes(&format!("b: PUBLISH t {} qos=1", long(4_900)));
    assert!(told.contains("b < PUBACK") && told.contains("s < PUBLISH"), "{}", &told[5_000..]);
    let told = world.run_by_bytes(&format!("a: PUBLISH t {} qos=1", long(6_000)));
    assert!(told.contains("a < DISCONNECT 0x97"), "{}", &told[6_000..]);
    assert_eq!(world.holdings().held(Thing::Unread), (0, 0));
    assert!(world.run("b: PING").contains("PINGRESP"));
}

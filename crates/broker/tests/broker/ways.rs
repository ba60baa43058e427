//! Request and response, the ledger, delayed messages, `$SYS`, rights that change.

use crate::support::{WorldOptions, check, check_with};
use expect_test::expect;

#[test]
fn properties_go_on_unchanged() {
    check(
        "a: CONNECT; a: SUBSCRIBE t qos=1 sid=9; b@1: CONNECT
         b: PUBLISH t ask qos=1 response=r/b correlation=77 up=k=v expiry=100
         c: CONNECT v3; c: SUBSCRIBE t; b: PUBLISH t again response=r/b",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE t qos=1 sid=9
                a < SUBACK 1 1
            b@1: CONNECT
                b < CONNACK success
            b: PUBLISH t ask qos=1 response=r/b correlation=77 up=k=v expiry=100
                a < PUBLISH t ask qos=1 id=1 expiry=100 response=r/b correlation=77 up=k=v sid=9
                b < PUBACK 1
            c: CONNECT v3
                c < CONNACK success
            c: SUBSCRIBE t
                c < SUBACK 1 0
            b: PUBLISH t again response=r/b
                a < PUBLISH t again response=r/b sid=9
                c < PUBLISH t again
        "#]],
    );
}

#[test]
fn a_transfer_is_answered_to_its_sender_only() {
    check(
        "a: CONNECT; a: SUBSCRIBE r; b@1: CONNECT; b: SUBSCRIBE r qos=1 nl
         b: PUBLISH $ledger/transfers {} qos=1 response=r correlation=77; b: PUBLISH $ledger/transfers {}
         c: CONNECT v3; c: PUBLISH $ledger/transfers {} qos=2",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE r
                a < SUBACK 1 0
            b@1: CONNECT
                b < CONNACK success
            b: SUBSCRIBE r qos=1 nl
                b < SUBACK 1 1
            b: PUBLISH $ledger/transfers {} qos=1 response=r correlation=77
                b < PUBLISH r ok:{} qos=1 id=1 correlation=77
                b < PUBACK 2
            b: PUBLISH $ledger/transfers {}
            c: CONNECT v3
                c < CONNACK success
            c: PUBLISH $ledger/transfers {} qos=2
                c < PUBREC 1
        "#]],
    );
}

#[test]
fn a_request_reaches_its_service_and_no_subscriber() {
    check(
        "a: CONNECT; a: SUBSCRIBE # qos=1; b: CONNECT; b: SUBSCRIBE r
         b: PUBLISH other/service ask qos=1 response=r; b: PUBLISH other/service/x ask qos=1 response=r
         b: PUBLISH $delayed/1/other/service ask qos=1 response=r
         b: PUBLISH other/service ask retain response=elsewhere",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE # qos=1
                a < SUBACK 1 1
            b: CONNECT
                b < CONNACK success
            b: SUBSCRIBE r
                b < SUBACK 1 0
            b: PUBLISH other/service ask qos=1 response=r
                b < PUBLISH r other:ask
                b < PUBACK 2
            b: PUBLISH other/service/x ask qos=1 response=r
                a < PUBLISH other/service/x ask qos=1 id=1 response=r
                b < PUBACK 3
            b: PUBLISH $delayed/1/other/service ask qos=1 response=r
                b < PUBACK 4 0x90 topic_name_invalid
            b: PUBLISH other/service ask retain response=elsewhere
        "#]],
    );
}

#[test]
fn accounts_may_be_watched_if_they_are_collectors() {
    check(
        "a: CONNECT; a: SUBSCRIBE $ledger/accounts/candidate:1 $ledger/accounts/wallet:dave $ledger/accounts/candidate:2
         announce $ledger/accounts/candidate:1 {}; b@1: CONNECT v3; b: SUBSCRIBE $ledger/accounts/candidate:1
         b: PUBLISH $ledger/accounts/candidate:1 forged qos=1",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE $ledger/accounts/candidate:1 $ledger/accounts/wallet:dave $ledger/accounts/candidate:2
                a < SUBACK 1 0 0x87 not_authorized 0
            announce $ledger/accounts/candidate:1 {}
                a < PUBLISH $ledger/accounts/candidate:1 {} retain
            b@1: CONNECT v3
                b < CONNACK success
            b: SUBSCRIBE $ledger/accounts/candidate:1
                b < SUBACK 1 0
                b < PUBLISH $ledger/accounts/candidate:1 {} retain
            b: PUBLISH $ledger/accounts/candidate:1 forged qos=1
                b < PUBACK 2
        "#]],
    );
}

/// MQTT 5, 3.3.1.3: retained messages are sent for a new subscription that is not shared.
#[test]
fn who_shares_an_account_hears_its_changes_and_not_what_is_retained() {
    check(
        "a: CONNECT; a: SUBSCRIBE $share/g/$ledger/accounts/candidate:1
         b@1: CONNECT; b: SUBSCRIBE $queue/$ledger/accounts/candidate:1
         c@1: CONNECT; c: SUBSCRIBE $ledger/accounts/candidate:1
         answer $ledger/accounts/candidate:1 1; announce $ledger/accounts/candidate:1 2
         answer $ledger/accounts/candidate:1 2
         d: CONNECT; d: SUBSCRIBE $share/h/$ledger/accounts/candidate:2 $ledger/accounts/candidate:2
         announce $ledger/accounts/candidate:2 1",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE $share/g/$ledger/accounts/candidate:1
                a < SUBACK 1 0
            b@1: CONNECT
                b < CONNACK success
            b: SUBSCRIBE $queue/$ledger/accounts/candidate:1
                b < SUBACK 1 0
            c@1: CONNECT
                c < CONNACK success
            c: SUBSCRIBE $ledger/accounts/candidate:1
                c < SUBACK 1 0
            answer $ledger/accounts/candidate:1 1
                c < PUBLISH $ledger/accounts/candidate:1 1 retain
            announce $ledger/accounts/candidate:1 2
                a < PUBLISH $ledger/accounts/candidate:1 2
                b < PUBLISH $ledger/accounts/candidate:1 2
                c < PUBLISH $ledger/accounts/candidate:1 2
            answer $ledger/accounts/candidate:1 2
                c < PUBLISH $ledger/accounts/candidate:1 2
            d: CONNECT
                d < CONNACK success
            d: SUBSCRIBE $share/h/$ledger/accounts/candidate:2 $ledger/accounts/candidate:2
                d < SUBACK 1 0 0
            announce $ledger/accounts/candidate:2 1
                d < PUBLISH $ledger/accounts/candidate:2 1 retain
                d < PUBLISH $ledger/accounts/candidate:2 1
        "#]],
    );
}

#[test]
fn a_delayed_message_comes_later() {
    check(
        "a: CONNECT; a: SUBSCRIBE t qos=2; b: CONNECT; b: PUBLISH $delayed/2/t later
         b: PUBLISH $delayed/x/t never qos=1
         b: PUBLISH $delayed/1/secret/x y qos=1; wait 1000; wait 1000",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE t qos=2
                a < SUBACK 1 2
            b: CONNECT
                b < CONNACK success
            b: PUBLISH $delayed/2/t later
            b: PUBLISH $delayed/x/t never qos=1
                b < PUBACK 1 0x90 topic_name_invalid
            b: PUBLISH $delayed/1/secret/x y qos=1
                b < PUBACK 2 0x87 not_authorized
            wait 1000
            wait 1000
                a < PUBLISH t later
        "#]],
    );
}

#[test]
fn a_reload_takes_rights_and_users_away() {
    check(
        "a: CONNECT user=gone; b: CONNECT user=me; b: SUBSCRIBE closed/x open; c@1: CONNECT
         c: PUBLISH closed/x 1; reload; c: PUBLISH closed/x 2 qos=1; c: PUBLISH open 3; announce closed/x 4",
        expect![[r#"
            a: CONNECT user=gone
                a < CONNACK success
            b: CONNECT user=me
                b < CONNACK success
            b: SUBSCRIBE closed/x open
                b < SUBACK 1 0 0
            c@1: CONNECT
                c < CONNACK success
            c: PUBLISH closed/x 1
                b < PUBLISH closed/x 1
            reload
                a < DISCONNECT 0x87 not_authorized
                a < closed
            c: PUBLISH closed/x 2 qos=1
                c < PUBACK 1 0x87 not_authorized
            c: PUBLISH open 3
                b < PUBLISH open 3
            announce closed/x 4
        "#]],
    );
}

#[test]
fn the_server_tells_about_itself() {
    let mut options = WorldOptions::default();
    options.limits.sys_interval_ms = 10_000;
    check_with(
        options,
        "a: CONNECT; a: SUBSCRIBE $SYS/broker/version $SYS/broker/clients/connected $SYS/broker/uptime
         b@1: CONNECT; b: SUBSCRIBE #; wait 10000; b: drop; wait 10000",
        expect![[r#"
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE $SYS/broker/version $SYS/broker/clients/connected $SYS/broker/uptime
                a < SUBACK 1 0 0 0
                a < PUBLISH $SYS/broker/version test retain
                a < PUBLISH $SYS/broker/clients/connected 0 retain
                a < PUBLISH $SYS/broker/uptime 0 seconds retain
            b@1: CONNECT
                b < CONNACK success
            b: SUBSCRIBE #
                b < SUBACK 1 0
            wait 10000
                a < PUBLISH $SYS/broker/clients/connected 2
                a < PUBLISH $SYS/broker/uptime 10 seconds
            b: drop
            wait 10000
                a < PUBLISH $SYS/broker/clients/connected 1
                a < PUBLISH $SYS/broker/uptime 20 seconds
        "#]],
    );
}

#[test]
fn what_waits_for_a_session_is_not_for_whoever_comes_with_its_client_id() {
    check(
        "a: CONNECT keep expiry=100; a: SUBSCRIBE closed/x open qos=1; a: drop
         b: CONNECT; b: PUBLISH closed/x hidden qos=1; b: PUBLISH open shown qos=1
         reload; c: CONNECT id=a keep expiry=100; c: PUBACK 2",
        expect![[r#"
            a: CONNECT keep expiry=100
                a < CONNACK success
            a: SUBSCRIBE closed/x open qos=1
                a < SUBACK 1 1 1
            a: drop
            b: CONNECT
                b < CONNACK success
            b: PUBLISH closed/x hidden qos=1
                b < PUBACK 1
            b: PUBLISH open shown qos=1
                b < PUBACK 2
            reload
            c: CONNECT id=a keep expiry=100
                c < CONNACK success present
                c < PUBLISH open shown qos=1 id=2
            c: PUBACK 2
        "#]],
    );
}

#[test]
fn a_connection_ends_when_what_was_shown_is_good_no_longer() {
    check(
        "a: CONNECT user=brief why; b: CONNECT user=brief v3; c: CONNECT user=me; wait 9000; a: PING; wait 2000
         a: CONNECT user=brief; wait 11000; c: PING",
        expect![[r#"
            a: CONNECT user=brief why
                a < CONNACK success
            b: CONNECT user=brief v3
                b < CONNACK success
            c: CONNECT user=me
                c < CONNACK success
            wait 9000
            a: PING
                a < PINGRESP
            wait 2000
                a < DISCONNECT 0xa0 maximum_connect_time why=the token that was shown has expired: show a new one
                a < closed
                b < closed
            a: CONNECT user=brief
                a < CONNACK success
            wait 11000
                a < DISCONNECT 0xa0 maximum_connect_time
                a < closed
            c: PING
                c < PINGRESP
        "#]],
    );
}

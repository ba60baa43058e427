//! 3.1: CONNECT.

use crate::support::WorldOptions;
use crate::{holds, holds_in_both, holds_with};
use tidegate_broker::BrokerLimits;

/// `[MQTT-3.1.0-1]`: the first packet of a client is CONNECT.
/// `[MQTT-3.14.0-1]`: the server sends no DISCONNECT before a CONNACK with a code below 0x80.
/// Before CONNECT the server does not send DISCONNECT either.
#[test]
fn what_is_not_connect_comes_not_first() {
    holds(
        "
        a: open
        a: PING
            a < closed
        ",
    );
}

/// `[MQTT-3.1.0-2]`: a second CONNECT ends the connection.
/// `[MQTT-4.13.1-1]`: a malformed packet or protocol error closes the connection.
#[test]
fn a_second_connect_ends_the_connection() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: HEX 10 0d 00 04 4d 51 54 54 05 02 00 00 00 00 00
            a < DISCONNECT 0x82 protocol_error
            a < closed
        ",
    );
}

/// `[MQTT-3.1.2-1]`: another protocol name: the server may send CONNACK 0x84, then closes.
/// The name is MQXX.
#[test]
fn another_protocol_is_closed() {
    holds(
        "
        a: open
        a: HEX 10 0d 00 04 4d 51 58 58 05 02 00 00 00 00 00
            a < closed
        ",
    );
}

/// `[MQTT-3.1.2-2]`: another protocol version: the server may send CONNACK 0x84, then closes.
/// `[MQTT-3.2.2-7]`: after a CONNACK with an error the server closes the connection.
/// The version is 6.
#[test]
fn another_version_is_told_and_closed() {
    holds(
        "
        a: open
        a: HEX 10 0d 00 04 4d 51 54 54 06 02 00 00 00 00 00
            a < CONNACK 0x84 unsupported_protocol_version
            a < closed
        ",
    );
}

/// `[MQTT-3.1.4-1]`: a CONNECT that is not well-formed: the server closes the connection.
/// `[MQTT-3.1.2-3]`: CONNECT's reserved flag is 0.
/// The reserved flag is set.
#[test]
fn a_connect_that_is_malformed_is_refused() {
    holds(
        "
        a: open
        a: HEX 10 0d 00 04 4d 51 54 54 05 03 00 00 00 00 00
            a < CONNACK 0x81 malformed_packet
            a < closed
        ",
    );
}

/// `[MQTT-3.1.2-4]`: Clean Start deletes the existing session.
/// `[MQTT-3.1.4-4]`: the server processes Clean Start.
/// `[MQTT-3.2.2-2]`: with Clean Start, Session Present is 0.
#[test]
fn a_clean_start_forgets_the_session() {
    holds_in_both(
        "
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: SUBSCRIBE t qos=1
            a < SUBACK 1 1
        a: drop
        b: CONNECT
            b < CONNACK success
        b: SUBSCRIBE t
            b < SUBACK 1 0
        b: PUBLISH t waits qos=1
            b < PUBLISH t waits
            b < PUBACK 2
        a: CONNECT expiry=100
            a < CONNACK success
        b: PUBLISH t nobody
            b < PUBLISH t nobody
        ",
    );
}

/// `[MQTT-3.1.2-5]`: without Clean Start the existing session continues.
/// `[MQTT-3.1.2-6]`: without Clean Start and without an existing session, a new session begins.
/// `[MQTT-3.1.2-23]`: the session is stored as long as its expiry interval says.
/// `[MQTT-3.2.2-3]`: without Clean Start, Session Present says whether there was a session.
/// `[MQTT-3.1.3-2]`: client and server identify the session by the client id.
/// Another id is another session.
#[test]
fn a_session_goes_on() {
    holds_in_both(
        "
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: SUBSCRIBE t qos=1
            a < SUBACK 1 1
        a: drop
        b: CONNECT keep expiry=100
            b < CONNACK success
        b: SUBSCRIBE t
            b < SUBACK 1 0
        b: PUBLISH t waits qos=1
            b < PUBLISH t waits
            b < PUBACK 2
        a: CONNECT keep expiry=100
            a < CONNACK success present
            a < PUBLISH t waits qos=1 id=1
        ",
    );
}

/// `[MQTT-3.1.2-22]`: after one and a half keep alives without a packet the server closes the connection.
/// `[MQTT-3.2.2-22]`: without Server Keep Alive, the client's own value applies.
#[test]
fn silence_ends_the_connection_and_a_ping_breaks_it() {
    holds_in_both(
        "
        w: CONNECT
            w < CONNACK success
        w: SUBSCRIBE gone
            w < SUBACK 1 0
        a: CONNECT keepalive=4 will=gone,a
            a < CONNACK success
        wait 5900
        a: PING
            a < PINGRESP
        wait 5900
        wait 3000
            a < DISCONNECT 0x8d keep_alive_timeout
            a < closed
            w < PUBLISH gone a
        ",
    );
}

/// `[MQTT-3.1.2-22]`: after one and a half keep alives without a packet the server closes the connection.
/// 0 is no keep alive.
#[test]
fn who_keeps_nothing_alive_may_be_silent() {
    holds_in_both(
        "
        a: CONNECT keepalive=0
            a < CONNACK success
        wait 200000
        a: PING
            a < PINGRESP
        ",
    );
}

/// `[MQTT-3.1.2-24]`: the server sends nothing larger than the client's Maximum Packet Size.
/// A CONNACK that accepts is larger than 12 bytes; one that refuses has 5.
#[test]
fn who_does_not_take_its_connack_is_refused() {
    holds(
        "
        a: CONNECT max=12
            a < CONNACK 0x95 packet_too_large
            a < closed
        b: CONNECT max=4
            b < closed
        ",
    );
}

/// `[MQTT-3.1.2-24]`: the server sends nothing larger than the client's Maximum Packet Size.
/// The same for the answers to many filters: nothing is subscribed to that its client is not told of.
#[test]
fn who_does_not_take_its_suback_is_told_so() {
    for ask in ["SUBSCRIBE", "UNSUBSCRIBE"] {
        holds(&format!(
            "
            a: CONNECT max=20
                a < CONNACK success
            a: {ask} a b c d e f g h i j k l m n o p
                a < DISCONNECT 0x95 packet_too_large
                a < closed
            "
        ));
    }
}

/// `[MQTT-3.1.2-24]`: the server sends nothing larger than the client's Maximum Packet Size.
/// `[MQTT-3.1.2-25]`: a message that is too large for a client counts as delivered.
/// With one message under way at most, the small one comes only if the large one counts as done.
#[test]
fn what_is_too_large_for_a_client_counts_as_delivered() {
    holds(
        "
        a: CONNECT max=40 recv=1 expiry=100
            a < CONNACK success
        a: SUBSCRIBE t qos=2
            a < SUBACK 1 2
        b: CONNECT
            b < CONNACK success
        b: PUBLISH t this-payload-is-of-more-bytes-than-forty-for-certain qos=1
            b < PUBACK 1
        b: PUBLISH t small qos=1
            a < PUBLISH t small qos=1 id=2
            b < PUBACK 2
        a: PUBACK 2
        b: PUBLISH t this-payload-is-of-more-bytes-than-forty-for-certain
        b: PUBLISH t tiny
            a < PUBLISH t tiny
        ",
    );
}

/// `[MQTT-3.1.2-26]`: the server uses no topic alias above the client's Topic Alias Maximum.
/// `[MQTT-3.3.2-11]`: the server uses no topic alias above the client's maximum.
/// The client takes one alias.
#[test]
fn aliases_to_a_client_stay_within_its_maximum() {
    holds(
        "
        a: CONNECT alias=1
            a < CONNACK success
        a: SUBSCRIBE #
            a < SUBACK 1 0
        b: CONNECT
            b < CONNACK success
        b: PUBLISH first/topic 1
            a < PUBLISH first/topic 1 alias=1
        b: PUBLISH second/topic 2
            a < PUBLISH second/topic 2
        b: PUBLISH first/topic 3
            a < PUBLISH - 3 alias=1
        ",
    );
}

/// `[MQTT-3.1.2-27]`: without a Topic Alias Maximum of the client, the server uses no topic aliases.
#[test]
fn who_takes_no_aliases_gets_none() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: SUBSCRIBE #
            a < SUBACK 1 0
        a: PUBLISH first/topic 1
            a < PUBLISH first/topic 1
        a: PUBLISH first/topic 2
            a < PUBLISH first/topic 2
        ",
    );
}

/// `[MQTT-3.1.3-5]`: the server accepts client ids of 1 to 23 letters and digits.
#[test]
fn ids_of_letters_and_digits_are_taken() {
    holds_in_both(
        "
        a: CONNECT id=0123456789abcdefghijABZ
            a < CONNACK success
        b: CONNECT id=x
            b < CONNACK success
        ",
    );
}

/// `[MQTT-3.1.3-6]`: an empty client id is allowed: the server assigns one.
/// `[MQTT-3.1.3-7]`: the server uses the client id that it assigned and returns it in CONNACK.
/// `[MQTT-3.2.2-16]`: an assigned client id is in use by no other session.
/// Two of them do not throw each other out.
#[test]
fn who_brings_no_id_gets_one() {
    holds(
        "
        a: CONNECT id=
            a < CONNACK success assigned=xxxxxxxxxxxxxxxxxxxxxx
        b@1: CONNECT id=
            b < CONNACK success assigned=xxxxxxxxxxxxxxxxxxxxxx
        c: CONNECT keep id= expiry=5
            c < CONNACK success assigned=xxxxxxxxxxxxxxxxxxxxxx
        a: PING
            a < PINGRESP
        ",
    );
}

/// `[MQTT-3.1.3-6]`: an empty client id is allowed: the server assigns one.
/// `[MQTT-3.1.1 3.1.3-7]`: an empty client id needs a clean session.
/// `[MQTT-3.1.1 3.1.3-8]`: an empty client id without a clean session: return code 0x02, then close.
/// MQTT 3.1.1 cannot tell the client its id, so there is no session to keep.
#[test]
fn in_3_1_1_who_brings_no_id_brings_no_session() {
    holds(
        "
        a: CONNECT v3 id=
            a < CONNACK success
        b: CONNECT v3 keep id=
            b < CONNACK 0x85 client_identifier_not_valid
            b < closed
        ",
    );
}

/// `[MQTT-3.1.3-8]`: a client id that is refused: the server may send CONNACK 0x85, then closes.
/// `[MQTT-3.2.2-7]`: after a CONNACK with an error the server closes the connection.
#[test]
fn an_id_may_be_too_long() {
    let id = "x".repeat(5_000);
    holds_in_both(&format!(
        "
        a: CONNECT id={id}
            a < CONNACK 0x85 client_identifier_not_valid
            a < closed
        "
    ));
}

/// `[MQTT-3.1.4-2]`: a client that is not authorised: the server closes the connection.
/// `[MQTT-3.2.2-6]`: a CONNACK with an error has Session Present 0.
/// `[MQTT-3.2.2-7]`: after a CONNACK with an error the server closes the connection.
/// Although there is a session of that id.
#[test]
fn who_is_not_let_in_is_told_so() {
    holds_in_both(
        "
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: drop
        a: CONNECT keep expiry=100 user=nobody
            a < CONNACK 0x86 bad_user_name_or_password
            a < closed
        ",
    );
}

/// `[MQTT-3.1.4-3]`: a second connection with a client id disconnects the first one with 0x8E.
#[test]
fn a_client_id_has_one_connection() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        b@1: CONNECT id=a
            a < DISCONNECT 0x8e session_taken_over
            a < closed
            b < CONNACK success
        ",
    );
    holds(
        "
        a: CONNECT v3 keep
            a < CONNACK success
        a: SUBSCRIBE t
            a < SUBACK 1 0
        b: CONNECT v3 keep id=a
            a < closed
            b < CONNACK success present
        b: PUBLISH t mine
            b < PUBLISH t mine
        ",
    );
}

/// `[MQTT-3.1.4-6]`: packets after a CONNECT that was refused are not processed.
/// A PINGREQ in the same breath as the refused CONNECT.
#[test]
fn what_follows_a_refused_connect_is_ignored() {
    holds(
        "
        a: open
        a: HEX 10 0d 00 04 4d 51 54 54 06 02 00 00 00 00 00 c0 00
            a < CONNACK 0x84 unsupported_protocol_version
            a < closed
        ",
    );
}

/// 3.1.4: a client need not wait for CONNACK.
#[test]
fn what_follows_an_accepted_connect_is_served() {
    for (version, connect) in [
        ("", "10 0e 00 04 4d 51 54 54 05 02 00 00 00 00 01 61"),
        (" v3", "10 0d 00 04 4d 51 54 54 04 02 00 00 00 01 61"),
    ] {
        holds(&format!(
            "
            a: open{version}
            a: HEX {connect} c0 00
                a < CONNACK success
                a < PINGRESP
            "
        ));
    }
}

/// `[MQTT-3.1.2-21]`: a client uses the keep alive that the server returns.
/// `[MQTT-3.2.2-21]`: the client uses Server Keep Alive.
/// Both are demands on clients; the server must send the value.
#[test]
fn a_keep_alive_beyond_the_bound_is_replaced() {
    let limits = BrokerLimits { keep_alive_max_s: 10, sys_interval_ms: 0, ..BrokerLimits::default() };
    holds_with(
        WorldOptions { limits, ..WorldOptions::default() },
        "
        a: CONNECT keepalive=60
            a < CONNACK success keepalive=10
        b: CONNECT keepalive=9
            b < CONNACK success
        c: CONNECT
            c < CONNACK success keepalive=10
        wait 13400
        wait 4000
            a < DISCONNECT 0x8d keep_alive_timeout
            a < closed
            b < DISCONNECT 0x8d keep_alive_timeout
            b < closed
            c < DISCONNECT 0x8d keep_alive_timeout
            c < closed
        ",
    );
}

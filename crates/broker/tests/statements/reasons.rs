//! Reason strings: a few words with each refusal, for clients that want them and accept packets of that size. In
//! transcripts: `why`.

use crate::support::WorldOptions;
use crate::{holds, holds_with};
use tidegate_broker::BrokerLimits;

/// `[MQTT-3.1.2-29]`: with Request Problem Information 0, reason strings and user properties only on PUBLISH, CONNACK
/// and DISCONNECT.
/// `[MQTT-3.4.2-2]`: no reason string that makes PUBACK too large for the receiver.
/// `[MQTT-3.5.2-2]`: no reason string that makes PUBREC too large for the receiver.
/// `[MQTT-3.6.2-2]`: no reason string that makes PUBREL too large for the receiver.
/// `[MQTT-3.7.2-2]`: no reason string that makes PUBCOMP too large for the receiver.
/// `[MQTT-3.9.2-1]`: no reason string that makes SUBACK too large for the receiver.
/// `[MQTT-3.14.2-3]`: no reason string that makes DISCONNECT too large for the receiver. A client that wants no problem
/// information gets none, nor one whose packets would become too large; success has no reason string.
#[test]
fn refusals_come_with_words_for_who_wants_them_and_has_room() {
    let refused = |connect: &str, publish: &str, subscribe: &str, unknown: &str, bye: &str| {
        holds(&format!(
            "
            a: CONNECT why{connect}
                a < CONNACK success
            a: SUBSCRIBE t secret/a
                a < SUBACK 1 0 0x87 not_authorized{subscribe}
            a: UNSUBSCRIBE t none
                a < UNSUBACK 2 0 0x11 no_subscription_existed
            a: PUBLISH t x qos=1
                a < PUBACK 3 0x10 no_matching_subscribers
            a: PUBLISH secret/a x qos=1
                a < PUBACK 4 0x87 not_authorized{publish}
            a: PUBLISH secret/a x qos=2
                a < PUBREC 5 0x87 not_authorized{publish}
            a: PUBREC 9
                a < PUBREL 9 0x92 packet_identifier_not_found{unknown}
            a: PUBREL 9
                a < PUBCOMP 9 0x92 packet_identifier_not_found{unknown}
            a: HEX d0 00
                a < DISCONNECT 0x82 protocol_error{bye}
                a < closed
            "
        ));
    };
    let words = [
        " why=no right to publish on this topic",
        " why=no right to subscribe to a filter",
        " why=nothing with this packet id is under way",
        " why=a packet that only servers send",
    ];
    refused("", words[0], words[1], words[2], words[3]);
    refused(" noproblem", "", "", "", "");
    // Each of these is larger: as short as it can be, it has three bytes of a text's frame, and the text.
    refused(" max=20", "", "", "", "");
}

/// `[MQTT-3.2.2-19]`: no reason string that makes CONNACK too large for the client.
/// `[MQTT-3.1.2-29]`: with Request Problem Information 0, reason strings and user properties only on PUBLISH, CONNACK
/// and DISCONNECT.
/// CONNACK, too. For a malformed CONNECT it is not known what the client wants.
#[test]
fn a_refused_connect_is_told_why() {
    holds(
        "
        nobody: CONNECT why user=nobody
            nobody < CONNACK 0x86 bad_user_name_or_password why=the user name or the password is wrong
            nobody < closed
        b: CONNECT why user=nobody noproblem
            b < CONNACK 0x86 bad_user_name_or_password
            b < closed
        c: CONNECT why user=nobody max=40
            c < CONNACK 0x86 bad_user_name_or_password
            c < closed
        d: CONNECT why method=magic
            d < CONNACK 0x8c bad_authentication_method why=enhanced authentication is not spoken here
            d < closed
        e: CONNECT v3 why user=nobody
            e < CONNACK 0x86 bad_user_name_or_password
            e < closed
        ",
    );
}

/// `[MQTT-3.14.2-3]`: no reason string that makes DISCONNECT too large for the receiver.
/// What the server ends by itself, and what is no packet.
#[test]
fn the_servers_disconnect_says_why() {
    let limits = BrokerLimits { receive_maximum: 1, sys_interval_ms: 0, ..BrokerLimits::default() };
    holds_with(
        WorldOptions { limits, ..WorldOptions::default() },
        "
        a: CONNECT why
            a < CONNACK success
        a@1: CONNECT why
            a < CONNACK success
            a' < DISCONNECT 0x8e session_taken_over why=another connection came with this client id
            a' < closed
        a: PUBLISH t x qos=2
            a < PUBREC 1 0x10 no_matching_subscribers
        a: PUBLISH t x qos=2
            a < DISCONNECT 0x93 receive_maximum_exceeded why=more publications unanswered than CONNACK allowed
            a < closed
        b: CONNECT why keepalive=2
            b < CONNACK success
        wait 9000
            b < DISCONNECT 0x8d keep_alive_timeout why=nothing was heard for one and a half keep alives
            b < closed
        ",
    );
}

//! 3.2: CONNACK.

use crate::support::WorldOptions;
use crate::{holds, holds_in_both, holds_with};
use tidegate_broker::BrokerLimits;

/// `[MQTT-3.1.4-5]`: a client that is accepted gets CONNACK 0x00.
/// `[MQTT-3.2.0-1]`: CONNACK is the first packet that the server sends.
/// `[MQTT-3.2.0-2]`: the server sends one CONNACK per connection.
/// Whatever waits for the client comes after it.
#[test]
fn connack_comes_first_and_once() {
    holds_in_both(
        "
        a: CONNECT keep expiry=100
            a < CONNACK success
        a: SUBSCRIBE t/# qos=2
            a < SUBACK 1 2
        a: drop
        b: CONNECT
            b < CONNACK success
        b: PUBLISH t/1 one qos=1
            b < PUBACK 1
        b: PUBLISH t/2 two qos=2
            b < PUBREC 2
        b: PUBREL 2
            b < PUBCOMP 2
        a: CONNECT keep expiry=100
            a < CONNACK success present
            a < PUBLISH t/1 one qos=1 id=1
            a < PUBLISH t/2 two qos=2 id=2
        ",
    );
}

/// `[MQTT-3.2.2-3]`: without Clean Start, Session Present says whether there was a session.
/// `[MQTT-3.1.1 3.1.2-6]`: a clean session ends with its connection.
/// MQTT 5 without expiry, and MQTT 3.1.1 that started clean, leave nothing behind.
#[test]
fn a_session_that_ended_is_not_present() {
    holds(
        "
        a: CONNECT keep
            a < CONNACK success
        a: drop
        a: CONNECT keep
            a < CONNACK success
        b: CONNECT v3
            b < CONNACK success
        b: drop
        b: CONNECT v3 keep
            b < CONNACK success
        ",
    );
}

/// `[MQTT-3.2.2-15]`: the client sends nothing larger than the server's Maximum Packet Size.
/// The bound that CONNACK told is kept to.
#[test]
fn a_packet_above_the_servers_maximum_is_not_taken() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: HEX 30 81 80 80 01
            a < DISCONNECT 0x95 packet_too_large
            a < closed
        ",
    );
}

/// `[MQTT-3.2.2-17]`: the client uses no topic alias above the server's Topic Alias Maximum.
/// `[MQTT-3.3.2-9]`: the client uses no topic alias above the server's maximum.
/// `[MQTT-3.3.2-12]`: the server accepts all topic aliases up to its maximum.
/// Sixty-four are offered.
#[test]
fn aliases_above_the_servers_maximum_are_not_taken() {
    let limits = BrokerLimits { topic_alias_maximum: 64, sys_interval_ms: 0, ..BrokerLimits::default() };
    holds_with(
        WorldOptions { limits, ..WorldOptions::default() },
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE #
            s < SUBACK 1 0
        a: CONNECT
            a < CONNACK success
        a: PUBLISH t/1 one alias=1
            s < PUBLISH t/1 one
        a: PUBLISH t/64 other alias=64
            s < PUBLISH t/64 other
        a: PUBLISH - again alias=64
            s < PUBLISH t/64 again
        a: PUBLISH t/1 moved alias=64
            s < PUBLISH t/1 moved
        a: PUBLISH - there alias=64
            s < PUBLISH t/1 there
        a: PUBLISH t/65 three alias=65
            a < DISCONNECT 0x94 topic_alias_invalid
            a < closed
        ",
    );
}

//! 4.7: topics and filters. How they match is tested in `src/subscriptions`, against a reference; how they are written,
//! in `wire`.

use crate::{holds, holds_in_both};

/// `[MQTT-4.7.2-1]`: a filter that begins with a wildcard matches no topic that begins with $.
/// Live and retained.
#[test]
fn wildcards_in_front_do_not_match_dollar() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE # +/monitor $own/monitor $own/+ $own/#
            s < SUBACK 1 0 0 0 0 0
        a: CONNECT
            a < CONNACK success
        a: PUBLISH $own/monitor x retain
            s < PUBLISH $own/monitor x
        n: CONNECT
            n < CONNACK success
        n: SUBSCRIBE #
            n < SUBACK 1 0
        n: SUBSCRIBE +/monitor
            n < SUBACK 2 0
        n: SUBSCRIBE $own/#
            n < SUBACK 3 0
            n < PUBLISH $own/monitor x retain
        ",
    );
}

/// `[MQTT-4.7.3-4]`: topics are compared byte by byte, without normalisation.
/// Neither case nor composition of letters, nor a slash at the end.
#[test]
fn topics_are_compared_byte_by_byte() {
    holds_in_both(
        "
        s: CONNECT
            s < CONNACK success
        s: SUBSCRIBE Straße/é a
            s < SUBACK 1 0 0
        a: CONNECT
            a < CONNACK success
        a: PUBLISH Straße/e\u{301} decomposed
        a: PUBLISH straße/é lower
        a: PUBLISH Strasse/é folded
        a: PUBLISH a/ slash
        a: PUBLISH /a slash
        a: PUBLISH Straße/é same
            s < PUBLISH Straße/é same
        ",
    );
}

/// `[MQTT-4.7.1-1]`: # is alone in its level, which is the last.
/// `[MQTT-4.7.1-2]`: + is alone in its level.
/// `[MQTT-4.7.3-1]`: topics and filters have at least one character.
/// By itself among others, or by the end of the connection; here the latter.
#[test]
fn a_filter_that_is_none_is_refused() {
    for filter in ["a/#/b", "a#", "a+", "a/+b"] {
        holds_in_both(&format!(
            "
            a: CONNECT
                a < CONNACK success
            a: SUBSCRIBE t {filter}
                a < DISCONNECT 0x81 malformed_packet
                a < closed
            "
        ));
    }
}

/// `[MQTT-4.7.3-1]`: topics and filters have at least one character.
#[test]
fn an_empty_topic_is_none() {
    holds(
        "
        a: CONNECT
            a < CONNACK success
        a: PUBLISH - x
            a < DISCONNECT 0x82 protocol_error
            a < closed
        b: CONNECT v3
            b < CONNACK success
        b: PUBLISH - x
            b < closed
        ",
    );
}

/// A filter has 128 levels at most, which the standard leaves to the server (0x97, quota exceeded); a topic may have
/// more.
#[test]
fn filters_have_a_bound_of_levels() {
    let (deepest, too_deep) = ("a/".repeat(127) + "a", "a/".repeat(128) + "a");
    holds(&format!(
        "
        a: CONNECT
            a < CONNACK success
        a: SUBSCRIBE {deepest}
            a < SUBACK 1 0
        a: SUBSCRIBE {too_deep}
            a < SUBACK 2 0x97 quota_exceeded
        a: PUBLISH {deepest} x
            a < PUBLISH {deepest} x
        a: SUBSCRIBE a/#
            a < SUBACK 3 0
        a: PUBLISH {too_deep} y
            a < PUBLISH {too_deep} y
        "
    ));
}

//! 3.12 and 3.13: PINGREQ and PINGRESP.

use crate::holds_in_both;

/// `[MQTT-3.12.4-1]`: PINGREQ is answered with PINGRESP.
/// Each one.
#[test]
fn a_ping_is_answered() {
    holds_in_both(
        "
        a: CONNECT
            a < CONNACK success
        a: PING
            a < PINGRESP
        a: HEX c0 00 c0 00
            a < PINGRESP
            a < PINGRESP
        ",
    );
}

//! Why a packet is malformed. Every such error ends the connection, so one type is enough; it names the statement that
//! was violated.
//! `[MQTT-4.13.1-1]`: a malformed packet or protocol error closes the connection.

use crate::mqtt::{ReasonCode, Version};

/// A packet that no peer may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {what} [{statement}]")]
pub struct Malformed {
    /// What a CONNACK or DISCONNECT of MQTT 5 says about it.
    pub reason: ReasonCode,
    /// The normative statement that was broken (`MQTT-1.5.4-2`), or the section where the text gives it no number
    /// (`MQTT5 3.1.2.11.3`).
    pub statement: &'static str,
    /// The same in words.
    pub what: &'static str,
}

impl Malformed {
    /// The packet cannot be read.
    #[cold]
    pub(crate) const fn packet(statement: &'static str, what: &'static str) -> Malformed {
        Malformed { reason: ReasonCode::MALFORMED_PACKET, statement, what }
    }

    /// The packet can be read, but says what it must not.
    #[cold]
    pub(crate) const fn protocol(statement: &'static str, what: &'static str) -> Malformed {
        Malformed { reason: ReasonCode::PROTOCOL_ERROR, statement, what }
    }

    /// With another reason than those two.
    #[cold]
    pub(crate) const fn because(reason: ReasonCode, statement: &'static str, what: &'static str) -> Malformed {
        Malformed { reason, statement, what }
    }
}

/// Why the first packet of a connection is no CONNECT that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The client uses a version that is not supported.
    /// `[MQTT-3.1.2-2]`: another protocol version: the server may send CONNACK 0x84, then closes.
    #[error("protocol version {level}, but only 4 (MQTT 3.1.1) and 5 are spoken here")]
    UnsupportedVersion {
        /// The version that it asked for.
        level: u8,
    },
    /// The packet is wrong.
    #[error("{malformed}")]
    Malformed {
        /// The version it speaks, where reading came so far.
        version: Option<Version>,
        /// What is wrong.
        #[source]
        malformed: Malformed,
    },
}

impl ConnectError {
    /// The CONNACK that tells the client, in the version that it understands; `None` when nothing shows that it speaks
    /// MQTT at all, or when its version has no word for it: then the connection is closed without one.
    pub const fn answer(&self) -> Option<(Version, ReasonCode)> {
        match *self {
            // Older than 3.1.1: they read its CONNACK.
            // [MQTT-3.1.1 3.1.2-2]: another protocol level gets return code 0x01.
            ConnectError::UnsupportedVersion { level: 0..=3 } => {
                Some((Version::V311, ReasonCode::UNSUPPORTED_PROTOCOL_VERSION))
            }
            ConnectError::UnsupportedVersion { .. } => Some((Version::V5, ReasonCode::UNSUPPORTED_PROTOCOL_VERSION)),
            ConnectError::Malformed { version: Some(Version::V5), malformed } => Some((Version::V5, malformed.reason)),
            // MQTT 3.1.1 closes on a malformed CONNECT; only a refused client id has a code of its own.
            // [MQTT-3.1.1 3.1.4-1]: a CONNECT that is not well-formed: the server closes the connection without
            // CONNACK.
            ConnectError::Malformed {
                version: Some(Version::V311),
                malformed: Malformed { reason: ReasonCode::CLIENT_IDENTIFIER_NOT_VALID, .. },
            } => Some((Version::V311, ReasonCode::CLIENT_IDENTIFIER_NOT_VALID)),
            ConnectError::Malformed { .. } => None,
        }
    }
}

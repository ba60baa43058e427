//! Reason strings: a short text beside a reason code, so that a client's log explains a refusal without the server's
//! log.
//!
//! Promise: sent only with a refusal, only to MQTT 5, only to clients that want them, and never so that the packet
//! becomes larger than its receiver accepts ([`crate::clients::Clients::send_refusal`]). The texts are constants, so
//! they reveal nothing about other clients.
//! `[MQTT-3.1.2-29]`: with Request Problem Information 0, reason strings and user properties only on PUBLISH, CONNACK
//! and DISCONNECT.

use tidegate_wire::mqtt::ReasonCode;

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// A CONNECT.
    Connect,
    /// The connection, from now on.
    Connection,
    /// A publication, or a step of it.
    Publish,
    /// A subscription, the first that was refused among those asked for.
    Subscribe,
}

/// What a shard says that finds no room on the disk, until a client is told ([`told`]). MQTT has no code of its own for
/// it, and this one never leaves the server.
pub(crate) const DISK_FULL: ReasonCode = ReasonCode(0xFD);

/// What a shard says that takes nothing for now: it is stopping, or has too much to do. It never leaves the server
/// either.
pub(crate) const NOT_NOW: ReasonCode = ReasonCode(0xFC);

/// Why something cannot be sent to a queue: no right. MQTT 3.1.1 is not told that it was taken. Like those below, it
/// never leaves the server.
pub(crate) const SEND_DENIED: ReasonCode = ReasonCode(0xFB);

/// The same: it is to be retained.
pub(crate) const NOT_RETAINED: ReasonCode = ReasonCode(0xFA);

/// Why a filter is refused: nobody could acknowledge what is sent for it.
pub(crate) const NEEDS_QOS_1: ReasonCode = ReasonCode(0xF9);

/// The reason as a client is told it, and the text.
pub(crate) fn told(about: About, reason: ReasonCode) -> (ReasonCode, Option<&'static str>) {
    if reason == NOT_NOW {
        let text = "the server takes nothing that is to be kept for now: try again later";
        return (ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR, Some(text));
    }
    if reason == DISK_FULL {
        let text = "the disk of the server is full, nothing can be kept: try again later";
        return (ReasonCode::QUOTA_EXCEEDED, Some(text));
    }
    match reason {
        SEND_DENIED => return told(about, ReasonCode::NOT_AUTHORIZED),
        NOT_RETAINED => {
            let text = "what is sent to a queue is kept there until it is acknowledged: publish it without RETAIN";
            return (ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR, Some(text));
        }
        NEEDS_QOS_1 => {
            let text = "what is received from a queue is to be acknowledged: subscribe with QoS 1";
            return (ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR, Some(text));
        }
        _ => {}
    }
    (reason, reason_text(about, reason))
}

/// The text; `None` if the reason code says enough.
pub(crate) fn reason_text(about: About, reason: ReasonCode) -> Option<&'static str> {
    Some(match (about, reason) {
        (About::Connect, ReasonCode::BAD_AUTHENTICATION_METHOD) => "enhanced authentication is not spoken here",
        (About::Connect, ReasonCode::CLIENT_IDENTIFIER_NOT_VALID) => {
            "the client id is too long, or not one for this user"
        }
        (About::Connect, ReasonCode::BAD_USER_NAME_OR_PASSWORD) => "the user name or the password is wrong",
        (About::Connect, ReasonCode::NOT_AUTHORIZED) => {
            "the user may not connect, leave this will, or have another's session"
        }
        (About::Connect, ReasonCode::TOPIC_NAME_INVALID) => {
            "the topic of the will is none, too deep to be retained, or for requests or queues"
        }
        (About::Connect, ReasonCode::SERVER_UNAVAILABLE) => {
            "what decides on log-ins of this user does not answer: try again later"
        }
        (About::Connect, ReasonCode::SERVER_BUSY) => "too many clients connect at once: try again later",
        (About::Connect, ReasonCode::QUOTA_EXCEEDED) => "a bound of this server is reached: try again later",
        (About::Connect | About::Connection, ReasonCode::USE_ANOTHER_SERVER) => "this server is about to go away",
        (About::Connection, ReasonCode::KEEP_ALIVE_TIMEOUT) => "nothing was heard for one and a half keep alives",
        (About::Connection, ReasonCode::MAXIMUM_CONNECT_TIME) => "the token that was shown has expired: show a new one",
        (About::Connection, ReasonCode::SESSION_TAKEN_OVER) => "another connection came with this client id",
        (About::Connection, ReasonCode::RECEIVE_MAXIMUM_EXCEEDED) => {
            "more publications unanswered than CONNACK allowed"
        }
        (About::Connection, ReasonCode::TOPIC_ALIAS_INVALID) => "a topic alias of 0, or above what CONNACK allowed",
        (About::Connect | About::Connection, ReasonCode::PACKET_TOO_LARGE) => {
            "the answer is larger than the client's maximum packet size"
        }
        (About::Connection, ReasonCode::QUOTA_EXCEEDED) => "more messages wait for this client than may",
        (About::Connection, ReasonCode::NOT_AUTHORIZED) => {
            "this user's rights were taken away, or the credentials replaced"
        }
        (About::Connection, ReasonCode::ADMINISTRATIVE_ACTION) => "an operator has disconnected this client",
        (About::Connection, ReasonCode::PROTOCOL_ERROR) => "a packet that cannot come here and now",
        (About::Publish, ReasonCode::NOT_AUTHORIZED) => "no right to publish on this topic",
        (About::Publish, ReasonCode::TOPIC_NAME_INVALID) => "after $delayed/ come seconds, a slash and a topic",
        (About::Publish, ReasonCode::QUOTA_EXCEEDED) => "no room to keep it, or it is too large, or its topic too deep",
        (About::Publish, ReasonCode::PACKET_IDENTIFIER_NOT_FOUND) => "nothing with this packet id is under way",
        (About::Subscribe, ReasonCode::NOT_AUTHORIZED) => "no right to subscribe to a filter",
        (About::Subscribe, ReasonCode::QUOTA_EXCEEDED) => {
            "too many subscriptions or streams, or a filter with too many levels"
        }
        (About::Subscribe, ReasonCode::TOPIC_FILTER_INVALID) => {
            "a filter that is none, or one with wildcards that may have none"
        }
        (About::Subscribe, ReasonCode::SHARED_SUBSCRIPTIONS_NOT_SUPPORTED) => {
            "what is read from a place of one's own, or from a queue, has no share groups"
        }
        (About::Subscribe, ReasonCode::UNSPECIFIED_ERROR) => {
            "after: not a place that this server gave, or one of another history"
        }
        (_, ReasonCode::IMPLEMENTATION_SPECIFIC_ERROR) => "the server cannot keep it: its journal has failed",
        _ => return None,
    })
}

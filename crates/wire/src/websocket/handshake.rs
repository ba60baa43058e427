//! The accept key and the subprotocol of the HTTP upgrade. The HTTP listener does the upgrade itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

/// The subprotocol that a client must offer and the server answers.
/// `[MQTT-6.0.0-3]`: WebSocket: the client requests the subprotocol mqtt.
/// `[MQTT-6.0.0-4]`: WebSocket: the server answers with the subprotocol mqtt.
pub const SUBPROTOCOL: &str = "mqtt";

/// RFC 6455 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The `Sec-WebSocket-Accept` for a client's `Sec-WebSocket-Key`.
pub fn accept_key(key: &str) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

/// Whether a `Sec-WebSocket-Protocol` header offers MQTT.
pub fn offers_mqtt(protocols: &str) -> bool {
    protocols.split(',').any(|protocol| protocol.trim() == SUBPROTOCOL)
}

//! MQTT over WebSocket, between the HTTP door, where a client asks for it, and the MQTT port, which serves it.
//!
//! ```text
//!   GET /mqtt, Upgrade ─▶ door: RFC 6455, origin, admission ─▶ 101 ─▶ Stream with frames ─▶ Arrival ─▶ a worker
//! ```
//!
//! The frames themselves are a layer of [`Stream`](crate::stream::Stream).

mod door;
mod settings;

pub use door::WebSocketDoor;
pub use settings::{Origins, WebSocketSettings};

//! WebSocket frames (RFC 6455) around MQTT's bytes, on a connection that is already upgraded: no sockets, no HTTP.
//!
//! ```text
//!   bytes of a socket ─▶ FrameDecoder::next ─┬─ Data(range) ──▶ MQTT's bytes, unmasked where they lie
//!                                            ├─ Ping, Close ──▶ to be answered: encode_pong, encode_close
//!                                            └─ Violation ────▶ its close code ends the connection
//!   MQTT's bytes ─▶ frame_header + the bytes ─▶ bytes of a socket
//! ```
//!
//! MQTT is a stream here too: a packet may span frames, and a frame may hold several. So no message is ever assembled:
//! data is passed on as it arrives, and an idle decoder is [`IDLE_BYTES_MAX`] bytes.
//! `[MQTT-6.0.0-2]`: WebSocket: packets need not be aligned with frames.

mod close;
mod decoder;
mod encode;
mod handshake;
#[cfg(test)]
mod tests;

pub use close::CloseCode;
pub use decoder::{ControlPayload, Event, FrameDecoder, Step, Violation};
pub use encode::{encode_client_frame, encode_close, encode_pong, frame_header};
pub use handshake::{SUBPROTOCOL, accept_key, offers_mqtt};

/// Longest payload of a frame, in bytes: the longest MQTT packet. Longer ones are refused with 1009.
pub const FRAME_BYTES_MAX: u32 = crate::mqtt::PACKET_BYTES_MAX as u32;

/// Longest payload of a control frame (RFC 6455 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// What a connection between two frames costs.
pub const IDLE_BYTES_MAX: usize = 16;

const _: () = assert!(size_of::<FrameDecoder>() <= IDLE_BYTES_MAX);

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// More of a message.
    Continuation = 0,
    /// A message of text, which MQTT never is.
    Text = 1,
    /// A message of bytes, as MQTT is.
    /// `[MQTT-6.0.0-1]`: WebSocket: binary frames only.
    Binary = 2,
    /// The last frame of each side.
    Close = 8,
    /// To be answered with its payload.
    Ping = 9,
    /// The answer.
    Pong = 10,
}

impl Opcode {
    const fn of(bits: u8) -> Option<Opcode> {
        Some(match bits {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    const fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

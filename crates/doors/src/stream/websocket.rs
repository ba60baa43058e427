//! WebSocket frames as a layer.

use std::io;

use tidegate_wire::websocket::{CloseCode, Event, FrameDecoder, Opcode, encode_close, encode_pong, frame_header};

use super::tls::Flow;

/// What a frame is worth beside its bytes, in bytes: its header is read, and a ping is answered, which takes some 120
/// ns. Without that, frames without a byte would be the cheapest way to keep a worker busy.
pub(super) const FRAME_COST: usize = 1 << 10;
/// Least bytes that a client's frame adds to what is in it: two of its header, and its mask.
const FRAME_OVERHEAD_MIN: usize = 6;

/// What frames are worth beside their bytes, of which so many were none of a packet.
pub(super) fn cost_of(overhead_bytes: usize) -> usize {
    overhead_bytes / FRAME_OVERHEAD_MIN * FRAME_COST
}

/// One client's frames.
pub(super) struct WebSocketLayer {
    decoder: FrameDecoder,
    /// Our close frame was sent: nothing may follow it (RFC 6455 5.5.1).
    closed: bool,
}

impl WebSocketLayer {
    pub fn new() -> WebSocketLayer {
        WebSocketLayer { decoder: FrameDecoder::server(), closed: false }
    }

    /// Adds the bytes of packets in `frames` to `data`, and frames that answer frames to `answers`, also with an error:
    /// its close code tells the client.
    pub fn receive(&mut self, frames: &mut [u8], data: &mut Vec<u8>, answers: &mut Vec<u8>) -> io::Result<Flow> {
        let mut rest = frames;
        while !rest.is_empty() {
            let step = match self.decoder.next(rest) {
                Ok(step) => step,
                Err(violation) => {
                    self.send_close(violation.code, violation.what, answers);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, violation));
                }
            };
            match step.event {
                Some(Event::Data(range)) => data.extend_from_slice(&rest[range]),
                Some(Event::Ping(payload)) if !self.closed => encode_pong(payload.as_slice(), answers),
                Some(Event::Ping(_) | Event::Pong) | None => {}
                Some(Event::Close(code)) => {
                    // The peer's code goes back to it (RFC 6455 5.5.1).
                    self.send_close(code, "", answers);
                    return Ok(Flow::Ended);
                }
            }
            rest = &mut rest[step.used..];
        }
        Ok(Flow::Open)
    }

    /// Adds one frame with these bytes of packets. `[MQTT-6.0.0-2]`: A receiver does not assume that packets are
    /// aligned with frames.
    pub fn wrap(&self, packets: &[u8], out: &mut Vec<u8>) {
        frame_header(packets.len(), Opcode::Binary, out);
        out.extend_from_slice(packets);
    }

    /// Adds our close frame, once.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.send_close(CloseCode::NORMAL, "", out);
    }

    fn send_close(&mut self, code: CloseCode, reason: &str, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.closed, true) {
            encode_close(code, reason, out);
        }
    }
}

//! Encodes frames. A server does not mask, a client must (RFC 6455 5.1).

use super::decoder::unmask;
use super::{CONTROL_BYTES_MAX, CloseCode, Opcode};

/// Appends the header of an unmasked frame of its own message, with the shortest form of its length. The payload
/// follows.
#[inline]
pub fn frame_header(payload_bytes: usize, opcode: Opcode, out: &mut Vec<u8>) {
    header(payload_bytes, opcode, 0, out);
}

fn header(payload_bytes: usize, opcode: Opcode, mask_bit: u8, out: &mut Vec<u8>) {
    out.push(0x80 | opcode as u8);
    match payload_bytes {
        0..126 => out.push(mask_bit | payload_bytes as u8),
        126..0x1_0000 => {
            out.push(mask_bit | 126);
            out.extend_from_slice(&(payload_bytes as u16).to_be_bytes());
        }
        _ => {
            out.push(mask_bit | 127);
            out.extend_from_slice(&(payload_bytes as u64).to_be_bytes());
        }
    }
}

/// Appends the answer to a ping.
pub fn encode_pong(payload: &[u8], out: &mut Vec<u8>) {
    frame_header(payload.len(), Opcode::Pong, out);
    out.extend_from_slice(payload);
}

/// Appends a server's close frame. A reason is cut at 123 bytes, between characters. A code that no frame may carry is
/// left out.
pub fn encode_close(code: CloseCode, reason: &str, out: &mut Vec<u8>) {
    if !code.may_be_sent() {
        frame_header(0, Opcode::Close, out);
        return;
    }
    let end = (0..=reason.len().min(CONTROL_BYTES_MAX - 2)).rfind(|&end| reason.is_char_boundary(end)).unwrap_or(0);
    let reason = &reason[..end];
    frame_header(2 + reason.len(), Opcode::Close, out);
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(reason.as_bytes());
}

/// Appends a client's whole frame, masked with `key`, which should be drawn by chance.
pub fn encode_client_frame(opcode: Opcode, mut key: [u8; 4], payload: &[u8], out: &mut Vec<u8>) {
    header(payload.len(), opcode, 0x80, out);
    out.extend_from_slice(&key);
    let start = out.len();
    out.extend_from_slice(payload);
    unmask(&mut out[start..], &mut key);
}

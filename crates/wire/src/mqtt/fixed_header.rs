//! The fixed header, two to five bytes: packet type and length. Everything that it shows is checked at once, so that a
//! packet that will be refused is neither awaited nor buffered.
//!
//! ```text
//!   ┌──────────────┬──────────────────────────────┬──────────────┐
//!   │ type │ flags │ remaining length, 1..4 bytes │ packet's body│
//!   └──────────────┴──────────────────────────────┴──────────────┘
//! ```

use crate::mqtt::{Malformed, ReasonCode, Version};

/// The largest remaining length that four bytes can say.
pub const REMAINING_LENGTH_MAX: usize = 268_435_455;

/// The longest packet there can be, fixed header included.
pub const PACKET_BYTES_MAX: usize = 1 + VARINT_BYTES_MAX + REMAINING_LENGTH_MAX;

/// Longest variable byte integer.
const VARINT_BYTES_MAX: usize = 4;

const _: () = assert!(REMAINING_LENGTH_MAX == (1 << (7 * VARINT_BYTES_MAX)) - 1);
const _: () = assert!(PACKET_BYTES_MAX < u32::MAX as usize);

/// The packet types: the upper four bits of the first byte.
pub(crate) mod kind {
    pub(crate) const CONNECT: u8 = 1;
    pub(crate) const CONNACK: u8 = 2;
    pub(crate) const PUBLISH: u8 = 3;
    pub(crate) const PUBACK: u8 = 4;
    pub(crate) const PUBREC: u8 = 5;
    pub(crate) const PUBREL: u8 = 6;
    pub(crate) const PUBCOMP: u8 = 7;
    pub(crate) const SUBSCRIBE: u8 = 8;
    pub(crate) const SUBACK: u8 = 9;
    pub(crate) const UNSUBSCRIBE: u8 = 10;
    pub(crate) const UNSUBACK: u8 = 11;
    pub(crate) const PINGREQ: u8 = 12;
    pub(crate) const PINGRESP: u8 = 13;
    pub(crate) const DISCONNECT: u8 = 14;
    pub(crate) const AUTH: u8 = 15;
}

/// What stands at the beginning of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// No whole packet yet.
    NeedMore,
    /// A packet of so many bytes, fixed header included; the next one begins behind it.
    Packet(usize),
}

/// Looks for a packet at the beginning of `buffer`; looks at five bytes at most. A packet of more than `bytes_max`
/// bytes is refused as soon as its length is there, wrong flags as soon as the first byte is.
#[inline]
pub fn split(buffer: &[u8], bytes_max: u32) -> Result<Split, Malformed> {
    let Some(&first) = buffer.first() else { return Ok(Split::NeedMore) };
    check_flags(first)?;
    let (length, width) = match buffer.get(1) {
        None => return Ok(Split::NeedMore),
        // Nearly every packet is shorter than 128 bytes.
        Some(&byte) if byte < 0x80 => (usize::from(byte), 1),
        Some(_) => match varint(&buffer[1..])? {
            Some((length, width)) => (length as usize, width),
            None => return Ok(Split::NeedMore),
        },
    };
    let packet_bytes = 1 + width + length;
    if packet_bytes > bytes_max as usize {
        return Err(Malformed::because(
            ReasonCode::PACKET_TOO_LARGE,
            "MQTT-3.2.2-15",
            "packet longer than the server takes",
        ));
    }
    if packet_bytes > buffer.len() { Ok(Split::NeedMore) } else { Ok(Split::Packet(packet_bytes)) }
}

/// Bytes of the packet at the beginning of `buffer`, if its length is there and is one. It need not be a packet that
/// [`split`] takes.
pub fn announced_bytes(buffer: &[u8]) -> Option<usize> {
    let (length, width) = varint(buffer.get(1..)?).ok()??;
    Some(1 + width + length as usize)
}

/// The flags in the lower half of the first byte: fixed for all packets but PUBLISH.
/// `[MQTT-2.1.3-1]`: reserved flags have the value that the standard lists.
#[inline]
fn check_flags(first: u8) -> Result<(), Malformed> {
    let flags = first & 0x0f;
    match first >> 4 {
        kind::PUBLISH => {
            if flags & 0b0110 == 0b0110 {
                return Err(Malformed::packet("MQTT-3.3.1-4", "PUBLISH with QoS 3"));
            }
            if flags & 0b1110 == 0b1000 {
                return Err(Malformed::packet("MQTT-3.3.1-2", "PUBLISH with DUP and QoS 0"));
            }
            Ok(())
        }
        0 => Err(Malformed::packet("MQTT5 2.1.2", "packet type 0 is reserved")),
        kind::PUBREL if flags != 2 => Err(Malformed::packet("MQTT-3.6.1-1", "PUBREL with flags other than 0010")),
        kind::SUBSCRIBE if flags != 2 => Err(Malformed::packet("MQTT-3.8.1-1", "SUBSCRIBE with flags other than 0010")),
        kind::UNSUBSCRIBE if flags != 2 => {
            Err(Malformed::packet("MQTT-3.10.1-1", "UNSUBSCRIBE with flags other than 0010"))
        }
        kind::PUBREL | kind::SUBSCRIBE | kind::UNSUBSCRIBE => Ok(()),
        kind::DISCONNECT if flags != 0 => Err(Malformed::packet("MQTT-3.14.1-1", "DISCONNECT with flags")),
        kind::AUTH if flags != 0 => Err(Malformed::packet("MQTT-3.15.1-1", "AUTH with flags")),
        _ if flags != 0 => Err(Malformed::packet("MQTT-2.1.3-1", "reserved flags are set")),
        _ => Ok(()),
    }
}

/// A whole packet's first byte and its body. `packet` should be what [`split`] found; bytes too many or too few are
/// refused.
#[inline]
pub(crate) fn open(packet: &[u8], version: Option<Version>) -> Result<(u8, &[u8]), Malformed> {
    const NOT_WHOLE: Malformed = Malformed::packet("MQTT5 2.1.4", "the remaining length is not that of the packet");
    let Some(&first) = packet.first() else { return Err(NOT_WHOLE) };
    check_flags(first)?;
    let Some((length, width)) = varint(&packet[1..])? else { return Err(NOT_WHOLE) };
    // MQTT 3.1.1 does not say so, and small devices of its time do pad.
    if version == Some(Version::V5) && width != varint_width(length) {
        return Err(Malformed::packet("MQTT-1.5.5-1", "remaining length in more bytes than it needs"));
    }
    let body = &packet[1 + width..];
    if body.len() != length as usize { Err(NOT_WHOLE) } else { Ok((first, body)) }
}

/// A variable byte integer at the beginning of `bytes`, with its width; `None` when it is not whole.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Result<Option<(u32, usize)>, Malformed> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() >= VARINT_BYTES_MAX {
        return Err(Malformed::packet("MQTT5 1.5.5", "variable byte integer of more than four bytes"));
    }
    Ok(None)
}

/// How many bytes `value` takes.
#[inline]
pub(crate) const fn varint_width(value: u32) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => 4,
    }
}

/// Appends `value` in the fewest bytes.
/// `[MQTT-1.5.5-1]`: a variable byte integer uses the fewest bytes that can hold its value.
///
/// # Panics
/// When four bytes cannot say it.
#[inline]
pub(crate) fn push_varint(out: &mut Vec<u8>, value: usize) {
    assert!(value <= REMAINING_LENGTH_MAX, "{value} is more than a variable byte integer can say");
    let mut rest = value as u32;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

//! Reads frames from a socket's bytes, however these are split, and unmasks payloads in place.
//!
//! ```text
//!   ┌─────────────────┬──────────┬─────────────────────┬──────────────┬─────────┐
//!   │ FIN RSV opcode  │ MASK len │ longer len, 0 2 8   │ key, 0 or 4  │ payload │
//!   └─────────────────┴──────────┴─────────────────────┴──────────────┴─────────┘
//! ```
//!
//! The state of an incomplete frame is in a box that is freed with the frame: between frames there are only three
//! flags. Why: of a million connections few are inside a frame at any time.

use super::{CONTROL_BYTES_MAX, CloseCode, FRAME_BYTES_MAX, Opcode};
use std::ops::Range;

/// The longest header: two bytes, eight of length, four of key.
const HEADER_BYTES_MAX: usize = 14;

/// Decodes what one side sends.
#[derive(Debug)]
pub struct FrameDecoder {
    /// The incomplete frame; none when the next byte begins a frame.
    partial: Option<Box<Partial>>,
    /// Whether the peer is a client, who must mask.
    from_client: bool,
    /// Whether a message has begun and its last frame has not.
    in_message: bool,
    /// Whether a close frame came: nothing counts after it.
    closed: bool,
}

/// A frame that has not ended yet.
#[derive(Debug)]
enum Partial {
    /// Its header has not either.
    Header { bytes: [u8; HEADER_BYTES_MAX], len: u8 },
    /// Its payload has not: so much of it is to come.
    Data { key: [u8; 4], left: u32 },
    /// The same for a control frame, whose payload is collected.
    Control { opcode: Opcode, key: [u8; 4], left: u8, payload: ControlPayload },
}

/// What the peer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes of MQTT: this range of the buffer that was given, unmasked.
    Data(Range<usize>),
    /// To be answered with a pong of the same payload.
    Ping(ControlPayload),
    /// Proof of life.
    Pong,
    /// The peer closes, with a code that was checked; [`CloseCode::NONE_GIVEN`] without one. To be answered with a
    /// close frame, if none was sent; nothing follows.
    Close(CloseCode),
}

/// What one call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// So many bytes of the buffer are done with; never zero unless the buffer was empty.
    pub used: usize,
    /// What was in them, if there was anything to tell.
    pub event: Option<Event>,
}

/// How the peer broke the protocol. Ends the connection with [`Violation::code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} ({section})")]
pub struct Violation {
    /// For the close frame.
    pub code: CloseCode,
    /// Where it is said: `RFC 6455 5.1`, or `MQTT-6.0.0-1`.
    pub section: &'static str,
    /// What is wrong.
    pub what: &'static str,
}

/// The payload of a control frame.
#[derive(Clone, Copy)]
pub struct ControlPayload {
    len: u8,
    bytes: [u8; CONTROL_BYTES_MAX],
}

impl ControlPayload {
    const EMPTY: ControlPayload = ControlPayload { len: 0, bytes: [0; CONTROL_BYTES_MAX] };

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The frame's length was checked, so there is room.
    fn push(&mut self, bytes: &[u8]) {
        let start = usize::from(self.len);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }
}

impl std::fmt::Debug for ControlPayload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("ControlPayload").field(&self.as_slice()).finish()
    }
}

impl PartialEq for ControlPayload {
    fn eq(&self, other: &ControlPayload) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for ControlPayload {}

/// A whole header.
#[derive(Clone, Copy, Debug)]
struct Header {
    fin: bool,
    opcode: Opcode,
    key: [u8; 4],
    payload_bytes: u32,
    /// Of the header itself.
    width: usize,
}

impl FrameDecoder {
    /// For a server: the peer is a client and masks.
    pub const fn server() -> FrameDecoder {
        FrameDecoder { partial: None, from_client: true, in_message: false, closed: false }
    }

    /// For a client: the peer is a server and must not mask.
    pub const fn client() -> FrameDecoder {
        FrameDecoder { partial: None, from_client: false, in_message: false, closed: false }
    }

    /// Whether it is inside a frame or a message, so that an end of the stream now cuts one off.
    pub const fn is_idle(&self) -> bool {
        self.partial.is_none() && !self.in_message
    }

    /// Takes bytes from the front of `buffer` until there is something to tell or none are left. Call it again with
    /// what is behind `used`, until that is nothing; the next call continues with what the socket gives next. After a
    /// [`Violation`] the connection is done.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<Step, Violation> {
        let mut used = 0;
        while used < buffer.len() {
            if self.closed {
                // Whatever comes after a close frame is ignored (RFC 6455 1.4).
                used = buffer.len();
                break;
            }
            let (taken, event) = self.advance(&mut buffer[used..])?;
            let start = used;
            used += taken;
            if let Some(event) = event {
                let event = match event {
                    Event::Data(range) => Event::Data(range.start + start..range.end + start),
                    other => other,
                };
                return Ok(Step { used, event: Some(event) });
            }
        }
        Ok(Step { used, event: None })
    }

    /// One header, or one piece of payload. `bytes` is not empty, and at least one of them is taken.
    fn advance(&mut self, bytes: &mut [u8]) -> Result<(usize, Option<Event>), Violation> {
        match self.partial.as_deref_mut() {
            None => self.begin(bytes),
            Some(Partial::Header { bytes: header, len }) => {
                // One byte after the other: a header is cut once in thousands.
                header[usize::from(*len)] = bytes[0];
                *len += 1;
                let header = &header[..usize::from(*len)];
                if let Some(header) = read_header(header, self.from_client, self.in_message)? {
                    self.partial = None;
                    return Ok((1, self.payload(header, &mut [])?.1));
                }
                Ok((1, None))
            }
            Some(Partial::Data { key, left }) => {
                let taken = bytes.len().min(*left as usize);
                unmask(&mut bytes[..taken], key);
                *left -= taken as u32;
                if *left == 0 {
                    self.partial = None;
                }
                Ok((taken, Some(Event::Data(0..taken))))
            }
            Some(Partial::Control { opcode, key, left, payload }) => {
                let taken = bytes.len().min(usize::from(*left));
                unmask(&mut bytes[..taken], key);
                payload.push(&bytes[..taken]);
                *left -= taken as u8;
                if *left > 0 {
                    return Ok((taken, None));
                }
                let (opcode, payload) = (*opcode, *payload);
                self.partial = None;
                self.control(opcode, payload).map(|event| (taken, Some(event)))
            }
        }
    }

    /// At the beginning of a frame.
    fn begin(&mut self, bytes: &mut [u8]) -> Result<(usize, Option<Event>), Violation> {
        let Some(header) = read_header(bytes, self.from_client, self.in_message)? else {
            let mut partial = [0; HEADER_BYTES_MAX];
            partial[..bytes.len()].copy_from_slice(bytes);
            self.partial = Some(Box::new(Partial::Header { bytes: partial, len: bytes.len() as u8 }));
            return Ok((bytes.len(), None));
        };
        let (taken, event) = self.payload(header, &mut bytes[header.width..])?;
        let event = match event {
            Some(Event::Data(range)) => Some(Event::Data(range.start + header.width..range.end + header.width)),
            other => other,
        };
        Ok((header.width + taken, event))
    }

    /// Behind a header: as much of the payload as there is.
    fn payload(&mut self, header: Header, bytes: &mut [u8]) -> Result<(usize, Option<Event>), Violation> {
        let Header { opcode, mut key, payload_bytes, .. } = header;
        let taken = bytes.len().min(payload_bytes as usize);
        let left = payload_bytes - taken as u32;
        unmask(&mut bytes[..taken], &mut key);
        if opcode.is_control() {
            let mut payload = ControlPayload::EMPTY;
            payload.push(&bytes[..taken]);
            if left == 0 {
                return self.control(opcode, payload).map(|event| (taken, Some(event)));
            }
            self.partial = Some(Box::new(Partial::Control { opcode, key, left: left as u8, payload }));
            return Ok((taken, None));
        }
        self.in_message = !header.fin;
        if left > 0 {
            self.partial = Some(Box::new(Partial::Data { key, left }));
        }
        Ok((taken, (taken > 0).then_some(Event::Data(0..taken))))
    }

    /// A whole control frame.
    fn control(&mut self, opcode: Opcode, payload: ControlPayload) -> Result<Event, Violation> {
        Ok(match opcode {
            Opcode::Ping => Event::Ping(payload),
            Opcode::Pong => Event::Pong,
            _ => {
                self.closed = true;
                Event::Close(close_code(payload.as_slice())?)
            }
        })
    }
}

/// The code of a close frame's payload.
fn close_code(payload: &[u8]) -> Result<CloseCode, Violation> {
    let Some((code, reason)) = payload.split_first_chunk::<2>() else {
        // RFC 6455 5.5.1: no code, or one in two bytes.
        return if payload.is_empty() {
            Ok(CloseCode::NONE_GIVEN)
        } else {
            Err(violation("RFC 6455 5.5.1", "a close frame with half a code"))
        };
    };
    let code = CloseCode(u16::from_be_bytes(*code));
    if !code.may_be_sent() {
        return Err(violation("RFC 6455 7.4", "a close code that no frame may carry"));
    }
    if std::str::from_utf8(reason).is_err() {
        return Err(Violation {
            code: CloseCode::INVALID_PAYLOAD,
            section: "RFC 6455 5.5.1",
            what: "a close reason that is not UTF-8",
        });
    }
    Ok(code)
}

/// Reads and checks a header; `None` when it is not whole. What the first bytes show is refused before the others are
/// there.
fn read_header(bytes: &[u8], from_client: bool, in_message: bool) -> Result<Option<Header>, Violation> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    let fin = first & 0x80 != 0;
    if first & 0x70 != 0 {
        return Err(violation("RFC 6455 5.2", "a reserved bit without an extension"));
    }
    let Some(opcode) = Opcode::of(first & 0x0f) else {
        return Err(violation("RFC 6455 5.2", "a reserved opcode"));
    };
    match opcode {
        Opcode::Text => {
            return Err(Violation {
                code: CloseCode::UNSUPPORTED_DATA,
                section: "MQTT-6.0.0-1",
                what: "text, but MQTT is carried in binary frames",
            });
        }
        Opcode::Binary if in_message => {
            return Err(violation("RFC 6455 5.4", "a new message inside a fragmented one"));
        }
        Opcode::Continuation if !in_message => {
            return Err(violation("RFC 6455 5.4", "a continuation of no message"));
        }
        _ if opcode.is_control() && !fin => {
            return Err(violation("RFC 6455 5.5", "a fragmented control frame"));
        }
        _ => {}
    }
    let Some(&second) = bytes.get(1) else { return Ok(None) };
    let is_masked = second & 0x80 != 0;
    match (from_client, is_masked) {
        (true, false) => return Err(violation("RFC 6455 5.1", "an unmasked frame from a client")),
        (false, true) => return Err(violation("RFC 6455 5.1", "a masked frame from a server")),
        _ => {}
    }
    let short = second & 0x7f;
    if opcode.is_control() && usize::from(short) > CONTROL_BYTES_MAX {
        return Err(violation("RFC 6455 5.5", "a control frame of more than 125 bytes"));
    }
    let (payload_bytes, mut width) = match short {
        126 => {
            let Some(length) = bytes.get(2..4) else { return Ok(None) };
            (u64::from(u16::from_be_bytes([length[0], length[1]])), 4)
        }
        127 => {
            let Some(length) = bytes.get(2..10) else { return Ok(None) };
            (u64::from_be_bytes(length.try_into().expect("eight bytes")), 10)
        }
        short => (u64::from(short), 2),
    };
    let shortest = match payload_bytes {
        0..126 => 2,
        126..0x1_0000 => 4,
        _ => 10,
    };
    if width != shortest {
        return Err(violation("RFC 6455 5.2", "a length in more bytes than it needs"));
    }
    if payload_bytes >> 63 != 0 {
        return Err(violation("RFC 6455 5.2", "a length of more than 63 bits"));
    }
    if payload_bytes > u64::from(FRAME_BYTES_MAX) {
        return Err(Violation {
            code: CloseCode::TOO_BIG,
            section: "RFC 6455 7.4.1",
            what: "a frame longer than any MQTT packet",
        });
    }
    let mut key = [0; 4];
    if is_masked {
        let Some(bytes) = bytes.get(width..width + 4) else { return Ok(None) };
        key.copy_from_slice(bytes);
        width += 4;
    }
    Ok(Some(Header { fin, opcode, key, payload_bytes: payload_bytes as u32, width }))
}

#[cold]
const fn violation(section: &'static str, what: &'static str) -> Violation {
    Violation { code: CloseCode::PROTOCOL_ERROR, section, what }
}

/// Masks or unmasks `bytes`, and turns the key to the byte behind them.
pub(super) fn unmask(bytes: &mut [u8], key: &mut [u8; 4]) {
    if *key == [0; 4] {
        return;
    }
    let wide = u64::from_ne_bytes([key[0], key[1], key[2], key[3], key[0], key[1], key[2], key[3]]);
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let word = u64::from_ne_bytes(chunk[..].try_into().expect("eight bytes")) ^ wide;
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
    for (byte, key) in chunks.into_remainder().iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
    key.rotate_left(bytes.len() % 4);
}

//! The open variant: what a room that this schema does not know asks and answers, as bytes of its own.
//!
//! The body is read where it lies and written straight behind the head of its frame.

use crate::error::DecodeError;
use crate::field::for_each;
use crate::frame::OpenFrame;
use crate::varint;

/// Field number of the variant in both kinds of frame: the last whose tag has one byte.
pub(crate) const ROOM: u32 = 15;

/// A request to a room, or its reply; the body is borrowed from the frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomRef<'a> {
    /// Which room.
    pub family: u32,
    /// What only the room understands.
    pub body: &'a [u8],
}

impl<'a> RoomRef<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Result<RoomRef<'a>, DecodeError> {
        let mut room = RoomRef::default();
        for_each(message, |number, value| {
            match number {
                1 => room.family = value.varint()? as u32,
                2 => room.body = value.bytes()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(room)
    }
}

/// Appends a frame to or from a room: requests and replies have the same bytes. The server reads frames of up to
/// [`crate::limits::FRAME_BYTES_MAX`].
pub fn encode_room(out: &mut Vec<u8>, correlation: u64, room: RoomRef<'_>) {
    let RoomRef { family, body } = room;
    let frame = OpenFrame::open(out, correlation, ROOM as u8);
    if family != 0 {
        out.push(0x08);
        varint::write(out, u64::from(family));
    }
    if !body.is_empty() {
        out.push(0x12);
        varint::write(out, body.len() as u64);
        out.extend_from_slice(body);
    }
    frame.close(out);
}

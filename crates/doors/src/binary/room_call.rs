//! Requests for rooms that `tidegate.proto` does not describe: the number of the room's family, and bytes.

use bytes::Bytes;
use tidegate_wire::RoomRef;

use super::Refused;

/// A request for a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomCall {
    /// Which room.
    pub family: u32,
    /// What only the room understands: a part of the frame it came in, not a copy.
    pub body: Bytes,
}

impl RoomCall {
    /// Takes the request out of `frame`, which it was read from.
    pub fn of(room: RoomRef<'_>, frame: &Bytes) -> RoomCall {
        RoomCall { family: room.family, body: frame.slice_ref(room.body) }
    }

    /// What to say when no room has this family.
    pub fn unknown(&self) -> Refused {
        Refused::new("room_unknown", format!("this server has no room of family {}", self.family))
    }
}

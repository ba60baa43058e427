//! Frames of rooms that `tidegate.proto` does not describe. Each room decodes its own requests and encodes its own
//! replies.
//!
//! ```text
//!   RoomFrame { family, body } ─▶ FrameRoom::request ─▶ Client ─▶ shards
//!   RoomFrame { family, body } ◀─ FrameRoom::reply   ◀─ Client ◀─┘
//! ```

use bytes::Bytes;
use slab::Slab;
use tidegate_runtime::{Address, Asker, Carries, Client, Context, Site};

use super::Refused;
use crate::auth::Identity;

/// Families below this belong to Tidegate.
pub const FAMILY_MIN: u32 = 1_024;
/// Of those, that of queues.
pub const QUEUE_FAMILY: u32 = 4;

/// What a room says on the binary port.
pub trait FrameRoom: Send + 'static {
    /// How it asks its shards.
    type Client: Client;

    /// The number by which frames name it: [`FAMILY_MIN`] or more, and no other room's.
    fn family(&self) -> u32;

    /// Reads a request of `identity`, and checks whether they may make it. Takes any bytes.
    fn request(&self, identity: &Identity, body: &[u8]) -> Result<<Self::Client as Client>::Request, Refused>;

    /// Writes a reply.
    fn reply(&self, reply: <Self::Client as Client>::Reply) -> Result<Vec<u8>, Refused>;
}

/// Brings a room to the binary port at an address.
pub type OpenFrames<P> = Box<dyn Fn(&Site<P>, Address) -> Box<dyn Frames<P>> + Send>;

/// One room's frames on the binary port of one worker.
pub trait Frames<P>: Send {
    /// The room's number.
    fn family(&self) -> u32;

    /// Whether another request may start.
    fn has_room(&self) -> bool;

    /// Starts a request, whose answer comes with `token`; or says why not.
    fn ask(&mut self, token: u64, identity: &Identity, body: &Bytes) -> Result<(), Refused>;

    /// Takes a parcel; gives one of another room back.
    fn deliver(&mut self, from: Address, body: P) -> Result<(), P>;

    /// The answers that have come.
    fn take_answers(&mut self) -> Vec<(u64, Result<Vec<u8>, Refused>)>;

    /// Sends what the room asks its shards.
    fn send(&mut self, context: &mut Context<'_, P>);
}

/// A room's frames, over its client.
pub struct ClientFrames<R: FrameRoom> {
    room: R,
    asker: Asker<R::Client>,
    /// The port's token of each request.
    asked: Slab<u64>,
}

impl<R: FrameRoom> ClientFrames<R> {
    /// For the port at `me`, which asks by `client`.
    pub fn new(room: R, me: Address, client: R::Client) -> ClientFrames<R> {
        let is_own = room.family() == QUEUE_FAMILY;
        assert!(is_own || room.family() >= FAMILY_MIN, "families below {FAMILY_MIN} belong to Tidegate");
        ClientFrames { room, asker: Asker::new(me, client), asked: Slab::new() }
    }
}

impl<P, R> Frames<P> for ClientFrames<R>
where
    R: FrameRoom,
    P: Carries<<R::Client as Client>::Message>,
{
    fn family(&self) -> u32 {
        self.room.family()
    }

    fn has_room(&self) -> bool {
        self.asker.has_room()
    }

    fn ask(&mut self, token: u64, identity: &Identity, body: &Bytes) -> Result<(), Refused> {
        let request = self.room.request(identity, body)?;
        let asked = self.asked.insert(token);
        self.asker.start(asked as u64, request);
        Ok(())
    }

    fn deliver(&mut self, from: Address, body: P) -> Result<(), P> {
        self.asker.deliver(from, body.unpack()?);
        Ok(())
    }

    fn take_answers(&mut self) -> Vec<(u64, Result<Vec<u8>, Refused>)> {
        let replies = self.asker.take_replies().into_iter();
        // A frame has one reply. A stream needs a protocol in which the client can ask for more, and this one has no
        // such frame.
        replies.map(|(asked, reply)| (self.asked.remove(asked as usize), self.room.reply(reply))).collect()
    }

    fn send(&mut self, context: &mut Context<'_, P>) {
        self.asker.send(context);
    }
}

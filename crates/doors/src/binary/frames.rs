//! Frames of rooms that `tidegate.proto` does not describe. Each room decodes its own requests and encodes its own
//! replies.
//!
//! ```text
//!   RoomFrame { family, body } ─▶ FrameRoom::request ─▶ Client ─▶ shards
//!   RoomFrame { family, body } ◀─ FrameRoom::reply   ◀─ Client ◀─┘
//! ```

use std::collections::HashSet;

use bytes::Bytes;
use slab::Slab;
use tidegate_machines::TimeMs;
use tidegate_runtime::{Address, Asker, Carries, Client, Context, Replies, Site};

use super::Refused;
use crate::auth::Identity;

/// Families below this belong to Tidegate.
pub const FAMILY_MIN: u32 = 1_024;
/// Of those, that of queues.
pub const QUEUE_FAMILY: u32 = 4;
/// And that of the pacer.
pub const PACER_FAMILY: u32 = tidegate_wire::pacer::FAMILY;

/// What a room says on the binary port.
pub trait FrameRoom: Send + 'static {
    /// How it asks its shards.
    type Client: Client;

    /// The number by which frames name it: [`FAMILY_MIN`] or more, and no other room's.
    fn family(&self) -> u32;

    /// Reads a request of `identity`, and checks whether they may make it. Takes any bytes.
    fn request(&self, identity: &Identity, body: &[u8]) -> Result<<Self::Client as Client>::Request, Refused>;

    /// What a request takes beyond what its frame does.
    fn cost(_request: &<Self::Client as Client>::Request) -> RoomCost {
        RoomCost::default()
    }

    /// What becomes of a request that may wait, if its client ends meanwhile; `None` for one that is served all the
    /// same.
    fn waits(_request: &<Self::Client as Client>::Request) -> Option<Waits<Self::Client>> {
        None
    }

    /// Writes a reply.
    fn reply(&self, reply: <Self::Client as Client>::Reply) -> Result<Vec<u8>, Refused>;
}

/// Bytes of JSON, or of messages that are taken apart, that are as much work to decode as a frame.
pub const BYTES_PER_WORK_OF_DECODING: usize = 64;

/// What a request takes beyond what a frame of its length does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomCost {
    /// Memory while it is under way, about, in bytes.
    pub bytes: usize,
    /// Work of the port to decode it and to answer it, as that of turns is counted (`turns/limits.rs`).
    pub work: usize,
}

/// Which request gives back what a reply has; `None` if it has nothing.
pub type GiveBack<C> = Box<dyn Fn(&<C as Client>::Reply) -> Option<<C as Client>::Request> + Send>;

/// Whether a client may still have what it has waited for, as the configuration is now; or why not.
pub type MayStill = Box<dyn Fn(&Identity) -> Result<(), Refused> + Send>;

/// A request that is given up when its client ends.
pub struct Waits<C: Client> {
    /// What it is answered with then: a client that has only closed its own side reads it.
    pub answer: Vec<u8>,
    /// A reload may have taken the right away meanwhile.
    pub may_still: MayStill,
    /// What is asked so that nothing is lost of a reply that came in that moment.
    pub give_back: GiveBack<C>,
}

/// Brings a room to the binary port at an address.
pub type OpenFrames<P> = Box<dyn Fn(&Site<P>, Address) -> Box<dyn Frames<P>> + Send>;

/// One room's frames on the binary port of one worker.
pub trait Frames<P>: Send {
    /// The room's number.
    fn family(&self) -> u32;

    /// A turn begins, and it is so late.
    fn begin_turn(&mut self, _now: TimeMs) {}

    /// Whether nobody else is needed to answer a request: it is answered by [`Frames::answer`], and never asked.
    fn answers(&self, _body: &[u8]) -> bool {
        false
    }

    /// Answers a request of those: the whole frame is appended to `outbox`, and its cost returned; or says why not, and
    /// appends nothing.
    fn answer(
        &mut self,
        _correlation: u64,
        _identity: &Identity,
        _body: &[u8],
        _outbox: &mut Vec<u8>,
    ) -> Result<RoomCost, Refused> {
        unreachable!("a room that answers says so")
    }

    /// Whether another request may start.
    fn has_room(&self) -> bool;

    /// Starts a request, whose answer comes with `token`, and returns what it costs; or says why not.
    fn ask(&mut self, token: u64, identity: &Identity, body: &Bytes) -> Result<RoomCost, Refused>;

    /// Takes a parcel; gives one of another room back.
    fn deliver(&mut self, from: Address, body: P) -> Result<(), P>;

    /// The clients of these requests have ended: those that may wait are answered now, and nothing comes of them.
    fn give_up(&mut self, is_of_ended: &dyn Fn(u64) -> bool);

    /// The answers that have come. `client_of` says who has made a request; `None` if they have ended unnoticed so far.
    fn take_answers(&mut self, client_of: &mut dyn FnMut(u64) -> Option<Identity>) -> Answers;

    /// Sends what the room asks its shards.
    fn send(&mut self, context: &mut Context<'_, P>);
}

/// Answers to requests, by their tokens.
pub type Answers = Vec<(u64, Result<Vec<u8>, Refused>)>;

/// A request under way.
struct Asked<C: Client> {
    /// The port's token; `None` for what nobody waits for.
    token: Option<u64>,
    waits: Option<Waits<C>>,
}

/// A room's frames, over its client.
pub struct ClientFrames<R: FrameRoom> {
    room: R,
    asker: Asker<R::Client>,
    asked: Slab<Asked<R::Client>>,
    /// Replies that were not looked at yet.
    replies: Replies<<R::Client as Client>::Reply>,
    /// Answers to requests that were given up.
    given_up: Answers,
}

impl<R: FrameRoom> ClientFrames<R> {
    /// For the port at `me`, which asks by `client`.
    pub fn new(room: R, me: Address, client: R::Client) -> ClientFrames<R> {
        let is_own = room.family() == QUEUE_FAMILY;
        assert!(is_own || room.family() >= FAMILY_MIN, "families below {FAMILY_MIN} belong to Tidegate");
        ClientFrames {
            room,
            asker: Asker::new(me, client),
            asked: Slab::new(),
            replies: Vec::new(),
            given_up: Vec::new(),
        }
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

    fn ask(&mut self, token: u64, identity: &Identity, body: &Bytes) -> Result<RoomCost, Refused> {
        let request = self.room.request(identity, body)?;
        let cost = R::cost(&request);
        let asked = self.asked.insert(Asked { token: Some(token), waits: R::waits(&request) });
        self.asker.start(asked as u64, request);
        Ok(cost)
    }

    fn deliver(&mut self, from: Address, body: P) -> Result<(), P> {
        self.asker.deliver(from, body.unpack()?);
        Ok(())
    }

    fn give_up(&mut self, is_of_ended: &dyn Fn(u64) -> bool) {
        // One whose reply is here already is looked at with its reply.
        self.replies.append(&mut self.asker.take_replies());
        let replied: HashSet<u64> = self.replies.iter().map(|(asked, _)| *asked).collect();
        let is_given_up = |(number, asked): &(usize, &Asked<R::Client>)| {
            asked.waits.is_some() && asked.token.is_some_and(is_of_ended) && !replied.contains(&(*number as u64))
        };
        let given_up: Vec<usize> = self.asked.iter().filter(is_given_up).map(|(number, _)| number).collect();
        for number in given_up {
            self.asker.cancel(number as u64);
            let Asked { token, waits } = self.asked.remove(number);
            self.given_up.extend(token.zip(waits).map(|(token, waits)| (token, Ok(waits.answer))));
        }
    }

    fn take_answers(&mut self, client_of: &mut dyn FnMut(u64) -> Option<Identity>) -> Answers {
        let mut answers = std::mem::take(&mut self.given_up);
        let mut replies = std::mem::take(&mut self.replies);
        replies.append(&mut self.asker.take_replies());
        // A frame has one reply. A stream needs a protocol in which the client can ask for more, and this one has no
        // such frame.
        for (number, reply) in replies {
            let Asked { token: Some(token), waits } = self.asked.remove(number as usize) else { continue };
            let Some(waits) = waits else {
                answers.push((token, self.room.reply(reply)));
                continue;
            };
            let answer = match client_of(token).map(|client| (waits.may_still)(&client)) {
                Some(Ok(())) => {
                    answers.push((token, self.room.reply(reply)));
                    continue;
                }
                Some(Err(refused)) => Err(refused),
                None => Ok(waits.answer),
            };
            if let Some(request) = (waits.give_back)(&reply) {
                let number = self.asked.insert(Asked { token: None, waits: None });
                self.asker.start(number as u64, request);
            }
            answers.push((token, answer));
        }
        answers
    }

    fn send(&mut self, context: &mut Context<'_, P>) {
        self.asker.send(context);
    }
}

//! Reads frames, and asks what they ask.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use bytes::Bytes;
use tidegate_ledger::message::Request;
use tidegate_machines::IdSpace;
use tidegate_machines::ledger::Refusal;
use tidegate_wire::limits::TRANSFERS_MAX;
use tidegate_wire::proto::{self, reply_frame::Body};
use tidegate_wire::{BadFrame, BodyRef, RequestRef, decode_request, encode_reply};

use super::super::frames::{BYTES_PER_WORK_OF_DECODING, RoomCost};
use super::super::limits::{IN_FLIGHT_MAX, REFUSED_BYTES_PER_REQUEST, REPLY_BYTES};
use super::super::metrics::kind_of;
use super::super::room_call::RoomCall;
use super::super::session::{InPlace, Life};
use super::super::weight::{reply_bytes, work_of_rows};
use super::super::{Refused, translate, weight};
use super::{BinaryPort, Purpose};
use crate::auth::Identity;
use crate::auth::quota::Exceeded;
use crate::handshakes::{tell_failed, tell_missing_header, tell_untrusted_proxy};
use crate::held_bytes::NoRoom;
use crate::json::{Problem, codes};
use crate::listing::Listing;
use crate::security::SecurityEvent;
use crate::turns::limits::{WORK_IN_TURN_MAX, WORK_OF_VISIT};
use crate::turns::{self, CallerName, Weight};

/// Why a room that answers itself did not.
enum NotAnswered {
    /// Its client has asked too much.
    TooMany(Exceeded),
    /// For this.
    Refused(Refused),
}

/// How a look at a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// There may be more, and it may be served at once.
    More,
    /// There may be more, for which something else must end first.
    Blocked,
}

impl<P> BinaryPort<P> {
    /// Reads and decodes from all sessions that may, a turn's worth. Returns whether anything was read.
    pub(super) fn serve_sessions(&mut self) -> bool {
        let (mut worked, mut blocked) = (false, Vec::new());
        self.turns.begin(WORK_IN_TURN_MAX);
        while self.asker.has_room()
            && let Some((caller, key, may)) = self.turns.take_next()
        {
            let (work, left) = self.serve_session(key, may);
            worked |= work > 0;
            self.turns.served(caller, work);
            match left {
                Left::More if work > 0 => self.line_up(key),
                // Nothing came of it: not again in this turn, whatever the reason.
                Left::More | Left::Blocked => blocked.push(key),
            }
        }
        // Looked at again in the next turn: replies may have made room.
        blocked.into_iter().for_each(|key| self.line_up(key));
        worked
    }

    /// Reads from one session, and serves its frames, for about so much work. Returns how much it was.
    fn serve_session(&mut self, key: usize, may: isize) -> (isize, Left) {
        let session = &mut self.sessions[key];
        session.listed = false;
        let (mut read, mut cost) = (0, 0);
        if session.may_read() && !session.backlog {
            let (was_unsaid, was_handshaking) = (session.is_unsaid(), session.is_handshaking());
            match session.read(&mut self.scratch, &mut cost) {
                Ok(bytes) => read = bytes,
                Err(error) => {
                    let address = session.address();
                    if session.is_unsaid() {
                        self.metrics.connections_refused.increment("proxy");
                        address.inspect(|balancer| tell_missing_header(&error, "binary", *balancer));
                    }
                    address.inspect(|address| tell_failed(&error, "binary", *address));
                    self.drain(key);
                }
            }
            let session = &mut self.sessions[key];
            if session.has_sent_proxy_header() {
                if let Some(address) = session.address() {
                    tell_untrusted_proxy("binary", address);
                }
                self.metrics.connections_refused.increment("proxy");
                self.drain(key);
            }
            self.metrics.received_bytes.add(read as u64);
            if was_unsaid && !self.sessions[key].is_unsaid() {
                self.meet(key);
            }
            if was_handshaking && !self.sessions[key].is_handshaking() {
                self.leave_handshakes(key);
            }
        }
        let (served, left) = self.serve_frames(key, may - WORK_OF_VISIT - turns::work_of_bytes(cost));
        if let Err(no_room) = self.sessions[key].count_ahead(&mut self.ahead) {
            self.turn_away(key, 0, no_room.into());
            let given_back = self.sessions[key].count_ahead(&mut self.ahead);
            assert!(given_back.is_ok(), "what is given back always finds room");
        }
        if self.sessions[key].has_said_all() {
            self.drain(key);
        }
        if self.sessions[key].is_over() {
            self.write_later(key);
        }
        let work = served + turns::work_of_bytes(cost);
        let visit = if cost > 0 || served > 0 { WORK_OF_VISIT } else { 0 };
        (work + visit, left)
    }

    /// Serves frames that were read, at least one and for about so much work. Returns how much it was.
    fn serve_frames(&mut self, key: usize, may: isize) -> (isize, Left) {
        let (mut work, now_ms) = (0, self.now_ms);
        let left = loop {
            if work > 0 && work >= may {
                break Left::More;
            }
            // Behind what has ended the connection nothing is looked at.
            if !self.sessions[key].is_heard() {
                return (work, Left::More);
            }
            let is_open = self.asker.has_room() && self.turns.may_begin(self.sessions[key].caller);
            if !is_open || !self.sessions[key].may_ask() {
                break Left::Blocked;
            }
            let at_once = self.serve_at_once(key, may - work);
            if at_once > 0 {
                work += at_once;
                continue;
            }
            match self.sessions[key].next_frame(now_ms) {
                Ok(Some(frame)) => work += 1 + turns::work_of_bytes(frame.len()) + self.serve_frame(key, frame),
                Ok(None) => {
                    self.sessions[key].backlog = false;
                    return (work, Left::More);
                }
                Err(error) => {
                    self.turn_away(key, 0, Refused::new(error.code(), error.to_string()));
                    return (work + 1, Left::More);
                }
            }
        };
        // Whole frames may be left in the buffer. They are served in the caller's next round, or when replies have
        // made room, or when the pause is over.
        let session = &mut self.sessions[key];
        session.readable |= session.is_heard();
        if !std::mem::replace(&mut session.backlog, true) && left == Left::Blocked {
            self.metrics.reads_paused.add(1);
        }
        (work, left)
    }

    /// Serves the frames that rooms answer themselves, up to the first that they do not, for about so much work.
    /// Returns how much it was.
    ///
    /// Why not as any frame: of a packet of bids, handing its bytes to an owner took longer than bidding.
    fn serve_at_once(&mut self, key: usize, may: isize) -> isize {
        let (mut work, mut frames, mut ended) = (0, 0, None);
        let rooms = &mut self.rooms;
        self.sessions[key].serve_in_place(|identity, frame, outbox| {
            let Ok(RequestRef { correlation, body: BodyRef::Room(call) }) = decode_request(frame) else {
                return InPlace::Left;
            };
            let room = rooms.iter_mut().find(|room| room.family() == call.family);
            let Some(room) = room.filter(|room| room.answers(call.body)) else { return InPlace::Left };
            (work, frames) = (work + 1 + turns::work_of_bytes(frame.len()), frames + 1);
            let answered = match identity.arrive() {
                Ok(()) => room.answer(correlation, identity, call.body, outbox).map_err(NotAnswered::Refused),
                Err(exceeded) => Err(NotAnswered::TooMany(exceeded)),
            };
            match answered {
                Ok(cost) => work += cost.work as isize,
                Err(why) => ended = Some((correlation, why)),
            }
            if ended.is_some() || work >= may { InPlace::Last } else { InPlace::Taken }
        });
        if frames > 0 {
            self.metrics.requests.add("room", frames);
            self.write_later(key);
        }
        match ended {
            Some((correlation, NotAnswered::TooMany(exceeded))) => self.refuse_too_many(key, correlation, exceeded),
            Some((correlation, NotAnswered::Refused(refused))) => self.refuse(key, correlation, refused),
            None => {}
        }
        work
    }

    /// Serves one frame. Returns how much work its answer is, beyond that of any frame.
    fn serve_frame(&mut self, key: usize, frame: Bytes) -> isize {
        let request = match decode_request(&frame) {
            Ok(request) => request,
            Err(bad) if matches!(self.sessions[key].life, Life::Greeting) => {
                self.turn_away(key, bad.correlation, bad.error.into());
                return 0;
            }
            Err(bad) => {
                self.refuse_malformed(key, bad, frame.len());
                return 0;
            }
        };
        let correlation = request.correlation;
        if let Life::Serving(identity) = &self.sessions[key].life
            && let Err(exceeded) = identity.arrive()
        {
            self.refuse_too_many(key, correlation, exceeded);
            return 0;
        }
        match (&self.sessions[key].life, request.body) {
            (Life::Draining | Life::Parting(_), _) => {}
            (_, BodyRef::Hello { token }) => self.greet(key, correlation, token),
            (Life::Greeting, _) => {
                let refused = Refused::new("unauthenticated", "the first frame must be a Hello with a token");
                self.turn_away(key, correlation, refused);
            }
            (Life::Serving(_), BodyRef::Ping) => {
                encode_reply(self.sessions[key].outbox(), correlation, Body::Pong(proto::Pong {}));
                self.write_later(key);
            }
            (Life::Serving(_), BodyRef::Room(room)) => {
                let call = RoomCall::of(room, &frame);
                return self.ask_room(key, correlation, call);
            }
            (Life::Serving(identity), body) => {
                let identity = identity.clone();
                let asked = translate::id_space(&body)
                    .and_then(|id_space| translate::to_request(body, &frame).map(|request| (id_space, request)));
                match asked {
                    Ok((id_space, request)) => {
                        return self.admit(key, correlation, &identity, id_space, request, frame.len());
                    }
                    Err(refused) => {
                        charge_refused(&identity, frame.len());
                        self.refuse(key, correlation, refused);
                    }
                }
            }
        }
        0
    }

    /// Refuses a frame that is none. It counts as a request, and as a refused one, and the rest of what the connection
    /// has sent waits for a while: a flood of such frames is no cheaper than one of good ones.
    fn refuse_malformed(&mut self, key: usize, bad: BadFrame, frame_bytes: usize) {
        if let Life::Serving(identity) = &self.sessions[key].life {
            if let Err(exceeded) = identity.arrive() {
                return self.refuse_too_many(key, bad.correlation, exceeded);
            }
            charge_refused(identity, frame_bytes);
        }
        self.refuse(key, bad.correlation, bad.error.into());
        self.sessions[key].pause(self.now_ms);
    }

    fn greet(&mut self, key: usize, correlation: u64, token: &str) {
        // Who has disconnected already has no address.
        let address = self.sessions[key].address().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        match self.authenticator.rights_of(token, Some(address)) {
            Ok((rights, ends_at)) => {
                let session = &mut self.sessions[key];
                session.welcome(rights, ends_at);
                let frame_bytes_max = session.identity().map(weight::frame_bytes_max).expect("it was welcomed");
                let welcome = proto::Welcome {
                    frame_bytes_max: frame_bytes_max as u32,
                    transfers_max: TRANSFERS_MAX as u32,
                    in_flight_max: IN_FLIGHT_MAX as u32,
                    server: concat!("tidegate/", env!("CARGO_PKG_VERSION")).into(),
                };
                encode_reply(session.outbox(), correlation, Body::Welcome(welcome));
                let name = session.identity().map(CallerName::of_identity).expect("it was welcomed");
                self.move_to(key, name);
                self.tell(key, SecurityEvent::LoggedIn, "");
                self.write_later(key);
            }
            Err(error) => {
                let refused = Refused::new("unauthenticated", error.to_string());
                let why = Problem::from(error);
                self.tell(key, SecurityEvent::TokenRefused, &format!("{}: {}", why.code().name(), why.detail()));
                self.turn_away(key, correlation, refused);
            }
        }
    }

    /// Lets a request on to the shards if its sender may make it. Returns how much work its answer is.
    fn admit(
        &mut self,
        key: usize,
        correlation: u64,
        identity: &Identity,
        id_space: Option<IdSpace>,
        mut request: Request,
        frame_bytes: usize,
    ) -> isize {
        let operation = kind_of(&request);
        self.metrics.requests.increment(operation);
        let listing = match self.prepare_list(identity, &mut request) {
            Ok(listing) => listing,
            Err(refused) => {
                self.refuse(key, correlation, refused);
                return 0;
            }
        };
        let work = work_of_rows(&request);
        let (weight, owed) = (weight::weight(&request, frame_bytes), reply_bytes(&request));
        let purpose = Purpose { operation, ..self.begin(key, correlation, weight, owed, listing) };
        let asker = &mut self.asker;
        let mut start = |token, request| asker.start(token, request);
        let id_space = id_space.unwrap_or_else(|| identity.id_space().clone());
        if let Some((purpose, answered)) = self.authorized.ask_in(identity, id_space, request, purpose, &mut start) {
            self.answer(purpose, answered);
        }
        work
    }

    /// Has a list go on where its reader's cursor says, over as many accounts as its reader's rights ask for.
    fn prepare_list(&self, reader: &Identity, request: &mut Request) -> Result<Option<Listing>, Refused> {
        let Request::ListAccounts { after, limit, .. } = request else { return Ok(None) };
        if let Some(cursor) = after {
            let place = self.authenticator.cursors().open(reader.name(), cursor);
            *cursor = place.ok_or_else(|| Refused::new(Refusal::CursorInvalid.code(), ""))?;
        }
        let listing = Listing::new(reader, *limit);
        *limit = listing.asked();
        Ok(Some(listing))
    }

    /// A request of the session is under way until it is answered.
    fn begin(
        &mut self,
        key: usize,
        correlation: u64,
        weight: Weight,
        owed: usize,
        listing: Option<Listing>,
    ) -> Purpose {
        let session = &mut self.sessions[key];
        session.in_flight += 1;
        session.pages_in_flight += weight.pages;
        session.owed += owed;
        self.turns.start(session.caller, weight);
        let (caller, since) = (session.caller, Instant::now());
        Purpose { session: key, caller, weight, owed, correlation, since, operation: "room", listing }
    }

    /// Lets a room that the schema does not know have its request. Returns how much work that is, beyond that of any
    /// frame.
    fn ask_room(&mut self, key: usize, correlation: u64, call: RoomCall) -> isize {
        let Life::Serving(identity) = &self.sessions[key].life else { return 0 };
        let identity = identity.clone();
        self.metrics.requests.increment("room");
        let Some(room) = self.rooms.iter().position(|room| room.family() == call.family) else {
            self.refuse(key, correlation, call.unknown());
            return 0;
        };
        if !self.rooms[room].has_room() {
            let busy = Refused::new("busy", "too many requests of this room are under way; try again");
            self.sessions[key].pause(self.now_ms);
            self.refuse(key, correlation, busy);
            return 0;
        }
        let purpose = {
            let weight = Weight { bytes: call.body.len(), ..Weight::default() };
            self.begin(key, correlation, weight, REPLY_BYTES, None)
        };
        let token = self.room_calls.insert(purpose);
        match self.rooms[room].ask(token as u64, &identity, &call.body) {
            Ok(RoomCost { bytes, work }) => {
                // A frame of a thousand short messages is little, and what they are in memory is not.
                let purpose = &mut self.room_calls[token];
                self.turns.grow(purpose.caller, bytes);
                purpose.weight.bytes += bytes;
                work as isize
            }
            Err(refused) => {
                let purpose = self.room_calls.remove(token);
                self.end(&purpose);
                self.refuse(key, correlation, refused);
                // It was decoded as far as the room decodes any.
                let decoded = call.body.len() / BYTES_PER_WORK_OF_DECODING;
                (WORK_OF_REFUSAL + decoded).min(WORK_OF_REFUSED_MAX) as isize
            }
        }
    }
}

/// Work of saying why a request to a room is refused: the text is made for it.
const WORK_OF_REFUSAL: usize = 16;
/// Work of a request to a room that was refused, at most: rooms decode no more of one before they refuse it.
const WORK_OF_REFUSED_MAX: usize = 4_096;

impl From<NoRoom> for Refused {
    fn from(no_room: NoRoom) -> Refused {
        let detail = match no_room {
            NoRoom::OfCaller => {
                "this caller has sent as many bytes ahead of their answers as it may, on all its connections; send \
                 each frame whole, and fewer at once"
            }
            NoRoom::OfAll => "too many bytes of frames wait to be served; send smaller frames, or one after another",
        };
        Refused::new(codes::BUSY.name(), detail)
    }
}

/// Has the sender of a frame that asks nothing pay for it: as one refused request, and for its bytes.
fn charge_refused(sender: &Identity, frame_bytes: usize) {
    sender.denied();
    sender.charge((frame_bytes / REFUSED_BYTES_PER_REQUEST) as u32);
}

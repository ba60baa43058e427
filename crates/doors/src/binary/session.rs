//! One client of the binary port: its lifecycle, its buffers, and its requests in flight.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use mio::Interest;
use tidegate_machines::TimeMs;
use tidegate_runtime::PortSockets;
use tidegate_wire::limits::{FRAME_BYTES_MAX, FRAME_BYTES_MAX_UNAUTHENTICATED};
use tidegate_wire::proxy::is_header;
use tidegate_wire::{FrameError, Split, split};

use super::limits::{
    FRAME_TIMEOUT_MS, HELLO_TIMEOUT_MS, IN_FLIGHT_MAX, OUTBOX_BYTES_MAX, PAGES_IN_FLIGHT_MAX, READ_BYTES,
    READ_BYTES_PER_TURN, READER_TIMEOUT_MS, REFUSAL_PAUSE_MS,
};
use super::weight::frame_bytes_max;
use crate::admission::Entered;
use crate::auth::Identity;
use crate::auth::acl::ClientRights;
use crate::held_bytes::{HeldTable, NoRoom};
use crate::linger::{Ends, Linger};
use crate::stream::{Scratch, Stream};
use crate::turns::{CallerKey, CallerName};

/// The life of a connection.
///
/// ```text
///   Greeting ──Hello──▶ Serving ──client ends, or error──▶ Draining ──outbox empty, nothing in flight──▶ Parting
///       └──no Hello in time, bad token, rubbish──────────────▲            the client ends, or a bound ──▶ closed ◀┘
/// ```
#[derive(Clone, Debug)]
pub enum Life {
    /// Has not shown a token.
    Greeting,
    /// May ask what its rights allow.
    Serving(Identity),
    /// Reads nothing more; outstanding replies are still sent.
    Draining,
    /// All is sent, and the sending half shut down; what the client sends is thrown away until it ends.
    Parting(Linger),
}

/// What the client's socket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// All that it was given.
    All,
    /// Nothing more for now. Under TLS, records may be unsent although the outbox is empty.
    Later,
    /// Nothing any more.
    Nothing,
}

/// What became of a frame that was looked at where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// It was served.
    Taken,
    /// It was served, and the next one waits.
    Last,
    /// It is to be served in another way.
    Left,
}

/// One connection.
pub struct Session {
    stream: Stream<mio::net::TcpStream>,
    /// It is counted until it is closed.
    pub entered: Entered,
    takes: Takes,
    /// Where the connection is in its life.
    pub life: Life,
    input: BytesMut,
    outbox: Vec<u8>,
    sent: usize,
    /// Whose turn is this connection's.
    pub caller: CallerKey,
    /// Until when it is not read; milliseconds of the worker's clock.
    paused_until_ms: Option<u64>,
    /// What it is told waits until then, too.
    is_held: bool,
    /// Requests under way.
    pub in_flight: usize,
    /// Those of them that ask for a page, whose replies are large.
    pub pages_in_flight: usize,
    /// Bytes of the replies to all of them, about.
    pub owed: usize,
    /// The socket had more to read when we last looked.
    pub readable: bool,
    /// Whole frames that were read wait until replies have made room; nothing is read on top of them.
    pub backlog: bool,
    /// The client sends nothing more; what it sent before is still served.
    ended: bool,
    /// An event has said that the client sends nothing more. No other event does: it is read to its end.
    pub hung_up: bool,
    /// Whose bytes that were read and not served are counted, and how many.
    ahead: Option<(CallerName, usize)>,
    /// Whose token was shown, also while draining.
    identity: Option<Identity>,
    /// What it may do, to be renewed by a reload.
    rights: Option<Arc<ClientRights>>,
    /// When the token that was shown expires; milliseconds of the worker's clock.
    ends_at: Option<TimeMs>,
    /// The session stands in its worker's list of sessions to look at.
    pub listed: bool,
    /// The session stands in its worker's list of sessions to write to.
    pub to_be_written: bool,
    /// When the client must have sent the Hello, or the rest of a frame; milliseconds of the worker's clock.
    deadline_ms: Option<u64>,
    /// When a client that takes nothing of its replies must have taken something.
    takes_until_ms: Option<u64>,
}

impl Session {
    /// Where its client comes from, as far as it is known yet; `None` if it has disconnected already.
    pub fn address(&mut self) -> Option<IpAddr> {
        let place = self.stream.client().or_else(|| self.stream.socket().peer_addr().ok());
        place.map(|place| place.ip())
    }

    /// Whether a load balancer has still to say whose connection it is.
    pub fn is_unsaid(&self) -> bool {
        self.stream.is_unsaid()
    }

    /// Whether its TLS handshake is not over.
    pub fn is_handshaking(&self) -> bool {
        self.stream.is_handshaking()
    }

    /// A client that just connected.
    pub fn new(stream: Stream<mio::net::TcpStream>, entered: Entered, caller: CallerKey, now_ms: u64) -> Session {
        Session {
            stream,
            entered,
            takes: Takes::All,
            life: Life::Greeting,
            input: BytesMut::new(),
            outbox: Vec::new(),
            sent: 0,
            caller,
            paused_until_ms: None,
            is_held: false,
            in_flight: 0,
            pages_in_flight: 0,
            owed: 0,
            readable: true,
            backlog: false,
            ended: false,
            hung_up: false,
            ahead: None,
            identity: None,
            rights: None,
            ends_at: None,
            listed: false,
            to_be_written: false,
            deadline_ms: Some(now_ms + HELLO_TIMEOUT_MS),
            takes_until_ms: None,
        }
    }

    /// Registers the socket with the worker's poll.
    pub fn register(&mut self, poll: &PortSockets, token: usize) -> io::Result<()> {
        poll.register(self.stream.socket(), token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Takes the socket out of the worker's poll. The caller drops the session.
    pub fn leave_poll(&mut self, poll: &PortSockets) {
        poll.deregister(self.stream.socket());
    }

    /// Tells the client that nothing more comes. What it sends from now on is thrown away, until it ends.
    pub fn part(&mut self, scratch: &mut Scratch, now_ms: u64, hurry: bool) {
        let mut linger = Linger::begin(&mut self.stream, scratch, now_ms);
        if hurry {
            linger.hurry(now_ms);
        }
        self.life = Life::Parting(linger);
        (self.listed, self.outbox, self.sent, self.rights) = (false, Vec::new(), 0, None);
        (self.deadline_ms, self.takes_until_ms, self.paused_until_ms) = (None, None, None);
    }

    /// Throws away what has come, at most `bytes_max`, from which it takes what it has read.
    pub fn go_on_parting(&mut self, scratch: &mut Scratch, bytes_max: &mut usize) -> Ends {
        let Life::Parting(linger) = &mut self.life else { return Ends::Later };
        linger.go_on(&mut self.stream, scratch, bytes_max)
    }

    /// Whether it waits for nothing but its client's end.
    pub fn is_parting(&self) -> bool {
        matches!(self.life, Life::Parting(_))
    }

    /// Whether it has waited for that for too long.
    pub fn parts_too_long(&self, now_ms: u64) -> bool {
        matches!(&self.life, Life::Parting(linger) if linger.is_overdue(now_ms))
    }

    /// Whether anything that the client says is looked at.
    pub fn is_heard(&self) -> bool {
        matches!(self.life, Life::Greeting | Life::Serving(_))
    }

    /// Whether more should be read now: everything that would hold it is below its bound.
    pub fn may_read(&self) -> bool {
        self.readable && self.is_heard() && self.may_ask()
    }

    /// Reads nothing for a while, so that a flood of frames that are refused costs its sender more than others.
    pub fn pause(&mut self, now_ms: u64) {
        self.paused_until_ms = Some(now_ms + REFUSAL_PAUSE_MS);
    }

    /// The same for a client that is turned away: it waits for the answer as well.
    pub fn hold(&mut self, now_ms: u64) {
        self.pause(now_ms);
        self.is_held = true;
    }

    /// Ends a pause that is over. Returns whether it was one.
    pub fn resume(&mut self, now_ms: u64) -> bool {
        let is_over = self.paused_until_ms.is_some_and(|until| now_ms >= until);
        if is_over {
            (self.paused_until_ms, self.is_held) = (None, false);
        }
        is_over
    }

    /// Whether it is not read for a while.
    pub fn is_paused(&self) -> bool {
        self.paused_until_ms.is_some()
    }

    /// Whether it is not told anything for a while.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether one more request of this client may begin: the replies that it leaves unread are below their bounds, and
    /// nothing of it was refused just now.
    pub fn may_ask(&self) -> bool {
        !self.is_paused()
            && self.in_flight < IN_FLIGHT_MAX
            && self.pages_in_flight < PAGES_IN_FLIGHT_MAX
            && self.outbox.len() - self.sent + self.owed < OUTBOX_BYTES_MAX
    }

    /// Reads what is there, up to one turn's worth, through the worker's `scratch`. Returns how many bytes that were.
    /// `cost` is what it was worth, in bytes, also if it fails.
    pub fn read(&mut self, scratch: &mut Scratch, cost: &mut usize) -> io::Result<usize> {
        let (mut taken, was_unsaid) = (0, self.stream.is_unsaid());
        while *cost < READ_BYTES_PER_TURN {
            let heard = self.stream.read(scratch, READ_BYTES);
            *cost += scratch.cost();
            let heard = heard?;
            // Whose bytes they are is looked at first.
            let was_said = was_unsaid && !self.stream.is_unsaid();
            let bytes = scratch.bytes(&heard);
            self.input.extend_from_slice(bytes);
            taken += bytes.len();
            if heard.ended {
                self.readable = false;
                self.ended = true;
                return Ok(taken);
            }
            // A read that is short has met the end of what was sent, but not that it was the end.
            let meets_the_end = self.hung_up && scratch.cost() > 0;
            if !heard.more && !meets_the_end {
                self.readable = false;
                return Ok(taken);
            }
            // There is a whole frame, or one that is too long.
            if was_said || self.input.len() > self.frame_bytes_max() {
                return Ok(taken);
            }
        }
        Ok(taken)
    }

    /// The next whole frame that was read, without its length. The rest of one that has begun must come in time.
    pub fn next_frame(&mut self, now_ms: u64) -> Result<Option<Bytes>, FrameError> {
        match split(&self.input, self.frame_bytes_max())? {
            Split::Frame(range) => {
                let mut whole = self.input.split_to(range.end);
                if matches!(self.life, Life::Serving(_)) {
                    self.deadline_ms = None;
                }
                Ok(Some(whole.split_off(range.start).freeze()))
            }
            Split::NeedMore { bytes } => {
                if self.input.is_empty() {
                    // An idle client keeps no buffer.
                    self.input = BytesMut::new();
                    if matches!(self.life, Life::Serving(_)) {
                        self.deadline_ms = None;
                    }
                } else {
                    // From its first byte on: who sends a byte now and then does not hold a half frame for ever.
                    self.deadline_ms.get_or_insert(now_ms + FRAME_TIMEOUT_MS);
                    // Reserves at most as much as was received already: a client that announces 4 MiB and sends 4 bytes
                    // must not get 4 MiB. (Reserved memory is not free: with transparent huge pages its first byte
                    // costs 2 MiB.)
                    self.input.reserve(bytes.min(self.input.len()));
                }
                Ok(None)
            }
        }
    }

    /// Serves whole frames where they lie, one after the other from the first that was read: `serve` is given the
    /// client, the frame and the outbox, and says whether it has taken the frame and goes on.
    pub fn serve_in_place(&mut self, mut serve: impl FnMut(&Identity, &[u8], &mut Vec<u8>) -> InPlace) {
        let mut input = std::mem::take(&mut self.input);
        let mut served = 0;
        while self.may_ask()
            && let Life::Serving(identity) = &self.life
            && let Ok(Split::Frame(range)) = split(&input[served..], frame_bytes_max(identity))
        {
            let is_last = match serve(identity, &input[served..][range.clone()], &mut self.outbox) {
                InPlace::Left => break,
                InPlace::Last => true,
                InPlace::Taken => false,
            };
            served += range.end;
            self.deadline_ms = None;
            if is_last {
                break;
            }
        }
        input.advance(served);
        self.input = input;
    }

    /// Whether its first bytes are a header of the PROXY protocol, which nobody expects of its address.
    pub fn has_sent_proxy_header(&self) -> bool {
        matches!(self.life, Life::Greeting) && is_header(&self.input)
    }

    /// Bytes of the largest frame that the client may send now. Before the Hello that is a small one.
    fn frame_bytes_max(&self) -> usize {
        match &self.life {
            Life::Greeting => FRAME_BYTES_MAX_UNAUTHENTICATED,
            Life::Serving(identity) => frame_bytes_max(identity),
            Life::Draining | Life::Parting(_) => FRAME_BYTES_MAX,
        }
    }

    /// Counts what was read and not served among all that its caller has sent ahead, `of_all`: again after each look,
    /// and when the session is over. `Err` if it is more than the caller may have.
    pub fn count_ahead(&mut self, of_all: &mut HeldTable) -> Result<(), NoRoom> {
        let bytes = match &self.life {
            Life::Serving(identity) => {
                if self.ahead.is_none() && !self.input.is_empty() {
                    self.ahead = Some((CallerName::of_identity(identity), 0));
                }
                self.input.len()
            }
            Life::Greeting | Life::Draining | Life::Parting(_) => 0,
        };
        let Some((caller, counted)) = &mut self.ahead else { return Ok(()) };
        of_all.change(caller, *counted, bytes)?;
        *counted = bytes;
        if bytes == 0 {
            self.ahead = None;
        }
        Ok(())
    }

    /// Whether a frame was begun and not finished, no Hello came, or no replies are taken, for too long.
    pub fn is_overdue(&self, now_ms: u64) -> bool {
        self.in_flight == 0 && is_over(self.deadline_ms, now_ms) || self.takes_too_long(now_ms)
    }

    /// Whether no replies are taken for too long.
    pub fn takes_too_long(&self, now_ms: u64) -> bool {
        is_over(self.takes_until_ms, now_ms)
    }

    /// Whose token was shown.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Reads nothing more from now on; the client gets some time to take its outstanding replies.
    pub fn drain(&mut self, now_ms: u64) {
        self.life = Life::Draining;
        self.readable = false;
        // Nothing more is looked at of what it has sent.
        (self.input, self.backlog) = (BytesMut::new(), false);
        self.takes_until_ms = None;
        self.deadline_ms = Some(now_ms + FRAME_TIMEOUT_MS);
    }

    /// The client has ended, and all that it sent before is served.
    pub fn has_said_all(&self) -> bool {
        self.ended && !self.backlog && self.is_heard()
    }

    /// Whether the client sends no more: it has closed its side, or has gone. Its socket is asked, for that may have
    /// happened since it was read. Behind bytes that were not read nothing is seen.
    pub fn has_gone(&mut self) -> bool {
        if !self.is_heard() || self.ended || self.hung_up {
            return true;
        }
        match self.stream.socket().peek(&mut [0]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Whether the token that was shown has expired.
    pub fn has_expired(&self, now_ms: u64) -> bool {
        matches!(self.life, Life::Serving(_)) && self.ends_at.is_some_and(|at| now_ms >= at.0)
    }

    /// The token was good, and gives these rights until then.
    pub fn welcome(&mut self, rights: Arc<ClientRights>, ends_at: Option<TimeMs>) {
        self.ends_at = ends_at;
        let identity = rights.identity().cloned().expect("a token is somebody's");
        self.life = Life::Serving(identity.clone());
        (self.identity, self.rights) = (Some(identity), Some(rights));
        self.deadline_ms = None;
    }

    /// The rights that the token gave when they were last looked at; `None` for a client that may not ask.
    pub fn rights(&self) -> Option<&ClientRights> {
        self.rights.as_deref().filter(|_| matches!(self.life, Life::Serving(_)))
    }

    /// The rights that the same token gives now.
    pub fn renew(&mut self, rights: Arc<ClientRights>) {
        let deadline_ms = self.deadline_ms;
        self.welcome(rights, self.ends_at);
        self.deadline_ms = deadline_ms;
    }

    /// Where replies are appended.
    pub fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// Sends what the socket takes of the outbox. Returns how many bytes that were.
    pub fn flush(&mut self, scratch: &mut Scratch, now_ms: u64) -> io::Result<usize> {
        if self.takes == Takes::Nothing {
            self.forget_outbox();
            return Ok(0);
        }
        let written = self.stream.write(&self.outbox[self.sent..], scratch)?;
        self.sent += written.taken;
        self.takes = if written.blocked { Takes::Later } else { Takes::All };
        if !written.blocked {
            self.takes_until_ms = None;
        } else if written.taken > 0 || self.takes_until_ms.is_none() {
            self.takes_until_ms = Some(now_ms + READER_TIMEOUT_MS);
        }
        if self.sent < self.outbox.len() {
            self.forget_sent();
        } else {
            self.sent = 0;
            self.outbox.clear();
            self.outbox.shrink_to(64 << 10);
        }
        Ok(written.taken)
    }

    /// Gives back what was sent, once it is most of the outbox: otherwise the outbox of a client that reads steadily
    /// but never everything would keep growing.
    fn forget_sent(&mut self) {
        if self.sent > OUTBOX_BYTES_MAX / 4 && self.sent >= self.outbox.len() / 2 {
            self.outbox.drain(..self.sent);
            self.outbox.shrink_to(OUTBOX_BYTES_MAX);
            self.sent = 0;
        }
    }

    /// The client takes nothing any more.
    pub fn forget_outbox(&mut self) {
        self.takes = Takes::Nothing;
        self.sent = 0;
        self.outbox = Vec::new();
    }

    /// Whether nothing more is read from the client and all its replies were sent.
    pub fn is_over(&self) -> bool {
        matches!(self.life, Life::Draining) && self.in_flight == 0 && !self.has_unsent()
    }

    /// Whether something is to be sent: of the outbox, or of what TLS made of it.
    pub fn has_unsent(&self) -> bool {
        match self.takes {
            Takes::All => self.sent < self.outbox.len(),
            Takes::Later => true,
            Takes::Nothing => false,
        }
    }
}

fn is_over(deadline_ms: Option<u64>, now_ms: u64) -> bool {
    deadline_ms.is_some_and(|deadline_ms| now_ms > deadline_ms)
}

#[cfg(test)]
mod tests;

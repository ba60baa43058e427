//! Queues over the binary port: senders, and receivers that acknowledge what they get.
//!
//! A body begins with a number of its own, and when the message was due, by the clock of this machine: at once, or
//! when it is to be handed out. So receivers can say how late they got it.

use super::server::TOKEN;
use super::session;
use crate::load::{Answer, Dialect, Outcomes};
use anyhow::{Context, Result, bail, ensure};
use prost::Message as _;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime};
use tidegate_wire::proto::reply_frame;
use tidegate_wire::queue::{self as wire, queue_reply::Reply, queue_request::Request};
use tidegate_wire::{ReplyBodyRef, RoomRef, Split, decode_reply, encode_room, limits, split};

/// The family of frames of queues.
const FAMILY: u32 = 4;
/// How long a receiver waits for messages.
const WAIT_MS: u64 = 2_000;

/// Bytes of what a body begins with.
const STAMP_BYTES: usize = 16;

/// Makes a queue with default settings.
pub fn make(http: SocketAddr, queue: &str) -> Result<()> {
    call(http, "PUT", queue, "{}").map(drop)
}

/// Messages of a queue that nobody has received, and those that somebody has.
pub fn waiting(http: SocketAddr, queue: &str) -> Result<u64> {
    let answer: serde_json::Value = serde_json::from_str(&call(http, "GET", queue, "")?)?;
    let count = |name: &str| answer[name].as_u64().with_context(|| format!("no {name} in {answer}"));
    Ok(count("waiting")? + count("scheduled")? + count("leased")?)
}

fn call(http: SocketAddr, method: &str, queue: &str, body: &str) -> Result<String> {
    let mut socket = TcpStream::connect(http)?;
    write!(
        socket,
        "{method} /v1/queues/{queue} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {TOKEN}\r\n\
         connection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "{method} of the queue was answered: {answer}");
    Ok(answer.split_once("\r\n\r\n").context("an answer without a body")?.1.to_owned())
}

/// Microseconds since 1970.
fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("the clock is behind 1970").as_micros() as u64
}

/// A body of so many bytes that no compression makes short.
fn body_of(bytes: usize) -> Vec<u8> {
    (0..bytes.max(STAMP_BYTES) as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn stamped(body: &[u8], number: u64, due_us: u64) -> Vec<u8> {
    let mut body = body.to_vec();
    body[..8].copy_from_slice(&number.to_le_bytes());
    body[8..STAMP_BYTES].copy_from_slice(&due_us.to_le_bytes());
    body
}

/// Asks; `count` comes back with the answer.
fn ask(out: &mut Vec<u8>, tag: u32, count: u64, request: Request) {
    let body = wire::QueueRequest { request: Some(request) }.encode_to_vec();
    encode_room(out, count << 32 | u64::from(tag), RoomRef { family: FAMILY, body: &body });
}

/// The reply at the front of `bytes`: where it ends, its tag and count, and what it says; `None` for "busy".
#[expect(clippy::type_complexity, reason = "it is taken apart where it is called")]
fn reply(bytes: &[u8]) -> Result<Option<(usize, (u32, u64), Option<Reply>)>> {
    let Split::Frame(range) = split(bytes, limits::FRAME_BYTES_MAX)? else { return Ok(None) };
    let end = range.end;
    let frame = decode_reply(&bytes[range])?;
    let said = match frame.body {
        ReplyBodyRef::Room(room) => Some(wire::QueueReply::decode(room.body)?.reply.context("an empty reply")?),
        ReplyBodyRef::Other(reply_frame::Body::Error(error)) if error.code == "busy" => None,
        ReplyBodyRef::Other(reply_frame::Body::Error(error)) => {
            bail!("the server said {}: {}", error.code, error.detail)
        }
        other => bail!("a reply of queues was expected, not {other:?}"),
    };
    Ok(Some((end, (frame.correlation as u32, frame.correlation >> 32), said)))
}

/// Sends messages, so many in each request.
pub struct Sends {
    queue: String,
    left: u64,
    batch: u64,
    body: Vec<u8>,
    /// Each waits for a time of its own, at most so far ahead, in milliseconds.
    ahead_ms: Option<std::ops::Range<u64>>,
}

impl Sends {
    /// `messages` of `bytes` each to `queue`.
    pub fn new(queue: &str, messages: u64, batch: u64, bytes: usize) -> Sends {
        Sends { queue: queue.into(), left: messages, batch, body: body_of(bytes), ahead_ms: None }
    }

    /// Each is handed out at a time of its own, so far ahead.
    pub fn ahead(self, ms: std::ops::Range<u64>) -> Sends {
        Sends { ahead_ms: Some(ms), ..self }
    }
}

impl Dialect for Sends {
    const IN_ORDER: bool = false;

    fn greet(&mut self, socket: &mut TcpStream) -> Result<()> {
        session::log_in(socket)
    }

    fn transfers_left(&self) -> u64 {
        self.left
    }

    fn ask(&mut self, tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        let count = self.batch.min(self.left);
        if count == 0 {
            return Ok(false);
        }
        let messages = (0..count)
            .map(|place| {
                let (number, now_us) = (self.left - place, now_us());
                let ahead = self.ahead_ms.clone().map(|ahead| {
                    let drawn = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                    ahead.start + drawn % (ahead.end - ahead.start).max(1)
                });
                let deliver_at_ms = ahead.map_or(0, |ahead| now_us / 1_000 + ahead);
                let due_us = if ahead.is_some() { 1_000 * deliver_at_ms } else { now_us };
                wire::Message { body: stamped(&self.body, number, due_us), deliver_at_ms, ..wire::Message::default() }
            })
            .collect();
        self.left -= count;
        ask(out, tag, count, Request::Send(wire::Send { queue: self.queue.clone(), messages }));
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some((end, (tag, _), said)) = reply(bytes)? else { return Ok(None) };
        let applied = match said {
            Some(Reply::Sent(sent)) => sent.receipts.len() as u64,
            None => 0,
            Some(other) => bail!("a send was answered {other:?}"),
        };
        Ok(Some(Answer { bytes: end, tag, outcomes: Outcomes { applied, ..Outcomes::default() } }))
    }
}

/// Receives messages and acknowledges them.
pub struct Receives {
    queue: String,
    /// Messages that are neither received nor asked for.
    left: u64,
    max: u64,
    /// Received, and not acknowledged yet.
    leases: VecDeque<Vec<wire::Lease>>,
    /// How late each message came, in microseconds.
    late_us: Vec<u64>,
}

impl Receives {
    /// `messages` of `queue`, up to `max` at a time.
    pub fn new(queue: &str, messages: u64, max: u64) -> Receives {
        Receives { queue: queue.into(), left: messages, max, leases: VecDeque::new(), late_us: Vec::new() }
    }

    /// How late the messages came of which so large a part came earlier, in milliseconds.
    pub fn late_ms(&mut self, part: f64) -> f64 {
        self.late_us.sort_unstable();
        let place = (self.late_us.len() as f64 * part) as usize;
        self.late_us.get(place.min(self.late_us.len().saturating_sub(1))).map_or(0.0, |us| *us as f64 / 1_000.0)
    }
}

impl Dialect for Receives {
    const IN_ORDER: bool = false;

    fn greet(&mut self, socket: &mut TcpStream) -> Result<()> {
        session::log_in(socket)
    }

    fn transfers_left(&self) -> u64 {
        self.left
    }

    fn ask(&mut self, tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        let queue = self.queue.clone();
        if let Some(leases) = self.leases.pop_front() {
            let count = leases.len() as u64;
            ask(out, tag, count, Request::Acknowledge(wire::Acknowledge { queue, leases }));
            return Ok(true);
        }
        let max = self.max.min(self.left);
        if max == 0 {
            return Ok(false);
        }
        self.left -= max;
        let receive = wire::Receive { queue, max: max as u32, wait_ms: WAIT_MS, ..wire::Receive::default() };
        ask(out, tag, max, Request::Receive(receive));
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some((end, (tag, asked), said)) = reply(bytes)? else { return Ok(None) };
        let mut outcomes = Outcomes::default();
        match said {
            Some(Reply::Received(received)) => {
                self.left += asked - received.deliveries.len() as u64;
                let now_us = now_us();
                let messages = received.deliveries.iter().filter_map(|delivery| delivery.message.as_ref());
                let stamps = messages.filter_map(|message| message.body.get(8..STAMP_BYTES)?.try_into().ok());
                self.late_us.extend(stamps.map(|stamp| now_us.saturating_sub(u64::from_le_bytes(stamp))));
                let leases: Vec<_> = received.deliveries.into_iter().filter_map(|delivery| delivery.lease).collect();
                if !leases.is_empty() {
                    self.leases.push_back(leases);
                }
            }
            Some(Reply::Leases(leases)) => {
                let done = i32::from(wire::LeaseOutcome::Done);
                outcomes.applied = leases.outcomes.iter().filter(|outcome| **outcome == done).count() as u64;
                outcomes.refused = leases.outcomes.len() as u64 - outcomes.applied;
            }
            Some(other) => bail!("a receiver was answered {other:?}"),
            None => bail!("a receiver was told that the server is busy"),
        }
        Ok(Some(Answer { bytes: end, tag, outcomes }))
    }
}

/// Sends messages at a rate, whatever the server does: each says when it was due, so that one that had to wait for
/// those before it counts as late.
pub struct Paced {
    socket: TcpStream,
    queue: String,
    body: Vec<u8>,
}

impl Paced {
    /// Connects.
    pub fn open(address: SocketAddr, queue: &str, bytes: usize) -> Result<Paced> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        session::log_in(&mut socket)?;
        Ok(Paced { socket, queue: queue.into(), body: body_of(bytes) })
    }

    /// Sends `messages` at `per_s`, and hears the answers. How many were taken: all, or fewer if the server ended.
    pub fn send(self, messages: u64, per_s: f64) -> Result<u64> {
        let Paced { mut socket, queue, body } = self;
        let answers = socket.try_clone()?;
        let listener = std::thread::spawn(move || listen(answers, messages));
        let (begin, begin_us) = (Instant::now(), now_us());
        let (mut sent, mut out) = (0, Vec::new());
        while sent < messages {
            let due = ((begin.elapsed().as_secs_f64() * per_s) as u64).min(messages);
            out.clear();
            for number in sent..due {
                let due_us = begin_us + (number as f64 / per_s * 1e6) as u64;
                let message = wire::Message { body: stamped(&body, number, due_us), ..wire::Message::default() };
                let send = wire::Send { queue: queue.clone(), messages: vec![message] };
                ask(&mut out, number as u32, 1, Request::Send(send));
            }
            sent = due;
            // The server may be killed: what it has answered counts.
            if socket.write_all(&out).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        listener.join().expect("the listener does not panic")
    }
}

/// Counts the messages that were taken, until those are all, or the server has ended.
fn listen(mut socket: TcpStream, messages: u64) -> Result<u64> {
    let (mut inbox, mut taken) = (Vec::new(), 0);
    let mut buffer = vec![0; 64 << 10];
    while taken < messages {
        let Ok(count) = socket.read(&mut buffer) else { break };
        if count == 0 {
            break;
        }
        inbox.extend_from_slice(&buffer[..count]);
        let mut begin = 0;
        while let Some((end, _, said)) = reply(&inbox[begin..])? {
            match said {
                Some(Reply::Sent(sent)) => taken += sent.receipts.len() as u64,
                other => bail!("a send was answered {other:?}"),
            }
            begin += end;
        }
        inbox.drain(..begin);
    }
    Ok(taken)
}

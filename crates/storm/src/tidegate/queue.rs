//! Queues over the binary port: senders, and receivers that acknowledge what they get.

use super::server::TOKEN;
use super::session;
use crate::load::{Answer, Dialect, Outcomes};
use anyhow::{Context, Result, bail, ensure};
use prost::Message as _;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use tidegate_wire::proto::reply_frame;
use tidegate_wire::queue::{self as wire, queue_reply::Reply, queue_request::Request};
use tidegate_wire::{ReplyBodyRef, RoomRef, Split, decode_reply, encode_room, limits, split};

/// The family of frames of queues.
const FAMILY: u32 = 4;
/// How long a receiver waits for messages.
const WAIT_MS: u64 = 2_000;

/// Makes a queue with default settings.
pub fn make(http: SocketAddr, queue: &str) -> Result<()> {
    let mut socket = TcpStream::connect(http)?;
    write!(
        socket,
        "PUT /v1/queues/{queue} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    )?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "the queue could not be made: {answer}");
    Ok(())
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
}

impl Sends {
    /// `messages` of `bytes` each to `queue`.
    pub fn new(queue: &str, messages: u64, batch: u64, bytes: usize) -> Sends {
        // Bytes that no compression makes short.
        let body = (0..bytes as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        Sends { queue: queue.into(), left: messages, batch, body }
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
                let mut body = self.body.clone();
                let number = (self.left - place).to_le_bytes();
                let begin = number.len().min(body.len());
                body[..begin].copy_from_slice(&number[..begin]);
                wire::Message { body, ..wire::Message::default() }
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
}

impl Receives {
    /// `messages` of `queue`, up to `max` at a time.
    pub fn new(queue: &str, messages: u64, max: u64) -> Receives {
        Receives { queue: queue.into(), left: messages, max, leases: VecDeque::new() }
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

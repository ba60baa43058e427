//! AMQP 0-9-1, as much of it as a load needs: a connection with one channel, publishing with confirms, and consuming.
//!
//! ```text
//!   frame: type (1 byte), channel (2), size (4), payload, 0xCE
//!   a message: method basic.publish or basic.deliver, content header, content body
//! ```

use super::window::{WINDOW, Window};
use crate::load::{Answer, Dialect};
use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const FRAME_END: u8 = 0xce;
/// Bytes of a frame that are not its payload.
const FRAME_EXTRA: usize = 8;
/// Bytes of a frame, as the server suggests.
const FRAME_BYTES_MAX: u32 = 131_072;
const CHANNEL: u16 = 1;

/// Class and number of a method.
type Method = (u16, u16);
const CONNECTION_START: Method = (10, 10);
const CONNECTION_START_OK: Method = (10, 11);
const CONNECTION_TUNE: Method = (10, 30);
const CONNECTION_TUNE_OK: Method = (10, 31);
const CONNECTION_OPEN: Method = (10, 40);
const CONNECTION_OPEN_OK: Method = (10, 41);
const CHANNEL_OPEN: Method = (20, 10);
const CHANNEL_OPEN_OK: Method = (20, 11);
const QUEUE_DECLARE: Method = (50, 10);
const QUEUE_DECLARE_OK: Method = (50, 11);
const BASIC_QOS: Method = (60, 10);
const BASIC_QOS_OK: Method = (60, 11);
const BASIC_CONSUME: Method = (60, 20);
const BASIC_CONSUME_OK: Method = (60, 21);
const BASIC_CANCEL: Method = (60, 30);
const BASIC_PUBLISH: Method = (60, 40);
const BASIC_DELIVER: Method = (60, 60);
const BASIC_ACK: Method = (60, 80);
const CONFIRM_SELECT: Method = (85, 10);
const CONFIRM_SELECT_OK: Method = (85, 11);

/// A queue outlives the server.
const DURABLE: u8 = 1 << 1;
/// No answer is wanted.
const NO_WAIT: u8 = 1;
/// A message outlives the server: the property "delivery mode", and its value.
const HAS_DELIVERY_MODE: u16 = 1 << 12;
const PERSISTENT: u8 = 2;
const CONSUMER: &str = "c";

/// What a frame carries, as it is put together.
#[derive(Default)]
struct Payload(Vec<u8>);

impl Payload {
    fn method((class, number): Method) -> Payload {
        Payload::default().u16(class).u16(number)
    }

    fn bytes(mut self, bytes: &[u8]) -> Payload {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u8(self, number: u8) -> Payload {
        self.bytes(&[number])
    }

    fn u16(self, number: u16) -> Payload {
        self.bytes(&number.to_be_bytes())
    }

    fn u32(self, number: u32) -> Payload {
        self.bytes(&number.to_be_bytes())
    }

    fn u64(self, number: u64) -> Payload {
        self.bytes(&number.to_be_bytes())
    }

    fn short(self, text: &str) -> Payload {
        self.u8(u8::try_from(text.len()).expect("names are short")).bytes(text.as_bytes())
    }

    fn long(self, text: &[u8]) -> Payload {
        self.u32(text.len() as u32).bytes(text)
    }

    fn into_frame(self, kind: u8, channel: u16, out: &mut Vec<u8>) {
        out.push(kind);
        out.extend_from_slice(&channel.to_be_bytes());
        out.extend_from_slice(&(self.0.len() as u32).to_be_bytes());
        out.extend_from_slice(&self.0);
        out.push(FRAME_END);
    }
}

/// A frame that has arrived.
#[derive(Debug, PartialEq, Eq)]
struct Frame<'a> {
    kind: u8,
    payload: &'a [u8],
    end: usize,
}

impl<'a> Frame<'a> {
    /// The frame at the front, if all of it is there.
    fn at(bytes: &'a [u8]) -> Result<Option<Frame<'a>>> {
        let [kind, _, _, a, b, c, d, ..] = *bytes else { return Ok(None) };
        let end = u32::from_be_bytes([a, b, c, d]) as usize + FRAME_EXTRA;
        if bytes.len() < end {
            return Ok(None);
        }
        ensure!(bytes[end - 1] == FRAME_END, "a frame of AMQP does not end where it says");
        Ok(Some(Frame { kind, payload: &bytes[FRAME_EXTRA - 1..end - 1], end }))
    }

    /// The method that it carries, and its arguments.
    fn method(&self) -> Result<(Method, &'a [u8])> {
        match (self.kind, self.payload) {
            (METHOD, [a, b, c, d, rest @ ..]) => {
                Ok(((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])), rest))
            }
            _ => bail!("a method was expected, not {self:?}"),
        }
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    let number = bytes.get(at..at + 8).context("a frame of AMQP is too short")?;
    Ok(u64::from_be_bytes(number.try_into().expect("it is eight bytes")))
}

/// Makes a durable queue of this type. It fails while the server is not ready.
pub fn declare(address: SocketAddr, queue: &str, queue_type: &str) -> Result<()> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    begin(&mut socket)?;
    let arguments = Payload::default().short("x-queue-type").u8(b'S').long(queue_type.as_bytes()).0;
    let declare = Payload::method(QUEUE_DECLARE).u16(0).short(queue).u8(DURABLE).long(&arguments);
    call(&mut socket, CHANNEL, declare, QUEUE_DECLARE_OK)
}

/// Logs in and opens a channel.
fn begin(socket: &mut TcpStream) -> Result<()> {
    socket.write_all(b"AMQP\x00\x00\x09\x01")?;
    expect(socket, CONNECTION_START)?;
    let start = Payload::method(CONNECTION_START_OK).long(b"").short("PLAIN").long(b"\0guest\0guest").short("en_US");
    call(socket, 0, start, CONNECTION_TUNE)?;
    let mut tune = Vec::new();
    // No heartbeats: a load says enough.
    Payload::method(CONNECTION_TUNE_OK).u16(CHANNEL).u32(FRAME_BYTES_MAX).u16(0).into_frame(METHOD, 0, &mut tune);
    socket.write_all(&tune)?;
    call(socket, 0, Payload::method(CONNECTION_OPEN).short("/").short("").u8(0), CONNECTION_OPEN_OK)?;
    call(socket, CHANNEL, Payload::method(CHANNEL_OPEN).short(""), CHANNEL_OPEN_OK)
}

fn call(socket: &mut TcpStream, channel: u16, method: Payload, wanted: Method) -> Result<()> {
    let mut out = Vec::new();
    method.into_frame(METHOD, channel, &mut out);
    socket.write_all(&out)?;
    expect(socket, wanted)
}

/// Reads one frame, and not a byte of what may follow.
fn expect(socket: &mut TcpStream, wanted: Method) -> Result<()> {
    let mut bytes = vec![0; FRAME_EXTRA - 1];
    socket.read_exact(&mut bytes)?;
    let size = u32::from_be_bytes(bytes[3..].try_into().expect("the size has four bytes")) as usize;
    bytes.resize(size + FRAME_EXTRA, 0);
    socket.read_exact(&mut bytes[FRAME_EXTRA - 1..])?;
    let (method, _) = Frame::at(&bytes)?.context("a frame of AMQP is not what it says")?.method()?;
    ensure!(method == wanted, "{wanted:?} was expected, not {method:?}: {}", String::from_utf8_lossy(&bytes));
    Ok(())
}

/// Publishes persistent messages, each of which is confirmed.
pub struct Publishes {
    left: u64,
    /// The frames of one message.
    message: Vec<u8>,
    unconfirmed: Vec<Unconfirmed>,
    connection: usize,
}

/// What one channel has published, by numbers that count from 1.
#[derive(Default)]
struct Unconfirmed {
    /// Number of the first of `tags`.
    first: u64,
    /// Tags of requests; `None` for one that was confirmed before those in front of it.
    tags: VecDeque<Option<u32>>,
}

impl Publishes {
    /// So many messages of so many bytes to a queue.
    pub fn new(queue: &str, messages: u64, bytes: usize) -> Publishes {
        let mut message = Vec::new();
        let publish = Payload::method(BASIC_PUBLISH).u16(0).short("").short(queue).u8(0);
        publish.into_frame(METHOD, CHANNEL, &mut message);
        let header = Payload::default().u16(BASIC_PUBLISH.0).u16(0).u64(bytes as u64);
        header.u16(HAS_DELIVERY_MODE).u8(PERSISTENT).into_frame(HEADER, CHANNEL, &mut message);
        Payload(vec![b'b'; bytes]).into_frame(BODY, CHANNEL, &mut message);
        Publishes { left: messages, message, unconfirmed: Vec::new(), connection: 0 }
    }
}

impl Unconfirmed {
    /// Takes the next tag that a confirm of `number`, and of all before it if there are `several`, is about. Whether
    /// that is the last one.
    fn take(&mut self, number: u64, several: bool) -> Result<(u32, bool)> {
        let place = number.checked_sub(self.first).context("a message was confirmed twice")? as usize;
        ensure!(place < self.tags.len(), "a message was confirmed that was not sent");
        let at = if several { self.tags.iter().position(Option::is_some).unwrap_or(place) } else { place };
        ensure!(at <= place, "a message was confirmed twice");
        let tag = self.tags[at].take().context("a message was confirmed twice")?;
        let is_last = at == place || self.tags.range(at..=place).all(Option::is_none);
        while let Some(None) = self.tags.front() {
            self.tags.pop_front();
            self.first += 1;
        }
        Ok((tag, is_last))
    }
}

impl Dialect for Publishes {
    const IN_ORDER: bool = false;

    fn greet(&mut self, socket: &mut TcpStream) -> Result<()> {
        begin(socket)?;
        call(socket, CHANNEL, Payload::method(CONFIRM_SELECT).u8(0), CONFIRM_SELECT_OK)
    }

    fn turn_to(&mut self, connection: usize) {
        self.connection = connection;
        let known = self.unconfirmed.len().max(connection + 1);
        self.unconfirmed.resize_with(known, || Unconfirmed { first: 1, tags: VecDeque::new() });
    }

    fn transfers_left(&self) -> u64 {
        self.left
    }

    fn ask(&mut self, tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        out.extend_from_slice(&self.message);
        self.unconfirmed[self.connection].tags.push_back(Some(tag));
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some(frame) = Frame::at(bytes)? else { return Ok(None) };
        let (method, arguments) = frame.method()?;
        ensure!(method == BASIC_ACK, "a message was answered {method:?}: {}", String::from_utf8_lossy(arguments));
        let several = arguments.get(8).context("a confirm is too short")? & 1 == 1;
        let (tag, is_last) = self.unconfirmed[self.connection].take(u64_at(arguments, 0)?, several)?;
        Ok(Some(Answer::one_applied(if is_last { frame.end } else { 0 }, tag)))
    }
}

/// Consumes messages and acknowledges them. A request in flight stands for a message that is expected: the server sends
/// as many as are not acknowledged, so that acknowledgements ask for more.
pub struct Consumes {
    queue: String,
    messages: u64,
    /// Not expected yet.
    left: u64,
    channels: Vec<Channel>,
    connection: usize,
}

/// What one channel was sent, by numbers that count from 1.
#[derive(Clone, Copy, Default)]
struct Channel {
    window: Window,
    expected: u64,
    received: u64,
    acknowledged: u64,
    is_over: bool,
}

impl Consumes {
    /// So many messages of a queue.
    pub fn new(queue: &str, messages: u64) -> Consumes {
        Consumes { queue: queue.to_owned(), messages, left: messages, channels: Vec::new(), connection: 0 }
    }
}

impl Channel {
    /// One more message is expected. The first ones are sent without an acknowledgement of others.
    fn expect_one(&mut self, out: &mut Vec<u8>) {
        self.expected += 1;
        if self.expected > u64::from(WINDOW)
            && let Some(count) = self.window.expect_one()
        {
            self.acknowledge(u64::from(count), out);
        }
    }

    /// No more is expected than was. When all that was has come, the server is to send no more.
    fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(count) = self.window.tell() {
            self.acknowledge(u64::from(count), out);
        }
        if self.received == self.expected && !self.is_over {
            self.is_over = true;
            let cancel = Payload::method(BASIC_CANCEL).short(CONSUMER).u8(NO_WAIT);
            cancel.into_frame(METHOD, CHANNEL, out);
            self.acknowledge(self.received - self.acknowledged, out);
        }
    }

    fn acknowledge(&mut self, count: u64, out: &mut Vec<u8>) {
        const SEVERAL: u8 = 1;
        if count > 0 {
            self.acknowledged += count;
            Payload::method(BASIC_ACK).u64(self.acknowledged).u8(SEVERAL).into_frame(METHOD, CHANNEL, out);
        }
    }
}

impl Dialect for Consumes {
    const IN_ORDER: bool = true;

    fn greet(&mut self, socket: &mut TcpStream) -> Result<()> {
        begin(socket)?;
        let qos = Payload::method(BASIC_QOS).u32(0).u16(WINDOW as u16).u8(0);
        call(socket, CHANNEL, qos, BASIC_QOS_OK)?;
        let consume = Payload::method(BASIC_CONSUME).u16(0).short(&self.queue).short(CONSUMER).u8(0).long(b"");
        call(socket, CHANNEL, consume, BASIC_CONSUME_OK)
    }

    fn turn_to(&mut self, connection: usize) {
        self.connection = connection;
        self.channels.resize_with(self.channels.len().max(connection + 1), Channel::default);
    }

    fn transfers_left(&self) -> u64 {
        self.messages
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        let channel = &mut self.channels[self.connection];
        if self.left == 0 {
            channel.end(out);
            return Ok(false);
        }
        self.left -= 1;
        channel.expect_one(out);
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some(end) = delivery_end(bytes)? else { return Ok(None) };
        self.channels[self.connection].received += 1;
        Ok(Some(Answer::one_applied(end, 0)))
    }
}

/// Where the delivery at the front ends, if all of it is there: its method, its header, and its body.
fn delivery_end(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(deliver) = Frame::at(bytes)? else { return Ok(None) };
    let (method, _) = deliver.method()?;
    ensure!(method == BASIC_DELIVER, "a message was expected, not {method:?}");
    let Some(header) = Frame::at(&bytes[deliver.end..])? else { return Ok(None) };
    ensure!(header.kind == HEADER, "the header of a message was expected, not {header:?}");
    let (mut left, mut end) = (u64_at(header.payload, 4)?, deliver.end + header.end);
    while left > 0 {
        let Some(body) = Frame::at(&bytes[end..])? else { return Ok(None) };
        ensure!(body.kind == BODY, "the body of a message was expected, not {body:?}");
        left = left.checked_sub(body.payload.len() as u64).context("a body is longer than its header says")?;
        end += body.end;
    }
    Ok(Some(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confirm(number: u64, several: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        Payload::method(BASIC_ACK).u64(number).u8(several.into()).into_frame(METHOD, CHANNEL, &mut bytes);
        bytes
    }

    #[test]
    fn a_confirm_of_several_answers_each() {
        let mut publishes = Publishes::new("q", 5, 3);
        publishes.turn_to(0);
        let mut out = Vec::new();
        for tag in [10, 11, 12, 13, 14] {
            assert!(publishes.ask(tag, &mut out).unwrap());
        }
        assert!(!publishes.ask(15, &mut out).unwrap());
        let mut bytes = confirm(2, false);
        bytes.extend(confirm(4, true));
        bytes.extend(confirm(5, true));
        let (mut tags, mut at) = (Vec::new(), 0);
        while let Some(answer) = publishes.answer(&bytes[at..]).unwrap() {
            tags.push(answer.tag);
            at += answer.bytes;
        }
        assert_eq!((tags, at), (vec![11, 10, 12, 13, 14], bytes.len()));
        assert!(publishes.answer(&confirm(5, false)).is_err() && publishes.answer(&confirm(6, true)).is_err());
    }

    fn delivery(body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let deliver = Payload::method(BASIC_DELIVER).short(CONSUMER).u64(1).u8(0).short("").short("q");
        deliver.into_frame(METHOD, CHANNEL, &mut bytes);
        let header = Payload::default().u16(60).u16(0).u64(body.len() as u64).u16(0);
        header.into_frame(HEADER, CHANNEL, &mut bytes);
        for part in body.chunks(2) {
            Payload::default().bytes(part).into_frame(BODY, CHANNEL, &mut bytes);
        }
        bytes
    }

    #[test]
    fn a_delivery_ends_with_the_last_part_of_its_body() {
        for body in [&b""[..], b"abc"] {
            let mut bytes = delivery(body);
            let end = bytes.len();
            for cut in 0..end {
                assert_eq!(delivery_end(&bytes[..cut]).unwrap(), None, "cut at {cut}");
            }
            bytes.extend(delivery(b"next"));
            assert_eq!(delivery_end(&bytes).unwrap(), Some(end));
        }
        assert!(delivery_end(&confirm(1, false)).is_err());
    }

    #[test]
    fn all_that_was_received_is_acknowledged_in_the_end() {
        let mut consumes = Consumes::new("q", 70);
        consumes.turn_to(0);
        let mut out = Vec::new();
        // As a load does: as many as may be in flight are expected, and one more for each that came.
        for tag in 0..WINDOW {
            assert!(consumes.ask(tag, &mut out).unwrap());
        }
        assert!(out.is_empty(), "what may be sent at first needs no acknowledgement");
        let mut in_flight = WINDOW;
        while in_flight > 0 {
            consumes.answer(&delivery(b"a")).unwrap().unwrap();
            in_flight = in_flight - 1 + u32::from(consumes.ask(0, &mut out).unwrap());
        }
        let mut acknowledged = 0;
        let mut rest = &out[..];
        while let Some(frame) = Frame::at(rest).unwrap() {
            let (method, arguments) = frame.method().unwrap();
            if method == BASIC_ACK {
                acknowledged = u64_at(arguments, 0).unwrap();
            }
            rest = &rest[frame.end..];
        }
        assert_eq!((acknowledged, rest.len()), (70, 0));
    }
}

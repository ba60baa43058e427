//! A work queue in NATS JetStream: a stream in files with `sync_interval: always`, and one pull consumer for all
//! receivers, who acknowledge each message.
//!
//! In its favour: receivers ask for half a window of messages at once, while they still get the other half; what was
//! acknowledged is not confirmed.

use super::queue::QueueServer;
use super::window::{WINDOW, Window};
use crate::load::{Answer, Dialect, Pressure};
use crate::process::{self, Server};
use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const STREAM: &str = "BENCH";
const SUBJECT: &str = "bench";
const CONSUMER: &str = "receivers";
const HELLO: &str =
    "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\"lang\":\"storm\"}\r\n";
const PING: &[u8] = b"PING\r\n";
/// Nanoseconds after which a message that is not acknowledged is handed out again: longer than a load.
const ACK_WAIT_NS: u64 = 600_000_000_000;

/// A server of our own.
pub struct Nats {
    _server: Server,
    address: SocketAddr,
}

impl Nats {
    /// Starts it on a free port with its files in `directory`, and makes the stream and its consumer.
    pub fn start(program: &Path, directory: &Path) -> Result<Nats> {
        process::fresh_directory(directory)?;
        let address = process::free_address()?;
        let path = directory.join("nats.conf");
        std::fs::write(&path, configuration(address, directory))?;
        let mut command = Command::new(program);
        command.arg("-c").arg(&path);
        let mut server = Server::start("nats-server", &mut command, &directory.join("log"))?;
        server.wait_until(Duration::from_secs(10), || process::accepts(address))?;
        make_stream(address)?;
        Ok(Nats { _server: server, address })
    }

    /// What it is.
    pub fn version(program: &Path) -> Result<String> {
        let missing = || format!("no NATS at {}: `scripts/setup.sh nats` installs it", program.display());
        let output = Command::new(program).arg("--version").output().with_context(missing)?;
        Ok(String::from_utf8(output.stdout)?.trim().replace("nats-server: v", "NATS "))
    }
}

fn configuration(address: SocketAddr, directory: &Path) -> String {
    format!(
        "listen: \"{address}\"\n\
         ping_interval: \"10m\"\n\
         jetstream {{\n\
             store_dir: \"{}\"\n\
             sync_interval: always\n\
         }}\n",
        directory.display()
    )
}

fn make_stream(address: SocketAddr) -> Result<()> {
    let stream = json!({ "name": STREAM, "subjects": [SUBJECT], "retention": "workqueue", "storage": "file" });
    call(address, &format!("$JS.API.STREAM.CREATE.{STREAM}"), &stream.to_string())?;
    let config = json!({
        "durable_name": CONSUMER, "ack_policy": "explicit", "ack_wait": ACK_WAIT_NS, "max_ack_pending": -1,
    });
    let consumer = json!({ "stream_name": STREAM, "config": config });
    call(address, &format!("$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{CONSUMER}"), &consumer.to_string())
}

/// Asks for something that is not measured.
fn call(address: SocketAddr, subject: &str, request: &str) -> Result<()> {
    let mut socket = connect(address)?;
    write!(socket, "SUB answer 1\r\nPUB {subject} answer {}\r\n{request}\r\n", request.len())?;
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    while !line.starts_with("MSG ") {
        line.clear();
        ensure!(reader.read_line(&mut line)? > 0, "NATS closed the connection");
    }
    let length = line.split_whitespace().last().unwrap_or_default().parse()?;
    let mut answer = vec![0; length];
    reader.read_exact(&mut answer)?;
    let answer = String::from_utf8(answer)?;
    ensure!(!answer.contains("\"error\""), "NATS answered {subject} with {answer}");
    Ok(())
}

/// A connection that is greeted.
fn connect(address: SocketAddr) -> Result<TcpStream> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    greet(&mut socket)?;
    Ok(socket)
}

fn greet(socket: &mut TcpStream) -> Result<()> {
    write!(socket, "{HELLO}PING\r\n")?;
    let mut said = Vec::new();
    while !said.ends_with(b"PONG\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        said.extend_from_slice(&byte);
        ensure!(!said.ends_with(b"-ERR"), "NATS refused a connection");
    }
    Ok(())
}

impl QueueServer for Nats {
    const RECEIVERS: Pressure = Pressure { connections: 16, in_flight: WINDOW as usize };
    type Sends = Publishes;
    type Receives = Pulls;

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn sends(&self, messages: u64, bytes: usize) -> Publishes {
        Publishes { left: messages, body: "b".repeat(bytes), connection: 0 }
    }

    fn receives(&self, messages: u64) -> Pulls {
        Pulls { messages, left: messages, windows: Vec::new(), connection: 0, received: VecDeque::new() }
    }
}

/// Publishes messages; the stream answers each.
pub struct Publishes {
    left: u64,
    body: String,
    connection: usize,
}

impl Dialect for Publishes {
    const IN_ORDER: bool = false;

    fn greet(&mut self, socket: &mut TcpStream) -> Result<()> {
        greet(socket)?;
        Ok(write!(socket, "SUB sent.{}.* 1\r\n", self.connection)?)
    }

    fn turn_to(&mut self, connection: usize) {
        self.connection = connection;
    }

    fn transfers_left(&self) -> u64 {
        self.left
    }

    fn ask(&mut self, tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        write!(out, "PUB {SUBJECT} sent.{}.{tag} {}\r\n{}\r\n", self.connection, self.body.len(), self.body)?;
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some(delivery) = delivery(bytes)? else { return Ok(None) };
        let said = String::from_utf8_lossy(delivery.payload);
        ensure!(said.contains("\"seq\""), "NATS answered a message with {said}");
        let tag = delivery.subject.rsplit('.').next().unwrap_or_default().parse()?;
        Ok(Some(Answer::one_applied(delivery.end, tag)))
    }
}

/// Pulls messages and acknowledges them. A request in flight stands for a message that is expected.
pub struct Pulls {
    messages: u64,
    /// Not expected yet.
    left: u64,
    windows: Vec<Window>,
    connection: usize,
    /// Where what was received is acknowledged, which is done at once.
    received: VecDeque<String>,
}

impl Dialect for Pulls {
    const IN_ORDER: bool = true;

    fn greet(&mut self, socket: &mut TcpStream) -> Result<()> {
        greet(socket)?;
        Ok(write!(socket, "SUB pulled.{} 1\r\n", self.connection)?)
    }

    fn turn_to(&mut self, connection: usize) {
        self.connection = connection;
        self.windows.resize_with(self.windows.len().max(connection + 1), Window::default);
    }

    fn transfers_left(&self) -> u64 {
        self.messages
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        for subject in self.received.drain(..) {
            write!(out, "PUB {subject} 0\r\n\r\n")?;
        }
        let window = &mut self.windows[self.connection];
        let (is_expected, batch) = match self.left {
            0 => (false, window.tell()),
            _ => (true, window.expect_one()),
        };
        self.left -= u64::from(is_expected);
        if let Some(batch) = batch {
            let request = format!("{{\"batch\":{batch}}}");
            let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}");
            write!(out, "PUB {subject} pulled.{} {}\r\n{request}\r\n", self.connection, request.len())?;
        }
        Ok(is_expected)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some(delivery) = delivery(bytes)? else { return Ok(None) };
        let reply = delivery.reply.with_context(|| format!("NATS sent {}", String::from_utf8_lossy(bytes)))?;
        self.received.push_back(reply.to_owned());
        Ok(Some(Answer::one_applied(delivery.end, 0)))
    }
}

/// A message as the server sends it.
#[derive(Debug, PartialEq, Eq)]
struct Delivery<'a> {
    subject: &'a str,
    reply: Option<&'a str>,
    payload: &'a [u8],
    end: usize,
}

/// The delivery at the front, if all of it is there. In front of it the server may have asked whether we are there; it
/// asks again after ten minutes before it closes a connection, and no load takes as long.
fn delivery(bytes: &[u8]) -> Result<Option<Delivery<'_>>> {
    if let Some(rest) = bytes.strip_prefix(PING) {
        return Ok(delivery(rest)?.map(|found| Delivery { end: found.end + PING.len(), ..found }));
    }
    let Some(line_end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = std::str::from_utf8(&bytes[..line_end])?.trim_end();
    let mut words = line.split(' ');
    let kind = words.next().unwrap_or_default();
    ensure!(kind == "MSG", "a message was expected, but NATS said {line:?}");
    let words: Vec<&str> = words.collect();
    let (subject, reply, length) = match words[..] {
        [subject, _, length] => (subject, None, length),
        [subject, _, reply, length] => (subject, Some(reply), length),
        _ => bail!("NATS said {line:?}"),
    };
    let (begin, length) = (line_end + 1, length.parse::<usize>()?);
    let end = begin + length + 2;
    let payload = bytes.get(begin..begin + length);
    Ok(payload.filter(|_| bytes.len() >= end).map(|payload| Delivery { subject, reply, payload, end }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_cut_where_they_end() {
        let bytes = b"MSG pulled.3 1 $JS.ACK.BENCH.r.1.2 4\r\na\r\nb\r\nMSG sent.1.7 1 0\r\n\r\n";
        for cut in 0..44 {
            assert_eq!(delivery(&bytes[..cut]).unwrap(), None, "cut at {cut}");
        }
        let first = delivery(bytes).unwrap().unwrap();
        assert_eq!(
            (first.subject, first.reply, first.payload),
            ("pulled.3", Some("$JS.ACK.BENCH.r.1.2"), &b"a\r\nb"[..])
        );
        let second = delivery(&bytes[first.end..]).unwrap().unwrap();
        assert_eq!((second.subject, second.reply, first.end + second.end), ("sent.1.7", None, bytes.len()));
        let asked = [PING, &bytes[first.end..]].concat();
        let behind = delivery(&asked).unwrap().unwrap();
        assert_eq!((behind.subject, behind.end), ("sent.1.7", asked.len()));
        assert_eq!(delivery(PING).unwrap(), None);
        assert!(delivery(b"-ERR 'Stale Connection'\r\n").is_err());
    }

    #[test]
    fn a_pull_acknowledges_what_came_and_asks_for_half_a_window() {
        let mut pulls = Pulls { messages: 33, left: 33, windows: vec![], connection: 0, received: VecDeque::new() };
        pulls.turn_to(1);
        let mut out = Vec::new();
        let expected = (0..40).filter(|tag| pulls.ask(*tag, &mut out).unwrap()).count();
        let asked = String::from_utf8(std::mem::take(&mut out)).unwrap();
        assert_eq!(expected, 33);
        assert!(asked.contains("{\"batch\":32}") && asked.contains("{\"batch\":1}"), "{asked}");
        pulls.answer(b"MSG pulled.1 1 ack.1 1\r\na\r\n").unwrap().unwrap();
        assert!(!pulls.ask(0, &mut out).unwrap());
        assert_eq!(out, b"PUB ack.1 0\r\n\r\n");
    }
}

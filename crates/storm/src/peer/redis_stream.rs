//! A stream in Redis with a consumer group, synced before every answer (`appendfsync always`): XADD; XREADGROUP, then
//! XACK and XDEL, so that what was received is gone.

use super::queue::QueueServer;
use super::redis::{Redis, Session, encode};
use crate::load::{Answer, Dialect, Outcomes, Pressure};
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;

const STREAM: &str = "bench";
const GROUP: &str = "receivers";
/// Messages that a receiver asks for at once.
const AT_ONCE: u64 = 64;
/// How long a receiver waits for messages.
const WAIT_MS: &str = "2000";

/// A stream in a server of our own.
pub struct RedisStream {
    redis: Redis,
}

impl RedisStream {
    /// Starts Redis, and makes the stream.
    pub fn start(directory: &Path) -> Result<RedisStream> {
        let redis = Redis::start(directory)?;
        Session::open(redis.address())?.call(&["XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM"])?;
        Ok(RedisStream { redis })
    }
}

impl QueueServer for RedisStream {
    const RECEIVERS: Pressure = Pressure { connections: 16, in_flight: 4 };
    type Sends = Adds;
    type Receives = Reads;

    fn address(&self) -> SocketAddr {
        self.redis.address()
    }

    fn sends(&self, messages: u64, bytes: usize) -> Adds {
        Adds { left: messages, body: "b".repeat(bytes) }
    }

    fn receives(&self, messages: u64) -> Reads {
        Reads { messages, left: messages, asked: Vec::new(), received: VecDeque::new(), connection: 0 }
    }
}

/// Adds messages.
pub struct Adds {
    left: u64,
    body: String,
}

impl Dialect for Adds {
    const IN_ORDER: bool = true;

    fn transfers_left(&self) -> u64 {
        self.left
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        encode(out, &["XADD", STREAM, "*", "b", &self.body]);
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let mut words = Words { bytes, at: 0 };
        match words.next()? {
            None => Ok(None),
            Some(Word::Text(_)) => Ok(Some(Answer::one_applied(words.at, 0))),
            Some(other) => bail!("Redis answered XADD with {other:?}"),
        }
    }
}

/// Reads messages and acknowledges them.
pub struct Reads {
    messages: u64,
    /// Neither received nor asked for.
    left: u64,
    /// Of each connection: for how many messages each of its reads has asked.
    asked: Vec<VecDeque<u64>>,
    /// Ids of what was received and is not acknowledged yet.
    received: VecDeque<Vec<String>>,
    connection: usize,
}

impl Reads {
    fn acknowledge(&self, ids: &[String], out: &mut Vec<u8>) {
        let ids = || ids.iter().map(String::as_str);
        encode(out, &["XACK", STREAM, GROUP].into_iter().chain(ids()).collect::<Vec<_>>());
        encode(out, &["XDEL", STREAM].into_iter().chain(ids()).collect::<Vec<_>>());
    }

    /// What a read has brought.
    fn take(&mut self, ids: Vec<String>) -> Result<()> {
        let asked = self.asked[self.connection].pop_front().context("an answer to no read")?;
        self.left += asked - ids.len() as u64;
        if !ids.is_empty() {
            self.received.push_back(ids);
        }
        Ok(())
    }
}

impl Dialect for Reads {
    const IN_ORDER: bool = true;

    fn turn_to(&mut self, connection: usize) {
        self.connection = connection;
        self.asked.resize_with(self.asked.len().max(connection + 1), VecDeque::new);
    }

    fn transfers_left(&self) -> u64 {
        self.messages
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        if let Some(ids) = self.received.pop_front() {
            self.acknowledge(&ids, out);
            return Ok(true);
        }
        let count = self.left.min(AT_ONCE);
        if count == 0 {
            return Ok(false);
        }
        self.left -= count;
        self.asked[self.connection].push_back(count);
        let (group, count) = (["XREADGROUP", "GROUP", GROUP, "one"], count.to_string());
        let rest = ["COUNT", &count, "BLOCK", WAIT_MS, "STREAMS", STREAM, ">"];
        encode(out, &group.into_iter().chain(rest).collect::<Vec<_>>());
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let mut words = Words { bytes, at: 0 };
        let mut outcomes = Outcomes::default();
        match words.next()? {
            None => return Ok(None),
            Some(Word::Number(acknowledged)) => {
                // Of XACK; behind it is the number of XDEL.
                if words.next()?.is_none() {
                    return Ok(None);
                }
                outcomes.applied = acknowledged;
            }
            Some(Word::Nothing) => self.take(Vec::new())?,
            Some(Word::List(1)) => match ids(&mut words)? {
                Some(ids) => self.take(ids)?,
                None => return Ok(None),
            },
            Some(other) => bail!("Redis answered a receiver with {other:?}"),
        }
        Ok(Some(Answer { bytes: words.at, tag: 0, outcomes }))
    }
}

/// The ids of the entries of one stream.
fn ids(words: &mut Words<'_>) -> Result<Option<Vec<String>>> {
    let (Some(Word::List(2)), Some(Word::Text(_)), Some(entries)) = (words.next()?, words.next()?, words.next()?)
    else {
        return Ok(None);
    };
    let Word::List(count) = entries else { bail!("expected entries, not {entries:?}") };
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        // An id, and one field with its value.
        let (entry, id) = (words.next()?, words.next()?);
        let (fields, name, value) = (words.next()?, words.next()?, words.next()?);
        let (Some(_), Some(Word::Text(id)), Some(_), Some(_), Some(_)) = (entry, id, fields, name, value) else {
            return Ok(None);
        };
        ids.push(std::str::from_utf8(id)?.to_owned());
    }
    Ok(Some(ids))
}

/// The words of an answer in Redis' protocol.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word<'a> {
    Text(&'a [u8]),
    Number(u64),
    /// So many words or lists follow.
    List(usize),
    /// No text or no list.
    Nothing,
}

impl<'a> Words<'a> {
    /// `None` when more must arrive first.
    fn next(&mut self) -> Result<Option<Word<'a>>> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line = std::str::from_utf8(&rest[..end])?.trim_end();
        let begin = self.at + end + 1;
        let (kind, value) = line.split_at_checked(1).context("an empty line")?;
        let (word, next) = match kind {
            "$" | "*" if value == "-1" => (Word::Nothing, begin),
            "*" => (Word::List(value.parse()?), begin),
            ":" => (Word::Number(value.parse()?), begin),
            "$" => {
                let length: usize = value.parse()?;
                if self.bytes.len() < begin + length + 2 {
                    return Ok(None);
                }
                (Word::Text(&self.bytes[begin..begin + length]), begin + length + 2)
            }
            _ => bail!("Redis said {line:?}"),
        };
        self.at = next;
        Ok(Some(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(messages: u64) -> Reads {
        Reads { messages, left: messages, asked: Vec::new(), received: VecDeque::new(), connection: 0 }
    }

    #[test]
    fn what_is_read_is_acknowledged_and_what_did_not_come_is_asked_for_again() {
        let (mut reads, mut out) = (reads(3), Vec::new());
        reads.turn_to(2);
        assert!(reads.ask(0, &mut out).unwrap() && !reads.ask(1, &mut out).unwrap());
        let read = "*1\r\n*2\r\n$5\r\nbench\r\n*2\r\n\
                    *2\r\n$3\r\n7-0\r\n*2\r\n$1\r\nb\r\n$4\r\na\r\nb\r\n*2\r\n$3\r\n7-1\r\n*2\r\n\
                    $1\r\nb\r\n$1\r\nc\r\n";
        for cut in 0..read.len() {
            assert!(reads.answer(&read.as_bytes()[..cut]).unwrap().is_none(), "cut at {cut}");
        }
        assert_eq!(reads.answer(read.as_bytes()).unwrap().unwrap().bytes, read.len());
        out.clear();
        assert!(reads.ask(0, &mut out).unwrap() && reads.ask(1, &mut out).unwrap() && !reads.ask(2, &mut out).unwrap());
        let asked = String::from_utf8(out).unwrap();
        assert!(asked.contains("XACK") && asked.contains("XDEL") && asked.contains("7-1"), "{asked}");
        assert!(asked.contains("COUNT\r\n$1\r\n1\r\n"), "{asked}");
        let answers = b":2\r\n:2\r\n*-1\r\n";
        let answer = reads.answer(answers).unwrap().unwrap();
        assert_eq!((answer.bytes, answer.outcomes.applied), (8, 2));
        assert_eq!(reads.answer(&answers[8..]).unwrap().unwrap().bytes, 5);
        assert_eq!(reads.left, 1);
    }
}

//! beanstalkd with a log that is synced on each write (`-b`, `-f 0`): one thread, one epoll loop.
//!
//! In its favour: its receivers ask for the next message while they still have one, so that it never waits for them.

use super::queue::QueueServer;
use crate::load::{Answer, Dialect, Outcomes, Pressure};
use crate::process::{self, Server};
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PROGRAM: &str = "beanstalkd";
/// Seconds after which a message that is not acknowledged is handed out again: longer than a load.
const TIME_TO_RUN_S: u32 = 600;

/// A server of our own.
pub struct Beanstalkd {
    _server: Server,
    address: SocketAddr,
}

impl Beanstalkd {
    /// Starts it on a free port with its log in `directory`.
    pub fn start(directory: &Path) -> Result<Beanstalkd> {
        process::fresh_directory(directory)?;
        let address = process::free_address()?;
        let mut command = Command::new(PROGRAM);
        command.args(["-l", "127.0.0.1", "-p", &address.port().to_string(), "-f", "0", "-b"]).arg(directory);
        let mut server = Server::start("beanstalkd", &mut command, &directory.with_extension("log"))?;
        server.wait_until(Duration::from_secs(10), || process::accepts(address))?;
        Ok(Beanstalkd { _server: server, address })
    }

    /// What it is.
    pub fn version() -> Result<String> {
        let output = Command::new(PROGRAM).arg("-v").output();
        let output = output.context("beanstalkd is not installed: `apt-get install beanstalkd` installs it")?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

impl QueueServer for Beanstalkd {
    const RECEIVERS: Pressure = Pressure { connections: 16, in_flight: 4 };
    type Sends = Puts;
    type Receives = Reserves;

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn sends(&self, messages: u64, bytes: usize) -> Puts {
        Puts { left: messages, body: "b".repeat(bytes) }
    }

    fn receives(&self, messages: u64) -> Reserves {
        Reserves { messages, left: messages, reserved: VecDeque::new() }
    }
}

/// Puts messages.
pub struct Puts {
    left: u64,
    body: String,
}

impl Dialect for Puts {
    const IN_ORDER: bool = true;

    fn transfers_left(&self) -> u64 {
        self.left
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        write!(out, "put 0 0 {TIME_TO_RUN_S} {}\r\n{}\r\n", self.body.len(), self.body)?;
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some((line, end)) = line(bytes)? else { return Ok(None) };
        if !line.starts_with("INSERTED ") {
            bail!("beanstalkd answered a put with {line:?}");
        }
        Ok(Some(Answer::one_applied(end, 0)))
    }
}

/// Reserves messages and deletes them. Who has reserved one must delete it, and does so at once.
pub struct Reserves {
    messages: u64,
    /// Not asked for yet.
    left: u64,
    reserved: VecDeque<u64>,
}

impl Dialect for Reserves {
    const IN_ORDER: bool = true;

    fn transfers_left(&self) -> u64 {
        self.messages
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        if let Some(id) = self.reserved.pop_front() {
            write!(out, "delete {id}\r\n")?;
            return Ok(true);
        }
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        out.extend_from_slice(b"reserve\r\n");
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some((line, mut end)) = line(bytes)? else { return Ok(None) };
        let mut outcomes = Outcomes::default();
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["RESERVED", id, length] => {
                end += length.parse::<usize>()? + 2;
                if bytes.len() < end {
                    return Ok(None);
                }
                self.reserved.push_back(id.parse()?);
            }
            ["DELETED"] => outcomes.applied = 1,
            _ => bail!("beanstalkd answered a receiver with {line:?}"),
        }
        Ok(Some(Answer { bytes: end, tag: 0, outcomes }))
    }
}

/// The line at the front, and where it ends.
fn line(bytes: &[u8]) -> Result<Option<(&str, usize)>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    Ok(Some((std::str::from_utf8(&bytes[..end])?.trim_end(), end + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_deleted_once_all_of_it_is_there() {
        let mut reserves = Reserves { messages: 1, left: 1, reserved: VecDeque::new() };
        let mut out = Vec::new();
        assert!(reserves.ask(0, &mut out).unwrap() && !reserves.ask(1, &mut out).unwrap());
        let answer = b"RESERVED 42 3\r\na\nb\r\nDELETED\r\n";
        for cut in 0..20 {
            assert!(reserves.answer(&answer[..cut]).unwrap().is_none(), "cut at {cut}");
        }
        assert_eq!(reserves.answer(answer).unwrap().unwrap().bytes, 20);
        assert!(reserves.ask(0, &mut out).unwrap());
        assert_eq!(out, b"reserve\r\ndelete 42\r\n");
        assert_eq!(reserves.answer(&answer[20..]).unwrap().unwrap().outcomes.applied, 1);
    }
}

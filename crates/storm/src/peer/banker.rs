//! A banker in Redis, as most who pace bids have one: a campaign's money is a key, and a Lua script checks and
//! decrements it, atomically, for a packet of requests at once.
//!
//! In its favour: the bidder talks to it without a process in between, synced to disk once a second (`appendfsync
//! everysec`, as such bankers run), no tokens, no flights, no strategy, no frequency caps, and nothing returns when a
//! bid does not win.

use super::redis::{self, Session, encode};
use crate::hammer::{Answer, Answers, Campaigns, Protocol, To, Won};
use crate::process::{self, Server};
use crate::workload::scramble;
use anyhow::{Context, Result, bail, ensure};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tidegate_wire::pacer::NoBidReason;

const SCRIPT: &str = include_str!("banker.lua");

/// What each campaign may spend, in millionths: more than any run can.
const BUDGET_MICROS: u64 = 1 << 50;
/// What one bid costs, in millionths.
const PRICE_MICROS: &str = "2500";

/// A Redis server of our own that has the money of campaigns.
pub struct Banker {
    server: Server,
    address: SocketAddr,
}

impl Banker {
    /// Starts it on a free port with its files in `directory`, and gives every campaign its money.
    pub fn start(directory: &Path, campaigns: &Campaigns) -> Result<Banker> {
        process::fresh_directory(directory)?;
        let address = process::free_address()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "everysec"]);
        command.arg("--dir").arg(directory);
        let mut server = Server::start("redis-server", &mut command, &directory.with_extension("log"))?;
        server.wait_until(Duration::from_secs(10), || process::accepts(address))?;
        let mut session = Session::open(address)?;
        for campaign in &campaigns.0 {
            session.call(&["SET", &key(*campaign), &BUDGET_MICROS.to_string()])?;
        }
        Ok(Banker { server, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Processor time it has used.
    pub fn processor_time(&self) -> Result<Duration> {
        self.server.processor_time()
    }

    /// What it is.
    pub fn version() -> Result<String> {
        redis::Redis::version()
    }

    /// Asks it for packets of `packet` requests, for each campaign equally often.
    pub fn packets(&self, campaigns: &Campaigns, packet: usize) -> Result<Packets> {
        let script = Session::open(self.address)?.call(&["SCRIPT", "LOAD", SCRIPT])?;
        let mut campaigns = campaigns.0.clone();
        campaigns.sort_by_cached_key(|campaign| scramble(u64::from(*campaign)));
        let requests = campaigns
            .chunks(packet)
            .map(|campaigns| {
                // The last packet is filled up, so that all have the same length.
                let keys: Vec<String> = campaigns.iter().cycle().take(packet).map(|number| key(*number)).collect();
                let (count, mut request) = (packet.to_string(), Vec::new());
                let keys = keys.iter().map(String::as_str);
                let words: Vec<&str> =
                    ["EVALSHA", &script, &count].into_iter().chain(keys).chain([PRICE_MICROS]).collect();
                encode(&mut request, &words);
                request
            })
            .collect();
        Ok(Packets { requests, next: 0, packet })
    }
}

fn key(campaign: u32) -> String {
    format!("campaign:{campaign}")
}

/// Packets as calls of the script.
#[derive(Clone)]
pub struct Packets {
    requests: Vec<Vec<u8>>,
    next: usize,
    packet: usize,
}

impl Protocol for Packets {
    type Won = Won;
    const IN_ORDER: bool = true;

    fn greet(&mut self, _socket: &mut TcpStream) -> Result<()> {
        Ok(())
    }

    fn bids_per_packet(&self) -> u64 {
        self.packet as u64
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.requests[self.next]);
        self.next = (self.next + 1) % self.requests.len();
    }

    fn answer(&mut self, bytes: &[u8], answers: &mut Answers, _won: &mut Vec<Won>) -> Result<Option<Answer>> {
        let Some((count, mut at)) = number(bytes, b'*')? else { return Ok(None) };
        ensure!(count == self.packet as u64, "{} requests were answered with {count} bids", self.packet);
        let mut counted = *answers;
        for _ in 0..count {
            let Some((price, end)) = number(&bytes[at..], b':')? else { return Ok(None) };
            if price > 0 {
                counted.bids += 1
            } else {
                counted.no_bid(NoBidReason::NoLease)
            }
            at += end;
        }
        *answers = counted;
        Ok(Some(Answer { bytes: at, to: To::Packet(0) }))
    }

    fn notify(&mut self, _won: &mut Vec<Won>, _out: &mut Vec<u8>) -> u64 {
        0
    }
}

/// The number in the line at the front of `bytes`, behind the `kind` of the line, and how long the line is.
fn number(bytes: &[u8], kind: u8) -> Result<Option<(u64, usize)>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = &bytes[..end];
    let text = match line.split_first() {
        Some((first, rest)) if *first == kind => std::str::from_utf8(rest)?.trim_end(),
        _ => bail!("Redis answered {:?}", String::from_utf8_lossy(line)),
    };
    Ok(Some((text.parse().with_context(|| format!("Redis answered {text:?}"))?, end + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_once_they_are_whole() {
        let mut packets = Packets { requests: vec![], next: 0, packet: 3 };
        let bytes = b"*3\r\n:2500\r\n:0\r\n:2500\r\n*3\r\n";
        let (mut answers, mut won) = (Answers::default(), vec![]);
        let whole = bytes.len() - 4;
        for cut in 0..whole {
            assert_eq!(packets.answer(&bytes[..cut], &mut answers, &mut won).unwrap(), None);
        }
        let answer = packets.answer(bytes, &mut answers, &mut won).unwrap();
        assert_eq!(answer, Some(Answer { bytes: whole, to: To::Packet(0) }));
        assert_eq!((answers.bids, answers.requests()), (2, 3));
        let error = packets.answer(b"-NOSCRIPT No matching script.\r\n", &mut answers, &mut won).unwrap_err();
        assert!(error.to_string().contains("NOSCRIPT"), "{error}");
    }
}

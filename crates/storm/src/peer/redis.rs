//! A wallet in Redis: one Lua script per transfer, append-only file synced before every reply (`appendfsync always`),
//! which Redis does once per turn of its event loop, so that pipelined clients share a sync.
//!
//! In its favour: only the payer gets a history row (Tidegate writes one for both), and its keys are in memory only.

use crate::load::{Answer, Dialect, Outcomes};
use crate::process::{self, Server};
use crate::workload::{Account, FUNDS_PER_WALLET, Names, Workload};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SCRIPT: &str = include_str!("wallet.lua");

/// A Redis server of our own.
pub struct Redis {
    _server: Server,
    address: SocketAddr,
}

impl Redis {
    /// Starts it on a free port with its files in `directory`.
    pub fn start(directory: &Path) -> Result<Redis> {
        process::fresh_directory(directory)?;
        let address = process::free_address()?;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]);
        command.arg("--dir").arg(directory);
        let mut server = Server::start("redis-server", &mut command, &directory.with_extension("log"))?;
        server.wait_until(Duration::from_secs(10), || process::accepts(address))?;
        Ok(Redis { _server: server, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it is.
    pub fn version() -> Result<String> {
        let output = Command::new("redis-server")
            .arg("--version")
            .output()
            .context("Redis is not installed: `scripts/setup.sh redis` installs it")?;
        let text = String::from_utf8(output.stdout)?;
        let version = text.split_whitespace().find_map(|word| word.strip_prefix("v=")).context("no version")?;
        Ok(format!("Redis {version}"))
    }

    /// Gives every wallet its funds.
    pub fn fund(&self, names: &Names) -> Result<()> {
        let mut session = Session::open(self.address)?;
        for wallet in (0..names.wallets()).map(Account) {
            session.call(&["SET", names.of(wallet).as_str(), &FUNDS_PER_WALLET.to_string()])?;
        }
        Ok(())
    }

    /// Checks that money neither came nor went and that `applied` transfers left as many ids and history rows.
    pub fn verify(&self, names: &Names, applied: u64) -> Result<()> {
        let mut session = Session::open(self.address)?;
        let (mut held, mut rows, mut keys) = (0, 0, 0);
        for account in names.all() {
            let balance = session.call(&["GET", names.of(account).as_str()])?;
            keys += u64::from(!balance.is_empty());
            held += balance.parse::<u64>().unwrap_or(0);
            let length: u64 = session.call(&["LLEN", &format!("history:{}", names.of(account))])?.parse()?;
            keys += u64::from(length > 0);
            rows += length;
        }
        let ids = session.call(&["DBSIZE"])?.parse::<u64>()? - keys;
        let funded = u64::from(names.wallets()) * FUNDS_PER_WALLET;
        ensure!(held == funded, "Redis: accounts hold {held} in sum, funded were {funded}");
        ensure!(rows == applied && ids == applied, "Redis: {applied} applied but {rows} history rows and {ids} ids");
        Ok(())
    }
}

/// Blocking request and reply, for what is not measured.
pub struct Session {
    reader: BufReader<TcpStream>,
}

impl Session {
    /// Connects.
    pub fn open(address: SocketAddr) -> Result<Session> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        Ok(Session { reader: BufReader::new(socket) })
    }

    /// Asks, and gives the answer as text.
    pub fn call(&mut self, words: &[&str]) -> Result<String> {
        let mut request = Vec::new();
        encode(&mut request, words);
        self.reader.get_mut().write_all(&request)?;
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        match line.as_bytes().first() {
            Some(b':' | b'+') => Ok(line[1..].trim_end().to_owned()),
            Some(b'$') if line.starts_with("$-1") => Ok(String::new()),
            Some(b'$') => {
                line.clear();
                self.reader.read_line(&mut line)?;
                Ok(line.trim_end().to_owned())
            }
            _ => bail!("Redis answered {line:?} to {words:?}"),
        }
    }
}

/// One transfer a request, in the Redis protocol.
pub struct RedisWallet<'a> {
    names: &'a Names,
    work: Workload,
    script: String,
}

impl<'a> RedisWallet<'a> {
    /// Loads the script into `redis` and takes on `work`.
    pub fn new(redis: &Redis, names: &'a Names, work: Workload) -> Result<RedisWallet<'a>> {
        let script = Session::open(redis.address)?.call(&["SCRIPT", "LOAD", SCRIPT])?;
        Ok(RedisWallet { names, work, script })
    }
}

impl Dialect for RedisWallet<'_> {
    const IN_ORDER: bool = true;

    fn transfers_left(&self) -> u64 {
        self.work.left()
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        let Some(payment) = self.work.next() else { return Ok(false) };
        let amount = payment.amount.to_string();
        let (id, parties) = (payment.id.as_str(), self.names.parties(&payment));
        let (debit, credit) = (parties.debit.as_str(), parties.credit.as_str());
        encode(out, &["EVALSHA", &self.script, "3", id, debit, credit, &amount, id]);
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let outcomes = match &bytes[..=end] {
            b":1\r\n" => Outcomes { applied: 1, ..Outcomes::default() },
            b":2\r\n" => Outcomes { duplicate: 1, ..Outcomes::default() },
            b":0\r\n" => Outcomes { refused: 1, ..Outcomes::default() },
            other => bail!("Redis answered {:?}", String::from_utf8_lossy(other)),
        };
        Ok(Some(Answer { bytes: end + 1, tag: 0, outcomes }))
    }
}

/// Appends a command.
pub fn encode(out: &mut Vec<u8>, words: &[&str]) {
    write!(out, "*{}\r\n", words.len()).expect("a vector takes all");
    for word in words {
        write!(out, "${}\r\n{word}\r\n", word.len()).expect("a vector takes all");
    }
}

//! A blocking client of the binary port: opens accounts, reads them back, makes single payments one after the other.

use super::binary::transfer;
use super::server::TOKEN;
use crate::workload::{Name, Names, Payment};
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tidegate_wire::proto::{self, AccountKind, OutcomeKind, reply_frame, request_frame};
use tidegate_wire::{
    OpenAccountsEncoder, ReplyBodyRef, Split, TransferRef, TransfersEncoder, decode_reply, encode_request, limits,
    split,
};

/// What all accounts of a bench are counted in.
const ASSET: &str = "credit";

/// Says who we are; the connection may then ask anything.
pub fn log_in(socket: &mut TcpStream) -> Result<()> {
    log_in_as(socket, TOKEN)
}

/// The same as the service with this token.
pub fn log_in_as(socket: &mut TcpStream, token: &str) -> Result<()> {
    let mut session = Session { socket: socket.try_clone()?, inbox: Vec::new() };
    let hello = request_frame::Body::Hello(proto::Hello { token: token.to_owned() });
    match session.call(hello)? {
        reply_frame::Body::Welcome(_) => Ok(()),
        reply_frame::Body::Error(error) => {
            bail!(
                "the server did not welcome us: {}: {}; is the token that of one of its services?",
                error.code,
                error.detail
            )
        }
        other => bail!("the server did not welcome us: {other:?}"),
    }
}

/// One connection, logged in.
pub struct Session {
    socket: TcpStream,
    inbox: Vec<u8>,
}

impl Session {
    /// Connects and logs in.
    pub fn open(address: SocketAddr) -> Result<Session> {
        Session::open_as(address, TOKEN)
    }

    /// The same as the service with this token.
    pub fn open_as(address: SocketAddr, token: &str) -> Result<Session> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        log_in_as(&mut socket, token)?;
        Ok(Session { socket, inbox: Vec::new() })
    }

    /// Opens every account of a run.
    pub fn open_accounts(&mut self, names: &Names) -> Result<()> {
        let accounts: Vec<Name> = names.all().map(|account| names.of(account)).collect();
        let with_kind = accounts.iter().map(|name| {
            let kind = match name.as_bytes()[0] {
                b'w' => AccountKind::Wallet,
                b'c' => AccountKind::Collector,
                _ => AccountKind::Source,
            };
            (name.as_str(), kind)
        });
        self.open_all(with_kind, ASSET)
    }

    /// Opens accounts that count in `asset`.
    pub fn open_all<'n>(
        &mut self,
        accounts: impl IntoIterator<Item = (&'n str, AccountKind)>,
        asset: &str,
    ) -> Result<()> {
        let accounts: Vec<(&str, AccountKind)> = accounts.into_iter().collect();
        for batch in accounts.chunks(limits::TRANSFERS_MAX) {
            let mut request = Vec::new();
            let mut frame = OpenAccountsEncoder::begin(&mut request, 1);
            for (id, kind) in batch {
                frame.push(id.as_bytes(), asset.as_bytes(), *kind);
            }
            frame.finish();
            self.all_applied(&request).context("an account was not opened")?;
        }
        Ok(())
    }

    /// Pays `amount` from one account to each of others, once.
    pub fn fund(&mut self, source: &str, accounts: &[String], amount: u64) -> Result<()> {
        for batch in accounts.chunks(limits::TRANSFERS_MAX) {
            let mut request = Vec::new();
            let mut frame = TransfersEncoder::begin(&mut request, 1, false);
            for account in batch {
                let id = format!("fund:{account}");
                let (debit, credit) = (source.as_bytes(), account.as_bytes());
                frame.push(&TransferRef { id: id.as_bytes(), debit, credit, amount, ..TransferRef::default() });
            }
            frame.finish();
            self.all_applied(&request).context("an account was not funded")?;
        }
        Ok(())
    }

    fn all_applied(&mut self, request: &[u8]) -> Result<()> {
        self.socket.write_all(request)?;
        match self.receive()? {
            reply_frame::Body::Outcomes(outcomes) => {
                let refused = outcomes.outcomes.iter().find(|outcome| outcome.outcome() != OutcomeKind::Applied);
                ensure!(refused.is_none(), "refused: {refused:?}");
                Ok(())
            }
            other => bail!("outcomes were expected, not {other:?}"),
        }
    }

    /// Makes one payment, which must be applied.
    pub fn pay(&mut self, names: &Names, payment: &Payment) -> Result<()> {
        let mut request = Vec::new();
        let mut frame = TransfersEncoder::begin(&mut request, 1, false);
        frame.push(&transfer(payment, &names.parties(payment)));
        frame.finish();
        loop {
            self.socket.write_all(&request)?;
            match self.receive()? {
                reply_frame::Body::Outcomes(paid) => {
                    let refused = paid.outcomes.iter().find(|paid| paid.outcome() != OutcomeKind::Applied);
                    ensure!(refused.is_none(), "a payment was not applied: {refused:?}");
                    return Ok(());
                }
                reply_frame::Body::Error(error) if error.code == "busy" => {
                    std::thread::sleep(Duration::from_millis(error.retry_after_ms.max(1).into()));
                }
                other => bail!("a payment was not applied: {other:?}"),
            }
        }
    }

    /// The last reconciliation of each shard.
    pub fn audit(&mut self) -> Result<Vec<proto::AuditReport>> {
        match self.call(request_frame::Body::ReadAudit(proto::ReadAudit {}))? {
            reply_frame::Body::Audit(audit) => Ok(audit.shards),
            other => bail!("an audit was expected, not {other:?}"),
        }
    }

    /// Reads all accounts.
    pub fn accounts(&mut self) -> Result<Vec<proto::Account>> {
        let mut all: Vec<proto::Account> = Vec::new();
        loop {
            let after = all.last().map_or(String::new(), |account| account.id.clone());
            let list = proto::ListAccounts { prefix: String::new(), after, limit: 1_000 };
            match self.call(request_frame::Body::ListAccounts(list))? {
                reply_frame::Body::Accounts(page) if page.accounts.is_empty() => return Ok(all),
                reply_frame::Body::Accounts(page) => all.extend(page.accounts),
                // A ledger of many accounts sorts them for a while after its start.
                reply_frame::Body::Error(error) if error.code == "busy" => {
                    std::thread::sleep(Duration::from_millis(error.retry_after_ms.max(1).into()));
                }
                other => bail!("accounts were expected, not {other:?}"),
            }
        }
    }

    fn call(&mut self, body: request_frame::Body) -> Result<reply_frame::Body> {
        let mut request = Vec::new();
        encode_request(&mut request, 1, body);
        self.socket.write_all(&request)?;
        self.receive()
    }

    fn receive(&mut self) -> Result<reply_frame::Body> {
        loop {
            match split(&self.inbox, limits::FRAME_BYTES_MAX)? {
                Split::Frame(range) => {
                    let end = range.end;
                    let body = match decode_reply(&self.inbox[range])?.body {
                        ReplyBodyRef::Other(body) => body,
                        ReplyBodyRef::Outcomes(outcomes) => reply_frame::Body::Outcomes(outcomes.to_proto()?),
                        ReplyBodyRef::Room(room) => bail!("no room was asked, but it answered: {room:?}"),
                    };
                    self.inbox.drain(..end);
                    return Ok(body);
                }
                Split::NeedMore { bytes } => {
                    let filled = self.inbox.len();
                    self.inbox.resize(filled + bytes, 0);
                    self.socket.read_exact(&mut self.inbox[filled..]).context("the server closed the connection")?;
                }
            }
        }
    }
}

/// What a set of accounts adds up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Of all balances: zero, as every debit is a credit elsewhere.
    pub balance: i128,
    /// Of all holds.
    pub held: u128,
    /// Of all that ever came in.
    pub credited: u128,
}

/// Adds up what the server says of its accounts.
pub fn sums(accounts: &[proto::Account]) -> Result<Sums> {
    let mut sums = Sums::default();
    for account in accounts {
        sums.balance += i128::from(account.balance);
        sums.held += u128::from(account.held);
        let credited: u128 = account.credited.parse().with_context(|| format!("credited of {}", account.id))?;
        sums.credited += credited;
        let is_wallet = account.kind() == AccountKind::Wallet;
        ensure!(!is_wallet || account.balance >= 0, "{} is below zero: {}", account.id, account.balance);
    }
    Ok(sums)
}

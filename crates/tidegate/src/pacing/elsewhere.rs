//! The ledger of another server, over its binary port.
//!
//! Promise: a request whose answer is lost is asked again with the same ids, so nothing is held or paid twice. While
//! the other server is away, no lease is opened, and bids end with those that there are.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tidegate_client::{ClientError, Hold, Outcome, Timeouts, Transfer};
use tidegate_config::{Document, FilePath, Flag, NoDefault, Optional, Text, config};
use tidegate_link::{Connected, OtherServer, ServerKeys, TlsKeys};

use super::money::{Decided, HoldOf, Ledger, OpenHold, Refused};

config! {
    /// `[pacing.ledger]`.
    pub struct PacingLedgerKeys in "pacing.ledger" {
        address: Optional<Text> = NoDefault, .., restart,
            "binary port of the server whose ledger has the money of campaigns, as HOST:PORT; without it, that of this \
             server has it. Several servers can spend the money of one account: none of them more than there is";
        token: Optional<Text> = NoDefault, .., restart,
            "token of a service there that may hold money of the accounts behind pacing.account_prefix for those \
             behind pacing.spend_prefix, and settle holds (grants \"debit:campaign:*\", \"credit:spend:*\" and \
             \"holds:settle\"); only for development";
        token_file: Optional<FilePath> = NoDefault, .., restart, "file with the token";
        tls: Flag = false, .., restart, "whether the binary port of the other server speaks TLS";
        ca_file: Optional<FilePath> = NoDefault, .., restart,
            "PEM file of the authorities that sign its certificate; without it, those that this machine trusts";
        cert_file: Optional<FilePath> = NoDefault, .., restart,
            "PEM file of the certificate that is shown there, if one is wanted";
        key_file: Optional<FilePath> = NoDefault, .., restart, "PEM file of its key";
        server_name: Optional<Text> = NoDefault, .., restart,
            "for whom the other server's certificate is; without it, for the host of the address";
    }
}

/// How long the other server keeps what is held for a lease. A lease is settled when its last bid's deadline has
/// passed, also after a crash; this is for a pacer whose logs are lost for good.
const HOLD_MS: u64 = 30 * 86_400_000;
/// A lease lasts for about a second, so nobody waits long for another one.
const TIMEOUTS: Timeouts =
    Timeouts { connect: Duration::from_secs(2), read: Duration::from_secs(5), write: Duration::from_secs(5) };
/// After a failure, it is tried again then.
const AGAIN: Duration = Duration::from_millis(500);
/// Holds of one request: small enough for a server that takes fewer than most.
const BATCH: usize = 1_000;

/// The other server, if the configuration names one.
pub fn ledger_elsewhere(document: &Document) -> Result<Option<OtherServer>> {
    let keys: PacingLedgerKeys = document.section()?;
    let PacingLedgerKeys { address, token, token_file, tls, ca_file, cert_file, key_file, server_name } = keys;
    let written = [
        ("token", token.is_some()),
        ("token_file", token_file.is_some()),
        ("tls", tls),
        ("ca_file", ca_file.is_some()),
        ("cert_file", cert_file.is_some()),
        ("key_file", key_file.is_some()),
        ("server_name", server_name.is_some()),
    ];
    let Some(address) = address else {
        return match written.into_iter().find(|(_, is_written)| *is_written) {
            Some((key, _)) => Err(document
                .error_at(
                    &format!("pacing.ledger.{key}"),
                    format!("pacing.ledger.{key}: it is of use only with address"),
                )
                .into()),
            None => Ok(None),
        };
    };
    let tls = TlsKeys { tls, ca_file, cert_file, key_file, server_name };
    ServerKeys { address, token, token_file, tls }.settled(document, "pacing.ledger").map(Some)
}

/// The ledger of another server. For one thread.
pub struct Elsewhere {
    server: Arc<OtherServer>,
    /// `None` while it is used, and before the first request.
    open: RefCell<Option<Connected>>,
    /// By what was asked: when it failed last, and why. It is not asked again for a while.
    failed: RefCell<[Option<(Instant, Failed)>; 3]>,
}

/// Why a request was not done, or not wholly.
#[derive(Clone)]
enum Failed {
    /// It is not known whether anything was.
    Unanswered(String),
    /// The token may not do it, whatever it is asked for.
    Forbidden(String),
}

/// What is asked.
enum Asked {
    Place(Vec<OwnedHold>),
    Post(Vec<(Box<str>, u64)>),
    Void(Vec<Box<str>>),
}

struct OwnedHold {
    id: Box<str>,
    debit: Box<str>,
    credit: Box<str>,
    amount: u64,
}

impl Elsewhere {
    /// Of this server. It connects when it is asked for something.
    pub fn new(server: OtherServer) -> Elsewhere {
        server.warn_if_open("pacing.ledger");
        Elsewhere { server: Arc::new(server), open: RefCell::default(), failed: RefCell::default() }
    }

    async fn ask(&self, asked: Asked) -> Result<Vec<Decided>, String> {
        let kind = asked.kind();
        let asked_for = asked.count();
        if let Some((at, failed)) = &self.failed.borrow()[kind]
            && at.elapsed() < AGAIN
        {
            return failed.clone().answer(asked_for);
        }
        let (open, server) = (self.open.take(), self.server.clone());
        // The connection comes back if it is as good as before: also when the server refused what it was asked.
        let exchange = move || {
            let mut connected = match open.map_or_else(|| server.connect(TIMEOUTS), Ok) {
                Ok(connected) => connected,
                Err(error) => return (None, Err(Failed::Unanswered(server.why(&error)))),
            };
            let outcomes = asked.over(&mut connected);
            let usable = matches!(outcomes, Ok(_) | Err(ClientError::Server(_)));
            let failed = |error| match error {
                ClientError::Server(error) if error.code == "forbidden" => Failed::Forbidden(error.to_string()),
                error => Failed::Unanswered(server.why(&error)),
            };
            (usable.then_some(connected), outcomes.map_err(failed))
        };
        let exchanged = tokio::task::spawn_blocking(exchange).await;
        let (connected, outcomes) = exchanged.expect("the client of the binary port does not panic");
        let is_connected = connected.is_some();
        self.open.replace(connected);
        let outcomes = outcomes.map_err(|failed| failed.of(&self.server.address));
        let failed = outcomes.as_ref().err().map(|failed| (Instant::now(), failed.clone()));
        let mut all_failed = self.failed.borrow_mut();
        // Who is not reached is not reached for anything. Who refuses one thing may do another.
        let of = if is_connected { kind..=kind } else { 0..=2 };
        all_failed[of].fill(failed);
        outcomes.or_else(|failed| failed.answer(asked_for))
    }
}

impl Failed {
    /// With the name of the server.
    fn of(self, address: &str) -> Failed {
        let name = |why| format!("{address}, which has the ledger: {why}");
        match self {
            Failed::Unanswered(why) => Failed::Unanswered(name(why)),
            Failed::Forbidden(why) => Failed::Forbidden(name(why)),
        }
    }

    /// The answer to a request for so many holds.
    fn answer(self, count: usize) -> Result<Vec<Decided>, String> {
        match self {
            Failed::Unanswered(why) => Err(why),
            Failed::Forbidden(code) => Ok(vec![Err(Refused { code, available: 0 }); count]),
        }
    }
}

impl Asked {
    fn kind(&self) -> usize {
        match self {
            Asked::Place(_) => 0,
            Asked::Post(_) => 1,
            Asked::Void(_) => 2,
        }
    }

    fn count(&self) -> usize {
        match self {
            Asked::Place(holds) => holds.len(),
            Asked::Post(posts) => posts.len(),
            Asked::Void(ids) => ids.len(),
        }
    }

    fn over(&self, server: &mut Connected) -> Result<Vec<Decided>, ClientError> {
        match self {
            Asked::Place(holds) => in_batches(holds, |holds| place(holds, server)),
            Asked::Post(posts) => in_batches(posts, |posts| {
                let posts: Vec<_> = posts.iter().map(|(id, amount)| (&**id, Some(*amount))).collect();
                Ok(server.posts(&posts)?.into_iter().map(decided).collect())
            }),
            Asked::Void(ids) => in_batches(ids, |ids| {
                let ids: Vec<_> = ids.iter().map(|id| &**id).collect();
                Ok(server.voids(&ids)?.into_iter().map(decided).collect())
            }),
        }
    }
}

/// Asks for the items in parts.
fn in_batches<T>(
    items: &[T],
    mut ask: impl FnMut(&[T]) -> Result<Vec<Decided>, ClientError>,
) -> Result<Vec<Decided>, ClientError> {
    let mut all = Vec::with_capacity(items.len());
    for batch in items.chunks(BATCH) {
        all.extend(ask(batch)?);
    }
    Ok(all)
}

/// Places holds. The other server refuses all of a request if its token may not use the account of one: then each half
/// is asked for by itself, and so on, so that one campaign stops no other.
fn place(holds: &[OwnedHold], server: &mut Connected) -> Result<Vec<Decided>, ClientError> {
    let asked: Vec<_> = holds.iter().map(OwnedHold::as_wire).collect();
    match server.holds(&asked) {
        Ok(outcomes) => Ok(outcomes.into_iter().map(decided).collect()),
        Err(ClientError::Server(error)) if error.code == "forbidden" => {
            if holds.len() == 1 {
                return Ok(vec![Err(Refused { code: error.to_string(), available: 0 })]);
            }
            let (one, other) = holds.split_at(holds.len() / 2);
            let mut decided = place(one, server)?;
            decided.extend(place(other, server)?);
            Ok(decided)
        }
        Err(error) => Err(error),
    }
}

impl OwnedHold {
    fn as_wire(&self) -> Hold<'_> {
        let OwnedHold { id, debit, credit, amount } = self;
        Hold {
            transfer: Transfer { id, debit, credit, amount: *amount, ..Transfer::default() },
            expires_in_ms: HOLD_MS,
        }
    }
}

impl Ledger for Elsewhere {
    async fn place(&self, holds: &[HoldOf<'_>]) -> Result<Vec<Decided>, String> {
        let holds = holds.iter().map(|HoldOf { id, money }| OwnedHold {
            id: id.clone(),
            debit: money.account.clone(),
            credit: money.spend.clone(),
            amount: money.amount.0,
        });
        self.ask(Asked::Place(holds.collect())).await
    }

    async fn post(&self, posts: &[(Box<str>, u64)]) -> Result<Vec<Decided>, String> {
        self.ask(Asked::Post(posts.to_vec())).await
    }

    async fn void(&self, ids: &[Box<str>]) -> Result<Vec<Decided>, String> {
        self.ask(Asked::Void(ids.to_vec())).await
    }

    /// Nobody knows: a copy of this pacer's directory has the same ids.
    async fn own(&self, _account: &str) -> Result<Vec<OpenHold>, String> {
        Ok(Vec::new())
    }
}

fn decided(outcome: Outcome) -> Decided {
    match outcome {
        Outcome::Applied | Outcome::Duplicate => Ok(()),
        Outcome::Refused { code, available, .. } => Err(Refused { code, available }),
    }
}

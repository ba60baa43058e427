//! The ledger of another server, over its binary port.
//!
//! Promise: a request whose answer is lost is asked again with the same ids, so nothing is held or paid twice. While
//! the other server is away, no lease is opened, and bids end with those that there are. The same if it has another
//! ledger than before ([`super::receipt`]): each connection begins with that question.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tidegate_client::{ClientError, Hold, Outcome, Timeouts, Transfer};
use tidegate_config::{Document, FilePath, Flag, NoDefault, Optional, Text, config};
use tidegate_link::{Connected, OtherServer, ServerKeys, TlsKeys};
use tidegate_pacer::keeper::LedgerSeen;
use tokio::sync::Mutex;

use super::money::{Decided, HoldOf, Ledger, OpenHold, PostPage, Refused};
use super::receipt::{Ended, Receipt, Receipts, Shown};

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
/// And this long after a look at another ledger than before, until an operator has changed something.
const AGAIN_AT_OTHER: Duration = Duration::from_secs(3);
/// The ledger is asked so often whether it is the one that it was.
const RECHECK: Duration = Duration::from_secs(1);
/// And so often where it does not find a hold.
const RECHECK_MISSED: Duration = Duration::from_millis(100);
/// Kinds of what is asked.
const KINDS: usize = 4;
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
    /// Held by who asks; `None` before the first request.
    open: Mutex<Option<Open>>,
    /// Holds of one request, at most: fewer, once the other server has said so.
    batch: Arc<AtomicUsize>,
    /// By what was asked: when it failed last, and why. It is not asked again for a while.
    failed: RefCell<[Option<(Instant, Failed)>; KINDS]>,
    receipts: Arc<Receipts>,
}

/// A connection to the ledger that it was before.
struct Open {
    connected: Connected,
    /// When that was looked at last.
    checked: Option<Instant>,
}

/// Why a request was not done, or not wholly.
#[derive(Clone)]
enum Failed {
    /// It is not known whether anything was.
    Unanswered(String),
    /// The token may not do it, whatever it is asked for.
    Forbidden(String),
    /// It has another ledger than before.
    Other(String),
}

/// What is asked.
enum Asked {
    /// Whether it answers.
    Nothing,
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
    /// Of this server, known again by the receipts. It connects when it is asked for something.
    pub fn new(server: OtherServer, receipts: Receipts) -> Elsewhere {
        server.warn_if_open("pacing.ledger");
        let (open, failed) = (Mutex::default(), RefCell::default());
        let batch = Arc::new(AtomicUsize::new(BATCH));
        Elsewhere { server: Arc::new(server), open, batch, failed, receipts: Arc::new(receipts) }
    }

    /// Asks for holds.
    async fn decide(&self, asked: Asked) -> Result<Vec<Decided>, String> {
        let count = asked.count();
        let mut open = self.open.lock().await;
        self.ask(asked, &mut open).await.or_else(|failed| failed.answer(count))
    }

    /// What was decided, of the first of what was asked if it is fewer: the others are to be asked for again.
    async fn ask(&self, asked: Asked, place: &mut Option<Open>) -> Result<Vec<Decided>, Failed> {
        let kind = asked.kind();
        if let Some((at, failed)) = &self.failed.borrow()[kind]
            && at.elapsed() < failed.pause()
        {
            return Err(failed.clone());
        }
        let (server, receipts, batch) = (self.server.clone(), self.receipts.clone(), self.batch.clone());
        let open = place.take();
        let was_connected = open.is_some();
        // The connection comes back if it is as good as before: also when the server refused what it was asked.
        let exchange = move || {
            receipts.save_in_time();
            let open = open.map_or_else(|| connect(&server), Ok);
            let mut open = match open.and_then(|open| open.known_again(RECHECK, &server, &receipts)) {
                Ok(open) => open,
                Err(failed) => return (None, Err(failed)),
            };
            let outcomes = asked.over(&mut open.connected, &batch);
            if let Ok(outcomes) = &outcomes {
                // A hold that is not there may be in the ledger before, or in another id space of this one.
                let within = if outcomes.iter().any(is_not_found) { RECHECK_MISSED } else { RECHECK };
                open = match open.known_again(within, &server, &receipts) {
                    Ok(open) => open,
                    Err(failed) => return (None, Err(failed)),
                };
                asked.keep_last(outcomes, &receipts);
            }
            receipts.save_in_time();
            let usable = matches!(outcomes, Ok(_) | Err(ClientError::Server(_)));
            let failed = |error| match error {
                ClientError::Server(error) if error.code == "forbidden" => Failed::Forbidden(error.to_string()),
                error => Failed::Unanswered(server.why(&error)),
            };
            (usable.then_some(open), outcomes.map_err(failed))
        };
        let exchanged = tokio::task::spawn_blocking(exchange).await;
        let (open, outcomes) = exchanged.expect("the client of the binary port does not panic");
        let is_connected = open.is_some();
        *place = open;
        let outcomes = outcomes.map_err(|failed| failed.of(&self.server.address));
        let failed = outcomes.as_ref().err().map(|failed| (Instant::now(), failed.clone()));
        let mut all_failed = self.failed.borrow_mut();
        // Who is not reached is not reached for anything, and who is reached again may do all. Who refuses one thing
        // may do another.
        if is_connected {
            if !was_connected {
                all_failed.fill(None);
            }
            all_failed[kind] = failed;
        } else {
            all_failed.fill(failed);
        }
        outcomes
    }
}

/// A connection, of which it is not known yet to which ledger.
fn connect(server: &OtherServer) -> Result<Open, Failed> {
    let connected = server.connect(TIMEOUTS).map_err(|error| Failed::Unanswered(server.why(&error)))?;
    Ok(Open { connected, checked: None })
}

impl Open {
    /// The same connection, if the ledger is the one that it was before, as of the last `within`: an operator may give
    /// the service other rights, or another space of ids, while it is connected.
    fn known_again(mut self, within: Duration, server: &OtherServer, receipts: &Receipts) -> Result<Open, Failed> {
        if self.checked.is_some_and(|at| at.elapsed() < within) {
            return Ok(self);
        }
        self.checked = Some(Instant::now());
        match receipts.check(&mut self.connected) {
            Ok(Shown::Known) => Ok(self),
            Ok(Shown::Unknown { receipt, says }) => Err(Failed::Other(why_other(&receipt, &says))),
            Ok(Shown::Unsaid { says }) => Err(Failed::Unanswered(format!(
                "it does not say whether it has settled what it had: {says}. If it is to be taken as it is, stop this \
                 server and run `tidegate pacer accept-ledger --data DIR`"
            ))),
            // Who may not settle cannot ask, and is told so when something is to be settled.
            Err(ClientError::Server(error)) if error.code == "forbidden" => Ok(self),
            Err(error) => Err(Failed::Unanswered(server.why(&error))),
        }
    }
}

fn is_not_found(decided: &Decided) -> bool {
    decided.as_ref().is_err_and(|refused| refused.code == "hold_not_found")
}

/// What an operator is to know of a ledger that is another one than before.
fn why_other(receipt: &Receipt, says: &str) -> String {
    let Receipt { hold, ended } = receipt;
    format!(
        "it is another ledger than before, or an older state of it, or the token's service is another one or has \
         another id_space: hold {hold} of this pacer was {ended} there, and now it says {says}. Nothing is held, paid \
         or given back in it. Set pacing.ledger and the service right, or put back the right ledger. If this is the \
         one from now on, stop this server and run `tidegate pacer accept-ledger --data DIR`"
    )
}

impl Failed {
    /// How long nothing is asked behind it.
    fn pause(&self) -> Duration {
        match self {
            Failed::Unanswered(_) | Failed::Forbidden(_) => AGAIN,
            Failed::Other(_) => AGAIN_AT_OTHER,
        }
    }

    /// With the name of the server.
    fn of(self, address: &str) -> Failed {
        let name = |why| format!("{address}, which has the ledger: {why}");
        match self {
            Failed::Unanswered(why) => Failed::Unanswered(name(why)),
            Failed::Forbidden(why) => Failed::Forbidden(name(why)),
            Failed::Other(why) => Failed::Other(name(why)),
        }
    }

    /// The answer to a request for so many holds.
    fn answer(self, count: usize) -> Result<Vec<Decided>, String> {
        match self {
            Failed::Unanswered(why) | Failed::Other(why) => Err(why),
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
            Asked::Nothing => 3,
        }
    }

    fn count(&self) -> usize {
        match self {
            Asked::Place(holds) => holds.len(),
            Asked::Post(posts) => posts.len(),
            Asked::Void(ids) => ids.len(),
            Asked::Nothing => 0,
        }
    }

    /// Keeps a receipt of the last hold that these outcomes settle.
    fn keep_last(&self, outcomes: &[Decided], receipts: &Receipts) {
        let Some(last) = outcomes.iter().rposition(Result::is_ok) else { return };
        match self {
            Asked::Post(posts) => receipts.keep(&posts[last].0, Ended::Posted),
            Asked::Void(ids) => receipts.keep(&ids[last], Ended::Voided),
            Asked::Place(_) | Asked::Nothing => {}
        }
    }

    fn over(&self, server: &mut Connected, batch: &AtomicUsize) -> Result<Vec<Decided>, ClientError> {
        match self {
            Asked::Place(holds) => in_batches(holds, batch, |holds| place(holds, server)),
            Asked::Post(posts) => in_batches(posts, batch, |posts| {
                let posts: Vec<_> = posts.iter().map(|(id, amount)| (&**id, Some(*amount))).collect();
                Ok(server.posts(&posts)?.into_iter().map(decided).collect())
            }),
            Asked::Void(ids) => in_batches(ids, batch, |ids| {
                let ids: Vec<_> = ids.iter().map(|id| &**id).collect();
                Ok(server.voids(&ids)?.into_iter().map(decided).collect())
            }),
            Asked::Nothing => server.ping().map(|()| Vec::new()),
        }
    }
}

/// Asks for the items in parts of a size that the other server takes of this service, as far as it does not ask for a
/// pause.
fn in_batches<T>(
    items: &[T],
    batch: &AtomicUsize,
    mut ask: impl FnMut(&[T]) -> Result<Vec<Decided>, ClientError>,
) -> Result<Vec<Decided>, ClientError> {
    let mut all = Vec::with_capacity(items.len());
    let mut rest = items;
    while !rest.is_empty() {
        let (now, behind) = rest.split_at(rest.len().min(batch.load(Ordering::Relaxed)));
        match ask(now) {
            Ok(decided) => {
                all.extend(decided);
                rest = behind;
            }
            Err(ClientError::Server(error)) if error.code == "batch_size_invalid" && now.len() > 1 => {
                batch.store(now.len().div_ceil(2), Ordering::Relaxed);
            }
            // What is done is done: asked for again, it would be counted again.
            Err(ClientError::Server(error)) if error.retry_after.is_some() && !all.is_empty() => break,
            Err(error) => return Err(error),
        }
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
        self.decide(Asked::Place(holds.collect())).await
    }

    async fn post(&self, posts: &[(Box<str>, u64)]) -> Result<Vec<Decided>, String> {
        self.decide(Asked::Post(posts.to_vec())).await
    }

    async fn void(&self, ids: &[Box<str>]) -> Result<Vec<Decided>, String> {
        self.decide(Asked::Void(ids.to_vec())).await
    }

    /// Nobody knows: a copy of this pacer's directory has the same ids.
    async fn own(&self, _account: &str) -> Result<Vec<OpenHold>, String> {
        Ok(Vec::new())
    }

    /// Likewise.
    async fn posts(&self, _account: &str, _before: Option<Box<str>>) -> Result<PostPage, String> {
        Ok(PostPage::default())
    }

    /// The token may have no right to read.
    async fn posted(&self, _id: &str) -> Result<Option<u64>, String> {
        Ok(None)
    }

    /// Connects if need be, so that a wrong address, token or ledger is known before somebody bids.
    async fn look(&self) -> LedgerSeen {
        let mut open = self.open.lock().await;
        match self.ask(Asked::Nothing, &mut open).await {
            // It answers; if it held no money when it was asked last, that has not changed.
            Ok(_) => match (&self.failed.borrow()[Asked::Place(Vec::new()).kind()], self.receipts.unsaved()) {
                (Some((_, Failed::Unanswered(why))), _) => LedgerSeen::Away(why.clone()),
                (_, Some(why)) => LedgerSeen::Unremembered(why),
                _ => LedgerSeen::Good,
            },
            Err(Failed::Other(why)) => LedgerSeen::Other(why),
            Err(Failed::Unanswered(why) | Failed::Forbidden(why)) => LedgerSeen::Away(why),
        }
    }
}

fn decided(outcome: Outcome) -> Decided {
    match outcome {
        Outcome::Applied | Outcome::Duplicate => Ok(()),
        Outcome::Refused { code, available, .. } => Err(Refused { code, available }),
    }
}

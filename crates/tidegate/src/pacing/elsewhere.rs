//! The ledger of another server, over its binary port.
//!
//! Promise: a request whose answer is lost is asked again with the same ids, so nothing is held or paid twice. While
//! the other server is away, no lease is opened, and bids end with those that there are. The same if it has another
//! ledger than before ([`super::receipt`]): each connection begins with that question.

mod ask;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use anyhow::Result;
use tidegate_client::{ClientError, Timeouts};
use tidegate_config::{Document, FilePath, Flag, NoDefault, Optional, Text, config};
use tidegate_link::{Connected, OtherServer, ServerKeys, TlsKeys};
use tidegate_pacer::keeper::LedgerSeen;
use tokio::sync::Mutex;

use super::money::{Decided, HoldOf, Ledger, OpenHold, PostPage, Refused};
use super::receipt::{Receipt, Receipts, Shown};
use ask::{Ask, BATCH, GiveBack, Kind, Pay, Ping, Place, ReadPosted, ReadPosts};

config! {
    /// `[pacing.ledger]`.
    pub struct PacingLedgerKeys in "pacing.ledger" {
        address: Optional<Text> = NoDefault, .., restart,
            "binary port of the server whose ledger has the money of campaigns, as HOST:PORT; without it, that of this \
             server has it. Several servers can spend the money of one account: none of them more than there is";
        token: Optional<Text> = NoDefault, .., restart,
            "token of a service there that may hold money of the accounts behind pacing.account_prefix for those \
             behind pacing.spend_prefix, settle holds, and read what was paid (grants \"debit:campaign:*\", \
             \"credit:spend:*\", \"holds:settle\" and \"read:campaign:*\"); only for development";
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
    failed: RefCell<[Option<(Instant, Failed)>; Kind::COUNT]>,
    /// It was said that the token may not read what was paid.
    is_blind: Cell<bool>,
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
    /// The token may not do it.
    Forbidden(String),
    /// It has another ledger than before.
    Other(String),
}

impl Elsewhere {
    /// Of this server, known again by the receipts. It connects when it is asked for something.
    pub fn new(server: OtherServer, receipts: Receipts) -> Elsewhere {
        server.warn_if_open("pacing.ledger");
        let (open, failed) = (Mutex::default(), RefCell::default());
        let batch = Arc::new(AtomicUsize::new(BATCH));
        Elsewhere {
            server: Arc::new(server),
            open,
            batch,
            failed,
            is_blind: Cell::new(false),
            receipts: Arc::new(receipts),
        }
    }

    /// Asks for something of so many holds. What was decided may be of the first of them alone: the others are to be
    /// asked for again.
    async fn decide(&self, asked: impl Ask<Said = Vec<Decided>>, holds: usize) -> Result<Vec<Decided>, String> {
        let mut open = self.open.lock().await;
        self.ask(asked, &mut open).await.or_else(|failed| failed.answer(holds))
    }

    /// Reads something.
    async fn read<A: Ask>(&self, asked: A) -> Result<A::Said, Failed> {
        let mut open = self.open.lock().await;
        self.ask(asked, &mut open).await
    }

    /// Warns, once, that it cannot be known what was paid out of an account.
    fn tell_blind(&self, account: &str, why: &str) {
        if !self.is_blind.replace(true) {
            tracing::warn!(
                account,
                why,
                "the token of [pacing.ledger] may not read what was paid out of this account, and perhaps others: if \
                 the log of campaigns loses its end, or an older backup of it is restored, what it has forgotten is \
                 spent once more. Give its service there the grant \"read:ACCOUNTS\", such as \"read:campaign:*\", and \
                 restart this server before it has paid more"
            );
        }
    }

    async fn ask<A: Ask>(&self, asked: A, place: &mut Option<Open>) -> Result<A::Said, Failed> {
        let kind = A::KIND as usize;
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
            let said = asked.over(&mut open.connected, &batch);
            if let Ok(said) = &said {
                // A hold that is not there may be in the ledger before, or in another id space of this one.
                let within = if A::is_missed(said) { RECHECK_MISSED } else { RECHECK };
                open = match open.known_again(within, &server, &receipts) {
                    Ok(open) => open,
                    Err(failed) => return (None, Err(failed)),
                };
                asked.keep_last(said, &receipts);
            }
            receipts.save_in_time();
            let usable = matches!(said, Ok(_) | Err(ClientError::Server(_)));
            let failed = |error| match error {
                ClientError::Server(error) if error.code == "forbidden" => Failed::Forbidden(error.to_string()),
                error => Failed::Unanswered(server.why(&error)),
            };
            (usable.then_some(open), said.map_err(failed))
        };
        let exchanged = tokio::task::spawn_blocking(exchange).await;
        let (open, said) = exchanged.expect("the client of the binary port does not panic");
        let is_connected = open.is_some();
        *place = open;
        let said = said.map_err(|failed| failed.of(&self.server.address));
        let failed = said.as_ref().err().map(|failed| (Instant::now(), failed.clone()));
        let mut all_failed = self.failed.borrow_mut();
        // Who is not reached is not reached for anything, and who is reached again may do all. Who refuses one thing
        // may do another.
        if is_connected {
            if !was_connected {
                all_failed.fill(None);
            }
            // What is read of one account says nothing of another one.
            if A::KIND != Kind::Read {
                all_failed[kind] = failed;
            }
        } else {
            all_failed.fill(failed);
        }
        said
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

    /// In words.
    fn why(self) -> String {
        let (Failed::Unanswered(why) | Failed::Forbidden(why) | Failed::Other(why)) = self;
        why
    }

    /// The answer to a request for so many holds.
    fn answer(self, count: usize) -> Result<Vec<Decided>, String> {
        match self {
            Failed::Unanswered(why) | Failed::Other(why) => Err(why),
            Failed::Forbidden(code) => Ok(vec![Err(Refused { code, available: 0 }); count]),
        }
    }
}

impl Ledger for Elsewhere {
    async fn place(&self, holds: &[HoldOf<'_>]) -> Result<Vec<Decided>, String> {
        self.decide(Place::of(holds), holds.len()).await
    }

    async fn post(&self, posts: &[(Box<str>, u64)]) -> Result<Vec<Decided>, String> {
        self.decide(Pay(posts.to_vec()), posts.len()).await
    }

    async fn void(&self, ids: &[Box<str>]) -> Result<Vec<Decided>, String> {
        self.decide(GiveBack(ids.to_vec()), ids.len()).await
    }

    /// Nobody knows: a copy of this pacer's directory has the same ids, and may be at work.
    async fn own(&self, _account: &str) -> Result<Vec<OpenHold>, String> {
        Ok(Vec::new())
    }

    /// Those of a copy of this pacer's directory, too: less is spent then than may be, not more.
    async fn posts(&self, account: &str, before: Option<Box<str>>, rows: u32) -> Result<PostPage, String> {
        let is_first = before.is_none();
        match self.read(ReadPosts { account: account.into(), before, rows }).await {
            Ok(page) => Ok(page),
            // Behind a page that it could read, it has not been told all.
            Err(Failed::Forbidden(why)) if is_first => {
                self.tell_blind(account, &why);
                Ok(PostPage::default())
            }
            Err(failed) => Err(failed.why()),
        }
    }

    async fn posted(&self, id: &str) -> Result<Option<u64>, String> {
        self.read(ReadPosted(id.into())).await.map_err(Failed::why)
    }

    /// Connects if need be, so that a wrong address, token or ledger is known before somebody bids.
    async fn look(&self) -> LedgerSeen {
        let mut open = self.open.lock().await;
        match self.ask(Ping, &mut open).await {
            // It answers; if it held no money when it was asked last, that has not changed.
            Ok(()) => match (&self.failed.borrow()[Kind::Place as usize], self.receipts.unsaved()) {
                (Some((_, Failed::Unanswered(why))), _) => LedgerSeen::Away(why.clone()),
                (_, Some(why)) => LedgerSeen::Unremembered(why),
                _ => LedgerSeen::Good,
            },
            Err(Failed::Other(why)) => LedgerSeen::Other(why),
            Err(Failed::Unanswered(why) | Failed::Forbidden(why)) => LedgerSeen::Away(why),
        }
    }
}

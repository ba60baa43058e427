//! What is asked of the ledger of another server: the requests, and what their answers say.

use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_client::{ClientError, Hold, HoldStateKind, Outcome, RowKind, Transfer};
use tidegate_link::Connected;

use super::super::money::{Decided, HoldOf, Post, PostPage, Refused, code_of};
use super::super::receipt::{Ended, Receipts};

/// Holds of one request: small enough for a server that takes fewer than most.
pub const BATCH: usize = 1_000;
/// How long the other server keeps what is held for a lease. A lease is settled when its last bid's deadline has
/// passed, also after a crash; this is for a pacer whose logs are lost for good.
const HOLD_MS: u64 = 30 * 86_400_000;

/// Kinds of requests: one of them may fail, and another not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Money is held.
    Place,
    /// It is paid.
    Post,
    /// It is given back.
    Void,
    /// What was paid is read.
    Read,
    /// Whether it answers.
    Ping,
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = Kind::Ping as usize + 1;
}

/// A request.
pub trait Ask: Send + 'static {
    /// What it is answered.
    type Said: Send + 'static;
    /// Which kind it is of.
    const KIND: Kind;

    /// Asks it. Of holds, no more at once than the other server takes of this service.
    fn over(&self, server: &mut Connected, batch: &AtomicUsize) -> Result<Self::Said, ClientError>;

    /// Whether a hold was not found that this pacer may have placed.
    fn is_missed(_said: &Self::Said) -> bool {
        false
    }

    /// Keeps a receipt of the last hold that was settled by it.
    fn keep_last(&self, _said: &Self::Said, _receipts: &Receipts) {}
}

/// Whether it answers.
pub struct Ping;

impl Ask for Ping {
    type Said = ();
    const KIND: Kind = Kind::Ping;

    fn over(&self, server: &mut Connected, _batch: &AtomicUsize) -> Result<(), ClientError> {
        server.ping()
    }
}

/// Holds money.
pub struct Place(Vec<OwnedHold>);

impl Place {
    /// So much money of these accounts.
    pub fn of(holds: &[HoldOf<'_>]) -> Place {
        let owned = |HoldOf { id, money }: &HoldOf<'_>| OwnedHold {
            id: id.clone(),
            debit: money.account.clone(),
            credit: money.spend.clone(),
            amount: money.amount.0,
            code: code_of(money),
        };
        Place(holds.iter().map(owned).collect())
    }
}

impl Ask for Place {
    type Said = Vec<Decided>;
    const KIND: Kind = Kind::Place;

    fn over(&self, server: &mut Connected, batch: &AtomicUsize) -> Result<Vec<Decided>, ClientError> {
        in_batches(&self.0, batch, |holds| place(holds, server))
    }
}

/// Pays so much of holds.
pub struct Pay(pub Vec<(Box<str>, u64)>);

impl Ask for Pay {
    type Said = Vec<Decided>;
    const KIND: Kind = Kind::Post;

    fn over(&self, server: &mut Connected, batch: &AtomicUsize) -> Result<Vec<Decided>, ClientError> {
        in_batches(&self.0, batch, |posts| {
            let posts: Vec<_> = posts.iter().map(|(id, amount)| (&**id, Some(*amount))).collect();
            Ok(server.posts(&posts)?.into_iter().map(decided).collect())
        })
    }

    fn is_missed(said: &Vec<Decided>) -> bool {
        said.iter().any(is_not_found)
    }

    fn keep_last(&self, said: &Vec<Decided>, receipts: &Receipts) {
        if let Some(last) = said.iter().rposition(Result::is_ok) {
            receipts.keep(&self.0[last].0, Ended::Posted);
        }
    }
}

/// Gives back holds.
pub struct GiveBack(pub Vec<Box<str>>);

impl Ask for GiveBack {
    type Said = Vec<Decided>;
    const KIND: Kind = Kind::Void;

    fn over(&self, server: &mut Connected, batch: &AtomicUsize) -> Result<Vec<Decided>, ClientError> {
        in_batches(&self.0, batch, |ids| {
            let ids: Vec<_> = ids.iter().map(|id| &**id).collect();
            Ok(server.voids(&ids)?.into_iter().map(decided).collect())
        })
    }

    fn is_missed(said: &Vec<Decided>) -> bool {
        said.iter().any(is_not_found)
    }

    fn keep_last(&self, said: &Vec<Decided>, receipts: &Receipts) {
        if let Some(last) = said.iter().rposition(Result::is_ok) {
            receipts.keep(&self.0[last], Ended::Voided);
        }
    }
}

/// Reads what holds have paid out of an account.
pub struct ReadPosts {
    /// The account.
    pub account: Box<str>,
    /// Behind where an earlier page has ended.
    pub before: Option<Box<str>>,
    /// Rows of its history that are read.
    pub rows: u32,
}

impl Ask for ReadPosts {
    type Said = PostPage;
    const KIND: Kind = Kind::Read;

    fn over(&self, server: &mut Connected, _batch: &AtomicUsize) -> Result<PostPage, ClientError> {
        let ReadPosts { account, before, rows } = self;
        let page = match server.history(account, before.as_deref().unwrap_or_default(), *rows) {
            Err(ClientError::Server(error)) if error.code == "account_not_found" => return Ok(PostPage::default()),
            page => page?,
        };
        let read = page.rows.len();
        // Ids of the service's own space have none beside them.
        let posts = page
            .rows
            .into_iter()
            .filter(|row| row.kind == i32::from(RowKind::Post) && row.debit == **account && row.id_space.is_none());
        let posts = posts.map(|row| Post { id: row.id.into(), code: row.code, amount: row.amount }).collect();
        Ok(PostPage { posts, rows: read, next: page.next.map(Into::into) })
    }
}

/// Reads what was paid of a hold.
pub struct ReadPosted(pub Box<str>);

impl Ask for ReadPosted {
    type Said = Option<u64>;
    const KIND: Kind = Kind::Read;

    fn over(&self, server: &mut Connected, _batch: &AtomicUsize) -> Result<Option<u64>, ClientError> {
        match server.read_hold(&self.0) {
            Ok(hold) => Ok((hold.state == i32::from(HoldStateKind::HoldPosted)).then_some(hold.posted)),
            Err(ClientError::Server(error)) if error.code == "hold_not_found" => Ok(None),
            Err(error) => Err(error),
        }
    }
}

struct OwnedHold {
    id: Box<str>,
    debit: Box<str>,
    credit: Box<str>,
    amount: u64,
    code: u32,
}

impl OwnedHold {
    fn as_wire(&self) -> Hold<'_> {
        let OwnedHold { id, debit, credit, amount, code } = self;
        Hold {
            transfer: Transfer { id, debit, credit, amount: *amount, code: *code, ..Transfer::default() },
            expires_in_ms: HOLD_MS,
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

fn is_not_found(decided: &Decided) -> bool {
    decided.as_ref().is_err_and(|refused| refused.code == "hold_not_found")
}

fn decided(outcome: Outcome) -> Decided {
    match outcome {
        Outcome::Applied | Outcome::Duplicate => Ok(()),
        Outcome::Refused { code, available, .. } => Err(Refused { code, available }),
    }
}

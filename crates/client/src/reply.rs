//! Replies.

use crate::error::{ClientError, ServerError};
use crate::pacer::{self, Bid, CampaignPut, NoBidReason, NoticeOutcome};
use std::time::Duration;
use tidegate_wire::pacer::FAMILY;
use tidegate_wire::proto::{
    self, AccountKind, AccountStatus, Asset, AuditReport, HistoryRow, HoldState, OpenHolds, OutcomeKind, TransferState,
    Welcome, reply_frame::Body,
};
use tidegate_wire::{ReplyBodyRef, ReplyRef, RoomRef};

/// The outcome of a transfer, hold, post or void. It is durable before it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Applied,
    /// Done before, by the same id with the same content; nothing was done again.
    Duplicate,
    /// Not done.
    Refused {
        /// Stable name: `insufficient_funds`, `id_reused` ...
        code: String,
        /// Of `insufficient_funds`: what was available when it was decided, in minor units. Otherwise zero.
        available: u64,
        /// If the id was refused before, by the same content: when, milliseconds since the epoch.
        remembered: Option<u64>,
    },
}

impl Outcome {
    /// Whether the money moved, now or before.
    pub fn is_done(&self) -> bool {
        matches!(self, Outcome::Applied | Outcome::Duplicate)
    }
}

/// An account's figures, in minor units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Account id.
    pub id: String,
    /// Unit of measure.
    pub asset: String,
    /// What the account may do.
    pub kind: AccountKind,
    /// `credited - debited`.
    pub balance: i64,
    /// Reserved by open holds.
    pub held: u64,
    /// `balance - held`.
    pub available: i64,
    /// All that ever came in.
    pub credited: u128,
    /// All that ever went out.
    pub debited: u128,
    /// Which movements it takes part in; unspecified if nothing was ever set on it, which is open.
    pub status: AccountStatus,
    /// What must stay available.
    pub balance_min: Option<i64>,
    /// What the balance must not pass.
    pub balance_max: Option<i64>,
    /// Keys and values.
    pub metadata: std::collections::BTreeMap<String, String>,
    /// How often it was changed.
    pub revision: u64,
}

/// An account that is open now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// False when it was open already with the same content.
    pub created: bool,
    /// Its figures.
    pub account: Account,
}

/// A page of an account's history, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Rows, each with the balance after it.
    pub rows: Vec<HistoryRow>,
    /// The `before` of the next page; `None` when no row behind these is asked for.
    pub next: Option<String>,
    /// What open holds reserved after the first of these rows, minor units; with no row, where the next page begins.
    /// `None` if the server is older than this figure, or gave `before` when it was.
    pub held: Option<u64>,
}

/// The reply to one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The token is accepted.
    Welcome(Welcome),
    /// The account is open.
    Opened(Opened),
    /// One outcome for each item, in the order asked.
    Outcomes(Vec<Outcome>),
    /// One account.
    Account(Account),
    /// A page of accounts, by id in byte order.
    Accounts(Vec<Account>),
    /// A page of history.
    History(Page),
    /// The last reconciliation of each shard.
    Audit(Vec<AuditReport>),
    /// What became of a transfer.
    Transfer(TransferState),
    /// A hold and its state.
    Hold(HoldState),
    /// A page of open holds.
    OpenHolds(OpenHolds),
    /// Whether an account was changed, and how it is now.
    Changed((bool, Account)),
    /// Whether an asset was declared by this request.
    AssetDeclared(bool),
    /// All assets.
    Assets(Vec<Asset>),
    /// Of the pacer: for each request a bid, or why there is none, in the order asked.
    Bids(Vec<Result<Bid, NoBidReason>>),
    /// Of the pacer: what became of each win or loss, in the order told. `Unspecified` is one of a version to come.
    Notices(Vec<NoticeOutcome>),
    /// A campaign has a plan.
    CampaignPut(CampaignPut),
    /// A campaign has ended.
    CampaignEnded,
    /// Still there.
    Pong,
    /// What a room has answered that this client does not know.
    Room {
        /// Which room.
        family: u32,
        /// What only the room's clients understand.
        body: Vec<u8>,
    },
    /// The request was not served as a whole.
    Error(ServerError),
}

impl Reply {
    /// Takes a reply out of the buffer it was read from.
    pub fn from_wire(reply: ReplyRef<'_>) -> Result<Reply, ClientError> {
        let body = match reply.body {
            ReplyBodyRef::Outcomes(outcomes) => {
                let outcomes = outcomes.map(|outcome| {
                    let outcome =
                        outcome.map_err(|error| tidegate_wire::BadFrame { correlation: reply.correlation, error })?;
                    match outcome.outcome {
                        OutcomeKind::Applied => Ok(Outcome::Applied),
                        OutcomeKind::Duplicate => Ok(Outcome::Duplicate),
                        OutcomeKind::Refused => {
                            let remembered = outcome.remembered.then_some(outcome.decided_at_ms);
                            let (code, available) = (outcome.code.to_owned(), outcome.available);
                            Ok(Outcome::Refused { code, available, remembered })
                        }
                        OutcomeKind::Unspecified => {
                            Err(ClientError::ReplyMismatch("an outcome that this version does not know".into()))
                        }
                    }
                });
                return Ok(Reply::Outcomes(outcomes.collect::<Result<_, ClientError>>()?));
            }
            ReplyBodyRef::Room(RoomRef { family: FAMILY, body }) => return pacer::take_reply(reply.correlation, body),
            ReplyBodyRef::Room(RoomRef { family, body }) => return Ok(Reply::Room { family, body: body.to_vec() }),
            ReplyBodyRef::Other(body) => body,
        };
        Ok(match body {
            Body::Welcome(welcome) => Reply::Welcome(welcome),
            Body::AccountOpened(opened) => {
                Reply::Opened(Opened { created: opened.created, account: account(opened.account.unwrap_or_default())? })
            }
            Body::Account(figures) => Reply::Account(account(figures)?),
            Body::Accounts(page) => Reply::Accounts(page.accounts.into_iter().map(account).collect::<Result<_, _>>()?),
            Body::History(page) => {
                let next = Some(page.next).filter(|next| !next.is_empty());
                Reply::History(Page { rows: page.rows, next, held: page.held })
            }
            Body::Audit(audit) => Reply::Audit(audit.shards),
            Body::TransferState(transfer) => Reply::Transfer(transfer),
            Body::HoldState(hold) => Reply::Hold(hold),
            Body::OpenHolds(page) => Reply::OpenHolds(page),
            Body::AccountChanged(proto::AccountChanged { changed, account: figures }) => {
                Reply::Changed((changed, account(figures.unwrap_or_default())?))
            }
            Body::AssetDeclared(declared) => Reply::AssetDeclared(declared.created),
            Body::Assets(assets) => Reply::Assets(assets.assets),
            Body::Pong(_) => Reply::Pong,
            Body::Error(error) => Reply::Error(ServerError {
                code: error.code,
                detail: error.detail,
                retry_after: (error.retry_after_ms > 0).then(|| Duration::from_millis(u64::from(error.retry_after_ms))),
            }),
            Body::Outcomes(_) | Body::Room(_) => unreachable!("decode_reply leaves these in the frame"),
        })
    }

    /// What kind of reply it is, for messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Reply::Welcome(_) => "welcome",
            Reply::Opened(_) => "account opened",
            Reply::Outcomes(_) => "outcomes",
            Reply::Account(_) => "account",
            Reply::Accounts(_) => "accounts",
            Reply::History(_) => "history",
            Reply::Audit(_) => "audit",
            Reply::Transfer(_) => "transfer",
            Reply::Hold(_) => "hold",
            Reply::OpenHolds(_) => "open holds",
            Reply::Changed(_) => "account changed",
            Reply::AssetDeclared(_) => "asset declared",
            Reply::Assets(_) => "assets",
            Reply::Bids(_) => "bids",
            Reply::Notices(_) => "outcomes of notices",
            Reply::CampaignPut(_) => "campaign put",
            Reply::CampaignEnded => "campaign ended",
            Reply::Pong => "pong",
            Reply::Room { .. } => "a reply of a room",
            Reply::Error(_) => "error",
        }
    }
}

fn account(account: proto::Account) -> Result<Account, ClientError> {
    let total = |name: &str, decimal: &str| {
        decimal.parse().map_err(|_| ClientError::ReplyMismatch(format!("{name} is {decimal:?}, not a number")))
    };
    let status = account.status();
    Ok(Account {
        credited: total("credited", &account.credited)?,
        debited: total("debited", &account.debited)?,
        kind: account.kind(),
        id: account.id,
        asset: account.asset,
        balance: account.balance,
        held: account.held,
        available: account.available,
        status,
        balance_min: account.balance_min,
        balance_max: account.balance_max,
        metadata: account.metadata.into_iter().collect(),
        revision: account.revision,
    })
}

//! Requests from the listeners to the shards, and the replies. Both sides of every ring use these types only.

mod audit;
mod balance_at;
mod batch;
mod time_span;

use tidegate_machines::TimeMs;
use tidegate_machines::ledger::{
    AccountChange, AccountKind, AccountStatus, AccountView, AssetView, HistoryRow, Hold, HoldView, Label,
    MetadataPatch, Outcome, Refusal, TransferView,
};
pub use tidegate_shard::{Caller, Unavailable};

pub(crate) use audit::ARRIVED;
pub use audit::{AuditDifference, AuditReport, AuditState, Conservation, FirstFoldReport, ScrubReport};
pub use balance_at::BalanceAt;
pub use batch::{ItemLabel, OpenBatch, OpenItem, Span, TransferBatch, TransferItem};
pub use time_span::TimeSpan;

use crate::announcer::Want;

/// A hold as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRequest {
    /// Hold id.
    pub id: Box<str>,
    /// Account to reserve on.
    pub debit: Box<str>,
    /// Account that a post credits.
    pub credit: Box<str>,
    /// Minor units.
    pub amount: u64,
    /// Lifetime in milliseconds.
    pub expires_in_ms: u64,
    /// Memo, empty for none.
    pub memo: Box<str>,
    /// Code; 0 for none.
    pub code: u32,
    /// User data, empty for none.
    pub user_data: Box<str>,
    /// The hold is refused if its account has so many open holds. A door sets it for its caller.
    pub open_holds_max: u32,
}

impl HoldRequest {
    /// The hold, borrowed.
    pub fn borrow(&self) -> Hold<'_> {
        Hold {
            id: &self.id,
            debit: &self.debit,
            credit: &self.credit,
            amount: self.amount,
            expires_in_ms: self.expires_in_ms,
            memo: &self.memo,
            label: Label { code: self.code, user_data: &self.user_data },
        }
    }

    /// Bytes of its texts.
    pub fn text_bytes(&self) -> usize {
        self.id.len() + self.memo.len() + self.user_data.len()
    }
}

/// What to change on an account; what is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeRequest {
    /// Refuse unless the account is at this revision.
    pub if_revision: Option<u64>,
    /// The new status.
    pub status: Option<AccountStatus>,
    /// The new lower limit of the balance, or none.
    pub balance_min: Option<Option<i64>>,
    /// The new upper limit of the balance, or none.
    pub balance_max: Option<Option<i64>>,
    /// Keys of metadata to set and to remove, as [`MetadataPatch::bytes`].
    pub metadata: Box<[u8]>,
}

impl ChangeRequest {
    /// The change, borrowed. Panics if `metadata` is no patch.
    pub fn borrow(&self) -> AccountChange<'_> {
        AccountChange {
            if_revision: self.if_revision,
            status: self.status,
            balance_min: self.balance_min,
            balance_max: self.balance_max,
            metadata: MetadataPatch::from_bytes(&self.metadata).expect("a door makes it as a patch"),
        }
    }
}

/// A request, and on whose behalf it is asked: callers take turns before the shards.
#[derive(Clone, Debug)]
pub struct CallerRequest {
    /// On whose behalf.
    pub caller: Caller,
    /// What is asked.
    pub request: Request,
}

impl From<Request> for CallerRequest {
    /// A request of the server itself.
    fn from(request: Request) -> CallerRequest {
        CallerRequest { caller: Caller::SERVER, request }
    }
}

/// One request of a client, already authorised by its listener.
#[derive(Clone, Debug)]
pub enum Request {
    /// Open an account, or find it open with the same content. Answer: [`Reply::AccountOpened`].
    OpenAccount {
        /// Account id.
        id: Box<str>,
        /// Unit of measure.
        asset: Box<str>,
        /// Kind.
        kind: AccountKind,
    },
    /// Open accounts one by one. Answer: [`Reply::Outcomes`], in the same order: a duplicate was open already with the
    /// same content.
    OpenAccounts(OpenBatch),
    /// Decide transfers one by one, or all or nothing if `linked`. Answer: [`Reply::Outcomes`], in the same order.
    Transfers {
        /// All or nothing.
        linked: bool,
        /// The transfers.
        batch: TransferBatch,
    },
    /// Place holds one by one. Answer: [`Reply::Outcomes`], in the same order.
    PlaceHolds(Vec<HoldRequest>),
    /// Place holds, all or nothing. Answer: [`Reply::Outcomes`], in the same order.
    PlaceLinkedHolds(Vec<HoldRequest>),
    /// Post holds, each with all (`None`) or part of its amount. Answer: [`Reply::Outcomes`], in the same order.
    PostHolds(Vec<(Box<str>, Option<u64>)>),
    /// Void holds. Answer: [`Reply::Outcomes`], in the same order.
    VoidHolds(Vec<Box<str>>),
    /// Read one account. Answer: [`Reply::Account`].
    ReadAccount {
        /// Account id.
        id: Box<str>,
    },
    /// List accounts by id in byte order. Answer: [`Reply::Accounts`].
    ListAccounts {
        /// Only ids that begin so.
        prefix: Box<str>,
        /// Only ids after this one.
        after: Option<Box<str>>,
        /// At most so many, 1 to 1,000.
        limit: u32,
    },
    /// Read an account's history, newest first. Answer: [`Reply::History`].
    ReadHistory {
        /// Account id.
        id: Box<str>,
        /// Continue where an earlier page ended: its `next`.
        before: Option<Box<str>>,
        /// At most so many rows, 1 to 1,000.
        limit: u32,
        /// Only rows of this time. One request looks at [`PAGE_ROWS_MAX`](crate::limits::PAGE_ROWS_MAX) rows at most,
        /// and without `before` at few: a page may be short, even empty, and still have a `next`.
        times: TimeSpan,
    },
    /// Read what an account had at a time. Answer: [`Reply::BalanceAt`].
    ReadBalanceAt {
        /// Account id.
        id: Box<str>,
        /// The time.
        at: TimeMs,
        /// Go on where an earlier answer ended: its `next`.
        before: Option<Box<str>>,
    },
    /// Read an account's history from one row to the first, newest first. Answer: a stream of [`Reply::HistoryPart`].
    StreamHistory {
        /// Account id.
        id: Box<str>,
        /// Begin where an earlier page ended: its `next`.
        before: Option<Box<str>>,
        /// At most so many rows over all parts, at least one; `None` for all.
        rows_max: Option<u64>,
    },
    /// Somebody wants to hear of accounts, or nobody does any more; of the server itself, no client may ask it. Answer:
    /// [`Reply::Announced`].
    Announce(Want),
    /// Ask for the last reconciliation of every shard. Answer: [`Reply::Audit`].
    ReadAudit,
    /// Read what became of a transfer. Answer: [`Reply::Transfer`].
    ReadTransfer {
        /// Transfer id.
        id: Box<str>,
    },
    /// Read a hold and its state. Answer: [`Reply::Hold`].
    ReadHold {
        /// Hold id.
        id: Box<str>,
    },
    /// List the open holds on an account, in the order of their placement. Answer: [`Reply::Holds`].
    ListHolds {
        /// Account id.
        account: Box<str>,
        /// Continue after an earlier page: its `next`.
        after: Option<u64>,
        /// At most so many, 1 to 1,000.
        limit: u32,
    },
    /// Change status, limits or metadata of an account. Answer: [`Reply::AccountChanged`].
    ChangeAccount {
        /// Account id.
        id: Box<str>,
        /// What to change.
        change: ChangeRequest,
    },
    /// Declare the decimals of an asset. Answer: [`Reply::AssetDeclared`].
    DeclareAsset {
        /// Unit of measure.
        asset: Box<str>,
        /// Digits of an amount behind the point.
        decimals: u8,
    },
    /// List all assets. Answer: [`Reply::Assets`].
    ListAssets,
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The account is open; `created` says whether by this request.
    AccountOpened {
        /// False when it was open already with the same content.
        created: bool,
        /// Its figures now.
        account: AccountView,
    },
    /// One outcome per transfer, hold or account, in the order asked.
    Outcomes(Vec<Outcome>),
    /// One account.
    Account(AccountView),
    /// A page of accounts in the byte order of their ids.
    Accounts(Vec<AccountView>),
    /// A page of history, newest first.
    History {
        /// Rows.
        rows: Vec<HistoryRow>,
        /// Cursor for the next page; `None` if no row behind these is asked for.
        next: Option<Box<str>>,
        /// What open holds reserved on the account after the first of these rows, minor units; with no row, where the
        /// next page begins. `None` if the cursor was given by an earlier version, which did not write it down.
        held: Option<u64>,
        /// Rows that the shards read for this page, those of other times and one more of each shard included: what it
        /// has cost.
        rows_read: usize,
    },
    /// What an account had at a time.
    BalanceAt {
        /// What was found.
        found: BalanceAt,
        /// Rows that the shards read for it: what it has cost.
        rows_read: usize,
    },
    /// The next rows of a history that is streamed, newest first.
    HistoryPart {
        /// Rows, at most [`PAGE_ROWS_MAX`](crate::limits::PAGE_ROWS_MAX).
        rows: Vec<HistoryRow>,
        /// When each of them was written at the latest: what it says, unless its clock was wrong.
        written_by: Vec<TimeMs>,
        /// Whether no further part comes.
        is_last: bool,
    },
    /// Every shard knows what is wanted.
    Announced,
    /// The last reconciliation of each shard.
    Audit(Vec<AuditReport>),
    /// What became of a transfer.
    Transfer {
        /// The shard that decided it.
        shard: u16,
        /// The transfer.
        transfer: Box<TransferView>,
    },
    /// A hold and its state.
    Hold {
        /// The shard that decides it.
        shard: u16,
        /// The hold.
        hold: Box<HoldView>,
    },
    /// A page of open holds, in the order of their placement.
    Holds {
        /// Holds.
        holds: Vec<HoldView>,
        /// Where the next page continues; `None` after the last.
        next: Option<u64>,
    },
    /// The account is as asked, and every shard knows.
    AccountChanged {
        /// False when it was so already.
        changed: bool,
        /// Its figures and settings.
        account: AccountView,
    },
    /// The asset is declared with these decimals.
    AssetDeclared {
        /// False when it was so already.
        created: bool,
    },
    /// All assets by name in byte order, with the sums of all shards.
    Assets(Vec<AssetView>),
    /// The whole request was refused.
    Refused(Refusal),
    /// It was not decided; ask again with the same ids.
    Unavailable(Unavailable),
}

//! Messages between threads: calls to shards, their answers, and credits from shard to shard.
//!
//! ```text
//!   endpoint ──Call──▶ worker of the shard          shard B ──Pull(after n)──▶ shard A
//!            ◀─Answer─                                      ◀──Credits(n+1..)──
//! ```
//!
//! A pull is also the acknowledgement: "after n" says that everything up to n is durable at the puller.
//!
//! Why some variants are boxed: every call and answer is moved some ten times between threads and queues. What is large
//! and rare must not make each of them large.

mod credit;

use std::sync::Arc;

use tidegate_journal::Durability;
use tidegate_machines::ledger::{
    AccountKind, AccountRules, AccountSettings, AccountSlot, AccountView, AssetView, ContentDigest, HistoryRow,
    HoldFigures, HoldView, Mends, Outcome, PeerFigures, Refusal, RowTime, TransferView,
};
use tidegate_machines::{DamagedPlace, OutboundNumber, RecordPosition, ShardIndex, TimeMs};

use tidegate_runtime::Address;
use tidegate_shard::{Caller, Durable};

use crate::announcer::{Announcement, Want};
use crate::message::{AuditReport, ChangeRequest, HoldRequest, OpenBatch, TransferBatch, Unavailable};

pub use credit::Credit;

/// Which items of a request a shard is asked to decide.
#[derive(Clone, Debug)]
pub enum Selection {
    /// All of them, in order.
    All,
    /// Those at these indexes, in this order.
    Some(Vec<u32>),
}

impl Selection {
    /// How many, of a request with `total` items.
    pub fn len(&self, total: usize) -> usize {
        match self {
            Selection::All => total,
            Selection::Some(indexes) => indexes.len(),
        }
    }

    /// The item's index in the request for the `n`-th pick.
    pub fn index(&self, n: usize) -> usize {
        match self {
            Selection::All => n,
            Selection::Some(indexes) => indexes[n] as usize,
        }
    }
}

/// What the home of an account says about it. Accounts are never deleted and never change, so this never goes stale;
/// that an account is missing is true only for the question it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountFact {
    /// Account id.
    pub id: Box<str>,
    /// Asset and kind; `None` when no such account exists.
    pub found: Option<(Box<str>, AccountKind)>,
}

/// One thing that a shard is asked to do.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Open an account at its home.
    OpenAccount {
        /// Account id.
        id: Box<str>,
        /// Unit of measure.
        asset: Box<str>,
        /// Kind.
        kind: AccountKind,
    },
    /// Open accounts at their home.
    OpenAccounts {
        /// The client's request.
        batch: Arc<OpenBatch>,
        /// Which of its accounts.
        selection: Selection,
    },
    /// Decide transfers whose debit accounts live here.
    Transfers {
        /// The client's request.
        batch: Arc<TransferBatch>,
        /// Which of its transfers.
        selection: Selection,
        /// All or nothing.
        linked: bool,
        /// A member of the linked group was refused at its id's home: these are refused too, and the refusal is
        /// journaled.
        failed: bool,
        /// What was learned about credit accounts of other shards.
        facts: Vec<AccountFact>,
    },
    /// Decide holds whose debit accounts live here.
    PlaceHolds {
        /// The client's request.
        holds: Arc<Vec<HoldRequest>>,
        /// Which of its holds.
        selection: Selection,
        /// What was learned about credit accounts of other shards.
        facts: Vec<AccountFact>,
    },
    /// Decide holds whose debit accounts live here, all or nothing.
    LinkedHolds {
        /// The client's request.
        holds: Arc<Vec<HoldRequest>>,
        /// Which of its holds.
        selection: Selection,
        /// As for linked transfers.
        failed: bool,
        /// What was learned about credit accounts of other shards.
        facts: Vec<AccountFact>,
    },
    /// Change an account at its home.
    ChangeAccount {
        /// Account id.
        id: Box<str>,
        /// What to change.
        change: Box<ChangeRequest>,
        /// All other shards know that it is frozen and have no credit to it under way.
        is_settled: bool,
    },
    /// Learn what an account of another shard is, and what was set on it.
    AdoptRules {
        /// Account id.
        id: Box<str>,
        /// Unit of measure.
        asset: Box<str>,
        /// Kind.
        kind: AccountKind,
        /// Its revision at its home.
        revision: u64,
        /// Its status and limits there.
        rules: Box<AccountRules>,
    },
    /// Declare the decimals of an asset whose home is here.
    DeclareAsset {
        /// Unit of measure.
        asset: Box<str>,
        /// Digits behind the point.
        decimals: u8,
    },
    /// Say what is known of an id.
    ReadId {
        /// Transfer or hold id.
        id: Box<str>,
    },
    /// List the open holds on an account that lives here.
    ListHolds {
        /// Account id.
        account: Box<str>,
        /// Only those placed after this record.
        after: RecordPosition,
        /// At most so many.
        limit: u32,
    },
    /// Say how much of each asset is here.
    ReadAssets,
    /// Post holds that live here.
    PostHolds {
        /// The client's request: hold ids and amounts.
        posts: Arc<Vec<(Box<str>, Option<u64>)>>,
        /// Which of them.
        selection: Selection,
    },
    /// Void holds that live here.
    VoidHolds {
        /// The client's request: hold ids.
        ids: Arc<Vec<Box<str>>>,
        /// Which of them.
        selection: Selection,
    },
    /// Claim ids whose home is here for transfers that another shard decides: (id, deciding shard, digest of the
    /// content).
    ClaimIds(Vec<(Box<str>, ShardIndex, ContentDigest)>),
    /// Say which shard decided on each of these ids.
    FindOwners(Vec<Box<str>>),
    /// Say what is known of these ids of seeds, without reading anything that was archived.
    FindSeeds(Vec<Box<str>>),
    /// Say what these accounts are.
    Describe(Vec<Box<str>>),
    /// Read an account, or this shard's part of a collector.
    ReadAccount {
        /// Account id.
        id: Box<str>,
    },
    /// List accounts and parts by id.
    ListAccounts {
        /// Only ids that begin so.
        prefix: Box<str>,
        /// Only ids after this one.
        after: Option<Box<str>>,
        /// At most so many.
        limit: u32,
    },
    /// Read rows of history, newest first.
    ReadHistory {
        /// Account id.
        id: Box<str>,
        /// Continue at this record, or at the newest.
        from: Option<RecordPosition>,
        /// At most so many.
        limit: u32,
    },
    /// The live figures of accounts, for the auditor.
    ReadFigures {
        /// First slot.
        first: u32,
        /// How many slots.
        count: u32,
    },
    /// Hear what somebody wants announced.
    Announce(Want),
    /// The live open holds, in order of expiry, for the auditor.
    ReadOpenHolds {
        /// Those behind this one.
        after: Option<(TimeMs, RecordPosition)>,
        /// At most so many.
        count: u32,
    },
    /// The live figures between this shard and the others, for the auditor.
    ReadPeers,
    /// How far the journal is durable, for the auditor.
    ReadDurableEnd,
    /// Has the ids of all that is durable written to files, because a snapshot was written: a restart begins behind
    /// both.
    CoverIds,
    /// What the accounts in these slots are called, for readers of changes.
    NameAccounts(Vec<AccountSlot>),
    /// Keep what the auditor found.
    KeepAudit(Box<AuditReport>),
    /// The last audit.
    ReadAudit,
}

impl Operation {
    /// How many things it asks.
    pub fn items(&self) -> usize {
        match self {
            Operation::Transfers { batch, selection, .. } => selection.len(batch.len()),
            Operation::OpenAccounts { batch, selection } => selection.len(batch.len()),
            Operation::PlaceHolds { holds, selection, .. } | Operation::LinkedHolds { holds, selection, .. } => {
                selection.len(holds.len())
            }
            Operation::PostHolds { posts, selection } => selection.len(posts.len()),
            Operation::VoidHolds { ids, selection } => selection.len(ids.len()),
            Operation::ClaimIds(claims) => claims.len(),
            _ => 1,
        }
    }

    /// Bytes of the texts that came with it, about.
    pub fn text_bytes(&self) -> usize {
        match self {
            Operation::Transfers { batch, .. } => batch.text_bytes(),
            Operation::OpenAccounts { batch, .. } => batch.text_bytes(),
            _ => 0,
        }
    }
}

/// One row with the place of the record before it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainedRow {
    /// The row.
    pub row: HistoryRow,
    /// Record of this row.
    pub at: RecordPosition,
    /// By how much it changed what open holds reserve on the account, minor units.
    pub held_change: i64,
    /// When it was written, as far as that is known.
    pub when: RowTime,
}

/// What a shard knows of an id.
#[derive(Clone, Debug, PartialEq)]
pub enum KnownId {
    /// Nothing.
    New,
    /// Another shard decides it.
    ElsewhereAt(ShardIndex),
    /// It is a transfer, or a refused transfer or hold.
    Transfer(TransferView),
    /// It is a hold.
    Hold(HoldView),
}

/// What a shard knows of the id of a seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeedId {
    /// Nothing.
    New,
    /// This shard decides it, and it stands for something already.
    Used(ShardIndex),
    /// The id index has it, and its record is in an archive. That it is another id's has a chance of one in 2^47 for
    /// each record.
    Archived,
    /// What would tell is damaged.
    Damaged(&'static DamagedPlace),
}

/// Live figures of one account, as the auditor compares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Account id.
    pub id: Box<str>,
    /// Unit of measure.
    pub asset: Box<str>,
    /// Kind.
    pub kind: AccountKind,
    /// Balance, minor units.
    pub balance: i64,
    /// Held, minor units.
    pub held: u64,
    /// Gross credits, minor units.
    pub credited: u128,
    /// Gross debits, minor units.
    pub debited: u128,
    /// What was set on it, if anything was.
    pub settings: Option<Arc<AccountSettings>>,
}

impl From<AccountView> for Figures {
    fn from(view: AccountView) -> Figures {
        let AccountView { id, asset, kind, balance, held, credited, debited, settings, .. } = view;
        Figures { id, asset, kind, balance, held, credited, debited, settings }
    }
}

/// What a shard answers to an [`Operation`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To `OpenAccount`.
    Opened {
        /// By this call.
        created: bool,
        /// Its figures.
        account: AccountView,
    },
    /// To everything that decides: an outcome per pick. Those named in `need_credit` (by pick) were not decided: the
    /// home of their credit account must be asked first.
    Outcomes {
        /// Per pick.
        outcomes: Vec<Outcome>,
        /// Items that were not decided.
        need_credit: Vec<u32>,
    },
    /// To `FindOwners`: the shard that decided on each id, or why that cannot be told.
    Owners(Vec<Result<Option<ShardIndex>, Refusal>>),
    /// To `FindSeeds`: in the order asked.
    Seeds(Vec<SeedId>),
    /// To `Describe`.
    Facts(Vec<AccountFact>),
    /// To `ReadAccount`: `None` when it has no such account or part.
    Account(Option<AccountView>),
    /// To `ListAccounts`.
    Accounts(Vec<AccountView>),
    /// To `ReadHistory`; `None` when it has no such account or part.
    Rows {
        /// Newest first.
        rows: Vec<ChainedRow>,
        /// Record to continue at; [`RecordPosition::NONE`] at the end.
        next: RecordPosition,
        /// Why that record cannot be read, if the rows end because of it.
        damaged: Option<&'static DamagedPlace>,
        /// What open holds reserve after the newest row, minor units, if the rows begin there.
        held: Option<u64>,
    },
    /// To `ReadFigures`.
    Figures {
        /// The figures are those after this record.
        sequence: u64,
        /// One per slot that holds an account of this shard.
        figures: Vec<Figures>,
        /// Whether there are more slots.
        more: bool,
    },
    /// To `ReadOpenHolds`.
    OpenHolds {
        /// The holds are those after this record.
        sequence: u64,
        /// In order of expiry.
        holds: Vec<HoldFigures>,
        /// Whether there are more behind the last.
        more: bool,
    },
    /// To `ReadPeers`.
    Peers {
        /// The figures are those after this record.
        sequence: u64,
        /// One for each other shard.
        peers: Vec<PeerFigures>,
        /// The assets of the shard.
        assets: Vec<AssetView>,
        /// A digest of what was set on accounts, also on those of other shards.
        settings: [u8; 32],
        /// Where the time of the shard was set back.
        mends: Box<Mends>,
        /// Whether it is known why credits wait here: the disk is full, or a debit that another shard asks for is
        /// damaged.
        waits: bool,
    },
    /// To `ReadDurableEnd`.
    DurableEnd {
        /// How far the log is on stable storage.
        durable: Durability,
    },
    /// To `ChangeAccount`.
    Changed {
        /// Whether by this call.
        changed: bool,
        /// Figures and settings now.
        account: AccountView,
    },
    /// To `AdoptRules`.
    Adopted {
        /// Credits to the account that its home has not confirmed yet.
        under_way: u64,
        /// Whether this shard refuses new ones.
        is_frozen: bool,
        /// Of a collector, the part that is here.
        part: Option<Box<AccountView>>,
    },
    /// To `DeclareAsset`.
    Declared {
        /// Whether by this call.
        created: bool,
    },
    /// To `ReadId`.
    Id(Box<KnownId>),
    /// To `ListHolds`; `None` when there is no such account here.
    Holds {
        /// In the order of placement.
        holds: Vec<HoldView>,
        /// Whether there are more.
        more: bool,
    },
    /// To `ReadAssets`.
    Assets(Vec<AssetView>),
    /// To `Announce`.
    Announced,
    /// To `NameAccounts`: slot, id and asset of those that there are.
    Names(Vec<(AccountSlot, Box<str>, Box<str>)>),
    /// To `KeepAudit` and `ReadAudit`.
    Audit(Box<AuditReport>),
    /// The operation was refused as a whole.
    Refused(Refusal),
}

/// Messages of shards and routers on their way: a worker moves them to rings, the simulator to its queue of delays.
pub type Outgoing = tidegate_runtime::Outgoing<Message>;

/// What one thread sends another.
#[derive(Debug)]
pub enum Message {
    /// A question to a shard.
    Call {
        /// The caller.
        from: Address,
        /// The asker's own number for it.
        ticket: u64,
        /// On whose behalf.
        caller: Caller,
        /// Which shard.
        shard: ShardIndex,
        /// What.
        operation: Operation,
    },
    /// A shard's answer.
    Answer {
        /// The asker's number.
        ticket: u64,
        /// Which shard answers.
        shard: ShardIndex,
        /// Durable, or not served at all.
        answer: Result<Durable<Answer>, Unavailable>,
    },
    /// New balances of accounts of `shard`, or of its parts of collectors; sent to the announcer.
    Figures {
        /// The shard that has them.
        shard: ShardIndex,
        /// One per account.
        accounts: Durable<Vec<Announcement>>,
    },
    /// `by` has durably applied all credits of `shard` up to `after` and asks for those beyond.
    Pull {
        /// The debiting shard.
        shard: ShardIndex,
        /// The crediting shard.
        by: ShardIndex,
        /// Its watermark.
        after: OutboundNumber,
    },
    /// Durable debits of `from`, in order, for `shard` to credit.
    Credits {
        /// The crediting shard.
        shard: ShardIndex,
        /// The debiting shard.
        from: ShardIndex,
        /// In order of their numbers.
        credits: Durable<Vec<Credit>>,
    },
}

// A move of more is a call of `memcpy`.
const _: () = assert!(size_of::<Message>() <= 128 && size_of::<Operation>() <= 64 && size_of::<Answer>() <= 112);

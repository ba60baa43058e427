//! Requests from the listeners to the shards, and the replies. Both sides of every ring use these types only.

mod audit;
mod time_span;

use bytes::Bytes;
use tidegate_machines::ledger::{
    AccountChange, AccountKind, AccountStatus, AccountView, AssetView, HistoryRow, Hold, HoldView, IdSpace, Label,
    MetadataPatch, Outcome, Refusal, Transfer, TransferView,
};
pub use tidegate_shard::Unavailable;

pub use audit::{AuditDifference, AuditReport, AuditState, Conservation, FirstFoldReport, ScrubReport};
pub use time_span::TimeSpan;

use crate::announcer::Want;

/// A piece of text inside the bytes of the request it came with: offset and length, checked when it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub offset: u32,
    /// Length in bytes.
    pub length: u32,
}

/// One transfer of a [`TransferBatch`], its texts as spans of the batch's `text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferItem {
    /// Transfer id.
    pub id: Span,
    /// Account to debit.
    pub debit: Span,
    /// Account to credit.
    pub credit: Span,
    /// Memo, empty for none.
    pub memo: Span,
    /// Minor units, not yet validated.
    pub amount: u64,
}

/// Code and user data of one transfer of a [`TransferBatch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemLabel {
    /// Code; 0 for none.
    pub code: u32,
    /// User data, empty for none.
    pub user_data: Span,
}

/// Transfers as they arrived: the bytes of the request once, and where in them each text stands. Nothing is copied on
/// the way from the socket to the journal.
#[derive(Clone, Debug, Default)]
pub struct TransferBatch {
    text: Bytes,
    items: Vec<TransferItem>,
    /// One for each item, or none at all: most batches have no labels and carry none.
    labels: Vec<ItemLabel>,
}

impl TransferBatch {
    /// Takes the bytes and the spans into them; `labels` has one for each item, or none at all. `Err` with the index of
    /// the first item that has a span outside `text` or not on valid UTF-8.
    pub fn new(text: Bytes, items: Vec<TransferItem>, labels: Vec<ItemLabel>) -> Result<TransferBatch, usize> {
        assert!(labels.is_empty() || labels.len() == items.len(), "a label for each item, or for none");
        let whole_is_text = std::str::from_utf8(&text).is_ok();
        for (index, item) in items.iter().enumerate() {
            let user_data = labels.get(index).map_or_else(Span::default, |label| label.user_data);
            for span in [item.id, item.debit, item.credit, item.memo, user_data] {
                let end = span.offset as usize + span.length as usize;
                let Some(bytes) = text.get(span.offset as usize..end) else { return Err(index) };
                let valid = if whole_is_text {
                    std::str::from_utf8(bytes).is_ok()
                } else {
                    bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()
                };
                if !valid {
                    return Err(index);
                }
            }
        }
        Ok(TransferBatch { text, items, labels })
    }

    /// Copies transfers into a batch of its own (JSON requests, tests).
    pub fn copy_of<'a>(transfers: impl IntoIterator<Item = Transfer<'a>>) -> TransferBatch {
        let mut text = Vec::new();
        let mut span = |s: &str| {
            let offset = text.len() as u32;
            text.extend_from_slice(s.as_bytes());
            Span { offset, length: s.len() as u32 }
        };
        let (mut items, mut labels) = (Vec::new(), Vec::new());
        for t in transfers {
            if !t.label.is_none() {
                labels.resize(items.len(), ItemLabel::default());
                labels.push(ItemLabel { code: t.label.code, user_data: span(t.label.user_data) });
            }
            items.push(TransferItem {
                id: span(t.id),
                debit: span(t.debit),
                credit: span(t.credit),
                memo: span(t.memo),
                amount: t.amount,
            });
        }
        if !labels.is_empty() {
            labels.resize(items.len(), ItemLabel::default());
        }
        TransferBatch { text: text.into(), items, labels }
    }

    /// The same batch; of an id that names an id space nothing is left.
    pub(crate) fn without_spaces(mut self) -> TransferBatch {
        if !IdSpace::may_be_named_in(&self.text) {
            return self;
        }
        for index in 0..self.items.len() {
            let id = self.str(self.items[index].id);
            if IdSpace::checked(id).len() != id.len() {
                self.items[index].id = Span::default();
            }
        }
        self
    }

    /// Whether there is a code or user data in it.
    pub(crate) fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }

    /// How many transfers.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The transfer at `index`; panics beyond the end.
    pub fn get(&self, index: usize) -> Transfer<'_> {
        let item = &self.items[index];
        Transfer {
            id: self.str(item.id),
            debit: self.str(item.debit),
            credit: self.str(item.credit),
            amount: item.amount,
            memo: self.str(item.memo),
            label: if self.labels.is_empty() { Label::NONE } else { self.label(index) },
        }
    }

    #[cold]
    fn label(&self, index: usize) -> Label<'_> {
        let ItemLabel { code, user_data } = self.labels[index];
        Label { code, user_data: self.str(user_data) }
    }

    /// Bytes of all texts together, an upper bound.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// All transfers in order.
    pub fn iter(&self) -> impl Iterator<Item = Transfer<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    fn str(&self, span: Span) -> &str {
        let bytes = &self.text[span.offset as usize..(span.offset + span.length) as usize];
        // SAFETY: `new` checked every span to be valid UTF-8 and `copy_of` took it from a `str`; `text` is immutable.
        unsafe { std::str::from_utf8_unchecked(bytes) }
    }
}

/// One account of an [`OpenBatch`], its texts as spans of the batch's `text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenItem {
    /// Account id.
    pub id: Span,
    /// Unit of measure.
    pub asset: Span,
    /// Kind.
    pub kind: AccountKind,
}

/// Accounts to open, as they arrived: like a [`TransferBatch`], without a copy of each text.
#[derive(Clone, Debug, Default)]
pub struct OpenBatch {
    text: Bytes,
    items: Vec<OpenItem>,
}

impl OpenBatch {
    /// Takes the bytes and the spans into them. `Err` with the index of the first item that has a span outside `text`
    /// or not on valid UTF-8.
    pub fn new(text: Bytes, items: Vec<OpenItem>) -> Result<OpenBatch, usize> {
        let is_text = |span: Span| {
            let bytes = text.get(span.offset as usize..span.offset as usize + span.length as usize);
            bytes.is_some_and(|bytes| std::str::from_utf8(bytes).is_ok())
        };
        match items.iter().position(|item| !is_text(item.id) || !is_text(item.asset)) {
            Some(index) => Err(index),
            None => Ok(OpenBatch { text, items }),
        }
    }

    /// Copies accounts (id, asset, kind) into a batch of its own.
    pub fn copy_of<'a>(accounts: impl IntoIterator<Item = (&'a str, &'a str, AccountKind)>) -> OpenBatch {
        let mut text = Vec::new();
        let mut span = |s: &str| {
            let offset = text.len() as u32;
            text.extend_from_slice(s.as_bytes());
            Span { offset, length: s.len() as u32 }
        };
        let items = accounts.into_iter().map(|(id, asset, kind)| OpenItem { id: span(id), asset: span(asset), kind });
        let items = items.collect();
        OpenBatch { text: text.into(), items }
    }

    /// How many accounts.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Id, asset and kind of the account at `index`; panics beyond the end.
    pub fn get(&self, index: usize) -> (&str, &str, AccountKind) {
        let item = &self.items[index];
        (self.str(item.id), self.str(item.asset), item.kind)
    }

    /// All ids in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.items.iter().map(|item| self.str(item.id))
    }

    /// Bytes of all texts together, an upper bound.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    fn str(&self, span: Span) -> &str {
        let bytes = &self.text[span.offset as usize..(span.offset + span.length) as usize];
        // SAFETY: `new` checked every span to be valid UTF-8 and `copy_of` took it from a `str`; `text` is immutable.
        unsafe { std::str::from_utf8_unchecked(bytes) }
    }
}

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
        /// Only rows of this time. One request looks at [`PAGE_ROWS_MAX`](crate::limits::PAGE_ROWS_MAX) rows at most: a
        /// page may be short, even empty, and still have a `next`.
        times: TimeSpan,
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
    },
    /// The next rows of a history that is streamed, newest first.
    HistoryPart {
        /// Rows, at most [`PAGE_ROWS_MAX`](crate::limits::PAGE_ROWS_MAX).
        rows: Vec<HistoryRow>,
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

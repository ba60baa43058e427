//! What a client asks, in its own words: owned, comparable, and repeatable to the byte.

use tidegate_ledger::message::{ChangeRequest, HoldRequest, Reply, Request, TimeSpan, TransferBatch};
use tidegate_machines::IdSpace;
use tidegate_machines::TimeMs;
use tidegate_machines::ledger::{AccountKind, Label, Transfer};

/// A transfer or a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Transfer or hold id, with its id space: as the ledger keeps it, and as no client can write it.
    pub id: String,
    /// What is asked under it.
    pub content: Content,
}

/// What is asked under an id. Two contents under one id are the client's mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Account to take from or reserve on.
    pub debit: String,
    /// Account to give to.
    pub credit: String,
    /// Minor units.
    pub amount: u64,
    /// Free text.
    pub memo: String,
    /// Lifetime of a hold; `None` for a transfer.
    pub expires_in_ms: Option<u64>,
}

/// Codes that clients number their reasons with.
const CODES: u64 = 5;
/// Bytes of a memo that are the key of another system, too.
const KEY_BYTES: usize = 12;

impl Content {
    /// Its code and key, which follow from the rest: a row of history that shows another label shows another content.
    pub fn label(&self) -> Label<'_> {
        let user_data = self.memo.get(..KEY_BYTES.min(self.memo.len())).unwrap_or("");
        Label { code: (self.amount % CODES) as u32, user_data }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Open an account.
    Open {
        /// Account id.
        id: String,
        /// Unit of measure.
        asset: String,
        /// Kind.
        kind: AccountKind,
    },
    /// Transfers, one by one or linked.
    Transfers {
        /// All or nothing.
        linked: bool,
        /// What to move.
        items: Vec<Item>,
    },
    /// Holds, one by one or linked.
    Holds {
        /// All or nothing.
        linked: bool,
        /// What to reserve.
        items: Vec<Item>,
    },
    /// Posts of holds: all, or part.
    Posts(Vec<(String, Option<u64>)>),
    /// Voids of holds.
    Voids(Vec<String>),
    /// A change of what is set on an account. It names the revision that it changes, so that it is done once.
    Change {
        /// Account id.
        id: String,
        /// What to change.
        change: ChangeRequest,
    },
    /// What became of a transfer.
    ReadTransfer {
        /// Its id.
        id: String,
    },
    /// A hold and its state.
    ReadHold {
        /// Its id.
        id: String,
    },
    /// One account.
    Read {
        /// Account id.
        id: String,
    },
    /// What an account had at a time.
    ReadAt {
        /// Account id.
        id: String,
        /// The time.
        at_ms: u64,
        /// Where an earlier answer ended.
        before: Option<String>,
    },
    /// A page of history.
    History {
        /// Account id.
        id: String,
        /// Cursor.
        before: Option<String>,
        /// Rows.
        limit: u32,
    },
    /// A page of accounts.
    List {
        /// Beginning of the ids.
        prefix: String,
        /// Continue behind this id.
        after: Option<String>,
        /// Accounts.
        limit: u32,
    },
    /// The last reconciliations.
    Audit,
}

impl Ask {
    /// The request at the door, of a client whose id space is that of the ids in it.
    pub fn request(&self) -> Request {
        let space = self.ids().first().map_or("", |id| IdSpace::split(id).0);
        assert!(self.ids().iter().all(|id| IdSpace::split(id).0 == space), "a client has one id space");
        self.as_written().in_space(&IdSpace::new(space).expect("clients have good names"))
    }

    /// The transfer and hold ids in it.
    fn ids(&self) -> Vec<&str> {
        match self {
            Ask::Transfers { items, .. } | Ask::Holds { items, .. } => items.iter().map(|item| &*item.id).collect(),
            Ask::Posts(posts) => posts.iter().map(|(id, _)| &**id).collect(),
            Ask::Voids(ids) => ids.iter().map(|id| &**id).collect(),
            Ask::ReadTransfer { id } | Ask::ReadHold { id } => vec![id],
            Ask::Open { .. }
            | Ask::Change { .. }
            | Ask::Read { .. }
            | Ask::ReadAt { .. }
            | Ask::History { .. }
            | Ask::List { .. }
            | Ask::Audit => Vec::new(),
        }
    }

    /// The request with the ids that the client writes.
    fn as_written(&self) -> Request {
        match self {
            Ask::Open { id, asset, kind } => {
                Request::OpenAccount { id: id.as_str().into(), asset: asset.as_str().into(), kind: *kind }
            }
            Ask::Transfers { linked, items } => Request::Transfers {
                linked: *linked,
                batch: TransferBatch::copy_of(items.iter().map(|Item { id, content }| Transfer {
                    id: written(id),
                    debit: &content.debit,
                    credit: &content.credit,
                    amount: content.amount,
                    memo: &content.memo,
                    label: content.label(),
                })),
            },
            Ask::Holds { linked: false, items } => Request::PlaceHolds(items.iter().map(hold_request).collect()),
            Ask::Holds { linked: true, items } => Request::PlaceLinkedHolds(items.iter().map(hold_request).collect()),
            Ask::Posts(posts) => {
                Request::PostHolds(posts.iter().map(|(id, amount)| (written(id).into(), *amount)).collect())
            }
            Ask::Voids(ids) => Request::VoidHolds(ids.iter().map(|id| written(id).into()).collect()),
            Ask::ReadTransfer { id } => Request::ReadTransfer { id: written(id).into() },
            Ask::ReadHold { id } => Request::ReadHold { id: written(id).into() },
            Ask::Change { id, change } => Request::ChangeAccount { id: id.as_str().into(), change: change.clone() },
            Ask::Read { id } => Request::ReadAccount { id: id.as_str().into() },
            Ask::ReadAt { id, at_ms, before } => Request::ReadBalanceAt {
                id: id.as_str().into(),
                at: TimeMs(*at_ms),
                before: before.as_deref().map(Into::into),
            },
            Ask::History { id, before, limit } => Request::ReadHistory {
                id: id.as_str().into(),
                before: before.as_deref().map(Into::into),
                limit: *limit,
                times: TimeSpan::ALL,
            },
            Ask::List { prefix, after, limit } => Request::ListAccounts {
                prefix: prefix.as_str().into(),
                after: after.as_deref().map(Into::into),
                limit: *limit,
            },
            Ask::Audit => Request::ReadAudit,
        }
    }

    /// Whether it changes what is set on an account.
    pub fn is_change(&self) -> bool {
        matches!(self, Ask::Change { .. })
    }

    /// Whether it changes anything, and so must be brought to an end.
    pub fn decides(&self) -> bool {
        !matches!(
            self,
            Ask::ReadTransfer { .. }
                | Ask::ReadHold { .. }
                | Ask::Read { .. }
                | Ask::ReadAt { .. }
                | Ask::History { .. }
                | Ask::List { .. }
                | Ask::Audit
        )
    }
}

/// The ledger's id of what a client of `space` writes; not made by the code that doors make it with.
pub fn whole(space: &str, written: &str) -> String {
    if space.is_empty() { written.to_owned() } else { format!("{space}\u{1f}{written}") }
}

/// The id as its client writes it.
fn written(id: &str) -> &str {
    IdSpace::split(id).1
}

/// The reply with the ids of the ledger: rows of a history name the id space beside the id.
pub fn with_whole_ids(mut reply: Reply) -> Reply {
    if let Reply::History { rows, .. } = &mut reply {
        for row in rows.iter_mut() {
            (row.id, row.id_space) = (whole(&row.id_space, &row.id).into(), "".into());
        }
    }
    reply
}

fn hold_request(item: &Item) -> HoldRequest {
    let content = &item.content;
    HoldRequest {
        id: written(&item.id).into(),
        debit: content.debit.as_str().into(),
        credit: content.credit.as_str().into(),
        amount: content.amount,
        expires_in_ms: content.expires_in_ms.expect("a hold has a lifetime"),
        memo: content.memo.as_str().into(),
        code: content.label().code,
        user_data: content.label().user_data.into(),
        open_holds_max: u32::MAX,
    }
}

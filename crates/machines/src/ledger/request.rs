//! Requests to the ledger, borrowed from the bytes that arrived.

use std::sync::Arc;

use super::settings::{AccountSettings, AccountStatus};

/// What an account may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AccountKind {
    /// Never below zero: a person's credits.
    Wallet = 1,
    /// May go negative: the shop that sells credits, where money enters.
    Source = 2,
    /// Credit-only, with a part on every shard: a candidate, a campaign's spend.
    Collector = 3,
}

impl AccountKind {
    /// Its word, as in requests and in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            AccountKind::Wallet => "wallet",
            AccountKind::Source => "source",
            AccountKind::Collector => "collector",
        }
    }
}

/// What a client's program keeps with a transfer or hold to find its own records again. It is content: the same id with
/// another label is `id_reused`. A record without one is not a byte longer.
///
/// Why a text and not 128 bits: the keys of other systems are texts (UUIDs, ULIDs, order numbers), and a JSON number is
/// exact only up to 2^53.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label<'a> {
    /// The reason, as the client numbers its reasons; 0 for none.
    pub code: u32,
    /// A key of another system, at most 64 bytes; empty for none.
    pub user_data: &'a str,
}

impl Label<'_> {
    /// Neither code nor key.
    pub const NONE: Label<'static> = Label { code: 0, user_data: "" };

    /// Whether there is neither code nor key.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.code == 0 && self.user_data.is_empty()
    }
}

/// Move `amount` from `debit` to `credit`, exactly once for this `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<'a> {
    /// Client-chosen, 1 to 64 bytes, never reused.
    pub id: &'a str,
    /// Account to take from.
    pub debit: &'a str,
    /// Account to give to.
    pub credit: &'a str,
    /// Minor units, as the client wrote it; validated by `decide`.
    pub amount: u64,
    /// Free text for the history, at most 256 bytes; empty for none.
    pub memo: &'a str,
    /// Code and key of the client's program.
    pub label: Label<'a>,
}

/// Reserve `amount` of `debit` for a later post to `credit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold<'a> {
    /// Client-chosen, 1 to 64 bytes, unique among all transfers and holds, never reused.
    pub id: &'a str,
    /// Account whose available balance shrinks.
    pub debit: &'a str,
    /// Account that a post will credit.
    pub credit: &'a str,
    /// Minor units, as the client wrote it; validated by `decide`.
    pub amount: u64,
    /// How long the hold lives, in milliseconds from its acceptance.
    pub expires_in_ms: u64,
    /// Free text for the history, at most 256 bytes; empty for none.
    pub memo: &'a str,
    /// Code and key of the client's program.
    pub label: Label<'a>,
}

/// The figures of one account (for a collector: of one part, or of all parts summed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountView {
    /// Account id.
    pub id: Box<str>,
    /// Unit of measure.
    pub asset: Box<str>,
    /// What the account may do.
    pub kind: AccountKind,
    /// `credited - debited`, minor units.
    pub balance: i64,
    /// Reserved by open holds, minor units.
    pub held: u64,
    /// All that ever came in, minor units; may pass 64 bits, as money can go in circles.
    pub credited: u128,
    /// All that ever went out, minor units.
    pub debited: u128,
    /// What was set on the account; `None` as long as nothing ever was.
    pub settings: Option<Arc<AccountSettings>>,
}

impl AccountView {
    /// `balance - held`: what a transfer may take from a wallet.
    pub fn available(&self) -> i128 {
        i128::from(self.balance) - i128::from(self.held)
    }

    /// Which movements it takes part in.
    pub fn status(&self) -> AccountStatus {
        self.settings.as_ref().map_or(AccountStatus::Open, |settings| settings.status)
    }
}

/// What a row of an account's history records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// Money moved.
    Transfer,
    /// A hold was placed; the balance is unchanged.
    Hold,
    /// A hold was posted; money moved.
    Post,
    /// A hold was voided; the balance is unchanged.
    Void,
    /// A hold expired; the balance is unchanged.
    Expire,
}

/// One row of an account's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    /// Transfer or hold id, as its client chose it.
    pub id: Box<str>,
    /// Name of the [id space](crate::IdSpace) in which that id is unique; empty for the empty one.
    pub id_space: Box<str>,
    /// What happened.
    pub kind: RowKind,
    /// Account that was (or would be) debited.
    pub debit: Box<str>,
    /// Account that was (or would be) credited.
    pub credit: Box<str>,
    /// Minor units moved or held.
    pub amount: u64,
    /// Free text, empty for none.
    pub memo: Box<str>,
    /// Code of the client's program; 0 for none.
    pub code: u32,
    /// Key of the client's program; empty for none.
    pub user_data: Box<str>,
    /// When it was decided, milliseconds since the epoch.
    pub time_ms: u64,
    /// The account's balance after this row, minor units.
    pub balance_after: i64,
}

//! One change: what a record of the journal says, with names instead of slots.

use std::sync::Arc;

use tidegate_machines::ledger::{AccountKind, AccountRules, Refusal};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal;)*) => {
        /// What a change is. Other records (claims of ids, confirmations between shards) change nothing that a reader
        /// of accounts could see, and are passed over.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ChangeKind { $($(#[$doc])* $kind),* }

        impl ChangeKind {
            /// All of them.
            pub const ALL: &[ChangeKind] = &[$(ChangeKind::$kind),*];

            /// Its stable name.
            pub fn word(self) -> &'static str {
                match self { $(ChangeKind::$kind => $word),* }
            }
        }
    };
}

kinds! {
    /// An account was opened.
    AccountOpened = "account_opened";
    /// Status, limits or metadata of an account were changed.
    AccountChanged = "account_changed";
    /// The decimals of an asset were declared.
    AssetDeclared = "asset_declared";
    /// Money moved. Where debit and credit live on different shards, the credit's shard adds a `credit_received`.
    Transfer = "transfer";
    /// Money was reserved.
    HoldPlaced = "hold_placed";
    /// A hold was posted: money moved, the rest is available again.
    HoldPosted = "hold_posted";
    /// A hold was voided.
    HoldVoided = "hold_voided";
    /// A hold expired.
    HoldExpired = "hold_expired";
    /// A credit that another shard decided arrived.
    CreditReceived = "credit_received";
    /// A transfer or hold was refused, for ever.
    Refused = "refused";
    /// An operator accepted that records are lost: a source account stands for what they moved.
    LossBooked = "loss_booked";
    /// An operator has set the time of the shard.
    TimeMended = "time_mended";
}

impl ChangeKind {
    /// The kind of this name.
    pub fn parse(word: &str) -> Option<ChangeKind> {
        ChangeKind::ALL.iter().copied().find(|kind| kind.word() == word)
    }
}

/// An account that a change is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedAccount {
    /// Account id.
    pub id: Arc<str>,
    /// Its balance after the change, minor units; for a collector with parts on several shards, that of this shard's
    /// part. `None` where the change did not concern it here, or the reader may not see it.
    pub balance_after: Option<i64>,
}

/// What was changed on an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedSettings {
    /// How often the account has been changed.
    pub revision: u64,
    /// Status and limits, as they are after the change.
    pub rules: AccountRules,
    /// Keys of the metadata that were set; `None` for a key that was removed.
    pub metadata: Vec<(Box<str>, Option<Box<str>>)>,
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Where to read on behind it.
    pub cursor: Box<str>,
    /// The shard whose journal has it.
    pub shard: u16,
    /// Number of the record in that journal.
    pub sequence: u64,
    /// When it was decided, milliseconds since the epoch.
    pub time_ms: u64,
    /// What it is.
    pub kind: ChangeKind,
    /// Transfer or hold id; `None` for accounts.
    pub id: Option<Box<str>>,
    /// The account that was opened or changed.
    pub account: Option<Arc<str>>,
    /// Of an account that was opened: its kind.
    pub opened_kind: Option<AccountKind>,
    /// Of an account that was changed: how.
    pub settings: Option<ChangedSettings>,
    /// Of an asset that was declared: digits of an amount behind the point.
    pub decimals: Option<u8>,
    /// The debited account, or the one whose money is held.
    pub debit: Option<ChangedAccount>,
    /// The credited account, or the one that a post would credit.
    pub credit: Option<ChangedAccount>,
    /// Unit of measure; `None` for a refusal.
    pub asset: Option<Arc<str>>,
    /// Minor units moved, or held; `None` where there are none.
    pub amount: Option<u64>,
    /// Of a hold that was posted: minor units that were held.
    pub held: Option<u64>,
    /// Of a hold that was placed: when it expires, milliseconds since the epoch.
    pub expires_at_ms: Option<u64>,
    /// Free text; empty for none.
    pub memo: Box<str>,
    /// Code of the client's program; 0 for none.
    pub code: u32,
    /// Key of the client's program; empty for none.
    pub user_data: Box<str>,
    /// Why not.
    pub refusal: Option<Refusal>,
}

impl Change {
    /// Bytes of memory that it takes, about; as JSON it takes hardly more. Names of accounts are counted, although
    /// memory has them once for all changes.
    pub fn held_bytes(&self) -> usize {
        let text = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let account = |account: &Option<ChangedAccount>| account.as_ref().map_or(0, |account| account.id.len());
        let metadata = self.settings.iter().flat_map(|settings| &settings.metadata);
        let set = metadata.map(|(key, value)| key.len() + value.as_ref().map_or(0, |value| value.len()));
        size_of::<Change>()
            + self.cursor.len()
            + self.id.as_ref().map_or(0, |id| id.len())
            + text(&self.account)
            + account(&self.debit)
            + account(&self.credit)
            + set.sum::<usize>()
            + self.memo.len()
            + self.user_data.len()
    }
}

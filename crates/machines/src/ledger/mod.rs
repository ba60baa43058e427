//! The ledger: accounts whose balances can never be overdrawn, and a history from which each can be rebuilt.
//!
//! ```text
//!   Command ─▶ decide ─▶ Event ─▶ journal
//!                ▲         │
//!                │         ▼ apply
//!              Ledger: accounts, open holds, credits on their way to other shards
//! ```
//!
//! Promises, each at every record of the journal:
//! * no wallet is below zero, nor below what its open holds reserve;
//! * per asset, balances + sent to other shards - received from other shards = 0 on every shard alone;
//! * an id names one transfer or hold, without time limit: a retry gets the first answer;
//! * a balance never overflows: the amount that sources may issue is capped so that no sum can.
//!
//! Why a fold of events: a balance is the sum of records, and each record states the balance after it.
//! [`Machine::apply`] checks every one of them, when it is written and at every replay.
//!
//! Memory is bounded by accounts, open holds and unconfirmed credits. Closed transfers and holds are removed from
//! memory: the shard finds the record of an id and passes it to [`Machine::decide`].
//!
//! [`Machine::apply`]: crate::Machine::apply
//! [`Machine::decide`]: crate::Machine::decide

mod account;
mod account_id;
mod account_order;
mod accounts;
mod apply;
mod asset;
mod change;
mod check;
mod codec;
mod command;
mod compared;
mod decide;
mod drift;
mod event;
mod hash;
mod history;
mod hold;
mod limits;
mod linked;
mod loss;
mod machine;
mod mends;
mod mismatch;
mod outcome;
mod peer;
mod reads;
mod request;
mod rules;
mod settings;
mod slot_table;
mod snapshot;
mod sound;
mod state;
mod ties;
mod validity;
mod visible;

#[cfg(test)]
mod tests;

pub use account::AccountSlot;
pub use account_order::AccountOrder;
pub use accounts::{Guess, SoughtPair};
pub use asset::AssetView;
pub use codec::EventError;
pub use command::{Command, InboundCredit};
pub use compared::{HoldFigures, PeerFigures};
pub use event::{AccountStep, CreditStep, Event, HoldFacts};
pub use hash::{Content, ContentDigest, content_digest, id_hash, id_hash_keyed, shard_of};
pub use limits::{
    ACCOUNT_ID_BYTES_MAX, ACCOUNTS_MAX, ASSET_BYTES_MAX, ASSET_DECIMALS_MAX, EVENT_BYTES_MAX, HOLD_EXPIRES_IN_MS_MAX,
    MEMO_BYTES_MAX, METADATA_BYTES_MAX, METADATA_KEY_BYTES_MAX, METADATA_KEYS_MAX, METADATA_VALUE_BYTES_MAX,
    OUTBOUND_PENDING_MAX, TIME_MS_MAX, TRANSFER_ID_BYTES_MAX, TRANSFERS_PER_REQUEST_MAX, USER_DATA_BYTES_MAX,
    WHOLE_ID_BYTES_MAX,
};
pub use loss::{ACCEPTED_LOSS_PREFIX, Exchanged, ExchangedSums, LossSide, PeerLoss, losses};
pub use mends::{Mend, Mends, RowTime};
pub use mismatch::Mismatch;
pub use outcome::{Outcome, Refusal, Ruling};
pub use peer::OutboundCredit;
pub use reads::{HoldState, HoldView, TransferState, TransferView};
pub use request::{AccountKind, AccountView, HistoryRow, Hold, Label, RowKind, Transfer};
pub use settings::{AccountChange, AccountRules, AccountSettings, AccountStatus, MetadataPatch};
pub use snapshot::SnapshotError;
pub use state::{AssetTotals, Ledger};
pub use validity::{check_hold, check_transfer, is_account_id, is_asset, is_printable, is_transfer_id};

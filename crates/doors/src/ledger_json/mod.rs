//! The ledger's requests and answers in JSON, the same for HTTP and MQTT.
//!
//! ```text
//!   body ─▶ TransferCall::read ─▶ Request ─▶ (a door asks the ledger) ─▶ Reply
//!   Reply ─▶ TransferCall::answer ─▶ body, or Problem
//!   AccountView ─▶ account_json ─▶ body
//! ```
//!
//! Why apart from the doors: both must answer the same outcome with the same JSON.

pub(crate) mod account;
pub(crate) mod hold;
mod hold_call;
pub(crate) mod moves;
pub(crate) mod open_call;
pub(crate) mod outcome;
mod refusal;
pub(crate) mod schemas;
pub(crate) mod transfer;
mod transfer_call;

pub(crate) use account::account_json;
pub(crate) use hold_call::HoldCall;
pub(crate) use open_call::OpenCall;
pub(crate) use refusal::{DAMAGED, refusal_codes};
pub(crate) use transfer_call::{TransferCall, first_missing};

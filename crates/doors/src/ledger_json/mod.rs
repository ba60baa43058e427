//! What the ledger is asked and answers in JSON, the same for HTTP and MQTT.
//!
//! ```text
//!   body ─▶ TransferCall::read ─▶ Request ─▶ (a door asks the ledger) ─▶ Reply
//!                                                                          └─▶ TransferCall::answer ─▶ body, or Problem
//!   AccountView ─▶ account_json ─▶ body
//! ```
//!
//! Why apart from the doors: two doors that word the same outcome in two ways would be two protocols.

pub(crate) mod account;
pub(crate) mod outcome;
mod refusal;
pub(crate) mod schemas;
pub(crate) mod transfer;
mod transfer_call;

pub(crate) use account::account_json;
pub(crate) use refusal::refusal_codes;
pub(crate) use transfer_call::TransferCall;

//! A client for Tidegate's binary port: blocking, pipelined, over TCP or TLS.
//!
//! ```no_run
//! use tidegate_client::{AccountKind, Client, Outcome, Transfer};
//!
//! let mut client = Client::connect("127.0.0.1:7420", "dev-service-token")?;
//! client.open_account("wallet:eve", "credit", AccountKind::Wallet)?;
//! let (memo, code, user_data) = ("", 0, "");
//! let (debit, credit) = ("source:shop", "wallet:eve");
//! let credits = Transfer { id: "sale-17", debit, credit, amount: 10, memo, code, user_data };
//! client.transfer(&credits)?;
//!
//! // If the reply is lost, send it again with the same id: the answer is then `Duplicate`, and nothing is done twice.
//! let (debit, credit) = ("wallet:eve", "candidate:3");
//! let vote = Transfer { id: "vote-4711", debit, credit, amount: 1, memo, code, user_data };
//! match client.transfer(&vote)? {
//!     Outcome::Applied | Outcome::Duplicate => println!("counted"),
//!     Outcome::Refused { code, available, .. } => println!("not counted: {code}, {available} left"),
//! }
//! # Ok::<(), tidegate_client::ClientError>(())
//! ```
//!
//! Many requests may be in flight. `send_*` only appends to a buffer, [`Client::flush`] writes it, [`Client::receive`]
//! gives the replies as they come, which may be in another order than the requests:
//!
//! ```no_run
//! # use tidegate_client::{Client, Reply, Transfer};
//! # fn votes() -> Vec<Transfer<'static>> { vec![] }
//! # let mut client = Client::connect("127.0.0.1:7420", "dev-service-token")?;
//! for batch in votes().chunks(1_000) {
//!     client.send_transfers(batch, false)?;
//! }
//! while client.in_flight() > 0 {
//!     let (correlation, reply) = client.receive()?;
//!     if let Reply::Outcomes(outcomes) = reply {
//!         println!("request {correlation}: {} outcomes", outcomes.len());
//!     }
//! }
//! # Ok::<(), tidegate_client::ClientError>(())
//! ```
//!
//! The pacer's bids, wins, losses and campaigns are requests like these ([`pacer`]).
//!
//! A program that drives sockets with its own poll loop uses [`Inbox`] and [`Outbox`], which do no I/O, and the
//! encoders of [`tidegate_wire`].
//!
//! Invariant: nothing here retries. A time-out means *unknown*; the caller decides whether to repeat the same ids. What
//! of the pacer may be sent again, [`pacer`] says: bids never.

mod call;
mod client;
mod connect;
mod error;
mod inbox;
mod outbox;
pub mod pacer;
mod reply;
mod request;
#[cfg(test)]
mod script;

pub use client::Client;
pub use connect::Timeouts;
pub use error::{ClientError, ServerError};
pub use inbox::Inbox;
pub use outbox::Outbox;
pub use pacer::{Bid, BidRequest, CampaignPut, NoBidReason, NoticeOutcome, Token, Win};
pub use reply::{Account, Opened, Outcome, Page, Reply};
pub use request::{Hold, Transfer};
pub use tidegate_wire::proto::{
    AccountKind, AccountStatus, Asset, AuditDifference, AuditReport, ChangeAccount, HistoryRow, HoldState,
    HoldStateKind, OpenHolds, OutcomeKind, RowKind, TransferState, Welcome,
};

//! Collectors that the configuration shows people: each start names those that are not there.
//!
//! Why: a misspelt account is an account that does not exist, and who shows collectors can only leave it out.
//!
//! Promise: this only warns. An account that is missing now may be opened later, by whoever may open accounts.

use tidegate_machines::ledger::AccountKind;
use tidegate_runtime::Carries;
use tidegate_runtime::background::Background;

use crate::message::{Reply, Request};
use crate::operation::Message;
use crate::router::Router;

/// An account that is shown as a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCollector {
    /// Where it is written, such as `dev.toml:505`.
    pub at: String,
    /// Account id.
    pub id: Box<str>,
}

/// Warns of each that is no collector. One whose shard does not answer is left to the shard's own warnings.
pub(super) fn look<P: Carries<Message>>(shown: &[ShownCollector], background: &mut Background<P, Router>) {
    for ShownCollector { at, id } in shown {
        let why = match background.ask(Request::ReadAccount { id: id.clone() }, &|| false) {
            Some(Reply::Account(account)) if account.kind != AccountKind::Collector => "is not a collector",
            Some(Reply::Refused(_)) => "does not exist",
            _ => continue,
        };
        let id = &**id;
        tracing::warn!(at, id, "this account {why}, so it is not shown: is its id right?");
    }
}

//! What a client may do, as the broker asks it.

use std::any::Any;
use std::fmt;

/// The rights of one user, asked at each PUBLISH and SUBSCRIBE. Shared between threads, so what it remembers is its own affair.
///
/// `Any`, so that a shell finds its own type again where the broker gives the rights back (`Action::AskLedger`).
pub trait Rights: Any + Send + Sync + fmt::Debug {
    /// Whom these rights belong to; `None` for anonymous. A reload finds the new rights by it.
    fn user(&self) -> Option<&str>;
    /// Whether the client may publish to `topic`, which holds no wildcards.
    fn may_publish(&self, client_id: &str, topic: &str) -> Access;
    /// Whether the client may subscribe to `filter`, given without `$share/group/`.
    fn may_subscribe(&self, client_id: &str, filter: &str) -> Access;
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Yes.
    Allowed,
    /// No.
    Denied,
    /// Yes, if this ledger account is a collector, which only the ledger knows. Means no where the broker cannot ask (PUBLISH).
    IfCollector(Box<str>),
}

//! Whose a session or a message is: the name of who made it.
//!
//! ```text
//!   u:NAME   a user          c:NAME      who showed a certificate of this name
//!   s:NAME   a service       a:ADDRESS   nobody that is known, from this address
//!   p:NAME   a user of an identity provider, PROVIDER:SUBJECT
//! ```
//!
//! Why one text and not a table of numbers: it stands in records and snapshots, and must mean the same after a restart.

use std::fmt;
use std::sync::Arc;

/// Bytes of a principal's text.
pub const PRINCIPAL_BYTES_MAX: usize = 4 << 10;

const ADDRESS: &str = "a:";

/// What a principal is, with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrincipalKind<'a> {
    /// A user.
    User(&'a str),
    /// A service.
    Service(&'a str),
    /// Who showed a certificate of this name.
    Certificate(&'a str),
    /// A user of an identity provider: the provider's name, a colon, and the provider's name of the user.
    Provided(&'a str),
    /// Nobody that is known, from this class of addresses.
    Address(&'a str),
    /// Of a kind that another version has written.
    Unknown,
}

/// Never empty. Two are the same principal if their texts are equal.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal(Arc<str>);

impl Principal {
    /// A user.
    pub fn user(name: &str) -> Principal {
        Principal::of("u:", name)
    }

    /// A service.
    pub fn service(name: &str) -> Principal {
        Principal::of("s:", name)
    }

    /// Who showed a certificate of this name.
    pub fn certificate(name: &str) -> Principal {
        Principal::of("c:", name)
    }

    /// A user of an identity provider, by a name that begins with the provider's.
    pub fn provided(name: &str) -> Principal {
        Principal::of("p:", name)
    }

    /// Nobody that is known, from a class of addresses.
    pub fn address(class: &str) -> Principal {
        Principal::of(ADDRESS, class)
    }

    /// One that was written down; `None` if it cannot have been.
    pub fn from_text(text: &str) -> Option<Principal> {
        (1..=PRINCIPAL_BYTES_MAX).contains(&text.len()).then(|| Principal(text.into()))
    }

    /// # Panics
    /// If the name is longer than [`PRINCIPAL_BYTES_MAX`] allows: whoever takes names in bounds them.
    fn of(kind: &str, name: &str) -> Principal {
        assert!(kind.len() + name.len() <= PRINCIPAL_BYTES_MAX, "a name of {} bytes", name.len());
        Principal([kind, name].concat().into())
    }

    /// As it is written down.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What it is.
    pub fn kind(&self) -> PrincipalKind<'_> {
        match self.0.split_at_checked(2) {
            Some(("u:", name)) => PrincipalKind::User(name),
            Some(("s:", name)) => PrincipalKind::Service(name),
            Some(("c:", name)) => PrincipalKind::Certificate(name),
            Some(("p:", name)) => PrincipalKind::Provided(name),
            Some((ADDRESS, class)) => PrincipalKind::Address(class),
            _ => PrincipalKind::Unknown,
        }
    }

    /// Whether it is only known where it came from.
    pub fn is_anonymous(&self) -> bool {
        self.0.starts_with(ADDRESS)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

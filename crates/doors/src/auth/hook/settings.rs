//! What the configuration says of the hook.

use std::fmt;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::auth::grant::Grant;
use crate::auth::provider::{ProvidedRole, Template};

/// The text in a template that stands for the name that a user logs in with.
pub const USER_CLAIM: &str = "user";

/// The hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSettings {
    /// What the names of its users begin with, before a colon.
    pub name: Box<str>,
    /// Where it is asked.
    pub url: Box<str>,
    /// The header that shows who asks, and what it has.
    pub secret: (Box<str>, HookSecret),
    /// How long one answer may take.
    pub timeout: Duration,
    /// Questions that it is asked at once.
    pub asked_max: usize,
    /// Log-ins that wait for their turn to be asked about.
    pub waiting_max: usize,
    /// The role of a user of whose role it says nothing.
    pub role: ProvidedRole,
    /// The wallets of a viewer of whose wallets it says nothing.
    pub wallets: Vec<Template>,
    /// What a service may do of whose grants it says nothing.
    pub grants: Vec<Grant>,
    /// In which asset wallets are opened; `None`: they are not.
    pub open_wallets_in: Option<Box<str>>,
    /// How long it is not asked again about a password that it allowed.
    pub allowed: Duration,
    /// How long it is not asked again about one that it denied.
    pub denied: Duration,
    /// Passwords of each of both kinds that are remembered.
    pub remembered_max: usize,
    /// The longest time between two questions to a hook that does not answer.
    pub retry_max: Duration,
}

/// What only the hook and this server know. No log shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct HookSecret(Box<str>);

impl HookSecret {
    /// The value of the header.
    pub fn new(value: impl Into<Box<str>>) -> HookSecret {
        HookSecret(value.into())
    }

    /// The value of the header.
    pub fn value(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for HookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookSecret")
    }
}

impl HookSettings {
    /// A mark of all that decides on rights. A token carries it, so that other settings end what these have given. It
    /// is the same after a restart. Another secret, time or bound leaves it as it is.
    pub(super) fn stamp(&self) -> Box<str> {
        let HookSettings { name, url, role, wallets, grants, open_wallets_in, .. } = self;
        let said = format!("{:?}", (name, url, role, wallets, grants, open_wallets_in));
        Sha256::digest(said.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>().into()
    }
}

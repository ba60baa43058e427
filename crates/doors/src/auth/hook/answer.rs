//! What the hook answers, and what a user may do by it.

use serde::{Deserialize, Serialize};
use tidegate_machines::ledger::is_account_id;

use super::settings::{HookSettings, USER_CLAIM};
use crate::auth::grant::Grant;
use crate::auth::identity::Rights;
use crate::auth::provider::{ProvidedRole, is_part};

/// Longest answer that is read, in bytes.
pub const HOOK_ANSWER_BYTES_MAX: usize = 4 << 10;
/// Wallets that an answer may list.
const WALLETS_MAX: usize = 16;
/// Grants that an answer may list.
const GRANTS_MAX: usize = 64;

/// Characters at most of what is wrong with an answer: it may quote the answer.
const FAULT_CHARS_MAX: usize = 200;

/// What a hook answered, whether it can be followed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookAnswer(Result<Written, Unusable>);

/// An answer as it is written: `{"result":"allow","role":"viewer","wallets":["wallet:dave"],"expires_at":1790000000}`.
/// What else it says is refused: a misspelt `expires_at` would be a right without an end.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    result: HookResult,
    role: Option<GrantedRole>,
    wallets: Option<Vec<Box<str>>>,
    grants: Option<Vec<Box<str>>>,
    /// First second since the epoch in which it does not hold any more.
    expires_at: Option<u64>,
}

/// Whether the user comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum HookResult {
    Allow,
    Deny,
    /// The hook does not know the user. There is nobody else who would.
    Ignore,
}

/// What an answer gives; what it leaves out is as the configuration says. A token carries it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<GrantedRole>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wallets: Option<Vec<Box<str>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grants: Option<Vec<Box<str>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum GrantedRole {
    Viewer,
    Service,
}

/// What an answer decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decided {
    /// The user comes in, up to a second since the epoch.
    Allowed(Granted, u64),
    /// The user does not.
    Denied,
}

/// Why an answer cannot be followed. Whoever runs the hook reads it in the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    /// It is not what an answer is.
    #[error("expected {{\"result\": \"allow\", \"deny\" or \"ignore\", …}}: {0}")]
    Unreadable(Box<str>),
    /// It is longer than what is read.
    #[error("it is longer than {HOOK_ANSWER_BYTES_MAX} bytes")]
    TooLong,
    /// A grant that is none.
    #[error("{0}")]
    Grant(#[from] crate::auth::GrantError),
    /// Too many of them.
    #[error("it lists more than {WALLETS_MAX} wallets or {GRANTS_MAX} grants")]
    TooMany,
    /// A wallet that cannot be.
    #[error("the wallet {0:?} is no account id")]
    NoAccount(Box<str>),
    /// A wallet of somebody of the configuration.
    #[error("the wallet {0:?} is, or may be, that of a [[user]] or of a user of an [[identity_provider]]")]
    Taken(Box<str>),
    /// The name does not fit between the colons of a wallet's id.
    #[error("it lists no wallets, and the user's name cannot stand in auth_hook.wallets")]
    Name,
    /// A time that was.
    #[error("its expires_at is over")]
    Expired,
}

impl HookAnswer {
    /// The answer that this text is.
    pub fn read(text: &[u8]) -> HookAnswer {
        let fault = |error: serde_json::Error| error.to_string().chars().take(FAULT_CHARS_MAX).collect::<String>();
        HookAnswer(serde_json::from_slice(text).map_err(|error| Unusable::Unreadable(fault(error).into())))
    }

    /// One of which no more than [`HOOK_ANSWER_BYTES_MAX`] was read.
    pub fn too_long() -> HookAnswer {
        HookAnswer(Err(Unusable::TooLong))
    }

    /// What it decides at `now_s`.
    pub(super) fn decide(self, now_s: u64) -> Result<Decided, Unusable> {
        let written = self.0?;
        let expires_at_s = written.expires_at.unwrap_or(u64::MAX);
        match written.result {
            HookResult::Deny | HookResult::Ignore => Ok(Decided::Denied),
            HookResult::Allow if expires_at_s <= now_s => Err(Unusable::Expired),
            HookResult::Allow => {
                let Written { role, wallets, grants, .. } = written;
                Ok(Decided::Allowed(Granted { role, wallets, grants }, expires_at_s))
            }
        }
    }
}

impl Granted {
    /// What `user` may do by it. A wallet that `is_taken` is nobody's here.
    pub(super) fn rights(
        &self,
        settings: &HookSettings,
        user: &str,
        is_taken: impl Fn(&str) -> bool,
    ) -> Result<Rights, Unusable> {
        let role = match self.role {
            Some(GrantedRole::Viewer) => ProvidedRole::Viewer,
            Some(GrantedRole::Service) => ProvidedRole::Service,
            None => settings.role,
        };
        match role {
            ProvidedRole::Viewer => Ok(Rights::Viewer { wallets: self.wallets(settings, user, is_taken)? }),
            ProvidedRole::Service => Ok(Rights::Service { grants: self.grants(settings)? }),
        }
    }

    fn wallets(
        &self,
        settings: &HookSettings,
        user: &str,
        is_taken: impl Fn(&str) -> bool,
    ) -> Result<Vec<Box<str>>, Unusable> {
        let wallets = match &self.wallets {
            Some(wallets) if wallets.len() > WALLETS_MAX => return Err(Unusable::TooMany),
            Some(wallets) => wallets.clone(),
            None => {
                let claim = |name: &str| (name == USER_CLAIM && is_part(user)).then(|| user.into());
                let filled = settings.wallets.iter().map(|template| template.fill(claim));
                filled.collect::<Option<_>>().ok_or(Unusable::Name)?
            }
        };
        for wallet in &wallets {
            if !is_account_id(wallet) {
                return Err(Unusable::NoAccount(wallet.clone()));
            }
            if is_taken(wallet) {
                return Err(Unusable::Taken(wallet.clone()));
            }
        }
        Ok(wallets)
    }

    fn grants(&self, settings: &HookSettings) -> Result<Vec<Grant>, Unusable> {
        match &self.grants {
            Some(grants) if grants.len() > GRANTS_MAX => Err(Unusable::TooMany),
            Some(grants) => Ok(grants.iter().map(|grant| grant.parse()).collect::<Result<_, _>>()?),
            None => Ok(settings.grants.clone()),
        }
    }
}

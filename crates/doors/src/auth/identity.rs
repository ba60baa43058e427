//! A caller whose token was good, and the rights that the configuration gives them.

use std::sync::Arc;

use tidegate_machines::ledger::{AccountKind, AccountView};

use super::grant::{Action, Grant, Pattern};

/// A caller. Cheap to clone; the same object for all requests of one user or service.
#[derive(Clone, Debug)]
pub struct Identity {
    inner: Arc<(Box<str>, Rights)>,
}

impl Identity {
    /// A caller of this name with these rights.
    pub fn new(name: impl Into<Box<str>>, rights: Rights) -> Identity {
        Identity { inner: Arc::new((name.into(), rights)) }
    }

    /// The user's or service's name.
    pub fn name(&self) -> &str {
        &self.inner.0
    }

    /// What they may do.
    pub fn rights(&self) -> &Rights {
        &self.inner.1
    }

    /// Whether they may do this in `room` with what has this `name` there. Viewers may not: their rights are about
    /// accounts.
    pub fn may(&self, room: &str, action: Action, name: &str) -> bool {
        self.rights().may_in_room(room, action, name)
    }
}

/// An answer that may depend on the kind of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Yes.
    Allowed,
    /// No.
    Forbidden,
    /// Yes if the account is a collector; the door must find out.
    IfCollector,
}

/// What a caller may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// A member of the audience: reads own wallets and all collectors, debits only own wallets, credits only
    /// collectors.
    Viewer {
        /// Ids of the own wallets.
        wallets: Vec<Box<str>>,
    },
    /// A program: what its grants list.
    Service {
        /// The grants.
        grants: Vec<Grant>,
    },
}

impl Rights {
    /// Whether they may debit `account`, by a transfer or a hold.
    pub fn may_debit(&self, account: &str) -> bool {
        match self {
            Rights::Viewer { .. } => self.owns(account),
            Rights::Service { .. } => self.granted(|grant| match grant {
                Grant::Transfers(pattern) | Grant::Debit(pattern) => pattern.matches(account),
                _ => false,
            }),
        }
    }

    /// Whether they may credit `account`; `kind` if the door knows it.
    pub fn may_credit(&self, account: &str, kind: Option<AccountKind>) -> Access {
        match self {
            Rights::Viewer { .. } => collector(kind),
            Rights::Service { .. } => answer(self.granted(|grant| match grant {
                Grant::Transfers(pattern) | Grant::Credit(pattern) => pattern.matches(account),
                _ => false,
            })),
        }
    }

    /// Whether they may read balance and history of `account`; `kind` if the door knows it.
    pub fn may_read(&self, account: &str, kind: Option<AccountKind>) -> Access {
        match self {
            Rights::Viewer { .. } if self.owns(account) => Access::Allowed,
            Rights::Viewer { .. } => collector(kind),
            Rights::Service { .. } => answer(self.granted(|grant| match grant {
                Grant::Read(pattern) => pattern.matches(account),
                _ => false,
            })),
        }
    }

    /// Whether there may be accounts that they read, beside collectors.
    pub fn may_read_some(&self) -> bool {
        match self {
            Rights::Viewer { .. } => true,
            Rights::Service { .. } => self.granted(|grant| matches!(grant, Grant::Read(_))),
        }
    }

    /// Whether a list may show them this account.
    pub fn may_see(&self, account: &AccountView) -> bool {
        self.may_read(&account.id, Some(account.kind)) == Access::Allowed
    }

    /// Whether they may open `account`.
    pub fn may_open_account(&self, account: &str) -> bool {
        self.granted(|grant| matches!(grant, Grant::OpenAccounts(pattern) if pattern.matches(account)))
    }

    /// Whether they may post and void holds. A door cannot see whose hold an id is, so it is all or none.
    pub fn may_settle_holds(&self) -> bool {
        self.granted(|grant| matches!(grant, Grant::SettleHolds | Grant::Transfers(Pattern::Any)))
    }

    /// Whether they may read the auditor's reports.
    pub fn may_audit(&self) -> bool {
        self.granted(|grant| *grant == Grant::Audit)
    }

    /// Whether they may send the clients away.
    pub fn may_drain(&self) -> bool {
        self.granted(|grant| *grant == Grant::Drain)
    }

    /// Whether they may do this in `room` with what has this `name` there.
    pub fn may_in_room(&self, room: &str, action: Action, name: &str) -> bool {
        self.granted(|grant| match grant {
            Grant::Room { room: of, action: granted, names } => {
                **of == *room && *granted == action && names.matches(name)
            }
            _ => false,
        })
    }

    /// Whether they may read metrics.
    pub fn may_read_metrics(&self) -> bool {
        self.granted(|grant| *grant == Grant::Metrics)
    }

    /// Whether any debit and any credit is allowed, so that a batch needs no look at each of its transfers.
    pub fn may_transfer_anything(&self) -> bool {
        self.granted(|grant| *grant == Grant::Transfers(Pattern::Any))
    }

    fn owns(&self, account: &str) -> bool {
        matches!(self, Rights::Viewer { wallets } if wallets.iter().any(|wallet| **wallet == *account))
    }

    fn granted(&self, allows: impl Fn(&Grant) -> bool) -> bool {
        match self {
            Rights::Viewer { .. } => false,
            Rights::Service { grants } => grants.iter().any(|grant| *grant == Grant::Everything || allows(grant)),
        }
    }
}

fn collector(kind: Option<AccountKind>) -> Access {
    match kind {
        Some(AccountKind::Collector) => Access::Allowed,
        Some(AccountKind::Wallet | AccountKind::Source) => Access::Forbidden,
        None => Access::IfCollector,
    }
}

fn answer(granted: bool) -> Access {
    if granted { Access::Allowed } else { Access::Forbidden }
}

//! The money of campaigns, as the keeper asks for it: what a ledger is asked, and what it may say.

use crate::control::{Money, Paid, Settlement};
use crate::units::BudgetMicros;

/// What became of money that was to be held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is held.
    Done,
    /// The account has only so much.
    Insufficient {
        /// So much.
        available: BudgetMicros,
    },
    /// The ledger refuses, and this is why.
    Refused(String),
    /// Nobody knows: it is asked again.
    Unknown(String),
}

/// What became of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The ledger has what was spent, and has given back the rest.
    Done,
    /// There is no hold of this lease, and nothing was spent of it.
    Nothing,
    /// The ledger was told another amount before, which stands: it, or the log of the campaigns, is of an older backup,
    /// or somebody else has settled the hold.
    Otherwise {
        /// What it has paid, where it says so.
        paid: Option<BudgetMicros>,
    },
    /// The ledger refuses, and this is why. It is asked again: no money may be lost.
    Refused(String),
    /// The same, and nothing is held: the hold was given back, or has expired.
    NotHeld(String),
    /// The same, and the ledger knows no such hold: it is of an older backup, or another one than before.
    NotFound(String),
    /// Nobody knows: it is asked again.
    Unknown(String),
}

/// How the ledger is, as far as that can be told while no money is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerSeen {
    /// Nobody can tell.
    Untold,
    /// It answers.
    Good,
    /// It does not answer, or holds no money, and this is why.
    Away(String),
    /// It is another one than before: nothing is asked of it.
    Other(String),
    /// It answers, and cannot be known again after a restart, for this reason.
    Unremembered(String),
}

/// What the ledger has paid for leases, in a part of an account's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaidPage {
    /// Newest first.
    pub paid: Vec<Paid>,
    /// How many rows of the history were read for it.
    pub rows: usize,
    /// Where the history goes on; `None` at its end.
    pub next: Option<Box<str>>,
}

/// The money of campaigns.
pub trait Treasury {
    /// Holds money, each under an id that follows from its lease. In the order of what was asked.
    fn hold(&self, money: Vec<Money>) -> impl Future<Output = Vec<Held>>;

    /// Of which leases of this pacer the ledger holds money of an account, for sure: none, where another pacer may have
    /// leases that cannot be told apart from those of this one.
    fn held_of(&self, account: &str) -> impl Future<Output = Result<Vec<Money>, String>>;

    /// What the ledger has paid out of an account for leases of this pacer, before where an earlier page has ended. It
    /// may be for leases of a copy of this pacer, too; it is nothing where this pacer may not read it.
    fn paid_of(&self, account: &str, before: Option<Box<str>>) -> impl Future<Output = Result<PaidPage, String>>;

    /// How the ledger is.
    fn look(&self) -> impl Future<Output = LedgerSeen>;

    /// Pays what was spent and gives back the rest. In the order of what was asked.
    fn settle(&self, settlements: Vec<Settlement>) -> impl Future<Output = Vec<Settled>>;
}

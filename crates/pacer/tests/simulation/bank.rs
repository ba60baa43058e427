//! The ledger as pacers see it: accounts, and holds of several nodes in one space of ids.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_machines::TimeMs;
use tidegate_pacer::control::{self, Money, Settlement, lease_of};
use tidegate_pacer::keeper::{Held, Settled};
use tidegate_pacer::machine::LeaseId;
use tidegate_pacer::units::BudgetMicros;

/// Names a hold.
type HoldId = Box<str>;

/// Money that is held.
struct Hold {
    node: usize,
    lease: LeaseId,
    account: Box<str>,
    spend: Box<str>,
    amount: u64,
    campaign: Option<u32>,
}

/// Money that was held, and what was paid of it.
pub struct Paid {
    pub node: usize,
    pub lease: LeaseId,
    /// When the lease was opened.
    pub opened: TimeMs,
    account: Box<str>,
    spend: Box<str>,
    pub amount: u64,
    campaign: Option<u32>,
}

/// Accounts and holds.
#[derive(Default)]
pub struct Bank {
    balances: BTreeMap<Box<str>, u64>,
    holds: BTreeMap<HoldId, Hold>,
    /// Holds that are over, and what was paid of them.
    over: BTreeMap<HoldId, u64>,
    /// The same, in the order in which they were settled.
    settled: Vec<Paid>,
    /// It settles nothing: the accounts of what is spent are frozen.
    refuses: bool,
}

impl Bank {
    /// Money comes in.
    pub fn fund(&mut self, account: &str, amount: u64) {
        *self.balances.entry(account.into()).or_default() += amount;
    }

    /// What an account has.
    pub fn balance(&self, account: &str) -> u64 {
        self.balances.get(account).copied().unwrap_or(0)
    }

    /// What of it is held.
    pub fn held(&self, account: &str) -> u64 {
        self.holds.values().filter(|hold| &*hold.account == account).map(|hold| hold.amount).sum()
    }

    /// What is held to be paid to an account.
    pub fn held_for(&self, spend: &str) -> u64 {
        self.holds.values().filter(|hold| &*hold.spend == spend).map(|hold| hold.amount).sum()
    }

    /// The leases of a node whose money is held.
    pub fn leases(&self, node: usize) -> BTreeSet<LeaseId> {
        self.holds.values().filter(|hold| hold.node == node).map(|hold| hold.lease).collect()
    }

    /// Of which leases of a node money of an account is held.
    pub fn held_of(&self, node: usize, account: &str) -> Vec<Money> {
        let of_it = |(id, hold): (&HoldId, &Hold)| {
            let (opened, _, lease) = lease_of(id).expect("it was made of a lease");
            let (spend, amount) = (hold.spend.clone(), BudgetMicros(hold.amount));
            let is_of_it = hold.node == node && *hold.account == *account;
            is_of_it.then_some(Money { lease, opened, campaign: None, account: account.into(), spend, amount })
        };
        self.holds.iter().filter_map(of_it).collect()
    }

    /// Holds that were settled.
    pub fn settled(&self) -> &[Paid] {
        &self.settled
    }

    /// What a node's holds for an account beside those of known leases are.
    pub fn held_beside(&self, node: usize, spend: &str, known: &BTreeSet<(LeaseId, TimeMs)>) -> u64 {
        let is_known = |id| lease_of(id).is_some_and(|(opened, _, lease)| known.contains(&(lease, opened)));
        let of_it = self.holds.iter().filter(|(id, hold)| hold.node == node && *hold.spend == *spend && !is_known(id));
        of_it.map(|(_, hold)| hold.amount).sum()
    }

    /// What was paid of a node's holds for an account for other leases than the known ones, and that was settled behind
    /// the first `behind`.
    pub fn paid_beside(&self, node: usize, spend: &str, behind: usize, known: &BTreeSet<(LeaseId, TimeMs)>) -> u64 {
        let of_it = self.settled[behind..].iter().filter(|paid| paid.node == node && *paid.spend == *spend);
        of_it.filter(|paid| !known.contains(&(paid.lease, paid.opened))).map(|paid| paid.amount).sum()
    }

    /// What was paid of a node's holds for an account.
    pub fn paid_by(&self, node: usize, spend: &str) -> u64 {
        let of_it = self.settled.iter().filter(|paid| paid.node == node && *paid.spend == *spend);
        of_it.map(|paid| paid.amount).sum()
    }

    /// What was paid of a node's holds of an account one by one, newest first.
    pub fn payments(&self, node: usize, account: &str) -> Vec<control::Paid> {
        let of_it = self.settled.iter().rev().filter(|paid| paid.node == node && *paid.account == *account);
        of_it
            .filter(|paid| paid.amount > 0)
            .map(|Paid { lease, opened, campaign, amount, .. }| control::Paid {
                lease: *lease,
                opened: *opened,
                campaign: *campaign,
                amount: BudgetMicros(*amount),
            })
            .collect()
    }

    /// From now on, it settles nothing, or everything again.
    pub fn refuse(&mut self, refuses: bool) {
        self.refuses = refuses;
    }

    /// Holds money.
    pub fn hold(&mut self, node: usize, money: &Money) -> Held {
        let id = money.hold_id(number(node));
        if self.holds.contains_key(&id) || self.over.contains_key(&id) {
            return Held::Done;
        }
        let available = self.balance(&money.account) - self.held(&money.account);
        if available < money.amount.0 {
            return Held::Insufficient { available: BudgetMicros(available) };
        }
        let Money { lease, account, spend, amount, campaign, .. } = money.clone();
        self.holds.insert(id, Hold { node, lease, account, spend, amount: amount.0, campaign });
        Held::Done
    }

    /// Pays what was spent and gives back the rest.
    pub fn settle(&mut self, node: usize, settlement: &Settlement) -> Settled {
        let (id, spent) = (settlement.money.hold_id(number(node)), settlement.spent.0);
        if let Some(paid) = self.over.get(&id) {
            let paid = BudgetMicros(*paid);
            return if paid.0 == spent { Settled::Done } else { Settled::Otherwise { paid: Some(paid) } };
        }
        if self.refuses {
            return Settled::Refused("credit_account_frozen".to_owned());
        }
        let Some(Hold { lease, account, spend, amount, campaign, .. }) = self.holds.remove(&id) else {
            return if spent == 0 { Settled::Nothing } else { Settled::NotFound("hold_not_found".to_owned()) };
        };
        assert!(spent <= amount, "a lease spends no more than is held");
        *self.balances.get_mut(&account).expect("it has a hold") -= spent;
        self.fund(&spend, spent);
        let opened = settlement.money.opened;
        self.settled.push(Paid { node, lease, opened, account, spend, amount: spent, campaign });
        self.over.insert(id, spent);
        Settled::Done
    }

    /// An account has what is held of it, together with what was paid out of it to others what was funded.
    pub fn check(&self, account: &str, spends: &[Box<str>], funds: u64) -> Result<(), String> {
        let (left, held) = (self.balance(account), self.held(account));
        let spent: u64 = spends.iter().map(|spend| self.balance(spend)).sum();
        if held > left || left.checked_add(spent) != Some(funds) {
            return Err(format!(
                "{account} has {left} of {funds}, of which {held} is held, and {spends:?} have {spent}"
            ));
        }
        Ok(())
    }
}

/// By which the ids of a node's holds are other ones than those of others.
fn number(node: usize) -> u16 {
    u16::try_from(node).expect("there are few nodes")
}

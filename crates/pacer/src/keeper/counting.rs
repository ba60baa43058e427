//! Counts what the ledger has paid for leases that the log of campaigns does not know: that has lost its end, or was put
//! back from a backup beside a ledger that went on.
//!
//! ```text
//!   history of an account, newest first:   lost, lost, open here, lost, │ settled and forgotten here ...
//!                                          all of these may be unknown  │ nothing behind it is
//! ```
//!
//! Promise: no lease is opened before it is known what was paid, and all of it counts against the budgets.
//!
//! Why the first lease that is settled and forgotten ends the search: its settlement was paid before its record was
//! written, and each lease that is lost was opened behind that record. Of a campaign none of whose leases is settled, the
//! time of the shard's newest record does, an hour before it.

use std::collections::BTreeSet;

use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_planted::{Bug, is_planted};

use super::{Bidders, Keeper, LEASES_AT_ONCE, Shards, Treasury};
use crate::control::PaidOf;
use crate::machine::{Command, RegainedLease};
use crate::units::BudgetMicros;

/// By how much the clocks of ledger and campaigns may differ.
const SLACK_MS: u64 = 3_600_000;

impl<S: Shards, B: Bidders, T: Treasury> Keeper<S, B, T> {
    /// Looks what the ledger has paid for leases that are not known here, and counts it. It may go on beside all else,
    /// and is done once in a process. Returns whether it is done.
    pub async fn count_paid(&self) -> bool {
        if self.is_counted.get() {
            return true;
        }
        match self.count_lost().await {
            Ok(()) => self.is_counted.set(true),
            Err(why) => {
                self.note_ledger(true);
                self.tell("what the ledger has paid is not known yet, and no money is leased before", &why);
                return false;
            }
        }
        self.note_ledger(false);
        true
    }

    async fn count_lost(&self) -> Result<(), String> {
        while let Some((account, campaigns)) = self.uncounted() {
            let found = self.lost_of(&account, &campaigns).await?;
            self.found.borrow_mut().extend(found);
            self.control.borrow_mut().counted(&account);
        }
        let mut found = self.found.borrow().clone();
        found.sort_by_key(|lost| lost.lease);
        let number = found.len();
        // A shard passes over what it has counted already.
        for (shard, lost) in self.by_shard(found, |lost: &RegainedLease| lost.lease.shard()) {
            for lost in lost.chunks(LEASES_AT_ONCE) {
                self.shards.ask(shard, Command::Regain { leases: lost.to_vec() }).await?;
            }
        }
        self.found.take().iter().for_each(|lost| self.control.borrow_mut().regained(lost.campaign));
        self.regained.set(number as u64);
        Ok(())
    }

    fn uncounted(&self) -> Option<(Box<str>, Vec<u32>)> {
        self.control.borrow().uncounted().filter(|_| !is_planted(Bug::LostLeasesUncounted))
    }

    /// Leases that the ledger has paid out of an account, and that a lost part of the log has opened.
    async fn lost_of(&self, account: &str, campaigns: &[u32]) -> Result<Vec<RegainedLease>, String> {
        let mut unsure: BTreeSet<ShardIndex> = campaigns.iter().map(|number| self.shard_of(*number)).collect();
        let began = unsure.iter().map(|shard| self.control.borrow().began(*shard)).min().unwrap_or_default();
        let since = TimeMs(began.0.saturating_sub(SLACK_MS));
        let (mut lost, mut of_nobody, mut before) = (Vec::new(), BudgetMicros::ZERO, None);
        while !unsure.is_empty() {
            let page = self.treasury.paid_of(account, since, before).await?;
            for paid in page.paid.iter().filter(|paid| unsure.contains(&paid.lease.shard())).collect::<Vec<_>>() {
                match self.control.borrow().paid_of(paid, campaigns) {
                    PaidOf::Open => {}
                    PaidOf::Forgotten => drop(unsure.remove(&paid.lease.shard())),
                    PaidOf::Lost(lease) => lost.push(lease),
                    PaidOf::Nobody => of_nobody.0 = of_nobody.0.saturating_add(paid.amount.0),
                }
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        self.tell_lost(account, &lost, of_nobody);
        Ok(lost)
    }

    fn tell_lost(&self, account: &str, lost: &[RegainedLease], of_nobody: BudgetMicros) {
        let why = "the log of campaigns has lost its end, or is of an older backup than the ledger";
        if !lost.is_empty() {
            let paid =
                lost.iter().fold(BudgetMicros::ZERO, |sum, lost| BudgetMicros(sum.0.saturating_add(lost.paid.0)));
            let what = format!(
                "the ledger has paid {paid} out of {account} for {} leases that are not known here: it counts against \
                 the budgets of their campaigns",
                lost.len()
            );
            self.tell(&what, why);
        }
        if of_nobody > BudgetMicros::ZERO {
            let what = format!(
                "the ledger has paid {of_nobody} out of {account} for leases of which it is not known whose campaign \
                 they are of: it counts for none"
            );
            self.tell(&what, why);
        }
    }
}

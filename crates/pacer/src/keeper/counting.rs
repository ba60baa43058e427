//! Counts what the ledger has paid for leases that the log of campaigns does not know, before money is leased: see
//! [`Search`].

use tidegate_planted::{Bug, is_planted};

use super::{Bidders, Keeper, Shards, Treasury};
use crate::control::Search;
use crate::machine::{Command, Outcome};
use crate::units::BudgetMicros;

impl<S: Shards, B: Bidders, T: Treasury> Keeper<S, B, T> {
    /// Looks at each account of the campaigns that there were at the start, what the ledger has paid out of it for
    /// leases that are not known here, and counts that. Returns whether all was done; what was not is asked again in
    /// the next call. It may go on beside all else.
    pub async fn count_paid(&self) -> bool {
        let (accounts, mut failed) = (self.control.borrow().uncounted(), false);
        for _ in 0..accounts {
            let Some((account, search)) = self.control.borrow_mut().next_uncounted() else { break };
            match self.count_paid_of(&account, search).await {
                Ok(()) => self.control.borrow_mut().counted(&account),
                Err(why) => {
                    failed = true;
                    let what = format!("it is not known what was paid out of {account}, so no money of it is leased");
                    self.tell(&what, &why);
                }
            }
        }
        self.is_unread.set(failed);
        self.control.borrow().uncounted() == 0
    }

    async fn count_paid_of(&self, account: &str, mut search: Search) -> Result<(), String> {
        let mut before = None;
        while !search.is_over() && !is_planted(Bug::LostLeasesUncounted) {
            let page = self.treasury.paid_of(account, before).await?;
            for paid in &page.paid {
                if !search.is_over() {
                    self.control.borrow().look_at(paid, &mut search);
                }
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        for regained in search.regained() {
            self.control.borrow_mut().regained(regained.campaign);
            let shard = self.shard_of(regained.campaign);
            let (number, mark) = (regained.campaign, regained.mark);
            let behind = self.control.borrow().mark_of(number);
            let Outcome::Mark(now) = self.shards.ask(shard, Command::Regain { regained, behind }).await? else {
                unreachable!("of marks")
            };
            // An answer was lost before: what was found counts already, and more was paid meanwhile.
            if self.control.borrow_mut().set_mark(number, now) && now != Some(mark) {
                return Err("it was counted meanwhile, and is looked at again".to_owned());
            }
        }
        self.tell_lost(account, &search);
        self.regained.set(self.regained.get() + search.found().0);
        Ok(())
    }

    fn tell_lost(&self, account: &str, search: &Search) {
        let why = "the log of campaigns has lost its end, or is of an older backup than the ledger";
        let ((leases, paid), of_nobody) = (search.found(), search.of_nobody());
        if leases > 0 {
            let what = format!(
                "the ledger has paid {paid} out of {account} for {leases} leases that are not known here: it counts \
                 against the budgets of their campaigns"
            );
            self.tell(&what, why);
        }
        if of_nobody > BudgetMicros::ZERO {
            let what = format!(
                "the ledger has paid {of_nobody} out of {account} for leases of campaigns that are not here, or of \
                 which it is not known whose they are: it counts for none"
            );
            self.tell(&what, why);
        }
    }
}

//! Counts what the ledger has paid for leases that the log of campaigns does not know, before money is leased: see
//! [`Search`].

use std::cell::Cell;

use futures_util::{StreamExt, stream};
use tidegate_planted::{Bug, is_planted};

use super::{Bidders, Keeper, Shards, Treasury};
use crate::control::Search;
use crate::limits::COMMANDS_WAITING_MAX;
use crate::machine::{Command, Mark, Outcome, Regained};
use crate::units::BudgetMicros;

/// Accounts that are looked at at once: of each, the ledger reads some rows of a history.
const ACCOUNTS_AT_ONCE: usize = 32;
/// Campaigns of one account whose records are asked for at once. Those of all accounts leave half of what may wait for
/// a shard to leases and wins.
const COUNTED_AT_ONCE: usize = 64;
const _: () = assert!(ACCOUNTS_AT_ONCE * COUNTED_AT_ONCE <= COMMANDS_WAITING_MAX / 2);
/// Why something was paid that is not known.
const WHY: &str = "the log of campaigns has lost its end, or is of an older backup than the ledger";

impl<S: Shards, B: Bidders, T: Treasury> Keeper<S, B, T> {
    /// Looks at each account of the campaigns that there were at the start, what the ledger has paid out of it for
    /// leases that are not known here, and counts that. Returns whether all was done; what was not is asked again in
    /// the next call. It may go on beside all else.
    pub async fn count_paid(&self) -> bool {
        let is_unread = Cell::new(false);
        let uncounted = stream::iter(std::iter::from_fn(|| self.next_uncounted()));
        let count = async |(account, search): (Box<str>, Search)| match self.count_paid_of(&account, search).await {
            Ok(true) => self.control.borrow_mut().counted(&account),
            Ok(false) => {}
            Err(why) => {
                is_unread.set(true);
                let what = format!("it is not known what was paid out of {account}, so no money of it is leased");
                self.tell(&what, &why);
            }
        };
        uncounted.for_each_concurrent(ACCOUNTS_AT_ONCE, count).await;
        self.is_unread.set(is_unread.get());
        self.control.borrow().uncounted() == 0
    }

    fn next_uncounted(&self) -> Option<(Box<str>, Search)> {
        self.control.borrow_mut().next_uncounted()
    }

    /// Returns whether all of it counts. It does not if an answer was lost before, and more was paid meanwhile.
    async fn count_paid_of(&self, account: &str, mut search: Search) -> Result<bool, String> {
        let mut before = None;
        while !search.is_over() && !is_planted(Bug::LostLeasesUncounted) {
            let page = self.treasury.paid_of(account, before).await?;
            search.read(page.rows);
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
        let (mut is_counted, mut failed) = (true, None);
        for some in search.regained().chunks(COUNTED_AT_ONCE) {
            let asked: Vec<_> = some.iter().map(|regained| self.regain(regained)).collect();
            for ((regained, _), answer) in some.iter().zip(asked) {
                let now = match answer.await {
                    Ok(Outcome::Mark(now)) => now,
                    Ok(other) => {
                        failed = Some(format!("it cannot be counted: {other:?}"));
                        continue;
                    }
                    Err(why) => {
                        failed = Some(why);
                        continue;
                    }
                };
                // By this request, or by one before whose answer was lost.
                self.tell_lost(account, regained.campaign, &search);
                self.control.borrow_mut().set_mark(regained.campaign, now);
                is_counted &= now.is_none_or(|now| now == regained.mark);
            }
        }
        if let Some(why) = failed {
            return Err(why);
        }
        if search.of_nobody() > BudgetMicros::ZERO {
            let what = format!(
                "the ledger has paid {} out of {account} for leases of campaigns that are not here, or of which it is \
                 not known whose they are: it counts for none",
                search.of_nobody()
            );
            self.tell(&what, WHY);
        }
        Ok(is_counted)
    }

    /// Asks for what is to count of a campaign. The request is on its way when this returns: where an account has
    /// thousands of campaigns, one record after the other would take minutes.
    fn regain(
        &self,
        (regained, behind): &(Regained, Option<Mark>),
    ) -> impl Future<Output = Result<Outcome, String>> + use<S, B, T> {
        self.control.borrow_mut().regained(regained.campaign);
        let command = Command::Regain { regained: regained.clone(), behind: *behind };
        self.shards.ask(self.shard_of(regained.campaign), command)
    }

    fn tell_lost(&self, account: &str, number: u32, search: &Search) {
        let (leases, paid) = search.found(number);
        if leases > 0 {
            self.regained.set(self.regained.get() + leases);
            let what = format!(
                "the ledger has paid {paid} out of {account} for {leases} leases that are not known here: it counts \
                 against the budget of campaign {}",
                self.control.borrow().id_of(number)
            );
            self.tell(&what, WHY);
        }
    }
}

//! Closes leases that are over, and has the ledger settle them: what was spent is paid, and the rest is free.

use std::cell::RefCell;
use std::collections::BTreeSet;

use tidegate_machines::ShardIndex;
use tidegate_planted::{Bug, is_planted};

use super::told::About;
use super::{Bidders, Keeper, LEASES_OF_PAGE, Settled, Shards, Treasury};
use crate::control::{Money, Outstanding, Settlement};
use crate::machine::{Command, LeaseId, LeaseView, Outcome, PaidLease};
use crate::units::BudgetMicros;

/// Leases of which no win counts any more, and that the ledger did not settle when it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsettled {
    /// How many of which something was spent.
    pub unpaid: u64,
    /// What was spent of these.
    pub spent: BudgetMicros,
    /// What the ledger may hold beside that, also of leases of which nothing was spent.
    pub held: BudgetMicros,
    /// Of how many the ledger holds money, and refuses to move what was spent, or to give it back.
    pub refused: u64,
    /// Of how many the ledger has no hold any more, so that what was spent is owed.
    pub owed: u64,
    /// Of how many it is not known, because the shard or the ledger has not answered.
    unknown: u64,
}

impl Unsettled {
    /// This is what the ledger says of a lease of which so much was spent.
    fn count(&mut self, spent: BudgetMicros, settled: &Settled) {
        let is_settled = matches!(settled, Settled::Done | Settled::Nothing | Settled::Otherwise { .. });
        if spent > BudgetMicros::ZERO && !is_settled {
            (self.unpaid, self.spent) = (self.unpaid + 1, self.spent + spent);
        }
        self.refused += u64::from(matches!(settled, Settled::Refused(_)));
        self.owed += u64::from(matches!(settled, Settled::NotHeld(_) | Settled::NotFound(_)));
        self.unknown += u64::from(matches!(settled, Settled::Unknown(_)));
    }

    /// What is known behind `before`: what has not answered is as it was, or worse.
    fn behind(self, before: Unsettled) -> Unsettled {
        if self.unknown == 0 {
            return self;
        }
        Unsettled {
            unpaid: self.unpaid.max(before.unpaid),
            spent: self.spent.max(before.spent),
            refused: self.refused.max(before.refused),
            owed: self.owed.max(before.owed),
            ..self
        }
    }
}

impl<S: Shards, B: Bidders, T: Treasury> Keeper<S, B, T> {
    /// Leases that need not wait for their deadline: their shards know of all of their bids whether they were won or
    /// lost. No shard is asked while no lease waits, and none looks through all of its leases for the answer.
    async fn known(&self) -> Vec<LeaseId> {
        let mut all = Vec::new();
        for shard in self.all_shards() {
            if !self.control.borrow().has_retired() {
                break;
            }
            match self.shards.ask(shard, Command::Known { limit: LEASES_OF_PAGE }).await {
                Ok(Outcome::Known(known)) => {
                    all.extend(known.into_iter().filter(|lease| self.control.borrow().is_retired(*lease)));
                }
                Ok(other) => unreachable!("known leases were asked for: {other:?}"),
                // They have a deadline.
                Err(why) => self.tell("leases whose bids are all known wait for their deadline", &why),
            }
        }
        all
    }

    /// Closes and settles leases that are over.
    pub(super) async fn settle(&self) -> Result<(), String> {
        let unsettled = RefCell::default();
        let settled = self.settle_over(&unsettled).await;
        let unsettled = Unsettled { held: self.control.borrow().unsettled(), ..unsettled.into_inner() };
        let before = self.unsettled.get();
        let unsettled = unsettled.behind(before);
        self.unsettled.set(unsettled);
        if before.refused > 0 && unsettled.refused == 0 && self.told.borrow_mut().is_over(About::Settlements) {
            tracing::info!("the ledger has settled all leases that it refused to settle");
        }
        settled
    }

    /// Closes and settles leases that are over, and counts those that the ledger did not settle.
    async fn settle_over(&self, unsettled: &RefCell<Unsettled>) -> Result<(), String> {
        let now = self.now.get();
        let mut over: BTreeSet<LeaseId> = self.known().await.into_iter().collect();
        over.extend(self.control.borrow().due(now));
        over.extend(self.control.borrow().closing());
        let (over, failed) = (Vec::from_iter(over), RefCell::new(Ok(())));
        for (shard, leases) in self.by_shard(over, |lease| lease.shard()) {
            self.pieces
                .of(&leases, async |leases| {
                    if let Err(why) = self.close(shard, leases, unsettled).await {
                        *failed.borrow_mut() = Err(why);
                    }
                })
                .await;
        }
        failed.into_inner()
    }

    /// Closes leases, and pays what was spent of them.
    async fn close(&self, shard: ShardIndex, leases: &[LeaseId], unsettled: &RefCell<Unsettled>) -> Result<(), String> {
        self.control.borrow_mut().close(leases);
        let closed = match self.shards.ask(shard, Command::Close { leases: leases.to_vec() }).await {
            Ok(Outcome::Closed(closed)) => closed,
            Ok(other) => unreachable!("leases were to be closed: {other:?}"),
            Err(why) => {
                unsettled.borrow_mut().unknown += leases.len() as u64;
                return Err(why);
            }
        };
        let known: BTreeSet<LeaseId> = closed.iter().map(|lease| lease.id).collect();
        let forgotten: Vec<LeaseId> = leases.iter().filter(|lease| !known.contains(lease)).copied().collect();
        self.control.borrow_mut().closed(&closed);
        // A shard has forgotten them, and its answer was lost.
        self.control.borrow_mut().settled(&forgotten);
        self.pay(&closed, unsettled).await;
        Ok(())
    }

    async fn pay(&self, closed: &[LeaseView], unsettled: &RefCell<Unsettled>) {
        let is_free =
            |lease: &&LeaseView| lease.spent == BudgetMicros::ZERO && self.control.borrow().was_refused(lease.id);
        let (free, held): (Vec<&LeaseView>, Vec<&LeaseView>) = closed.iter().partition(is_free);
        let mut done: Vec<LeaseId> = free.iter().map(|lease| lease.id).collect();
        let settlements: Vec<Settlement> =
            held.into_iter().filter_map(|lease| self.control.borrow().settlement(lease)).collect();
        let settled = self.treasury.settle(settlements.clone()).await;
        for (settlement @ Settlement { money, spent }, settled) in settlements.iter().zip(settled) {
            unsettled.borrow_mut().count(*spent, &settled);
            match settled {
                Settled::Done | Settled::Nothing => done.push(money.lease),
                Settled::Otherwise { paid } => match self.correct(settlement, paid).await {
                    Ok(()) => done.push(money.lease),
                    Err(why) => self.tell("what the ledger has paid of a lease is not counted yet", &why),
                },
                Settled::Refused(why) => {
                    self.tell_unsettled(money, *spent, "which it still holds", &why);
                    let outstanding = Outstanding { held: money.amount - *spent, owed: BudgetMicros::ZERO };
                    self.control.borrow_mut().left_open(settlement, outstanding);
                }
                Settled::NotHeld(why) => {
                    self.tell_unsettled(money, *spent, "of which it holds nothing", &why);
                    let mut control = self.control.borrow_mut();
                    control.left_open(settlement, Outstanding { held: BudgetMicros::ZERO, owed: *spent });
                    // It cannot be told that somebody has moved what is owed: who ends the campaign says so.
                    if control.is_of_ended(money.lease) {
                        done.push(money.lease);
                    }
                }
                Settled::NotFound(why) => {
                    let backup = "of which it finds no hold: it is of an older backup, or another ledger than before";
                    self.tell_unsettled(money, *spent, backup, &why);
                    let mut control = self.control.borrow_mut();
                    // One whose hold nobody has seen may be held under an id of another configuration.
                    let is_gone = control.was_held(money.lease);
                    let held = if is_gone { BudgetMicros::ZERO } else { money.amount - *spent };
                    control.left_open(settlement, Outstanding { held, owed: *spent });
                    // Who ends the campaign goes on with the ledger that there is.
                    if control.is_of_ended(money.lease) {
                        done.push(money.lease);
                    }
                }
                Settled::Unknown(_) if is_planted(Bug::SettlementTrusted) => done.push(money.lease),
                Settled::Unknown(why) => self.tell("the ledger does not say whether a lease is settled", &why),
            }
        }
        self.control.borrow_mut().paid(&done);
    }

    /// The ledger has paid another amount of a closed lease than its wins have cost: if it is more, it counts.
    async fn correct(
        &self,
        Settlement { money, spent }: &Settlement,
        paid: Option<BudgetMicros>,
    ) -> Result<(), String> {
        let Money { lease, account, spend, .. } = money;
        if let Some(paid) = paid.filter(|paid| paid > spent && !is_planted(Bug::PaidMoreUncounted)) {
            let number = self.control.borrow().number_of(*lease);
            number.into_iter().for_each(|number| self.control.borrow_mut().regained(number));
            let command = Command::Correct { leases: vec![PaidLease { lease: *lease, paid }] };
            self.shards.ask(lease.shard(), command).await?;
        }
        let campaign = self.control.borrow().campaign_of(*lease).to_owned();
        let paid = match paid {
            Some(paid) => format!("{paid} was paid from {account} to {spend}: the greater of the two counts"),
            None => format!("another amount was paid from {account} to {spend}, which the ledger does not say"),
        };
        self.tell(
            &format!("campaign {campaign}: of lease {lease}, {spent} was spent, and {paid}"),
            "one of the two logs is of an older backup, or another server has a copy of this directory, or somebody \
             has settled the hold by hand",
        );
        self.paid_otherwise.set(self.paid_otherwise.get() + 1);
        Ok(())
    }

    /// Says of the first lease of a campaign that the ledger does not settle it.
    fn tell_unsettled(&self, money: &Money, spent: BudgetMicros, held: &str, why: &str) {
        let Money { lease, account, spend, amount, .. } = money;
        let control = self.control.borrow();
        let campaign = control.campaign_of(*lease);
        self.say(About::Settlements, format!("campaign {campaign}, {held}: {why}"), || {
            let what = match spent {
                BudgetMicros::ZERO => format!("the ledger does not give back lease {lease} to {account}"),
                _ => format!(
                    "{spent} of lease {lease} was spent, and the ledger does not move it from {account} to {spend}"
                ),
            };
            tracing::warn!(why, %amount, "campaign {campaign}: {what}, {held}");
        });
    }
}

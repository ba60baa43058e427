//! What the pacer counts: each shard its campaigns and their money, and the thread that runs the keeper all bids.

use tidegate_telemetry::metrics;

use crate::bidder::NoBid;
use crate::control::Counts;
use crate::keeper::{Bidders, Keeper, Shards, Treasury, Unsettled};
use crate::machine::{Campaigns, Totals};

metrics! {
    /// A shard's own metrics. For the thread that runs it.
    pub struct CampaignMetrics(shard) {
        campaigns: Gauge "tidegate_campaigns" "Campaigns that there are.";
        campaigns_max: Gauge "tidegate_campaigns_max" "How many there may be.";
        leases: Gauge "tidegate_pacer_leases" "Leases of campaigns' money of whose bids a notice may still come.";
        spent: Gauge "tidegate_pacer_spent" "What wins have cost, of all campaigns that there are, in millionths.";
        exposed: Gauge
            "tidegate_pacer_exposed" "What wins of bids may still cost, and what is leased for others, in millionths.";
        unreleased: Gauge
            "tidegate_pacer_unreleased" "What returned of leases of which not all bids are known, in millionths: the \
             ledger holds it until they are.";
        wins: Gauge "tidegate_pacer_wins" "Wins that were taken, of all campaigns that there are.";
        losses: Gauge "tidegate_pacer_losses" "Losses that were taken, of all campaigns that there are.";
    }
}

metrics! {
    /// What is recorded of decisions. For the thread that runs the keeper.
    pub struct DecisionMetrics() {
        recorded: Counter "tidegate_pacer_decisions_recorded_total"
            "Decisions of the pacer, and what they follow from, that were taken into the record.";
        dropped: Counter "tidegate_pacer_decisions_dropped_total"
            "Those for which there was no room in memory or on the disk: bidding goes on, `tidegate pacer replay` does \
             not know them.";
    }
}

metrics! {
    /// For the thread that runs the keeper.
    pub struct PacerMetrics() {
        bids: Counter "tidegate_pacer_bids_total" "Bids that were made, at all doors.";
        no_bids: CounterFamily(reason) "tidegate_pacer_no_bids_total" "Requests without a bid, by reason.";
        leases_refused: CounterFamily(reason)
            "tidegate_pacer_leases_refused_total" "Leases of money that were not opened, or not held, by reason.";
        stopped: GaugeFamily(reason)
            "tidegate_pacer_campaigns_stopped" "Campaigns that are asked for and have no money, by reason.";
        ledger_away: Gauge
            "tidegate_pacer_ledger_away" "1 while the ledger does not say whether it holds money; bids end then.";
        leases_unpaid: Gauge
            "tidegate_pacer_leases_unpaid" "Leases that are over, and of which the ledger did not take what was spent \
             when it was asked last. It is asked again.";
        unpaid: Gauge
            "tidegate_pacer_unpaid" "What was spent of these, in millionths: it is owed to the accounts that get what \
             campaigns spend.";
        leases_unsettled: Gauge
            "tidegate_pacer_leases_unsettled" "Leases that are over, of which the ledger holds money, and refuses to \
             move what was spent, or to give back what was not. It is asked again.";
        paid_otherwise: Counter
            "tidegate_pacer_leases_paid_otherwise_total" "Leases of which the ledger had moved another amount already, \
             which stands: one of the two logs is of an older backup, or somebody else has settled the hold. The \
             greater of the two amounts counts against the budget.";
        regained: Counter
            "tidegate_pacer_leases_regained_total" "Leases that the ledger had paid, and that the log of campaigns did \
             not know at the start: it had lost its end, or was of an older backup. They count against the budgets.";
        uncounted: Gauge
            "tidegate_pacer_accounts_uncounted" "Accounts of which it is not known yet, behind the start, what the \
             ledger has paid for leases that the log of campaigns does not know: their campaigns do not bid.";
        unsettled: Gauge
            "tidegate_pacer_unsettled" "What the ledger may hold beside that of leases that are over and that it did \
             not settle, in millionths: campaigns do not bid with it.";
        users_forgotten: Counter "tidegate_pacer_users_forgotten_total"
            "Users that were forgotten before the window of their frequency cap had ended, because pacing.users_max is \
             too small: they may be bid for more often than the cap says.";
    }
}

impl CampaignMetrics {
    /// Shows how campaigns are.
    pub fn observe(&self, state: &Campaigns) {
        let Totals { spent, exposed, unreleased, impressions, losses } = state.totals();
        self.campaigns.set(state.count() as i64);
        self.leases.set(state.leases() as i64);
        self.spent.set(shown(spent));
        self.exposed.set(shown(exposed));
        self.unreleased.set(shown(unreleased));
        self.wins.set(shown(impressions));
        self.losses.set(shown(losses));
    }
}

impl PacerMetrics {
    /// Shows what has happened, and how the ledger is.
    pub fn observe<S: Shards, B: Bidders, T: Treasury>(&self, keeper: &Keeper<S, B, T>) {
        let Counts { bids, no_bids, leases_refused } = keeper.control().borrow().counts();
        self.bids.follow(bids);
        self.no_bids.follow(NoBid::ALL.iter().map(|why| why.name()).zip(no_bids));
        self.leases_refused.follow(leases_refused.named());
        for (why, campaigns) in keeper.stopped().named() {
            self.stopped.set(why, campaigns as i64);
        }
        self.ledger_away.set(keeper.is_ledger_away().into());
        let Unsettled { unpaid, spent, held, refused, .. } = keeper.unsettled();
        self.leases_unpaid.set(unpaid as i64);
        self.unpaid.set(spent.0 as i64);
        self.leases_unsettled.set(refused as i64);
        self.unsettled.set(held.0 as i64);
        self.paid_otherwise.follow(keeper.paid_otherwise());
        self.regained.follow(keeper.regained());
        self.uncounted.set(keeper.control().borrow().uncounted() as i64);
    }
}

/// As a metric can show it.
fn shown(sum: u128) -> i64 {
    i64::try_from(sum).unwrap_or(i64::MAX)
}

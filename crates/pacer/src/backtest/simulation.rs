//! One campaign on the auctions of a day, second by second.

use super::chance::{Chance, part_of};
use super::market::{Auction, Auctions, DAY_S};
use super::measured::Measured;
use super::reservations::Reservations;
use super::{Campaign, Market, Row};
use crate::strategy::{Follows, Input, Memory, StrategyRow, Throttle, Traffic};
use crate::units::{BudgetMicros, Impressions};

/// What is told of a bid.
#[derive(Clone, Copy, Debug)]
struct Notice {
    bid: u64,
    /// What the win cost; `None` for a loss.
    paid: Option<u64>,
    /// When the reservation returns.
    returns_in: u32,
    /// When it is too late.
    deadline: u32,
}

/// A campaign under way.
struct Simulation<'a> {
    market: &'a Market,
    auctions: &'a Auctions,
    campaign: &'a Campaign,
    strategy: &'static StrategyRow,
    budget: u64,
    spent: u64,
    reservations: Reservations,
    /// What is told in each second that is still to come, in a ring.
    notices: Vec<Vec<Notice>>,
    /// Bids of which nothing is ever told, by the second in which they count as lost, in the same ring.
    silent: Vec<u32>,
    measured: Measured,
    throttle: Throttle,
    row: Row,
}

/// What becomes of a campaign.
pub(super) fn simulate(
    market: &Market,
    auctions: &Auctions,
    campaign: &Campaign,
    strategy: &'static StrategyRow,
) -> Row {
    let mut simulation = Simulation::new(market, auctions, campaign, strategy);
    for second in 0..DAY_S {
        simulation.begin_second(second);
        simulation.ask(second);
        if second % 60 == 0 {
            simulation.row.curve.push(BudgetMicros(simulation.spent));
        }
        let requests = auctions.in_second(second);
        requests.iter().for_each(|auction| simulation.request(second, auction));
        simulation.measured.end_second(requests.len());
    }
    // What was bid in the last seconds is still answered.
    for second in DAY_S..DAY_S + ring_s(market) {
        simulation.begin_second(second);
    }
    simulation.finish()
}

/// The longest time from a bid to what is told of it.
fn ring_s(market: &Market) -> u32 {
    (2 * market.deadline_s).max(market.delay_s) + 2
}

impl<'a> Simulation<'a> {
    fn new(
        market: &'a Market,
        auctions: &'a Auctions,
        campaign: &'a Campaign,
        strategy: &'static StrategyRow,
    ) -> Simulation<'a> {
        let row = Row {
            strategy: strategy.name,
            parameters: campaign.strategy.parameters.clone(),
            budget: campaign.budget,
            spent: BudgetMicros::ZERO,
            overspend: BudgetMicros::ZERO,
            reserved_max: BudgetMicros::ZERO,
            day_error: 0.0,
            plan_error: None,
            bids: 0,
            impressions: Impressions(0),
            without_money: 0,
            late_wins: 0,
            curve: Vec::with_capacity(DAY_S as usize / 60 + 1),
            plan: Vec::new(),
        };
        let ring = ring_s(market) as usize;
        Simulation {
            market,
            auctions,
            campaign,
            strategy,
            budget: campaign.budget.0,
            spent: 0,
            reservations: Reservations::new(market.reserved_s),
            notices: vec![Vec::new(); ring],
            silent: vec![0; ring],
            measured: Measured::default(),
            throttle: Throttle { share: 0.0, shade: 1.0, memory: Memory::default() },
            row,
        }
    }

    /// Reservations return, and what is told now is heard.
    fn begin_second(&mut self, second: u32) {
        self.reservations.begin_second(second);
        let slot = second as usize % self.notices.len();
        (0..std::mem::take(&mut self.silent[slot])).for_each(|_| self.measured.loss());
        let mut notices = std::mem::take(&mut self.notices[slot]);
        notices.drain(..).for_each(|notice| self.hear(second, notice));
        self.notices[slot] = notices;
        self.note_overspend();
    }

    fn hear(&mut self, second: u32, notice: Notice) {
        if second >= notice.deadline {
            // The reservation has returned, and may be spent again: a win is refused.
            self.row.late_wins += u64::from(notice.paid.is_some());
            return self.measured.loss();
        }
        self.reservations.release(notice.bid, notice.returns_in);
        match notice.paid {
            Some(paid) => {
                self.spent += paid;
                self.row.impressions += Impressions(1);
                self.measured.win(paid);
            }
            None => self.measured.loss(),
        }
    }

    /// The strategy is asked, each second.
    fn ask(&mut self, second: u32) {
        let input = Input {
            horizon: self.auctions.horizon,
            budget: self.campaign.budget,
            spent: BudgetMicros(self.spent),
            reserved: BudgetMicros(self.reservations.sum()),
            now: self.auctions.time_of(second),
            price_max: self.campaign.price_max,
            traffic: Traffic {
                requests_per_s: self.measured.requests_per_s(),
                win_rate: self.measured.win_rate(),
                win_price: self.measured.win_price(),
                day: &self.auctions.learned,
                since_ms: if second == 0 { 0 } else { 1_000 },
            },
            parameters: &self.campaign.strategy.parameters,
            memory: self.throttle.memory,
        };
        self.throttle = (self.strategy.decide)(&input);
    }

    fn request(&mut self, second: u32, auction: &Auction) {
        // The id decides, so that strategies with the same share bid on the same requests.
        if part_of(Chance::new(auction.id).number()) >= self.throttle.share {
            return;
        }
        let bid = (f64::from(self.campaign.price_max.0) * self.throttle.shade) as u64;
        if bid == 0 {
            return;
        }
        if self.spent + self.reservations.sum() + bid > self.budget {
            self.row.without_money += 1;
            return;
        }
        self.row.bids += 1;
        let returns_in = self.reservations.reserve(bid);
        self.row.reserved_max = self.row.reserved_max.max(BudgetMicros(self.reservations.sum()));
        let paid = (bid > u64::from(auction.other_bid)).then_some(u64::from(auction.other_bid));
        let deadline = second + self.market.deadline_s;
        let ring = self.notices.len();
        match auction.told_after_s {
            Some(after_s) => {
                let notice = Notice { bid, paid, returns_in, deadline };
                self.notices[(second + after_s) as usize % ring].push(notice);
            }
            None => self.silent[deadline as usize % ring] += 1,
        }
    }

    /// Independent of the rule that prevents it: what was spent and is promised, against the budget.
    fn note_overspend(&mut self) {
        let over = (self.spent + self.reservations.sum()).saturating_sub(self.budget);
        self.row.overspend = self.row.overspend.max(BudgetMicros(over));
    }

    fn finish(mut self) -> Row {
        assert_eq!(self.reservations.sum(), 0, "behind the last deadline, nothing is reserved");
        self.row.spent = BudgetMicros(self.spent);
        self.row.curve.push(self.row.spent);
        let by_day = self.planned(Follows::Day);
        self.row.day_error = self.error_against(&by_day);
        let follows = self.strategy.follows;
        self.row.plan = if follows == Follows::Time { self.planned(Follows::Time) } else { by_day };
        self.row.plan_error = (follows != Follows::Nothing).then(|| self.error_against(&self.row.plan));
        self.row
    }

    /// What a curve has planned until each minute.
    fn planned(&self, follows: Follows) -> Vec<BudgetMicros> {
        let Auctions { horizon, learned, .. } = self.auctions;
        let times = (0..=DAY_S / 60).map(|minute| self.auctions.time_of(minute * 60));
        times.filter_map(|time| follows.planned(*horizon, self.campaign.budget, learned, time)).collect()
    }

    /// The root of the mean square of the difference, as a part of the budget.
    fn error_against(&self, plan: &[BudgetMicros]) -> f64 {
        assert_eq!(plan.len(), self.row.curve.len(), "one point for each minute");
        if self.budget == 0 {
            return 0.0;
        }
        let differences = self.row.curve.iter().zip(plan);
        let parts = differences.map(|(spent, planned)| (spent.0 as f64 - planned.0 as f64) / self.budget as f64);
        (parts.map(|part| part * part).sum::<f64>() / plan.len() as f64).sqrt()
    }
}

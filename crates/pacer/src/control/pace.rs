//! When the strategy of a campaign is asked, and what it is asked with.

use std::sync::Arc;

use tidegate_machines::TimeMs;

use super::curve::{DayCurve, Planned, Point};
use super::learned::Profile;
use super::tracked::Tracked;
use crate::decisions::DecisionLog;
use crate::machine::Spending;
use crate::strategy::{self, Day, Horizon, Input, QUARTERS, Traffic};
use crate::units::BudgetMicros;

/// How often a strategy is asked.
pub(super) const PACE_MS: u64 = 250;
/// Milliseconds of a quarter of an hour.
const QUARTER_MS: u64 = 15 * 60 * 1_000;
/// How many requests of a quarter are forgotten when it comes again on another day, as a share.
const FORGOTTEN: f64 = 0.3;

/// Requests, bids and wins of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    requests: u64,
    bids: u64,
    pub requests_per_s: f64,
    pub bids_per_s: f64,
    /// Bids and wins, and what wins have cost; older ones count less.
    recent_bids: f64,
    recent_wins: f64,
    recent_spent: f64,
}

impl Rates {
    pub fn count(&mut self, requests: u64, bids: u32) {
        self.requests += requests;
        self.bids += u64::from(bids);
        self.recent_bids += f64::from(bids);
    }

    pub fn learn_spending(&mut self, before: &Spending, now: &Spending) {
        self.recent_wins += now.impressions.0.saturating_sub(before.impressions.0) as f64;
        self.recent_spent += now.spent.0.saturating_sub(before.spent.0) as f64;
    }

    /// So much time has passed.
    fn pass(&mut self, since_ms: u64) {
        let since_s = since_ms as f64 / 1_000.0;
        let weight = (since_s / 2.0).min(1.0);
        self.requests_per_s += (self.requests as f64 / since_s - self.requests_per_s) * weight;
        self.bids_per_s += (self.bids as f64 / since_s - self.bids_per_s) * weight;
        (self.requests, self.bids) = (0, 0);
        // Half is forgotten in about a minute.
        let kept = 1.0 - (since_s / 90.0).min(1.0);
        self.recent_bids *= kept;
        self.recent_wins *= kept;
        self.recent_spent *= kept;
    }

    pub fn win_rate(&self) -> f64 {
        if self.recent_bids > 0.0 { (self.recent_wins / self.recent_bids).min(1.0) } else { 0.0 }
    }

    fn win_price(&self) -> f64 {
        if self.recent_wins > 0.0 { self.recent_spent / self.recent_wins } else { 0.0 }
    }
}

/// Which share of a day's requests comes when, as far as it was seen. Days are those of UTC.
pub(super) struct DayProfile {
    weights: [f64; QUARTERS],
    /// The weights are of requests that came.
    is_learned: bool,
    day: Arc<Day>,
    quarter: Option<usize>,
    /// How much of that quarter is seen.
    seen_ms: u64,
    requests: f64,
}

impl Default for DayProfile {
    fn default() -> DayProfile {
        DayProfile {
            weights: [1.0; QUARTERS],
            is_learned: false,
            day: Arc::new(Day::flat()),
            quarter: None,
            seen_ms: 0,
            requests: 0.0,
        }
    }
}

impl DayProfile {
    /// What an earlier process has learned.
    pub fn of(Profile { weights, now }: Profile) -> DayProfile {
        let is_learned = weights.iter().any(|weight| weight.to_bits() != 1.0_f64.to_bits());
        // Of a first quarter, nobody knows any more how much of it was seen.
        let now = now.filter(|_| is_learned);
        let (quarter, requests) = now.map_or((None, 0.0), |(quarter, requests)| (Some(quarter), requests));
        DayProfile { weights, is_learned, day: Arc::new(Day::new(&weights)), quarter, seen_ms: QUARTER_MS, requests }
    }

    /// What is known of it.
    pub fn learned(&self) -> Profile {
        Profile { weights: self.weights, now: self.quarter.map(|quarter| (quarter, self.requests)) }
    }

    pub fn count(&mut self, requests: u64, now: TimeMs) {
        let quarter = (now.0 / QUARTER_MS) as usize % QUARTERS;
        if self.quarter != Some(quarter) {
            // The first one may be half over when it is seen first.
            self.seen_ms = match self.quarter {
                Some(before) => {
                    self.learn(before);
                    QUARTER_MS
                }
                None => QUARTER_MS - now.0 % QUARTER_MS,
            };
            (self.quarter, self.requests) = (Some(quarter), 0.0);
        }
        self.requests += requests as f64;
    }

    /// A quarter is over. One of which little was seen says nothing; before the first one that says something, all
    /// others are taken to be like it.
    fn learn(&mut self, quarter: usize) {
        if self.seen_ms < QUARTER_MS / 3 {
            return;
        }
        let requests = self.requests * QUARTER_MS as f64 / self.seen_ms as f64;
        if self.is_learned {
            let weight = &mut self.weights[quarter];
            *weight += (requests - *weight) * FORGOTTEN;
        } else {
            (self.weights, self.is_learned) = ([requests; QUARTERS], requests > 0.0);
        }
        self.day = Arc::new(Day::new(&self.weights));
    }
}

impl Tracked {
    /// Asks the strategy, if it is time. Returns the share of requests that is bid on and what of the price, if they
    /// have changed.
    pub fn pace(&mut self, now: TimeMs, mut log: Option<&mut DecisionLog>) -> Option<(f64, f64)> {
        // Zero for the first time.
        let since_ms = self.paced.map_or(0, |paced| now.0.saturating_sub(paced.0));
        if self.paced.is_some() {
            if since_ms < PACE_MS || !self.is_active(now) {
                return None;
            }
            self.rates.pass(since_ms);
        }
        if let Some(log) = &mut log {
            let (bids, no_bids) = self.counts();
            log.count(&self.view, bids, no_bids, now);
        }
        self.paced = Some(now);
        let before = (self.share, self.shade);
        match self.horizon(now) {
            None => (self.share, self.planned, self.plan) = (0.0, None, None),
            Some(Spread { horizon, budget, spent, reserved }) => {
                let plan = &self.view.plan;
                let Some(row) = strategy::find(&plan.strategy.name) else {
                    // A later version may know it. This one spends nothing by a strategy that it does not know.
                    (self.share, self.planned, self.plan) = (0.0, None, None);
                    return (before.0 != 0.0).then_some((0.0, before.1));
                };
                self.planned = row.planned(horizon, budget, &self.profile.day, now);
                self.plan = Some(Planned::new(row.follows, horizon, budget, self.profile.day.clone()));
                let traffic = Traffic {
                    requests_per_s: self.rates.requests_per_s,
                    win_rate: self.rates.win_rate(),
                    win_price: self.rates.win_price(),
                    day: &self.profile.day,
                    since_ms,
                };
                let input = Input {
                    horizon,
                    budget,
                    spent,
                    reserved,
                    now,
                    price_max: plan.price_micros,
                    traffic,
                    parameters: &plan.strategy.parameters,
                    memory: self.memory,
                };
                let throttle = (row.decide)(&input);
                if let Some(log) = log {
                    log.throttle(&self.view, &self.profile.day, &input, throttle);
                }
                (self.share, self.shade, self.memory) = (throttle.share, throttle.shade, throttle.memory);
                self.draw(spent, now);
            }
        }
        (before != (self.share, self.shade)).then_some((self.share, self.shade))
    }

    /// Takes a point of the day's curve, if it is time and anybody asks for the campaign.
    fn draw(&mut self, spent: BudgetMicros, now: TimeMs) {
        let Some(flight) = self.view.plan.flight_at(now).filter(|_| self.is_active(now)) else { return };
        let day = self.day(now);
        let begins = TimeMs(flight.starts_ms.max(day.begins.0));
        let span = Horizon { begins, ends: TimeMs(flight.ends_ms.min(day.ends.0)) };
        let point = Point { spent, planned: self.planned, share: self.share as f32 };
        match &mut self.curve {
            Some(curve) if curve.span == span => {
                if curve.lacks(now) {
                    Arc::make_mut(curve).take(now, point);
                }
            }
            _ => {
                let mut curve = DayCurve::new(span);
                curve.take(now, point);
                self.curve = Some(Arc::new(curve));
            }
        }
    }

    /// Over which time which money is spread; `None` while no flight is under way.
    fn horizon(&mut self, now: TimeMs) -> Option<Spread> {
        self.view.plan.flight_at(now).filter(|_| !self.view.plan.paused)?;
        let day = self.day(now);
        let (plan, spending) = (&self.view.plan, self.view.spending);
        let is_today = spending.day == day.number;
        match plan.daily_micros {
            Some(cap) => {
                // What the day may have: its cap, or what earlier days have left.
                let today = if is_today { spending.day_spent } else { BudgetMicros::ZERO };
                let earlier = BudgetMicros(spending.spent.0 - today.0);
                let flight = plan.flight_at(now)?;
                let begins = TimeMs(flight.starts_ms.max(day.begins.0));
                let ends = TimeMs(flight.ends_ms.min(day.ends.0));
                let reserved = if is_today { spending.day_exposed } else { BudgetMicros::ZERO };
                let budget = cap.min(plan.budget_micros.left_behind(earlier));
                Some(Spread { horizon: Horizon { begins, ends }, budget, spent: today, reserved })
            }
            None => {
                // Flights as if one followed the other at once.
                let passed: u64 = plan.flights.iter().map(|flight| flight.passed_ms(now)).sum();
                let length: u64 = plan.flights.iter().map(|flight| flight.ends_ms - flight.starts_ms).sum();
                let begins = now.0.saturating_sub(passed);
                let horizon = Horizon { begins: TimeMs(begins), ends: TimeMs(begins.saturating_add(length)) };
                let (spent, reserved) = (spending.spent, spending.exposed);
                Some(Spread { horizon, budget: plan.budget_micros, spent, reserved })
            }
        }
    }
}

/// Money, and the time over which it is spread.
struct Spread {
    horizon: Horizon,
    budget: BudgetMicros,
    spent: BudgetMicros,
    reserved: BudgetMicros,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: u64 = 60_000;

    /// What is seen of a day: requests of each minute, from one on.
    fn seen(from: u64, minutes: u64, requests: impl Fn(u64) -> u64) -> Vec<f64> {
        let mut profile = DayProfile::default();
        (from..from + minutes).for_each(|minute| profile.count(requests(minute), TimeMs(minute * MINUTE_MS)));
        profile.day.shares().windows(2).map(|pair| (pair[1] - pair[0]) * QUARTERS as f64).collect()
    }

    #[test]
    fn a_first_quarter_of_an_hour_that_a_restart_cuts_in_two_makes_no_day_either() {
        let mut before = DayProfile::default();
        before.count(12_000, TimeMs(14 * MINUTE_MS));
        let mut profile = DayProfile::of(before.learned());
        (15..60).for_each(|minute| profile.count(12_000, TimeMs(minute * MINUTE_MS)));
        assert_eq!(*profile.day, Day::flat());
    }

    #[test]
    fn a_first_quarter_of_an_hour_makes_no_day_of_its_own() {
        let is_flat = |day: Vec<f64>| day.iter().all(|share| (share - 1.0).abs() < 1e-9);
        assert!(is_flat(seen(14, 3, |_| 12_000)), "a minute of it");
        assert!(is_flat(seen(8, 100, |_| 12_000)), "half of it, and steady traffic behind that");
        assert!(is_flat(seen(14, 50, |_| 12_000)));
        let busier = seen(0, 31, |minute| if minute < 15 { 100 } else { 300 });
        assert!((1.5..1.7).contains(&(busier[1] / busier[0])), "{busier:?}");
    }
}

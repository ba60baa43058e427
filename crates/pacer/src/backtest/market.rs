//! A day of auctions, from a seed: more of them in the evening than at night, bursts, and others who bid.

use tidegate_machines::TimeMs;

use super::chance::Chance;
use crate::strategy::{Day, Horizon, QUARTERS};

/// Seconds of the day.
pub(crate) const DAY_S: u32 = 86_400;

/// When the day begins: 28 November 2026, 0:00 UTC.
const BEGINS: TimeMs = TimeMs(1_795_824_000_000);

/// Requests of each hour, relative to each other: few at night, a first height at noon, the highest in the evening. It
/// has the form that the literature reports for display advertising.
const HOURS: [f64; 24] = [
    0.55, 0.38, 0.28, 0.22, 0.20, 0.25, 0.42, 0.68, 0.90, 1.02, 1.10, 1.18, 1.25, 1.22, 1.15, 1.12, 1.18, 1.30, 1.50,
    1.72, 1.85, 1.78, 1.40, 0.92,
];

/// What a market is made from. Two markets with the same numbers are the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Market {
    /// Where all randomness comes from.
    pub seed: u64,
    /// About so many requests come in a day.
    pub requests: u32,
    /// So often there are a few minutes of three to eight times the requests.
    pub bursts: u32,
    /// So often there are ten minutes to half an hour without any.
    pub outages: u32,
    /// So often the others bid half as much, or up to two and a half times as much, for one to three hours.
    pub price_changes: u32,
    /// The median of the highest bid of the others, in micros. A fifth of them is above twice of it.
    pub price_micros: f64,
    /// A win or loss is told this late at most, in the usual case, in seconds; half of them in a quarter of it.
    pub delay_s: u32,
    /// A win that is told later than this is refused, in seconds.
    pub deadline_s: u32,
    /// A reservation whose end nobody tells returns after this time, in seconds. Below the deadline, money is spent
    /// twice.
    pub reserved_s: u32,
    /// So many of a thousand wins are told after the deadline.
    pub late_permille: u32,
    /// So many of a thousand ends are never told.
    pub silent_permille: u32,
}

impl Market {
    /// A market of a seed, of middle size: 400,000 requests.
    pub fn new(seed: u64) -> Market {
        Market {
            seed,
            requests: 400_000,
            bursts: 8,
            outages: 1,
            price_changes: 3,
            price_micros: 1_000.0,
            delay_s: 20,
            deadline_s: 60,
            reserved_s: 60,
            late_permille: 5,
            silent_permille: 20,
        }
    }
}

/// One request, and what the auction would do with a bid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Auction {
    /// Its id, from which chance comes.
    pub id: u64,
    /// The highest bid of the others, in micros. A bid that is higher wins, and pays this.
    pub other_bid: u32,
    /// After so many seconds the end is told; `None` if it never is.
    pub told_after_s: Option<u32>,
}

/// The auctions of the day.
pub(crate) struct Auctions {
    /// When the day is.
    pub horizon: Horizon,
    /// What was learned of it from the days before.
    pub learned: Day,
    auctions: Vec<Auction>,
    /// The first one of each second.
    first: Vec<usize>,
}

impl Auctions {
    /// Those of a market.
    pub fn of(market: &Market) -> Auctions {
        let mut chance = Chance::new(market.seed);
        let learned = learned(&mut chance.branch());
        let rates = rates(market, &mut chance.branch());
        let levels = price_levels(market, &mut chance.branch());
        let (mut ids, mut prices, mut ends, mut arrivals) =
            (chance.branch(), chance.branch(), chance.branch(), chance.branch());
        let (mut auctions, mut first) = (Vec::new(), Vec::with_capacity(rates.len() + 1));
        for (second, rate) in rates.iter().enumerate() {
            first.push(auctions.len());
            // As many as the rate says, rounded up or down by chance.
            for _ in 0..(rate + arrivals.part()) as u64 {
                auctions.push(Auction {
                    id: ids.number(),
                    other_bid: other_bid(levels[second], &mut prices),
                    told_after_s: told_after_s(market, &mut ends),
                });
            }
        }
        first.push(auctions.len());
        let horizon = Horizon { begins: BEGINS, ends: TimeMs(BEGINS.0 + u64::from(DAY_S) * 1_000) };
        Auctions { horizon, learned, auctions, first }
    }

    /// Those of a second of the day; none behind it.
    pub fn in_second(&self, second: u32) -> &[Auction] {
        match self.first.get(second as usize..=second as usize + 1) {
            Some(&[from, to]) => &self.auctions[from..to],
            _ => &[],
        }
    }

    /// When a second of the day begins.
    pub fn time_of(&self, second: u32) -> TimeMs {
        TimeMs(self.horizon.begins.0 + u64::from(second) * 1_000)
    }
}

/// What is known of the day: its form, each quarter up to a tenth too high or too low.
fn learned(chance: &mut Chance) -> Day {
    let mut weights = [0.0; QUARTERS];
    for (quarter, weight) in weights.iter_mut().enumerate() {
        *weight = level(quarter as f64 / 4.0 + 0.125) * chance.within(0.9, 1.1);
    }
    Day::new(&weights)
}

/// The level of traffic at an hour: the table, with straight lines between the middles of its hours.
fn level(hour: f64) -> f64 {
    let from = hour + 23.5;
    let (before, part) = (from as usize, from - from.floor());
    HOURS[before % 24] * (1.0 - part) + HOURS[(before + 1) % 24] * part
}

/// Requests of each second: today differs from the days before by up to a sixth for each hour, and has its bursts.
fn rates(market: &Market, chance: &mut Chance) -> Vec<f64> {
    let today: [f64; 24] = std::array::from_fn(|_| chance.within(0.85, 1.15));
    let mut rates: Vec<f64> =
        (0..DAY_S).map(|second| level(f64::from(second) / 3_600.0) * today[second as usize / 3_600]).collect();
    for _ in 0..market.bursts {
        let times = chance.within(3.0, 8.0);
        some_span(&mut rates, 120.0, 900.0, chance).iter_mut().for_each(|rate| *rate *= times);
    }
    for _ in 0..market.outages {
        some_span(&mut rates, 600.0, 1_800.0, chance).fill(0.0);
    }
    let sum: f64 = rates.iter().sum();
    rates.iter().map(|rate| rate / sum * f64::from(market.requests)).collect()
}

/// The median of the highest bid of the others, for each second. Where there is more traffic, there are more who bid.
fn price_levels(market: &Market, chance: &mut Chance) -> Vec<f64> {
    let competition = |second| 0.6 + 0.4 * level(f64::from(second) / 3_600.0);
    let mut levels: Vec<f64> = (0..DAY_S).map(|second| market.price_micros * competition(second)).collect();
    for _ in 0..market.price_changes {
        let times = chance.within(0.5, 2.5);
        some_span(&mut levels, 3_600.0, 10_800.0, chance).iter_mut().for_each(|level| *level *= times);
    }
    levels
}

/// Some of the seconds, so many in a row.
fn some_span<'s>(seconds: &'s mut [f64], shortest_s: f64, longest_s: f64, chance: &mut Chance) -> &'s mut [f64] {
    let begins = chance.within(0.0, seconds.len() as f64) as usize;
    let ends = begins + chance.within(shortest_s, longest_s) as usize;
    let ends = ends.min(seconds.len());
    &mut seconds[begins..ends]
}

/// The highest bid of the others: log-logistic with shape 2, whose quantiles need only a root. Its tail is heavy, as
/// that of real markets is.
fn other_bid(median: f64, chance: &mut Chance) -> u32 {
    let part = chance.part();
    (median * (part / (1.0 - part)).sqrt()) as u32
}

/// When the end of a bid is told.
fn told_after_s(market: &Market, chance: &mut Chance) -> Option<u32> {
    let (fate, part) = (chance.within(0.0, 1_000.0), chance.part());
    let (late, silent) = (f64::from(market.late_permille), f64::from(market.silent_permille));
    if fate < late {
        return Some(market.deadline_s + (part * f64::from(market.deadline_s)) as u32);
    }
    // By the square, half of them come in the first quarter.
    (fate >= late + silent).then_some((part * part * f64::from(market.delay_s)) as u32 + 1)
}

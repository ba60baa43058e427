//! A market that is made up, so that pacing can be seen without an exchange: seven campaigns, a strategy each, and days
//! of a few minutes. `[pacing.demo]` turns it on; it is off by default, and refused where other machines can connect.
//!
//! ```text
//!   plans ─▶ shards        auctions of backtest::market ─▶ bidders ─▶ offers ─▶ wins, told later ─▶ shards
//! ```
//!
//! It asks shards and bidders as the HTTP door does, from a thread of its own: what is bid and won is leased, held and
//! settled as for any client. Only the visitors and the others who bid are made up. The accounts of the campaigns are
//! those of `config/pacing.toml`; where they are missing or empty, the campaigns say so, and nothing is bid.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_runtime::pump::EdgeHandle;
use tidegate_runtime::threads::now_ms;

use crate::backtest::{Auction, Auctions, DAY_S, Market};
use crate::bidder::BidRequest;
use crate::bidders::{BidderAnswer, BidderAsk, BidderClient, BidderRequest};
use crate::family::{CampaignClient, CampaignRequest, shard_of};
use crate::limits::{FLIGHTS_MAX, ITEMS_MAX};
use crate::machine::{Command, Outcome, Refusal, Win, WinOutcome};
use crate::plan::{Flight, Plan, StrategyChoice};
use crate::token::TokenKey;
use crate::units::{BudgetMicros, PriceMicros};

/// Strategies, each a campaign of the same name. Their parameters are for whole days; these have minutes.
const CAMPAIGNS: [(&str, &[(&str, i64)]); 7] = [
    ("even", &[("window_s", 3)]),
    ("traffic_shaped", &[("window_s", 3)]),
    ("feedback", &[("interval_s", 1)]),
    ("slot_rate", &[("slot_s", 1)]),
    ("pid", &[("proportional_permille", 20_000), ("integral_permille", 100_000)]),
    ("adaptive_dual", &[("interval_s", 1)]),
    ("as_fast_as_possible", &[]),
];
/// Who makes them.
const BY: &str = "pacing.demo";
/// What each may spend in a day.
const BUDGET: BudgetMicros = BudgetMicros(5_000_000);
const PRICE_MAX: PriceMicros = PriceMicros(2_000);
/// Requests of a day, for each campaign.
const REQUESTS: u32 = 40_000;
/// How often requests are asked.
const TURN: Duration = Duration::from_millis(50);
/// After this, a day is begun again that could not begin.
const AGAIN: Duration = Duration::from_millis(500);

/// The market.
pub(crate) struct Demo {
    pub campaigns: EdgeHandle<CampaignClient>,
    pub bidders: EdgeHandle<BidderClient>,
    pub shards: u16,
    pub tokens: TokenKey,
    pub account_prefix: Box<str>,
    pub spend_prefix: Box<str>,
    /// How long a day takes.
    pub day_ms: u64,
}

/// A day under way.
struct Day {
    begins: TimeMs,
    auctions: Auctions,
    /// The campaigns' numbers.
    numbers: Vec<u32>,
    /// Seconds of the market that have been.
    second: u32,
    /// Wins by the time at which they are told.
    told: BTreeMap<TimeMs, Vec<Win>>,
    taken: u64,
}

impl Demo {
    /// Makes one day after the other until the process stops.
    pub async fn run(self) {
        let day_s = self.day_ms / 1_000;
        tracing::warn!(
            day_s,
            "pacing.demo is on: visitors, auctions and wins are SYNTHETIC, and the money of the campaigns \"even\", \
             \"traffic_shaped\" … is spent on them"
        );
        loop {
            match self.begin_day().await {
                Ok(day) => self.run_day(day).await,
                Err(why) => {
                    tracing::debug!(why, "a synthetic day cannot begin yet");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    async fn begin_day(&self) -> Result<Day, String> {
        let begins = now_ms();
        let ends = TimeMs(begins.0 + self.day_ms);
        let mut numbers = Vec::new();
        for (name, parameters) in CAMPAIGNS {
            let shard = shard_of(name, self.shards);
            let (before, mut flights) = match self.ask(shard, Command::Read { id: name.into() }).await? {
                Outcome::Campaign(view) => (view.spending.spent, flights_before(begins, view.plan.flights)),
                Outcome::Refused(Refusal::NotFound) => (BudgetMicros::ZERO, Vec::new()),
                other => return Err(format!("{other:?}")),
            };
            flights.push(Flight { starts_ms: begins.0, ends_ms: ends.0 });
            let plan = Box::new(self.plan(name, parameters, before + BUDGET, flights));
            match self.ask(shard, Command::Put { id: name.into(), plan, by: BY.into() }).await? {
                Outcome::Put { number, .. } => numbers.push(number),
                other => return Err(format!("{other:?}")),
            }
        }
        let market = Market { requests: REQUESTS, price_micros: 700.0, ..Market::new(begins.0) };
        let auctions = Auctions::of(&market);
        Ok(Day { begins, auctions, numbers, second: 0, told: BTreeMap::new(), taken: 0 })
    }

    fn plan(&self, name: &str, parameters: &[(&str, i64)], budget: BudgetMicros, flights: Vec<Flight>) -> Plan {
        Plan {
            version: 0,
            account: format!("{}{name}", self.account_prefix).into(),
            spend: format!("{}{name}", self.spend_prefix).into(),
            budget_micros: budget,
            daily_micros: None,
            zone: "UTC".into(),
            flights,
            price_micros: PRICE_MAX,
            strategy: StrategyChoice {
                name: name.into(),
                parameters: parameters.iter().map(|(name, number)| ((*name).into(), *number)).collect(),
            },
            paused: false,
            keys: Vec::new(),
            frequency: None,
            openrtb: None,
        }
    }

    async fn run_day(&self, mut day: Day) {
        let mut worker = 0;
        loop {
            tokio::time::sleep(TURN).await;
            let now = now_ms();
            let past_ms = now.0.saturating_sub(day.begins.0);
            let until = (past_ms * u64::from(DAY_S) / self.day_ms).min(DAY_S.into()) as u32;
            let auctions: Vec<Auction> =
                (day.second..until).flat_map(|second| day.auctions.in_second(second)).copied().collect();
            day.second = until;
            let pairs: Vec<(u32, Auction)> =
                day.numbers.iter().flat_map(|number| auctions.iter().map(move |auction| (*number, *auction))).collect();
            for pairs in pairs.chunks(ITEMS_MAX) {
                worker += 1;
                self.bid(&mut day, pairs, worker, now).await;
            }
            self.tell_wins(&mut day, now).await;
            if until == DAY_S && day.told.is_empty() {
                tracing::info!(wins = day.taken, "a synthetic day is over; the next one begins");
                return;
            }
        }
    }

    /// Asks for bids, and holds the auctions of those that are made.
    async fn bid(&self, day: &mut Day, pairs: &[(u32, Auction)], worker: u64, now: TimeMs) {
        let requests = pairs.iter().map(|(campaign, auction)| BidRequest {
            id: auction.id,
            campaign: *campaign,
            // One of a few thousand visitors.
            user: auction.id % 4_096 + 1,
            ..BidRequest::default()
        });
        let ask = BidderAsk::Bids(requests.collect());
        let Ok(Ok(BidderAnswer::Bids(bids))) = self.bidders.ask(BidderRequest { worker, ask }).await else { return };
        for ((_, auction), offer) in pairs.iter().zip(bids) {
            let (Ok(offer), Some(after_s)) = (offer, auction.told_after_s) else { continue };
            if offer.price.0 > auction.other_bid {
                let bid = self.tokens.open(&offer.token).expect("this server's own token");
                let at = TimeMs(now.0 + u64::from(after_s) * self.day_ms / u64::from(DAY_S));
                let price = PriceMicros(auction.other_bid.max(1));
                day.told.entry(at).or_default().push(bid.won(price, at));
            }
        }
    }

    /// Tells the wins that are due.
    async fn tell_wins(&self, day: &mut Day, now: TimeMs) {
        let later = day.told.split_off(&TimeMs(now.0 + 1));
        let due = std::mem::replace(&mut day.told, later);
        let mut of_shards: BTreeMap<ShardIndex, Vec<Win>> = BTreeMap::new();
        due.into_values().flatten().for_each(|win| of_shards.entry(win.bid.lease.shard()).or_default().push(win));
        for (shard, wins) in of_shards {
            for wins in wins.chunks(ITEMS_MAX) {
                if let Ok(Outcome::Won(won)) = self.ask(shard, Command::Win { wins: wins.to_vec() }).await {
                    day.taken += won.iter().filter(|outcome| **outcome == WinOutcome::Taken).count() as u64;
                }
            }
        }
    }

    async fn ask(&self, shard: ShardIndex, command: Command) -> Result<Outcome, String> {
        match self.campaigns.ask(CampaignRequest { shard, command }).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(unavailable)) => Err(format!("{unavailable:?}")),
            Err(unasked) => Err(format!("{unasked:?}")),
        }
    }
}

/// What has been of a campaign's flights, with room for one more. Its budget has what was spent in them: without them,
/// all of that would be to spend in the next one.
fn flights_before(begins: TimeMs, flights: Vec<Flight>) -> Vec<Flight> {
    let been = flights.into_iter().filter(|flight| flight.starts_ms < begins.0);
    let mut been: Vec<Flight> = been.map(|flight| Flight { ends_ms: flight.ends_ms.min(begins.0), ..flight }).collect();
    been.drain(..been.len().saturating_sub(FLIGHTS_MAX - 1));
    been
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_comes_behind_what_has_been_of_those_before() {
        let flight = |starts_ms, ends_ms| Flight { starts_ms, ends_ms };
        let been = flights_before(TimeMs(25), vec![flight(0, 10), flight(20, 30), flight(30, 40)]);
        assert_eq!(been, [flight(0, 10), flight(20, 25)]);
        let many = (0..FLIGHTS_MAX as u64).map(|day| flight(day, day + 1)).collect();
        assert_eq!(flights_before(TimeMs(100), many).len(), FLIGHTS_MAX - 1);
    }
}

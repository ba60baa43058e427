//! What is wanted of a campaign: its money, when it runs, what it pays, and by which strategy it is paced.

mod openrtb;
mod rules;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_machines::TimeMs;

use crate::units::{BudgetMicros, PriceMicros};

pub use openrtb::{Creative, Media, OpenRtb};
pub(crate) use rules::VERSION_MAX;
pub use rules::{Fault, PlanRules};

/// What is wanted of a campaign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Of two plans, the one with the higher version is in force, in whatever order they come.
    pub version: u64,
    /// The account of the ledger that has the money.
    pub account: Box<str>,
    /// The account that what is spent goes to.
    pub spend: Box<str>,
    /// What may be spent in all.
    pub budget_micros: BudgetMicros,
    /// What may be spent on one day of the zone.
    pub daily_micros: Option<BudgetMicros>,
    /// The zone whose days these are, by its name in the tz database.
    pub zone: Box<str>,
    /// When it runs: in order, and apart from each other.
    pub flights: Vec<Flight>,
    /// The most that is bid for one impression.
    pub price_micros: PriceMicros,
    /// By what it is paced.
    pub strategy: StrategyChoice,
    /// It does not run, whatever the rest says.
    pub paused: bool,
    /// What it is aimed at: hashes that its clients make. Empty for everything.
    pub keys: Vec<u64>,
    /// How often one user may see it.
    pub frequency: Option<FrequencyCap>,
    /// What it buys at exchanges that speak OpenRTB; `None`: it takes no part in their auctions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openrtb: Option<Box<OpenRtb>>,
}

impl Plan {
    /// Bytes of memory, about.
    pub fn bytes(&self) -> usize {
        let parameters: usize = self.strategy.parameters.keys().map(|name| name.len() + 64).sum();
        let lists = self.flights.len() * size_of::<Flight>() + self.keys.len() * size_of::<u64>();
        let texts = self.account.len() + self.spend.len() + self.zone.len() + self.strategy.name.len();
        size_of::<Plan>() + parameters + lists + texts + self.openrtb.as_ref().map_or(0, |openrtb| openrtb.bytes())
    }
}

/// A time in which a campaign runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flight {
    /// From then on.
    pub starts_ms: u64,
    /// Until before then.
    pub ends_ms: u64,
}

/// A strategy, by its name in [`crate::strategy`], and what it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategyChoice {
    /// Its name.
    pub name: Box<str>,
    /// Its parameters; those that are left out have their defaults.
    #[serde(default)]
    pub parameters: BTreeMap<Box<str>, i64>,
}

/// How often one user may see a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrequencyCap {
    /// Bids for one user, at most.
    pub bids_max: u32,
    /// In so many seconds.
    pub window_s: u32,
}

impl Flight {
    /// Whether it is under way.
    pub const fn is_at(&self, now: TimeMs) -> bool {
        self.starts_ms <= now.0 && now.0 < self.ends_ms
    }

    /// How much of it has passed.
    pub fn passed_ms(&self, now: TimeMs) -> u64 {
        now.0.clamp(self.starts_ms, self.ends_ms) - self.starts_ms
    }
}

impl Plan {
    /// The flight that is under way.
    pub fn flight_at(&self, now: TimeMs) -> Option<Flight> {
        self.flights.iter().find(|flight| flight.is_at(now)).copied()
    }
}

//! Which plans are taken.

use super::Plan;
use crate::frequency::{BIDS_MAX, WINDOW_S_MAX};
use crate::limits::{BUDGET_MICROS_MAX, FLIGHTS_MAX, KEYS_MAX, NAME_BYTES_MAX};
use crate::{strategy, zone};

/// The end of the year 9999, in ms: no time of a plan is after it.
const TIME_MS_MAX: u64 = 253_402_300_799_999;

/// No plan has a higher version.
pub(crate) const VERSION_MAX: u64 = i64::MAX as u64;
/// Nobody puts one with a higher version, so that one without can always be put behind it.
const VERSION_GIVEN_MAX: u64 = 1 << 62;

/// What is wrong with a plan: the field, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field.
    pub field: &'static str,
    /// What it must be.
    pub why: String,
}

/// Which accounts campaigns may use. Without it, who may make campaigns could spend any wallet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRules {
    /// What the names of their accounts begin with.
    pub account_prefix: Box<str>,
    /// What the names of the accounts begin with that get what is spent.
    pub spend_prefix: Box<str>,
}

impl PlanRules {
    /// The first thing that is wrong with a plan.
    pub fn check(&self, plan: &Plan) -> Result<(), Fault> {
        let fault = |field, why: &str| Err(Fault { field, why: why.to_owned() });
        for (field, name, prefix) in
            [("account", &plan.account, &self.account_prefix), ("spend", &plan.spend, &self.spend_prefix)]
        {
            if name.len() > NAME_BYTES_MAX || !name.starts_with(&**prefix) || name.len() == prefix.len() {
                let why = format!("expected the id of an account that begins with {prefix:?} (see [pacing])");
                return Err(Fault { field, why });
            }
        }
        if plan.version > VERSION_GIVEN_MAX {
            return fault("version", "expected at most 4611686018427387904");
        }
        if !(1..=BUDGET_MICROS_MAX).contains(&plan.budget_micros.0) {
            return fault("budget_micros", "expected 1 to 9223372036854775807 millionths");
        }
        if plan.daily_micros.is_some_and(|daily| !(1..=BUDGET_MICROS_MAX).contains(&daily.0)) {
            return fault("daily_micros", "expected 1 to 9223372036854775807 millionths");
        }
        if plan.price_micros.0 == 0 {
            return fault("price_micros", "expected 1 to 4294967295 millionths for one impression");
        }
        if plan.zone.len() > NAME_BYTES_MAX || zone::find(&plan.zone).is_none() {
            return fault("zone", "expected the name of a time zone, such as \"Europe/Berlin\" or \"UTC\"");
        }
        if !(1..=FLIGHTS_MAX).contains(&plan.flights.len()) {
            return fault("flights", "expected 1 to 64 flights");
        }
        let is_span =
            plan.flights.iter().all(|flight| flight.starts_ms < flight.ends_ms && flight.ends_ms <= TIME_MS_MAX);
        if !is_span || plan.flights.windows(2).any(|pair| pair[0].ends_ms > pair[1].starts_ms) {
            return fault("flights", "expected each to end behind its start, and before the next one starts");
        }
        if plan.keys.len() > KEYS_MAX || plan.keys.contains(&0) {
            return fault("keys", "expected at most 64 keys, and none that is 0: that means that there is no key");
        }
        if let Some(cap) = plan.frequency
            && (!(1..=BIDS_MAX).contains(&cap.bids_max) || !(1..=WINDOW_S_MAX).contains(&cap.window_s))
        {
            return fault("frequency", "expected bids_max from 1 to 255 and window_s from 1 to 8388608");
        }
        if let Some(openrtb) = &plan.openrtb {
            openrtb.check()?;
            if !plan.keys.is_empty() {
                return fault("keys", "expected none: a campaign with `openrtb` is aimed by that");
            }
        }
        strategy::check(&plan.strategy).map(drop).map_err(|error| Fault { field: "strategy", why: error.to_string() })
    }
}

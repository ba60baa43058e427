//! Money and counts of campaigns, each a type of its own: what has different units is not added.
//!
//! Money is in micros, millionths of a campaign's currency, and an account of the ledger holds so many of its minor
//! units. A price is for one impression; advertisers speak of a thousand ([`Cpm`]).

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// Money of a budget, in micros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BudgetMicros(pub u64);

/// What one impression costs, in micros: at most 4,294 of the currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PriceMicros(pub u32);

/// The price of a thousand impressions, in micros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpm(pub u64);

/// How often something was shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Impressions(pub u64);

impl BudgetMicros {
    /// None.
    pub const ZERO: BudgetMicros = BudgetMicros(0);
    /// The most that there can be.
    pub const MAX: BudgetMicros = BudgetMicros(u64::MAX);

    /// What is left of it behind `spent`; nothing, if more was spent.
    pub const fn left_behind(self, spent: BudgetMicros) -> BudgetMicros {
        BudgetMicros(self.0.saturating_sub(spent.0))
    }
}

impl PriceMicros {
    /// What so many impressions cost; `None` if that is more than a budget can be.
    pub const fn times(self, impressions: Impressions) -> Option<BudgetMicros> {
        match (self.0 as u64).checked_mul(impressions.0) {
            Some(micros) => Some(BudgetMicros(micros)),
            None => None,
        }
    }

    /// The price of a thousand.
    pub const fn cpm(self) -> Cpm {
        Cpm(self.0 as u64 * 1_000)
    }
}

impl Cpm {
    /// The price of one impression, rounded down; `None` if it is more than a price can be.
    pub const fn price(self) -> Option<PriceMicros> {
        let micros = self.0 / 1_000;
        if micros > u32::MAX as u64 { None } else { Some(PriceMicros(micros as u32)) }
    }
}

impl From<PriceMicros> for BudgetMicros {
    fn from(price: PriceMicros) -> BudgetMicros {
        BudgetMicros(price.0.into())
    }
}

/// How many bids were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Losses(pub u64);

/// Sums and differences within one unit. They panic where they leave it: money that is wrong is a bug, and the process
/// stops.
macro_rules! sums {
    ($($unit:ident),+) => { $(
        impl Add for $unit {
            type Output = $unit;
            fn add(self, other: $unit) -> $unit {
                $unit(self.0.checked_add(other.0).expect("a sum fits its unit"))
            }
        }

        impl Sub for $unit {
            type Output = $unit;
            fn sub(self, other: $unit) -> $unit {
                $unit(self.0.checked_sub(other.0).expect("a difference is not below zero"))
            }
        }

        impl AddAssign for $unit {
            fn add_assign(&mut self, other: $unit) {
                *self = *self + other;
            }
        }

        impl SubAssign for $unit {
            fn sub_assign(&mut self, other: $unit) {
                *self = *self - other;
            }
        }

        impl Sum for $unit {
            fn sum<I: Iterator<Item = $unit>>(all: I) -> $unit {
                all.fold($unit(0), Add::add)
            }
        }
    )+ };
}

sums!(BudgetMicros, Impressions, Losses);

impl fmt::Display for BudgetMicros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

impl fmt::Display for PriceMicros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        BudgetMicros::from(*self).fmt(f)
    }
}

/// Adding units of different kinds does not compile.
///
/// ```compile_fail
/// use tidegate_pacer::units::{BudgetMicros, Impressions};
/// let _ = BudgetMicros(1) + Impressions(1);
/// ```
///
/// ```
/// use tidegate_pacer::units::{Cpm, Impressions, PriceMicros, BudgetMicros};
/// let price = Cpm(2_500_000).price().unwrap();
/// assert_eq!(price, PriceMicros(2_500));
/// assert_eq!(price.times(Impressions(4)), Some(BudgetMicros(10_000)));
/// assert_eq!(BudgetMicros(10_000).to_string(), "0.010000");
/// ```
#[expect(dead_code, reason = "it carries the examples")]
struct Examples;

//! What of a plan a bidder needs.

use std::sync::Arc;

use crate::openrtb::{Buyer, Offering, OwnerHash, exact};
use crate::plan::{Flight, FrequencyCap, Plan};
use crate::units::PriceMicros;

/// What of a plan a bidder needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aim {
    /// When it runs; empty while it is paused.
    pub flights: Box<[Flight]>,
    /// The most that is bid.
    pub price_max: PriceMicros,
    /// What it is aimed at; empty for everything.
    pub keys: Box<[u64]>,
    /// How often for one user.
    pub frequency: Option<FrequencyCap>,
    /// What it buys in auctions of OpenRTB.
    pub openrtb: Option<Arc<Offering>>,
    /// Who has changed it last.
    pub owner: OwnerHash,
    /// The version of the plan.
    pub version: u64,
}

impl Aim {
    /// Of the plan of this campaign, by whom it was changed last.
    pub fn of(campaign: &str, plan: &Plan, by: &str) -> Aim {
        Aim {
            flights: if plan.paused { [].into() } else { plan.flights.clone().into() },
            price_max: plan.price_micros,
            keys: plan.keys.clone().into(),
            frequency: plan.frequency,
            openrtb: plan.openrtb.as_ref().map(|openrtb| Arc::new(Offering::of(campaign, openrtb))),
            owner: exact(by),
            version: plan.version,
        }
    }

    /// What the campaign buys in auctions, and for how much; nothing while it is paused.
    pub(super) fn bought(&self, campaign: u32) -> Option<(Buyer, &Offering)> {
        let offering = self.openrtb.as_deref().filter(|_| !self.flights.is_empty())?;
        Some((Buyer { campaign, owner: self.owner, price: self.price_max }, offering))
    }
}

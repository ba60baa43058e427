//! Auctions of OpenRTB on one worker: for each impression, the campaign that bids most.
//!
//! ```text
//!   candidates, from the highest price down ─▶ fits? ─▶ would bid? ─▶ floor? ─▶ the highest is asked to bid
//!                                                          └─ no: it is asked all the same, and counts why
//! ```
//!
//! A strategy may shade a price, so that the campaign with the highest price need not bid most: those below it are
//! looked at until none can bid more. Only one bid is made for an impression, and only what it costs is reserved.

mod unfunded;

use std::sync::Arc;

use super::{BidRequest, Bidder, NoBid, Slot, decide, hash_of, mixed};
use crate::limits::{CANDIDATES_MAX, CANDIDATES_OF_REQUEST_MAX};
use crate::openrtb::{Buyer, CreativeSet, CurrencyCode, Fit, Impression, Index, Offering, Request};
use crate::token::TOKEN_BYTES;
use crate::units::PriceMicros;

pub(super) use unfunded::Unfunded;

/// Campaigns that would bid and bid less than another, of which so many are remembered: one of them bids if those
/// before it are capped for the user.
const RUNNERS_UP_MAX: usize = 8;

/// A bid on an impression.
#[derive(Clone, Debug)]
pub struct AuctionBid {
    /// Which impression of the request.
    pub impression: usize,
    /// The campaign's number.
    pub campaign: u32,
    /// What is bid.
    pub price: PriceMicros,
    /// Comes back with the win; `None` for a test, which costs nothing.
    pub token: Option<[u8; TOKEN_BYTES]>,
    /// What the campaign offers.
    pub offering: Arc<Offering>,
    /// What of that is bid.
    pub fit: Fit,
}

/// What became of an auction.
#[derive(Clone, Debug, Default)]
pub struct Auctioned {
    /// In the order of the impressions; one for each at most.
    pub bids: Vec<AuctionBid>,
    /// Of this currency.
    pub currency: Option<CurrencyCode>,
    /// Campaigns that were looked at.
    pub candidates: u32,
    /// Those of them that buy something else.
    pub unfit: u32,
    /// Those that bid less than the floor.
    pub below_floor: u32,
    /// Those that did not bid, by reason.
    pub no_bids: [u32; NoBid::ALL.len()],
}

/// A campaign that would bid.
struct Willing {
    campaign: u32,
    price: u32,
    fit: Fit,
}

/// Which creatives the request that is auctioned does not block, by campaign. Its lists may be long, so that they are
/// gone through once for each campaign, however many impressions and currencies there are.
#[derive(Default)]
pub(super) struct WantedCreatives {
    /// Counts requests; what was found for another one is not looked at.
    request: u64,
    found: Vec<(u64, CreativeSet)>,
}

impl WantedCreatives {
    /// What was found for other requests does not count any more.
    fn begin(&mut self) {
        self.request += 1;
    }

    /// Those of a campaign.
    fn of(&mut self, campaign: u32, find: impl FnOnce() -> CreativeSet) -> CreativeSet {
        let place = campaign as usize;
        if self.found.len() <= place {
            self.found.resize(place + 1, (0, CreativeSet::default()));
        }
        let (of_request, found) = &mut self.found[place];
        if *of_request != self.request {
            (*of_request, *found) = (self.request, find());
        }
        *found
    }
}

impl Bidder {
    /// Holds auctions for OpenRTB from now on.
    pub fn with_auctions(mut self) -> Bidder {
        self.index = Some(Box::default());
        self
    }

    /// It was told which campaigns there are.
    pub fn is_informed(&self) -> bool {
        self.is_informed
    }

    /// Bids on the impressions of a request: in the first of its currencies in which any campaign bids.
    pub fn auction(&mut self, request: &Request) -> Auctioned {
        let mut auctioned = Auctioned::default();
        let Some(mut index) = self.index.take() else { return auctioned };
        self.wanted.begin();
        for campaign in self.unfunded.due(self.now) {
            self.list_again(&mut index, campaign);
        }
        for currency in &request.currencies {
            for (place, impression) in request.impressions.iter().enumerate() {
                let bid = self.bid_on(&index, (request, impression, *currency), &mut auctioned);
                auctioned.bids.extend(bid.map(|bid| AuctionBid { impression: place, ..bid }));
            }
            if !auctioned.bids.is_empty() {
                auctioned.currency = Some(*currency);
                break;
            }
        }
        for campaign in self.unfunded.unlist(self.now) {
            if let Some((buyer, offering)) = self.bought_by(campaign) {
                index.remove(buyer, offering);
            }
        }
        self.index = Some(index);
        auctioned
    }

    /// A campaign is looked at again.
    pub(super) fn list_again(&self, index: &mut Index, campaign: u32) {
        if let Some((buyer, offering)) = self.bought_by(campaign) {
            index.insert(buyer, offering);
        }
    }

    fn bought_by(&self, campaign: u32) -> Option<(Buyer, &Offering)> {
        self.aims[campaign as usize].as_deref()?.bought(campaign)
    }

    fn bid_on(
        &mut self,
        index: &Index,
        (request, impression, currency): (&Request, &Impression, CurrencyCode),
        told: &mut Auctioned,
    ) -> Option<AuctionBid> {
        let max = (CANDIDATES_OF_REQUEST_MAX / request.impressions.len()).clamp(1, CANDIDATES_MAX);
        let mut candidates = index.candidates(request, impression, max);
        let mut willing: Vec<Willing> = Vec::new();
        let id = mixed(request.id ^ impression.id);
        loop {
            let most = willing.last().map_or(0, |best| best.price);
            if let Some(campaign) = candidates.next_above(most) {
                told.candidates += 1;
                if let Some(found) = self.look((request, impression, currency), (campaign, id), told) {
                    let place = willing.partition_point(|other| other.price < found.price);
                    willing.insert(place, found);
                    if willing.len() > RUNNERS_UP_MAX {
                        willing.remove(0);
                    }
                }
                continue;
            }
            let best = willing.pop()?;
            if let Some(bid) = self.ask(request, (best, id), told) {
                return Some(bid);
            }
        }
    }

    /// Whether a campaign would bid. If not, it is counted why.
    fn look(
        &mut self,
        (request, impression, currency): (&Request, &Impression, CurrencyCode),
        (campaign, id): (u32, u64),
        told: &mut Auctioned,
    ) -> Option<Willing> {
        if self.slots[campaign as usize].is_over(self.now) {
            self.change_lease(campaign);
        }
        let aim = self.aims[campaign as usize].as_deref()?;
        let wanted = &mut self.wanted;
        let fit_of = |offering: &Arc<Offering>| {
            let find = || wanted.of(campaign, || offering.wanted(&request.blocked));
            offering.fits(request, impression, currency, find)
        };
        let Some(fit) = aim.openrtb.as_ref().and_then(fit_of) else {
            told.unfit += 1;
            return None;
        };
        let now = self.now;
        let slot = &mut self.slots[campaign as usize];
        if !slot.is_in_flight(now) {
            slot.find_flight(Some(aim), now);
        }
        let Some(price) = slot.would_bid(campaign, id).filter(|_| slot.is_in_flight(now)) else {
            let asked = BidRequest { id, campaign, ..BidRequest::default() };
            // Its strategy must know of what it does not bid on. A test is nothing that it could have bought.
            let answer = match request.is_test {
                true => decide(&slot.seen(now), Some(aim), &asked, hash_of(&asked), |_| true).map(drop),
                false => self.bid(&asked).map(drop),
            };
            let why = answer.expect_err("who would not bid does not bid");
            told.no_bids[why as usize] += 1;
            if why == NoBid::NoLease && !request.is_test {
                self.unfunded.note(campaign, now);
            }
            return None;
        };
        if !fit.floor.allows(price.into(), currency) {
            told.below_floor += 1;
            return None;
        }
        Some(Willing { campaign, price, fit })
    }

    fn ask(&mut self, request: &Request, (best, id): (Willing, u64), told: &mut Auctioned) -> Option<AuctionBid> {
        let Willing { campaign, price, fit } = best;
        let offering = self.aims[campaign as usize].as_ref()?.openrtb.clone()?;
        let (impression, price) = (0, PriceMicros(price));
        if request.is_test {
            return Some(AuctionBid { impression, campaign, price, token: None, offering, fit });
        }
        match self.bid(&BidRequest { id, campaign, user: request.user, ..BidRequest::default() }) {
            Ok(offer) => {
                assert!(offer.price == price, "a campaign bids what it would bid");
                Some(AuctionBid { impression, campaign, price, token: Some(offer.token), offering, fit })
            }
            Err(why) => {
                told.no_bids[why as usize] += 1;
                None
            }
        }
    }
}

impl Slot {
    /// What is bid on a request, of a campaign in flight, unless its user is capped.
    fn would_bid(&self, campaign: u32, id: u64) -> Option<u32> {
        let chance = mixed(id ^ u64::from(campaign) << 32) >> 32;
        let price = ((u64::from(self.price_max) * u64::from(self.shade)) >> 16) as u32;
        let has_money = price > 0 && self.left >= u64::from(price) && self.number < u32::MAX;
        (self.is_known && chance < self.threshold && has_money).then_some(price)
    }
}

#[cfg(test)]
mod tests;

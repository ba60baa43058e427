//! Answers bid requests on one worker.
//!
//! ```text
//!   request ─▶ campaign? ─▶ flight? ─▶ key? ─▶ throttle? ─▶ price ≤ cap? ─▶ user? ─▶ lease? ─▶ price, token
//!                 └───────────┴──────────┴─────────┴─────────────┴────────────┴────────┴─▶ no bid, and why
//! ```
//!
//! Promise: all bids of a lease together cost at most its amount. A request is answered without waiting, without
//! allocating (but for a list of leases that are over), and by what this worker knows: plans, throttles and leases come
//! as [`Update`]s, and what was used goes back as a [`Report`].
//!
//! A lease is bid with until less than a bid is left of it, and not behind its time: then it is retired, and the next
//! one is bid with. Why not at once with a newer one: the ledger would hold what is left of the older one for nothing.
//!
//! Invariant: chance comes from the request's id. The same requests under the same updates get the same answers.

mod aim;
mod auction;
mod decision;
mod exchange;

use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_machines::TimeMs;

use crate::frequency::FrequencyTable;
use crate::machine::LeaseId;
use crate::openrtb::Index;
use crate::token::{Bid, Opening, TOKEN_BYTES, TokenKey};
use crate::units::{BudgetMicros, PriceMicros};

pub use aim::Aim;
pub use auction::{AuctionBid, Auctioned};
use auction::{Unfunded, WantedCreatives};
use decision::decide;
pub use decision::{Sample, Seen, decide_again, hash_of, mixed};
pub use exchange::{Grant, LeaseChange, Report, Retired, Throttled, Update, Used};

/// One request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BidRequest {
    /// Of the auction.
    pub id: u64,
    /// The campaign's number.
    pub campaign: u32,
    /// Hash of the user; 0: unknown.
    pub user: u64,
    /// Hash of what the impression is about; 0: none.
    pub key: u64,
    /// What the client would bid; 0: what the campaign bids.
    pub price: PriceMicros,
}

/// A bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What is bid.
    pub price: PriceMicros,
    /// Comes back with the win.
    pub token: [u8; TOKEN_BYTES],
}

/// Why there is no bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum NoBid {
    /// No campaign has this number.
    CampaignUnknown,
    /// It is paused, or none of its flights is under way.
    NotInFlight,
    /// The key is none of those that it is aimed at.
    NotTargeted,
    /// The strategy lets this one pass.
    Throttled,
    /// The user has seen it as often as may be.
    FrequencyCapped,
    /// No money is leased.
    NoLease,
    /// The client would bid more than the campaign may.
    PriceAboveCap,
}

impl NoBid {
    /// All of them, in the order of their numbers.
    pub const ALL: [NoBid; 7] = [
        NoBid::CampaignUnknown,
        NoBid::NotInFlight,
        NoBid::NotTargeted,
        NoBid::Throttled,
        NoBid::FrequencyCapped,
        NoBid::NoLease,
        NoBid::PriceAboveCap,
    ];

    /// Its name at the doors and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            NoBid::CampaignUnknown => "campaign_unknown",
            NoBid::NotInFlight => "not_in_flight",
            NoBid::NotTargeted => "not_targeted",
            NoBid::Throttled => "throttled",
            NoBid::FrequencyCapped => "frequency_capped",
            NoBid::NoLease => "no_lease",
            NoBid::PriceAboveCap => "price_above_cap",
        }
    }
}

/// Samples of a bidder that wait for a report, which comes every 20 ms.
const SAMPLES_WAITING_MAX: usize = 64;

/// A campaign as bids see it: two lines of the cache.
#[repr(align(128))]
struct Slot {
    /// The flight under way, or the next one.
    starts: u64,
    ends: u64,
    /// A request is bid on if the upper half of its hash is below this.
    threshold: u64,
    lease: LeaseId,
    left: u64,
    /// From then on, nothing is bid on the lease.
    until: TimeMs,
    opened: Opening,
    /// The next bid's number in the lease.
    number: u32,
    price_max: u32,
    /// What is bid of a price, in 65,536ths.
    shade: u32,
    /// There are keys or a frequency cap.
    is_choosy: bool,
    is_known: bool,
    /// It stands in the list of those that were asked for.
    is_used: bool,
    /// Another lease is there, for when this one is over.
    has_next: bool,
    bids: u32,
    reserved: u64,
    no_bids: [u32; NoBid::ALL.len()],
}

impl Default for Slot {
    fn default() -> Slot {
        Slot {
            starts: 0,
            ends: 0,
            threshold: 0,
            lease: LeaseId(0),
            left: 0,
            until: NO_LEASE_UNTIL,
            opened: Opening::of(TimeMs(0)),
            number: 0,
            price_max: 0,
            shade: SHADE_ONE,
            is_choosy: false,
            is_known: false,
            is_used: false,
            has_next: false,
            bids: 0,
            reserved: 0,
            no_bids: [0; NoBid::ALL.len()],
        }
    }
}

const _: () = assert!(size_of::<Slot>() == 128);

/// Campaigns of one report: the worker does nothing else meanwhile.
const REPORTED_MAX: usize = 1_024;
/// Where there is no lease, none is to be given back.
const NO_LEASE_UNTIL: TimeMs = TimeMs(u64::MAX);
/// The whole of a price.
const SHADE_ONE: u32 = 1 << 16;
/// Every request is bid on.
const THRESHOLD_ONE: u64 = 1 << 32;

/// The bidder of one worker.
pub struct Bidder {
    tokens: TokenKey,
    users: Arc<FrequencyTable>,
    now: TimeMs,
    /// By number.
    slots: Vec<Slot>,
    aims: Vec<Option<Arc<Aim>>>,
    /// The leases of campaigns that are bid with when those in the slots are over.
    next: HashMap<u32, Grant>,
    used: Vec<u32>,
    retired: Vec<Retired>,
    unknown: u64,
    /// It was told which campaigns there are.
    is_informed: bool,
    /// Of one that holds auctions.
    index: Option<Box<Index>>,
    wanted: WantedCreatives,
    unfunded: Unfunded,
    /// A request is a sample if the lower half of its hash is below this.
    sampled: u64,
    samples: Vec<Sample>,
    samples_dropped: u64,
}

impl Bidder {
    /// Signs by `tokens`, and counts `users`.
    pub fn new(tokens: TokenKey, users: Arc<FrequencyTable>) -> Bidder {
        Bidder {
            tokens,
            users,
            now: TimeMs(0),
            slots: Vec::new(),
            aims: Vec::new(),
            next: HashMap::new(),
            used: Vec::new(),
            retired: Vec::new(),
            unknown: 0,
            is_informed: false,
            index: None,
            wanted: WantedCreatives::default(),
            unfunded: Unfunded::default(),
            sampled: 0,
            samples: Vec::new(),
            samples_dropped: 0,
        }
    }

    /// Takes one of so many requests as a sample; of 0, none.
    pub fn sampling(mut self, one_of: u32) -> Bidder {
        self.sampled = (1_u64 << 32).checked_div(u64::from(one_of)).unwrap_or(0);
        if self.sampled > 0 {
            self.samples.reserve_exact(SAMPLES_WAITING_MAX);
        }
        self
    }

    /// It is now so late.
    pub fn set_time(&mut self, now: TimeMs) {
        self.now = now;
    }

    /// The time that bids get.
    pub fn time(&self) -> TimeMs {
        self.now
    }

    /// Answers a request.
    #[inline]
    pub fn bid(&mut self, request: &BidRequest) -> Result<Offer, NoBid> {
        let now = self.now;
        let Some(mut slot) = self.slots.get_mut(request.campaign as usize).filter(|slot| slot.is_known) else {
            // Just after a start, nobody knows any. That is no reason to forget one.
            if !self.is_informed {
                return Err(NoBid::NoLease);
            }
            self.unknown += 1;
            return Err(NoBid::CampaignUnknown);
        };
        if !slot.is_used {
            slot.is_used = true;
            self.used.push(request.campaign);
        }
        if slot.is_over(now) {
            self.change_lease(request.campaign);
            slot = &mut self.slots[request.campaign as usize];
        }
        if !slot.is_in_flight(now) {
            slot.find_flight(self.aims[request.campaign as usize].as_deref(), now);
        }
        let aim = if slot.is_choosy { self.aims[request.campaign as usize].as_deref() } else { None };
        let (hash, mut may_see) = (hash_of(request), None);
        let decided = decide(&slot.seen(now), aim, request, hash, |cap| {
            let user = mixed(request.user ^ mixed(request.campaign.into()));
            let owner = aim.map_or(0, |aim| aim.owner);
            *may_see.insert(self.users.count(user, owner, cap, now))
        });
        if hash & u64::from(u32::MAX) < self.sampled {
            let version = self.aims[request.campaign as usize].as_ref().map_or(0, |aim| aim.version);
            let sample = Sample { request: *request, version, seen: slot.seen(now), may_see, answer: decided };
            keep_sample(&mut self.samples, &mut self.samples_dropped, sample);
        }
        match decided {
            Ok(price) => {
                slot.left -= u64::from(price.0);
                slot.reserved += u64::from(price.0);
                slot.bids += 1;
                let (lease, number, opened) = (slot.lease, slot.number, slot.opened);
                slot.number += 1;
                let bid = Bid { lease, opened, number, price, at: now };
                Ok(Offer { price, token: self.tokens.sign(&bid) })
            }
            Err(why) => {
                slot.no_bids[why as usize] += 1;
                Err(why)
            }
        }
    }

    /// Does what it is told.
    pub fn update(&mut self, update: &Update) {
        self.is_informed = true;
        self.set_aims(&update.aims);
        for Throttled { campaign, share, shade } in &update.throttles {
            if let Some(slot) = self.slots.get_mut(*campaign as usize) {
                slot.threshold = (share.clamp(0.0, 1.0) * THRESHOLD_ONE as f64) as u64;
                slot.shade = (shade.clamp(0.0, 1.0) * f64::from(SHADE_ONE)) as u32;
            }
        }
        for change in &update.leases {
            match change {
                LeaseChange::Grant(grant) => self.take_grant(*grant),
                LeaseChange::Revoke(campaign) => self.retire(*campaign),
            }
        }
    }

    /// Takes money for a campaign, for now or for when what there is is used.
    fn take_grant(&mut self, grant: Grant) {
        let campaign = grant.campaign;
        match self.slots.get_mut(campaign as usize).filter(|slot| slot.is_known) {
            None => return self.give_back(grant),
            Some(slot) if slot.lease == LeaseId(0) => slot.begin(&grant),
            Some(slot) => {
                slot.has_next = true;
                // Of three, the oldest is over.
                if let Some(older) = self.next.insert(campaign, grant) {
                    self.retire_current(campaign);
                    self.slots[campaign as usize].begin(&older);
                }
            }
        }
        self.funded(campaign);
    }

    /// Nothing was bid on it.
    fn give_back(&mut self, Grant { lease, amount, .. }: Grant) {
        self.retired.push(Retired { lease, bids: 0, left: amount, at: self.now });
    }

    /// The lease of a campaign is over: the next one is bid with, if there is one.
    #[cold]
    fn change_lease(&mut self, campaign: u32) {
        self.retire_current(campaign);
        let slot = &mut self.slots[campaign as usize];
        if !std::mem::take(&mut slot.has_next) {
            return;
        }
        let next = self.next.remove(&campaign).expect("there is another lease");
        if self.now < next.until { slot.begin(&next) } else { self.give_back(next) }
    }

    /// What was used since the last report; of more campaigns than one report has, the rest is in the next.
    pub fn report(&mut self) -> Report {
        let reported = self.used.len().min(REPORTED_MAX);
        let used = self.used.drain(..reported).map(|campaign| {
            let slot = &mut self.slots[campaign as usize];
            slot.is_used = false;
            Used {
                campaign,
                bids: std::mem::take(&mut slot.bids),
                reserved: BudgetMicros(std::mem::take(&mut slot.reserved)),
                no_bids: std::mem::take(&mut slot.no_bids),
                left: BudgetMicros(slot.left) + self.next.get(&campaign).map_or(BudgetMicros::ZERO, |next| next.amount),
            }
        });
        let used = used.collect();
        let retired = std::mem::take(&mut self.retired);
        let samples = match self.samples.is_empty() {
            true => Vec::new(),
            false => std::mem::replace(&mut self.samples, Vec::with_capacity(SAMPLES_WAITING_MAX)),
        };
        let samples_dropped = std::mem::take(&mut self.samples_dropped);
        Report { used, retired, unknown: std::mem::take(&mut self.unknown), now: self.now, samples, samples_dropped }
    }

    /// Takes over other aims. It is not informed by this alone: throttles and money come with the rest of an update.
    pub fn set_aims(&mut self, aims: &[(u32, Option<Arc<Aim>>)]) {
        aims.iter().for_each(|(campaign, aim)| self.set_aim(*campaign, aim.clone()));
    }

    fn set_aim(&mut self, campaign: u32, aim: Option<Arc<Aim>>) {
        let at = campaign as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, Slot::default);
            self.aims.resize(at + 1, None);
        }
        if aim.is_none() {
            self.retire(campaign);
        }
        let was_unlisted = if aim.is_some() { self.unfunded.relist(campaign) } else { self.unfunded.forget(campaign) };
        if let Some(index) = &mut self.index {
            let before = self.aims[at].as_deref().filter(|_| !was_unlisted);
            if let Some((buyer, offering)) = before.and_then(|aim| aim.bought(campaign)) {
                index.remove(buyer, offering);
            }
            if let Some((buyer, offering)) = aim.as_deref().and_then(|aim| aim.bought(campaign)) {
                index.insert(buyer, offering);
            }
        }
        let slot = &mut self.slots[at];
        slot.is_known = aim.is_some();
        (slot.starts, slot.ends) = (0, 0);
        slot.price_max = aim.as_ref().map_or(0, |aim| aim.price_max.0);
        slot.is_choosy = aim.as_ref().is_some_and(|aim| !aim.keys.is_empty() || aim.frequency.is_some());
        self.aims[at] = aim;
    }

    /// The campaign has money: auctions look at it.
    fn funded(&mut self, campaign: u32) {
        if self.unfunded.forget(campaign)
            && let Some(mut index) = self.index.take()
        {
            self.list_again(&mut index, campaign);
            self.index = Some(index);
        }
    }

    /// Nothing more is bid on the campaign's leases.
    fn retire(&mut self, campaign: u32) {
        if let Some(next) = self.next.remove(&campaign) {
            self.slots[campaign as usize].has_next = false;
            self.give_back(next);
        }
        self.retire_current(campaign);
    }

    /// Nothing more is bid on the lease that is bid with.
    fn retire_current(&mut self, campaign: u32) {
        let Some(slot) = self.slots.get_mut(campaign as usize).filter(|slot| slot.lease != LeaseId(0)) else { return };
        let left = BudgetMicros(slot.left);
        self.retired.push(Retired { lease: slot.lease, bids: slot.number, left, at: self.now });
        (slot.lease, slot.left, slot.number, slot.until) = (LeaseId(0), 0, 0, NO_LEASE_UNTIL);
    }
}

impl Slot {
    #[inline(always)]
    fn seen(&self, now: TimeMs) -> Seen {
        let Slot { starts, ends, threshold, shade, price_max, lease, left, number, .. } = *self;
        Seen { now, starts, ends, threshold, shade, price_max, lease, left, number }
    }

    /// From now on, this lease is bid with.
    fn begin(&mut self, grant: &Grant) {
        assert!(self.lease == LeaseId(0), "one lease is bid with at a time");
        let Grant { lease, amount, opened, until, .. } = *grant;
        (self.lease, self.left, self.number) = (lease, amount.0, 0);
        (self.opened, self.until) = (Opening::of(opened), until);
    }

    /// Whether the lease is over: its time is, or less than the most that is bid is left of it and there is another.
    #[inline(always)]
    fn is_over(&self, now: TimeMs) -> bool {
        now >= self.until || self.has_next && self.left < u64::from(self.price_max)
    }

    /// Whether the flight that was found last is under way.
    #[inline(always)]
    fn is_in_flight(&self, now: TimeMs) -> bool {
        now.0.wrapping_sub(self.starts) < self.ends.wrapping_sub(self.starts)
    }

    /// Finds the flight that is under way, if one is.
    #[cold]
    fn find_flight(&mut self, aim: Option<&Aim>, now: TimeMs) {
        if let Some(flight) = aim.and_then(|aim| aim.flights.iter().find(|flight| flight.is_at(now))) {
            (self.starts, self.ends) = (flight.starts_ms, flight.ends_ms);
        }
    }
}

/// Keeps a sample for the next report. It allocates nothing: there is room for some from the start.
#[cold]
fn keep_sample(samples: &mut Vec<Sample>, dropped: &mut u64, sample: Sample) {
    if samples.len() < SAMPLES_WAITING_MAX {
        samples.push(sample);
    } else {
        *dropped += 1;
    }
}

#[cfg(test)]
mod tests;

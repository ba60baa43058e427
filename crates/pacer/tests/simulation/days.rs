//! The oracle of the caps of days: what is bid with money that was leased today, as whoever wins it pays it.

use tidegate_machines::TimeMs;
use tidegate_pacer::machine::LeaseView;
use tidegate_pacer::units::BudgetMicros;
use tidegate_pacer::zone::{ZoneDay, day_at, find};

use super::notices::{Fate, Made};

/// Zones of campaigns: at every time, it is another day in some of them.
pub const ZONES: [&str; 4] = ["Europe/Berlin", "Asia/Tokyo", "America/Los_Angeles", "Pacific/Auckland"];

/// The cap of a campaign, and what its day may come to.
#[derive(Clone, Copy)]
pub struct DayCap {
    pub zone: &'static str,
    pub cap: Option<u64>,
    today: ZoneDay,
    /// The cap, or what was spent and leased today when it was put, if that is more.
    bound: Option<u64>,
}

/// The bids of a campaign, its leases, and the time.
pub struct Seen<'a> {
    pub made: &'a [Made],
    pub leases: &'a [LeaseView],
    pub campaign: usize,
    pub number: u32,
    pub now: u64,
}

impl DayCap {
    /// A plan without a cap.
    pub fn none(now: u64) -> DayCap {
        DayCap { zone: ZONES[0], cap: None, today: today(ZONES[0], now), bound: None }
    }

    /// Another plan is in force from now on, or other records are, of which so much is known.
    pub fn put(&mut self, zone: &'static str, cap: Option<u64>, seen: &Seen) {
        (self.zone, self.cap, self.today) = (zone, cap, today(zone, seen.now));
        self.bound = cap.map(|cap| cap.max(seen.spent(self.today) + seen.leased(self.today)));
    }

    /// Whether what is spent and may be spent of today's money is within the cap.
    pub fn check(&mut self, seen: &Seen) -> Result<(), String> {
        if !self.today.has(TimeMs(seen.now)) {
            (self.today, self.bound) = (today(self.zone, seen.now), self.cap);
        }
        let (spent, campaign, zone) = (seen.spent(self.today), seen.campaign, self.zone);
        match self.bound {
            Some(bound) if spent > bound => {
                Err(format!("campaign {campaign}: day {} of {zone} may cost {spent} of {bound}", self.today.number))
            }
            _ => Ok(()),
        }
    }
}

impl Seen<'_> {
    /// What bids with money of a day have cost, and may cost.
    fn spent(&self, day: ZoneDay) -> u64 {
        let of_it = self.made.iter().filter(|bid| bid.campaign == self.campaign && day.has(bid.leased));
        let cost = |bid: &Made| match bid.fate {
            Fate::Unknown if bid.is_in_time(self.now) => u64::from(bid.bid.price.0),
            _ => bid.paid,
        };
        of_it.map(cost).sum()
    }

    /// What may be bid and won with leases of a day, at most.
    fn leased(&self, day: ZoneDay) -> u64 {
        let is_of_it = |lease: &&LeaseView| lease.campaign == self.number && day.has(lease.life.opened);
        let open = self.leases.iter().filter(is_of_it).filter(|lease| !lease.is_closed);
        open.map(|lease| lease.amount - lease.spent).sum::<BudgetMicros>().0
    }
}

fn today(zone: &str, now: u64) -> ZoneDay {
    day_at(&find(zone).expect("it is in the database"), TimeMs(now))
}

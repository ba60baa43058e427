//! What a bid costs without its frame: `cargo bench -p tidegate-pacer --bench bid`. Prints the best of many rounds, in
//! nanoseconds for each bid, with 1,000 and 10,000 campaigns, without and with frequency caps.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_pacer::bidder::{Aim, BidRequest, Bidder, Grant, LeaseChange, Throttled, Update, mixed};
use tidegate_pacer::frequency::FrequencyTable;
use tidegate_pacer::machine::LeaseId;
use tidegate_pacer::plan::{Flight, FrequencyCap};
use tidegate_pacer::token::TokenKey;
use tidegate_pacer::units::{BudgetMicros, PriceMicros};

const BIDS: u64 = 100_000;
const ROUNDS: usize = 100;
const NOW: TimeMs = TimeMs(1_795_000_000_000);

fn bidder(campaigns: u32, frequency: Option<FrequencyCap>) -> Bidder {
    let mut bidder = Bidder::new(TokenKey::derive(b"bench"), Arc::new(FrequencyTable::new(1 << 20)));
    bidder.set_time(NOW);
    let flights = [Flight { starts_ms: 0, ends_ms: u64::MAX }].into();
    let aim = Arc::new(Aim {
        flights,
        price_max: PriceMicros(2_500),
        keys: [].into(),
        frequency,
        owner: 0,
        version: 1,
        openrtb: None,
    });
    let grant = |campaign| Grant {
        campaign,
        lease: LeaseId::new(ShardIndex(0), u64::from(campaign) + 1),
        amount: BudgetMicros(u64::MAX / 2),
        opened: NOW,
        until: TimeMs(u64::MAX),
    };
    bidder.update(&Update {
        aims: (0..campaigns).map(|campaign| (campaign, Some(aim.clone()))).collect(),
        throttles: (0..campaigns).map(|campaign| Throttled { campaign, share: 1.0, shade: 1.0 }).collect(),
        leases: (0..campaigns).map(grant).map(LeaseChange::Grant).collect(),
    });
    bidder
}

fn request(number: u64, campaigns: u32) -> BidRequest {
    let chance = mixed(number);
    BidRequest {
        id: chance,
        campaign: (chance >> 33) as u32 % campaigns,
        user: chance.rotate_left(17),
        key: 0,
        price: PriceMicros(0),
    }
}

fn main() {
    let cap = FrequencyCap { bids_max: 100, window_s: 3_600 };
    for (campaigns, frequency) in [(1_000, None), (10_000, None), (10_000, Some(cap))] {
        let mut bidder = bidder(campaigns, frequency);
        let requests: Vec<BidRequest> = (0..BIDS).map(|number| request(number, campaigns)).collect();
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for request in &requests {
                let _ = black_box(bidder.bid(black_box(request)));
            }
            best = best.min(start.elapsed().as_nanos() as f64 / BIDS as f64);
            bidder.report();
        }
        let capped = if frequency.is_some() { ", with frequency caps" } else { "" };
        println!("{:<60}{best:>8.1} ns", format!("a bid, {campaigns} campaigns{capped}"));
    }
}

//! Who bids in an auction, as cases.

use super::*;
use crate::bidder::{Aim, Grant, LeaseChange, Throttled, Update};
use crate::frequency::FrequencyTable;
use crate::limits::CANDIDATES_OF_OWNER_MAX;
use crate::machine::LeaseId;
use crate::openrtb::tests::{impression, plan, request};
use crate::openrtb::{Blocked, Floor, folded};
use crate::plan::{Flight, FrequencyCap, OpenRtb};
use crate::token::TokenKey;
use crate::units::BudgetMicros;
use tidegate_machines::TimeMs;

const NOW: TimeMs = TimeMs(1_795_000_000_000);

fn aim(price: u32, plan: &OpenRtb) -> Aim {
    Aim {
        flights: [Flight { starts_ms: NOW.0 - 10, ends_ms: NOW.0 + 10 }].into(),
        price_max: PriceMicros(price),
        keys: [].into(),
        frequency: None,
        owner: 0,
        version: 1,
        openrtb: Some(Arc::new(Offering::of("c", plan))),
    }
}

/// A bidder with these campaigns, from number 1 on, each with a full throttle and so much money.
fn with(aims: Vec<Aim>, amount: u64) -> Bidder {
    let users = Arc::new(FrequencyTable::new(1_024));
    let mut bidder = Bidder::new(TokenKey::derive(b"key"), users).with_auctions();
    bidder.set_time(NOW);
    let numbers = 1..=aims.len() as u32;
    let grant = |campaign: u32| {
        let (lease, amount, until) = (LeaseId(campaign.into()), BudgetMicros(amount), TimeMs(NOW.0 + 1_000_000));
        Grant { campaign, lease, amount, opened: NOW, until }
    };
    bidder.update(&Update {
        throttles: numbers.clone().map(|campaign| Throttled { campaign, share: 1.0, shade: 1.0 }).collect(),
        leases: numbers.clone().map(grant).map(LeaseChange::Grant).collect(),
        aims: numbers.zip(aims).map(|(number, aim)| (number, Some(Arc::new(aim)))).collect(),
    });
    bidder
}

fn told(auctioned: &Auctioned) -> Vec<(usize, u32, u32)> {
    auctioned.bids.iter().map(|bid| (bid.impression, bid.campaign, bid.price.0)).collect()
}

fn throttle(bidder: &mut Bidder, campaign: u32, share: f64, shade: f64) {
    bidder.update(&Update { throttles: vec![Throttled { campaign, share, shade }], ..Update::default() });
}

#[test]
fn the_campaign_that_bids_most_bids() {
    let mut bidder = with(vec![aim(100, &plan()), aim(300, &plan()), aim(200, &plan())], 10_000);
    let auctioned = bidder.auction(&request());
    assert_eq!((told(&auctioned), auctioned.candidates), (vec![(0, 2, 300)], 1));
    throttle(&mut bidder, 2, 1.0, 0.5);
    assert_eq!(told(&bidder.auction(&request())), [(0, 3, 200)], "another price is shaded below its own");
    throttle(&mut bidder, 3, 0.0, 1.0);
    let auctioned = bidder.auction(&request());
    assert_eq!(told(&auctioned), [(0, 2, 150)]);
    assert_eq!(auctioned.no_bids[NoBid::Throttled as usize], 1);
    let used = bidder.report().used;
    let bids: Vec<(u32, u32)> = used.iter().map(|used| (used.campaign, used.bids)).collect();
    assert_eq!(bids, [(2, 2), (3, 1)], "one bid for each auction");
}

#[test]
fn each_impression_has_a_bid_of_its_own() {
    let mut bidder = with(vec![aim(100, &plan()), aim(300, &plan())], 350);
    let request = Request { impressions: vec![impression(1), impression(2)], ..request() };
    let auctioned = bidder.auction(&request);
    assert_eq!(told(&auctioned), [(0, 2, 300), (1, 1, 100)], "the money of the first one is used");
    let tokens: Vec<_> = auctioned.bids.iter().map(|bid| bid.token.expect("signed")).collect();
    assert_ne!(tokens[0], tokens[1]);
    assert_eq!(auctioned.no_bids[NoBid::NoLease as usize], 1);
}

#[test]
fn a_user_who_is_capped_sees_the_next_one() {
    let frequency = Some(FrequencyCap { bids_max: 1, window_s: 60 });
    let mut bidder = with(vec![aim(100, &plan()), Aim { frequency, ..aim(300, &plan()) }], 10_000);
    let request = Request { user: 5, ..request() };
    let bids: Vec<u32> = (0..3).flat_map(|_| bidder.auction(&request).bids).map(|bid| bid.campaign).collect();
    assert_eq!(bids, [2, 1, 1]);
    assert_eq!(told(&bidder.auction(&Request { user: 0, ..request })), [(0, 2, 300)], "nobody knows this one");
}

#[test]
fn a_floor_and_a_currency_are_kept() {
    let euro = OpenRtb { currency: "EUR".into(), ..plan() };
    let mut bidder = with(vec![aim(100, &plan()), aim(300, &euro)], 10_000);
    let (usd, eur) = (CurrencyCode::USD, CurrencyCode(*b"EUR"));
    let floor = |micros, currency| {
        let impressions = vec![Impression { floor: Floor { micros, currency }, ..impression(1) }];
        Request { impressions, currencies: vec![usd, eur], ..request() }
    };
    let auctioned = bidder.auction(&floor(100, usd));
    assert_eq!((told(&auctioned), auctioned.currency), (vec![(0, 1, 100)], Some(usd)));
    let auctioned = bidder.auction(&floor(101, usd));
    assert_eq!((told(&auctioned), auctioned.below_floor), (vec![], 2), "the euro says nothing of a floor in dollars");
    let auctioned = bidder.auction(&floor(300, eur));
    assert_eq!((told(&auctioned), auctioned.currency), (vec![(0, 2, 300)], Some(eur)));
    throttle(&mut bidder, 1, 1.0, 0.9);
    assert_eq!(told(&bidder.auction(&floor(91, usd))), [], "shaded below the floor");
}

#[test]
fn a_test_costs_nothing_and_counts_nothing() {
    let mut bidder = with(vec![aim(100, &plan())], 100);
    let test = Request { is_test: true, ..request() };
    for _ in 0..3 {
        let auctioned = bidder.auction(&test);
        assert_eq!((told(&auctioned), auctioned.bids[0].token), (vec![(0, 1, 100)], None));
    }
    throttle(&mut bidder, 1, 0.0, 1.0);
    let auctioned = bidder.auction(&test);
    assert_eq!((told(&auctioned), auctioned.no_bids[NoBid::Throttled as usize]), (vec![], 1), "it says why");
    assert_eq!(bidder.report().used, []);
}

#[test]
fn what_a_campaign_buys_may_change_and_end() {
    let mut bidder = with(vec![aim(100, &plan())], 10_000);
    let tell = |bidder: &mut Bidder, aim: Option<Aim>| {
        bidder.update(&Update { aims: vec![(1, aim.map(Arc::new))], ..Update::default() });
        bidder.auction(&request()).candidates
    };
    let elsewhere = OpenRtb { countries: ["DEU".into()].into(), ..plan() };
    assert_eq!(tell(&mut bidder, Some(aim(100, &elsewhere))), 0);
    let in_germany = Request { country: folded("DEU"), blocked: Blocked::default(), ..request() };
    assert_eq!(bidder.auction(&in_germany).candidates, 1);
    assert_eq!(tell(&mut bidder, Some(aim(50, &plan()))), 1);
    assert_eq!(tell(&mut bidder, Some(Aim { openrtb: None, ..aim(50, &plan()) })), 0);
    assert_eq!(tell(&mut bidder, Some(Aim { flights: [].into(), ..aim(50, &plan()) })), 0, "paused");
    assert_eq!(tell(&mut bidder, Some(aim(50, &plan()))), 1);
    assert_eq!(tell(&mut bidder, None), 0);
}

#[test]
fn so_many_campaigns_are_looked_at_and_no_more() {
    let candidates = |owners: usize, of_each: usize| {
        let owned = |owner| (0..of_each).map(move |_| Aim { owner: owner as u64, ..aim(100, &plan()) });
        let mut bidder = with((0..owners).flat_map(owned).collect(), 10_000);
        for campaign in 1..=(owners * of_each) as u32 {
            throttle(&mut bidder, campaign, 0.0, 1.0);
        }
        let auctioned = bidder.auction(&request());
        assert_eq!(told(&auctioned), []);
        auctioned.candidates as usize
    };
    assert_eq!(candidates(1, CANDIDATES_MAX), CANDIDATES_OF_OWNER_MAX);
    assert_eq!(candidates(3, CANDIDATES_OF_OWNER_MAX - 10), CANDIDATES_MAX);
}

/// However high their prices are.
#[test]
fn campaigns_of_one_owner_that_do_not_bid_keep_no_others_from_being_looked_at() {
    const OTHER: u32 = 2 * CANDIDATES_MAX as u32 + 1;
    let high = (1..OTHER).map(|_| Aim { owner: 1, ..aim(300, &plan()) });
    let mut bidder = with(high.chain([Aim { owner: 2, ..aim(100, &plan()) }]).collect(), 10_000);
    for campaign in 1..OTHER {
        throttle(&mut bidder, campaign, 0.0, 1.0);
    }
    let auctioned = bidder.auction(&request());
    let looked_at = CANDIDATES_OF_OWNER_MAX as u32 + 1;
    assert_eq!((told(&auctioned), auctioned.candidates), (vec![(0, OTHER, 100)], looked_at));
    // They are another one's now.
    let moved = |campaign| (campaign, Some(Arc::new(Aim { owner: 2, ..aim(300, &plan()) })));
    bidder.update(&Update { aims: (1..OTHER).map(moved).collect(), ..Update::default() });
    assert_eq!(told(&bidder.auction(&request())), []);
}

/// However many they are, and whoever has them.
#[test]
fn campaigns_of_several_owners_that_do_not_bid_keep_no_others_from_being_looked_at() {
    for owners in [2, 3, 20] {
        let of_each = 2 * CANDIDATES_MAX / owners;
        let other = (owners * of_each + 1) as u32;
        let high = (1..other).map(|campaign| Aim { owner: u64::from(campaign) % owners as u64, ..aim(300, &plan()) });
        let low = Aim { owner: 99, ..aim(100, &plan()) };
        let mut bidder = with(high.chain([low]).collect(), 10_000);
        for campaign in 1..other {
            throttle(&mut bidder, campaign, 0.0, 1.0);
        }
        let auctioned = bidder.auction(&request());
        let looked_at = CANDIDATES_MAX / (owners + 1) * owners + 1;
        assert_eq!(told(&auctioned), [(0, other, 100)], "{owners}");
        // Then those of higher prices have what is left.
        assert!((looked_at..=CANDIDATES_MAX).contains(&(auctioned.candidates as usize)), "{}", auctioned.candidates);
    }
}

#[test]
fn a_request_with_many_impressions_looks_at_no_more_campaigns_than_eight_of_them() {
    let aims = (0..2).flat_map(|owner| (0..CANDIDATES_MAX).map(move |_| Aim { owner, ..aim(100, &plan()) }));
    let mut bidder = with(aims.collect(), 10_000);
    for campaign in 1..=2 * CANDIDATES_MAX as u32 {
        throttle(&mut bidder, campaign, 0.0, 1.0);
    }
    let looked_at = |bidder: &mut Bidder, impressions: usize| {
        let mut request = request();
        request.impressions = vec![request.impressions[0].clone(); impressions];
        bidder.auction(&request).candidates as usize
    };
    let looked_at = [1, 8, 64].map(|impressions| looked_at(&mut bidder, impressions));
    assert_eq!(looked_at, [CANDIDATES_MAX, 8 * CANDIDATES_MAX, 8 * CANDIDATES_MAX]);
}

#[test]
fn campaigns_without_money_keep_no_others_from_being_looked_at_for_long() {
    const RICH: u32 = CANDIDATES_OF_OWNER_MAX as u32 + 1;
    let long = |price| Aim {
        flights: [Flight { starts_ms: NOW.0 - 10, ends_ms: NOW.0 + 100_000 }].into(),
        ..aim(price, &plan())
    };
    let aims = (1..RICH).map(|_| long(200)).chain([long(100)]);
    let mut bidder = with(aims.collect(), 150);
    let mut bids_at = |ms: u64| {
        bidder.set_time(TimeMs(NOW.0 + ms));
        let auctioned = bidder.auction(&request());
        (!told(&auctioned).is_empty(), auctioned.candidates)
    };
    let all = CANDIDATES_OF_OWNER_MAX as u32;
    assert_eq!([bids_at(0), bids_at(1_990)], [(false, all); 2], "they may get money soon");
    assert_eq!(bids_at(2_000), (false, all));
    assert_eq!(bids_at(2_001), (true, 1), "they stand in no list");
    assert_eq!(bids_at(2_500), (false, all), "they are looked at now and then");
    assert_eq!(bids_at(2_501), (false, 1), "the one that bid has no money for a second one");
    // Whoever gets some is looked at at once.
    let grant = |campaign| {
        let (lease, amount, until) = (LeaseId(9_000), BudgetMicros(1_000), TimeMs(NOW.0 + 1_000_000));
        Grant { campaign, lease, amount, opened: NOW, until }
    };
    bidder.update(&Update { leases: vec![LeaseChange::Grant(grant(7))], ..Update::default() });
    assert_eq!(told(&bidder.auction(&request())), [(0, 7, 200)]);
    // Another plan, the end, and a clock that is set back.
    bidder.update(&Update { aims: vec![(8, Some(Arc::new(long(300)))), (9, None)], ..Update::default() });
    assert_eq!(bidder.auction(&request()).candidates, 2, "8 and 7");
    bidder.set_time(NOW);
    assert_eq!(bidder.auction(&request()).candidates, 8, "8, those of the same price from 1 on, and 7, which bids");
}

/// What was found for one request is of no other one.
#[test]
fn each_request_blocks_for_itself() {
    let mut bidder = with(vec![aim(100, &plan())], 10_000);
    let domains = vec![crate::openrtb::site("shoes.example")];
    let blocking = Request { blocked: Blocked { domains, taxonomy: 1, ..Blocked::default() }, ..request() };
    let two = |request: Request| Request { impressions: vec![impression(1), impression(2)], ..request };
    for _ in 0..2 {
        assert_eq!(told(&bidder.auction(&two(blocking.clone()))), []);
        assert_eq!(told(&bidder.auction(&two(request()))), [(0, 1, 100), (1, 1, 100)]);
    }
}

//! What a bidder answers, as cases, and that a lease pays for all of its bids.

use proptest::prelude::*;

use super::*;
use crate::plan::{Flight, FrequencyCap};

const NOW: TimeMs = TimeMs(1_795_000_000_000);

/// For how long a lease is bid with.
const LIFE_MS: u64 = 10_000;

fn bidder() -> Bidder {
    let mut bidder = Bidder::new(TokenKey::derive(b"key"), Arc::new(FrequencyTable::new(1_024)));
    bidder.set_time(NOW);
    bidder
}

fn aim() -> Aim {
    let flights = [Flight { starts_ms: NOW.0 - 10, ends_ms: NOW.0 + 10 }].into();
    Aim { flights, price_max: PriceMicros(100), keys: [].into(), frequency: None, owner: 0, version: 1, openrtb: None }
}

fn full() -> Throttled {
    Throttled { campaign: 7, share: 1.0, shade: 1.0 }
}

fn grant(lease: u64, amount: u64) -> Grant {
    let until = TimeMs(NOW.0 + LIFE_MS);
    Grant { campaign: 7, lease: LeaseId(lease), amount: BudgetMicros(amount), opened: NOW, until }
}

fn with(aim: Aim, amount: u64) -> Bidder {
    let mut bidder = bidder();
    let (aims, leases) = (vec![(7, Some(Arc::new(aim)))], vec![LeaseChange::Grant(grant(1, amount))]);
    bidder.update(&Update { aims, throttles: vec![full()], leases });
    bidder
}

fn request(id: u64) -> BidRequest {
    BidRequest { id, campaign: 7, user: 5, key: 9, price: PriceMicros(0) }
}

fn price_of(answer: Result<Offer, NoBid>) -> Result<u32, NoBid> {
    answer.map(|offer| offer.price.0)
}

#[test]
fn a_request_is_answered_by_the_first_reason_that_holds() {
    let answer = |aim: Aim, request: BidRequest| price_of(with(aim, 1_000).bid(&request));
    assert_eq!(answer(aim(), request(1)), Ok(100));
    assert_eq!(answer(aim(), BidRequest { campaign: 8, ..request(1) }), Err(NoBid::CampaignUnknown));
    assert_eq!(answer(aim(), BidRequest { campaign: 4_000_000_000, ..request(1) }), Err(NoBid::CampaignUnknown));
    assert_eq!(answer(Aim { flights: [].into(), ..aim() }, request(1)), Err(NoBid::NotInFlight));
    let later = [Flight { starts_ms: NOW.0 + 1, ends_ms: NOW.0 + 9 }].into();
    assert_eq!(answer(Aim { flights: later, ..aim() }, request(1)), Err(NoBid::NotInFlight));
    assert_eq!(answer(Aim { keys: [1, 2].into(), ..aim() }, request(1)), Err(NoBid::NotTargeted));
    assert_eq!(answer(Aim { keys: [1, 9].into(), ..aim() }, request(1)), Ok(100));
    assert_eq!(answer(aim(), BidRequest { price: PriceMicros(101), ..request(1) }), Err(NoBid::PriceAboveCap));
    assert_eq!(answer(aim(), BidRequest { price: PriceMicros(60), ..request(1) }), Ok(60));
}

#[test]
fn a_campaign_bids_only_while_a_flight_is_under_way() {
    let flights = [(0, 10), (20, 30)].map(|(from, to)| Flight { starts_ms: NOW.0 + from, ends_ms: NOW.0 + to });
    let mut bidder = with(Aim { flights: flights.into(), ..aim() }, 10_000);
    let mut at = |ms: u64| {
        bidder.set_time(TimeMs(NOW.0 + ms));
        bidder.bid(&request(ms)).is_ok()
    };
    assert_eq!([0, 9, 10, 19, 20, 29, 30].map(&mut at), [true, true, false, false, true, true, false]);
    assert!(at(5), "a clock that goes back");
}

#[test]
fn a_user_is_bid_for_as_often_as_may_be() {
    let frequency = Some(FrequencyCap { bids_max: 2, window_s: 60 });
    let mut bidder = with(Aim { frequency, ..aim() }, 10_000);
    let made: Vec<bool> = (0..4).map(|id| bidder.bid(&request(id)).is_ok()).collect();
    assert_eq!(made, [true, true, false, false]);
    assert_eq!(price_of(bidder.bid(&request(5))), Err(NoBid::FrequencyCapped));
    assert!(bidder.bid(&BidRequest { user: 6, ..request(6) }).is_ok(), "another user");
    assert!((0..9).all(|id| bidder.bid(&BidRequest { user: 0, ..request(id) }).is_ok()), "one that nobody knows");
}

#[test]
fn a_share_of_requests_is_bid_on_and_the_same_ones_each_time() {
    let bid_on = |share: f64| -> Vec<u64> {
        let mut bidder = with(aim(), u64::MAX);
        bidder.update(&Update { throttles: vec![Throttled { share, ..full() }], ..Update::default() });
        (0..10_000).filter(|id| bidder.bid(&request(*id)).is_ok()).collect()
    };
    assert_eq!((bid_on(0.0).len(), bid_on(1.0).len()), (0, 10_000));
    let (tenth, half) = (bid_on(0.1), bid_on(0.5));
    assert!((900..1_100).contains(&tenth.len()), "{}", tenth.len());
    assert_eq!(bid_on(0.1), tenth);
    assert!(tenth.iter().all(|id| half.contains(id)), "a higher share bids on all that a lower one does");
}

#[test]
fn a_price_is_shaded() {
    let mut bidder = with(aim(), 1_000);
    bidder.update(&Update { throttles: vec![Throttled { shade: 0.5, ..full() }], ..Update::default() });
    assert_eq!(price_of(bidder.bid(&request(1))), Ok(50));
    bidder.update(&Update { throttles: vec![Throttled { shade: 0.0, ..full() }], ..Update::default() });
    assert_eq!(price_of(bidder.bid(&request(2))), Err(NoBid::NoLease), "nothing is bid for nothing");
}

#[test]
fn what_was_used_is_reported_once() {
    let mut bidder = with(aim(), 250);
    let made: Vec<bool> = (0..4).map(|id| bidder.bid(&request(id)).is_ok()).collect();
    assert_eq!(made, [true, true, false, false]);
    let mut no_bids = [0; NoBid::ALL.len()];
    no_bids[NoBid::NoLease as usize] = 2;
    let used = Used { campaign: 7, bids: 2, reserved: BudgetMicros(200), no_bids, left: BudgetMicros(50) };
    assert_eq!(bidder.report(), Report { used: vec![used], now: NOW, ..Report::default() });
    assert_eq!(bidder.report(), Report { now: NOW, ..Report::default() });
    bidder.update(&Update { leases: vec![LeaseChange::Revoke(7)], ..Update::default() });
    assert_eq!(bidder.report().retired, [Retired { lease: LeaseId(1), bids: 2, left: BudgetMicros(50), at: NOW }]);
    assert_eq!(price_of(bidder.bid(&request(10))), Err(NoBid::NoLease));
}

/// Of updates that did not arrive one by one.
#[test]
fn leases_come_and_go_in_the_order_in_which_it_is_told() {
    let mut bidder = with(aim(), 100);
    let (second, third) = (LeaseChange::Grant(grant(2, 100)), LeaseChange::Grant(grant(3, 100)));
    bidder.update(&Update { leases: vec![second, LeaseChange::Revoke(7), third], ..Update::default() });
    let gone: Vec<LeaseId> = bidder.report().retired.iter().map(|retired| retired.lease).collect();
    assert_eq!(gone, [LeaseId(2), LeaseId(1)]);
    let offer = bidder.bid(&request(1)).expect("the third is bid with");
    assert_eq!(TokenKey::derive(b"key").open(&offer.token).expect("it was signed").lease, LeaseId(3));
}

/// Tells a bidder of another lease, and makes so many bids. Returns the leases that were given back since the last
/// report: each with its bids, and what is left of it.
fn granted(bidder: &mut Bidder, new: Grant, bids: u64) -> Vec<(u64, u32, u64)> {
    bidder.update(&Update { leases: vec![LeaseChange::Grant(new)], ..Update::default() });
    assert_eq!((0..bids).filter(|id| bidder.bid(&request(*id)).is_ok()).count() as u64, bids);
    retired(bidder)
}

fn retired(bidder: &mut Bidder) -> Vec<(u64, u32, u64)> {
    bidder.report().retired.iter().map(|retired| (retired.lease.0, retired.bids, retired.left.0)).collect()
}

#[test]
fn a_lease_is_bid_with_until_less_than_a_bid_is_left_of_it() {
    let mut bidder = with(aim(), 350);
    assert_eq!(granted(&mut bidder, grant(2, 220), 3), [], "50 are left, and nobody has asked since");
    assert_eq!(bidder.report().used, []);
    assert!(bidder.bid(&request(4)).is_ok());
    let report = bidder.report();
    assert_eq!(report.retired, [Retired { lease: LeaseId(1), bids: 3, left: BudgetMicros(50), at: NOW }]);
    assert_eq!(report.used[0].left, BudgetMicros(120), "of the second one");
    assert_eq!(granted(&mut bidder, grant(3, 100), 2), [(2, 2, 20)]);
    assert_eq!(price_of(bidder.bid(&request(7))), Err(NoBid::NoLease));
}

#[test]
fn of_three_leases_the_oldest_is_given_back_and_all_of_a_campaign_that_is_stopped() {
    let mut bidder = with(aim(), 350);
    assert_eq!(granted(&mut bidder, grant(2, 200), 1), []);
    assert_eq!(granted(&mut bidder, grant(3, 200), 1), [(1, 1, 250)]);
    bidder.update(&Update { leases: vec![LeaseChange::Revoke(7)], ..Update::default() });
    assert_eq!(retired(&mut bidder), [(3, 0, 200), (2, 1, 100)]);
    assert_eq!(price_of(bidder.bid(&request(9))), Err(NoBid::NoLease));
}

#[test]
fn nothing_is_bid_on_a_lease_behind_its_time() {
    let flights = [Flight { starts_ms: NOW.0, ends_ms: NOW.0 + 100_000 }];
    let long = || Aim { flights: flights.into(), ..aim() };
    let mut bidder = with(long(), 350);
    let later = Grant { opened: TimeMs(NOW.0 + 5), until: TimeMs(NOW.0 + LIFE_MS + 5), ..grant(2, 200) };
    assert_eq!(granted(&mut bidder, later, 1), []);
    bidder.set_time(TimeMs(NOW.0 + LIFE_MS - 1));
    assert!(bidder.bid(&request(2)).is_ok());
    assert_eq!(retired(&mut bidder), []);
    bidder.set_time(TimeMs(NOW.0 + LIFE_MS));
    let bid = bidder.bid(&request(3)).expect("there is another one");
    let bid = TokenKey::derive(b"key").open(&bid.token).expect("it was signed");
    assert_eq!((bid.lease, bid.number, bid.opened), (LeaseId(2), 0, Opening::of(later.opened)));
    assert_eq!(retired(&mut bidder), [(1, 2, 150)]);
    bidder.set_time(TimeMs(NOW.0 + LIFE_MS + 5));
    assert_eq!(price_of(bidder.bid(&request(4))), Err(NoBid::NoLease));
    assert_eq!(retired(&mut bidder), [(2, 1, 100)]);
    let mut both = with(long(), 350);
    assert_eq!(granted(&mut both, grant(2, 200), 1), []);
    both.set_time(TimeMs(NOW.0 + LIFE_MS));
    assert_eq!(price_of(both.bid(&request(2))), Err(NoBid::NoLease));
    assert_eq!(retired(&mut both), [(1, 1, 250), (2, 0, 200)]);
}

#[test]
fn a_campaign_that_has_ended_gives_back_its_lease() {
    let mut bidder = with(aim(), 250);
    bidder.update(&Update { aims: vec![(7, None)], ..Update::default() });
    assert_eq!(bidder.report().retired, [Retired { lease: LeaseId(1), bids: 0, left: BudgetMicros(250), at: NOW }]);
    assert_eq!(price_of(bidder.bid(&request(1))), Err(NoBid::CampaignUnknown));
    bidder.update(&Update { leases: vec![LeaseChange::Grant(grant(2, 100))], ..Update::default() });
    let late = Retired { lease: LeaseId(2), bids: 0, left: BudgetMicros(100), at: NOW };
    assert_eq!(bidder.report().retired, [late], "it came too late");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

    /// Whatever is asked and told in whatever order, the bids of each lease cost no more than it has, and each bid of a
    /// lease has a number of its own.
    #[test]
    fn no_lease_pays_for_more_than_it_has(
        steps in prop::collection::vec((0..5u8, 0..200u32, 0..500u64), 1..200),
    ) {
        let mut bidder = with(aim(), 300);
        let mut amounts = std::collections::HashMap::from([(1u64, 300u64)]);
        let mut bids = std::collections::HashSet::new();
        let mut costs: std::collections::HashMap<u64, u64> = Default::default();
        let key = TokenKey::derive(b"key");
        let (mut now, mut over) = (NOW, std::collections::HashSet::new());
        for (step, (what, price, amount)) in steps.into_iter().enumerate() {
            match what {
                0 => {
                    let lease = 2 + step as u64;
                    amounts.insert(lease, amount);
                    let leases = vec![LeaseChange::Grant(grant(lease, amount))];
                    bidder.update(&Update { leases, ..Update::default() });
                }
                1 => bidder.update(&Update { leases: vec![LeaseChange::Revoke(7)], ..Update::default() }),
                2 => {
                    for retired in bidder.report().retired {
                        prop_assert!(over.insert(retired.lease), "a lease is given back once");
                        let cost = costs.get(&retired.lease.0).copied().unwrap_or(0);
                        prop_assert_eq!(cost + retired.left.0, amounts[&retired.lease.0], "what is not bid is left");
                    }
                }
                3 => {
                    now.0 += amount;
                    bidder.set_time(now);
                }
                _ => {
                    let request = BidRequest { price: PriceMicros(price), ..request(step as u64) };
                    let Ok(offer) = bidder.bid(&request) else { continue };
                    let bid = key.open(&offer.token).expect("it was signed");
                    prop_assert_eq!((bid.price, bid.at, bid.opened), (offer.price, now, Opening::of(NOW)));
                    prop_assert!(now.0 < NOW.0 + LIFE_MS && !over.contains(&bid.lease));
                    prop_assert!(bids.insert((bid.lease, bid.number)));
                    let cost = costs.entry(bid.lease.0).or_default();
                    *cost += u64::from(offer.price.0);
                    prop_assert!(*cost <= amounts[&bid.lease.0]);
                }
            }
        }
    }
}

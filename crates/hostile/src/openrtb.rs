//! The body of a bid request of OpenRTB. What is read of it is bounded, and an auction over it ends with bids that are
//! JSON, whatever it says.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tidegate_doors::openrtb::request::read;
use tidegate_doors::openrtb::response::{ResponseWriter, no_bid};
use tidegate_doors::openrtb::settings::{ChargeOn, OpenRtbSettings};
use tidegate_machines::TimeMs;
use tidegate_pacer::bidder::{Aim, Bidder, Grant, LeaseChange, Throttled, Update};
use tidegate_pacer::frequency::FrequencyTable;
use tidegate_pacer::limits::IMPRESSIONS_MAX;
use tidegate_pacer::machine::LeaseId;
use tidegate_pacer::openrtb::Offering;
use tidegate_pacer::plan::{Creative, Flight, FrequencyCap, Media, OpenRtb};
use tidegate_pacer::token::TokenKey;
use tidegate_pacer::units::{BudgetMicros, PriceMicros};

const NOW: TimeMs = TimeMs(1_795_000_000_000);
const PRICE: u32 = 2_500;
const MONEY: u64 = 10 * PRICE as u64;

/// Reads the bytes as a bid request, and bids on it.
pub fn check(bytes: &[u8]) {
    let Ok(decoded) = read(bytes) else { return };
    assert!(decoded.impression_ids.len() <= IMPRESSIONS_MAX);
    assert_eq!(decoded.impression_ids.len(), decoded.request.impressions.len());
    let whole: Value = serde_json::from_slice(bytes).expect("what was read is JSON");
    assert_eq!(whole["id"], *decoded.id);
    let mut bidder = bidder();
    let auctioned = bidder.auction(&decoded.request);
    assert!(auctioned.bids.len() <= IMPRESSIONS_MAX);
    assert!(auctioned.bids.is_sorted_by(|one, next| one.impression < next.impression), "one for each at most");
    for bid in &auctioned.bids {
        let floor = bid.fit.floor;
        assert!(floor.micros == 0 || u64::from(bid.price.0) >= floor.micros, "{bid:?}");
    }
    let said = match auctioned.bids.is_empty() {
        true => no_bid(&decoded, &auctioned),
        false => {
            let settings = OpenRtbSettings { notice_base: "https://b.example".into(), charge_on: ChargeOn::Billing };
            let tokens = &TokenKey::derive(b"key");
            ResponseWriter { settings: &settings, tokens, expires_s: 10 }.bids(&decoded, &auctioned)
        }
    };
    let said: Value = serde_json::from_slice(&said).expect("a response is JSON");
    assert_eq!(said["id"], whole["id"]);
    let bids = said["seatbid"].as_array().into_iter().flatten().flat_map(|seat| seat["bid"].as_array().expect("bids"));
    assert_eq!(bids.clone().count(), auctioned.bids.len());
    assert!(bids.into_iter().all(|bid| decoded.impression_ids.iter().any(|id| bid["impid"] == **id)));
    let reserved: u64 = bidder.report().used.iter().map(|used| used.reserved.0).sum();
    assert!(reserved <= 2 * MONEY && (reserved == 0 || !decoded.request.is_test));
}

/// With campaigns for what the seeds auction.
fn bidder() -> Bidder {
    let sized = |width, height| creative(Media::Banner, Some((width, height)));
    let open = vec![
        sized(300, 250),
        sized(728, 90),
        creative(Media::Video, None),
        creative(Media::Audio, None),
        creative(Media::Native, None),
    ];
    let plan = |creatives: Vec<Creative>, deals: &[&str]| OpenRtb {
        currency: "USD".into(),
        seat: Some("agency-a".into()),
        countries: Vec::new(),
        device_types: Vec::new(),
        sites: Vec::new(),
        apps: Vec::new(),
        tags: Vec::new(),
        deals: deals.iter().map(|deal| (*deal).into()).collect(),
        creatives,
    };
    let plans = [plan(open, &[]), plan(vec![sized(300, 250)], &["SHOES-Q4-01"])];
    let users = Arc::new(FrequencyTable::new(1_024));
    let mut bidder = Bidder::new(TokenKey::derive(b"key"), users).with_auctions();
    bidder.set_time(NOW);
    let numbers = 0..plans.len() as u32;
    let aim = |plan: &OpenRtb| Aim {
        flights: [Flight { starts_ms: 0, ends_ms: u64::MAX }].into(),
        price_max: PriceMicros(PRICE),
        keys: [].into(),
        frequency: Some(FrequencyCap { bids_max: 3, window_s: 60 }),
        owner: 0,
        version: 1,
        openrtb: Some(Arc::new(Offering::of("campaign", plan))),
    };
    bidder.update(&Update {
        aims: numbers.clone().zip(&plans).map(|(number, plan)| (number, Some(Arc::new(aim(plan))))).collect(),
        throttles: numbers.clone().map(|campaign| Throttled { campaign, share: 1.0, shade: 1.0 }).collect(),
        leases: numbers
            .map(|campaign| Grant {
                campaign,
                lease: LeaseId(u64::from(campaign) + 1),
                amount: BudgetMicros(MONEY),
                opened: NOW,
                until: TimeMs(u64::MAX),
            })
            .map(LeaseChange::Grant)
            .collect(),
    });
    bidder
}

fn creative(media: Media, size: Option<(u16, u16)>) -> Creative {
    Creative {
        id: "c".into(),
        media,
        width: size.map(|(width, _)| width),
        height: size.map(|(_, height)| height),
        markup: "<a href=\"https://shoes.example\">".into(),
        domains: ["shoes.example".into()].into(),
        categories: ["IAB18-3".into()].into(),
        category_taxonomy: 1,
        attributes: vec![3],
        bundle: None,
        mime: None,
        protocol: None,
        duration_s: Some(15),
        secure: true,
    }
}

/// Bodies to begin with, by name: all samples of the door.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doors/src/openrtb/samples");
    let files = std::fs::read_dir(folder).expect("the samples are there").map(|file| file.expect("a file").path());
    let bodies = files.filter(|path| path.extension().is_some_and(|extension| extension == "json")).map(|path| {
        let name = path.file_stem().expect("a name").to_str().expect("letters of ASCII").to_owned();
        (name, std::fs::read(path).expect("a sample can be read"))
    });
    let mut samples: Vec<(String, Vec<u8>)> = bodies.collect();
    samples.sort();
    samples
}

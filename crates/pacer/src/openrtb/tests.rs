//! What a campaign buys, as cases; and that the index gives every campaign that fits, by price.

use proptest::prelude::*;

use super::*;
use crate::plan::{Creative, Media, OpenRtb};
use crate::units::PriceMicros;

pub(crate) fn creative() -> Creative {
    Creative {
        id: "c1".into(),
        media: Media::Banner,
        width: Some(300),
        height: Some(250),
        markup: "<a href=\"https://shoes.example\">".into(),
        domains: ["shop.shoes.example".into()].into(),
        categories: ["IAB18-3".into()].into(),
        category_taxonomy: 1,
        attributes: vec![3],
        bundle: None,
        mime: None,
        protocol: None,
        duration_s: None,
        secure: true,
    }
}

pub(crate) fn plan() -> OpenRtb {
    OpenRtb {
        currency: "USD".into(),
        seat: None,
        countries: Vec::new(),
        device_types: Vec::new(),
        sites: Vec::new(),
        apps: Vec::new(),
        tags: Vec::new(),
        deals: Vec::new(),
        creatives: vec![creative()],
    }
}

pub(crate) fn impression(id: u64) -> Impression {
    Impression { id, banner: Some(Banner { sizes: vec![(728, 90), (300, 250)], blocked: 0 }), ..Impression::default() }
}

pub(crate) fn request() -> Request {
    let blocked = Blocked { taxonomy: 1, ..Blocked::default() };
    Request {
        id: 1,
        currencies: vec![CurrencyCode::USD],
        blocked,
        impressions: vec![impression(1)],
        ..Request::default()
    }
}

fn names(names: &[&str]) -> Vec<Box<str>> {
    names.iter().map(|name| (*name).into()).collect()
}

fn fits(plan: &OpenRtb, request: &Request) -> Option<Fit> {
    assert_eq!(plan.check(), Ok(()));
    fit_of(&Offering::of("shoes", plan), request, &request.impressions[0])
}

fn fit_of(offering: &Offering, request: &Request, impression: &Impression) -> Option<Fit> {
    offering.fits(request, impression, CurrencyCode::USD, || offering.wanted(&request.blocked))
}

/// The request, with another first impression.
fn with(change: impl FnOnce(&mut Impression)) -> Request {
    let mut request = request();
    change(&mut request.impressions[0]);
    request
}

#[test]
fn what_a_campaign_asks_for_must_be_so() {
    let at = |domain: &str| Request { sites: domains(domain), ..request() };
    let site = OpenRtb { sites: names(&["News.example"]), apps: names(&["com.news"]), ..plan() };
    assert!(fits(&plan(), &request()).is_some());
    assert!(fits(&site, &at("www.news.example")).is_some());
    assert!(fits(&site, &at("sport.news.example")).is_some());
    assert!(fits(&site, &at("oldnews.example")).is_none());
    assert!(fits(&site, &request()).is_none());
    assert!(fits(&site, &Request { app: folded("com.news"), ..request() }).is_some(), "or the app");
    let country = OpenRtb { countries: names(&["DEU"]), ..plan() };
    assert!(fits(&country, &Request { country: folded("DEU"), ..request() }).is_some());
    assert!(fits(&country, &Request { country: folded("FRA"), ..request() }).is_none());
    assert!(fits(&country, &request()).is_none(), "unknown is none of them");
    let phone = OpenRtb { device_types: vec![4], ..plan() };
    assert!(fits(&phone, &Request { device_type: 4, ..request() }).is_some());
    assert!(fits(&phone, &request()).is_none());
    let tag = OpenRtb { tags: names(&["top"]), ..plan() };
    assert!(fits(&tag, &with(|impression| impression.tag = exact("top"))).is_some());
    assert!(fits(&tag, &with(|impression| impression.tag = exact("Top"))).is_none(), "an id is exact");
    let euro = OpenRtb { currency: "EUR".into(), ..plan() };
    assert!(fits(&euro, &request()).is_none());
}

#[test]
fn what_a_request_blocks_is_not_bid() {
    let blocking = |blocked: Blocked| Request { blocked: Blocked { taxonomy: 1, ..blocked }, ..request() };
    for (category, is_bid) in [("IAB18-3", false), ("iab18", false), ("IAB18-30", true), ("IAB1", true)] {
        let blocked = Blocked { categories: vec![folded(category)], ..Blocked::default() };
        assert_eq!(fits(&plan(), &blocking(blocked)).is_some(), is_bid, "{category}");
    }
    let other = Blocked { categories: vec![folded("483")], taxonomy: 6, ..Blocked::default() };
    assert!(fits(&plan(), &Request { blocked: other, ..request() }).is_none(), "a taxonomy that says nothing of it");
    let blocking_domains = ["shoes.example", "shop.shoes.example", "Shoes.Example.", "www.shoes.example", "example"];
    let others = ["hats.example", "oes.example", "x.shop.shoes.example", "com", ".", ""];
    let cases = blocking_domains.map(|domain| (domain, false)).into_iter().chain(others.map(|domain| (domain, true)));
    for (domain, is_bid) in cases {
        let blocked = Blocked { domains: vec![site(domain)], ..Blocked::default() };
        assert_eq!(fits(&plan(), &blocking(blocked)).is_some(), is_bid, "{domain}");
    }
    let no_attribute = with(|impression| impression.banner.as_mut().expect("a banner").blocked = 1 << 3);
    assert!(fits(&plan(), &no_attribute).is_none());
    let app = OpenRtb { creatives: vec![Creative { bundle: Some("com.shoes".into()), ..creative() }], ..plan() };
    let blocked = Blocked { apps: vec![folded("com.shoes")], ..Blocked::default() };
    assert!(fits(&app, &blocking(blocked)).is_none());
    let open = OpenRtb { creatives: vec![Creative { secure: false, ..creative() }], ..plan() };
    assert!(fits(&open, &with(|impression| impression.is_secure = true)).is_none());
    assert!(fits(&open, &request()).is_some());
}

#[test]
fn a_creative_is_shown_where_there_is_room_for_it() {
    let small = with(|impression| impression.banner.as_mut().expect("a banner").sizes = vec![(250, 300)]);
    assert!(fits(&plan(), &small).is_none());
    let film = Creative {
        media: Media::Video,
        mime: Some("video/mp4".into()),
        protocol: Some(3),
        duration_s: Some(15),
        ..creative()
    };
    let plan = OpenRtb { creatives: vec![creative(), film], ..plan() };
    let room = |stream: Stream| {
        let request = with(|impression| (impression.banner, impression.video) = (None, Some(stream)));
        fits(&plan, &request).is_some()
    };
    assert!(room(Stream::default()));
    assert!(room(Stream { mimes: vec![folded("video/mp4")], protocols: 1 << 3, ..Stream::default() }));
    assert!(!room(Stream { mimes: vec![folded("video/webm")], ..Stream::default() }));
    assert!(!room(Stream { protocols: 1 << 2, ..Stream::default() }));
    assert!(room(Stream { seconds_min: 15, seconds_max: 15, ..Stream::default() }));
    assert!(!room(Stream { seconds_min: 16, ..Stream::default() }));
    assert!(!room(Stream { seconds_max: 14, ..Stream::default() }));
}

#[test]
fn deals_and_seats_decide_who_may_bid() {
    let deal = Deal { id: exact("d"), floor: Floor { micros: 7, currency: CurrencyCode::USD }, ..Deal::default() };
    let offer = |deal: &Deal| with(|impression| impression.deals = vec![deal.clone()]);
    let buyer = OpenRtb { deals: names(&["e", "d"]), seat: Some("s1".into()), ..plan() };
    let fit = fits(&buyer, &offer(&deal)).expect("it has the deal");
    assert_eq!((fit.floor.micros, Offering::of("shoes", &buyer).deal(&fit)), (7, Some("d")));
    assert!(fits(&buyer, &request()).is_none(), "it bids in no open auction");
    assert!(fits(&plan(), &with(|impression| impression.is_private = true)).is_none());
    let seats = |seat: &str| Deal { seats: vec![exact(seat)], ..deal.clone() };
    assert!(fits(&buyer, &offer(&seats("s1"))).is_some());
    assert!(fits(&buyer, &offer(&seats("s2"))).is_none());
    let of = |domain: &str| Deal { domains: vec![site(domain)], ..deal.clone() };
    assert!(fits(&buyer, &offer(&of("shoes.example"))).is_some());
    assert!(fits(&buyer, &offer(&of("hats.example"))).is_none());
    let open = OpenRtb { seat: Some("s1".into()), ..plan() };
    let only = |seat: &str| Request { seats: Seats { allowed: vec![exact(seat)], blocked: vec![] }, ..request() };
    let not = |seat: &str| Request { seats: Seats { allowed: vec![], blocked: vec![exact(seat)] }, ..request() };
    assert!(fits(&open, &only("s1")).is_some() && fits(&open, &not("s2")).is_some());
    assert!(fits(&open, &only("s2")).is_none() && fits(&open, &not("s1")).is_none());
    assert!(fits(&plan(), &only("s1")).is_none(), "a buyer without a name is not among those named");
}

#[test]
fn a_floor_is_met_to_the_micro() {
    let usd = CurrencyCode::USD;
    let cases = [(0.0, 0), (2.5, 2_500), (2.51, 2_510), (0.0301, 31), (-3.0, 0), (f64::NAN, 0)];
    let parts = [(2.001_000_1, 2_002), (2.001, 2_001), (1e-9, 1), (f64::MIN_POSITIVE, 1), (0.1 + 0.2, 301)];
    for (cpm, micros) in cases.into_iter().chain(parts) {
        assert_eq!(Floor::of_cpm(cpm, usd).micros, micros, "{cpm}");
    }
    assert!(Floor::of_cpm(f64::MAX, usd).micros > u64::from(u32::MAX));
    let euro = CurrencyCode(*b"EUR");
    let floor = Floor { micros: 5, currency: usd };
    assert!(floor.allows(5, usd) && !floor.allows(4, usd) && !floor.allows(9, euro));
    assert!(Floor { micros: 0, currency: usd }.allows(1, euro), "no floor is one in every currency");
}

#[test]
fn a_bid_says_what_its_creative_is() {
    let offering = Offering::of("shoes", &plan());
    let request = request();
    let fit = fit_of(&offering, &request, &request.impressions[0]).expect("it fits");
    let written = concat!(
        r#","adm":"<a href=\"https://shoes.example\">","adomain":["shop.shoes.example"],"cid":"shoes","crid":"c1""#,
        r#","cat":["IAB18-3"],"cattax":1,"attr":[3],"w":300,"h":250,"mtype":1"#,
    );
    assert_eq!(String::from_utf8_lossy(offering.written(&fit)), written);
}

#[test]
fn a_plan_says_what_is_wrong_with_it() {
    let field = |plan: OpenRtb| plan.check().expect_err("it is wrong").field;
    let of = |creative: Creative| OpenRtb { creatives: vec![creative], ..plan() };
    assert_eq!(field(OpenRtb { currency: "usd".into(), ..plan() }), "openrtb.currency");
    assert_eq!(field(OpenRtb { countries: names(&["DE"]), ..plan() }), "openrtb.countries");
    assert_eq!(field(OpenRtb { sites: names(&[""]), ..plan() }), "openrtb.sites");
    assert_eq!(field(OpenRtb { deals: vec!["d".into(); 65], ..plan() }), "openrtb.deals");
    assert_eq!(field(OpenRtb { creatives: vec![], ..plan() }), "openrtb.creatives");
    assert_eq!(field(of(Creative { markup: "".into(), ..creative() })), "openrtb.creatives.markup");
    assert_eq!(field(of(Creative { width: None, ..creative() })), "openrtb.creatives.width");
    assert_eq!(field(of(Creative { domains: vec![], ..creative() })), "openrtb.creatives.domains");
    assert_eq!(field(of(Creative { attributes: vec![64], ..creative() })), "openrtb.creatives.attributes");
    let deep = |name: &str| format!("{}{name}", "x.".repeat(126)).into();
    let many = |count: usize| (0..count).map(|which| deep(&which.to_string())).collect();
    let of_many = |count: usize| of(Creative { domains: many(count), ..creative() });
    assert_eq!((of_many(8).check(), field(of_many(9))), (Ok(()), "openrtb.creatives.domains"));
    let same = OpenRtb { creatives: vec![Creative { domains: many(8), ..creative() }; 16], ..plan() };
    assert_eq!(same.check(), Ok(()), "each domain counts once");
    let dashes: Box<str> = "-".repeat(200).into();
    let categories = (0..6).map(|which| format!("{which}{dashes}").into()).collect();
    assert_eq!(field(of(Creative { categories, ..creative() })), "openrtb.creatives.categories");
    let large = Creative { markup: "x".repeat(32 << 10).into(), ..creative() };
    assert_eq!(field(OpenRtb { creatives: vec![large; 3], ..plan() }), "openrtb.creatives");
}

fn pick(all: &'static [&'static str]) -> impl Strategy<Value = Vec<Box<str>>> {
    prop::sample::subsequence(all.to_vec(), 0..=all.len().min(2)).prop_map(|some| names(&some))
}

fn any_plan() -> impl Strategy<Value = OpenRtb> {
    let sizes = prop::sample::subsequence(vec![(300, 250), (728, 90), (320, 50)], 1..=3);
    (
        pick(&["a.example", "b.example"]),
        pick(&["com.a"]),
        pick(&["t1", "t2"]),
        pick(&["d1", "d2"]),
        pick(&["DEU", "FRA"]),
        sizes,
    )
        .prop_map(|(sites, apps, tags, deals, countries, sizes)| {
            let sized = |(w, h): (u16, u16)| Creative { width: Some(w), height: Some(h), ..creative() };
            let creatives = sizes.into_iter().map(sized).collect();
            OpenRtb { sites, apps, tags, deals, countries, creatives, ..plan() }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]

    /// Whichever list is the longer one, the creatives that a request blocks are those of which it has a domain or one
    /// above it.
    #[test]
    fn a_creative_is_blocked_if_the_list_has_its_domain(
        of_creatives in prop::collection::vec(prop::collection::vec(0..400u32, 1..20), 1..8),
        listed in prop::collection::vec(0..400u32, 0..200),
    ) {
        let name = |number: &u32| Box::from(format!("{}.site{}.example", number % 3, number / 3));
        let creatives: Vec<Creative> = of_creatives
            .iter()
            .map(|numbers| Creative { domains: numbers.iter().map(name).collect(), ..creative() })
            .collect();
        let offering = Offering::of("c", &OpenRtb { creatives: creatives.clone(), ..plan() });
        let blocked: Vec<u64> = listed.iter().map(|number| match number % 2 {
            0 => site(&name(number)),
            _ => site(&format!("site{number}.example")),
        }).collect();
        let is_wanted = |creative: &Creative| {
            !creative.domains.iter().flat_map(|name| domains(name)).any(|hash| blocked.contains(&hash))
        };
        let expected: CreativeSet =
            (0..creatives.len()).filter(|place| is_wanted(&creatives[*place])).collect();
        let blocked = Blocked { domains: sorted(blocked.clone()), taxonomy: 1, ..Blocked::default() };
        prop_assert_eq!(offering.wanted(&blocked), expected);
    }

    /// A price meets a floor that is the same decimal, and none that is larger by the least that can be said.
    #[test]
    fn a_floor_is_the_least_price_that_is_not_below(micros in any::<u32>()) {
        let said = format!("{}.{:03}", micros / 1_000, micros % 1_000).parse::<f64>().expect("a decimal");
        let usd = CurrencyCode::USD;
        prop_assert_eq!(Floor::of_cpm(said, usd).micros, u64::from(micros));
        prop_assert_eq!(Floor::of_cpm(said.next_up(), usd).micros, u64::from(micros) + 1);
    }

    /// Whatever campaigns there are and were, the candidates of an impression have every one that fits it, in the order
    /// of their prices, each once.
    #[test]
    fn an_index_misses_no_campaign(
        plans in prop::collection::vec((any_plan(), 1..9u32), 1..12),
        gone in prop::collection::vec(any::<bool>(), 12),
        (site_of, app, tag, deal, country) in (0..3usize, 0..2usize, 0..3usize, 0..3usize, 0..3usize),
        is_private in any::<bool>(),
    ) {
        let offerings: Vec<(Offering, u32)> =
            plans.iter().map(|(plan, price)| (Offering::of("c", plan), *price)).collect();
        let mut index = Index::default();
        let buyer = |number: usize, price: u32| {
            Buyer { campaign: number as u32, owner: number as u64 % 3, price: PriceMicros(price) }
        };
        for (number, (offering, price)) in offerings.iter().enumerate() {
            index.insert(buyer(number, *price), offering);
        }
        for (number, (offering, price)) in offerings.iter().enumerate().filter(|(number, _)| gone[*number]) {
            index.remove(buyer(number, *price), offering);
        }
        let one = |all: &[&str], which: usize| all.get(which).map_or(0, |name| exact(name));
        let mut request = with(|impression| {
            impression.tag = one(&["t1", "t2"], tag);
            impression.is_private = is_private;
            let id = one(&["d1", "d2"], deal);
            impression.deals = if id == 0 { vec![] } else { vec![Deal { id, ..Deal::default() }] };
        });
        request.sites = ["a.example", "x.b.example"].get(site_of).map_or(Vec::new(), |name| domains(name));
        request.app = ["com.a"].get(app).map_or(0, |name| folded(name));
        request.country = ["DEU", "FRA"].get(country).map_or(0, |name| folded(name));
        let impression = &request.impressions[0];
        let mut candidates = index.candidates(&request, impression, 1_000);
        let found: Vec<u32> = std::iter::from_fn(|| candidates.next_above(0)).collect();
        let prices: Vec<u32> = found.iter().map(|number| offerings[*number as usize].1).collect();
        prop_assert!(prices.is_sorted_by(|one, next| one >= next), "{prices:?}");
        for (number, (offering, _)) in offerings.iter().enumerate() {
            let count = found.iter().filter(|found| **found == number as u32).count();
            prop_assert!(count <= usize::from(!gone[number]));
            if !gone[number] && fit_of(offering, &request, impression).is_some() {
                prop_assert_eq!(count, 1, "campaign {} fits", number);
            }
        }
        let all_gone = (0..offerings.len()).all(|number| gone[number]);
        prop_assert_eq!(index.is_empty(), all_gone);
    }
}

//! OpenRTB through the public door: an exchange's requests, bids and notices, and the money that follows.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::http::{Answer, Http};
use crate::pacing::fund;
use crate::services::{ok, over, said};
use crate::{Server, Settings, audit, folder, wait_for};

const FUNDS: u64 = 1_000_000;
pub const BANNER: &str = include_str!("../../../doors/src/openrtb/samples/iab_banner.json");
const DEALS: &str = include_str!("../../../doors/src/openrtb/samples/iab_deals.json");
const VIDEO: &str = include_str!("../../../doors/src/openrtb/samples/iab_video.json");
const FLUCT: &str = include_str!("../../../doors/src/openrtb/samples/fluct_web.json");

fn settings(folder: &Path, openrtb: &str) -> Settings {
    let services = [
        "[[service]]\nname = \"exchange\"\ntoken = \"a-token-that-may-bid\"\ngrants = [\"room:pacer:write:bids\"]\n",
        "[[service]]\nname = \"planner\"\ntoken = \"a-token-of-a-planner\"\ngrants = [\"room:campaigns:write:*\"]\n",
    ]
    .concat();
    let pacing = "[pacing]\nshards = 2\nlease_ms = 200\nwin_deadline_ms = 2000\n";
    Settings { sections: format!("{pacing}\n[pacing.openrtb]\n{openrtb}\n\n{services}"), ..Settings::new(folder) }
}

pub const WITH_URLS: &str = "notice_base_url = \"https://bids.example.com/\"";

fn creative() -> Value {
    json!({
        "id": "300x250", "width": 300, "height": 250, "markup": "<a href=\"https://shoes.example\">Shoes</a>",
        "domains": ["shoes.example"], "categories": ["IAB18-3"],
    })
}

/// Makes a campaign that bids a CPM of so many thousandths.
pub fn put(http: &mut Http<TcpStream>, campaign: &str, price: u32, openrtb: &Value) {
    fund(http, campaign, FUNDS);
    let mut bought = json!({"creatives": [creative()]});
    bought.as_object_mut().expect("an object").extend(openrtb.as_object().expect("an object").clone());
    let plan = json!({
        "account": format!("campaign:{campaign}"),
        "spend": format!("spend:{campaign}"),
        "budget_micros": FUNDS,
        "price_micros": price,
        "strategy": {"name": "as_fast_as_possible"},
        "flights": [{"starts_ms": 0, "ends_ms": 4_102_444_800_000u64}],
        "openrtb": bought,
    });
    ok(http.put(&format!("/v1/campaigns/{campaign}"), &plan));
}

/// A request of an exchange, with changes.
pub fn request(sample: &str, changes: &Value) -> Value {
    let mut request: Value = serde_json::from_str(sample).expect("a sample is JSON");
    request.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
    request
}

fn ask(http: &mut Http<TcpStream>, request: &Value) -> Answer {
    http.post("/openrtb/2.6/bids", request).expect("the door answers")
}

/// Asks until so many impressions are bid on, and gives the bids.
pub fn bids(http: &mut Http<TcpStream>, request: &Value, count: usize) -> Vec<Value> {
    wait_for("there are bids", || {
        let answer = ask(http, request);
        let seats = answer.body["seatbid"].as_array()?;
        let bids: Vec<Value> = seats.iter().flat_map(|seat| seat["bid"].as_array().expect("bids").clone()).collect();
        (bids.len() == count).then_some(bids)
    })
}

/// The path of a notice, with its macros replaced as an exchange does.
pub fn notice(url: &Value, price: &str) -> String {
    let path = url.as_str().expect("a URL").strip_prefix("https://bids.example.com").expect("below the base");
    let replaced = path.replace("${AUCTION_PRICE}", price).replace("${AUCTION_CURRENCY}", "USD");
    replaced.replace("${AUCTION_LOSS}", "102")
}

pub fn outcome(http: &mut Http<TcpStream>, path: &str) -> String {
    let answer = http.get(path).expect("the door answers");
    match answer.status {
        200 => answer.body["outcome"].as_str().expect("a word").to_owned(),
        status => format!("{status} {} {}", answer.code(), answer.body["field"]),
    }
}

fn balance(http: &mut Http<TcpStream>, account: &str) -> (u64, u64) {
    let account = ok(http.get(&format!("/v1/accounts/{account}")));
    (account["balance"].as_u64().expect("a number"), account["held"].as_u64().expect("a number"))
}

#[test]
fn a_bid_is_made_billed_once_and_paid() {
    let folder = folder();
    let server = Server::start(&settings(folder.path(), WITH_URLS));
    let mut http = Http::connect(server.http).expect("the door is open");
    put(&mut http, "shoes", 2_500, &json!({"sites": ["daily-paper.example"], "seat": "s1"}));
    let mut exchange = over(&server, "a-token-that-may-bid");
    let banner = request(BANNER, &json!({}));
    let bid = bids(&mut exchange, &banner, 1).remove(0);
    let fields = ["impid", "price", "adomain", "cid", "crid", "cat", "w", "h", "mtype", "exp"].map(|field| &bid[field]);
    let expected = json!(["1", 2.5, ["shoes.example"], "shoes", "300x250", ["IAB18-3"], 300, 250, 1, 2]);
    assert_eq!(json!(fields), expected);
    assert_eq!(bid["adm"], creative()["markup"]);
    let answer = ask(&mut exchange, &banner);
    assert_eq!(
        (&answer.body["id"], &answer.body["cur"], &answer.body["seatbid"][0]["seat"]),
        (&banner["id"], &json!("USD"), &json!("s1"))
    );

    // An exchange shows no token of a service with its notices.
    let mut notices = over(&server, "");
    assert_eq!(bid["nurl"], Value::Null, "only the notice that costs is asked for");
    assert_eq!(outcome(&mut notices, &notice(&bid["burl"], "AUDIT")), "ignored", "nothing was sold");
    assert_eq!(outcome(&mut notices, &notice(&bid["burl"], "2.501")), "422 openrtb_notice_invalid \"price\"");
    let in_euro = notice(&bid["burl"], "2").replace("&currency=USD", "&currency=EUR");
    assert_eq!(outcome(&mut notices, &in_euro), "422 openrtb_notice_invalid \"currency\"");
    // Who looks whether a link is alive bills nothing.
    let mut raw = TcpStream::connect(server.http).expect("the door is open");
    let head = format!("HEAD {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", notice(&bid["burl"], "2"));
    raw.write_all(head.as_bytes()).expect("it is read");
    let mut answer = String::new();
    raw.read_to_string(&mut answer).expect("it is answered");
    assert!(answer.starts_with("HTTP/1.1 405 ") && answer.to_lowercase().contains("allow: get"), "{answer}");
    assert_eq!(outcome(&mut notices, &notice(&bid["burl"], "2.1004")), "taken");
    assert_eq!(outcome(&mut notices, &notice(&bid["burl"], "2.1004")), "duplicate");
    let won = notice(&bid["burl"], "2.1").replace("/billing?", "/win?");
    assert_eq!(outcome(&mut notices, &won), "ignored", "the win notice does not cost");
    let mut forged = notice(&bid["burl"], "2.1");
    let at = forged.find("token=").expect("a token") + 10;
    forged.replace_range(at..=at, if &forged[at..=at] == "A" { "B" } else { "A" });
    assert_eq!(outcome(&mut notices, &forged), "422 openrtb_notice_invalid \"token\"");
    assert_eq!(outcome(&mut notices, "/openrtb/2.6/billing"), "422 openrtb_notice_invalid \"token\"");
    let other = bids(&mut exchange, &banner, 1).remove(0);
    assert_eq!(outcome(&mut notices, &notice(&bid["lurl"], "")), "won");
    let lost = notice(&other["lurl"], "");
    for other in ["&proof=f", "&other="] {
        let unproved = lost.replace("&proof=", other);
        assert_eq!(outcome(&mut notices, &unproved), "422 openrtb_notice_invalid \"proof\"");
    }
    assert_eq!(outcome(&mut notices, &lost), "taken");
    assert_eq!(outcome(&mut notices, &notice(&other["burl"], "2")), "lost");

    // 2.1004 for a thousand are 2,101 micros: no notice costs less than the exchange bills.
    assert_eq!(ok(http.get("/v1/campaigns/shoes"))["spent_micros"], 2_101);
    wait_for("it is settled", || {
        let settled = (balance(&mut http, "campaign:shoes"), balance(&mut http, "spend:shoes"));
        (settled == ((FUNDS - 2_101, 0), (2_101, 0))).then_some(())
    });
    wait_for("it is late", || (outcome(&mut notices, &notice(&bid["burl"], "2")) == "late").then_some(()));
    assert!(server.terminate().status.success());
    let audited = audit(&folder.path().join("data"));
    assert!(audited.status.success(), "{audited}");
}

#[test]
fn who_bids_most_bids_and_whoever_does_not_is_told_why() {
    let folder = folder();
    let server = Server::start(&settings(folder.path(), WITH_URLS));
    let mut http = Http::connect(server.http).expect("the door is open");
    put(&mut http, "shoes", 2_500, &json!({}));
    put(&mut http, "hats", 3_000, &json!({"countries": ["USA"]}));
    put(&mut http, "coats", 2_600, &json!({"deals": ["SHOES-Q4-01"], "seat": "agency-a"}));
    let film =
        json!([{"id": "film", "media": "video", "markup": "<VAST/>", "domains": ["films.example"], "duration_s": 15}]);
    put(&mut http, "films", 4_000, &json!({"creatives": film}));
    put(&mut http, "yen", 9_000, &json!({"currency": "JPY"}));
    let campaigns = |bids: &[Value]| bids.iter().map(|bid| bid["cid"].clone()).collect::<Vec<_>>();
    let in_usa = json!({"device": {"geo": {"country": "USA"}}});

    assert_eq!(campaigns(&bids(&mut http, &request(BANNER, &json!({})), 1)), ["shoes"]);
    wait_for("the one that pays more has money", || {
        (campaigns(&bids(&mut http, &request(BANNER, &in_usa), 1)) == ["hats"]).then_some(())
    });
    let deal = bids(&mut http, &request(DEALS, &json!({})), 1).remove(0);
    assert_eq!((&deal["cid"], &deal["dealid"], &deal["price"]), (&json!("coats"), &json!("SHOES-Q4-01"), &json!(2.6)));
    assert_eq!(bids(&mut http, &request(VIDEO, &json!({})), 1)[0]["mtype"], 2);
    let two = json!({"imp": [
        {"id": "a", "banner": {"w": 300, "h": 250}},
        {"id": "b", "banner": {"format": [{"w": 300, "h": 250}]}},
    ]});
    let of_two = bids(&mut http, &request(BANNER, &two), 2);
    assert_eq!(of_two.iter().map(|bid| bid["impid"].clone()).collect::<Vec<_>>(), ["a", "b"]);
    // The exchange takes yen before dollars.
    let in_yen = request(FLUCT, &json!({"imp": [{"id": "1", "banner": {"w": 300, "h": 250}}]}));
    wait_for("it is bid in yen", || {
        let answer = ask(&mut http, &in_yen);
        (answer.body["cur"] == "JPY").then_some(())
    });

    let none = |http: &mut Http<TcpStream>, changes: Value| {
        assert_eq!(ask(http, &request(BANNER, &changes)).status, 204, "{changes}");
        let answer = http.post("/openrtb/2.6/bids?nbr=1", &request(BANNER, &changes)).expect("the door answers");
        assert_eq!((answer.status, &answer.body["nbr"]), (200, &json!(0)));
        answer.body["ext"]["no_bids"].clone()
    };
    assert_eq!(none(&mut http, json!({"badv": ["shoes.example"]})), json!({"not_targeted": 2}));
    assert_eq!(none(&mut http, json!({"bcat": ["IAB18"]})), json!({"not_targeted": 2}));
    let above = json!({"imp": [{"id": "1", "bidfloor": 2.51, "banner": {"w": 300, "h": 250}}]});
    // Nobody has bid for a while, and its lease may have been given back.
    wait_for("the one that may is below the floor", || {
        (none(&mut http, above.clone()) == json!({"not_targeted": 1, "below_floor": 1})).then_some(())
    });
    let small = json!({"imp": [{"id": "1", "banner": {"w": 320, "h": 50}}]});
    assert_eq!(none(&mut http, small), json!({}), "nobody buys this size");

    let test = bids(&mut http, &request(BANNER, &json!({"test": 1})), 1).remove(0);
    assert_eq!((&test["id"], &test["burl"], &test["cid"]), (&json!("test-0"), &Value::Null, &json!("shoes")));
    assert!(server.terminate().status.success());
}

#[test]
fn an_exchange_without_billing_notices_and_one_without_any() {
    let folder = folder();
    let by_win = format!("{WITH_URLS}\ncharge_on = \"win\"");
    let server = Server::start(&settings(folder.path(), &by_win));
    let mut http = Http::connect(server.http).expect("the door is open");
    put(&mut http, "shoes", 2_500, &json!({}));
    let bid = bids(&mut http, &request(BANNER, &json!({})), 1).remove(0);
    assert_eq!(bid["burl"], Value::Null);
    assert_eq!(outcome(&mut http, &notice(&bid["nurl"], "${AUCTION_PRICE}")), "taken", "a macro that is not replaced");
    assert_eq!(ok(http.get("/v1/campaigns/shoes"))["spent_micros"], 2_500);
    assert!(server.terminate().status.success());

    let server = Server::start(&settings(folder.path(), ""));
    let mut http = Http::connect(server.http).expect("the door is open");
    let bid = bids(&mut http, &request(BANNER, &json!({})), 1).remove(0);
    assert_eq!((&bid["burl"], &bid["nurl"], &bid["lurl"]), (&Value::Null, &Value::Null, &Value::Null));
    let wins = json!({"wins": [{"token": bid["id"], "price_micros": 2_000}]});
    assert_eq!(ok(http.post("/v1/wins", &wins))["outcomes"], json!(["taken"]));
    assert!(server.terminate().status.success());
}

#[test]
fn who_may_not_is_refused_and_what_cannot_be_read_is_named() {
    let folder = folder();
    let server = Server::start(&settings(folder.path(), WITH_URLS));
    let banner = request(BANNER, &json!({}));
    let (mut exchange, mut planner) = (over(&server, "a-token-that-may-bid"), over(&server, "a-token-of-a-planner"));
    assert_eq!(said(planner.post("/openrtb/2.6/bids", &banner)), "403 forbidden");
    assert_eq!(said(over(&server, "").post("/openrtb/2.6/bids", &banner)), "401 token_missing");
    assert_eq!(said(exchange.get("/openrtb/2.6/bids")), "405 method_not_allowed");
    assert_eq!(said(exchange.post("/openrtb/2.6/bids", &json!({"id": "a"}))), "422 field_invalid");
    assert_eq!(said(exchange.post("/openrtb/2.6/bids", &json!("text"))), "422 field_invalid");
    let large = request(BANNER, &json!({"ext": {"much": "x".repeat(257 << 10)}}));
    assert_eq!(said(exchange.post("/openrtb/2.6/bids", &large)), "413 body_too_large");
    let mut http = Http::connect(server.http).expect("the door is open");
    fund(&mut http, "shoes", FUNDS);
    let plan = |keys: Value, openrtb: Value| {
        json!({
            "account": "campaign:shoes", "spend": "spend:shoes", "budget_micros": 1, "price_micros": 1, "keys": keys,
            "flights": [{"starts_ms": 0, "ends_ms": 1}], "openrtb": openrtb,
        })
    };
    let bought = |changes: Value| {
        let mut bought = json!({"creatives": [creative()]});
        bought.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
        bought
    };
    for (field, keys, openrtb) in [
        ("keys", json!([5]), bought(json!({}))),
        ("openrtb.currency", json!([]), bought(json!({"currency": "dollars"}))),
        ("openrtb.creatives", json!([]), bought(json!({"creatives": []}))),
        ("openrtb.countries", json!([]), bought(json!({"countries": ["Germany"]}))),
    ] {
        let answer = http.put("/v1/campaigns/shoes", &plan(keys, openrtb)).expect("the door answers");
        assert_eq!(
            (answer.status, answer.code(), &answer.body["field"]),
            (422, "campaign_plan_invalid", &json!(field))
        );
    }
    // What was put is told as it was put.
    ok(http.put("/v1/campaigns/shoes", &plan(json!([]), bought(json!({"tags": ["top"]})))));
    let told = ok(http.get("/v1/campaigns/shoes"))["plan"]["openrtb"].clone();
    assert_eq!((&told["tags"], &told["creatives"][0]["markup"]), (&json!(["top"]), &creative()["markup"]));
    assert!(server.terminate().status.success());
}

/// Plans with much markup make a page short, whatever its limit.
#[test]
fn a_page_of_large_plans_ends_early_and_the_next_one_goes_on() {
    let folder = folder();
    let server = Server::start(&settings(folder.path(), ""));
    let mut http = Http::connect(server.http).expect("the door is open");
    let creative = |id: &str| {
        let (markup, domains) = ("x".repeat(30 << 10), ["shoes.example"]);
        json!({"id": id, "width": 300, "height": 250, "markup": markup, "domains": domains})
    };
    let mut ids: Vec<String> = (0..40).map(|number| format!("large-{number:02}")).collect();
    for id in &ids {
        put(&mut http, id, 1_000, &json!({"creatives": [creative("c1"), creative("c2")]}));
    }
    let (mut found, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = ok(http.get(&format!("/v1/campaigns?limit=1000&prefix=large-&after={after}")));
        assert!(page.to_string().len() < 4 << 20, "{} bytes", page.to_string().len());
        let campaigns = page["campaigns"].as_array().expect("a list");
        found.extend(campaigns.iter().map(|campaign| campaign["id"].as_str().expect("an id").to_owned()));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    ids.sort();
    assert_eq!(found, ids);
    assert!(pages > 1, "{pages}");
    assert!(server.terminate().status.success());
}

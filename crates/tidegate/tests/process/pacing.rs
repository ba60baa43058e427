//! The pacer through the public doors: money, kills, rights, live changes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tidegate_client::{CampaignPut, Client, ClientError};
use tidegate_wire::mqtt::{ConnectOut, Version, encode_connect};

use crate::clock::WallClock;
use crate::http::Http;
use crate::metrics::metric;
use crate::pacing_client::refused;
use crate::proxied::connack;
use crate::services::{ok, over, said};
use crate::timeline::copy;
use crate::votes::connect_as;
use crate::{Server, Settings, audit, folder, wait_for};

const DEADLINE_MS: u64 = 1_000;
pub const FUNDS: u64 = 1_000_000;

pub fn settings(folder: &Path) -> Settings {
    settings_with(folder, DEADLINE_MS)
}

pub fn settings_with(folder: &Path, deadline_ms: u64) -> Settings {
    let services = [
        "[[service]]\nname = \"exchange\"\ntoken = \"a-token-that-may-bid\"\ngrants = [\"room:pacer:write:*\"]\n",
        "[[service]]\nname = \"planner\"\ntoken = \"a-token-of-a-planner\"\n",
        "grants = [\"room:campaigns:write:hats*\", \"room:campaigns:read:hats*\"]\n",
    ]
    .concat();
    let sections = format!("[pacing]\nshards = 2\nlease_ms = 200\nwin_deadline_ms = {deadline_ms}\n\n{services}");
    Settings { sections, ..Settings::new(folder) }
}

pub fn connect(server: &Server) -> Http<TcpStream> {
    Http::connect(server.http).expect("the door is open")
}

/// Accounts of a campaign with so much money.
pub fn fund(http: &mut Http<TcpStream>, campaign: &str, amount: u64) {
    let kinds = [
        ("source:bank".to_owned(), "source"),
        (format!("campaign:{campaign}"), "wallet"),
        (format!("spend:{campaign}"), "collector"),
    ];
    for (id, kind) in kinds {
        ok(http.post("/v1/accounts", &json!({"id": id, "asset": "usd_micros", "kind": kind})));
    }
    let id = format!("fund-{campaign}");
    let debit = json!({"id": id, "debit": "source:bank", "credit": format!("campaign:{campaign}"), "amount": amount});
    ok(http.post("/v1/transfers", &debit));
}

fn plan(campaign: &str, changes: &Value) -> Value {
    let mut plan = json!({
        "account": format!("campaign:{campaign}"),
        "spend": format!("spend:{campaign}"),
        "budget_micros": FUNDS,
        "price_micros": 1_000,
        "strategy": {"name": "as_fast_as_possible"},
        "flights": [{"starts_ms": 0, "ends_ms": 4_102_444_800_000u64}],
    });
    let changes = changes.as_object().expect("an object").clone();
    plan.as_object_mut().expect("an object").extend(changes);
    plan
}

pub fn put(http: &mut Http<TcpStream>, campaign: &str, changes: &Value) -> u64 {
    let made = ok(http.put(&format!("/v1/campaigns/{campaign}"), &plan(campaign, changes)));
    made["number"].as_u64().expect("a number")
}

/// Asks for so many bids.
fn ask(http: &mut Http<TcpStream>, number: u64, ids: std::ops::Range<u64>) -> Vec<Value> {
    let requests: Vec<Value> = ids.map(|id| json!({"id": id, "campaign": number})).collect();
    let answer = ok(http.post("/v1/bids", &json!({"requests": requests})));
    answer["bids"].as_array().expect("a list").clone()
}

/// Asks until there is a bid.
pub fn bid(http: &mut Http<TcpStream>, number: u64) -> Value {
    let mut id = 0;
    wait_for("there is a bid", || {
        id += 1;
        ask(http, number, id..id + 1).pop().filter(|bid| bid["token"].is_string())
    })
}

pub fn win(http: &mut Http<TcpStream>, bid: &Value, price: u64) -> String {
    let wins = json!({"wins": [{"token": bid["token"], "price_micros": price}]});
    ok(http.post("/v1/wins", &wins))["outcomes"][0].as_str().expect("a word").to_owned()
}

fn lose(http: &mut Http<TcpStream>, bids: &[Value]) -> Vec<String> {
    let losses: Vec<Value> = bids.iter().map(|bid| json!({"token": bid["token"]})).collect();
    let answer = ok(http.post("/v1/losses", &json!({"losses": losses})));
    let outcomes = answer["outcomes"].as_array().expect("a list").iter();
    outcomes.map(|outcome| outcome.as_str().expect("a word").to_owned()).collect()
}

pub fn balance(http: &mut Http<TcpStream>, account: &str) -> (u64, u64) {
    let account = ok(http.get(&format!("/v1/accounts/{account}")));
    (account["balance"].as_u64().expect("a number"), account["held"].as_u64().expect("a number"))
}

pub fn campaign(http: &mut Http<TcpStream>, id: &str) -> Value {
    ok(http.get(&format!("/v1/campaigns/{id}")))
}

#[test]
fn a_win_is_paid_once_and_the_rest_returns() {
    let folder = folder();
    let server = Server::start(&settings(folder.path()));
    let mut http = connect(&server);
    fund(&mut http, "shoes", FUNDS);
    let number = put(&mut http, "shoes", &json!({}));
    let offered = bid(&mut http, number);
    assert_eq!(offered["price_micros"], 1_000);
    assert_eq!(win(&mut http, &offered, 1_001), "price_above_bid");
    assert_eq!(win(&mut http, &offered, 700), "taken");
    assert_eq!(win(&mut http, &offered, 700), "duplicate");
    let mut forged = offered["token"].as_str().expect("a token").to_owned();
    forged.replace_range(20..22, if &forged[20..22] == "00" { "01" } else { "00" });
    assert_eq!(win(&mut http, &json!({"token": forged}), 700), "token_invalid");
    assert_eq!(campaign(&mut http, "shoes")["spent_micros"], 700);
    wait_for("it is settled", || {
        let settled = (balance(&mut http, "campaign:shoes"), balance(&mut http, "spend:shoes"));
        (settled == ((FUNDS - 700, 0), (700, 0))).then_some(())
    });
    wait_for("its lease is forgotten", || match &*win(&mut http, &offered, 700) {
        "duplicate" => None,
        "late" => Some(()),
        other => panic!("a win is {other}"),
    });
    assert!(server.terminate().status.success());
    let audited = audit(&folder.path().join("data"));
    assert!(audited.status.success(), "{audited}");
}

/// With a deadline that no test waits for, money returns when it is known of each bid whether it was won or lost. What
/// notices were told before, they are told again: after the settlement, and after a kill.
#[test]
fn money_returns_when_all_bids_are_known_and_notices_are_remembered() {
    let folder = folder();
    let settings = settings_with(folder.path(), 3_600_000);
    let mut server = Server::start(&settings);
    let mut http = connect(&server);
    fund(&mut http, "shoes", FUNDS);
    let number = put(&mut http, "shoes", &json!({}));
    let mut bids = vec![bid(&mut http, number)];
    wait_for("there are ten bids", || {
        let first = 1_000 + bids.len() as u64;
        bids.extend(ask(&mut http, number, first..first + 1).into_iter().filter(|bid| bid["token"].is_string()));
        (bids.len() == 10).then_some(())
    });
    let lost = bids.split_off(4);
    for bid in &bids {
        assert_eq!(win(&mut http, bid, 600), "taken");
    }
    assert_eq!(lose(&mut http, &lost[..5]), ["taken"; 5]);
    put(&mut http, "shoes", &json!({"paused": true}));
    wait_for("what was not bid returns", || (campaign(&mut http, "shoes")["exposed_micros"] == 1_000).then_some(()));
    assert!(balance(&mut http, "campaign:shoes").1 > 0, "the last bid may win");
    assert_eq!(lose(&mut http, &lost), ["duplicate", "duplicate", "duplicate", "duplicate", "duplicate", "taken"]);
    let settled = ((FUNDS - 2_400, 0), (2_400, 0));
    wait_for("it is settled", || {
        let now = (balance(&mut http, "campaign:shoes"), balance(&mut http, "spend:shoes"));
        (now == settled).then_some(())
    });
    for is_killed in [false, true] {
        if is_killed {
            server.kill();
            server = Server::start(&settings);
            http = connect(&server);
        }
        assert_eq!(win(&mut http, &bids[0], 600), "duplicate");
        assert_eq!(win(&mut http, &lost[0], 600), "lost");
        assert_eq!(lose(&mut http, &bids), ["won"; 4]);
        assert_eq!(lose(&mut http, &[json!({"token": "00"})]), ["token_invalid"]);
        let view = campaign(&mut http, "shoes");
        let told = ["spent_micros", "exposed_micros", "impressions", "losses"].map(|field| view[field].as_u64());
        assert_eq!(told, [Some(2_400), Some(0), Some(4), Some(6)]);
    }
    wait_for("the new process has settled it, too", || {
        let now = (balance(&mut http, "campaign:shoes"), balance(&mut http, "spend:shoes"));
        (now == settled).then_some(())
    });
    assert_eq!(said(http.post("/v1/losses", &json!({"losses": []}))), "422 bids_invalid");
    let losses = json!({"losses": [{"token": lost[0]["token"]}]});
    assert_eq!(said(over(&server, "a-token-of-a-planner").post("/v1/losses", &losses)), "403 forbidden");
    assert!(server.terminate().status.success());
    let audited = audit(&folder.path().join("data"));
    assert!(audited.status.success(), "{audited}");
}

/// Bids, wins, losses and kills: what was answered as taken is paid, and nothing else, least of all a bid that was said
/// to be lost; what bids reserved returns.
#[test]
fn wins_that_were_taken_are_paid_over_kills() {
    let folder = folder();
    let settings = settings(folder.path());
    let mut server = Server::start(&settings);
    let mut http = connect(&server);
    fund(&mut http, "shoes", FUNDS);
    let number = put(&mut http, "shoes", &json!({}));
    let (mut taken, mut unknown) = (0, 0);
    for round in 0..4 {
        let mut offered = vec![bid(&mut http, number)];
        for step in 0..20 {
            let first = 1_000 * (round + 1) + step * 10;
            offered
                .extend(ask(&mut http, number, first..first + 10).into_iter().filter(|bid| bid["token"].is_string()));
        }
        let late = offered.split_off(offered.len().div_ceil(2));
        let lost = offered.split_off(offered.len().div_ceil(2));
        for bid in &offered {
            assert_eq!(win(&mut http, bid, 10), "taken");
            taken += 1;
        }
        for losses in lost.chunks(256) {
            // On a slow machine, a lease is settled before.
            assert!(lose(&mut http, losses).iter().all(|outcome| ["taken", "late"].contains(&&**outcome)));
        }
        // Some of these are answered before the kill, others are not, or do not arrive.
        let wins: Vec<Value> = late.iter().map(|bid| json!({"token": bid["token"], "price_micros": 10})).collect();
        let mut other = connect(&server);
        let sender = std::thread::spawn(move || {
            wins.iter().take_while(|win| other.post("/v1/wins", &json!({"wins": [win]})).is_ok()).count()
        });
        server.kill();
        sender.join().expect("the sender ends with the connection");
        server = Server::start(&settings);
        http = connect(&server);
        for bid in &lost {
            let outcome = win(&mut http, bid, 10);
            assert!(["lost", "late"].contains(&&*outcome), "a lost bid that wins is {outcome}");
        }
        // A win of a bid of the killed process, sent again.
        for bid in &late {
            match &*win(&mut http, bid, 10) {
                "taken" | "duplicate" => taken += 1,
                "late" => unknown += 1,
                other => panic!("a win is {other}"),
            }
        }
    }
    assert!(taken >= 4, "{taken} were taken");
    let (spent, left) = wait_for("all is settled", || {
        let ((left, held), (spent, _)) = (balance(&mut http, "campaign:shoes"), balance(&mut http, "spend:shoes"));
        (held == 0).then_some((spent, left))
    });
    assert_eq!(spent + left, FUNDS);
    assert!((10 * taken..=10 * (taken + unknown)).contains(&spent), "{spent} for {taken} and {unknown}");
    assert_eq!(campaign(&mut http, "shoes")["spent_micros"], spent);
    assert!(server.terminate().status.success());
}

#[test]
fn a_budget_is_never_overspent_and_a_plan_is_changed_while_it_runs() {
    let folder = folder();
    let server = Server::start(&settings(folder.path()));
    let mut http = connect(&server);
    fund(&mut http, "shoes", 10_000);
    // The plan may have more than the account.
    let number = put(&mut http, "shoes", &json!({"budget_micros": 50_000}));
    let mut won = 0;
    let mut id = 0;
    wait_for("the account is spent", || {
        for bid in ask(&mut http, number, id..id + 50).into_iter().filter(|bid| bid["token"].is_string()) {
            won += u64::from(win(&mut http, &bid, 1_000) == "taken");
        }
        id += 50;
        (won == 10).then_some(())
    });
    wait_for("it is said why", || {
        (campaign(&mut http, "shoes")["pace"]["stopped"] == "insufficient_funds").then_some(())
    });
    wait_for("it is settled", || (balance(&mut http, "campaign:shoes") == (0, 0)).then_some(()));
    assert_eq!(balance(&mut http, "spend:shoes").0, 10_000);

    fund(&mut http, "hats", FUNDS);
    let number = put(&mut http, "hats", &json!({"version": 5}));
    bid(&mut http, number);
    put(&mut http, "hats", &json!({"version": 7, "paused": true}));
    wait_for("nothing is bid", || (ask(&mut http, number, 1..2)[0]["no_bid"] == "not_in_flight").then_some(()));
    let older = plan("hats", &json!({"version": 6}));
    assert_eq!(said(http.put("/v1/campaigns/hats", &older)), "409 campaign_version_stale");
    ok(http.delete("/v1/campaigns/hats"));
    wait_for("it is gone", || (said(http.get("/v1/campaigns/hats")) == "404 campaign_not_found").then_some(()));
    wait_for("nobody knows it", || (ask(&mut http, number, 1..2)[0]["no_bid"] == "campaign_unknown").then_some(()));
    assert_eq!(balance(&mut http, "campaign:hats"), (FUNDS, 0));
    assert!(server.terminate().status.success());
}

#[test]
fn who_may_not_is_refused_and_what_cannot_be_is_said() {
    let folder = folder();
    let server = Server::start(&settings(folder.path()));
    let mut http = connect(&server);
    fund(&mut http, "hats", FUNDS);
    fund(&mut http, "shoes", FUNDS);
    put(&mut http, "shoes", &json!({}));
    let (mut exchange, mut planner) = (over(&server, "a-token-that-may-bid"), over(&server, "a-token-of-a-planner"));
    assert_eq!(said(exchange.put("/v1/campaigns/hats", &plan("hats", &json!({})))), "403 forbidden");
    assert_eq!(said(exchange.get("/v1/campaigns/shoes")), "403 forbidden");
    let number = put(&mut planner, "hats", &json!({}));
    assert_eq!(campaign(&mut planner, "hats")["changed_by"], "planner");
    assert_eq!(said(planner.put("/v1/campaigns/shoes", &plan("shoes", &json!({})))), "403 forbidden");
    let of_others = plan("hats-2", &json!({"account": "campaign:shoes"}));
    assert_eq!(said(planner.put("/v1/campaigns/hats-2", &of_others)), "403 forbidden", "the money of others");
    let into_others = plan("hats-2", &json!({"account": "campaign:hats", "spend": "spend:shoes"}));
    assert_eq!(said(planner.put("/v1/campaigns/hats-2", &into_others)), "403 forbidden", "the books of others");
    ok(planner
        .put("/v1/campaigns/hats-2", &plan("hats-2", &json!({"account": "campaign:hats", "spend": "spend:hats"}))));
    let requests = json!({"requests": [{"id": 1, "campaign": number}]});
    assert_eq!(said(planner.post("/v1/bids", &requests)), "403 forbidden");
    bid(&mut exchange, number);
    let listed = ok(planner.get("/v1/campaigns"));
    let ids: Vec<&str> =
        listed["campaigns"].as_array().expect("a list").iter().filter_map(|of| of["id"].as_str()).collect();
    assert_eq!(ids, ["hats", "hats-2"], "those that the caller may look at");
    for (field, changes) in [
        ("account", json!({"account": "wallet:dave"})),
        ("spend", json!({"spend": "campaign:shoes"})),
        ("version", json!({"version": 0})),
        ("version", json!({"version": u64::MAX})),
        ("keys", json!({"keys": [0]})),
        ("budget_micros", json!({"budget_micros": 0})),
        ("price_micros", json!({"price_micros": 0})),
        ("zone", json!({"zone": "Mars/Base"})),
        ("flights", json!({"flights": []})),
        ("flights", json!({"flights": [{"starts_ms": 2, "ends_ms": 2}]})),
        ("strategy", json!({"strategy": {"name": "evn"}})),
        ("frequency", json!({"frequency": {"bids_max": 0, "window_s": 60}})),
    ] {
        let answer = http.put("/v1/campaigns/hats", &plan("hats", &changes)).expect("the door answers");
        assert_eq!(
            (answer.status, answer.code(), &answer.body["field"]),
            (422, "campaign_plan_invalid", &json!(field))
        );
    }
    // Reading all of these would keep the worker from all else.
    let parameters: serde_json::Map<_, _> = (0..1_000).map(|number| (format!("p{number}"), json!(number))).collect();
    for (why, changes) in [
        ("262144 bytes", json!({"zone": "x".repeat(300_000)})),
        ("at most 32 parameters", json!({"strategy": {"name": "even", "parameters": parameters}})),
    ] {
        let answer = http.put("/v1/campaigns/hats", &plan("hats", &changes)).expect("the door answers");
        let detail = answer.body["detail"].as_str().expect("it says why");
        assert!(answer.status == 422 && detail.contains(why), "{}: {detail}", answer.status);
    }
    assert_eq!(said(http.put("/v1/campaigns/a%20b", &plan("hats", &json!({})))), "422 campaign_id_invalid");
    assert_eq!(said(http.post("/v1/bids", &json!({"requests": []}))), "422 bids_invalid");
    assert_eq!(said(http.delete("/v1/campaigns/none")), "404 campaign_not_found");
    assert!(server.terminate().status.success());
}

/// Publishes with QoS 1 on a connection, and gives the reason of the acknowledgement.
fn publish(mqtt: &mut TcpStream, topic: &str, payload: &Value) -> u8 {
    let body = [&[0, topic.len() as u8], topic.as_bytes(), &[0, 7, 0], payload.to_string().as_bytes()].concat();
    let mut packet = vec![0x32];
    let length = body.len();
    match u8::try_from(length) {
        Ok(short @ 0..0x80) => packet.push(short),
        _ => packet.extend([length as u8 & 0x7f | 0x80, (length >> 7) as u8]),
    }
    packet.extend(body);
    mqtt.write_all(&packet).expect("the server reads");
    let mut head = [0; 4];
    mqtt.read_exact(&mut head).expect("it is acknowledged");
    assert_eq!((head[0], &head[2..]), (0x40, &[0, 7][..]));
    let mut rest = vec![0; usize::from(head[1]) - 2];
    mqtt.read_exact(&mut rest).expect("it is whole");
    rest.first().copied().unwrap_or(0)
}

#[test]
fn campaigns_are_changed_on_the_binary_port_and_over_mqtt_as_over_http() {
    let folder = folder();
    let server = Server::start(&Settings { mqtt: true, ..settings(folder.path()) });
    let mut http = connect(&server);
    fund(&mut http, "hats", FUNDS);
    let mut planner = connect_as(&server, "a-token-of-a-planner");
    let put = |planner: &mut Client<TcpStream>, campaign: &str, changes: Value| {
        planner.put_campaign(campaign, plan(campaign, &changes).to_string().as_bytes())
    };
    let is_put = |answer: Result<CampaignPut, ClientError>, version: u64, is_new: bool| {
        let put = answer.expect("it is put");
        assert_eq!((put.version, put.is_new), (version, is_new));
    };
    is_put(put(&mut planner, "hats", json!({})), 1, true);
    let number = campaign(&mut http, "hats")["number"].as_u64().expect("a number");
    let offered = bid(&mut http, number);
    is_put(put(&mut planner, "hats", json!({"version": 7, "price_micros": 500})), 7, false);
    is_put(put(&mut planner, "hats", json!({"version": 7, "price_micros": 500})), 7, false);
    assert_eq!(refused(put(&mut planner, "hats", json!({"version": 3}))), "campaign_version_stale");
    assert_eq!(refused(put(&mut planner, "shoes", json!({}))), "forbidden", "campaigns of others");
    let others = json!({"account": "campaign:shoes"});
    assert_eq!(refused(put(&mut planner, "hats", others)), "forbidden", "the money of others");
    assert_eq!(refused(put(&mut planner, "hats", json!({"price_micros": 0}))), "campaign_plan_invalid");
    assert_eq!(refused(planner.put_campaign("hats", b"{")), "json_invalid");
    assert_eq!(refused(planner.put_campaign("shoes", b"{")), "forbidden", "before the plan is read");

    let mut mqtt = TcpStream::connect(server.mqtt()).expect("the port is open");
    let mut hello = Vec::new();
    let (user_name, password) = (Some("planner"), Some(&b"a-token-of-a-planner"[..]));
    let client = ConnectOut { client_id: "p", user_name, password, clean_start: true, ..ConnectOut::default() };
    encode_connect(&mut hello, Version::V5, &client);
    mqtt.write_all(&hello).expect("the server reads");
    assert_eq!(connack(&mut mqtt), Some(0));
    let paused = json!({"id": "hats", "plan": plan("hats", &json!({"version": 8, "paused": true}))});
    assert_eq!(publish(&mut mqtt, "$pacer/campaigns/put", &paused), 0);
    let view = campaign(&mut http, "hats");
    assert_eq!((view["plan"]["version"].as_u64(), &view["plan"]["paused"]), (Some(8), &json!(true)));
    wait_for("no worker bids any more", || {
        let answers: Vec<Value> = (0..8).flat_map(|id| ask(&mut http, number, id..id + 1)).collect();
        answers.iter().all(|bid| bid["no_bid"] == "not_in_flight").then_some(())
    });
    // Decided, and answered on a response topic, if there is one: it need not be sent again.
    let foreign = json!({"id": "shoes", "plan": plan("shoes", &json!({}))});
    assert_eq!(publish(&mut mqtt, "$pacer/campaigns/put", &foreign), 0);
    assert_eq!(http.get("/v1/campaigns/shoes").expect("an answer").status, 404);
    assert_eq!(publish(&mut mqtt, "$pacer/other", &json!({})), 0x87, "nobody but the server publishes there");
    assert_eq!(win(&mut http, &offered, 900), "taken", "a bid of an earlier plan");
    assert_eq!(publish(&mut mqtt, "$pacer/campaigns/end", &json!({"id": "hats"})), 0);
    planner.end_campaign("hats").expect("it has ended before");
    wait_for("it is gone", || (http.get("/v1/campaigns/hats").ok()?.status == 404).then_some(()));
    assert_eq!(refused(planner.end_campaign("hats")), "campaign_not_found");
    assert_eq!(balance(&mut http, "spend:hats"), (900, 0));
    assert!(server.terminate().status.success());
}

#[test]
fn what_was_learned_of_a_day_survives_a_restart_and_a_kill_and_is_learned_anew_if_its_file_is_damaged() {
    let folder = folder();
    let settings = settings(folder.path());
    let server = Server::start(&settings);
    let mut http = connect(&server);
    fund(&mut http, "shoes", FUNDS);
    let number = put(&mut http, "shoes", &json!({"strategy": {"name": "even"}}));
    bid(&mut http, number);
    let drawn = |server: &Server| {
        let mut http = connect(server);
        wait_for("the day has a curve", || {
            let curve = ok(http.get("/v1/campaigns/shoes?curve=true"))["curve"].clone();
            curve.is_object().then(|| ["begins_ms", "ends_ms", "spent_micros"].map(|field| curve[field].clone()))
        })
    };
    let curve = drawn(&server);
    assert!(curve[2].as_array().is_some_and(|spent| spent.iter().any(Value::is_number)), "{curve:?}");
    assert!(server.terminate().status.success());
    let server = Server::start(&settings);
    assert_eq!(drawn(&server), curve);
    server.kill();
    let server = Server::start(&settings);
    assert_eq!(drawn(&server), curve);
    assert!(server.terminate().status.success());
    let file = folder.path().join("data/pacer-learned");
    let mut bytes = std::fs::read(&file).expect("it was written");
    *bytes.last_mut().expect("it has a head") ^= 1;
    for damaged in [&bytes[..], b"what is this?"] {
        std::fs::write(&file, damaged).expect("there is room");
        let server = Server::start(&settings);
        server.says("it is learned anew");
        server.kill();
    }
    let server = Server::start(&settings);
    assert_eq!(ok(connect(&server).get("/v1/campaigns/shoes?curve=true"))["curve"], Value::Null);
    assert!(server.terminate().status.success());
}

#[test]
fn a_start_with_a_clock_that_is_months_ahead_pays_what_was_won() {
    let folder = folder();
    let mut settings = settings(folder.path());
    let clock = WallClock::of(&mut settings);
    let server = Server::start(&settings);
    let mut http = connect(&server);
    fund(&mut http, "shoes", FUNDS);
    let number = put(&mut http, "shoes", &json!({}));
    let offered = bid(&mut http, number);
    assert_eq!(win(&mut http, &offered, 700), "taken");
    server.kill();
    clock.set_ahead(300 * 86_400);
    let server = Server::start(&settings);
    let mut http = connect(&server);
    wait_for("it is paid", || (balance(&mut http, "campaign:shoes") == (FUNDS - 700, 0)).then_some(()));
    assert_eq!(metric(&server, "tidegate_pacer_leases_unpaid"), 0);
    assert!(server.terminate().status.success());
}

/// The folders of the logs of a family.
fn logs_of(settings: &Settings, family: &'static str) -> impl Iterator<Item = PathBuf> + use<> {
    let journal = std::fs::read_dir(settings.data.join("journal")).expect("there are logs").flatten();
    journal.map(|log| log.path()).filter(move |log| log.display().to_string().contains(family))
}

/// A copy of the logs of a family.
pub struct Kept {
    data: PathBuf,
    logs: Vec<(PathBuf, PathBuf)>,
}

impl Kept {
    /// Of a server that does not run.
    pub fn of(settings: &Settings, family: &'static str, folder: &Path) -> Kept {
        let kept = |log: PathBuf| (folder.join("kept").join(log.file_name().expect("it has a name")), log);
        let logs: Vec<(PathBuf, PathBuf)> = logs_of(settings, family).map(kept).collect();
        logs.iter().for_each(|(kept, log)| copy(log, kept));
        Kept { data: settings.data.clone(), logs }
    }

    /// In the place of what there is now. Nothing says how far that went.
    pub fn put_back(&self) {
        for (kept, log) in &self.logs {
            std::fs::remove_dir_all(log).expect("it is there");
            copy(kept, log);
        }
        ["ends", "witnessed"].iter().for_each(|witness| drop(std::fs::remove_dir_all(self.data.join(witness))));
    }
}

/// As behind a loss of the ledger's end. What was won of a lease that is forgotten nobody knows: an operator must look.
#[test]
fn money_that_an_older_ledger_holds_for_leases_that_are_settled_stays_held_and_is_said() {
    let folder = folder();
    let settings = settings_with(folder.path(), 5 * DEADLINE_MS);
    let server = Server::start(&settings);
    let mut http = connect(&server);
    fund(&mut http, "shoes", FUNDS);
    let number = put(&mut http, "shoes", &json!({}));
    let offered = bid(&mut http, number);
    let held = balance(&mut http, "campaign:shoes").1;
    assert!(held > 0);
    server.kill();
    let kept = Kept::of(&settings, "ledger", folder.path());
    let server = Server::start(&settings);
    let mut http = connect(&server);
    assert_eq!(win(&mut http, &offered, 700), "taken");
    wait_for("it is paid, and the lease forgotten", || (campaign(&mut http, "shoes")["leases"] == 0).then_some(()));
    assert_eq!(balance(&mut http, "campaign:shoes"), (FUNDS - 700, 0));
    server.kill();
    kept.put_back();
    let server = Server::start(&settings);
    server.says("the ledger is older than the log of campaigns");
    let mut http = connect(&server);
    wait_for("health says so, too", || {
        (ok(http.get("/healthz"))["rooms"] == json!({"pacing": "ledger_older"})).then_some(())
    });
    assert_eq!(balance(&mut http, "campaign:shoes"), (FUNDS, held), "it stays held");
    assert_eq!(campaign(&mut http, "shoes")["spent_micros"], 700);
    for hold in ok(http.get("/v1/accounts/campaign:shoes/holds"))["holds"].as_array().expect("a list") {
        let id = hold["id"].as_str().expect("an id");
        ok(http.post(&format!("/v1/holds/{id}/void?id_space=tidegate.pacer"), &json!({})));
    }
    wait_for("an operator has looked", || (ok(http.get("/healthz")) == json!({"status": "ok"})).then_some(()));
    assert_eq!(balance(&mut http, "campaign:shoes"), (FUNDS, 0));
    assert!(server.terminate().status.success());
}

/// As behind a restore, whose ledger has a little more than its log of campaigns.
#[test]
fn money_that_is_held_for_leases_of_a_lost_log_is_given_back() {
    let folder = folder();
    let settings = settings(folder.path());
    let server = Server::start(&settings);
    let mut http = connect(&server);
    fund(&mut http, "shoes", FUNDS);
    put(&mut http, "shoes", &json!({}));
    assert!(server.terminate().status.success());
    let kept = Kept::of(&settings, "campaigns", folder.path());
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let number = campaign(&mut http, "shoes")["number"].as_u64().expect("a number");
    bid(&mut http, number);
    assert!(balance(&mut http, "campaign:shoes").1 > 0);
    server.kill();
    kept.put_back();
    let renamed = settings.sections.replace("[pacing]\n", "[pacing]\naccount_prefix = \"ads:\"\n");
    let server = Server::start(&Settings { sections: renamed, ..settings.clone() });
    server.says("given back");
    server.says("do not begin with pacing.account_prefix");
    assert_eq!(balance(&mut connect(&server), "campaign:shoes"), (FUNDS, 0));
    assert!(server.terminate().status.success());
}

/// As behind a loss of the end of that log. The ledger says what was paid, and that counts.
#[test]
fn what_was_paid_for_leases_of_a_lost_log_counts_against_the_budget() {
    let folder = folder();
    let settings = settings(folder.path());
    let server = Server::start(&settings);
    let mut http = connect(&server);
    fund(&mut http, "shoes", FUNDS);
    let number = put(&mut http, "shoes", &json!({"budget_micros": 10_000}));
    // Whose a lease was stands in its hold: another campaign has the same account.
    fund(&mut http, "hats", FUNDS);
    put(&mut http, "hats", &json!({"account": "campaign:shoes"}));
    let open = bid(&mut http, number);
    server.kill();
    // One lease is open in what is kept, and others come behind it.
    let kept = Kept::of(&settings, "campaigns", folder.path());
    let server = Server::start(&settings);
    let mut http = connect(&server);
    assert_eq!(win(&mut http, &open, 700), "taken");
    let later = bid(&mut http, number);
    assert_eq!(win(&mut http, &later, 900), "taken");
    wait_for("both are paid", || (balance(&mut http, "spend:shoes") == (1_600, 0)).then_some(()));
    server.kill();
    kept.put_back();
    let server = Server::start(&settings);
    server.says("leases that are not known here: it counts against the budget of campaign shoes");
    server.says("the greater of the two counts");
    let mut http = connect(&server);
    wait_for("all of it counts", || (campaign(&mut http, "shoes")["spent_micros"] == 1_600).then_some(()));
    for counted in ["regained", "paid_otherwise"] {
        let name = format!("tidegate_pacer_leases_{counted}_total");
        wait_for("it is counted", || (metric(&server, &name) == 1).then_some(()));
    }
    assert_eq!(ok(http.get("/healthz")), json!({"status": "ok"}));
    assert_eq!(campaign(&mut http, "hats")["spent_micros"], 0);
    assert_eq!(win(&mut http, &later, 900), "late", "it was paid");
    server.kill();
    let server = Server::start(&settings);
    let mut http = connect(&server);
    let offered = bid(&mut http, number);
    assert_eq!(win(&mut http, &offered, 100), "taken");
    wait_for("it is paid, too", || (balance(&mut http, "spend:shoes") == (1_700, 0)).then_some(()));
    assert_eq!(campaign(&mut http, "shoes")["spent_micros"], 1_700, "nothing counts twice");
    assert_eq!(metric(&server, "tidegate_pacer_leases_regained_total"), 0);
    assert!(server.terminate().status.success());
}

//! Who may do what over HTTP.

use serde_json::json;

use super::server::{SERVICE, SHOP, TestServer};
use crate::auth::gate::KIND_LOOKUPS_PER_REQUEST_MAX;

fn vote(id: &str, debit: &str, credit: &str) -> String {
    format!(r#"{{"id":"{id}","debit":"{debit}","credit":"{credit}","amount":1}}"#)
}

#[test]
fn nothing_but_health_works_without_a_token() {
    let server = TestServer::open();
    for (method, path) in [
        ("GET", "/v1/accounts"),
        ("POST", "/v1/accounts"),
        ("GET", "/v1/accounts/candidate:1"),
        ("GET", "/v1/accounts/candidate:1/transfers"),
        ("POST", "/v1/transfers"),
        ("POST", "/v1/holds"),
        ("POST", "/v1/holds/a/post"),
        ("POST", "/v1/holds/a/void"),
        ("GET", "/v1/audit"),
        ("GET", "/metrics"),
    ] {
        let missing = server.ask("", method, path, "");
        assert_eq!(missing.summary(), "401 token_missing", "{method} {path}");
        assert!(missing.head.contains("www-authenticate: bearer realm=\"tidegate\"\r\n"), "{missing:?}");
        let wrong = server.ask("not-a-token", method, path, "");
        assert_eq!(wrong.summary(), "401 token_invalid", "{method} {path}");
        assert!(wrong.head.contains("error=\"invalid_token\""), "{wrong:?}");
    }
    assert_eq!(server.backend.asked(), 0);
    assert_eq!(server.ask("", "GET", "/healthz", "").status, 200);
}

#[test]
fn a_viewer_spends_only_own_credits_and_only_on_candidates() {
    let server = TestServer::open();
    let dave = server.log_in("dave");
    let ask = |path: &str, body: &str| server.ask(&dave, "POST", path, body).summary();
    assert_eq!(ask("/v1/transfers", &vote("a", "wallet:dave", "candidate:1")), "201");
    assert_eq!(ask("/v1/transfers", &vote("b", "wallet:carol", "candidate:1")), "403 forbidden");
    assert_eq!(ask("/v1/transfers", &vote("c", "source:shop", "wallet:dave")), "403 forbidden");
    assert_eq!(ask("/v1/transfers", &vote("d", "wallet:dave", "wallet:carol")), "404 credit_account_not_found");
    assert_eq!(ask("/v1/transfers", &vote("d", "wallet:dave", "source:shop")), "404 credit_account_not_found");
    assert_eq!(ask("/v1/transfers", &vote("e", "wallet:dave", "candidate:9")), "404 credit_account_not_found");
    let good = vote("f", "wallet:dave", "candidate:2");
    let bad = vote("g", "wallet:dave", "wallet:carol");
    assert_eq!(ask("/v1/transfers", &format!(r#"{{"transfers":[{good},{bad}]}}"#)), "404 credit_account_not_found");
    let refused = server.ask(&dave, "POST", "/v1/transfers", &format!(r#"{{"transfers":[{good},{bad}]}}"#)).json();
    assert_eq!((&refused["index"], &refused["id"]), (&1.into(), &"g".into()), "{refused}");
    assert_eq!(ask("/v1/transfers", &format!(r#"{{"transfers":[{good}]}}"#)), "200");
    let hold = |credit: &str| {
        let hold = vote("h", "wallet:dave", credit).replace('}', r#","expires_in_ms":1000}"#);
        ask("/v1/holds", &hold)
    };
    assert_eq!(hold("wallet:carol"), "404 credit_account_not_found");
    assert_eq!(hold("candidate:1"), "201");
    assert_eq!(ask("/v1/holds/h/post", ""), "403 forbidden");
    assert_eq!(ask("/v1/holds/h/void", ""), "403 forbidden");
    assert_eq!(ask("/v1/accounts", r#"{"id":"wallet:x","asset":"credit","kind":"wallet"}"#), "403 forbidden");
    let carol = server.ask(SERVICE, "GET", "/v1/accounts/wallet:carol", "").json();
    assert_eq!(carol["balance"], 10, "nothing that was forbidden happened");
}

#[test]
fn a_viewer_sees_own_wallets_and_candidates() {
    let server = TestServer::open();
    let dave = server.log_in("dave");
    let get = |path: &str| server.ask(&dave, "GET", path, "");
    assert_eq!(get("/v1/accounts/wallet:dave").summary(), "200");
    assert_eq!(get("/v1/accounts/candidate:1").summary(), "200");
    assert_eq!(get("/v1/accounts/candidate:1/transfers").summary(), "200");
    for path in ["/v1/accounts/wallet:carol", "/v1/accounts/wallet:carol/transfers", "/v1/accounts/source:shop"] {
        let answer = get(path);
        assert_eq!(answer.summary(), "404 account_not_found");
        // Nothing tells the wallet of another from one that does not exist, also when it is asked again.
        let missing = path.replace("carol", "nobody").replace("shop", "nobody");
        for _ in 0..2 {
            let (asked_before, body) = (server.backend.asked(), get(&missing).body.replace("nobody", "carol"));
            let asked = server.backend.asked() - asked_before;
            assert_eq!(body, get(path).body.replace("shop", "carol"), "{path}");
            assert_eq!(server.backend.asked() - asked_before, 2 * asked, "both ask the ledger as often");
        }
    }
    assert_eq!(get("/v1/audit").summary(), "403 forbidden");
    assert_eq!(get("/metrics").summary(), "403 forbidden");
    let seen = get("/v1/accounts").json();
    let ids: Vec<&str> = seen["accounts"].as_array().unwrap().iter().map(|a| a["id"].as_str().unwrap()).collect();
    let mut expected: Vec<String> = (1..=7).map(|number| format!("candidate:{number}")).collect();
    expected.push("wallet:dave".to_owned());
    assert_eq!(ids, expected);
}

#[test]
fn a_viewers_page_is_full_although_others_stand_between() {
    let server = TestServer::open();
    let dave = server.log_in("dave");
    for number in 0..20 {
        let body = format!(r#"{{"id":"alien:{number:02}","asset":"credit","kind":"wallet"}}"#);
        assert_eq!(server.ask(SERVICE, "POST", "/v1/accounts", &body).status, 201);
    }
    let page = server.ask(&dave, "GET", "/v1/accounts?limit=7", "").json();
    assert_eq!(page["accounts"].as_array().unwrap().len(), 7, "{page}");
    assert_eq!(page["next"], "candidate:7");
    let page = server.ask(&dave, "GET", "/v1/accounts?limit=7&after=candidate:7", "").json();
    assert_eq!((&page["accounts"][0]["id"], page.get("next")), (&json!("wallet:dave"), None));
}

#[test]
fn a_service_does_what_its_grants_list() {
    let server = TestServer::open();
    let ask = |method: &str, path: &str, body: &str| server.ask(SHOP, method, path, body).summary();
    assert_eq!(ask("POST", "/v1/transfers", &vote("a", "source:shop", "wallet:dave")), "201");
    assert_eq!(ask("POST", "/v1/transfers", &vote("b", "source:shop", "candidate:1")), "403 forbidden");
    assert_eq!(ask("POST", "/v1/transfers", &vote("c", "wallet:dave", "wallet:carol")), "403 forbidden");
    assert_eq!(ask("POST", "/v1/transfers", &vote("d", "source:shop", "wallet:none")), "404 credit_account_not_found");
    assert_eq!(ask("POST", "/v1/accounts", r#"{"id":"wallet:x","asset":"credit","kind":"wallet"}"#), "201");
    assert_eq!(ask("POST", "/v1/accounts", r#"{"id":"source:x","asset":"credit","kind":"source"}"#), "403 forbidden");
    assert_eq!(ask("GET", "/v1/accounts/wallet:dave", ""), "403 forbidden");
    assert_eq!(ask("GET", "/v1/accounts/wallet:none", ""), "403 forbidden", "nor does it learn what exists");
    assert_eq!(ask("GET", "/v1/audit", ""), "403 forbidden");
    assert_eq!(ask("GET", "/metrics", ""), "403 forbidden");
    assert_eq!(ask("POST", "/v1/holds/a/void", ""), "403 forbidden");
    let list = server.ask(SHOP, "GET", "/v1/accounts", "").json();
    assert_eq!(list["accounts"], json!([]));
}

#[test]
fn a_viewer_cannot_make_the_door_ask_for_thousands_of_kinds() {
    let server = TestServer::open();
    let dave = server.log_in("dave");
    let votes: Vec<String> = (0..2_000).map(|n| vote(&n.to_string(), "wallet:dave", &format!("x:{n}"))).collect();
    let answer = server.ask(&dave, "POST", "/v1/transfers", &format!(r#"{{"transfers":[{}]}}"#, votes.join(",")));
    assert_eq!(answer.summary(), "403 forbidden");
    assert!(server.backend.asked() <= KIND_LOOKUPS_PER_REQUEST_MAX, "{}", server.backend.asked());
}

#[test]
fn a_wrong_password_and_an_unknown_user_look_the_same() {
    let server = TestServer::open();
    let wrong = server.ask("", "POST", "/v1/login", r#"{"user":"dave","password":"carol"}"#);
    let unknown = server.ask("", "POST", "/v1/login", r#"{"user":"nobody","password":"carol"}"#);
    assert_eq!(wrong.summary(), "401 login_wrong");
    assert_eq!(wrong.body, unknown.body);
}

#[test]
fn a_flood_of_log_ins_is_refused_and_votes_go_on() {
    let server = TestServer::open();
    server.log_in("dave");
    let mut flood: Vec<_> = (0..60).map(|_| server.connect()).collect();
    let body = r#"{"user":"dave","password":"guess"}"#;
    for client in &mut flood {
        client.send(&super::server::request("", "POST", "/v1/login", body));
    }
    assert_eq!(server.ask(SERVICE, "POST", "/v1/transfers", &vote("v", "wallet:dave", "candidate:1")).summary(), "201");
    let answers: Vec<String> = flood.iter_mut().map(|client| client.read_answer().unwrap().summary()).collect();
    let busy = answers.iter().filter(|answer| *answer == "503 busy").count();
    let wrong = answers.iter().filter(|answer| *answer == "401 login_wrong").count();
    let later = answers.iter().filter(|answer| *answer == "429 too_many_requests").count();
    assert!(busy > 0 && wrong > 0 && busy + wrong + later == 60, "busy {busy}, wrong {wrong}, later {later}");
    // Who has logged in from here before does not wait for those who guess.
    server.log_in("dave");
}

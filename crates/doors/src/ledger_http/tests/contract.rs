//! Every route of the API, called as its users call it.

use serde_json::json;
use tidegate_ledger::message::Unavailable;

use super::server::{SERVICE, SHOP, TestServer};
use crate::http::{Health, HttpLimits};

#[test]
fn a_viewer_logs_in_lists_the_candidates_and_votes() {
    let server = TestServer::open();
    let login = server.ask("", "POST", "/v1/login", r#"{"user":"dave","password":"dave"}"#);
    assert_eq!(login.status, 200);
    assert!(login.head.contains("cache-control: no-store"), "{login:?}");
    let login = login.json();
    assert!(login["expires_at"].as_str().unwrap().ends_with('Z'), "{login}");
    let token = login["token"].as_str().unwrap();

    let list = server.ask(token, "GET", "/v1/accounts?prefix=candidate:", "").json();
    assert_eq!(list["accounts"].as_array().unwrap().len(), 7, "{list}");
    assert_eq!(list["accounts"][0]["kind"], "collector");

    let vote = r#"{"id":"vote-1","debit":"wallet:dave","credit":"candidate:3","amount":1,"memo":"go"}"#;
    let first = server.ask(token, "POST", "/v1/transfers", vote);
    assert_eq!((first.status, first.json()), (201, json!({"id": "vote-1", "outcome": "applied"})));
    let again = server.ask(token, "POST", "/v1/transfers", vote);
    assert_eq!((again.status, again.json()), (200, json!({"id": "vote-1", "outcome": "duplicate"})));

    let wallet = server.ask(token, "GET", "/v1/accounts/wallet:dave", "").json();
    let expected = json!({
        "id": "wallet:dave", "asset": "credit", "kind": "wallet",
        "balance": 9, "held": 0, "available": 9, "credited": 10, "debited": 1,
    });
    assert_eq!(wallet, expected);
    let history = server.ask(token, "GET", "/v1/accounts/wallet%3Adave/transfers?limit=1", "").json();
    assert_eq!(history["transfers"][0]["id"], "vote-1");
    assert_eq!(history["transfers"][0]["balance_after"], 9);
    let next = history["next"].as_str().unwrap();
    let rest = server.ask(token, "GET", &format!("/v1/accounts/wallet:dave/transfers?before={next}"), "").json();
    assert_eq!(rest["transfers"][0]["id"], "seed:dave");
    assert_eq!(rest.get("next"), None);
}

#[test]
fn refusals_are_problems_with_a_stable_code() {
    let server = TestServer::open();
    let open = |body: &str| server.ask(SERVICE, "POST", "/v1/accounts", body).summary();
    assert_eq!(open(r#"{"id":"wallet:erin","asset":"credit","kind":"wallet"}"#), "201");
    assert_eq!(open(r#"{"id":"wallet:erin","asset":"credit","kind":"wallet"}"#), "200");
    assert_eq!(open(r#"{"id":"wallet:erin","asset":"euro","kind":"wallet"}"#), "409 account_exists");
    assert_eq!(open(r#"{"id":"a/b","asset":"credit","kind":"wallet"}"#), "422 account_id_invalid");
    assert_eq!(open(r#"{"id":"a","asset":"credit","kind":"piggy"}"#), "422 field_invalid");
    open(r#"{"id":"wallet:euro","asset":"euro","kind":"wallet"}"#);

    let transfer = |id: &str, debit: &str, credit: &str, amount: &str| {
        let body = format!(r#"{{"id":"{id}","debit":"{debit}","credit":"{credit}","amount":{amount}}}"#);
        server.ask(SERVICE, "POST", "/v1/transfers", &body)
    };
    let poor = transfer("t1", "wallet:dave", "candidate:1", "11");
    assert_eq!(poor.summary(), "409 insufficient_funds");
    assert_eq!((&poor.json()["available"], &poor.json()["id"]), (&json!(10), &json!("t1")));
    assert_eq!(transfer("t2", "wallet:dave", "candidate:1", "1").summary(), "201");
    assert_eq!(transfer("t2", "wallet:dave", "candidate:1", "2").summary(), "409 id_reused");
    assert_eq!(transfer("t3", "wallet:none", "candidate:1", "1").summary(), "404 debit_account_not_found");
    assert_eq!(transfer("t4", "wallet:dave", "candidate:9", "1").summary(), "404 credit_account_not_found");
    assert_eq!(transfer("t5", "wallet:dave", "wallet:euro", "1").summary(), "409 asset_mismatch");
    assert_eq!(transfer("t6", "candidate:1", "wallet:dave", "1").summary(), "409 collector_credit_only");
    assert_eq!(transfer("t7", "wallet:dave", "wallet:dave", "1").summary(), "409 same_account");
    assert_eq!(transfer("t8", "wallet:dave", "candidate:1", "0").summary(), "422 amount_invalid");
    assert_eq!(transfer("", "wallet:dave", "candidate:1", "1").summary(), "422 id_invalid");
    assert_eq!(transfer("t9", "source:shop", "wallet:dave", "9223372036854775807").summary(), "409 overflow");
    assert_eq!(server.ask(SERVICE, "GET", "/v1/accounts/wallet:none", "").summary(), "404 account_not_found");
}

#[test]
fn many_accounts_get_one_line_each() {
    let server = TestServer::open();
    let body = r#"{"accounts":[
        {"id":"wallet:erin","asset":"credit","kind":"wallet"},
        {"id":"wallet:dave","asset":"credit","kind":"wallet"},
        {"id":"wallet:erin","asset":"euro","kind":"wallet"},
        {"id":"a/b","asset":"credit","kind":"collector"}
    ]}"#;
    let answer = server.ask(SERVICE, "POST", "/v1/accounts", body);
    let expected = json!({"outcomes": [
        {"id": "wallet:erin", "outcome": "applied"},
        {"id": "wallet:dave", "outcome": "duplicate"},
        {"id": "wallet:erin", "outcome": "refused", "code": "account_exists"},
        {"id": "a/b", "outcome": "refused", "code": "account_id_invalid"},
    ]});
    assert_eq!((answer.status, answer.json()), (200, expected));
    let refused = |token: &str, body: &str| server.ask(token, "POST", "/v1/accounts", body).summary();
    assert_eq!(refused(SERVICE, r#"{"accounts":[]}"#), "422 batch_size_invalid");
    assert_eq!(refused(SERVICE, r#"{"accounts":[],"id":"a"}"#), "422 field_invalid");
    assert_eq!(refused(SERVICE, r#"{"accounts":[{"id":"a","asset":"b"}]}"#), "422 field_invalid");
    assert_eq!(refused(SERVICE, r#"{"id":"a","asset":"b"}"#), "422 field_invalid");
    let foreign = r#"{"accounts":[{"id":"wallet:x","asset":"credit","kind":"wallet"},
        {"id":"source:x","asset":"credit","kind":"source"}]}"#;
    assert_eq!(refused(SHOP, foreign), "403 forbidden");
}

#[test]
fn many_transfers_get_one_line_each() {
    let server = TestServer::open();
    let body = r#"{"transfers":[
        {"id":"b1","debit":"wallet:dave","credit":"candidate:1","amount":4},
        {"id":"b2","debit":"wallet:dave","credit":"candidate:1","amount":7},
        {"id":"b1","debit":"wallet:dave","credit":"candidate:1","amount":4}],"linked":false}"#;
    let answer = server.ask(SERVICE, "POST", "/v1/transfers", body);
    let outcomes = json!({"outcomes": [
        {"id": "b1", "outcome": "applied"},
        {"id": "b2", "outcome": "refused", "code": "insufficient_funds", "available": 6},
        {"id": "b1", "outcome": "duplicate"},
    ]});
    assert_eq!((answer.status, answer.json()), (200, outcomes));
    let empty = server.ask(SERVICE, "POST", "/v1/transfers", r#"{"transfers":[]}"#);
    assert_eq!(empty.summary(), "422 batch_size_invalid");
    let both = server.ask(SERVICE, "POST", "/v1/transfers", r#"{"transfers":[],"id":"a"}"#);
    assert_eq!(both.summary(), "422 field_invalid");
}

#[test]
fn holds_are_placed_posted_and_voided() {
    let server = TestServer::open();
    let ask = |path: &str, body: &str| server.ask(SERVICE, "POST", path, body).summary();
    let hold = r#"{"id":"h1","debit":"wallet:dave","credit":"candidate:1","amount":6,"expires_in_ms":60000}"#;
    assert_eq!(ask("/v1/holds", hold), "201");
    assert_eq!(ask("/v1/holds", hold), "200");
    assert_eq!(ask("/v1/holds", &hold.replace("60000", "0").replace("h1", "h2")), "422 expiry_invalid");
    let wallet = server.ask(SERVICE, "GET", "/v1/accounts/wallet:dave", "").json();
    assert_eq!((&wallet["held"], &wallet["available"]), (&json!(6), &json!(4)));
    assert_eq!(ask("/v1/holds/h1/post", r#"{"amount":7}"#), "409 post_exceeds_hold");
    assert_eq!(ask("/v1/holds/h1/post", r#"{"amount":5}"#), "200");
    assert_eq!(ask("/v1/holds/h1/post", r#"{"amount":5}"#), "200");
    assert_eq!(ask("/v1/holds/h1/post", ""), "409 hold_posted");
    assert_eq!(ask("/v1/holds/h1/void", ""), "409 hold_posted");
    assert_eq!(ask("/v1/holds", &hold.replace("h1", "h3").replace(":6", ":5")), "201");
    assert_eq!(ask("/v1/holds/h3/void", "{}"), "200");
    assert_eq!(ask("/v1/holds/h3/void", ""), "200");
    assert_eq!(ask("/v1/holds/none/void", ""), "404 hold_not_found");
    assert_eq!(ask("/v1/holds/h3/void", r#"{"amount":1}"#), "422 field_invalid");
}

#[test]
fn holds_that_are_called_like_what_is_done_with_them_are_read() {
    let server = TestServer::open();
    for id in ["post", "void"] {
        let hold =
            format!(r#"{{"id":"{id}","debit":"wallet:dave","credit":"candidate:3","amount":1,"expires_in_ms":60000}}"#);
        assert_eq!(server.ask(SERVICE, "POST", "/v1/holds", &hold).status, 201);
        for path in [format!("/v1/holds/{id}"), format!("/v1/holds/%{:x}{}", id.as_bytes()[0], &id[1..])] {
            let answer = server.ask(SERVICE, "GET", &path, "");
            assert_eq!((answer.status, answer.json()["id"].as_str()), (200, Some(id)), "{path}: {answer:?}");
        }
        assert_eq!(server.ask("", "GET", &format!("/v1/holds/{id}"), "").summary(), "401 token_missing");
        assert_eq!(server.ask(SERVICE, "PUT", &format!("/v1/holds/{id}"), "").summary(), "405 method_not_allowed");
    }
}

#[test]
fn holds_come_in_batches() {
    let server = TestServer::open();
    let ask = |path: &str, body: &str| server.ask(SERVICE, "POST", path, body);
    let hold = |id: &str, amount: u64| {
        format!(
            r#"{{"id":"{id}","debit":"wallet:dave","credit":"candidate:1","amount":{amount},"expires_in_ms":60000}}"#
        )
    };
    let many = format!(r#"{{"holds":[{},{}],"linked":true}}"#, hold("h1", 3), hold("h2", 4));
    let placed = ask("/v1/holds", &many);
    let applied = json!({"outcomes": [{"id": "h1", "outcome": "applied"}, {"id": "h2", "outcome": "applied"}]});
    assert_eq!((placed.status, placed.json()), (200, applied.clone()));
    let posted = ask("/v1/holds/post", r#"{"posts":[{"id":"h1","amount":2}]}"#).json();
    assert_eq!(posted, json!({"outcomes": [{"id": "h1", "outcome": "applied"}]}));
    let voided = ask("/v1/holds/void", r#"{"ids":["h1","h2"]}"#).json();
    let lines = json!({"outcomes": [
        {"id": "h1", "outcome": "refused", "code": "hold_posted"},
        {"id": "h2", "outcome": "applied"},
    ]});
    assert_eq!(voided, lines);
    assert_eq!(ask("/v1/holds", r#"{"holds":[]}"#).summary(), "422 batch_size_invalid");
    assert_eq!(ask("/v1/holds/void", r#"{"ids":[]}"#).summary(), "422 batch_size_invalid");
    assert_eq!(ask("/v1/holds", r#"{"holds":[{"id":"x"}]}"#).summary(), "422 field_invalid");
    assert_eq!(ask("/v1/holds", r#"{"holds":[],"id":"x"}"#).summary(), "422 field_invalid");
}

#[test]
fn what_became_of_an_id_is_read_by_its_parties_only() {
    let server = TestServer::open();
    let get = |token: &str, path: &str| server.ask(token, "GET", path, "");
    let post = |path: &str, body: &str| server.ask(SERVICE, "POST", path, body).summary();
    let body = r#"{"id":"t1","debit":"wallet:carol","credit":"candidate:1","amount":1,"memo":"go"}"#;
    assert_eq!(post("/v1/transfers", body), "201");
    let poor = body.replace("t1", "t2").replace(":1,", ":999,");
    assert_eq!(post("/v1/transfers", &poor), "409 insufficient_funds");
    let read = get(SERVICE, "/v1/transfers/t1").json();
    let expected = json!({
        "id": "t1", "outcome": "applied", "debit": "wallet:carol", "credit": "candidate:1", "amount": 1, "memo": "go",
        "time_ms": 5, "shard": 0, "position": 77,
    });
    assert_eq!(read, expected);
    let refused = get(SERVICE, "/v1/transfers/t2").json();
    assert_eq!((&refused["outcome"], &refused["available"]), (&json!("refused"), &json!(9)), "{refused}");
    assert_eq!(refused["refusal"], "insufficient_funds");
    assert_eq!(get(SERVICE, "/v1/transfers/t9").summary(), "404 transfer_not_found");

    let hold = r#"{"id":"h1","debit":"wallet:carol","credit":"candidate:1","amount":2,"expires_in_ms":60000,"code":7}"#;
    assert_eq!(post("/v1/holds", hold), "201");
    let read = get(SERVICE, "/v1/holds/h1").json();
    let expected = json!({
        "id": "h1", "state": "open", "debit": "wallet:carol", "credit": "candidate:1", "amount": 2, "remaining": 2,
        "expires_in_ms": 60000, "expires_at_ms": 60005, "code": 7, "time_ms": 5,
    });
    assert_eq!(read, expected);
    let not_found = get(SERVICE, "/v1/transfers/h1");
    assert_eq!(not_found.summary(), "404 transfer_not_found");
    assert_eq!(not_found.json()["detail"], "this is the id of a hold: read it at /v1/holds/{id}");
    let open = get(SERVICE, "/v1/accounts/wallet:carol/holds?limit=1").json();
    assert_eq!(open["holds"].as_array().map(Vec::len), Some(1), "{open}");
    assert_eq!(get(SERVICE, "/v1/accounts/wallet:carol/holds?after=x").summary(), "422 cursor_invalid");
    assert_eq!(post("/v1/holds/h1/post", r#"{"amount":1}"#), "200");
    let read = get(SERVICE, "/v1/holds/h1").json();
    assert_eq!((&read["state"], &read["posted"], &read["remaining"]), (&json!("posted"), &json!(1), &json!(0)));

    // To Dave, what is Carol's is the same as what is not there.
    let login = server.ask("", "POST", "/v1/login", r#"{"user":"dave","password":"dave"}"#).json();
    let dave = login["token"].as_str().unwrap();
    for path in ["/v1/transfers/t1", "/v1/transfers/t2", "/v1/transfers/t9"] {
        assert_eq!(get(dave, path).summary(), "404 transfer_not_found", "{path}");
    }
    for path in ["/v1/holds/h1", "/v1/holds/h9"] {
        assert_eq!(get(dave, path).summary(), "404 hold_not_found", "{path}");
    }
    let detail = |id: &str| get(dave, &format!("/v1/transfers/{id}")).json()["detail"].clone();
    assert_eq!(detail("h1"), detail("h9"), "nor that it is a hold");
    let vote = r#"{"id":"v1","debit":"wallet:dave","credit":"candidate:1","amount":1}"#;
    assert_eq!(server.ask(dave, "POST", "/v1/transfers", vote).summary(), "201");
    assert_eq!(get(dave, "/v1/transfers/v1").summary(), "200");
    assert_eq!(get(dave, "/v1/accounts/wallet:carol/holds").summary(), "404 account_not_found");
    assert_eq!(get(dave, "/v1/accounts/wallet:dave/holds").summary(), "200");
}

#[test]
fn accounts_are_changed_by_services() {
    let server = TestServer::open();
    let patch = |token: &str, body: &str| server.ask(token, "PATCH", "/v1/accounts/wallet:dave", body);
    let body = r#"{"status":"frozen","balance_max":50,"metadata":{"plan":"gold","seat":"4"}}"#;
    let changed = patch(SERVICE, body);
    let expected = json!({
        "id": "wallet:dave", "asset": "credit", "kind": "wallet",
        "balance": 10, "held": 0, "available": 10, "credited": 10, "debited": 0,
        "status": "frozen", "balance_max": 50, "metadata": {"plan": "gold", "seat": "4"}, "revision": 1,
    });
    assert_eq!((changed.status, changed.json()), (200, expected.clone()));
    assert_eq!(patch(SERVICE, body).json(), expected, "the same again");
    assert_eq!(server.ask(SERVICE, "GET", "/v1/accounts/wallet:dave", "").json(), expected);
    let stale = patch(SERVICE, r#"{"if_revision":0,"status":"open"}"#);
    assert_eq!((stale.summary().as_str(), &stale.json()["revision"]), ("409 revision_stale", &json!(1)));
    let after =
        patch(SERVICE, r#"{"if_revision":1,"status":"open","balance_max":null,"metadata":{"seat":null}}"#).json();
    assert_eq!((&after["status"], &after["balance_max"]), (&json!("open"), &json!(null)), "{after}");
    assert_eq!((&after["metadata"], &after["revision"]), (&json!({"plan": "gold"}), &json!(2)));
    assert_eq!(patch(SERVICE, r#"{"status":"cold"}"#).summary(), "422 field_invalid");
    assert_eq!(patch(SERVICE, r#"{"metadata":{"":"x"}}"#).summary(), "422 metadata_invalid");
    assert_eq!(patch(SERVICE, r#"{"balance_min":1.5}"#).summary(), "422 field_invalid");
    let login = server.ask("", "POST", "/v1/login", r#"{"user":"dave","password":"dave"}"#).json();
    let dave = login["token"].as_str().unwrap();
    assert_eq!(patch(dave, r#"{"status":"open"}"#).summary(), "403 forbidden");
}

#[test]
fn assets_are_declared_once_and_listed() {
    let server = TestServer::open();
    let declare = |token: &str, body: &str| server.ask(token, "POST", "/v1/assets", body).summary();
    let dave = server.log_in("dave");
    assert_eq!(declare(&dave, ""), "403 forbidden", "whoever may not is told so before what is wrong with the body");
    assert_eq!(declare(SERVICE, r#"{"name":"eur","decimals":2}"#), "201");
    assert_eq!(declare(SERVICE, r#"{"name":"eur","decimals":2}"#), "200");
    assert_eq!(declare(SERVICE, r#"{"name":"eur","decimals":3}"#), "409 asset_exists");
    assert_eq!(declare(SERVICE, r#"{"name":"eur"}"#), "422 field_invalid");
    for decimals in [-1, 256] {
        let answer = server.ask(SERVICE, "POST", "/v1/assets", &format!(r#"{{"name":"gbp","decimals":{decimals}}}"#));
        assert_eq!(answer.summary(), "422 decimals_invalid");
        assert_eq!(answer.json()["detail"], "decimals are 0 to 18");
    }
    let list = server.ask(SERVICE, "GET", "/v1/assets", "").json();
    let eur = json!({"name": "eur", "decimals": 2, "declared": true, "issued": 20, "held": 3});
    assert_eq!(list, json!({ "assets": [eur] }));
    assert_eq!(declare(&dave, r#"{"name":"usd","decimals":2}"#), "403 forbidden");
    let list = server.ask(&dave, "GET", "/v1/assets", "").json();
    assert_eq!(list, json!({"assets": [{"name": "eur", "decimals": 2, "declared": true}]}));
}

#[test]
fn the_operators_pages_say_what_is_so() {
    let server = TestServer::open();
    let health = server.ask("", "GET", "/healthz", "");
    assert_eq!((health.status, health.body.as_str()), (200, r#"{"status":"ok"}"#));
    let audit = server.ask(SERVICE, "GET", "/v1/audit", "").json();
    assert_eq!((&audit["agreed"], &audit["shards"][0]["sequence"]), (&json!(true), &json!(9)));
    let metrics = server.ask(SERVICE, "GET", "/metrics", "");
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"), "{metrics:?}");
    assert!(metrics.body.contains("tidegate_fake 1\n"), "{metrics:?}");
    assert!(metrics.body.contains("tidegate_http_answers_total{status=\"2xx\"} 2\n"), "{metrics:?}");

    server.backend.set_health(Health::Recovering { progress: 0.25 });
    let health = server.ask("", "GET", "/healthz", "");
    assert_eq!(health.summary(), "503 recovering");
    assert_eq!(health.json()["progress"], 0.25);
    assert_eq!(server.ask(SERVICE, "GET", "/v1/audit", "").summary(), "503 recovering");
    server.backend.set_health(Health::Failed { reason: "shard 0: fsync failed".to_owned() });
    assert_eq!(server.ask("", "GET", "/healthz", "").summary(), "503 shard_failed");
}

#[test]
fn unavailability_says_when_to_try_again() {
    let server = TestServer::open();
    let vote = r#"{"id":"v","debit":"wallet:dave","credit":"candidate:3","amount":1}"#;
    for (unavailable, summary) in [
        (Unavailable::Busy, "503 busy"),
        (Unavailable::DiskFull, "503 disk_full"),
        (Unavailable::ShardFailed, "503 shard_failed"),
        (Unavailable::Recovering, "503 recovering"),
        (Unavailable::Stopping, "503 stopping"),
    ] {
        server.backend.unavailable(Some(unavailable));
        let answer = server.ask(SERVICE, "POST", "/v1/transfers", vote);
        assert_eq!(answer.summary(), summary);
        assert!(answer.head.contains("\r\nretry-after: "), "{answer:?}");
    }
    server.backend.unavailable(None);
    assert_eq!(server.ask(SERVICE, "POST", "/v1/transfers", vote).summary(), "201");
}

#[test]
fn a_ledger_that_does_not_answer_is_not_waited_for_for_ever() {
    let limits = HttpLimits { request_timeout: std::time::Duration::from_millis(50), ..HttpLimits::default() };
    let server = TestServer::with(limits);
    server.backend.silent();
    let answer = server.ask(SERVICE, "GET", "/v1/accounts/wallet:dave", "");
    assert_eq!(answer.summary(), "503 timed_out");
}

#[test]
fn unknown_paths_and_methods_are_problems_too() {
    let server = TestServer::open();
    assert_eq!(server.ask(SERVICE, "GET", "/nowhere", "").summary(), "404 path_unknown");
    assert_eq!(server.ask(SERVICE, "GET", "/v1/accounts/", "").summary(), "404 path_unknown");
    for (method, path, allow) in [
        ("DELETE", "/v1/accounts", "allow: post,get,head"),
        ("GET", "/v1/transfers", "allow: post"),
        ("PUT", "/healthz", "allow: get,head"),
    ] {
        let answer = server.ask(SERVICE, method, path, "");
        assert_eq!(answer.summary(), "405 method_not_allowed");
        let mut allowed: Vec<&str> =
            answer.head.lines().find_map(|l| l.strip_prefix("allow: ")).unwrap().split(',').collect();
        let mut expected: Vec<&str> = allow["allow: ".len()..].split(',').collect();
        allowed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(allowed, expected, "{method} {path}");
    }
    assert_eq!(server.ask(SERVICE, "GET", "/v1/accounts/%ff", "").summary(), "400 path_invalid");
    assert_eq!(server.ask(SERVICE, "GET", "/v1/accounts?limit=0", "").summary(), "422 query_invalid");
    assert_eq!(server.ask(SERVICE, "GET", "/v1/accounts?limit=many", "").summary(), "422 query_invalid");
    let unknown = server.ask(SERVICE, "GET", "/v1/accounts?prefx=a", "");
    assert_eq!(unknown.summary(), "422 query_invalid");
    assert!(unknown.json()["detail"].as_str().unwrap().contains("prefx"), "{unknown:?}");
}

#[test]
fn lists_are_paged_in_the_byte_order_of_ids() {
    let server = TestServer::open();
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let page = server.ask(SERVICE, "GET", &format!("/v1/accounts?limit=3&after={after}"), "").json();
        let accounts = page["accounts"].as_array().unwrap();
        assert!(accounts.len() <= 3);
        seen.extend(accounts.iter().map(|account| account["id"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    let mut expected: Vec<String> = (1..=7).map(|number| format!("candidate:{number}")).collect();
    expected.extend(["source:shop", "wallet:carol", "wallet:dave"].map(str::to_owned));
    assert_eq!(seen, expected);
}

#[test]
fn the_openapi_document_has_every_route_and_its_answers() {
    let server = TestServer::open();
    let document = server.ask("", "GET", "/openapi.json", "").json();
    let mut routes: Vec<String> = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let statuses: Vec<&str> = operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
            routes.push(format!("{method} {path}: {}", statuses.join(" ")));
        }
    }
    routes.sort();
    expect_test::expect![[r#"
        delete /v1/drain: 200 401 403 429
        get /healthz: 200 503
        get /metrics: 200 401 403 429
        get /openapi.json: 200 401 403 429
        get /readyz: 200 503
        get /v1/accounts/{id}/holds: 200 400 401 403 404 422 429 500 503
        get /v1/accounts/{id}/transfers: 200 400 401 403 404 422 429 500 503
        get /v1/accounts/{id}: 200 400 401 403 404 422 429 500 503
        get /v1/accounts: 200 400 401 403 404 422 429 500 503
        get /v1/assets: 200 400 401 403 404 422 429 500 503
        get /v1/audit: 200 400 401 403 404 422 429 500 503
        get /v1/changes: 200 400 401 403 404 410 422 429 500 503
        get /v1/drain: 200 401 403 429
        get /v1/holds/{id}: 200 400 401 403 404 422 429 500 503
        get /v1/transfers/{id}: 200 400 401 403 404 422 429 500 503
        patch /v1/accounts/{id}: 200 400 401 403 404 408 409 413 415 422 429 500 503
        post /v1/accounts: 200 201 400 401 403 404 408 409 413 415 422 429 500 503
        post /v1/assets: 200 201 400 401 403 404 408 409 413 415 422 429 500 503
        post /v1/audit: 202 400 401 403 404 422 429 500 503
        post /v1/drain: 202 400 401 403 408 413 415 422 429
        post /v1/holds/post: 200 400 401 403 404 408 409 413 415 422 429 500 503
        post /v1/holds/void: 200 400 401 403 404 408 409 413 415 422 429 500 503
        post /v1/holds/{id}/post: 200 400 401 403 404 408 409 413 415 422 429 500 503
        post /v1/holds/{id}/void: 200 400 401 403 404 408 409 413 415 422 429 500 503
        post /v1/holds: 200 201 400 401 403 404 408 409 413 415 422 429 500 503
        post /v1/login: 200 400 401 408 413 415 422 429 503
        post /v1/transfers: 200 201 400 401 403 404 408 409 413 415 422 429 500 503"#]]
    .assert_eq(&routes.join("\n"));
    let history = &document["paths"]["/v1/accounts/{id}/transfers"]["get"]["responses"]["200"]["content"];
    let reference = |content_type: &str| history[content_type]["schema"]["$ref"].as_str().unwrap().to_owned();
    assert_eq!(reference("application/json"), "#/components/schemas/HistoryBody");
    assert_eq!(reference("application/x-ndjson"), "#/components/schemas/RowBody");
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["TransferBody"]["additionalProperties"], false);
    assert_eq!(schemas["TransferBody"]["required"], json!(["id", "debit", "credit", "amount"]));
    assert_eq!(schemas["ProblemBody"]["properties"]["type"]["type"], "string");
    let codes = schemas["ProblemBody"]["properties"]["code"]["description"].as_str().unwrap();
    for code in ["`insufficient_funds`", "`field_invalid`", "`history_too_long`", "`too_many_requests`", "`damaged`"] {
        assert!(codes.contains(code), "{code}: {codes}");
    }
}

#[test]
fn the_voting_page_is_whole_and_loads_nothing_from_elsewhere() {
    let server = TestServer::open();
    let page = server.ask("", "GET", "/demo", "");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-security-policy: default-src 'none'"), "{}", page.head);
    let stage = server.ask("", "GET", "/demo/stage", "");
    assert_eq!(stage.status, 200);
    let own =
        [(&page, "/demo/demo.css"), (&page, "/demo/demo.js"), (&stage, "/demo/stage.css"), (&stage, "/demo/stage.js")];
    for (page, part) in own {
        assert!(page.body.contains(part), "the page loads {part}");
        assert_eq!(server.ask("", "GET", part, "").status, 200);
        assert!(!page.body.contains("://"), "{}", page.body);
        assert!(!page.head.contains("unsafe"), "{}", page.head);
    }
    for (slash, without) in [("/demo/", "/demo"), ("/demo/stage/", "/demo/stage")] {
        let led = server.ask("", "GET", slash, "");
        assert!(led.status == 307 && led.head.contains(&format!("location: {without}\r\n")), "{}", led.head);
    }
    for unknown in ["/demo/other.js", "/demo/demo.js/", "/demo/picture-0", "/demo/picture-x"] {
        assert_eq!(server.ask("", "GET", unknown, "").status, 404, "{unknown}");
    }
}

#[test]
fn the_stage_gets_codes_of_addresses_only() {
    let server = TestServer::open();
    let code = |url: &str| server.ask("", "GET", &format!("/demo/qr.svg?url={url}"), "");
    let drawn = code("http%3A%2F%2Fvote.example%2Fdemo");
    assert_eq!(drawn.status, 200);
    assert!(drawn.head.contains("content-type: image/svg+xml"), "{}", drawn.head);
    assert!(drawn.body.starts_with("<svg ") && !drawn.body.contains("vote.example"), "{}", drawn.body);
    // The longest has version 10: 57 modules and four of white on each side.
    let longest = format!("http://{}", "a".repeat(206));
    assert!(code(&longest).body.contains("viewBox=\"0 0 65 65\""));
    for wrong in ["", "javascript:alert(1)", &format!("{longest}a")] {
        let refused = code(wrong);
        assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("url")), "{wrong}");
    }
}

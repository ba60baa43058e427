//! In which space an id is unique, over HTTP.

use serde_json::{Value, json};

use super::server::{SERVICE, TestServer};

fn body(id: &str, debit: &str, credit: &str) -> String {
    json!({"id": id, "debit": debit, "credit": credit, "amount": 1}).to_string()
}

fn hold(id: &str, wallet: &str) -> String {
    json!({"id": id, "debit": wallet, "credit": "candidate:1", "amount": 1, "expires_in_ms": 60_000}).to_string()
}

fn rows(server: &TestServer, token: &str, account: &str) -> Vec<Value> {
    let answer = server.ask(token, "GET", &format!("/v1/accounts/{account}/transfers"), "");
    answer.json()["transfers"].as_array().unwrap().clone()
}

#[test]
fn a_viewer_takes_no_id_of_the_shop_and_two_viewers_do_not_collide() {
    let server = TestServer::open();
    let (dave, carol) = (server.log_in("dave"), server.log_in("carol"));
    let ask = |token: &str, body: String| server.ask(token, "POST", "/v1/transfers", &body).summary();
    assert_eq!(ask(&dave, body("order-18", "wallet:dave", "candidate:1")), "201");
    assert_eq!(ask(&carol, body("order-18", "wallet:carol", "candidate:1")), "201");
    assert_eq!(ask(SERVICE, body("order-18", "source:shop", "wallet:dave")), "201");
    assert_eq!(ask(&dave, body("order-18", "wallet:dave", "candidate:1")), "200", "its own id is used");
    assert_eq!(ask(SERVICE, body("order-18", "source:shop", "wallet:carol")), "409 id_reused");

    let of_dave = rows(&server, &dave, "wallet:dave");
    assert_eq!(of_dave.iter().filter(|row| row["id"] == "order-18").count(), 2, "{of_dave:?}");
    assert!(of_dave.iter().all(|row| row.get("id_space").is_none()), "{of_dave:?}");
    let of_shop = rows(&server, SERVICE, "wallet:dave");
    let spaces: Vec<_> = of_shop.iter().map(|row| (row["id"].as_str(), row.get("id_space").is_some())).collect();
    assert!(spaces.contains(&(Some("order-18"), true)), "{of_shop:?}");
    assert!(spaces.contains(&(Some("order-18"), false)), "its own has none: {of_shop:?}");
}

#[test]
fn a_client_cannot_write_the_name_of_a_space_into_an_id() {
    let server = TestServer::open();
    let (dave, carol) = (server.log_in("dave"), server.log_in("carol"));
    assert_eq!(server.ask(&dave, "POST", "/v1/transfers", &body("v", "wallet:dave", "candidate:1")).status, 201);
    for (token, wallet) in [(SERVICE, "wallet:dave"), (&*carol, "wallet:carol"), (&*dave, "wallet:dave")] {
        let answer = server.ask(token, "POST", "/v1/transfers", &body("dave\u{1f}v", wallet, "candidate:1"));
        assert_eq!(answer.summary(), "422 id_invalid");
    }
}

#[test]
fn a_service_settles_the_hold_of_a_viewer_by_naming_the_viewer() {
    let server = TestServer::open();
    let (dave, carol) = (server.log_in("dave"), server.log_in("carol"));
    assert_eq!(server.ask(&dave, "POST", "/v1/holds", &hold("h", "wallet:dave")).status, 201);
    let post = |token: &str, path: &str| server.ask(token, "POST", path, "").summary();
    assert_eq!(post(SERVICE, "/v1/holds/h/post"), "404 hold_not_found", "its own space has no such hold");
    assert_eq!(post(SERVICE, "/v1/holds/dave%1fh/post"), "422 id_invalid");
    for token in [&carol, &dave] {
        assert_eq!(post(token, "/v1/holds/h/post"), "403 forbidden");
        assert_eq!(post(token, "/v1/holds/h/void?id_space=dave"), "403 forbidden");
    }
    assert_eq!(post(SERVICE, "/v1/holds/h/post?id_space=carol"), "404 hold_not_found");
    assert_eq!(post(SERVICE, "/v1/holds/h/post?id_space=a%1fb"), "422 query_invalid");
    assert_eq!(post(SERVICE, "/v1/holds/h/post?id_space=dave"), "200");
}

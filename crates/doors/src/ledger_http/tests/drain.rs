//! `/v1/drain`, called as an operator calls it.

use serde_json::json;

use super::server::{SERVICE, SHOP, TestServer};

#[test]
fn an_operator_sends_clients_away_and_sees_how_many_are_left() {
    let server = TestServer::open();
    server.backend.set_clients(3);
    let before = server.ask(SERVICE, "GET", "/v1/drain", "");
    assert_eq!((before.status, before.json()), (200, json!({"draining": false, "clients": 3})));
    let begun = server.ask(SERVICE, "POST", "/v1/drain", r#"{"rate":500}"#);
    assert_eq!((begun.status, begun.json()), (202, json!({"draining": true, "rate": 500, "clients": 3})));
    server.backend.set_clients(0);
    assert_eq!(server.ask(SERVICE, "POST", "/v1/drain", r#"{"rate":9}"#).status, 202);
    assert_eq!(server.ask(SERVICE, "GET", "/v1/drain", "").json(), json!({"draining": true, "rate": 9, "clients": 0}));
}

#[test]
fn nobody_else_does_and_a_rate_is_a_rate() {
    let server = TestServer::open();
    let dave = server.log_in("dave");
    for (token, answer) in [("", "401 token_missing"), (SHOP, "403 forbidden"), (&dave, "403 forbidden")] {
        assert_eq!(server.ask(token, "POST", "/v1/drain", r#"{"rate":1}"#).summary(), answer);
        assert_eq!(server.ask(token, "GET", "/v1/drain", "").summary(), answer);
    }
    for (body, answer) in [
        (r#"{"rate":0}"#, "422 rate_invalid"),
        (r#"{"rate":4294967296}"#, "422 rate_invalid"),
        (r#"{"rate":-1}"#, "422 field_invalid"),
        (r#"{}"#, "422 field_invalid"),
        (r#"{"rate":1,"to":"b"}"#, "422 field_invalid"),
        ("", "400 json_invalid"),
    ] {
        assert_eq!(server.ask(SERVICE, "POST", "/v1/drain", body).summary(), answer, "{body}");
    }
    assert_eq!(server.ask(SERVICE, "GET", "/v1/drain", "").json()["draining"], false);
}

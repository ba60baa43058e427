//! Sending clients away, as an operator asks for it.

use serde_json::json;

use super::house::{House, SERVICE, SHOP};

#[test]
fn an_operator_sends_clients_away_and_sees_how_many_are_left() {
    let house = House::open();
    house.backend.set_clients(3);
    let before = house.ask(SERVICE, "GET", "/v1/drain", "");
    assert_eq!((before.status, before.json()), (200, json!({"draining": false, "clients": 3})));
    let begun = house.ask(SERVICE, "POST", "/v1/drain", r#"{"rate":500}"#);
    assert_eq!((begun.status, begun.json()), (202, json!({"draining": true, "rate": 500, "clients": 3})));
    house.backend.set_clients(0);
    assert_eq!(house.ask(SERVICE, "POST", "/v1/drain", r#"{"rate":9}"#).status, 202);
    assert_eq!(house.ask(SERVICE, "GET", "/v1/drain", "").json(), json!({"draining": true, "rate": 9, "clients": 0}));
}

#[test]
fn nobody_else_does_and_a_rate_is_a_rate() {
    let house = House::open();
    let dave = house.log_in("dave");
    for (token, answer) in [("", "401 token_missing"), (SHOP, "403 forbidden"), (&dave, "403 forbidden")] {
        assert_eq!(house.ask(token, "POST", "/v1/drain", r#"{"rate":1}"#).summary(), answer);
        assert_eq!(house.ask(token, "GET", "/v1/drain", "").summary(), answer);
    }
    for (body, answer) in [
        (r#"{"rate":0}"#, "422 rate_invalid"),
        (r#"{"rate":4294967296}"#, "422 rate_invalid"),
        (r#"{"rate":-1}"#, "422 field_invalid"),
        (r#"{}"#, "422 field_invalid"),
        (r#"{"rate":1,"to":"b"}"#, "422 field_invalid"),
        ("", "400 json_invalid"),
    ] {
        assert_eq!(house.ask(SERVICE, "POST", "/v1/drain", body).summary(), answer, "{body}");
    }
    assert_eq!(house.ask(SERVICE, "GET", "/v1/drain", "").json()["draining"], false);
}

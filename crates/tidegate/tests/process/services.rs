//! Services that are made, changed and deleted over HTTP while the server runs, beside those of the file.

use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::http::{Answer, Http};
use crate::reload::{Client, reload};
use crate::{SERVICE, Server, Settings, audit, folder, wait_for};

/// What the API may give.
const GIVEN: &str = r#"api_grants = ["publish:cam/#", "subscribe:#", "operate:read"]"#;

/// Somebody who operates and may do nothing else, and somebody who only looks.
const OPERATED: &str = r#"
[[service]]
name = "desk"
token = "a-token-of-the-desk"
grants = ["operate:write", "operate:read"]

[[service]]
name = "looker"
token = "a-token-that-may-look"
grants = ["operate:read"]
"#;

fn settings(folder: &Path, auth: &str, sections: &str) -> Settings {
    let (auth, sections) = (auth.to_owned(), sections.to_owned());
    Settings { mqtt: true, workers: 2, auth, sections, ..Settings::new(folder) }
}

fn over(server: &Server, token: &str) -> Http<TcpStream> {
    Http::over(TcpStream::connect(server.http).expect("the door is open"), token)
}

fn said(answer: std::io::Result<Answer>) -> String {
    let answer = answer.expect("the door answers");
    format!("{} {}", answer.status, answer.code())
}

fn ok(answer: std::io::Result<Answer>) -> Value {
    let answer = answer.expect("the door answers");
    assert!((200..300).contains(&answer.status), "{answer:?}");
    answer.body
}

fn token_of(made: &Value) -> String {
    made["token"].as_str().unwrap_or_else(|| panic!("no token: {made}")).to_owned()
}

/// What an MQTT client with this token is told.
fn connect(server: &Server, token: &str) -> (Client, String) {
    Client::connect(server, None, Some(token))
}

#[test]
fn a_service_of_the_api_survives_a_crash_and_ends_when_it_is_deleted() {
    let folder = folder();
    let settings = settings(folder.path(), GIVEN, OPERATED);
    let server = Server::start(&settings);
    let mut desk = over(&server, "a-token-of-the-desk");
    let cam = json!({"grants": ["publish:cam/%u/#", "operate:read"]});
    let made = ok(desk.put("/v1/services/cam-7", &cam));
    let token = token_of(&made);
    assert_eq!(made["grants"], cam["grants"]);
    assert_eq!(connect(&server, &token).1, "connack 0x0", "in force when it was answered");
    // The same again is the same, and shows no token.
    assert_eq!(ok(desk.put("/v1/services/cam-7", &cam)), json!({"name": "cam-7", "grants": cam["grants"]}));
    server.kill();

    let server = Server::start(&settings);
    let mut own = over(&server, &token);
    let listed = ok(own.get("/v1/services"));
    assert_eq!(listed, json!({"services": [{"name": "cam-7", "grants": cam["grants"]}]}));
    let (mut device, answer) = connect(&server, &token);
    assert_eq!((&*answer, &*device.ping()), ("connack 0x0", "pingresp"));

    // Another token ends who showed the one before; deleting it ends who showed that.
    let mut desk = over(&server, "a-token-of-the-desk");
    let rotated = token_of(&ok(desk.post("/v1/services/cam-7/token", &json!({}))));
    assert_eq!(device.receive(), "disconnect 0x87 None");
    assert_eq!(said(own.get("/v1/services")), "401 token_invalid");
    let (mut device, answer) = connect(&server, &rotated);
    assert_eq!((&*answer, &*device.ping()), ("connack 0x0", "pingresp"));
    assert_eq!(ok(desk.delete("/v1/services/cam-7")), json!({"name": "cam-7", "outcome": "deleted"}));
    assert_eq!(device.receive(), "disconnect 0x87 None");
    wait_for("the security log says who did it", || {
        let log = server.log();
        let is_it = |line: &str| line.contains("delete service cam-7") && line.contains("principal=\"desk\"");
        log.lines().any(is_it).then_some(())
    });
    assert_ne!(connect(&server, &rotated).1, "connack 0x0");
    assert_eq!(said(over(&server, &rotated).get("/v1/services")), "401 token_invalid");
    assert_eq!(said(desk.delete("/v1/services/cam-7")), "404 service_not_found");
    assert!(server.terminate().status.success());

    let server = Server::start(&settings);
    assert_eq!(ok(over(&server, "a-token-of-the-desk").get("/v1/services")), json!({"services": []}));
    assert!(server.terminate().status.success());
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
}

#[test]
fn nobody_gives_more_than_the_configuration_allows() {
    let folder = folder();
    let given = settings(folder.path(), GIVEN, OPERATED);
    let server = Server::start(&given);
    let mut desk = over(&server, "a-token-of-the-desk");
    for grant in ["*", "transfers:*", "operate:write", "publish:#", "accounts:open"] {
        let body = json!({"grants": ["publish:cam/1", grant]});
        assert_eq!(said(desk.put("/v1/services/cam", &body)), "403 grant_not_allowed", "{grant}");
    }
    // Nor does somebody who may do everything.
    assert_eq!(said(over(&server, SERVICE).put("/v1/services/x", &json!({"grants": ["*"]}))), "403 grant_not_allowed");
    assert_eq!(said(desk.put("/v1/services/cam", &json!({"grants": ["nonsense"]}))), "422 service_invalid");
    assert_eq!(said(desk.put("/v1/services/%20", &json!({"grants": []}))), "422 service_invalid");
    assert_eq!(said(desk.put("/v1/services/looker", &json!({"grants": []}))), "409 service_in_configuration");
    assert_eq!(said(desk.delete("/v1/services/looker")), "409 service_in_configuration");
    assert_eq!(said(desk.post("/v1/services/desk/token", &json!({}))), "409 service_in_configuration");
    let mut looker = over(&server, "a-token-that-may-look");
    assert_eq!(said(looker.put("/v1/services/cam", &json!({"grants": []}))), "403 forbidden");
    assert_eq!(said(looker.delete("/v1/services/cam")), "403 forbidden");
    assert_eq!(ok(looker.get("/v1/services")), json!({"services": []}));

    // What the configuration takes back, services lose; a name that it takes, it has.
    let token = token_of(&ok(desk.put("/v1/services/cam", &json!({"grants": ["operate:read"]}))));
    ok(desk.put("/v1/services/stage", &json!({"grants": []})));
    assert_eq!(ok(over(&server, &token).get("/v1/services?limit=1"))["next"], "cam");
    let narrow = GIVEN.replace(", \"operate:read\"", "");
    settings(folder.path(), &narrow, &OPERATED.replace("\"looker\"", "\"stage\"")).write();
    reload(&server, 1, "reloaded users, services, rules and certificates");
    assert_eq!(said(over(&server, &token).get("/v1/services")), "403 forbidden");
    let mut desk = over(&server, "a-token-of-the-desk");
    let listed = ok(desk.get("/v1/services"));
    let expected = json!({"services": [
        {"name": "cam", "grants": ["operate:read"], "withheld": ["operate:read"]},
        {"name": "stage", "grants": [], "hidden": true},
    ]});
    assert_eq!(listed, expected);
    assert!(server.terminate().status.success());
}

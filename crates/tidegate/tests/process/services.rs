//! Services that are made, changed and deleted over HTTP while the server runs, beside those of the file.

use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};

use crate::backup::{backup, restored};
use crate::http::{Answer, Http};
use crate::reload::{Client, reload};
use crate::rights::{DAVE, log_in};
use crate::stream::Stream;
use crate::votes::{connect as connect_all, open_show};
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

/// A server with MQTT, these keys of `[auth]` and these sections.
pub fn settings(folder: &Path, auth: &str, sections: &str) -> Settings {
    let (auth, sections) = (auth.to_owned(), sections.to_owned());
    Settings { mqtt: true, workers: 2, auth, sections, ..Settings::new(folder) }
}

/// Who has this token, at the HTTP door.
pub fn over(server: &Server, token: &str) -> Http<TcpStream> {
    Http::over(TcpStream::connect(server.http).expect("the door is open"), token)
}

/// Status and code of an answer.
pub fn said(answer: std::io::Result<Answer>) -> String {
    let answer = answer.expect("the door answers");
    format!("{} {}", answer.status, answer.code())
}

/// The body of an answer that is no refusal.
pub fn ok(answer: std::io::Result<Answer>) -> Value {
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

/// The log has a line of an act of this caller with this outcome.
fn is_told(server: &Server, act: &str, who: &str, outcome: &str) {
    let parts = [format!("who=\"{who}\""), format!("act=\"{act}\""), format!("outcome=\"{outcome}\"")];
    wait_for("the log says who asked for what", || {
        let is_it = |line: &str| parts.iter().all(|part| line.contains(part));
        server.log().lines().any(is_it).then_some(())
    });
}

#[test]
fn only_who_operates_sees_and_changes_services() {
    let folder = folder();
    let sections = format!("{OPERATED}{DAVE}");
    let server = Server::start(&settings(folder.path(), GIVEN, &sections));
    let body = json!({"grants": ["publish:cam/%u/#"]});
    let mut desk = over(&server, "a-token-of-the-desk");
    let token = token_of(&ok(desk.put("/v1/services/cam-7", &body)));
    let dave = log_in(&server, "dave", "dave");
    // One of the API that was not given it, a viewer, nobody, and somebody whose token is wrong.
    for (token, refused) in [
        (&*token, "403 forbidden"),
        (&dave, "403 forbidden"),
        ("", "401 token_missing"),
        ("wrong", "401 token_invalid"),
    ] {
        let mut http = over(&server, token);
        assert_eq!(said(http.get("/v1/services")), refused);
        assert_eq!(said(http.get("/v1/services/cam-7")), refused);
        assert_eq!(said(http.put("/v1/services/cam-7", &json!({"grants": []}))), refused);
        assert_eq!(said(http.put("/v1/services/mine", &body)), refused);
        assert_eq!(said(http.post("/v1/services/cam-7/token", &json!({}))), refused);
        assert_eq!(said(http.delete("/v1/services/cam-7")), refused);
    }
    // Who looks, only looks.
    let mut looker = over(&server, "a-token-that-may-look");
    assert_eq!(ok(looker.get("/v1/services/cam-7")), json!({"name": "cam-7", "grants": body["grants"]}));
    assert_eq!(said(looker.post("/v1/services/cam-7/token", &json!({}))), "403 forbidden");
    is_told(&server, "rotate token", "looker", "forbidden");
    is_told(&server, "delete service", "dave", "forbidden");
    is_told(&server, "put service", "desk", "done");
    // Nothing of it was done, and no token or hash is in the log.
    assert_eq!(connect(&server, &token).1, "connack 0x0");
    assert_eq!(ok(desk.get("/v1/services"))["services"].as_array().map(Vec::len), Some(1));
    let hash: String =
        tidegate_doors::auth::service_token_hash(&token).iter().map(|byte| format!("{byte:02x}")).collect();
    let log = server.log();
    assert!(!log.contains(&token) && !log.contains(&hash), "{log}");
}

#[test]
fn services_survive_restarts_and_backups_as_they_were_last() {
    let folder = folder();
    let given = settings(folder.path(), GIVEN, OPERATED);
    let server = Server::start(&given);
    let mut desk = over(&server, "a-token-of-the-desk");
    let first = token_of(&ok(desk.put("/v1/services/cam", &json!({"grants": ["publish:cam/1"]}))));
    let second = token_of(&ok(desk.post("/v1/services/cam/token", &json!({}))));
    ok(desk.put("/v1/services/cam", &json!({"grants": ["operate:read"]})));
    ok(desk.put("/v1/services/gone", &json!({"grants": []})));
    ok(desk.delete("/v1/services/gone"));
    let backups = folder.path().join("backups");
    backup(&given.data, &backups);
    let later = token_of(&ok(desk.put("/v1/services/later", &json!({"grants": []}))));
    assert!(server.terminate().status.success());

    let as_backed_up = json!([{"name": "cam", "grants": ["operate:read"]}]);
    let as_last = json!([{"name": "cam", "grants": ["operate:read"]}, {"name": "later", "grants": []}]);
    let other = Settings { data: folder.path().join("restored"), ..given.clone() };
    restored(&backups, &other.data, &[]);
    for (settings, services, later_is_told) in
        [(&given, &as_last, "connack 0x0"), (&given, &as_last, "connack 0x0"), (&other, &as_backed_up, "connack 0x86")]
    {
        let server = Server::start(settings);
        assert_eq!(ok(over(&server, &second).get("/v1/services"))["services"], *services);
        assert_eq!(said(over(&server, &first).get("/v1/services")), "401 token_invalid");
        assert_eq!(connect(&server, &later).1, later_is_told);
        assert!(server.terminate().status.success());
    }
}

#[test]
fn a_name_that_the_file_takes_is_the_files_from_the_start_and_comes_back_when_it_leaves() {
    let folder = folder();
    let given = settings(folder.path(), GIVEN, OPERATED);
    let server = Server::start(&given);
    let mut desk = over(&server, "a-token-of-the-desk");
    let token = token_of(&ok(desk.put("/v1/services/cam", &json!({"grants": ["operate:read"]}))));
    assert!(server.terminate().status.success());

    let taken = format!("{OPERATED}\n[[service]]\nname = \"cam\"\ntoken = \"the-token-of-the-file\"\ngrants = []\n");
    let server = Server::start(&settings(folder.path(), GIVEN, &taken));
    assert_eq!(said(over(&server, &token).get("/v1/services")), "401 token_invalid");
    assert_eq!(said(over(&server, "the-token-of-the-file").get("/v1/services")), "403 forbidden");
    let mut desk = over(&server, "a-token-of-the-desk");
    let listed = json!({"services": [{"name": "cam", "grants": ["operate:read"], "hidden": true}]});
    assert_eq!(ok(desk.get("/v1/services")), listed);
    for refused in [
        desk.put("/v1/services/cam", &json!({"grants": []})),
        desk.post("/v1/services/cam/token", &json!({})),
        desk.delete("/v1/services/cam"),
    ] {
        assert_eq!(said(refused), "409 service_in_configuration");
    }
    // The file's connections do not outlive it, and the API's service is as it was.
    let (mut of_file, answer) = connect(&server, "the-token-of-the-file");
    assert_eq!(answer, "connack 0x0");
    given.write();
    reload(&server, 1, "reloaded users, services, rules and certificates");
    assert_eq!(of_file.receive(), "disconnect 0x87 None");
    assert_eq!(ok(over(&server, &token).get("/v1/services"))["services"][0].get("hidden"), None);
    assert!(server.terminate().status.success());
}

#[test]
fn a_service_that_is_deleted_is_gone_at_every_door() {
    let folder = folder();
    let given = r#"api_grants = ["accounts:open", "read:*", "publish:#"]"#;
    let server = Server::start(&settings(folder.path(), given, OPERATED));
    open_show(&mut connect_all(&server));
    let mut desk = over(&server, "a-token-of-the-desk");
    let made = |desk: &mut Http<TcpStream>, name: &str| {
        let body = json!({"grants": ["accounts:open", "read:*", "publish:#"]});
        token_of(&ok(desk.put(&format!("/v1/services/{name}"), &body)))
    };
    let (token, other) = (made(&mut desk, "gone"), made(&mut desk, "stays"));
    let kind = tidegate_client::AccountKind::Wallet;
    let open =
        |id: &str, binary: &mut tidegate_client::Client<TcpStream>| binary.open_account(id, "credit", kind).map(|_| ());
    let doors = |token: &str| {
        let mut http = over(&server, token);
        assert_eq!(ok(http.get("/v1/accounts/wallet:dave"))["id"], "wallet:dave");
        let mut stream = Stream::open(server.http, token, "/v1/changes?after=start", "application/x-ndjson", "");
        assert!(stream.row().is_some(), "{}", stream.head);
        let mut binary = tidegate_client::Client::connect(server.binary, token).expect("the token is good");
        open(&format!("wallet:{}", &token[..8]), &mut binary).expect("it may");
        let (mqtt, answer) = connect(&server, token);
        assert_eq!(answer, "connack 0x0");
        (http, stream, binary, mqtt)
    };
    let (mut http, mut stream, mut binary, mut mqtt) = doors(&token);
    let (mut its_http, _its_stream, mut its_binary, mut its_mqtt) = doors(&other);
    assert_eq!(ok(desk.delete("/v1/services/gone"))["outcome"], "deleted");

    assert_eq!(mqtt.receive(), "disconnect 0x87 None");
    assert_eq!(said(http.get("/v1/accounts/wallet:dave")), "401 token_invalid");
    // A stream that goes on says so every few seconds.
    let heartbeats = std::iter::from_fn(|| stream.row()).filter(|row| row["kind"] == "heartbeat");
    assert!(heartbeats.take(4).count() < 4, "the stream goes on");
    wait_for("the binary connection ends", || open("wallet:late", &mut binary).err());
    assert!(tidegate_client::Client::connect(server.binary, &token).is_err());
    assert_eq!(connect(&server, &token).1, "connack 0x86");
    // The other one has felt nothing.
    assert_eq!(its_mqtt.ping(), "pingresp");
    assert_eq!(ok(its_http.get("/v1/accounts/wallet:dave"))["id"], "wallet:dave");
    open("wallet:its", &mut its_binary).expect("its connection is open");
    assert!(server.terminate().status.success());
}

#[test]
fn what_is_no_service_is_refused_and_changes_nothing() {
    let folder = folder();
    let mut given = settings(folder.path(), GIVEN, OPERATED);
    given.limits = "api_services_max = 2\n".into();
    let server = Server::start(&given);
    let mut desk = over(&server, "a-token-of-the-desk");
    let none = json!({"grants": []});
    let long = "n".repeat(65);
    // Too long, and names that a person cannot tell from others: spaces at the ends, characters that nobody sees, that
    // turn the line around, or that are none.
    for name in [
        &*long,
        "%20cam",
        "cam%20",
        "ca%00m",
        "ca%0Am",
        "ca%1Bm",
        "ca%C2%A0m",
        "ca%E2%80%8Bm",
        "ca%E2%80%AEm",
        "ca%EF%BB%BFm",
        "cam%C2%AD",
    ] {
        assert_eq!(said(desk.put(&format!("/v1/services/{name}"), &none)), "422 service_invalid", "{name}");
        assert_eq!(said(desk.delete(&format!("/v1/services/{name}"))), "404 service_not_found", "{name}");
    }
    assert_eq!(said(desk.put("/v1/services/%FF", &none)), "400 path_invalid");
    assert_eq!(said(desk.put("/v1/services/", &none)), "404 path_unknown");
    let (grant, grants) = ("publish:cam/".to_owned() + &"x".repeat(4_085), vec!["publish:cam/1"; 65]);
    for (body, refused) in [
        (json!({}), "422 field_invalid"),
        (json!([]), "422 field_invalid"),
        (json!({"grants": "publish:cam/1"}), "422 field_invalid"),
        (json!({"grants": [1]}), "422 field_invalid"),
        (json!({"grants": [], "token": "mine"}), "422 field_invalid"),
        (json!({"grants": [], "token_sha256": "00"}), "422 field_invalid"),
        (json!({"grants": [], "id_space": "dave"}), "422 field_invalid"),
        (json!({"grants": grants}), "422 service_invalid"),
        (json!({"grants": [grant]}), "422 service_invalid"),
        (json!({"grants": ["publish:"]}), "422 service_invalid"),
        (json!({"grants": ["publish:cam/1", ""]}), "422 service_invalid"),
    ] {
        assert_eq!(said(desk.put("/v1/services/cam", &body)), refused, "{body}");
    }
    assert_eq!(said(desk.get("/v1/services?limit=0")), "422 query_invalid");
    assert_eq!(said(desk.get("/v1/services?whose=mine")), "422 query_invalid");
    assert_eq!(ok(desk.get("/v1/services")), json!({"services": []}));

    // The largest that there may be, and as many as there may be.
    let largest = "publish:cam/".to_owned() + &"x".repeat(4_084);
    ok(desk.put(&format!("/v1/services/{}", &long[1..]), &json!({"grants": [largest]})));
    let token = token_of(&ok(desk.put("/v1/services/cam", &none)));
    assert_eq!(said(desk.put("/v1/services/third", &none)), "409 services_too_many");
    ok(desk.put("/v1/services/cam", &json!({"grants": ["operate:read"]})));
    assert!(server.terminate().status.success());
    // Fewer are allowed from now on: those that there are stay.
    given.limits = "api_services_max = 1\n".into();
    let server = Server::start(&given);
    assert_eq!(ok(over(&server, &token).get("/v1/services"))["services"].as_array().map(Vec::len), Some(2));
    let mut desk = over(&server, "a-token-of-the-desk");
    ok(desk.delete("/v1/services/cam"));
    assert_eq!(said(desk.put("/v1/services/cam", &none)), "409 services_too_many");
    ok(desk.delete(&format!("/v1/services/{}", &long[1..])));
    ok(desk.put("/v1/services/cam", &none));
    assert!(server.terminate().status.success());
}

//! A name is more than a label: rules permit something to who has it, and `%u` stands for it. A role is, too: rules and
//! ordinary topics are open to it. Nobody who is made through the API gets by either what the file gives to another.

use serde_json::{Value, json};

use crate::folder;
use crate::reload::{Client, reload};
use crate::rights::DAVE;
use crate::services::{ok, over, said, settings};
use crate::{SERVICE, Server};

/// What the API may give: next to nothing.
const GIVEN: &str = "api_grants = [\"publish:cam/#\"]\napi_wallets = [\"wallet:{user}\"]";

/// Topics for a user of the file, for a service of it, for somebody of neither, and an inbox for each; and a rule that
/// gives nothing.
const RULES: &str = r#"
[mqtt]
ordinary_topics = "nobody"

[[service]]
name = "stage"
token = "a-token-of-the-stage"
grants = []

[[identity_provider]]
name = "show"
issuer = "http://127.0.0.1:1"
audience = ["tidegate"]
jwks_url = "http://127.0.0.1:1/jwks"
role = "viewer"

[[acl]]
effect = "permit"
user = "boss"
topics = ["control/#"]

[[acl]]
effect = "deny"
user = "cam"
topics = ["inbox/cam/secret"]

[[acl]]
effect = "permit"
topics = ["inbox/%u/#"]
"#;

const PASSWORD: &str = "a password of nobody";

const RELOADED: &str = "reloaded users, services, rules and certificates";

fn service() -> Value {
    json!({"grants": ["publish:cam/1"]})
}

fn viewer() -> Value {
    json!({"role": "viewer", "password": PASSWORD})
}

#[test]
fn nobody_of_the_api_has_a_name_that_the_file_has() {
    let folder = folder();
    let rules = format!("{DAVE}{RULES}");
    let server = Server::start(&settings(folder.path(), GIVEN, &rules));
    let mut http = over(&server, SERVICE);
    for name in ["dave", "stage", "boss"] {
        let answer = http.put(&format!("/v1/services/{name}"), &service());
        assert_eq!(said(answer), "409 service_in_configuration", "{name}");
        let answer = http.put(&format!("/v1/users/{name}"), &viewer());
        assert_eq!(said(answer), "409 user_in_configuration", "{name}");
    }
    assert_eq!(said(http.put("/v1/services/show:dave", &service())), "409 service_in_configuration");
    // A rule that only denies gives nobody a name, and holds for who has it.
    let token = ok(http.put("/v1/services/cam", &service()))["token"].as_str().expect("it is new").to_owned();
    ok(http.put("/v1/users/erin", &viewer()));
    let (mut cam, answer) = Client::connect(&server, None, Some(&token));
    assert_eq!(answer, "connack 0x0");
    assert_eq!(cam.subscribe("inbox/cam/secret"), "suback 0x87");
    assert_eq!(cam.subscribe("inbox/cam/1"), "suback 0x0", "its own");
    let (mut erin, answer) = Client::connect(&server, Some("erin"), Some(PASSWORD));
    assert_eq!(answer, "connack 0x0");
    assert_eq!(erin.subscribe("control/1"), "suback 0x87");

    // A name that a rule gives something from now on, they lose.
    let permits = |user: &str| format!("\n[[acl]]\neffect = \"permit\"\nuser = \"{user}\"\ntopics = [\"control/#\"]\n");
    settings(folder.path(), GIVEN, &format!("{rules}{}{}", permits("cam"), permits("erin"))).write();
    reload(&server, 1, RELOADED);
    assert_eq!((cam.receive(), erin.receive()), ("disconnect 0x87 None".to_owned(), "disconnect 0x87 None".to_owned()));
    for (kind, name) in [("services", "cam"), ("users", "erin")] {
        assert_eq!(ok(http.get(&format!("/v1/{kind}")))[kind][0]["hidden"], true, "{name}");
        server
            .says(&format!("the configuration has this name now, and the {} of this name", kind.trim_end_matches('s')));
    }
    assert!(server.terminate().status.success());
}

#[test]
fn without_a_bound_there_is_nobody_of_the_api() {
    let folder = folder();
    let open = RULES.replace("\"nobody\"", "\"authenticated\"");
    let server = Server::start(&settings(folder.path(), "", &open));
    let mut http = over(&server, SERVICE);
    let role_service = json!({"role": "service", "password": PASSWORD});
    let refused = |http: &mut crate::http::Http<std::net::TcpStream>| {
        assert_eq!(said(http.put("/v1/services/cam", &json!({"grants": []}))), "403 grant_not_allowed");
        assert_eq!(said(http.put("/v1/users/till", &role_service)), "403 grant_not_allowed");
        assert_eq!(said(http.put("/v1/users/erin", &viewer())), "403 wallet_not_allowed");
    };
    refused(&mut http);

    settings(folder.path(), GIVEN, &open).write();
    reload(&server, 1, RELOADED);
    let token =
        ok(http.put("/v1/services/cam", &json!({"grants": []})))["token"].as_str().expect("it is new").to_owned();
    ok(http.put("/v1/users/till", &role_service));
    ok(http.put("/v1/users/erin", &viewer()));
    let come_in = || {
        [(None, &*token), (Some("till"), PASSWORD), (Some("erin"), PASSWORD)].map(|(user, password)| {
            let (client, answer) = Client::connect(&server, user, Some(password));
            (answer == "connack 0x0").then_some(client)
        })
    };
    let came = come_in().map(|client| client.expect("it may come in"));

    // Taken away, nobody may come in any more, and whoever was there is gone; they can still be deleted.
    settings(folder.path(), "", &open).write();
    reload(&server, 2, RELOADED);
    for mut client in came {
        assert_eq!(client.receive(), "disconnect 0x87 None");
    }
    assert!(come_in().iter().all(Option::is_none));
    refused(&mut http);
    assert_eq!(ok(http.get("/v1/services/cam"))["hidden"], true);
    for path in ["/v1/services/cam", "/v1/users/till", "/v1/users/erin"] {
        assert_eq!(ok(http.delete(path))["outcome"], "deleted");
    }
    assert!(server.terminate().status.success());
}

//! Users that are made, changed and deleted over HTTP while the server runs, beside those of the file.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::commands::{Operator, command};
use crate::http::Http;
use crate::reload::{Client, reload};
use crate::rights::log_in;
use crate::services::{ok, over, said, settings};
use crate::{SERVICE, Server, Settings, audit, folder, wait_for};

/// What the API may give.
const GIVEN: &str = "api_grants = [\"publish:desk/#\"]\napi_wallets = [\"wallet:{user}\", \"wallet:gift:{user}\"]";

/// Somebody who operates and may do nothing else, somebody who only looks, and people of the file.
const OPERATED: &str = r#"
[[service]]
name = "desk"
token = "a-token-of-the-desk"
grants = ["operate:write", "operate:read"]
id_space = "till"

[[service]]
name = "looker"
token = "a-token-that-may-look"
grants = ["operate:read"]

[[user]]
name = "dave"
password_hash = "$argon2id$v=19$m=8,t=1,p=1$Q1/TDEwxlTYUsW9Fi5pNtg$jQmx8Pn/0g7k8n7Tq3Kq5Qk7dQ1c4zQJzU9cBhJj6qQ"
role = "viewer"
wallets = ["wallet:dave", "wallet:gwen"]
"#;

const PASSWORD: &str = "a password of erin";

fn viewer(wallets: &[&str], password: &str) -> Value {
    json!({"role": "viewer", "wallets": wallets, "password": password})
}

/// What a log-in with this password is answered.
fn login(server: &Server, user: &str, password: &str) -> String {
    let mut http = Http::connect(server.http).expect("the door is open");
    said(http.post("/v1/login", &json!({"user": user, "password": password})))
}

/// What a vote of so many from one account is answered.
fn vote(server: &Server, token: &str, id: &str, debit: &str) -> String {
    let body = json!({"id": id, "debit": debit, "credit": "collector:one", "amount": 1});
    said(over(server, token).post("/v1/transfers", &body))
}

/// Opens the accounts of a vote; the wallets have ten each.
fn open_accounts(server: &Server, wallets: &[&str]) {
    let mut all = over(server, SERVICE);
    for (id, kind) in [("source:till", "source"), ("collector:one", "collector")] {
        ok(all.post("/v1/accounts", &json!({"id": id, "asset": "credit", "kind": kind})));
    }
    for wallet in wallets {
        ok(all.post("/v1/accounts", &json!({"id": wallet, "asset": "credit", "kind": "wallet"})));
        let sale = json!({"id": format!("sale-{wallet}"), "debit": "source:till", "credit": wallet, "amount": 10});
        ok(all.post("/v1/transfers", &sale));
    }
}

#[test]
fn a_user_of_the_api_survives_a_crash_and_ends_with_the_password_or_the_user() {
    let folder = folder();
    let settings = settings(folder.path(), GIVEN, OPERATED);
    let server = Server::start(&settings);
    open_accounts(&server, &["wallet:erin", "wallet:fay"]);
    let mut desk = over(&server, "a-token-of-the-desk");
    let made = desk.put("/v1/users/erin", &viewer(&["wallet:erin"], PASSWORD)).expect("the door answers");
    let shown = json!({"name": "erin", "role": "viewer", "wallets": ["wallet:erin"]});
    assert_eq!((made.status, &made.body), (201, &shown), "nothing of the password is shown");
    let token = log_in(&server, "erin", PASSWORD);
    assert_eq!(vote(&server, &token, "v1", "wallet:erin"), "201 ");
    assert_eq!(vote(&server, &token, "v2", "wallet:fay"), "403 forbidden");
    server.kill();

    let server = Server::start(&settings);
    let mut desk = over(&server, "a-token-of-the-desk");
    assert_eq!(ok(desk.get("/v1/users")), json!({"users": [shown]}));
    assert_eq!(ok(desk.get("/v1/users/erin")), shown);
    assert_eq!(vote(&server, &token, "v3", "wallet:erin"), "201 ", "a token is good as long as the password");
    let (mut phone, answer) = Client::connect(&server, Some("erin"), Some(PASSWORD));
    assert_eq!((&*answer, &*phone.ping()), ("connack 0x0", "pingresp"));

    // The same again without a password changes nothing; another password ends what the one before has opened.
    assert_eq!(ok(desk.put("/v1/users/erin", &json!({"role": "viewer", "wallets": ["wallet:erin"]}))), shown);
    assert_eq!(phone.ping(), "pingresp");
    assert_eq!(ok(desk.put("/v1/users/erin", &viewer(&["wallet:erin"], "another password"))), shown);
    assert_eq!(phone.receive(), "disconnect 0x87 None");
    assert_eq!(vote(&server, &token, "v4", "wallet:erin"), "401 token_invalid");
    assert_eq!(login(&server, "erin", PASSWORD), "401 login_wrong");
    let token = log_in(&server, "erin", "another password");
    let (mut phone, answer) = Client::connect(&server, Some("erin"), Some("another password"));
    assert_eq!((&*answer, &*phone.ping()), ("connack 0x0", "pingresp"));
    assert_eq!(ok(desk.delete("/v1/users/erin")), json!({"name": "erin", "outcome": "deleted"}));
    assert_eq!(phone.receive(), "disconnect 0x87 None");
    assert_eq!(vote(&server, &token, "v5", "wallet:erin"), "401 token_invalid");
    assert_eq!(login(&server, "erin", "another password"), "401 login_wrong");
    assert_eq!(said(desk.get("/v1/users/erin")), "404 user_not_found");
    assert_eq!(said(desk.delete("/v1/users/erin")), "404 user_not_found");
    wait_for("the security log says who did it", || {
        let log = server.log();
        let is_it = |line: &str| line.contains("delete user erin") && line.contains("principal=\"desk\"");
        log.lines().any(is_it).then_some(())
    });
    assert!(!server.log().contains("argon2") && !server.log().contains(PASSWORD), "{}", server.log());
    assert!(server.terminate().status.success());

    let server = Server::start(&settings);
    assert_eq!(ok(over(&server, "a-token-of-the-desk").get("/v1/users")), json!({"users": []}));
    assert!(server.terminate().status.success());
    let audited = audit(&settings.data);
    assert!(audited.status.success(), "{audited}");
}

#[test]
fn nobody_is_given_more_than_the_configuration_allows() {
    let folder = folder();
    let given = settings(folder.path(), GIVEN, OPERATED);
    let server = Server::start(&given);
    open_accounts(&server, &["wallet:erin", "wallet:gift:erin"]);
    let mut desk = over(&server, "a-token-of-the-desk");
    // Another's wallet, one that a user of the file has, and anything else.
    for (name, wallet) in [("erin", "wallet:dave"), ("erin", "wallet:fay"), ("gwen", "wallet:gwen"), ("erin", "x")] {
        let body = viewer(&["wallet:gift:erin", wallet][usize::from(name != "erin")..], PASSWORD);
        assert_eq!(said(desk.put(&format!("/v1/users/{name}"), &body)), "403 wallet_not_allowed", "{wallet}");
    }
    let service = |grant: &str| json!({"role": "service", "grants": [grant], "password": PASSWORD});
    for grant in ["*", "transfers:*", "operate:write", "publish:#"] {
        assert_eq!(said(desk.put("/v1/users/erin", &service(grant))), "403 grant_not_allowed", "{grant}");
    }
    // Names of the file, spaces of its services' ids, and names as those of providers' users.
    for name in ["dave", "till"] {
        assert_eq!(said(desk.put(&format!("/v1/users/{name}"), &viewer(&[], PASSWORD))), "409 user_in_configuration");
        assert_eq!(said(desk.delete(&format!("/v1/users/{name}"))), "409 user_in_configuration");
    }
    let long = "n".repeat(65);
    for name in ["idp:42", "a%2Fb", "%20", "a%23", "%E3%85%A4", "%7Buser%7D", &long] {
        assert_eq!(said(desk.put(&format!("/v1/users/{name}"), &viewer(&[], PASSWORD))), "422 user_invalid", "{name}");
    }
    let costly = "$argon2id$v=19$m=65536,t=3,p=1$Q1/TDEwxlTYUsW9Fi5pNtg$jQmx8Pn/0g7k8n7Tq3Kq5Qk7dQ1c4zQJzU9cBhJj6qQ";
    let many: Vec<String> = (0..65).map(|n| format!("wallet:{n}")).collect();
    for body in [
        viewer(&[], "short"),
        viewer(&[], &"p".repeat(1_025)),
        json!({"role": "viewer", "password_hash": "nonsense"}),
        json!({"role": "viewer", "password_hash": costly}),
        json!({"role": "viewer", "password": PASSWORD, "password_hash": costly}),
        json!({"role": "viewer", "grants": ["audit"], "password": PASSWORD}),
        json!({"role": "service", "wallets": ["wallet:erin"], "password": PASSWORD}),
        json!({"role": "service", "grants": ["nonsense"], "password": PASSWORD}),
        json!({"role": "viewer", "wallets": many, "password": PASSWORD}),
    ] {
        assert_eq!(said(desk.put("/v1/users/erin", &body)), "422 user_invalid", "{body}");
    }
    assert_eq!(said(desk.put("/v1/users/erin", &json!({"role": "viewer"}))), "404 user_not_found", "no password");
    let mut looker = over(&server, "a-token-that-may-look");
    assert_eq!(said(looker.put("/v1/users/erin", &viewer(&[], PASSWORD))), "403 forbidden");
    assert_eq!(said(looker.delete("/v1/users/erin")), "403 forbidden");
    assert_eq!(ok(looker.get("/v1/users")), json!({"users": []}));

    // What the configuration takes back, users lose; a name that it takes, it has.
    ok(desk.put("/v1/users/erin", &viewer(&["wallet:erin", "wallet:gift:erin"], PASSWORD)));
    ok(desk.put("/v1/users/stage", &service("publish:desk/1")));
    let token = log_in(&server, "erin", PASSWORD);
    assert_eq!(vote(&server, &token, "v1", "wallet:gift:erin"), "201 ");
    assert_eq!(ok(looker.get("/v1/users?limit=1"))["next"], "erin");
    let narrow = GIVEN.replace(", \"wallet:gift:{user}\"", "");
    settings(folder.path(), &narrow, &OPERATED.replace("\"till\"", "\"stage\"")).write();
    reload(&server, 1, "reloaded users, services, rules and certificates");
    assert_eq!(vote(&server, &token, "v2", "wallet:gift:erin"), "403 forbidden");
    assert_eq!(vote(&server, &token, "v3", "wallet:erin"), "201 ");
    assert_eq!(login(&server, "stage", PASSWORD), "401 login_wrong");
    let expected = json!({"users": [
        {"name": "erin", "role": "viewer", "wallets": ["wallet:erin", "wallet:gift:erin"],
         "withheld": ["wallet:gift:erin"]},
        {"name": "stage", "role": "service", "grants": ["publish:desk/1"], "hidden": true},
    ]});
    assert_eq!(ok(over(&server, "a-token-of-the-desk").get("/v1/users")), expected);
    assert!(server.terminate().status.success());
}

#[test]
fn services_and_users_are_managed_from_the_command_line() {
    let folder = folder();
    let server = Server::start(&settings(folder.path(), GIVEN, OPERATED));
    let operator = Operator::of(&server);
    let given = |arguments: &[&str], typed: &str| {
        let mut asked = command(&operator.server, arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        writeln!(asked.stdin.take().expect("it is piped"), "{typed}").expect("it reads");
        let output = asked.wait_with_output().expect("it ends");
        let both = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.success(), both[0].clone(), both[1].clone())
    };
    let password = |arguments: &[&str]| {
        let (succeeded, out, _) = given(arguments, PASSWORD);
        (succeeded, out)
    };
    // Only a hash is sent, so the length is looked at here, as the API does with a password.
    let put = ["users", "put", "erin", "--wallet", "wallet:erin", "--password"];
    for unfit in ["1234567", "x".repeat(1_025).as_str()] {
        let (succeeded, _, error) = given(&put, unfit);
        assert!(!succeeded && error.contains("password: expected 8 to 1024 bytes"), "{error}");
    }
    let (succeeded, _, error) = given(&put, "");
    assert!(!succeeded && error.contains("| tidegate users put erin … --password"), "{error}");
    let put = ["users", "put", "erin", "--wallet", "wallet:erin", "--wallet", "wallet:gift:erin", "--password"];
    let shown = "name     erin\nrole     viewer\nwallets  wallet:erin wallet:gift:erin\n";
    assert_eq!(password(&put), (true, shown.to_owned()));
    log_in(&server, "erin", PASSWORD);
    assert_eq!(operator.done(&put[..put.len() - 1]), shown, "the password stays");
    assert_eq!(operator.json(&["users", "list"])[0]["name"], "erin");
    let table = operator.done(&["users", "list"]);
    assert!(table.starts_with("name          role ") && table.contains("\nerin          viewer  "), "{table}");
    assert_eq!(operator.done(&["users", "delete", "erin"]), "name  outcome\nerin  deleted\n");
    let (exit, _, error) = operator.run(&["users", "get", "erin"]);
    assert!(exit == 3 && error.contains("404 user_not_found") && error.contains("tidegate users list"), "{error}");
    let (exit, _, error) = operator.run(&["users", "put", "erin", "--wallet", "wallet:dave"]);
    assert!(exit == 3 && error.contains("403 wallet_not_allowed"), "{error}");
    // What replaces rights must say which.
    for wrong in [
        &["users", "put", "erin", "--wallet", "x", "--grant", "y"][..],
        &["users", "put", "erin", "--password"],
        &["users", "put", "erin", "--wallet", "x", "--no-wallets"],
        &["services", "put", "cam-7"],
        &["services", "put", "cam-7", "--no-grants", "--grant", "publish:desk/1"],
    ] {
        assert_eq!(operator.run(wrong).0, 2, "{wrong:?}");
    }
    let of_desk = "name    stage\nrole    service\ngrants  publish:desk/1\n";
    let put = ["users", "put", "stage", "--grant", "publish:desk/1", "--password"];
    assert_eq!(password(&put), (true, of_desk.to_owned()));
    let before = log_in(&server, "stage", PASSWORD);
    assert_eq!(password(&["users", "password", "stage"]), (true, of_desk.to_owned()), "role and grants stay");
    assert_eq!(said(over(&server, &before).get("/v1/users")), "401 token_invalid", "it is another password");
    log_in(&server, "stage", PASSWORD);
    assert!(!password(&["users", "password", "nobody"]).0, "none is made");
    assert!(operator.done(&["users", "put", "stage", "--no-grants"]).contains("grants  none\n"));
    operator.done(&["users", "delete", "stage"]);

    let made = operator.done(&["services", "put", "cam-7", "--grant", "publish:desk/1"]);
    let token = made.lines().find_map(|line| line.strip_prefix("token")).expect("it is shown once").trim();
    assert_eq!(Client::connect(&server, None, Some(token)).1, "connack 0x0");
    assert!(!operator.done(&["services", "get", "cam-7"]).contains("token"));
    assert!(operator.done(&["services", "token", "cam-7"]).contains("token"), "another one");
    assert_ne!(Client::connect(&server, None, Some(token)).1, "connack 0x0");
    assert_eq!(operator.json(&["services", "list"])[0]["grants"], json!(["publish:desk/1"]));
    assert_eq!(operator.done(&["services", "delete", "cam-7"]), "name   outcome\ncam-7  deleted\n");
    assert!(server.terminate().status.success());
}

#[test]
fn as_many_users_are_made_as_the_configuration_allows() {
    let folder = folder();
    let bounded = Settings { limits: "api_users_max = 2".into(), ..settings(folder.path(), GIVEN, OPERATED) };
    let server = Server::start(&bounded);
    let mut desk = over(&server, "a-token-of-the-desk");
    for name in ["erin", "fay"] {
        ok(desk.put(&format!("/v1/users/{name}"), &viewer(&[], PASSWORD)));
    }
    assert_eq!(said(desk.put("/v1/users/gil", &viewer(&[], PASSWORD))), "409 users_too_many");
    ok(desk.delete("/v1/users/fay"));
    ok(desk.put("/v1/users/gil", &viewer(&[], PASSWORD)));
    assert!(server.terminate().status.success());
}

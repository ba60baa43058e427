//! Configurations as people write them, and the errors that they get.

use std::sync::Arc;
use std::time::Duration;

use tidegate_broker::{Access, Rights as _};
use tidegate_config::Document;
use tidegate_doors::auth::acl::{ClientRights, Holder, Shown};
use tidegate_doors::auth::{Identity, PasswordHash, Rights};
use tidegate_doors::mqtt::Origins;

use super::mqtt::Mqtt;
use super::{Config, Overrides, schema};
use crate::host::Host;

mod auth_hook;
mod identity_providers;
mod memory;
mod pages;
mod rows;

fn settle(text: &str) -> Result<Config, String> {
    settle_with(text, &Overrides::default())
}

fn settle_with(text: &str, overrides: &Overrides) -> Result<Config, String> {
    let document = Document::of("test.toml", text, &schema(&[]));
    let host = Host { cores: 2, memory_bytes: None };
    document.and_then(|document| Config::settle(document, overrides, host)).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    match settle(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => assert_eq!(error, expected),
    }
}

fn shipped(name: &str) -> (String, String) {
    let path = format!("{}/../../config/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

#[test]
fn names_the_nearest_known_key() {
    refused("\n[listen]\nhtp = \"x\"", "test.toml:3: unknown key \"listen.htp\"; did you mean \"http\"?");
    refused("[limts]\nworkers = 1", "test.toml:1: unknown key \"limts\"; did you mean \"limits\"?");
    refused("[[seed.acount]]\nid = \"a\"", "test.toml:1: unknown key \"seed.acount\"; did you mean \"account\"?");
    refused("[[user]]\nname = \"a\"\nrol = \"v\"", "test.toml:3: unknown key \"user.rol\"; did you mean \"role\"?");
    refused("[data]\nxyzzy = 1", "test.toml:2: unknown key \"data.xyzzy\"; config/dev.toml documents every key");
}

#[test]
fn says_what_was_written_and_what_was_expected() {
    for (text, error) in [
        (
            "[limits]\nworkers = 1\nhttp_connections_max = \"4k\"",
            "test.toml:3: limits.http_connections_max = \"4k\": expected an integer, zero or more: open \
             connections per edge thread; for one more, one without a token gives way, or it is answered 503",
        ),
        (
            "[data]\nshards = -1",
            "test.toml:2: data.shards = -1: expected an integer, zero or more: shards of a new data directory. \
             One that exists keeps its number: a start with another is refused. One is fastest on few cores",
        ),
        ("[data]\nshards = 0", "test.toml:2: data.shards = 0: expected 1 to 1024"),
        (
            "[limits]\nhttp_head_bytes_max = 100",
            "test.toml:2: limits.http_head_bytes_max = 100: expected 8192 to 1048576",
        ),
        (
            "[listen]\nhttp = \"localhost\"",
            "test.toml:2: listen.http = \"localhost\": expected an IP address and port such as \
             \"127.0.0.1:8080\", or \"off\"",
        ),
        (
            "[listen]\nhttp = 8080",
            "test.toml:2: listen.http = 8080: expected a quoted text: address and port of the HTTP/JSON door (API, \
             /healthz, /metrics, /openapi.json), or \"off\"",
        ),
        ("[user]\nname = \"a\"", "test.toml:1: user: expected [[user]], in two brackets, as there may be several"),
        ("[[data]]\nshards = 1", "test.toml:1: data: expected a section, [data]"),
        ("listen = 1", "test.toml:1: listen: expected a section, [listen]"),
        ("[tls]\nhttp = true", "test.toml:1: tls.cert_file is missing: PEM file with the certificate chain"),
        (
            "[auth]\nopen_paths = [\"/v1/accounts\"]",
            "test.toml:2: auth.open_paths: \"/v1/accounts\" cannot be opened; only \"/openapi.json\", \
             \"/metrics\", \"/demo\" and \"/pacing\" can",
        ),
        (
            "[topics]\nannounce = [\"candidate:*\", \"wallet:a+b\"]",
            "test.toml:2: topics.announce: \"wallet:a+b\": no topic can name an account with + or # in its id, the \
             wildcards of MQTT; such accounts are not announced, take it out",
        ),
        ("[[service]]\nname = \"a\"\ngrants = []", "test.toml:1: service: token_sha256 (or token) is missing"),
        (
            "[[service]]\nname = \"a\"\ntoken = \"short\"",
            "test.toml:3: service.token: expected at least 16 letters, digits or signs without spaces",
        ),
        (
            "[[seed.transfer]]\nid = \"a\"\ndebit = \"b\"\ncredit = \"c\"",
            "test.toml:1: seed.transfer[0].amount is missing: minor units",
        ),
    ] {
        refused(text, error);
    }
}

#[test]
fn a_hash_of_a_token_is_taken_as_sha256sum_prints_it() {
    let digits = "ab".repeat(32);
    let parsed = |written: &str| {
        settle(&format!("[[service]]\nname = \"a\"\ntoken_sha256 = \"{written}\"\ngrants = [\"read:*\"]"))
    };
    for behind in ["", "  -", " *-", "  token.txt", "\\n"] {
        let config = parsed(&format!("{digits}{behind}")).unwrap();
        assert_eq!(config.services[0].token_sha256, [0xab; 32], "{behind:?}");
    }
    for wrong in [format!("{digits}0"), format!("{digits} x"), format!("  {digits}"), digits[1..].into(), "  -".into()]
    {
        let Err(error) = parsed(&wrong) else { panic!("accepted: {wrong}") };
        assert!(error.contains("test.toml:3: service.token_sha256: expected 64 hex digits"), "{wrong:?}: {error}");
    }
}

#[test]
fn a_service_may_have_bounds_of_its_own_and_has_the_others_of_all() {
    let service = "[[service]]\nname = \"a\"\ntoken = \"sixteen-letters-or-more\"\n";
    let all = "[quota.service]\nrequests_per_s = 100\nrefusals_per_s = 7\n";
    let config = settle(&format!("{all}{service}requests_per_s = 5\nin_flight_max = 3\n")).unwrap();
    let own = config.services[0].quota.expect("it has some");
    assert_eq!((own.requests.per_s, own.refusals.per_s, own.in_flight_max), (5, 7, 3));
    assert_eq!(config.quotas.service.requests.per_s, 100);
    assert_eq!(settle(&format!("{all}{service}")).unwrap().services[0].quota, None);
    refused(
        &format!("{service}requests_burst = 1000000001"),
        "test.toml:4: service.requests_burst = 1000000001: expected 0 to 1000000000",
    );
}

#[test]
fn the_demo_shows_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let (picture, script) = (folder.path().join("ada.png"), folder.path().join("ada.svg"));
    std::fs::write(&picture, "a picture").unwrap();
    std::fs::write(&script, "<svg/>").unwrap();
    let demo = |keys: &str| settle(keys).map(|config| config.demo);

    let show = demo(&format!(
        "[demo]\ntitle = \"Final\"\nurl = \"http://vote.example\"\nends_at = \"1970-01-01T00:00:09Z\"\n\
         login_hint = \"On your ticket.\"\n\
         [[demo.candidate]]\naccount = \"candidate:1\"\nname = \"Ada\"\npicture_file = {picture:?}\n\
         [[demo.candidate]]\naccount = \"candidate:2\"\nname = \"Bruno\""
    ))
    .unwrap();
    assert_eq!(
        (&*show.title, show.url.as_deref(), show.ends_at_ms, &*show.login_hint),
        ("Final", Some("http://vote.example"), Some(9_000), "On your ticket.")
    );
    let pictures: Vec<_> = show.candidates.iter().map(|candidate| candidate.picture.clone()).collect();
    assert_eq!(pictures, [Some(("image/png", "a picture".into())), None]);
    assert_eq!((&*demo("").unwrap().title, demo("").unwrap().candidates.len()), ("Tonight's vote", 0));

    refused(
        "[demo]\nends_at = \"soon\"",
        "test.toml:2: demo.ends_at = \"soon\": expected a time such as \"2026-11-21T22:15:00+01:00\"",
    );
    refused(
        "[demo]\nurl = \"vote\"",
        "test.toml:2: demo.url = \"vote\": expected an address that begins with http:// or https://, of 213 \
         bytes at most",
    );
    let with =
        |file: &std::path::Path| format!("[[demo.candidate]]\naccount = \"a\"\nname = \"A\"\npicture_file = {file:?}");
    let wrong = |file: &std::path::Path, what: &str| {
        let said = demo(&with(file)).unwrap_err();
        assert!(said.starts_with("test.toml:4: demo.candidate.picture_file = ") && said.contains(what), "{said}");
    };
    wrong(&script, "expected a .png, .jpg or .webp file");
    wrong(&folder.path().join("none.png"), "cannot be read: ");
    std::fs::File::options().write(true).open(&picture).unwrap().set_len((1 << 20) + 1).unwrap();
    wrong(&picture, "has 1048577 bytes: expected 1048576 at most");
}

#[test]
fn log_ins_have_their_bounds() {
    let logins = settle("[limits]\nlogins_wrong_max = 0\nlogins_remembered_s = 5\n").unwrap().limits.logins;
    let usual = tidegate_doors::auth::LoginLimits::default();
    let remembered = std::time::Duration::from_secs(5);
    assert_eq!(logins, tidegate_doors::auth::LoginLimits { wrong_max: 0, remembered, ..usual });
}

#[test]
fn viewers_have_places_of_streams() {
    refused(
        "[limits]\nhttp_change_pages_max = 2\nhttp_change_pages_for_services = 2",
        "test.toml:3: 2 pages for services: expected less than 2, which is http_change_pages_max",
    );
    refused(
        "[limits]\nhttp_change_streams_max = 10\nhttp_streams_for_services = 10",
        "test.toml:3: 10 streams for services: expected less than 10, which is the lower of http_change_streams_max \
         and http_history_streams_max",
    );
}

#[test]
fn points_at_the_line_of_syntax_errors_and_of_the_second_of_two_sections() {
    let error = settle("[listen]\nhttp = \"127.0.0.1:1\nbinary = 1").unwrap_err();
    assert!(error.starts_with("test.toml:2: "), "{error}");
    let service = "[[service]]\nname = \"a\"\ntoken = \"sixteen-letters-or-more\"\ngrants = [\"*\"]\n";
    let second = service.replace("\"*\"", "\"transfer:*\"").replace("sixteen", "seventeen");
    let error = settle(&format!("{service}{second}")).unwrap_err();
    assert!(error.starts_with("test.toml:8: grant \"transfer:*\" is unknown"), "{error}");
    let error = settle(&format!("{service}{service}")).unwrap_err();
    assert_eq!(error, "test.toml:6: service \"a\" has the token of another service");
}

#[test]
fn refuses_passwords_that_are_not_hashed() {
    let error = settle("[[user]]\nname = \"a\"\npassword_hash = \"secret\"\nrole = \"viewer\"").unwrap_err();
    assert!(error.starts_with("test.toml:3: user.password_hash: expected an argon2id hash"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn an_empty_file_is_all_defaults_and_lets_nobody_in() {
    let config = settle("").unwrap();
    assert_eq!(config.listen.http.unwrap().to_string(), "127.0.0.1:8080");
    assert_eq!(config.listen.binary.unwrap().to_string(), "127.0.0.1:7420");
    assert_eq!((config.data.dir.to_str().unwrap(), config.data.shards), ("data", 1));
    assert_eq!(config.auth.jwt_secret_file.to_str().unwrap(), "data/jwt.key");
    assert!(config.users.is_empty() && config.services.is_empty() && config.auth.open_paths.is_empty());
    assert_eq!((config.listen.mqtt.unwrap().to_string(), config.listen.mqtts), ("127.0.0.1:1883".to_owned(), None));
    let websocket = config.mqtt.websocket.unwrap();
    assert_eq!((&*websocket.path, websocket.origins), ("/mqtt", Origins::SameHost));
    assert!(!config.mqtt.tcp.anonymous && !config.mqtt.tls.anonymous && !websocket.door.anonymous);
    assert!(config.mqtt.announce.accounts.is_empty() && config.topics.acl.rules.is_empty());
}

#[test]
fn clients_without_credentials_come_from_this_machine_only() {
    refused(
        "[listen]\nmqtt = \"0.0.0.0:1883\"\n[listener.mqtt]\nanonymous = true",
        "test.toml:4: listener.mqtt.anonymous = true: clients without credentials may only come from this \
         machine, but listen.mqtt is 0.0.0.0:1883; bind it to 127.0.0.1, or set anonymous to false",
    );
    let error = settle("[listen]\nhttp = \"[::]:8080\"\n[listener.websocket]\nanonymous = true").unwrap_err();
    assert!(error.starts_with("test.toml:4: listener.websocket.anonymous = true: "), "{error}");
    assert!(error.contains("listen.http is [::]:8080"), "{error}");
    for good in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "off"] {
        let config = settle(&format!("[listen]\nmqtt = {good:?}\n[listener.mqtt]\nanonymous = true")).unwrap();
        assert!(config.mqtt.tcp.anonymous);
    }
    // A flag that replaces a loopback address of the file by a public one.
    let overrides = Overrides { mqtt: Some("10.0.0.1:1883".parse().unwrap()), ..Overrides::default() };
    let (path, _) = shipped("dev.toml");
    let error = Config::load(Some(path.as_ref()), &schema(&[]), &overrides).unwrap_err().to_string();
    assert!(error.contains("listen.mqtt is 10.0.0.1:1883"), "{error}");
}

#[test]
fn says_what_is_wrong_with_mqtt() {
    let acl = |lines: &str| format!("[[acl]]\neffect = \"permit\"\ntopics = [\"a\"]\n{lines}");
    for (text, error) in [
        (
            "[listen]\nmqtts = \"127.0.0.1:8883\"".to_owned(),
            "test.toml: tls.cert_file is missing: PEM file with the certificate chain",
        ),
        (
            "[tls]\nclient_ca_file = \"ca.pem\"".to_owned(),
            "test.toml:2: tls.client_ca_file: only listen.mqtts looks at client certificates; give it an address",
        ),
        (
            "[listen]\nmqtts = \"127.0.0.1:8883\"\n[tls]\ncert_file = \"a\"\nkey_file = \"b\"\n\
             client_certificate = \"required\""
                .to_owned(),
            "test.toml:6: tls.client_ca_file is missing: PEM file with the authorities that sign clients",
        ),
        (
            "[listen]\nwebsocket = \"mqtt\"".to_owned(),
            "test.toml:2: listen.websocket = \"mqtt\": expected a path such as \"/mqtt\", or \"off\"",
        ),
        (
            "[listener.websocket]\norigins = [\"example.org\"]".to_owned(),
            "test.toml:2: listener.websocket.origins: \"example.org\": expected origins such as \
             \"https://example.org\" or \"http://localhost:3000\", or \"*\" alone",
        ),
        (
            "[listener.http]\ncors_origins = [\"https://App.example\"]".to_owned(),
            "test.toml:2: listener.http.cors_origins: \"https://App.example\": expected origins as a browser sends \
             them, such as \"https://app.example.org\" or \"http://localhost:3000\", in lower case and without a \
             path, or \"*\" alone",
        ),
        (
            "[listener.mqtt]\norigins = []".to_owned(),
            "test.toml:2: unknown key \"listener.mqtt.origins\"; config/dev.toml documents every key",
        ),
        (
            "[mqtt]\ninbox_policy = \"drop\"".to_owned(),
            "test.toml:2: mqtt.inbox_policy = \"drop\": expected \"drop_oldest\" or \"drop_newest\" or \"refuse\"",
        ),
        ("[mqtt]\nreceive_maximum = 0".to_owned(), "test.toml:2: mqtt.receive_maximum = 0: expected 1 to 65535"),
        (
            "[topics]\nannounce = [\"a*b\"]".to_owned(),
            "test.toml:2: topics.announce: \"a*b\": expected \"*\", a beginning such as \"wallet:*\", \
             or one account id",
        ),
        (
            "[[acl]]\ntopics = [\"a\"]".to_owned(),
            "test.toml:1: acl[0].effect is missing: whether the rule permits or denies; expected \"permit\" or \
             \"deny\"",
        ),
        (
            "[[acl]]\neffect = \"deny\"".to_owned(),
            "test.toml:1: acl[0].topics is missing: a list of topic filters; %c is the client id, %u the user name: \
             \"chat/%u/#\"",
        ),
        (
            acl("action = \"read\""),
            "test.toml:4: acl[0].action = \"read\": expected \"publish\" or \"subscribe\" or \"both\"",
        ),
        (
            acl("client_id = \"*-1\""),
            "test.toml:4: acl.client_id = \"*-1\": expected a client id, or the beginning of one, as \"sensor-*\"",
        ),
    ] {
        refused(&text, error);
    }
    let error = settle("[[acl]]\neffect = \"deny\"\ntopics = [\"a\", \"b/#/c\"]").unwrap_err();
    assert!(error.starts_with("test.toml:3: acl.topics: \"b/#/c\" is not a topic filter: "), "{error}");
}

#[test]
fn mqtt_is_as_it_was_written() {
    let config = settle(
        "[mqtt]\nconnections_max = 50\nclean_inbox_policy = \"refuse\"\ninbox_age_max_s = 3\n\
         server_reference = \"b:1\"\n\
         [listener.mqtt]\nconnections_max = 7\npacket_bytes_max = 1000\n[listener.websocket]\norigins = [\"*\"]\n\
         [topics]\nannounce = [\"wallet:*\"]\nannouncements_per_s = 4",
    );
    let mqtt = config.unwrap().mqtt;
    assert_eq!((mqtt.tcp.connections_max, mqtt.tcp.packet_bytes_max, mqtt.tls.connections_max), (7, 1_000, 50));
    assert_eq!((mqtt.limits.clean_inbox_policy, mqtt.inbox.age_max_ms), (tidegate_broker::InboxPolicy::Refuse, 3_000));
    assert_eq!((mqtt.drain.server_reference.as_deref(), mqtt.topic_shards), (Some("b:1"), 2));
    assert_eq!((mqtt.announce.interval_ms, &*mqtt.announce.accounts), (250, &["wallet:*".into()][..]));
    assert_eq!(mqtt.websocket.unwrap().origins, Origins::Any);
    assert!(settle("[listen]\nhttp = \"off\"").unwrap().mqtt.websocket.is_none());
}

#[test]
fn flags_win_over_the_file() {
    let text = "[listen]\nhttp = \"off\"\nbinary = \"127.0.0.1:1\"\n[data]\ndir = \"elsewhere\"";
    let overrides = Overrides {
        data: Some("/tmp/show".into()),
        http: Some("127.0.0.1:9".parse().unwrap()),
        ..Overrides::default()
    };
    let config = settle_with(text, &overrides).unwrap();
    assert_eq!(config.listen.http.unwrap().port(), 9);
    assert_eq!(config.listen.binary.unwrap().port(), 1);
    assert_eq!(config.auth.jwt_secret_file.to_str().unwrap(), "/tmp/show/jwt.key");
    let missing =
        Config::load(Some("no/such.toml".as_ref()), &schema(&[]), &Overrides::default()).unwrap_err().to_string();
    assert!(missing.starts_with("no/such.toml: cannot be read: "), "{missing}");
}

#[test]
fn dev_toml_writes_the_defaults() {
    // As on a machine that does not say how much memory it has: what it has is divided among bounds of which the file
    // says nothing.
    let (_, text) = shipped("dev.toml");
    let dev = settle(&text).unwrap();
    let defaults = settle("").unwrap();
    let dev_limits = super::settled::Limits { workers: defaults.limits.workers, ..dev.limits.clone() };
    assert_eq!(dev_limits, defaults.limits);
    assert_eq!((dev.listen, &dev.tls, &dev.data), (defaults.listen, &defaults.tls, &defaults.data));
    assert_eq!(dev.audit_interval, defaults.audit_interval);
    assert_eq!(
        (dev.auth.token_ttl, &dev.auth.jwt_secret_file),
        (defaults.auth.token_ttl, &defaults.auth.jwt_secret_file)
    );
    // The number of workers is this machine's.
    let mut dev_mqtt = Mqtt { topic_shards: defaults.mqtt.topic_shards, ..dev.mqtt.clone() };
    dev_mqtt.tcp.anonymous = false;
    dev_mqtt.websocket.as_mut().unwrap().door.anonymous = false;
    dev_mqtt.announce.accounts.clear();
    assert_eq!(dev_mqtt, defaults.mqtt);
    assert_eq!(dev.topics.acl.ordinary_topics, defaults.topics.acl.ordinary_topics);
}

#[test]
fn dev_toml_seeds_the_show_on_loopback() {
    let (path, _) = shipped("dev.toml");
    let config = Config::load(Some(path.as_ref()), &schema(&[]), &Overrides::default()).unwrap();
    assert!(config.listen.http.unwrap().ip().is_loopback() && config.listen.binary.unwrap().ip().is_loopback());
    let dave = config.users.iter().find(|user| &*user.name == "dave").unwrap();
    assert!(dave.password_hash.verify("dave") && !dave.password_hash.verify("carol"));
    assert!(dave.rights.may_debit("wallet:dave") && !dave.rights.may_debit("wallet:carol"));
    let accounts: Vec<&str> = config.seed.accounts.iter().map(|account| &*account.id).collect();
    for id in ["source:shop", "wallet:dave", "candidate:1", "candidate:7"] {
        assert!(accounts.contains(&id), "{id}");
    }
    let gift = config.seed.transfers.iter().find(|transfer| &*transfer.credit == "wallet:dave").unwrap();
    assert_eq!((&*gift.debit, gift.amount), ("source:shop", 10));
    assert_eq!(config.services[0].token_sha256, tidegate_doors::auth::service_token_hash("dev-service-token"));
    assert_eq!(*config.mqtt.announce.accounts, ["candidate:*".into(), "wallet:*".into()]);
}

#[test]
fn dev_toml_lets_anybody_use_ordinary_topics_and_look_at_sys() {
    let (path, _) = shipped("dev.toml");
    let config = Config::load(Some(path.as_ref()), &schema(&[]), &Overrides::default()).unwrap();
    assert!(config.mqtt.tcp.anonymous && config.mqtt.websocket.unwrap().door.anonymous);
    let nobody = ClientRights::new(Holder::Anonymous, Arc::new(config.topics.acl));
    let allowed =
        [nobody.may_publish("c", "chat/1"), nobody.may_subscribe("c", "#"), nobody.may_subscribe("c", "$SYS/#")];
    assert_eq!(allowed, [Access::Allowed, Access::Allowed, Access::Allowed]);
    for topic in ["$SYS/broker/uptime", "$ledger/transfers", "$ledger/accounts/wallet:dave"] {
        assert_eq!(nobody.may_publish("c", topic), Access::Denied, "{topic}");
    }
    assert_eq!(nobody.may_subscribe("c", "$ledger/#"), Access::Denied);
}

/// The template with its placeholders replaced: two tokens, which differ, and a password.
fn filled_in(template: &str) -> String {
    assert_eq!(template.matches("\"CHANGE ME\"").count(), 3);
    let hash = tidegate_doors::auth::hash_password("secret");
    let tokens = template.replacen("\"CHANGE ME\"", &format!("\"{}\"", "0".repeat(64)), 1);
    let tokens = tokens.replacen("\"CHANGE ME\"", &format!("\"{}\"", "1".repeat(64)), 1);
    tokens.replace("CHANGE ME", hash.as_str())
}

#[test]
fn a_template_whose_placeholders_are_left_is_not_taken() {
    let (_, text) = shipped("production.toml");
    let error = settle(&text).unwrap_err();
    let line = 1 + text.lines().position(|line| line.starts_with("token_sha256 = \"CHANGE ME\"")).unwrap();
    let begins = format!("test.toml:{line}: service.token_sha256 = \"CHANGE ME\": put your own in place of CHANGE ME ");
    let left = text.lines().zip(1..).skip(line).filter(|(text, _)| text.contains("= \"CHANGE ME\""));
    let left: Vec<_> = left.map(|(_, number)| number.to_string()).collect();
    let expected = format!("{begins}(also in lines {}): ", left.join(" and "));
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.ends_with("printf %s TOKEN | sha256sum"), "{error}");
}

#[test]
fn says_what_is_open_to_a_network() {
    let told = |text: &str| crate::openness::warnings(&settle(text).unwrap());
    assert_eq!(told(""), [""; 0], "only this machine");
    let open = "[listen]\nhttp = \"0.0.0.0:1\"\nbinary = \"[::]:2\"\nmqtt = \"192.0.2.1:3\"\n\
                [auth]\nopen_paths = [\"/metrics\"]\n[listener.websocket]\norigins = [\"*\"]\n";
    let begins = [
        "listen.http = 0.0.0.0:1 is open to other machines and does not speak TLS",
        "listen.binary = [::]:2 is open to other machines and does not speak TLS",
        "listen.mqtt = 192.0.2.1:3 is open to other machines and does not speak TLS",
        "/metrics is served to everybody who reaches listen.http = 0.0.0.0:1",
        "listener.websocket.origins = [\"*\"]: every web page",
        "mqtt.ordinary_topics lets every client",
    ];
    let warnings = told(open);
    assert_eq!(warnings.len(), begins.len(), "{warnings:#?}");
    warnings.iter().zip(begins).for_each(|(warning, begin)| assert!(warning.starts_with(begin), "{warning}"));
    let closed = format!("{open}[mqtt]\nordinary_topics = \"nobody\"\n");
    assert_eq!(told(&closed).len(), begins.len() - 1);
}

#[test]
fn production_toml_is_valid_and_keeps_to_its_comments() {
    let (_, text) = shipped("production.toml");
    let config = settle(&filled_in(&text)).unwrap();
    assert_eq!(crate::openness::warnings(&config), [""; 0]);
    let dave = Identity::new("dave", Rights::Viewer { wallets: vec!["wallet:dave".into()] });
    let dave = ClientRights::new(Holder::User(dave, Shown::Certificate), Arc::new(config.topics.acl));
    assert_eq!(dave.may_subscribe("c", "show/#"), Access::Allowed);
    for topic in ["show/state", "chat/hello", "show"] {
        assert_eq!(dave.may_publish("c", topic), Access::Denied, "{topic}");
    }
    let tls = config.tls.unwrap();
    assert!(tls.http && tls.binary && config.auth.open_paths.is_empty());
    assert_eq!(config.auth.token_ttl, Duration::from_secs(43_200));
    assert!(config.listen.mqtt.is_none() && config.listen.mqtts.is_some() && !config.mqtt.tls.anonymous);
    let shop = &config.services[0].rights;
    assert!(shop.may_debit("source:shop") && !shop.may_debit("wallet:dave") && !shop.may_audit());
    let operator = &config.users[0].rights;
    let opens = |rights: &Rights| ["candidate:a", "source:bar", "wallet:erin"].map(|id| rights.may_open_account(id));
    assert_eq!((opens(operator), opens(shop)), ([true, true, false], [false, false, true]));
    assert!(!operator.may_debit("source:shop") && !operator.may_debit("wallet:erin"));
    assert!(config.auth.api_wallets.len() == 1 && config.auth.api_grants.is_empty());
}

fn hash() -> PasswordHash {
    tidegate_doors::auth::hash_password("secret")
}

#[test]
fn two_doors_have_no_address_together() {
    for (listen, expected) in [
        ("binary = \"127.0.0.1:8080\"", "binary = 127.0.0.1:8080: listen.http = 127.0.0.1:8080"),
        ("binary = \"0.0.0.0:8080\"", "binary = 0.0.0.0:8080: listen.http = 127.0.0.1:8080"),
        ("mqtt = \"[::]:7420\"", "mqtt = [::]:7420: listen.binary = 127.0.0.1:7420"),
    ] {
        let message = format!("test.toml:2: listen.{expected} takes it; give it another port");
        refused(&format!("[listen]\n{listen}\n"), &message);
    }
    for listen in [
        "http = \"127.0.0.1:0\"\nbinary = \"127.0.0.1:0\"",
        "http = \"127.0.0.1:1\"\nbinary = \"127.0.0.2:1\"",
        "http = \"0.0.0.0:1\"\nbinary = \"[::1]:1\"",
        "http = \"off\"\nbinary = \"127.0.0.1:8080\"",
    ] {
        assert!(settle(&format!("[listen]\n{listen}\n")).is_ok(), "{listen}");
    }
    let http = Some("127.0.0.1:7420".parse().unwrap());
    assert!(settle_with("", &Overrides { http, ..Overrides::default() }).is_err(), "a flag is checked, too");
}

#[test]
fn a_misspelt_grant_names_the_one_that_was_meant() {
    for (written, meant) in [
        ("transfer:*", "transfers:*"),
        ("debt:source:shop", "debit:source:shop"),
        ("account:open", "accounts:open"),
        ("operate:wrte", "operate:write"),
        ("metric", "metrics"),
        ("publsh:chat/#", "publish:chat/#"),
    ] {
        let token = "token = \"0123456789abcdef\"";
        let text = format!("[[service]]\nname = \"a\"\n{token}\ngrants = [\"{written}\"]\n");
        refused(&text, &format!("test.toml:4: grant {written:?} is unknown; did you mean {meant:?}?"));
    }
    let text = "[[user]]\nname = \"a\"\npassword_hash = \"HASH\"\nrole = \"service\"\ngrants = [\"zzz\"]\n";
    let error = settle(&text.replace("HASH", hash().as_str())).unwrap_err();
    assert!(error.starts_with("test.toml:5: grant \"zzz\" is unknown; write \"*\""), "{error}");
}

#[test]
fn services_of_one_name_have_the_same_rights() {
    let service = |token: &str, more: &str| {
        format!("[[service]]\nname = \"shop\"\ntoken = \"{token}{token}{token}{token}\"\n{more}\n")
    };
    let one = service("abcd", "grants = [\"audit\"]");
    assert!(settle(&format!("{one}{}", service("efgh", "grants = [\"audit\"]"))).is_ok(), "a token is replaced");
    for other in ["grants = [\"metrics\"]", "grants = [\"audit\"]\nid_space = \"other\""] {
        let error = settle(&format!("{one}{}", service("efgh", other))).unwrap_err();
        let begins = "test.toml:6: service.name = \"shop\": another service of this name has other grants";
        assert!(error.starts_with(begins), "{error}");
    }
}

#[test]
fn says_what_more_callers_get_than_its_author_may_know() {
    let told = |text: &str| {
        let text = text.replace("HASH", hash().as_str());
        crate::openness::warnings(&settle(&text).unwrap_or_else(|error| panic!("{error}")))
    };
    let one = |text: &str, begins: &str| {
        let told = told(text);
        assert!(told.len() == 1 && told[0].starts_with(begins), "{text}: {told:?}");
    };
    let trusting = |ranges: &str| format!("[proxy]\ntrusted = [{ranges}]\nforwarded = \"x-forwarded-for\"\n");
    one(&trusting("\"::1\", \"0.0.0.0/0\""), "proxy.trusted has 0.0.0.0/0: whoever connects");
    one(&trusting("\"2000::/3\""), "proxy.trusted has 2000::/3: whoever connects");
    assert_eq!(told(&trusting("\"10.0.0.0/8\", \"fc00::/7\", \"192.0.2.1\"")), [""; 0]);
    let acl = |topic: &str| format!("[[acl]]\neffect = \"deny\"\ntopics = [\"a/b\", \"{topic}\"]\n");
    one(&acl("show/%x/#"), "acl.topics has \"show/%x/#\", in which %x stands for nothing but itself; %c is");
    one(&acl("show/%c/%U"), "acl.topics has \"show/%c/%U\", in which %U stands for nothing");
    assert_eq!(told(&acl("show/%c/%u/100%/%/50%é")), [""; 0]);
    let user = "[[user]]\nname = \"shop\"\npassword_hash = \"HASH\"\nrole = \"viewer\"\n";
    let service = "[[service]]\nname = \"shop\"\ntoken = \"0123456789abcdef\"\n";
    one(&format!("{user}{service}"), "a [[user]] and a [[service]] are called \"shop\"");
    assert_eq!(told(service), [""; 0]);
}

#[test]
fn a_key_of_sqs_has_one_secret() {
    let keys = |text: &str| settle(&format!("[[sqs_key]]\naccess_key = \"a\"\nservice = \"s\"\n{text}"));
    let one = keys("secret_key = \"0123456789abcdef\"").unwrap().sqs_keys;
    assert_eq!((&*one[0].access_key, one[0].secret.text(), &*one[0].service), ("a", "0123456789abcdef", "s"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sqs.key");
    std::fs::write(&file, "fedcba9876543210\n").unwrap();
    let of_file = format!("secret_key_file = {file:?}");
    assert_eq!(keys(&of_file).unwrap().sqs_keys[0].secret.text(), "fedcba9876543210");
    for (text, wanted) in [
        ("", "sqs_key.access_key: secret_key_file (or secret_key) is missing"),
        ("secret_key = \"short\"", "sqs_key.secret_key: expected one line of at least 16 letters, digits or signs"),
        (&format!("secret_key = \"0123456789abcdef\"\n{of_file}"), "write secret_key or secret_key_file, not both"),
        ("secret_key_file = \"/none\"", "sqs_key.secret_key_file: /none: "),
        (
            "secret_key = \"0123456789abcdef\"\n[[sqs_key]]\naccess_key = \"a\"\nservice = \"t\"",
            "sqs_key.access_key: there is a key \"a\" already",
        ),
    ] {
        let error = keys(text).unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
        assert!(!error.contains("0123456789abcdef"), "{error}");
    }
}

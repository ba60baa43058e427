//! Configurations as people write them, and what they are told.

use std::time::Duration;

use super::raw::SECTIONS;
use super::source::Source;
use super::{Config, Overrides};

fn settle(text: &str) -> Result<Config, String> {
    Config::settle(&Source::new("test.toml", text), &Overrides::default(), 2).map_err(|error| error.to_string())
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
            "test.toml:3: limits.http_connections_max = \"4k\": expected an integer, zero or more: open connections per edge thread",
        ),
        (
            "[data]\nshards = -1",
            "test.toml:2: data.shards = -1: expected an integer, zero or more: shards of a new data directory; one that exists \
             keeps its own",
        ),
        ("[data]\nshards = 0", "test.toml:2: data.shards = 0: expected 1 to 1024"),
        (
            "[limits]\nhttp_head_bytes_max = 100",
            "test.toml:2: limits.http_head_bytes_max = 100: expected 8192 to 1048576",
        ),
        (
            "[listen]\nhttp = \"localhost\"",
            "test.toml:2: listen.http = \"localhost\": expected an IP address and port such as \"127.0.0.1:8080\", or \"off\"",
        ),
        (
            "[listen]\nhttp = 8080",
            "test.toml:2: listen.http = 8080: expected a quoted text: address and port of the HTTP/JSON door, or \"off\"",
        ),
        ("[user]\nname = \"a\"", "test.toml:1: user: expected [[user]], in two brackets, as there may be several"),
        ("[[data]]\nshards = 1", "test.toml:1: data: expected a section, [data]"),
        ("listen = 1", "test.toml:1: listen: expected a section, [listen]"),
        ("[tls]\nhttp = true", "test.toml:1: tls.cert_file is missing: PEM file with the certificate chain"),
        (
            "[auth]\nopen_paths = [\"/v1/accounts\"]",
            "test.toml:2: auth.open_paths: \"/v1/accounts\" cannot be opened; only \"/openapi.json\", \"/metrics\" and \"/demo\" can",
        ),
        ("[[service]]\nname = \"a\"\ngrants = []", "test.toml:1: service: token_sha256 (or token) is missing"),
        (
            "[[service]]\nname = \"a\"\ntoken = \"short\"",
            "test.toml:3: service.token: expected at least 16 letters, digits or signs without spaces",
        ),
        (
            "[[seed.transfer]]\nid = \"a\"\ndebit = \"b\"\ncredit = \"c\"",
            "test.toml:1: seed.transfer[0].amount is missing",
        ),
    ] {
        refused(text, error);
    }
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
    assert_eq!(config.jwt_secret_file.to_str().unwrap(), "data/jwt.key");
    assert!(config.users.is_empty() && config.services.is_empty() && config.open_paths.is_empty());
}

#[test]
fn flags_win_over_the_file() {
    let text = "[listen]\nhttp = \"off\"\nbinary = \"127.0.0.1:1\"\n[data]\ndir = \"elsewhere\"";
    let overrides =
        Overrides { data: Some("/tmp/show".into()), http: Some("127.0.0.1:9".parse().unwrap()), binary: None };
    let config = Config::settle(&Source::new("test.toml", text), &overrides, 2).unwrap();
    assert_eq!(config.listen.http.unwrap().port(), 9);
    assert_eq!(config.listen.binary.unwrap().port(), 1);
    assert_eq!(config.jwt_secret_file.to_str().unwrap(), "/tmp/show/jwt.key");
    let missing = Config::load(Some("no/such.toml".as_ref()), &Overrides::default()).unwrap_err().to_string();
    assert!(missing.starts_with("no/such.toml: cannot be read: "), "{missing}");
}

#[test]
fn dev_toml_documents_every_key_and_writes_the_defaults() {
    let (path, text) = shipped("dev.toml");
    let dev = Config::load(Some(path.as_ref()), &Overrides::default()).unwrap();
    for section in SECTIONS {
        let brackets = if section.repeated { format!("[[{}]]", section.path) } else { format!("[{}]", section.path) };
        let lines: Vec<&str> = text
            .split(&format!("\n{brackets}\n"))
            .skip(1)
            .flat_map(|part| part.lines().take_while(|line| !line.starts_with('[')))
            .chain(text.split(&format!("\n# {brackets}\n")).skip(1).flat_map(|part| part.lines().take(8)))
            .collect();
        for key in section.keys {
            let documented = lines.iter().any(|line| {
                line.trim_start_matches("# ").strip_prefix(key.name).is_some_and(|rest| rest.starts_with(" = "))
            });
            assert!(documented, "{brackets} {} is not in config/dev.toml", key.name);
        }
    }
    let defaults = settle("").unwrap();
    let dev_limits = super::limits::Limits { workers: defaults.limits.workers, ..dev.limits.clone() };
    assert_eq!(dev_limits, defaults.limits);
    assert_eq!((dev.listen, &dev.tls, &dev.data), (defaults.listen, &defaults.tls, &defaults.data));
    assert_eq!((dev.token_ttl, &dev.jwt_secret_file), (defaults.token_ttl, &defaults.jwt_secret_file));
}

#[test]
fn dev_toml_seeds_the_show_on_loopback() {
    let (path, _) = shipped("dev.toml");
    let config = Config::load(Some(path.as_ref()), &Overrides::default()).unwrap();
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
    assert_eq!(config.services[0].token_sha256, tidegate_gateway::auth::service_token_hash("dev-service-token"));
}

#[test]
fn production_toml_is_valid_and_keeps_to_its_comments() {
    let (path, _) = shipped("production.toml");
    let config = Config::load(Some(path.as_ref()), &Overrides::default()).unwrap();
    let tls = config.tls.unwrap();
    assert!(tls.http && tls.binary && config.open_paths.is_empty());
    assert_eq!(config.token_ttl, Duration::from_secs(43_200));
    let shop = &config.services[0].rights;
    assert!(shop.may_debit("source:shop") && !shop.may_debit("wallet:dave") && !shop.may_audit());
}

//! Rules that hold for every row, and checks that rows say what the code does.

use tidegate_broker::{BrokerLimits, HoldingLimits};
use tidegate_config::Change;
use tidegate_doors::http::HttpLimits;
use tidegate_machines::topic::InboxLimits;

use super::*;

#[test]
fn each_key_has_one_owner_and_says_what_it_means() {
    // Two owners of one key would panic here.
    for section in schema(&[]).sections() {
        for row in &section.rows {
            let (path, meaning) = (format!("{}.{}", section.path, row.name), row.meaning);
            assert!(meaning.len() > 3 && !meaning.ends_with('.'), "{path}: {meaning:?}");
            let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(row.name.bytes().all(is_lower), "{path}");
        }
    }
}

#[test]
fn names_end_in_their_unit() {
    for row in schema(&[]).sections().iter().flat_map(|section| &section.rows) {
        let unit = match row.name.rsplit('_').next() {
            Some("s") if row.name.ends_with("_per_s") => "per second",
            Some("s") => "s",
            Some("ms") => "ms",
            _ if row.name.ends_with("_bytes") || row.name.ends_with("_bytes_max") => "bytes",
            _ => "",
        };
        assert_eq!(row.unit, unit, "{}", row.name);
    }
}

#[test]
fn the_defaults_are_those_of_the_libraries() {
    let config = settle("").unwrap();
    assert_eq!(config.limits.http, HttpLimits::default());
    assert_eq!(config.mqtt.limits, BrokerLimits::default());
    assert_eq!(config.mqtt.inbox, InboxLimits::default());
    assert_eq!(config.mqtt.holdings, HoldingLimits::default());
}

/// The process test `a_reload_names_the_keys_that_wait_for_a_restart` meets the rest: what is live takes effect there.
#[test]
fn live_is_what_a_reload_hands_on() {
    let live = |section: &str, key: &str| match section {
        "acl" | "user" | "service" | "sqs_key" | "identity_provider" | "auth_hook" => true,
        "quota.viewer" | "quota.service" | "quota.address" => true,
        "tls" => matches!(key, "cert_file" | "key_file" | "client_ca_file" | "client_crl_file" | "client_certificate"),
        "mqtt" => {
            ["ordinary_topics", "certificate_users", "client_ids", "anonymous_sessions", "partly_denied"].contains(&key)
        }
        "auth" => matches!(key, "token_ttl_s" | "expiry_ends_connections" | "api_grants" | "api_wallets"),
        "log" => key == "filter",
        _ => false,
    };
    for section in schema(&[]).sections() {
        for row in &section.rows {
            let change = if live(section.path, row.name) { Change::Live } else { Change::Restart };
            assert_eq!(row.change, change, "{}.{}", section.path, row.name);
        }
    }
}

#[test]
fn a_change_that_waits_for_a_restart_is_named_by_its_key() {
    let waiting = |old: &str, new: &str| {
        let overrides = Overrides { http: Some("127.0.0.1:9".parse().unwrap()), ..Overrides::default() };
        settle_with(old, &overrides).unwrap().waiting_for_restart(&settle_with(new, &overrides).unwrap()).join(", ")
    };
    // What is left out has its default, and an address that a flag replaces would be replaced at the next start, too.
    assert_eq!(waiting("[limits]\nedge_threads = 1", "[listen]\nhttp = \"127.0.0.1:10\""), "");
    assert_eq!(
        waiting("", "[limits]\nedge_threads = 2\n[mqtt]\nsys_interval_s = 1\nordinary_topics = \"nobody\""),
        "limits.edge_threads, mqtt.sys_interval_s"
    );
    let account = |id: &str| format!("[[seed.account]]\nid = {id:?}\nasset = \"a\"\nkind = \"wallet\"\n");
    assert_eq!(waiting(&account("b"), &format!("{}{}", account("a"), account("b"))), "seed.account");
    assert_eq!(waiting("", "[[acl]]\neffect = \"deny\"\ntopics = [\"a\"]\n[auth]\ntoken_ttl_s = 60"), "");
}

#[test]
fn what_must_be_written_and_is_empty_is_missing() {
    refused(
        "[[user]]\nname = \"\"",
        "test.toml:2: user[0].name is missing: log-in name; a viewer's ids are unique under it: under another name \
         each id is new, and a retry of an old request is done again",
    );
}

//! The rows, against the bounds that they are made from.

use tidegate_config::Document;

use super::*;
use crate::config::{Overrides, schema};
use crate::host::Host;

const GIB: u64 = 1 << 30;
const CONNECTIONS: DoorConnections = DoorConnections { http: 1_000, binary: 1_000, mqtt: 10_000 };
const NEEDS: Needs = Needs { logs: 6, indexes: 1, threads: 3, readers: 0 };

fn config(text: &str) -> Config {
    let document = Document::of("test.toml", text, &schema(&[])).expect("a good file");
    let host = Host { cores: 2, memory_bytes: Some(24 * GIB) };
    Config::settle(document, &Overrides::default(), host).expect("good values")
}

fn of(text: &str) -> WorstCase {
    WorstCase::of(&config(text), CONNECTIONS, NEEDS)
}

impl WorstCase {
    fn bytes_of(&self, key: &str) -> Option<u64> {
        self.0.iter().find(|cost| cost.key == key).unwrap_or_else(|| panic!("{key} is a row")).bytes
    }
}

#[test]
fn rows_are_what_the_code_bounds() {
    let worst_case = of("");
    for (key, bytes) in [
        ("mqtt.waiting_bytes_max", 2 * config("").mqtt.limits.waiting_bytes_max),
        ("mqtt.receive_maximum", 10_000 * broker::unanswered_bytes(1_024)),
        ("limits.binary_connections_max", 1_000 * doors::BINARY_CONNECTION_BYTES),
        ("limits.http_connections_max", 1_000 * doors::http_connection_bytes(&config("").limits.http)),
        ("limits.http_change_streams_max", 64 * doors::CHANGE_STREAM_BYTES),
        ("limits.http_message_streams_max", 16 * doors::MESSAGE_STREAM_BYTES),
        ("limits.workers", 2 * (doors::REQUESTS_BYTES + doors::BINARY_AHEAD_BYTES + doors::BINARY_KINDS_BYTES)),
        ("data.shards", LEDGER_LOG_BYTES),
        ("topics.shards", 2 * TOPIC_LOG_BYTES),
        ("pacing.shards", CAMPAIGN_LOG_BYTES),
        ("pacing.users_max", 8 << 20),
    ] {
        assert_eq!(worst_case.bytes_of(key), Some(bytes), "{key}");
    }
    assert_eq!(of("[pacing]\nusers_max = 1100000\n").bytes_of("pacing.users_max"), Some(16 << 20));
    let sum: u64 = worst_case.0.iter().map(|cost| cost.bytes.expect("all have bounds")).sum();
    assert_eq!(worst_case.bytes(), Some(sum));
    assert!(worst_case.0.is_sorted_by_key(|cost| std::cmp::Reverse(cost.bytes)), "the largest first");
}

/// Whoever adds a bound of memory says what it costs, or why it is in no row of its own.
#[test]
fn every_key_of_bytes_or_counts_has_a_row_or_is_a_part_of_one() {
    // What bounds one caller, one client, one request or one address is a part of what all may.
    let parts = [
        "of_viewer",
        "of_caller",
        "for_services",
        "outbox_bytes_max",
        "clean_inbox_bytes_max",
        "per_address",
        "per_s",
        "wrong_max",
        "subscriptions_max",
        "packet_bytes_max",
        "body_bytes_max",
        "head_bytes_max",
        "headers_max",
        "messages_max",
        "pressure_bytes_max",
        "memory_bytes_max",
        "segment_bytes",
        "disk_reserve_bytes",
        "login_bytes_max",
        "change_pages_for",
        "_s_max",
        "delay_max",
        "age_max",
        "expiry_max",
        "alive_max",
    ];
    let worst_case = of("[listen]\nmqtts = \"off\"\n");
    for section in schema(&[]).sections() {
        let is_of_all = ["limits", "mqtt", "kept.all"].contains(&section.path);
        for row in section.rows.iter().filter(|row| is_of_all && (row.name.ends_with("_max") || row.unit == "bytes")) {
            let path = format!("{}.{}", section.path, row.name);
            // Each message of `kept.all` is counted by its bytes as well.
            let is_counted = section.path == "kept.all" && row.name != "shapes_max" && row.unit != "bytes";
            // What waits for a session that outlives its connection is `kept.all.queued_bytes_max`.
            let is_part =
                is_counted || path == "mqtt.inbox_bytes_max" || parts.iter().any(|part| row.name.contains(part));
            let has_row = worst_case.0.iter().any(|cost| cost.key == path) || path == "limits.logins_concurrent_max";
            assert!(is_part != has_row, "{path}: part {is_part}, row {has_row}");
        }
    }
}

#[test]
fn doors_that_are_shut_cost_nothing_and_layers_cost_something() {
    let shut = of("[listen]\nhttp = \"off\"\nbinary = \"off\"\n");
    assert!(shut.0.iter().all(|cost| !cost.key.starts_with("limits.http") && !cost.key.starts_with("limits.binary")));
    let (with, without) = (of(""), of("[listen]\nwebsocket = \"off\"\n"));
    let layers = with.bytes_of("mqtt.connections_max").zip(without.bytes_of("mqtt.connections_max"));
    assert_eq!(layers.map(|(with, without)| with - without), Some(10_000 * doors::LAYERS_BYTES));
}

#[test]
fn the_advice_names_the_key_that_dominates_and_a_value_that_fits() {
    let worst_case = of("[mqtt]\nwaiting_bytes_max = 1099511627776\noutbox_bytes_max = 1073741824\n");
    let advice = worst_case.advice(64 * GIB).expect("it does not fit");
    assert!(advice.starts_with("mqtt.waiting_bytes_max dominates: 2.0 TiB of "), "{advice}");
    let most: u64 = advice.split("Set it to ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let cured = of(&format!("[mqtt]\nwaiting_bytes_max = {most}\n"));
    assert!(cured.0[0].key != "mqtt.waiting_bytes_max" || cured.bytes() <= Some(64 * GIB), "{advice}");
    assert_eq!(worst_case.advice(u64::MAX), None);
    // The other key that would cure it: fewer clients.
    let (config, many) = (config(""), of(""));
    let advice = many.advice(24 * GIB).expect("it does not fit");
    let clients: usize = advice.split("connections_max = ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let fewer = WorstCase::of(&config, DoorConnections { mqtt: clients, ..CONNECTIONS }, NEEDS);
    assert!(clients > 1_000 && fewer.bytes().is_some_and(|bytes| bytes <= 24 * GIB), "{advice}");
    // No key alone would: several are named, and none with a value that is no less than it has.
    let advice = many.advice(20 * GIB).expect("it does not fit");
    assert!(advice.starts_with("no key alone makes it fit: of "), "{advice}");
    assert!(advice.contains(many.0[0].key) && advice.contains(many.0[3].key) && !advice.contains("Set it to"));
    let open = of("[kept.all]\nretained_bytes_max = 0\n");
    assert_eq!(open.bytes(), None);
    assert_eq!(open.advice(u64::MAX).as_deref(), Some("kept.all.retained_bytes_max = 0 is no bound: set one"));
}

#[test]
fn bytes_are_said_in_words() {
    let said = [0, 1_023, 1_024, 1_536, 3 << 30, u64::MAX].map(in_words);
    assert_eq!(said, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "3.0 GiB", "16384.0 PiB"]);
}

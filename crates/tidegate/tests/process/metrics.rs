//! `/metrics` answers what an operator asks first, with what really happened.

use tidegate_client::{Client, Transfer};

use crate::http::Http;
use crate::votes::{connect, ids, open_show, votes};
use crate::{Server, Settings, folder, wait_for};

/// What must be there: requests and refusals by kind, ring depths, group sizes, latencies of append, sync and reply.
const NAMES: [&str; 21] = [
    "tidegate_requests_total{",
    "tidegate_door_refusals_total{",
    "tidegate_outcomes_total{",
    "tidegate_refusals_total{",
    "tidegate_request_seconds_bucket{",
    "tidegate_request_seconds_sum",
    "tidegate_request_seconds_count",
    "tidegate_ring_depth{",
    "tidegate_inbox_depth{",
    "tidegate_group_records_bucket{",
    "tidegate_group_bytes_bucket{",
    "tidegate_append_seconds_bucket{",
    "tidegate_sync_seconds_bucket{",
    "tidegate_reply_seconds_bucket{",
    "tidegate_journal_bytes_total{",
    "tidegate_journal_sequence{",
    "tidegate_connections_open{",
    "tidegate_accounts{",
    "tidegate_ids_entries{",
    "tidegate_audit_differences{",
    "tidegate_recovery_seconds{",
];

#[test]
fn metrics_count_what_was_done() {
    let folder = folder();
    let server = Server::start(&Settings::new(folder.path()));
    let mut client = connect(&server);
    open_show(&mut client);
    let request = ids("vote", 500);
    client.transfers(&votes(&request)).expect("the server serves");
    client.transfers(&votes(&request[..100])).expect("the server serves");
    let too_much = Transfer { id: "x", debit: "wallet:carol", credit: "candidate:1", amount: 1 << 40, memo: "" };
    client.transfer(&too_much).expect("the server serves");
    Client::connect(server.binary, "no-such-token").expect_err("the door refuses a bad token");

    let mut http = Http::connect(server.http).expect("the door is open");
    let text = wait_for("the counters are brought up to date", || {
        let text = http.get("/metrics").expect("the door answers").body;
        let text = text.as_str().expect("a text").to_owned();
        (value(&text, "tidegate_outcomes_total", "outcome=\"refused\"") == Some(1.0)).then_some(text)
    });
    for name in NAMES {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} is missing:\n{text}");
    }
    // Four accounts, two sales, 500 votes.
    assert_eq!(value(&text, "tidegate_outcomes_total", "outcome=\"applied\""), Some(506.0), "{text}");
    assert_eq!(value(&text, "tidegate_outcomes_total", "outcome=\"duplicate\""), Some(100.0), "{text}");
    assert_eq!(value(&text, "tidegate_refusals_total", "insufficient_funds"), Some(1.0), "{text}");
    assert_eq!(value(&text, "tidegate_accounts", "shard=\"0\""), Some(4.0), "{text}");
    assert_eq!(value(&text, "tidegate_journal_sequence", "shard=\"0\""), Some(507.0), "{text}");
    assert!(value(&text, "tidegate_sync_seconds_count", "shard=\"0\"").is_some_and(|count| count >= 1.0), "{text}");
    // Each way some 400 bytes a vote and a byte or two an outcome.
    assert!(
        value(&text, "tidegate_received_bytes_total", "door=\"binary\"").is_some_and(|bytes| bytes > 180_000.0),
        "{text}"
    );
    assert!(
        value(&text, "tidegate_sent_bytes_total", "door=\"binary\"").is_some_and(|bytes| bytes > 1_000.0),
        "{text}"
    );
    let mut described: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    described.sort();
    let twice = described.windows(2).find(|pair| pair[0] == pair[1]);
    assert!(twice.is_none(), "a metric is described twice, which scrapers refuse: {twice:?}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, number) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?} has no value"));
        assert!(name.starts_with("tidegate_") && number.parse::<f64>().is_ok(), "{line:?}");
    }
}

/// The sum of the values of the lines of this metric that carry `label`.
fn value(text: &str, name: &str, label: &str) -> Option<f64> {
    let lines = text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
    let values = lines.filter(|line| line.contains(label)).filter_map(|line| line.rsplit_once(' ')?.1.parse().ok());
    values.reduce(|sum: f64, value| sum + value)
}

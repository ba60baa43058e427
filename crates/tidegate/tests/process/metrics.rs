//! `/metrics` shows what an operator needs first, and its numbers are right.

use std::collections::{BTreeMap, BTreeSet};

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
    let too_much = Transfer {
        id: "x",
        debit: "wallet:carol",
        credit: "candidate:1",
        amount: 1 << 40,
        memo: "",
        code: 0,
        user_data: "",
    };
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
    assert_eq!(
        value(&text, "tidegate_refusals_total", "family=\"ledger\",shard=\"0\",code=\"insufficient_funds\""),
        Some(1.0),
        "{text}"
    );
    assert_eq!(value(&text, "tidegate_accounts", "shard=\"0\""), Some(4.0), "{text}");
    assert_eq!(value(&text, "tidegate_journal_sequence", "family=\"ledger\",shard=\"0\""), Some(507.0), "{text}");
    assert!(
        value(&text, "tidegate_sync_seconds_count", "family=\"ledger\",shard=\"0\"").is_some_and(|count| count >= 1.0),
        "{text}"
    );
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
        let is_ours = name.starts_with("tidegate_") || name.starts_with("process_");
        assert!(is_ours && number.parse::<f64>().is_ok(), "{line:?}");
    }
}

/// What the server shows and what `docs/metrics.md` lists are the same, with the same kinds and labels.
#[test]
fn metrics_are_those_of_the_page() {
    let folder = folder();
    // Each provider has its own.
    let keys = folder.path().join("keys.json");
    std::fs::write(&keys, "{\"keys\": []}").expect("the folder is there");
    let sections = format!(
        "[[identity_provider]]\nname = \"show\"\nissuer = \"https://id.example.org\"\naudience = [\"tidegate\"]\n\
         jwks_file = \"{}\"\n\n\
         [[link]]\nname = \"to-nobody\"\nfrom = \"jobs\"\naddress = \"127.0.0.1:9\"\nto = \"jobs\"\n\
         token = \"none\"\n\n\
         [[smpp]]\nname = \"to-nobody\"\nfrom = \"jobs\"\naddress = \"127.0.0.1:9\"\nsystem_id = \"tide\"\n\
         password = \"none\"\n",
        keys.display()
    );
    let server = Server::start(&Settings { mqtt: true, sections, ..Settings::new(folder.path()) });
    let mut http = Http::connect(server.http).expect("the door is open");
    let page = page();
    let text = wait_for("the workers have counted something", || {
        let text = http.get("/metrics").expect("the door answers").body;
        let text = text.as_str().expect("a text").to_owned();
        (value(&text, "tidegate_worker_busy_seconds_total", "worker=\"0\"")? > 0.0).then_some(text)
    });
    let shown: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let listed: BTreeMap<&str, &str> = page.iter().map(|(name, (kind, _))| (*name, *kind)).collect();
    assert_eq!(shown, listed);
    let mut seen = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        let name = of_histogram.filter(|name| listed.get(name) == Some(&"histogram")).unwrap_or(name);
        // No value of a label has a comma here.
        let labels = labels.trim_end_matches('}').split(',').filter_map(|label| Some(label.split_once('=')?.0));
        let labels: Vec<&str> = labels.filter(|label| *label != "le").collect();
        assert_eq!(labels, page.get(name).unwrap_or_else(|| panic!("{name} is not on the page")).1, "{line}");
        seen.insert(name);
    }
    // All but those that have a series for each of some values, which come up as they come up.
    let by_value =
        |labels: &[&str]| labels.iter().any(|label| matches!(*label, "code" | "reason" | "kind" | "operation"));
    let silent: Vec<_> = page.iter().filter(|(name, (_, labels))| !seen.contains(*name) && !by_value(labels)).collect();
    assert!(silent.is_empty(), "declared, and registered by nobody: {silent:?}");
    for family in ["ledger", "topics"] {
        let sequence = value(&text, "tidegate_journal_sequence", &format!("family=\"{family}\",shard=\"0\""));
        assert!(sequence.is_some(), "each family counts in the same words: {family}");
    }
}

/// Kind and labels of each metric of the page.
fn page() -> BTreeMap<&'static str, (&'static str, Vec<&'static str>)> {
    let rows = include_str!("../../../../docs/metrics.md").lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").filter(|label| !label.is_empty());
        (cells[1].trim_matches('`'), (cells[2], labels.map(|label| label.trim_matches('`')).collect()))
    })
    .collect()
}

/// The sum of the values of the lines of this metric that carry `label`.
fn value(text: &str, name: &str, label: &str) -> Option<f64> {
    let lines = text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
    let values = lines.filter(|line| line.contains(label)).filter_map(|line| line.rsplit_once(' ')?.1.parse().ok());
    values.reduce(|sum: f64, value| sum + value)
}

/// The value of a metric without labels.
pub fn metric(server: &Server, name: &str) -> u64 {
    let metrics = Http::connect(server.http).and_then(|mut http| http.get("/metrics")).expect("the door answers");
    let text = metrics.body.as_str().expect("a text").to_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} is not in: {text}"))
}

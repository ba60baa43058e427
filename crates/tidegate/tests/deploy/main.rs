//! What `deploy/` says of the server: the metrics of its dashboard and its alerts exist.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Each metric of the page: its kind, and its labels.
fn listed() -> BTreeMap<String, (String, Vec<String>)> {
    let page = read("docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[3].split(", ").filter(|label| !label.is_empty()).map(|label| label.trim_matches('`').into());
        (cells[1].trim_matches('`').to_owned(), (cells[2].to_owned(), labels.collect()))
    })
    .collect()
}

/// Names that begin as metrics do.
fn names(text: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter: char| !is_part(letter));
    words.filter(|word| word.starts_with("tidegate_") || word.starts_with("process_")).map(str::to_owned).collect()
}

fn check(path: &str) {
    let (listed, text) = (listed(), read(path));
    let names = names(&text);
    assert!(names.len() > 10, "{path} uses metrics: {names:?}");
    for name in names {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        let histogram = of_histogram.filter(|name| listed.get(*name).is_some_and(|(kind, _)| kind == "histogram"));
        let is_known = match (listed.get(&name), histogram) {
            // Only the parts of a histogram have values.
            (Some((kind, _)), None) => kind != "histogram",
            (None, Some(_)) => true,
            _ => false,
        };
        assert!(is_known, "{path} uses {name}, which docs/metrics.md does not list");
    }
}

#[test]
fn the_dashboard_uses_metrics_that_exist() {
    check("deploy/grafana/tidegate.json");
    let dashboard: serde_json::Value = serde_json::from_str(&read("deploy/grafana/tidegate.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.iter().filter(|panel| panel["type"] != "row").all(|panel| panel["targets"][0]["expr"].is_string()));
}

#[test]
fn the_alerts_use_metrics_that_exist() {
    check("deploy/prometheus/tidegate.rules.yml");
    let rules = read("deploy/prometheus/tidegate.rules.yml");

    for part in ["alert:", "expr:", "summary:", "action:", "severity:"] {
        assert_eq!(rules.matches(part).count(), rules.matches("- alert:").count(), "each alert has its {part}");
    }
}

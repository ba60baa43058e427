//! The names of metrics, which dashboards use: they have one form, and `docs/metrics.md` lists them.

use std::collections::BTreeSet;
use std::fmt::Write;

use expect_test::expect_file;
use tidegate_telemetry::Kind;

use super::*;

fn rows() -> impl Iterator<Item = &'static MetricRow> {
    LISTS.iter().copied().flatten()
}

#[test]
fn each_metric_has_one_name_of_its_own_and_says_what_it_counts() {
    let mut names = BTreeSet::new();
    for row in rows() {
        assert!(names.insert(row.name), "{} has two owners", row.name);
        let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        // Those of processes have the names that all Prometheus clients have for them.
        let is_ours = row.name.starts_with("tidegate_") || row.name.starts_with("process_");
        assert!(is_ours && row.name.bytes().all(is_lower), "{}", row.name);
        assert!(row.help.len() > 5 && row.help.ends_with('.'), "{}: {:?} is no sentence", row.name, row.help);
        assert!(!row.help.contains('|'), "{}: the page is a table", row.name);
        let labels: BTreeSet<_> = row.labels.iter().collect();
        assert_eq!(labels.len(), row.labels.len(), "{} has a label twice", row.name);
    }
    // Each is registered with its own kind, labels and help, or this would panic.
    registry(&[]);
}

#[test]
fn names_end_in_their_unit() {
    for row in rows() {
        let unit = row.name.strip_suffix("_total");
        assert_eq!(unit.is_some(), row.kind == Kind::Counter, "{} is a {}", row.name, row.kind.name());
        let mut words = unit.unwrap_or(row.name).rsplit('_');
        words.next();
        let misplaced = words.find(|word| matches!(*word, "seconds" | "bytes" | "total"));
        assert_eq!(misplaced, None, "{}: the unit comes last", row.name);
        let foreign = row.name.split('_').find(|word| {
            matches!(
                *word,
                "ns" | "us" | "ms" | "micros" | "nanoseconds" | "milliseconds" | "kib" | "mib" | "kb" | "percent"
            )
        });
        assert_eq!(foreign, None, "{}: times are shown in seconds, sizes in bytes", row.name);
        if row.help.starts_with("Bytes ") {
            assert!(row.name.contains("_bytes"), "{} counts bytes", row.name);
        }
    }
}

/// What changes here is said in the CHANGELOG.
#[test]
fn the_page_lists_them() {
    let mut page = String::from(PREFACE);
    for row in rows() {
        let labels = row.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        writeln!(page, "| `{}` | {} | {labels} | {} |", row.name, row.kind.name(), row.help).unwrap();
    }
    expect_file!["../../../../docs/metrics.md"].assert_eq(&page);
}

const PREFACE: &str = "\
# Metrics

What `GET /metrics` shows, in the Prometheus text format, or as OpenMetrics for who asks by
`Accept: application/openmetrics-text`. A name ends in its unit: `_total` counts, `_seconds`,
`_bytes`. A metric is shown, with its type and help, also before it has a value. Each is declared beside the code that
counts it; this page is made from the declarations (`UPDATE_EXPECT=1 cargo test -p tidegate metrics`).

| Name | Kind | Labels | Meaning |
|---|---|---|---|
";

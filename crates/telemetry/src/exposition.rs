//! What `GET /metrics` answers: Prometheus text format 0.0.4, or OpenMetrics 1.0.0 for who asks for it.
//!
//! The two differ in three things: OpenMetrics describes a counter by its name without `_total`, escapes quotation
//! marks in help, and ends in `# EOF`, by which a text that was cut off is told from a whole one.
//!
//! A histogram's 1,152 buckets are shown as at most 30, at powers of two for times and of four for the rest: exactly,
//! because each of those bounds is one of the fine buckets too.

use crate::histogram::bucket_of;
use crate::metric::{Kind, MetricRow, Unit};
use crate::snapshot::{Distribution, FamilySnapshot, Reading, Snapshot};
use std::fmt::{Display, Write};

/// Powers of two at which the buckets of times end: 2^12 ns is 4 µs, 2^35 ns is 34 s.
const NANOSECONDS_POWERS: std::ops::RangeInclusive<u32> = 12..=35;

/// Likewise for counts and bytes: 1 to 2^28 in steps of four, that is 256 MiB.
const PLAIN_POWERS: std::ops::RangeInclusive<u32> = 0..=28;

const NANOSECONDS_PER_SECOND: f64 = 1e9;

/// The form of a text of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus text format 0.0.4.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Exposition {
    /// What `Content-Type` says of it.
    pub fn content_type(self) -> &'static str {
        match self {
            Exposition::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The name that a metric is described by.
    fn described(self, row: &MetricRow) -> &'static str {
        match (self, row.kind) {
            (Exposition::OpenMetrics, Kind::Counter) => row.name.strip_suffix("_total").unwrap_or(row.name),
            _ => row.name,
        }
    }

    fn help(self, row: &MetricRow) -> String {
        let escaped = row.help.replace('\\', r"\\").replace('\n', r"\n");
        match self {
            Exposition::Prometheus => escaped,
            Exposition::OpenMetrics => escaped.replace('"', "\\\""),
        }
    }
}

/// The metrics of a snapshot as text, in the form that Prometheus always reads.
pub fn render_prometheus(snapshot: &Snapshot) -> String {
    render(snapshot, Exposition::Prometheus)
}

/// The metrics of a snapshot as text.
pub fn render(snapshot: &Snapshot, exposition: Exposition) -> String {
    let mut out = String::new();
    snapshot
        .families()
        .iter()
        .try_for_each(|family| render_family(&mut out, family, exposition))
        .expect("a String grows as needed");
    if exposition == Exposition::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn render_family(out: &mut String, family: &FamilySnapshot, exposition: Exposition) -> std::fmt::Result {
    let row = family.row();
    let (name, kind, help) = (exposition.described(row), row.kind.name(), exposition.help(row));
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} {kind}")?;
    for series in family.series() {
        let labels = series.labels_as_shown();
        match series.reading() {
            Reading::Counter(count) => render_number(out, row, labels, *count, *count as f64)?,
            Reading::Gauge(value) => render_number(out, row, labels, *value, *value as f64)?,
            Reading::Histogram(distribution) => render_histogram(out, row, labels, distribution)?,
        }
    }
    Ok(())
}

/// `plain` is the number as recorded, `real` the same for what is shown in another unit.
fn render_number(out: &mut String, row: &MetricRow, labels: &str, plain: impl Display, real: f64) -> std::fmt::Result {
    out.push_str(row.name);
    braces(out, labels, None)?;
    match row.unit() {
        Unit::Nanoseconds => writeln!(out, " {}", real / NANOSECONDS_PER_SECOND),
        Unit::Plain => writeln!(out, " {plain}"),
    }
}

fn render_histogram(out: &mut String, row: &MetricRow, labels: &str, distribution: &Distribution) -> std::fmt::Result {
    let (name, counts, sum) = (row.name, distribution.counts(), distribution.sum());
    let (powers, step) = match row.unit() {
        Unit::Nanoseconds => (NANOSECONDS_POWERS, 1),
        Unit::Plain => (PLAIN_POWERS, 2),
    };
    let (mut shown, mut cumulative) = (0, 0u64);
    for power in powers.step_by(step) {
        let end = bucket_of(1 << power);
        cumulative += counts[shown..end].iter().sum::<u64>();
        shown = end;
        // The fine buckets before `end` hold what is *below* 2^power. Whole numbers can say that exactly; for a time,
        // the nanosecond that is missing says nothing.
        let bound = match row.unit() {
            Unit::Nanoseconds => ((1u64 << power) as f64 / NANOSECONDS_PER_SECOND).to_string(),
            Unit::Plain => ((1u64 << power) - 1).to_string(),
        };
        write!(out, "{name}_bucket")?;
        braces(out, labels, Some(&bound))?;
        writeln!(out, " {cumulative}")?;
    }
    cumulative += counts[shown..].iter().sum::<u64>();
    write!(out, "{name}_bucket")?;
    braces(out, labels, Some("+Inf"))?;
    writeln!(out, " {cumulative}")?;
    write!(out, "{name}_sum")?;
    braces(out, labels, None)?;
    match row.unit() {
        Unit::Nanoseconds => writeln!(out, " {}", sum as f64 / NANOSECONDS_PER_SECOND)?,
        Unit::Plain => writeln!(out, " {sum}")?,
    }
    write!(out, "{name}_count")?;
    braces(out, labels, None)?;
    writeln!(out, " {cumulative}")
}

/// The labels, and `le` of a bucket; nothing if there are none.
fn braces(out: &mut String, labels: &str, le: Option<&str>) -> std::fmt::Result {
    match (labels, le) {
        ("", None) => Ok(()),
        ("", Some(le)) => write!(out, "{{le=\"{le}\"}}"),
        (labels, None) => write!(out, "{{{labels}}}"),
        (labels, Some(le)) => write!(out, "{{{labels},le=\"{le}\"}}"),
    }
}

//! The name, kind, labels and unit of a metric.

/// The unit in which a metric is recorded, which decides how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Shown as recorded: counts, bytes, sequences.
    Plain,
    /// Recorded in nanoseconds, shown in seconds.
    Nanoseconds,
}

/// What kind of metric it is, as Prometheus tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Rises and falls.
    Gauge,
    /// How values are spread.
    Histogram,
}

impl Kind {
    /// The word of the text format.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric as its owner declares it with [`crate::metrics!`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricRow {
    /// `tidegate_` and what is counted, its unit last: `_total` for counters, `_seconds` or `_bytes` before it.
    pub name: &'static str,
    /// One line for the person who reads `/metrics`.
    pub help: &'static str,
    /// What it is.
    pub kind: Kind,
    /// The labels that each of its series has.
    pub labels: &'static [&'static str],
}

impl MetricRow {
    /// What is recorded. The name says it: `_seconds` are recorded in nanoseconds.
    pub fn unit(&self) -> Unit {
        match self.name.strip_suffix("_total").unwrap_or(self.name).ends_with("_seconds") {
            true => Unit::Nanoseconds,
            false => Unit::Plain,
        }
    }
}

//! What a metric is called and what its numbers mean.

/// The unit in which a metric is recorded, which decides how it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Shown as recorded: counts, bytes, sequences.
    Plain,
    /// Recorded in nanoseconds, shown in seconds.
    Nanoseconds,
}

/// Name, help and unit of a metric. All series of one name must agree on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// `tidegate_` ... `_total`, `_seconds` or `_bytes`; lower case and underscores.
    pub name: &'static str,
    /// One line for the person who reads `/metrics`.
    pub help: &'static str,
    /// What is recorded.
    pub unit: Unit,
}

impl Metric {
    /// A metric that is shown as recorded.
    pub const fn plain(name: &'static str, help: &'static str) -> Metric {
        Metric { name, help, unit: Unit::Plain }
    }

    /// A metric that is recorded in nanoseconds and shown in seconds.
    pub const fn nanoseconds(name: &'static str, help: &'static str) -> Metric {
        Metric { name, help, unit: Unit::Nanoseconds }
    }
}

//! Metrics: counting costs a worker about a nanosecond, and reading does not slow it down.
//!
//! ```text
//!   worker 0 ──add──▶ cells ◀─┐                                ┌── render_prometheus ──▶ GET /metrics
//!   worker 1 ──add──▶ cells ◀─┼── relaxed loads ── Snapshot ◀──┤
//!   shard 0  ──add──▶ cells ◀─┘                                └── a recorder, each second
//! ```
//!
//! Each thread has cells of its own, so an addition is a load and a store on a cache line that no other thread writes
//! to: no lock, no locked instruction. The types allow one writer only: a [`Counter`] can be sent to a thread but not
//! shared or cloned. Where several threads count the same (the HTTP edge), there are [`SharedCounter`]s, which cost
//! more. A [`Snapshot`] reads each cell once; two cells of one snapshot may be some microseconds apart in time.
//!
//! Who counts declares its own set with [`metrics!`], one row for each metric: name, kind, labels, help. A [`Registry`]
//! is made of such lists and takes only metrics that they declare, so the lists name all that `/metrics` shows. Names
//! end in their unit: `_total` counts, `_seconds` are recorded in nanoseconds and shown in seconds, `_bytes` are bytes.
//!
//! Invariant: nothing here knows what is counted; names and label values come from the callers.

mod cell;
mod counter;
mod exposition;
mod family;
mod gauge;
mod histogram;
mod metric;
mod registry;
mod set;
mod snapshot;

#[cfg(test)]
mod tests;

pub use counter::{Counter, SharedCounter};
pub use exposition::{Exposition, render, render_prometheus};
pub use family::{CounterFamily, GaugeFamily, HistogramFamily, LABEL_VALUES_MAX, SharedCounterFamily};
pub use gauge::{Gauge, SharedGauge};
pub use histogram::{BUCKETS, GROUPING_POWER, Histogram, MAX_VALUE_POWER};
pub use metric::{Kind, MetricRow, Unit};
pub use registry::{Recorder, Registry};
pub use set::{Instrument, OwnLabel};
pub use snapshot::{Distribution, FamilySnapshot, Reading, SeriesSnapshot, Snapshot};

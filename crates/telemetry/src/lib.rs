//! Counting costs the worker about a nanosecond, and reading never disturbs it.
//!
//! ```text
//!   worker 0 ──add──▶ cells ◀─┐
//!   worker 1 ──add──▶ cells ◀─┼── relaxed loads ── Registry ── render_prometheus ──▶ GET /metrics
//!   shard 0  ──add──▶ cells ◀─┘
//! ```
//!
//! Each thread has cells of its own, so an addition is a load and a store on a cache line that nobody else writes: no lock, no
//! locked instruction. That one thread writes is not a rule to remember but what the types allow: a [`Counter`] can be sent to
//! a thread but not shared or cloned. Where threads come and go (the HTTP edge) there are [`SharedCounter`]s that pay for it.
//! The scraper reads each cell when it comes by; two cells of one scrape may be some nanoseconds apart in time.
//!
//! Names end in their unit: `_total` counts, `_seconds` are recorded in nanoseconds and shown in seconds, `_bytes` are bytes.
//! The sets that the server records are [`ShardMetrics`], [`GatewayMetrics`] and [`HttpMetrics`].
//!
//! Invariant: nothing here knows what a transfer or a connection is; label values are the callers' words.

mod cell;
mod counter;
mod exposition;
mod family;
mod gauge;
mod histogram;
mod metric;
mod registry;
mod set;

#[cfg(test)]
mod tests;

pub use counter::{Counter, SharedCounter};
pub use exposition::render_prometheus;
pub use family::{CounterFamily, LABEL_VALUES_MAX, SharedCounterFamily};
pub use gauge::Gauge;
pub use histogram::{BUCKETS, GROUPING_POWER, Histogram, MAX_VALUE_POWER, SharedHistogram};
pub use metric::{Metric, Unit};
pub use registry::{Recorder, Registry};
pub use set::{GatewayMetrics, HttpMetrics, ShardMetrics};

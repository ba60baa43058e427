//! All metrics of the server, composed from the lists of their owners. A metric that no list declares cannot be
//! registered.
//!
//! `docs/metrics.md` is made from here.

use tidegate_doors::binary::BinaryMetrics;
use tidegate_doors::http::HttpMetrics;
use tidegate_doors::ledger_http::LedgerHttpMetrics;
use tidegate_doors::mqtt::{BrokerMetrics, MqttMetrics};
use tidegate_doors::refusal_metrics::RefusalMetrics;
use tidegate_ledger::LedgerMetrics;
use tidegate_runtime::metrics::ScrubMetrics;
use tidegate_runtime::{
    ClockMetrics, DirectoryMetrics, LoopMetrics, PortClockMetrics, RoomMetrics, ShardMetrics, SnapshotMetrics,
    WitnessMetrics,
};
use tidegate_telemetry::{MetricRow, Registry};

use crate::archiving::ArchiveMetrics;

/// By owner, in the order in which people read about them.
const LISTS: &[&[MetricRow]] = &[
    ShardMetrics::ROWS,
    LedgerMetrics::ROWS,
    ScrubMetrics::ROWS,
    SnapshotMetrics::ROWS,
    DirectoryMetrics::ROWS,
    RoomMetrics::ROWS,
    WitnessMetrics::ROWS,
    ArchiveMetrics::ROWS,
    LoopMetrics::ROWS,
    ClockMetrics::ROWS,
    PortClockMetrics::ROWS,
    BinaryMetrics::ROWS,
    RefusalMetrics::ROWS,
    HttpMetrics::ROWS,
    LedgerHttpMetrics::ROWS,
    MqttMetrics::ROWS,
    BrokerMetrics::ROWS,
];

/// The registry of a server that counts also what `others` declare.
pub fn registry(others: &[&'static [MetricRow]]) -> Registry {
    Registry::of(&[LISTS, others].concat())
}

#[cfg(test)]
mod tests;

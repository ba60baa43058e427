//! All metrics of the server, composed from the lists of their owners. A metric that no list declares cannot be
//! registered.
//!
//! `docs/metrics.md` is made from here.

use tidegate_doors::binary::BinaryMetrics;
use tidegate_doors::edge::ChangeReaderMetrics;
use tidegate_doors::handshakes::HandshakeMetrics;
use tidegate_doors::http::HttpMetrics;
use tidegate_doors::ledger_http::LedgerHttpMetrics;
use tidegate_doors::mqtt::{BrokerMetrics, MqttMetrics, NodeMqttMetrics};
use tidegate_doors::pacer_room::NoticeMetrics;
use tidegate_doors::queue_room::QueueHttpMetrics;
use tidegate_doors::refusal_metrics::RefusalMetrics;
use tidegate_doors::request_metrics::RequestMetrics;
use tidegate_doors::security::SecurityMetrics;
use tidegate_ledger::LedgerMetrics;
use tidegate_link::{LinkMetrics, SmppMetrics};
use tidegate_pacer::metrics::{CampaignMetrics, DecisionMetrics, PacerMetrics};
use tidegate_queue::QueueMetrics;
use tidegate_runtime::metrics::ScrubMetrics;
use tidegate_runtime::{
    ClockMetrics, DirectoryMetrics, DiskMetrics, LoopMetrics, PortClockMetrics, RoomMetrics, ShardMetrics,
    SnapshotMetrics, WitnessMetrics,
};
use tidegate_telemetry::{MetricRow, Registry};

use crate::archiving::ArchiveMetrics;
use crate::auth_hook::AuthHookMetrics;
use crate::identity_keys::IdentityKeyMetrics;
use crate::watch::{BuildMetrics, ProcessMetrics, SnapshotFileMetrics, StateMetrics};

/// By owner, in the order in which people read about them.
const LISTS: &[&[MetricRow]] = &[
    ShardMetrics::ROWS,
    LedgerMetrics::ROWS,
    QueueMetrics::ROWS,
    LinkMetrics::ROWS,
    CampaignMetrics::ROWS,
    DecisionMetrics::ROWS,
    PacerMetrics::ROWS,
    NoticeMetrics::ROWS,
    SmppMetrics::ROWS,
    ScrubMetrics::ROWS,
    SnapshotFileMetrics::ROWS,
    SnapshotMetrics::ROWS,
    DirectoryMetrics::ROWS,
    DiskMetrics::ROWS,
    RoomMetrics::ROWS,
    WitnessMetrics::ROWS,
    ArchiveMetrics::ROWS,
    IdentityKeyMetrics::ROWS,
    AuthHookMetrics::ROWS,
    LoopMetrics::ROWS,
    ClockMetrics::ROWS,
    PortClockMetrics::ROWS,
    RequestMetrics::ROWS,
    BinaryMetrics::ROWS,
    RefusalMetrics::ROWS,
    SecurityMetrics::ROWS,
    HandshakeMetrics::ROWS,
    HttpMetrics::ROWS,
    LedgerHttpMetrics::ROWS,
    QueueHttpMetrics::ROWS,
    ChangeReaderMetrics::ROWS,
    MqttMetrics::ROWS,
    BrokerMetrics::ROWS,
    NodeMqttMetrics::ROWS,
    StateMetrics::ROWS,
    BuildMetrics::ROWS,
    ProcessMetrics::ROWS,
];

/// The registry of a server that counts also what `others` declare.
pub fn registry(others: &[&'static [MetricRow]]) -> Registry {
    Registry::of(&[LISTS, others].concat())
}

#[cfg(test)]
mod tests;

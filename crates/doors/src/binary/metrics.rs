//! What one worker counts at the binary port.

use tidegate_ledger::message::Request;
use tidegate_telemetry::metrics;

/// Label `door`.
pub const BINARY: &str = "binary";

metrics! {
    /// One worker's metrics. For one thread.
    pub struct BinaryMetrics(door, worker) {
        requests: CounterFamily(kind) "tidegate_requests_total" "Requests that were read, by kind.";
        unavailable: CounterFamily(reason)
            "tidegate_unavailable_total" "Requests that could not be served, by reason.";
        connections_open: Gauge "tidegate_connections_open" "Connections open now.";
        connections_accepted: Counter "tidegate_connections_accepted_total" "Connections accepted.";
        connections_refused: CounterFamily(reason)
            "tidegate_connections_refused_total" "Connections turned away or ended by us, by reason.";
        received_bytes: Counter "tidegate_received_bytes_total" "Bytes read from sockets.";
        sent_bytes: Counter "tidegate_sent_bytes_total" "Bytes written to sockets.";
        reads_paused: Counter
            "tidegate_reads_paused_total" "Times a socket was not read because a bounded queue was full.";
    }
}

/// What a request is counted as.
pub fn kind_of(request: &Request) -> &'static str {
    match request {
        Request::OpenAccount { .. } => "open_account",
        Request::OpenAccounts(_) => "open_accounts",
        Request::Transfers { .. } => "transfers",
        Request::PlaceHolds(_) => "holds",
        Request::PlaceLinkedHolds(_) => "linked_holds",
        Request::ReadTransfer { .. } => "read_transfer",
        Request::ReadHold { .. } => "read_hold",
        Request::ListHolds { .. } => "list_holds",
        Request::ChangeAccount { .. } => "change_account",
        Request::DeclareAsset { .. } => "declare_asset",
        Request::ListAssets => "list_assets",
        Request::PostHolds(_) => "post_holds",
        Request::VoidHolds(_) => "void_holds",
        Request::ReadAccount { .. } => "read_account",
        Request::ListAccounts { .. } => "list_accounts",
        Request::ReadHistory { .. } => "read_history",
        Request::ReadBalanceAt { .. } => unreachable!("the schema has no balance of a time"),
        Request::StreamHistory { .. } => unreachable!("the schema has no streams"),
        Request::Announce(_) => unreachable!("no client may ask it"),
        Request::ReadAudit => "read_audit",
    }
}

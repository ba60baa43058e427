//! What the ledger's room counts at the HTTP door, shared by all edge threads.

use tidegate_telemetry::metrics;

metrics! {
    /// The ledger's metrics at the HTTP door.
    #[derive(Clone)]
    pub struct LedgerHttpMetrics() {
        transfers: SharedCounter
            "tidegate_http_transfers_total" "Transfers asked for, in single requests and batches.";
        history_streams: SharedGauge
            "tidegate_http_history_streams" "Histories that are read as lines now.";
        change_streams: SharedGauge
            "tidegate_http_change_streams" "Streams of changes, as lines or events, open now.";
    }
}

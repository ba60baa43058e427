//! What the queues' room counts at the HTTP door, shared by all edge threads.

use tidegate_telemetry::metrics;

metrics! {
    /// The metrics of queues at the HTTP door.
    #[derive(Clone)]
    pub struct QueueHttpMetrics() {
        message_streams: SharedGauge
            "tidegate_http_message_streams" "Streams of messages of queues, as lines, open now.";
    }
}

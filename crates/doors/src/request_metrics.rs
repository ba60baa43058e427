//! How long requests take at every door.
//!
//! Why by operation and not by worker: a list of a thousand accounts is not a vote, and threads of one door differ in
//! nothing that their requests could tell.

use tidegate_telemetry::metrics;

metrics! {
    /// What one thread measures at one door.
    pub struct RequestMetrics(door) {
        took: HistogramFamily(operation) "tidegate_request_seconds"
            "From a request's arrival to its answer handed to the socket, by operation; of a stream, to its beginning.";
    }
}

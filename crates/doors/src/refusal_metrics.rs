//! What every door counts of requests that it refuses by itself.

use tidegate_telemetry::metrics;

metrics! {
    /// One thread's refusals at one door.
    pub struct RefusalMetrics(door, worker) {
        /// What the ledger refuses its shards count, too.
        refusals: CounterFamily(code)
            "tidegate_door_refusals_total" "Requests that the door answered with a refusal, by code.";
        quota: CounterFamily(bound: "requests" "refusals" "journal_bytes" "in_flight" "at_once" "address")
            "tidegate_quota_refusals_total"
            "Requests refused because their caller has used up a bound of its own, by bound.";
    }
}

//! What the scraper sees of what the threads record.

use crate::*;
use expect_test::{Expect, expect};
use std::thread;

const VOTES: Metric = Metric::plain("tidegate_votes_total", "Votes.");
const DEPTH: Metric = Metric::plain("tidegate_depth", "Depth.");
const BUSY: Metric = Metric::nanoseconds("tidegate_busy_seconds_total", "Busy.");
const BYTES: Metric = Metric::plain("tidegate_group_bytes", "Sizes.");
const LATENCY: Metric = Metric::nanoseconds("tidegate_sync_seconds", "Latency.");

/// What is shown, without histogram buckets that say no more than the one before.
fn check(registry: &Registry, expected: Expect) {
    let shown = render_prometheus(registry);
    let mut count_before = "";
    let mut kept = String::new();
    for line in shown.lines() {
        let (name, count) = line.rsplit_once(' ').unwrap();
        let is_repeated = name.contains("_bucket{") && !name.contains("+Inf") && count == count_before;
        count_before = if name.contains("_bucket{") { count } else { "0" };
        if !is_repeated {
            kept += line;
            kept.push('\n');
        }
    }
    expected.assert_eq(&kept);
}

#[test]
fn all_kinds_are_shown_by_name() {
    let registry = Registry::new();
    let recorder = registry.recorder(&[("shard", "0")]);
    recorder.counter(VOTES).add(7);
    let depth = recorder.gauge(DEPTH);
    depth.set(3);
    depth.add(-5);
    recorder.counter(BUSY).add(1_500_000_000);
    let bytes = recorder.histogram(BYTES);
    [0, 1, 3, 4, 65_536, 1 << 35].into_iter().for_each(|size| bytes.record(size));
    let latency = recorder.histogram(LATENCY);
    latency.record_times(180_000, 8_190);
    latency.record(100_000_000_000);
    check(
        &registry,
        expect![[r##"
        # HELP tidegate_busy_seconds_total Busy.
        # TYPE tidegate_busy_seconds_total counter
        tidegate_busy_seconds_total{shard="0"} 1.5
        # HELP tidegate_depth Depth.
        # TYPE tidegate_depth gauge
        tidegate_depth{shard="0"} -2
        # HELP tidegate_group_bytes Sizes.
        # TYPE tidegate_group_bytes histogram
        tidegate_group_bytes_bucket{shard="0",le="0"} 1
        tidegate_group_bytes_bucket{shard="0",le="3"} 3
        tidegate_group_bytes_bucket{shard="0",le="15"} 4
        tidegate_group_bytes_bucket{shard="0",le="262143"} 5
        tidegate_group_bytes_bucket{shard="0",le="+Inf"} 6
        tidegate_group_bytes_sum{shard="0"} 34359803912
        tidegate_group_bytes_count{shard="0"} 6
        # HELP tidegate_sync_seconds Latency.
        # TYPE tidegate_sync_seconds histogram
        tidegate_sync_seconds_bucket{shard="0",le="0.000262144"} 8190
        tidegate_sync_seconds_bucket{shard="0",le="+Inf"} 8191
        tidegate_sync_seconds_sum{shard="0"} 101.4742
        tidegate_sync_seconds_count{shard="0"} 8191
        # HELP tidegate_votes_total Votes.
        # TYPE tidegate_votes_total counter
        tidegate_votes_total{shard="0"} 7
    "##]],
    );
}

#[test]
fn threads_are_shown_apart_by_label_and_as_one_without() {
    let registry = Registry::new();
    let threads: Vec<_> = ["0", "1", "0"]
        .into_iter()
        .map(|worker| {
            let recorder = registry.recorder(&[("worker", worker)]);
            thread::spawn(move || {
                let (votes, depth) = (recorder.counter(VOTES), recorder.gauge(DEPTH));
                let bytes = recorder.histogram(BYTES);
                for _ in 0..1_000 {
                    votes.increment();
                    depth.add(2);
                    depth.add(-1);
                    bytes.record(100);
                }
            })
        })
        .collect();
    // Scraping while they record is allowed and never sees more than there will be.
    while threads.iter().any(|thread| !thread.is_finished()) {
        let shown = render_prometheus(&registry);
        for line in shown.lines().filter(|line| line.starts_with("tidegate_votes_total{")) {
            let count: u64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
            assert!(count <= 2_000, "{line}");
        }
        thread::yield_now();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    check(
        &registry,
        expect![[r##"
        # HELP tidegate_depth Depth.
        # TYPE tidegate_depth gauge
        tidegate_depth{worker="0"} 2000
        tidegate_depth{worker="1"} 1000
        # HELP tidegate_group_bytes Sizes.
        # TYPE tidegate_group_bytes histogram
        tidegate_group_bytes_bucket{worker="0",le="255"} 2000
        tidegate_group_bytes_bucket{worker="0",le="+Inf"} 2000
        tidegate_group_bytes_sum{worker="0"} 200000
        tidegate_group_bytes_count{worker="0"} 2000
        tidegate_group_bytes_bucket{worker="1",le="255"} 1000
        tidegate_group_bytes_bucket{worker="1",le="+Inf"} 1000
        tidegate_group_bytes_sum{worker="1"} 100000
        tidegate_group_bytes_count{worker="1"} 1000
        # HELP tidegate_votes_total Votes.
        # TYPE tidegate_votes_total counter
        tidegate_votes_total{worker="0"} 2000
        tidegate_votes_total{worker="1"} 1000
    "##]],
    );
}

#[test]
fn many_writers_lose_nothing() {
    let registry = Registry::new();
    let http = HttpMetrics::register(&registry, &["transfers"], &["forbidden"], &["busy"]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..250 {
                    http.requests.increment("transfers");
                    http.refusals.increment("something new");
                    http.request_latency.record(1_000);
                }
            });
        }
    });
    assert_eq!((http.requests.get("transfers"), http.refusals.get("other")), (1_000, 1_000));
    assert_eq!(http.request_latency.snapshot().as_slice().iter().sum::<u64>(), 1_000);
}

#[test]
fn a_family_grows_with_its_values_up_to_its_bound() {
    let registry = Registry::new();
    let refusals = registry.recorder(&[]).counter_family(VOTES, "code");
    refusals.add("insufficient_funds", 2);
    refusals.increment("insufficient_funds");
    assert_eq!(refusals.get("insufficient_funds"), 3);
    // Many different static texts: the beginnings of this file.
    let codes = |length: usize| &include_str!("tests.rs")[..length];
    for length in 1..=3 * LABEL_VALUES_MAX {
        refusals.increment(codes(length));
    }
    assert_eq!(refusals.get(codes(1)), 1);
    assert_eq!(refusals.get("other"), 2 * LABEL_VALUES_MAX as u64 + 1);
    assert_eq!(render_prometheus(&registry).lines().count(), 2 + LABEL_VALUES_MAX + 1);
}

#[test]
fn cells_of_one_recorder_do_not_run_over() {
    let registry = Registry::new();
    let recorder = registry.recorder(&[]);
    let counters: Vec<_> = (0..20).map(|n| recorder.counter_with(VOTES, &[("n", &n.to_string())])).collect();
    counters.iter().enumerate().for_each(|(n, counter)| counter.add(n as u64));
    for (n, counter) in counters.iter().enumerate() {
        assert_eq!(counter.get(), n as u64);
    }
}

#[test]
fn label_values_are_escaped() {
    let registry = Registry::new();
    registry.recorder(&[("path", "a\\b\"c\nd")]).counter(VOTES).increment();
    check(
        &registry,
        expect![[r##"
        # HELP tidegate_votes_total Votes.
        # TYPE tidegate_votes_total counter
        tidegate_votes_total{path="a\\b\"c\nd"} 1
    "##]],
    );
}

#[test]
#[should_panic(expected = "tidegate_votes_total is registered with another help, unit or kind already")]
fn one_name_has_one_meaning() {
    let registry = Registry::new();
    let recorder = registry.recorder(&[]);
    recorder.counter(VOTES).increment();
    recorder.gauge(VOTES).set(1);
}

/// The names an operator's dashboards rely on. What changes here must be said in the CHANGELOG.
#[test]
#[cfg_attr(miri, ignore = "text; nothing for Miri, and slow there")]
fn the_names_of_the_servers_metrics() {
    let registry = Registry::new();
    let shard = ShardMetrics::register(&registry, 0);
    let gateway = GatewayMetrics::register(&registry, 0, &["shard-0"]);
    let _http = HttpMetrics::register(&registry, &["transfers"], &["forbidden"], &["busy"]);
    shard.refusals.increment("insufficient_funds");
    shard.unavailable.increment("busy");
    gateway.requests.increment("transfers");
    gateway.refusals.increment("forbidden");
    gateway.unavailable.increment("busy");
    gateway.connections_refused.increment("limit");
    let shown = render_prometheus(&registry);
    let mut types: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    types.sort_unstable();
    expect![[r#"
        tidegate_accounts gauge
        tidegate_append_seconds histogram
        tidegate_audit_accounts_compared gauge
        tidegate_audit_differences gauge
        tidegate_audit_sequence gauge
        tidegate_connections_accepted_total counter
        tidegate_connections_closed_total counter
        tidegate_connections_open gauge
        tidegate_connections_refused_total counter
        tidegate_door_refusals_total counter
        tidegate_group_bytes histogram
        tidegate_group_records histogram
        tidegate_holds_open gauge
        tidegate_http_responses_total counter
        tidegate_ids_disk_reads_total counter
        tidegate_ids_entries gauge
        tidegate_ids_false_positives_total counter
        tidegate_ids_filter_bytes gauge
        tidegate_ids_memory_bytes gauge
        tidegate_ids_retries_total counter
        tidegate_ids_run_bytes gauge
        tidegate_ids_runs gauge
        tidegate_inbox_depth gauge
        tidegate_journal_bytes_total counter
        tidegate_journal_groups_total counter
        tidegate_journal_sequence gauge
        tidegate_outcomes_total counter
        tidegate_reads_paused_total counter
        tidegate_received_bytes_total counter
        tidegate_recovery_records gauge
        tidegate_recovery_seconds gauge
        tidegate_refusals_total counter
        tidegate_reply_seconds histogram
        tidegate_request_seconds histogram
        tidegate_requests_total counter
        tidegate_ring_depth gauge
        tidegate_sent_bytes_total counter
        tidegate_shard_unavailable_total counter
        tidegate_snapshot_sequence gauge
        tidegate_sync_seconds histogram
        tidegate_unavailable_total counter
        tidegate_uncommitted_replies gauge
        tidegate_worker_busy_seconds_total counter
    "#]]
    .assert_eq(&(types.join("\n") + "\n"));
    for line in &types {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(name.starts_with("tidegate_"), "{name}");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
    }
    // Bounded: at most 30 buckets for each histogram.
    for histogram in types.iter().filter_map(|line| line.strip_suffix(" histogram")) {
        let buckets = shown.lines().filter(|line| line.starts_with(&format!("{histogram}_bucket"))).count();
        let series = shown.lines().filter(|line| line.starts_with(&format!("{histogram}_count"))).count();
        assert!(buckets <= 30 * series, "{histogram} has {buckets} buckets in {series} series");
    }
}

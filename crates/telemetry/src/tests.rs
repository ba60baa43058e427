//! What threads record, and what the scraper then shows.

use crate::*;
use expect_test::{Expect, expect};
use std::thread;

metrics! {
    /// One of each kind for one thread.
    struct ShardMetrics(shard) {
        votes: Counter "tidegate_votes_total" "Votes.";
        depth: Gauge "tidegate_depth" "Depth.";
        busy: Counter "tidegate_busy_seconds_total" "Busy.";
        bytes: Histogram "tidegate_group_bytes" "Sizes.";
        latency: Histogram "tidegate_sync_seconds" "Latency.";
    }
}

metrics! {
    struct WorkerMetrics(worker) {
        votes: Counter "tidegate_votes_total" "Votes.";
        depth: Gauge "tidegate_depth" "Depth.";
        bytes: Histogram "tidegate_group_bytes" "Sizes.";
    }
}

metrics! {
    /// For many threads.
    #[derive(Clone)]
    struct HttpMetrics() {
        requests: SharedCounterFamily(kind: "transfers" "login") "tidegate_requests_total" "Requests.";
        bytes: SharedCounter "tidegate_received_bytes_total" "Bytes.";
        open: SharedGauge "tidegate_connections_open" "Open.";
    }
}

const fn votes(labels: &'static [&'static str]) -> MetricRow {
    MetricRow { name: "tidegate_votes_total", help: "Votes.", kind: Kind::Counter, labels }
}

const VOTES: MetricRow = votes(&[]);
const VOTES_BY_CODE: MetricRow = votes(&["code"]);
const VOTES_BY_NUMBER: MetricRow = votes(&["n"]);
const VOTES_BY_PATH: MetricRow = votes(&["path"]);

/// What is shown, without histogram buckets that say no more than the one before.
fn check(registry: &Registry, expected: Expect) {
    let shown = render_prometheus(&registry.snapshot());
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
    let registry = Registry::of(&[ShardMetrics::ROWS]);
    let metrics = ShardMetrics::register(&registry, 0);
    metrics.votes.add(7);
    metrics.depth.set(3);
    metrics.depth.add(-5);
    metrics.busy.add(1_500_000_000);
    [0, 1, 3, 4, 65_536, 1 << 35].into_iter().for_each(|size| metrics.bytes.record(size));
    metrics.latency.record_times(180_000, 8_190);
    metrics.latency.record(100_000_000_000);
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
    let registry = Registry::of(&[WorkerMetrics::ROWS]);
    let threads: Vec<_> = ["0", "1", "0"]
        .into_iter()
        .map(|worker| {
            let registry = registry.clone();
            thread::spawn(move || {
                let metrics = WorkerMetrics::register(&registry, worker);
                for _ in 0..1_000 {
                    metrics.votes.increment();
                    metrics.depth.add(2);
                    metrics.depth.add(-1);
                    metrics.bytes.record(100);
                }
            })
        })
        .collect();
    // Scraping while they record is allowed and never sees more than there will be.
    while threads.iter().any(|thread| !thread.is_finished()) {
        let shown = render_prometheus(&registry.snapshot());
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
    let registry = Registry::of(&[HttpMetrics::ROWS]);
    let http = HttpMetrics::register(&registry);
    thread::scope(|scope| {
        for _ in 0..4 {
            let http = http.clone();
            scope.spawn(move || {
                for _ in 0..250 {
                    http.requests.increment("transfers");
                    http.requests.increment("something new");
                    http.bytes.add(3);
                    http.open.add(2);
                    http.open.add(-1);
                }
            });
        }
    });
    assert_eq!((http.requests.get("transfers"), http.requests.get("other")), (1_000, 1_000));
    assert_eq!((http.bytes.get(), http.open.get()), (3_000, 1_000));
    check(
        &registry,
        expect![[r##"
        # HELP tidegate_connections_open Open.
        # TYPE tidegate_connections_open gauge
        tidegate_connections_open 1000
        # HELP tidegate_received_bytes_total Bytes.
        # TYPE tidegate_received_bytes_total counter
        tidegate_received_bytes_total 3000
        # HELP tidegate_requests_total Requests.
        # TYPE tidegate_requests_total counter
        tidegate_requests_total{kind="login"} 0
        tidegate_requests_total{kind="other"} 1000
        tidegate_requests_total{kind="transfers"} 1000
    "##]],
    );
}

#[test]
fn a_family_grows_with_its_values_up_to_its_bound() {
    let registry = Registry::of(&[&[VOTES_BY_CODE]]);
    let refusals = registry.recorder(&[]).counter_family(VOTES_BY_CODE, "code");
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
    assert_eq!(render_prometheus(&registry.snapshot()).lines().count(), 2 + LABEL_VALUES_MAX + 1);
}

#[test]
fn totals_that_another_part_counts_are_taken_over() {
    let registry = Registry::of(&[&[VOTES_BY_CODE]]);
    let refusals = registry.recorder(&[]).counter_family(VOTES_BY_CODE, "code");
    let codes = |length: usize| &include_str!("tests.rs")[..length];
    for factor in 1..=3 {
        refusals.follow((1..=LABEL_VALUES_MAX + 5).map(|length| (codes(length), factor * length as u64)));
        assert_eq!(refusals.get(codes(LABEL_VALUES_MAX)), factor * LABEL_VALUES_MAX as u64);
        let beyond: u64 = (1..=5).map(|more| (LABEL_VALUES_MAX + more) as u64).sum();
        assert_eq!(refusals.get("other"), factor * beyond, "all that have no place of their own, together");
    }
}

#[test]
fn cells_of_one_recorder_do_not_run_over() {
    let registry = Registry::of(&[&[VOTES_BY_NUMBER]]);
    let recorder = registry.recorder(&[]);
    let counters: Vec<_> = (0..20).map(|n| recorder.counter_with(VOTES_BY_NUMBER, &[("n", &n.to_string())])).collect();
    counters.iter().enumerate().for_each(|(n, counter)| counter.add(n as u64));
    for (n, counter) in counters.iter().enumerate() {
        assert_eq!(counter.get(), n as u64);
    }
}

metrics! {
    struct DoorMetrics(door) {
        held: GaugeFamily(thing: "sessions") "tidegate_held" "How many are \"held\".";
        took: HistogramFamily(operation) "tidegate_took_seconds" "How long it took.";
        asked: CounterFamily(kind) "tidegate_asked_total" "What was asked.";
    }
}

#[test]
fn threads_with_the_same_labels_are_one_series_for_each_value() {
    let registry = Registry::of(&[DoorMetrics::ROWS]);
    let (one, two) = (DoorMetrics::register(&registry, "http"), DoorMetrics::register(&registry, "http"));
    one.held.set("filters", 3);
    one.took.record("read", 1 << 12);
    two.took.record("read", 1 << 13);
    two.took.record("write", 1 << 20);
    two.asked.increment("read");
    check(
        &registry,
        expect![[r##"
        # HELP tidegate_asked_total What was asked.
        # TYPE tidegate_asked_total counter
        tidegate_asked_total{door="http",kind="read"} 1
        # HELP tidegate_held How many are "held".
        # TYPE tidegate_held gauge
        tidegate_held{door="http",thing="filters"} 3
        tidegate_held{door="http",thing="sessions"} 0
        # HELP tidegate_took_seconds How long it took.
        # TYPE tidegate_took_seconds histogram
        tidegate_took_seconds_bucket{door="http",operation="read",le="0.000008192"} 1
        tidegate_took_seconds_bucket{door="http",operation="read",le="0.000016384"} 2
        tidegate_took_seconds_bucket{door="http",operation="read",le="+Inf"} 2
        tidegate_took_seconds_sum{door="http",operation="read"} 0.000012288
        tidegate_took_seconds_count{door="http",operation="read"} 2
        tidegate_took_seconds_bucket{door="http",operation="write",le="0.002097152"} 1
        tidegate_took_seconds_bucket{door="http",operation="write",le="+Inf"} 1
        tidegate_took_seconds_sum{door="http",operation="write"} 0.001048576
        tidegate_took_seconds_count{door="http",operation="write"} 1
    "##]],
    );
}

#[test]
fn openmetrics_describes_counters_by_their_stem_and_ends() {
    let registry = Registry::of(&[DoorMetrics::ROWS]);
    let metrics = DoorMetrics::register(&registry, "http");
    metrics.asked.increment("read");
    let shown = render(&registry.snapshot(), Exposition::OpenMetrics);
    expect![[r##"
        # HELP tidegate_asked What was asked.
        # TYPE tidegate_asked counter
        tidegate_asked_total{door="http",kind="read"} 1
        # HELP tidegate_held How many are \"held\".
        # TYPE tidegate_held gauge
        tidegate_held{door="http",thing="sessions"} 0
        # HELP tidegate_took_seconds How long it took.
        # TYPE tidegate_took_seconds histogram
        # EOF
    "##]]
    .assert_eq(&shown);
}

#[test]
fn label_values_are_escaped() {
    let registry = Registry::of(&[&[VOTES_BY_PATH]]);
    registry.recorder(&[("path", "a\\b\"c\nd")]).counter(VOTES_BY_PATH).increment();
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
#[should_panic(expected = "tidegate_votes_total is declared twice")]
fn one_name_has_one_owner() {
    Registry::of(&[ShardMetrics::ROWS, WorkerMetrics::ROWS]);
}

#[test]
#[should_panic(expected = "tidegate_requests_total is not declared like this")]
fn what_no_list_declares_is_not_shown() {
    HttpMetrics::register(&Registry::of(&[ShardMetrics::ROWS]));
}

#[test]
#[should_panic(expected = "tidegate_votes_total is not declared like this")]
fn one_name_has_one_meaning() {
    let other = MetricRow { help: "Ballots.", ..VOTES };
    Registry::of(&[&[VOTES]]).recorder(&[]).counter(other);
}

#[test]
#[should_panic(expected = "tidegate_votes_total is declared as a counter, not a gauge")]
fn one_name_has_one_kind() {
    Registry::of(&[&[VOTES]]).recorder(&[]).gauge(VOTES);
}

#[test]
#[should_panic(expected = "tidegate_votes_total has the labels [\"code\"]")]
fn one_name_has_the_labels_that_it_declares() {
    Registry::of(&[&[VOTES_BY_CODE]]).recorder(&[]).counter(VOTES_BY_CODE);
}

#[test]
#[cfg_attr(miri, ignore = "text; nothing for Miri, and slow there")]
fn histograms_are_shown_with_a_bounded_number_of_buckets() {
    let registry = Registry::of(&[ShardMetrics::ROWS]);
    ShardMetrics::register(&registry, 0);
    let shown = render_prometheus(&registry.snapshot());
    for row in ShardMetrics::ROWS.iter().filter(|row| row.kind == Kind::Histogram) {
        let buckets = shown.lines().filter(|line| line.starts_with(&format!("{}_bucket", row.name))).count();
        assert!((1..=30).contains(&buckets), "{} has {buckets} buckets", row.name);
    }
}

/// Each series of `family`, as its labels and its value.
fn readings<'a>(snapshot: &'a Snapshot, family: &str) -> Vec<(Vec<&'a str>, Reading)> {
    let series = snapshot.family(family).expect("it is declared").series().iter();
    series
        .map(|series| {
            let values = series.label_values().iter().map(|value| &**value).collect();
            (values, series.reading().clone())
        })
        .collect()
}

#[test]
fn a_snapshot_has_the_numbers_as_they_were_recorded() {
    let registry = Registry::of(&[ShardMetrics::ROWS, HttpMetrics::ROWS]);
    let (zero, one) = (ShardMetrics::register(&registry, 0), ShardMetrics::register(&registry, "\"1\""));
    let again = ShardMetrics::register(&registry, 0);
    zero.votes.add(3);
    again.votes.add(4);
    one.votes.add(5);
    zero.depth.set(-7);
    again.depth.set(2);
    zero.busy.add(1_500_000_000);
    zero.latency.record_times(63, 2);
    again.latency.record(0);
    let snapshot = registry.snapshot();
    let names: Vec<_> = snapshot.families().iter().map(|family| family.row().name).collect();
    assert!(names.is_sorted() && names.len() == ShardMetrics::ROWS.len() + HttpMetrics::ROWS.len(), "{names:?}");
    let votes = readings(&snapshot, "tidegate_votes_total");
    assert_eq!(votes, [(vec!["0"], Reading::Counter(7)), (vec!["\"1\""], Reading::Counter(5))]);
    assert_eq!(readings(&snapshot, "tidegate_depth")[0].1, Reading::Gauge(-5));
    assert_eq!(readings(&snapshot, "tidegate_busy_seconds_total")[0].1, Reading::Counter(1_500_000_000));
    let Reading::Histogram(latency) = &readings(&snapshot, "tidegate_sync_seconds")[0].1 else { panic!("a histogram") };
    let met: Vec<_> = latency.counts().iter().enumerate().filter(|(_, count)| **count > 0).collect();
    assert_eq!((met, latency.sum(), latency.counts().len()), (vec![(0, &1), (63, &2)], 126, BUCKETS));
    // Declared, and nothing has registered it yet.
    assert!(readings(&snapshot, "tidegate_connections_open").is_empty());
    assert!(snapshot.family("tidegate_connections").is_none());
}

#[test]
fn a_snapshot_is_taken_over_an_earlier_one_in_the_same_memory() {
    let registry = Registry::of(&[ShardMetrics::ROWS]);
    let (zero, two) = (ShardMetrics::register(&registry, 0), ShardMetrics::register(&registry, 2));
    let buckets = |snapshot: &Snapshot| -> Vec<*const u64> {
        let series = snapshot.family("tidegate_group_bytes").expect("it is declared").series().iter();
        let place = |series: &SeriesSnapshot| match series.reading() {
            Reading::Histogram(distribution) => distribution.counts().as_ptr(),
            reading => panic!("{reading:?} is no histogram"),
        };
        series.map(place).collect()
    };
    let mut snapshot = registry.snapshot();
    let before = buckets(&snapshot);
    zero.bytes.record(10);
    two.votes.increment();
    registry.snapshot_into(&mut snapshot);
    assert_eq!(buckets(&snapshot), before, "nothing was allocated");
    assert_eq!(render_prometheus(&snapshot), render_prometheus(&registry.snapshot()));

    // A series that comes between the two.
    ShardMetrics::register(&registry, 1).votes.add(9);
    zero.bytes.record(11);
    registry.snapshot_into(&mut snapshot);
    let after = buckets(&snapshot);
    assert_eq!((after[0], after[2]), (before[0], before[1]));
    let votes: Vec<_> = readings(&snapshot, "tidegate_votes_total").into_iter().map(|(_, reading)| reading).collect();
    assert_eq!(votes, [Reading::Counter(0), Reading::Counter(9), Reading::Counter(1)]);
    assert_eq!(render_prometheus(&snapshot), render_prometheus(&registry.snapshot()));

    // One of another registry is replaced, whatever it has.
    for rows in [&[WorkerMetrics::ROWS][..], &[HttpMetrics::ROWS], &[]] {
        let other = Registry::of(rows);
        other.snapshot_into(&mut snapshot);
        assert_eq!(render_prometheus(&snapshot), render_prometheus(&other.snapshot()));
    }
}

use tidegate_telemetry::render_prometheus;

use super::*;

#[test]
fn a_failure_is_told_until_one_is_written_and_one_that_does_not_fit_until_a_restart() {
    let log = LogId { directory: 1, family: 2, shard: 3 };
    let (status, registry) = (Arc::new(Status::new([])), Registry::of(&[SnapshotMetrics::ROWS]));
    let mut watch = SnapshotWatch::new("notes", log, status.clone(), &registry);
    let metric = |name: &str| {
        let text = render_prometheus(&registry.snapshot());
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{"))).map(str::to_owned);
        let line = line.unwrap_or_else(|| panic!("{name} is not in {text}"));
        assert!(line.contains("family=\"notes\"") && line.contains("shard=\"3\""), "{line}");
        line.rsplit(' ').next().and_then(|value| value.parse::<u64>().ok()).expect("a number")
    };
    let seen = || {
        let figures = ["failures_total", "failing"].map(|name| metric(&format!("tidegate_snapshot_{name}")));
        (
            status.failing_snapshots(),
            figures,
            status.misplaced_snapshots(),
            metric("tidegate_snapshots_misplaced_total"),
        )
    };
    assert_eq!(seen(), (0, [0, 0], 0, 0));
    watch.fails("no space left on device".into());
    watch.fails("no space left on device".into());
    assert_eq!(seen(), (1, [2, 1], 0, 0));
    let mut written = Written {
        path: "snapshot".into(),
        kept: Vec::new(),
        set_aside: vec!["damaged".into()],
        misplaced: Vec::new(),
        unread: vec!["left as it is".into()],
    };
    watch.wrote(&written);
    assert_eq!(seen(), (0, [2, 0], 0, 0), "what is passed over is no alarm");
    written.misplaced = vec!["of another history".into()];
    watch.wrote(&written);
    watch.works();
    assert_eq!(seen(), (0, [2, 0], 1, 1));
}

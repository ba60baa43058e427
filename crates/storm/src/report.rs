//! Figures by key: collected over runs, reported as medians. A table for people, flat JSON for checks.

use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

/// A goal for a figure, from the issue that asked for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// Not less than this.
    AtLeast(f64),
    /// Not more than this.
    AtMost(f64),
}

/// The figures with goals.
const GOALS: &[(&str, Goal)] = &[
    ("batched_transfers_per_s", Goal::AtLeast(1_500_000.0)),
    ("batched_last_to_first_ratio", Goal::AtLeast(0.9)),
    ("batched_to_redis_ratio", Goal::AtLeast(30.0)),
    ("batched_server_cpu_ns", Goal::AtMost(350.0)),
    ("batched_latency_p99_ms", Goal::AtMost(10.0)),
    ("single_transfers_per_s", Goal::AtLeast(700_000.0)),
    ("lockstep_transfers_per_s", Goal::AtLeast(75_000.0)),
    ("lockstep_latency_p99_ms", Goal::AtMost(3.0)),
    ("hot_ratio", Goal::AtLeast(0.9)),
    ("hold_pairs_per_s", Goal::AtLeast(400_000.0)),
    ("http_votes_per_s", Goal::AtLeast(100_000.0)),
    ("rss_bytes", Goal::AtMost(600_000_000.0)),
    ("replay_events_per_s", Goal::AtLeast(5_000_000.0)),
    // The marks that the peers were seen to reach on such a machine: a peer far below its mark was set up badly.
    ("peer_redis_transfers_per_s", Goal::AtLeast(60_000.0)),
    ("peer_postgres_transfers_per_s", Goal::AtLeast(10_000.0)),
    ("ids_1e9_ordered_to_empty_ratio", Goal::AtLeast(0.8)),
    ("ids_1e9_random_transfers_per_s", Goal::AtLeast(200_000.0)),
    ("ids_1e9_random_cold_transfers_per_s", Goal::AtLeast(30_000.0)),
    ("ids_1e9_worker_stall_max_ms", Goal::AtMost(5.0)),
    ("ids_1e9_rss_bytes", Goal::AtMost(1_000_000_000.0)),
    ("ids_1e9_restart_s", Goal::AtMost(20.0)),
    // A snapshot each interval, one that is being written, and the ids that are covered behind it.
    ("slow_ledger_replayed_intervals", Goal::AtMost(2.0)),
    ("rss_slope_bytes_per_million", Goal::AtMost(60_000_000.0)),
    ("batched_1m_accounts_ratio", Goal::AtLeast(0.7)),
    ("last_million_to_first_ratio", Goal::AtLeast(0.8)),
    ("account_bytes", Goal::AtMost(200.0)),
    ("open_accounts_per_s", Goal::AtLeast(500_000.0)),
    ("open_stall_max_ms", Goal::AtMost(5.0)),
    ("restart_10m_accounts_s", Goal::AtMost(10.0)),
    ("sends_per_s", Goal::AtLeast(500_000.0)),
    ("sends_to_best_peer_ratio", Goal::AtLeast(5.0)),
    ("sqs_to_elasticmq_ratio", Goal::AtLeast(5.0)),
    ("end_to_end_per_s", Goal::AtLeast(300_000.0)),
    ("end_to_end_latency_p99_ms", Goal::AtMost(5.0)),
    ("lockstep_sends_per_s", Goal::AtLeast(40_000.0)),
    ("three_hops_per_s", Goal::AtLeast(100_000.0)),
    ("scheduled_rss_bytes", Goal::AtMost(300_000_000.0)),
    ("due_lateness_p99_ms", Goal::AtMost(50.0)),
    ("serving_again_s", Goal::AtMost(1.0)),
    ("all_recovered_s", Goal::AtMost(30.0)),
    ("bytes_written_per_byte", Goal::AtMost(2.5)),
    ("backlog_rss_bytes", Goal::AtMost(600_000_000.0)),
    ("backlog_receive_ratio", Goal::AtLeast(0.8)),
    ("idle_bytes_per_connection", Goal::AtMost(300.0)),
    ("idle_tls_bytes_per_connection", Goal::AtMost(4_000.0)),
    ("idle_ws_bytes_per_connection", Goal::AtMost(400.0)),
    ("sessions_2m_rss_bytes", Goal::AtMost(1_500_000_000.0)),
    ("sessions_2m_cpu_percent", Goal::AtMost(5.0)),
    ("connects_to_mosquitto_ratio", Goal::AtLeast(1.3)),
    ("fanout_delivered_per_s", Goal::AtLeast(1_000_000.0)),
    ("fanout_delivered_to_mosquitto_ratio", Goal::AtLeast(10.0)),
    ("pairs_qos0_to_mosquitto_ratio", Goal::AtLeast(5.0)),
    ("pairs_qos1_to_mosquitto_ratio", Goal::AtLeast(5.0)),
    ("pairs_durable_per_s", Goal::AtLeast(200_000.0)),
    ("pairs_latency_p99_ms", Goal::AtMost(5.0)),
    ("pairs_50k_latency_p50_to_mosquitto_ratio", Goal::AtMost(1.0)),
    ("pairs_50k_latency_p99_to_mosquitto_ratio", Goal::AtMost(1.0)),
    ("pairs_50k_latency_p999_to_mosquitto_ratio", Goal::AtMost(1.0)),
    ("pairs_200k_latency_p99_ms", Goal::AtMost(3.0)),
    ("match_ratio", Goal::AtLeast(0.8)),
    ("bids_per_s", Goal::AtLeast(5_000_000.0)),
    ("bid_server_cpu_ns", Goal::AtMost(100.0)),
    ("bid_latency_p99_ms", Goal::AtMost(0.5)),
    ("bid_latency_p9999_ms", Goal::AtMost(2.0)),
    ("single_bids_per_s", Goal::AtLeast(1_000_000.0)),
    ("bids_10k_campaigns_ratio", Goal::AtLeast(0.7)),
    ("reload_latency_p9999_ms", Goal::AtMost(2.0)),
    ("wins_per_s", Goal::AtLeast(300_000.0)),
    ("openrtb_bids_per_s", Goal::AtLeast(150_000.0)),
    ("pacer_rss_bytes", Goal::AtMost(200_000_000.0)),
    // Again a mark: Mosquitto was seen to need this much and to reach these rates on such a machine.
    ("peer_mosquitto_idle_bytes_per_connection", Goal::AtMost(1_100.0)),
    ("peer_mosquitto_fanout_delivered_per_s", Goal::AtLeast(100_000.0)),
    ("peer_mosquitto_pairs_qos0_per_s", Goal::AtLeast(80_000.0)),
];

/// All figures of all runs, in the order in which they first came.
#[derive(Default)]
pub struct Report {
    figures: Vec<(String, Vec<f64>)>,
}

impl Report {
    /// Adds what one run measured.
    pub fn add(&mut self, key: &str, value: f64) {
        match self.figures.iter_mut().find(|(known, _)| known == key) {
            Some((_, values)) => values.push(value),
            None => self.figures.push((key.to_owned(), vec![value])),
        }
    }

    /// Adds the ratio of two medians, if both were measured.
    pub fn derive_ratio(&mut self, key: &str, numerator: &str, denominator: &str) {
        let median_of = |key| self.figures.iter().find(|(known, _)| known == key).map(|(_, values)| median(values));
        if let (Some(above), Some(below)) = (median_of(numerator), median_of(denominator)) {
            self.add(key, above / below);
        }
    }

    /// Adds the ratio of a median to the greatest of others, of those that were measured.
    pub fn derive_ratio_to_best(&mut self, key: &str, numerator: &str, others: &[String]) {
        let measured = self.figures.iter().filter(|(known, _)| others.contains(known));
        let best = measured.max_by(|(_, a), (_, b)| median(a).total_cmp(&median(b))).map(|(known, _)| known.clone());
        if let Some(best) = best {
            self.derive_ratio(key, numerator, &best);
        }
    }

    /// The table: median, spread and goal of each figure.
    pub fn table(&self) -> String {
        let mut table = format!("{:<42} {:>12} {:>38}  {}\n", "figure", "median", "runs", "goal");
        for (key, values) in &self.figures {
            let runs: Vec<String> = values.iter().map(|value| figure(*value)).collect();
            let median = median(values);
            let goal = match GOALS.iter().find(|(goal, _)| goal == key).map(|(_, goal)| *goal) {
                Some(Goal::AtLeast(least)) => {
                    format!(">= {}{}", figure(least), if median >= least { "" } else { "  MISSED" })
                }
                Some(Goal::AtMost(most)) => {
                    format!("<= {}{}", figure(most), if median <= most { "" } else { "  MISSED" })
                }
                None => String::new(),
            };
            writeln!(table, "{key:<42} {:>12} {:>38}  {goal}", figure(median), runs.join(" "))
                .expect("a string takes all");
        }
        table
    }

    /// Writes the medians as one flat object. Keys that an earlier command wrote and this one did not measure are gone.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let medians: serde_json::Map<String, serde_json::Value> =
            self.figures.iter().map(|(key, values)| (key.clone(), json(median(values)))).collect();
        let text = serde_json::to_string_pretty(&medians)?;
        std::fs::write(path, text + "\n").with_context(|| format!("could not write {}", path.display()))
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Large figures without decimals, small ones with three digits that count.
fn json(value: f64) -> serde_json::Value {
    if value.abs() >= 1_000.0 { (value.round() as i64).into() } else { ((value * 1_000.0).round() / 1_000.0).into() }
}

fn figure(value: f64) -> String {
    if value.abs() < 1_000.0 {
        return json(value).to_string();
    }
    let digits = (value.round() as i64).to_string();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("-", rest));
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits are ASCII")).collect();
    format!("{sign}{}", groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_missed_goals() {
        let mut report = Report::default();
        for value in [1_400_000.0, 1_600_000.0, 1_450_000.0] {
            report.add("batched_transfers_per_s", value);
        }
        report.add("batched_latency_p99_ms", 7.3456);
        let table = report.table();
        let row = table.lines().find(|line| line.starts_with("batched_transfers_per_s")).unwrap();
        assert!(row.contains("1,450,000") && row.ends_with(">= 1,500,000  MISSED"), "{row}");
        let row = table.lines().find(|line| line.starts_with("batched_latency_p99_ms")).unwrap();
        assert!(row.contains("7.346") && row.ends_with("<= 10.0"), "{row}");
    }

    #[test]
    fn the_best_of_those_that_were_measured() {
        let mut report = Report::default();
        for (key, value) in [("sends_per_s", 600.0), ("peer_a_sends_per_s", 100.0), ("peer_b_sends_per_s", 200.0)] {
            report.add(key, value);
        }
        let peers = ["peer_a_sends_per_s", "peer_b_sends_per_s", "peer_c_sends_per_s"].map(str::to_owned);
        report.derive_ratio_to_best("ratio", "sends_per_s", &peers);
        report.derive_ratio_to_best("of_none", "sends_per_s", &peers[2..]);
        let table = report.table();
        assert!(table.lines().any(|line| line.starts_with("ratio ") && line.contains(" 3.0 ")), "{table}");
        assert!(!table.contains("of_none"), "{table}");
    }

    #[test]
    fn an_even_number_of_runs_has_the_mean_of_its_middle() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
    }
}

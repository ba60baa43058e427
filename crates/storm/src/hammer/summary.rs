//! What a load brought, as a table for people and as JSON for programs.

use super::Measured;
use super::answers::{OUTCOMES, REASONS, REFUSALS};
use serde_json::{Value, json};
use std::fmt::Write;

/// The figures of one load.
pub struct Summary<'a> {
    measured: &'a Measured,
}

/// Quantiles of latencies, as keys and as people have them.
const QUANTILES: [(f64, &str, &str); 5] = [
    (0.5, "p50", "50 %"),
    (0.99, "p99", "99 %"),
    (0.999, "p999", "99.9 %"),
    (0.9999, "p9999", "99.99 %"),
    (1.0, "max", "all"),
];

impl Summary<'_> {
    /// Of what was measured.
    pub fn of(measured: &Measured) -> Summary<'_> {
        Summary { measured }
    }

    /// For people.
    pub fn table(&self) -> String {
        let Measured { load, answers, .. } = self.measured;
        let mut table = format!(
            "{:.0} bid requests/s asked, in packets of {}, over {} connections, for {:.1} s\n",
            load.bids_per_s,
            self.measured.bids_per_packet,
            load.connections,
            self.measured.elapsed.as_secs_f64()
        );
        let mut row = |name: &str, text: String| {
            writeln!(table, "  {name:<28}{text}").expect("a string takes all");
        };
        row("answered", format!("{:>14.0} /s", self.measured.bids_per_s()));
        for (quantile, _, name) in QUANTILES {
            let name = format!("latency, {name} within");
            let latency = self.measured.latency_ms(quantile);
            // Of packets that were not sent or not answered, nobody knows it.
            row(&name, if latency.is_finite() { format!("{latency:>14.3} ms") } else { format!("{:>17}", "unknown") });
        }
        row("bid", format!("{:>14.2} %", 100.0 * self.share(answers.bids)));
        for (reason, count) in REASONS.iter().zip(answers.no_bids).filter(|(_, count)| *count > 0) {
            let name = format!("no bid: {}", plain(reason.as_str_name()).replace('_', " "));
            row(&name, format!("{:>14.2} %", 100.0 * self.share(count)));
        }
        for (outcome, count) in OUTCOMES.iter().zip(answers.notices).filter(|(_, count)| *count > 0) {
            let name = format!("wins: {}", plain(outcome.as_str_name()).replace('_', " "));
            row(&name, format!("{:>14.0} /s", self.per_s(count)));
        }
        for (code, count) in REFUSALS.iter().zip(answers.refused).filter(|(_, count)| *count > 0) {
            row(&format!("refused as {}", code.replace('_', " ")), format!("{count:>14}"));
        }
        for (name, count) in [
            ("wins not told", self.measured.wins_untold),
            ("packets not sent", self.measured.unsent),
            ("packets not answered", self.measured.unanswered),
        ] {
            if count > 0 {
                row(name, format!("{count:>14}"));
            }
        }
        let cores = self.measured.own_time.as_secs_f64() / self.measured.elapsed.as_secs_f64();
        let late = self.measured.late_ms(0.99);
        row("the hammer itself", format!("{cores:>14.2} cores, 99 % sent within {late:.3} ms of when due"));
        table
    }

    /// For programs: one flat object. A latency is null if packets were not sent or not answered.
    pub fn json(&self) -> Value {
        let Measured { load, answers, .. } = self.measured;
        let mut figures = serde_json::Map::new();
        let mut add = |key: String, value: Value| _ = figures.insert(key, value);
        add("bids_asked_per_s".into(), json!(load.bids_per_s));
        add("bids_per_s".into(), json!(self.measured.bids_per_s()));
        add("packet_bids".into(), json!(self.measured.bids_per_packet));
        add("connections".into(), json!(load.connections));
        add("seconds".into(), json!(self.measured.elapsed.as_secs_f64()));
        for (quantile, key, _) in QUANTILES {
            add(format!("latency_{key}_ms"), json!(self.measured.latency_ms(quantile)));
        }
        add("bid_share".into(), json!(self.share(answers.bids)));
        for (reason, count) in REASONS.iter().zip(answers.no_bids) {
            add(format!("no_bid_{}_share", plain(reason.as_str_name())), json!(self.share(count)));
        }
        for (outcome, count) in OUTCOMES.iter().zip(answers.notices) {
            add(format!("wins_{}_per_s", plain(outcome.as_str_name())), json!(self.per_s(count)));
        }
        for (code, count) in REFUSALS.iter().zip(answers.refused) {
            add(format!("refused_{code}"), json!(count));
        }
        add("wins_untold".into(), json!(self.measured.wins_untold));
        add("packets_unsent".into(), json!(self.measured.unsent));
        add("packets_unanswered".into(), json!(self.measured.unanswered));
        add("hammer_late_p99_ms".into(), json!(self.measured.late_ms(0.99)));
        add("hammer_cpu_s".into(), json!(self.measured.own_time.as_secs_f64()));
        Value::Object(figures)
    }

    fn share(&self, count: u64) -> f64 {
        count as f64 / self.measured.answers.requests().max(1) as f64
    }

    fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.measured.elapsed.as_secs_f64()
    }
}

/// A name of the schema as keys have it: without the name of its kind.
fn plain(name: &str) -> String {
    let name = name.trim_start_matches("NO_BID_REASON_").trim_start_matches("NOTICE_OUTCOME_");
    name.to_lowercase()
}

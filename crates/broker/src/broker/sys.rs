//! `$SYS` topics with Mosquitto's names: the counts of all workers, published by the first one.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;

use super::Broker;
use crate::BrokerFacts;

/// What was counted when, and the averages that follow.
#[derive(Debug, Default)]
pub(super) struct Sys {
    started_at: TimeMs,
    published_at: TimeMs,
    last: BrokerFacts,
    clients_max: u64,
    loads: [[f64; 3]; LOADS.len()],
}

/// What is counted.
type Count = fn(&BrokerFacts) -> u64;

/// Averages over 1, 5 and 15 minutes: name, and what is counted.
const LOADS: [(&str, Count); 7] = [
    ("messages/received", |facts| facts.messages_received),
    ("messages/sent", |facts| facts.messages_sent),
    ("publish/received", |facts| facts.publish_received),
    ("publish/sent", |facts| facts.publish_sent),
    ("bytes/received", |facts| facts.bytes_received),
    ("bytes/sent", |facts| facts.bytes_sent),
    ("connections", |facts| facts.connects),
];

const SPANS: [(&str, f64); 3] = [("1min", 60.0), ("5min", 300.0), ("15min", 900.0)];

impl<L: LogStore> Broker<L> {
    /// Publishes `$SYS`, if it is time and this is the first worker.
    pub(super) fn step_sys(&mut self, now: TimeMs) {
        let interval_ms = self.options.limits.sys_interval_ms;
        if self.options.worker != 0 || interval_ms == 0 || !self.is_serving() {
            return;
        }
        if self.timing.sys.started_at == TimeMs(0) {
            self.timing.sys.started_at = now;
            self.announce("$SYS/broker/version", self.options.version.as_bytes(), true, now);
        } else if now.0 < self.timing.sys.published_at.0 + interval_ms {
            return;
        }
        let facts = self.options.facts.sum();
        let passed_s = now.0.saturating_sub(self.timing.sys.published_at.0) as f64 / 1000.0;
        if self.timing.sys.published_at != TimeMs(0) {
            self.timing.sys.average(&facts, passed_s);
        }
        self.timing.sys.published_at = now;
        self.timing.sys.last = facts;
        self.timing.sys.clients_max = self.timing.sys.clients_max.max(facts.clients_connected);
        for (name, value) in self.figures(&facts, now) {
            self.announce(&format!("$SYS/broker/{name}"), value.as_bytes(), true, now);
        }
    }

    fn figures(&self, facts: &BrokerFacts, now: TimeMs) -> Vec<(String, String)> {
        let uptime_s = now.0.saturating_sub(self.timing.sys.started_at.0) / 1000;
        let dropped: u64 = facts.losses().iter().map(|(_, count)| count).sum();
        let refused = facts.refused_disk_full + facts.refused_inbox + facts.refused_too_large;
        let offline = facts.sessions.saturating_sub(facts.clients_connected);
        let mut figures: Vec<(String, String)> = [
            ("clients/connected", facts.clients_connected),
            ("clients/active", facts.clients_connected),
            ("clients/disconnected", offline),
            ("clients/inactive", offline),
            ("clients/total", facts.sessions),
            ("clients/maximum", self.timing.sys.clients_max),
            ("clients/expired", facts.sessions_expired),
            ("messages/received", facts.messages_received),
            ("messages/sent", facts.messages_sent),
            ("messages/stored", facts.store_messages + facts.retained),
            ("publish/messages/received", facts.publish_received),
            ("publish/messages/sent", facts.publish_sent),
            ("publish/messages/dropped", dropped),
            ("publish/messages/refused", refused),
            ("publish/bytes/received", facts.publish_bytes_received),
            ("publish/bytes/sent", facts.publish_bytes_sent),
            ("bytes/received", facts.bytes_received),
            ("bytes/sent", facts.bytes_sent),
            ("subscriptions/count", facts.subscriptions),
            ("retained messages/count", facts.retained),
            ("store/messages/count", facts.store_messages),
            ("store/messages/bytes", facts.store_bytes),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .into();
        for (why, count) in facts.losses() {
            figures.push((format!("publish/messages/dropped/{why}"), count.to_string()));
        }
        figures.push(("uptime".to_owned(), format!("{uptime_s} seconds")));
        for ((name, _), averages) in LOADS.iter().zip(&self.timing.sys.loads) {
            for ((span, _), average) in SPANS.iter().zip(averages) {
                figures.push((format!("load/{name}/{span}"), format!("{average:.2}")));
            }
        }
        figures
    }
}

impl Sys {
    /// Moves the averages, per minute, towards what was counted since.
    fn average(&mut self, facts: &BrokerFacts, passed_s: f64) {
        for ((_, count), averages) in LOADS.iter().zip(&mut self.loads) {
            let per_minute = (count(facts).saturating_sub(count(&self.last))) as f64 * 60.0 / passed_s.max(0.001);
            for ((_, span_s), average) in SPANS.iter().zip(averages) {
                let weight = (-passed_s / span_s).exp();
                *average = per_minute + weight * (*average - per_minute);
            }
        }
    }
}

//! The time of a port: the node's, or ahead of it by as much as the newest record of the logs inside it was at the
//! start.
//!
//! ```text
//!   logs with their shards inside the port ─▶ newest record ─┐
//!   node's clock at the start ───────────────────────────────┴─▶ lead, the same for this port of every worker
//!   node's clock ─▶ + lead, made up for by 1 ms in 20 ─▶ the port's time
//! ```
//!
//! Promise: what a port promised to keep until a time is not over because a start had a clock that was behind: its time
//! goes on from its newest record, as that of a shard does.
//!
//! Why per room and not for the whole node: records of one room that are far ahead must not date those of another.

use tidegate_journal::Family;
use tidegate_machines::TimeMs;
use tidegate_shard::StateClock;
use tidegate_telemetry::{Registry, metrics};

/// The start names a lead of more than this.
const LEAD_SAID_MS_MIN: u64 = 60_000;

metrics! {
    /// The time of the ports of one room. For the thread of the first worker.
    pub struct PortClockMetrics(family) {
        ahead_nanoseconds: Gauge "tidegate_port_time_ahead_seconds"
            "By how much the time of the newest record inside the ports of a room was ahead of the host's clock at the \
             start, as far as that is not made up for yet.";
    }
}

/// The clock of one port. Knows no clock: the node's time is an argument.
pub(crate) struct PortClock {
    clock: StateClock,
    metrics: Option<PortClockMetrics>,
}

impl PortClock {
    /// The clock of a port whose newest record has the time `newest` when it is `now` for the node.
    pub fn starting(newest: TimeMs, now: TimeMs) -> PortClock {
        PortClock { clock: StateClock::starting(newest, now), metrics: None }
    }

    /// The same, counted and said as that of the family whose shards are inside.
    pub fn of_family(family: &Family, newest: TimeMs, now: TimeMs, registry: &Registry) -> PortClock {
        let clock = PortClock::starting(newest, now);
        let (family, ahead_ms) = (family.name, clock.clock.ahead_ms());
        if ahead_ms >= LEAD_SAID_MS_MIN {
            tracing::error!(
                family,
                ahead_ms,
                "the newest record is ahead of this host's clock: what lasts for a time goes on from there, and makes \
                 up for 1 ms in 20. If the clock is wrong, correct it and restart the server; if it is right, nothing \
                 need be done"
            );
        }
        PortClock { metrics: Some(PortClockMetrics::register(registry, family)), ..clock }
    }

    /// The port's time when it is `now` for the node.
    pub fn time(&mut self, now: TimeMs) -> TimeMs {
        self.clock.time(now)
    }

    /// Shows how far it is ahead.
    pub fn observe(&self) {
        if let Some(metrics) = &self.metrics {
            metrics.ahead_nanoseconds.set((self.clock.ahead_ms() as i64).saturating_mul(1_000_000));
        }
    }
}

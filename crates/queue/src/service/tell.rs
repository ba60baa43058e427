//! What operators are told: the rates of queues, those that are behind, and changes that are not for good.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_machines::TimeMs;
use tidegate_machines::queue::{Counts, QueueFigures, Queues, Settings};

use super::QueueService;
use crate::behind::Said;
use crate::protocol::RequestTicket;
use crate::rates::Rates;

/// Bodies that are looked at, in about a quarter of a millisecond, and how often.
const SWEPT_AT_ONCE: usize = 2_048;
const SWEEP_EACH_MS: u64 = 20;

impl<T: RequestTicket> QueueService<T> {
    /// Once a second: brings the rates up to date.
    pub(super) fn follow_rates(&mut self, queues: &Queues, now: TimeMs) {
        let passed = now.0.saturating_sub(self.rates_at.0);
        if passed < 1_000 {
            return;
        }
        self.waiters.forget_asked(now);
        // Of a queue that came since the last look, all was done since.
        let is_first = self.rates_at == TimeMs(0);
        let begun = |totals| if is_first { Rates::new(totals) } else { Rates::default() };
        let mut rates = BTreeMap::new();
        let for_dead_letters: BTreeSet<&str> =
            queues.each_queue().filter_map(|queue| queue.settings.dead_letter.as_deref()).collect();
        self.behind.begin();
        for QueueFigures { name, settings, counts, totals } in queues.each_queue() {
            let known = self.rates.remove_entry(name);
            let (known_name, mut of_queue) = known.unwrap_or_else(|| (name.into(), begun(totals)));
            of_queue.follow(totals, passed as f64 / 1_000.0);
            let keeps = settings.is_paused || for_dead_letters.contains(name);
            let said = match keeps {
                true => self.behind.is_over(name),
                false => self.behind.follow(name, counts.waiting, of_queue.drained_in_s(&counts), now),
            };
            said.inspect(|said| tell_behind(name, *said, &of_queue, &counts, now));
            rates.insert(known_name, of_queue);
        }
        self.rates_at = now;
        self.behind.keep(|name| rates.contains_key(name));
        self.rates = rates;
    }

    /// Now and then: lets go of bodies whose messages are gone, some at a time.
    pub(super) fn sweep_bodies(&mut self, queues: &Queues, now: TimeMs) {
        let is_due = now.0.saturating_sub(self.swept_at.0) >= SWEEP_EACH_MS;
        if is_due && self.bodies.bytes() > self.options.bodies_bytes_max / 2 {
            self.swept_at = now;
            self.bodies.sweep(queues, SWEPT_AT_ONCE);
        }
    }

    pub(super) fn rates_of(&self, queue: &str) -> Rates {
        self.rates.get(queue).copied().unwrap_or_default()
    }

    /// Says that a queue comes back, if the configuration has it.
    pub(super) fn tell_deleted(&self, name: &str) {
        if self.declared.contains_key(name) {
            tracing::warn!(
                queue = name,
                "a queue was deleted that [[queue]] of the configuration declares: the next start makes it again, \
                 unless it is removed there, too"
            );
        }
    }

    /// Says that a change is not for good, because the configuration has the queue.
    pub(super) fn tell_declared(&self, name: &str, settings: &Settings) {
        // Of these two, the configuration says nothing.
        let said = |settings: &Settings| Settings { notes: Box::default(), owner: None, ..settings.clone() };
        let differs = |of_file: &&Settings| said(settings) != said(of_file);
        if self.declared.get(name).filter(differs).is_some() {
            tracing::warn!(
                queue = name,
                "settings were changed that [[queue]] of the configuration has: the next start undoes this, unless \
                 they are changed there, too"
            );
        }
    }
}

/// Says that a queue is behind, or not any more.
fn tell_behind(queue: &str, said: Said, rates: &Rates, counts: &Counts, now: TimeMs) {
    let rounded = |rate: f64| (rate * 10.0).round() / 10.0;
    let (sent_per_s, acknowledged_per_s) = (rounded(rates.sent[1]), rounded(rates.acknowledged[1]));
    let Counts { waiting, leased, .. } = *counts;
    match said {
        Said::Behind { since } => {
            let for_s = now.0.saturating_sub(since.0) / 1_000;
            let drained_in_s = rates.drained_in_s(counts).map(|seconds| seconds.round() as u64);
            tracing::warn!(
                queue,
                waiting,
                leased,
                sent_per_s,
                acknowledged_per_s,
                drained_in_s,
                for_s,
                "the queue is behind: at these rates messages wait for more than a minute; add receivers, or see why \
                 they acknowledge so few"
            );
        }
        Said::Over { since } => {
            let after_s = now.0.saturating_sub(since.0) / 1_000;
            tracing::info!(queue, waiting, sent_per_s, acknowledged_per_s, after_s, "the queue is behind no more");
        }
    }
}

//! What must hold of a message that was handed out.

use std::cmp::Ordering;

use tidegate_queue::Received;
use tidegate_queue::machine::MessageKey;

use super::super::ask::Held;
use super::super::content::{Content, number_of};
use super::{Delivered, Known, Oracle, Purge, QueueKnown};
use crate::violation::{Violation, must};

/// Over how many milliseconds the rate of a queue is compared.
const RATE_SPANS_MS: [u64; 3] = [0, 100, 1_000];
/// By how much a message may be late while nothing goes wrong, from when on its receiver waits for it.
const LATE_MS_MAX: u64 = 500;

impl Oracle {
    /// Whether a delivery from `queue` is one before the message was ever put into another queue.
    fn is_original(&self, queue: usize, attempt: u32, known: &Known) -> bool {
        let of = &self.queues[queue];
        let is_at_home = self.contents[known.content].content.queue == queue;
        is_at_home && (of.dead.is_none() || attempt <= self.attempts_max(queue) && !known.is_dead_asked)
    }

    fn attempts_max(&self, queue: usize) -> u32 {
        self.queues[queue].settings.attempts_max.map_or(u32::MAX, u32::from)
    }

    /// Compares a delivery with what is known, and notes it.
    pub(super) fn delivered(
        &mut self,
        queue: usize,
        lease_ms: u64,
        asked_at: u64,
        received: &Received,
    ) -> Result<Held, Violation> {
        let Received { delivery, attempts, message, .. } = received;
        let (lease, until) = (delivery.lease, delivery.until.0 + self.ahead_ms);
        let (key, attempt, at) = (lease.key, lease.attempt, until - lease_ms);
        let words = || format!("{key} attempt {attempt} from {}, leased at {at} ms", self.queues[queue].name);
        must((asked_at..=self.now).contains(&at), "a lease lasts as long as was asked", words)?;
        must(attempt == *attempts && attempt > 0, "deliveries are counted", words)?;
        let number = number_of(message).and_then(|number| usize::try_from(number).ok());
        let content = number.filter(|number| self.contents.get(*number).is_some_and(|of| of.content.is(message)));
        let is_sent = content.is_some() && self.keys.get(&key).is_none_or(|known| Some(known.content) == content);
        must(is_sent, "what is handed out is what was sent", words)?;
        self.learn(key, content.expect("that was seen just now"))?;
        let known = &self.keys[&key];
        let words = || format!("message {} {key} attempt {attempt}, leased at {at} ms", known.content);
        must(!known.deliveries.contains_key(&attempt), "a lease is given once", words)?;
        let is_done = known.acknowledged.is_some_and(|(acknowledged, _)| acknowledged < attempt);
        must(!is_done, "what was acknowledged is not handed out again", words)?;
        must(known.cancelled.is_none_or(|cancelled| at <= cancelled), "what was cancelled is not handed out", words)?;
        self.check_leases(key, attempt, (at, until), known)?;
        self.check_place(queue, (key, attempt), at, known)?;
        for wait in &known.waits {
            let concerns = wait.queue.is_none_or(|of| of == queue) && attempt > wait.above && at >= wait.decided_from;
            must(!concerns || at >= wait.not_before, "nothing is handed out before its time", || {
                format!("{}; not before {} ms", words(), wait.not_before)
            })?;
        }
        let is_original = self.is_original(queue, attempt, known);
        let content = known.content;
        if is_original {
            must(at < self.expires(key, known), "what has expired is not handed out", words)?;
            self.check_punctuality(key, attempt, (asked_at, at), known)?;
            self.check_order(queue, key, at, known)?;
        }
        let delivered = Delivered { at, held_until: until };
        self.known_mut(key).deliveries.insert(attempt, delivered);
        let of = &mut self.queues[queue];
        of.answered_deliveries += 1;
        of.check_rate(at)?;
        if let Some(ordering_key) = self.contents[content].content.message.ordering_key.clone().filter(|_| is_original)
        {
            of.ordered.entry(ordering_key).or_default().push((at, key.number()));
        }
        Ok(Held { queue, lease, promised: until })
    }

    fn check_leases(
        &self,
        key: MessageKey,
        attempt: u32,
        (at, until): (u64, u64),
        known: &Known,
    ) -> Result<(), Violation> {
        for (other, delivered) in &known.deliveries {
            let is_free = match *other < attempt {
                true => at >= delivered.held_until,
                false => delivered.at >= until,
            };
            must(is_free, "no two have a lease of one message", || {
                let Delivered { at: other_at, held_until } = delivered;
                format!(
                    "{key}: attempt {other} from {other_at} to {held_until}, attempt {attempt} from {at} to {until}"
                )
            })?;
        }
        Ok(())
    }

    /// A message is in its queue, or a dead letter for a reason.
    fn check_place(
        &self,
        queue: usize,
        (key, attempt): (MessageKey, u32),
        at: u64,
        known: &Known,
    ) -> Result<(), Violation> {
        let home = self.contents[known.content].content.queue;
        let of = &self.queues[home];
        let words = || format!("message {} of {}: attempt {attempt} from queue {queue}", known.content, of.name);
        if queue != home {
            must(of.dead == Some(queue), "a message is handed out from its queue", words)?;
            let has_reason = attempt > self.attempts_max(home) || known.is_dead_asked;
            return must(has_reason, "a message is a dead letter for a reason", words);
        }
        let most = self.attempts_max(home).saturating_add(known.returns);
        let is_too_often = attempt > most && of.redrives == 0;
        must(!is_too_often, "a message is handed out as often as its queue says", words)?;
        let is_purged = |purge: &Purge| purge.is_answered && key.at().0 < purge.asked && at > purge.ended;
        let is_gone = of.dead.is_none() && of.purges.iter().any(is_purged);
        must(!is_gone, "what was purged is not handed out", words)?;
        let rests = of.pauses.iter().any(|(from, to)| *from < at && at < *to);
        must(!rests, "a queue that rests hands out nothing", words)
    }

    fn check_punctuality(
        &self,
        key: MessageKey,
        attempt: u32,
        (asked_at, at): (u64, u64),
        known: &Known,
    ) -> Result<(), Violation> {
        let Content { message, queue } = &self.contents[known.content].content;
        let Some(since) = self.served_since else { return Ok(()) };
        let is_paced = self.queues[*queue].settings.rate_per_s.is_some();
        if is_paced || attempt > 1 || known.version > 0 || message.ordering_key.is_some() {
            return Ok(());
        }
        let visible_at = known.waits.iter().map(|wait| wait.not_before).max().unwrap_or(0);
        let due = visible_at.max(since).max(key.at().0).max(asked_at);
        must(at <= due + LATE_MS_MAX, "what is due is handed out soon", || {
            format!("message {} was due at {due} ms, and leased at {at} ms", known.content)
        })
    }

    /// Of one ordering key, only the oldest is handed out.
    fn check_order(&self, queue: usize, key: MessageKey, at: u64, known: &Known) -> Result<(), Violation> {
        let Content { message, .. } = &self.contents[known.content].content;
        let Some(ordering_key) = &message.ordering_key else { return Ok(()) };
        let of = &self.queues[queue];
        let number = key.number();
        let words = |other: u64, other_at: u64| {
            format!("{ordering_key} of {}: {number} at {at} ms, {other} at {other_at} ms", of.name)
        };
        for (other_at, other) in of.ordered.get(ordering_key).into_iter().flatten() {
            let is_in_order = match other_at.cmp(&at) {
                Ordering::Less => *other <= number,
                Ordering::Equal => true,
                Ordering::Greater => *other >= number,
            };
            must(is_in_order, "messages of one ordering key come in order", || words(*other, *other_at))?;
        }
        if of.dead.is_some() {
            return Ok(());
        }
        for earlier in of.grouped.get(ordering_key).into_iter().flatten().filter(|other| other.number() < number) {
            let end = self.end(*earlier, &self.keys[earlier]);
            must(end <= at, "a message waits for those before it of its ordering key", || {
                words(earlier.number(), end)
            })?;
        }
        Ok(())
    }
}

impl QueueKnown {
    /// In no span of time more is handed out than the queue's rate allows.
    fn check_rate(&mut self, at: u64) -> Result<(), Violation> {
        let Some(rate) = self.settings.rate_per_s else { return Ok(()) };
        let place = self.paced.partition_point(|other| *other <= at);
        self.paced.insert(place, at);
        for span_ms in RATE_SPANS_MS {
            let spent = self.paced[..=place].iter().rev().take_while(|other| **other + span_ms >= at).count() as u64;
            let allowed = u64::from(self.settings.burst) + span_ms * u64::from(rate) / 1_000 + 1;
            must(spent <= allowed, "a queue hands out no more than its rate", || {
                format!("{}: {spent} in {span_ms} ms until {at}, {allowed} are allowed", self.name)
            })?;
        }
        Ok(())
    }
}

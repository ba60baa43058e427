//! What is to become of messages that are handed out, and of leases: who has one ends it, lengthens it, gives it back.

use std::collections::HashMap;

use tidegate_planted::{Bug, is_planted};

use super::{Decided, answer, append, argument};
use crate::TimeMs;
use crate::queue::command::{Bounds, Delivery, Lease, LeaseRefusal, Outcome, Refusal, Rejection};
use crate::queue::distinct::Distinct;
use crate::queue::event::{Event, QueueIndex, Touched, Verdict};
use crate::queue::ids::reference_id;
use crate::queue::limits::{
    AHEAD_MS_MAX, BATCH_MESSAGES_MAX, CONSUMER_BYTES_MAX, EXPIRED_PASSED_MAX, LEASE_MS_MAX, LOW_SHARE, NOTE_BYTES_MAX,
    REASON_BYTES_MAX, REFERENCE_BYTES_MAX,
};
use crate::queue::message_table::{Entry, MessageState};
use crate::queue::settings::Settings;
use crate::queue::state::{Queue, Queues, later};

impl Queues {
    pub(super) fn receive<'a>(
        &self,
        name: &str,
        (max, bytes_max): (usize, u64),
        lease_ms: Option<u64>,
        consumer: &'a str,
        at: TimeMs,
    ) -> Decided<'a> {
        let (index, queue) = self.find(name)?;
        argument((1..=BATCH_MESSAGES_MAX).contains(&max), "1 to 1000 messages are received at once")?;
        let lease_ms = lease_ms.unwrap_or(queue.settings.lease_ms);
        argument((1..=LEASE_MS_MAX).contains(&lease_ms), "a lease lasts 1 to 43200000 milliseconds, twelve hours")?;
        argument(consumer.len() <= CONSUMER_BYTES_MAX, "a consumer's name has at most 64 bytes")?;
        let until = later(at, lease_ms);
        let numbers = self.choose(queue, (max.min(queue.allowed(at)), bytes_max), at);
        if numbers.is_empty() {
            return answer(Outcome::Leased(Vec::new()));
        }
        let touched = |number: &u64| Touched { number: *number, before: self.messages.of(*number).last };
        let delivery = |number: &u64| {
            let entry = self.messages.of(*number);
            let lease = Lease { key: self.key_of(*number, entry.sent_at), attempt: entry.attempts + 1 };
            Delivery { lease, until }
        };
        let deliveries = numbers.iter().map(delivery).collect();
        let messages = numbers.iter().map(touched).collect();
        append(Event::Leased { at, queue: index, until, consumer, messages }, Outcome::Leased(deliveries))
    }

    /// The messages of a queue whose turn it is, of the highest level first. Every so-manieth is one of a lower level.
    fn choose(&self, queue: &Queue, (max, bytes_max): (usize, u64), at: TimeMs) -> Vec<u64> {
        let lives = |number: &u64| self.messages.of(*number).expires_at > at;
        let levels = queue.ready.iter().rev().filter(|level| !level.is_empty());
        let looked_at = max.saturating_add(EXPIRED_PASSED_MAX);
        let mut levels: Vec<_> = levels.map(|level| level.iter().take(looked_at).filter(lives).peekable()).collect();
        let (mut chosen, mut bytes) = (Vec::with_capacity(max.min(16)), 0);
        while chosen.len() < max {
            levels.retain_mut(|level| level.peek().is_some());
            let pick = queue.picks.wrapping_add(chosen.len() as u64);
            let lower = levels.len().saturating_sub(1);
            let level = match pick % LOW_SHARE == LOW_SHARE - 1 && lower > 0 {
                true => 1 + (pick / LOW_SHARE) as usize % lower,
                false => 0,
            };
            let Some(number) = levels.get_mut(level).and_then(Iterator::next) else { break };
            bytes += u64::from(self.messages.of(number).bytes);
            if bytes > bytes_max && !chosen.is_empty() {
                break;
            }
            chosen.push(number);
        }
        chosen
    }

    /// The message that a lease is for, if it still is.
    fn leased(&self, queue: QueueIndex, lease: &Lease) -> Result<Entry, LeaseRefusal> {
        let entry = self.entry_of(lease.key).ok_or(LeaseRefusal::Unknown)?;
        if entry.queue != queue {
            // It may be a dead letter of this queue. Of messages of other queues nothing is said, not even that they
            // are there: whoever asks has rights to this queue only.
            let is_dead_letter = self.dead_letter_of(queue) == Some(entry.queue);
            return Err(if is_dead_letter { LeaseRefusal::Lost } else { LeaseRefusal::Unknown });
        }
        let is_newest = entry.attempts == lease.attempt || is_planted(Bug::LostLeaseTrusted);
        if !is_newest || lease.attempt == 0 { Err(LeaseRefusal::Lost) } else { Ok(entry) }
    }

    /// Those of `leases` that `allow` lets pass, each message once, and what to say of each.
    pub(super) fn touched_by(
        &self,
        queue: QueueIndex,
        leases: &[Lease],
        mut allow: impl FnMut(u64, &Entry) -> Result<bool, LeaseRefusal>,
    ) -> (Vec<Touched>, Outcome) {
        let mut touched: Vec<Touched> = Vec::with_capacity(leases.len());
        let mut seen = Distinct::with_capacity(leases.len());
        let mut outcomes = Vec::with_capacity(leases.len());
        for lease in leases {
            let allowed = self
                .leased(queue, lease)
                .and_then(|entry| Ok(allow(lease.key.number(), &entry)?.then_some(entry.last)));
            if let Ok(Some(before)) = allowed
                && seen.insert(lease.key.number())
            {
                touched.push(Touched { number: lease.key.number(), before });
            }
            outcomes.push(allowed.map(drop));
        }
        (touched, Outcome::Leases(outcomes))
    }

    pub(super) fn acknowledge<'a>(&self, name: &str, leases: &[Lease], at: TimeMs) -> Decided<'a> {
        let (queue, _) = self.find(name)?;
        check_leases(leases)?;
        let (messages, outcome) = self.touched_by(queue, leases, not_finished);
        if messages.is_empty() {
            return answer(outcome);
        }
        append(Event::Acknowledged { at, queue, messages }, outcome)
    }

    pub(super) fn hand<'a>(
        &self,
        name: &str,
        messages: &'a [(Lease, Box<str>)],
        to: &'a str,
        bounds: Bounds,
        at: TimeMs,
    ) -> Decided<'a> {
        let (queue, _) = self.find(name)?;
        let leases: Vec<Lease> = messages.iter().map(|(lease, _)| *lease).collect();
        check_leases(&leases)?;
        argument(to.len() <= CONSUMER_BYTES_MAX, "the name of another system has at most 64 bytes")?;
        let plain =
            |reference: &str| reference.len() <= REFERENCE_BYTES_MAX && !reference.chars().any(char::is_control);
        argument(
            messages.iter().all(|(_, reference)| plain(reference)),
            "a reference has at most 100 bytes without control characters",
        )?;
        let (touched, outcome) = self.touched_by(queue, &leases, not_finished);
        if touched.is_empty() {
            return answer(outcome);
        }
        // A message that was handed on is done with, whether or not there is room to remember what it is called there.
        let more = touched.len() as u64;
        let is_in_share = |owner| self.ids_of_owner_left(owner, at) + more <= bounds.ids_of_owner_max;
        let has_room = self.ids_left(at) + more <= bounds.ids_max && self.queue(queue).owner.is_none_or(is_in_share);
        let references: HashMap<u64, &str> =
            messages.iter().map(|(lease, reference)| (lease.key.number(), &**reference)).collect();
        let reference_of = |number| if has_room { references[&number] } else { "" };
        let messages = touched.into_iter().map(|touched| (touched, reference_of(touched.number))).collect();
        append(Event::Handed { at, queue, to, messages }, outcome)
    }

    pub(super) fn note<'a>(&self, name: &str, reference: &str, text: &'a str, at: TimeMs) -> Decided<'a> {
        let (_, queue) = self.find(name)?;
        argument((1..=NOTE_BYTES_MAX).contains(&text.len()), "a note has 1 to 256 bytes")?;
        let key = queue.ids.remembered(&reference_id(reference), at).ok_or(Refusal::MessageNotFound)?;
        let entry = self.entry_of(key).ok_or(Refusal::MessageNotFound)?;
        let message = Touched { number: key.number(), before: entry.last };
        append(Event::Noted { at, message, text }, Outcome::Done)
    }

    pub(super) fn extend<'a>(&self, name: &str, leases: &[Lease], lease_ms: u64, at: TimeMs) -> Decided<'a> {
        let (queue, _) = self.find(name)?;
        check_leases(leases)?;
        argument((1..=LEASE_MS_MAX).contains(&lease_ms), "a lease lasts 1 to 43200000 milliseconds, twelve hours")?;
        let (messages, outcome) = self.touched_by(queue, leases, held);
        if messages.is_empty() {
            return answer(outcome);
        }
        append(Event::Extended { at, queue, until: later(at, lease_ms), messages }, outcome)
    }

    pub(super) fn reject<'a>(
        &self,
        name: &str,
        leases: &[Lease],
        then: Rejection,
        reason: &'a str,
        at: TimeMs,
    ) -> Decided<'a> {
        let (queue, Queue { settings, .. }) = self.find(name)?;
        check_leases(leases)?;
        argument(reason.len() <= REASON_BYTES_MAX, "a reason has at most 256 bytes")?;
        let has_dead_letters = self.dead_letter_of(queue).is_some();
        argument(then != Rejection::Dead || has_dead_letters, "the queue has no dead letter queue")?;
        let delay_ms = match then {
            Rejection::Retry(delay_ms) => delay_ms,
            Rejection::Back(delay_ms) => Some(delay_ms),
            Rejection::Dead => None,
        };
        argument(delay_ms.is_none_or(|ms| ms <= AHEAD_MS_MAX), "a message is scheduled at most a hundred years ahead")?;
        let (touched, outcome) = self.touched_by(queue, leases, held);
        if touched.is_empty() {
            return answer(outcome);
        }
        if let Rejection::Back(delay_ms) = then {
            let visible_at = later(at, delay_ms);
            return append(Event::Returned { at, queue, visible_at, reason, messages: touched }, outcome);
        }
        let verdict = |touched: Touched| {
            let tries = self.messages.of(touched.number).tries;
            let is_last = settings.attempts_max.is_some_and(|most| tries >= most) && has_dead_letters;
            let verdict = match then == Rejection::Dead || is_last {
                true => Verdict::Dead,
                false => Verdict::Again(later(at, delay_ms.unwrap_or_else(|| settings.retry_after(tries)))),
            };
            (touched, verdict)
        };
        let messages = touched.into_iter().map(verdict).collect();
        append(Event::Rejected { at, queue, reason, messages }, outcome)
    }
}

impl Queue {
    /// How many messages the settings let be handed out at once.
    pub(in crate::queue) fn allowed(&self, at: TimeMs) -> usize {
        let Settings { is_paused, rate_per_s, burst, .. } = self.settings;
        match rate_per_s {
            _ if is_paused => 0,
            None => usize::MAX,
            Some(rate) => {
                let interval = interval_us(rate);
                let latest = at.0.saturating_mul(1_000).saturating_add(u64::from(burst) * interval);
                ((latest.saturating_sub(self.rate_due_us) / interval) as usize).min(burst as usize)
            }
        }
    }

    /// Counts deliveries for the rate.
    pub(in crate::queue) fn use_rate(&mut self, deliveries: u64, at: TimeMs) {
        if let Some(rate) = self.settings.rate_per_s.filter(|_| !is_planted(Bug::RateIgnored)) {
            let from = self.rate_due_us.max(at.0.saturating_mul(1_000));
            self.rate_due_us = from.saturating_add(deliveries * interval_us(rate));
        }
    }

    /// From when on another message may be handed out under the rate.
    pub(in crate::queue) fn rate_allows_at(&self) -> TimeMs {
        let Settings { rate_per_s, burst, .. } = self.settings;
        let Some(rate) = rate_per_s else { return TimeMs(0) };
        let first = self.rate_due_us.saturating_sub((u64::from(burst) - 1) * interval_us(rate));
        TimeMs(first.div_ceil(1_000))
    }
}

/// Microseconds between two deliveries at a rate.
const fn interval_us(rate_per_s: u32) -> u64 {
    1_000_000 / rate_per_s as u64
}

/// Whether the message is not done with yet. A lease that ended counts while nobody else got the next one.
fn not_finished(_: u64, entry: &Entry) -> Result<bool, LeaseRefusal> {
    match entry.state {
        MessageState::Acknowledged => Ok(false),
        state if state.is_finished() => Err(LeaseRefusal::Unknown),
        _ => Ok(true),
    }
}

/// Whether somebody has the message.
pub(super) fn held(_: u64, entry: &Entry) -> Result<bool, LeaseRefusal> {
    if entry.state == MessageState::Leased { Ok(true) } else { Err(LeaseRefusal::Lost) }
}

pub(super) fn check_leases(leases: &[Lease]) -> Result<(), Refusal> {
    argument(!leases.is_empty() && leases.len() <= BATCH_MESSAGES_MAX, "a request names 1 to 1000 leases")
}

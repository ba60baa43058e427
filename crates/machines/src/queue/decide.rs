//! What is to become of a command. Reads the state only.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_planted::{Bug, is_planted};

use super::command::{
    Bounds, Command, Delivery, Lease, LeaseRefusal, Limit, Message, Outcome, Receipt, Refusal, Rejection, When,
};
use super::event::{Event, Moved, QueueIndex, Sent, Touched, Verdict};
use super::ids::reference_id;
use super::key::{MessageKey, NUMBER_END};
use super::limits::{
    AHEAD_MS_MAX, BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, CONSUMER_BYTES_MAX, EXPIRED_PASSED_MAX, ID_BYTES_MAX,
    LEASE_MS_MAX, LOW_SHARE, MESSAGE_BYTES_MAX, MESSAGE_OVERHEAD_BYTES, NOTE_BYTES_MAX, PRIORITIES, PURGED_PER_RECORD,
    QUEUES_MAX, QUEUES_OF_OWNER_MAX, QUEUES_OF_OWNERS_MAX, REASON_BYTES_MAX, REFERENCE_BYTES_MAX,
};
use super::message_table::{Entry, MessageState};
use super::settings::{Settings, is_queue_name};
use super::state::{Queue, Queues, later};
use crate::{Decision, TimeMs};

pub(super) type Decided<'a> = Result<Decision<Event<'a>, Outcome>, Refusal>;

pub(super) const fn answer<'a>(outcome: Outcome) -> Decided<'a> {
    Ok(Decision::Answer(outcome))
}

pub(super) const fn append(event: Event<'_>, outcome: Outcome) -> Decided<'_> {
    Ok(Decision::Append { event, outcome })
}

impl Queues {
    pub(super) fn decide_command<'a>(&self, command: &Command<'a>, bounds: Bounds, now: TimeMs) -> Decided<'a> {
        // A clock may be set back; the time of records does not go back.
        let at = now.max(self.time);
        match *command {
            Command::Start { node } => append(Event::Started { at, node }, Outcome::Done),
            Command::SetQueue { name, settings } => self.set_queue(name, settings, at),
            Command::DeleteQueue { name } => self.delete_queue(name, at),
            Command::Send { queue, messages } => self.send(queue, messages, bounds, at),
            Command::Receive { queue, max, bytes_max, lease_ms, consumer } => {
                self.receive(queue, (max, bytes_max), lease_ms, consumer, at)
            }
            Command::Acknowledge { queue, leases } => self.acknowledge(queue, leases, at),
            Command::Hand { queue, messages, to } => self.hand(queue, messages, to, bounds, at),
            Command::Note { queue, reference, text } => self.note(queue, reference, text, at),
            Command::Route { messages, from, to, by } => self.route((from, to), messages, by, bounds, at),
            Command::Extend { queue, leases, lease_ms } => self.extend(queue, leases, lease_ms, at),
            Command::Reject { queue, leases, then, reason } => self.reject(queue, leases, then, reason, at),
            Command::Purge { queue, up_to } => self.purge(queue, up_to, at),
            Command::Cancel { key } => {
                let message = self.waiting(key)?;
                append(Event::Cancelled { at, message }, Outcome::Done)
            }
            Command::Reschedule { key, visible_at } => {
                let message = self.waiting(key)?;
                let visible_at = bounds.time_of(visible_at, at);
                argument(
                    visible_at <= later(at, AHEAD_MS_MAX),
                    "a message is scheduled at most a hundred years ahead",
                )?;
                append(Event::Rescheduled { at, visible_at, message }, Outcome::Done)
            }
            Command::Redrive { from, to, max } => self.redrive(from, to, max, at),
            Command::SetStanding { queue, name, settings, next } => {
                self.set_standing((queue, name), settings, next, at)
            }
            Command::RemoveStanding { queue, name } => self.remove_standing(queue, name, at),
            Command::Fire { due, next } => self.fire(due, next, bounds, at),
            Command::PassTime => match self.messages.next_wake() {
                Some(due) if due <= at => append(Event::TimePassed { at }, Outcome::Done),
                _ => answer(Outcome::Done),
            },
            Command::Move { messages } => self.move_bodies(messages, at),
        }
    }

    pub(super) fn find(&self, name: &str) -> Result<(QueueIndex, &Queue), Refusal> {
        let index = self.index(name).ok_or_else(|| Refusal::QueueNotFound(name.into()))?;
        Ok((index, self.queue(index)))
    }

    fn set_queue<'a>(&self, name: &'a str, settings: &Settings, at: TimeMs) -> Decided<'a> {
        if !is_queue_name(name) {
            return Err(Refusal::QueueNameInvalid);
        }
        settings.check(name)?;
        match self.index(name) {
            Some(index) if self.queue(index).settings == *settings => return answer(Outcome::Done),
            None => self.check_queue_count(settings.owner.as_deref())?,
            Some(_) => {}
        }
        if let Some(target) = &settings.dead_letter {
            self.find(target)?;
        }
        append(Event::QueueSet { at, name, settings: settings.clone() }, Outcome::Done)
    }

    /// Whether there may be another queue, of this owner or of the configuration.
    fn check_queue_count(&self, owner: Option<&str>) -> Result<(), Refusal> {
        let of_owner = owner.map_or(0, |owner| self.owned_by(owner).queues);
        let most = if owner.is_some() { QUEUES_OF_OWNERS_MAX } else { QUEUES_MAX };
        match () {
            () if of_owner >= QUEUES_OF_OWNER_MAX as u64 => Err(Refusal::TooManyQueuesOfOwner),
            () if self.names.len() >= most => Err(Refusal::TooManyQueues),
            () => Ok(()),
        }
    }

    fn delete_queue<'a>(&self, name: &str, at: TimeMs) -> Decided<'a> {
        let (index, queue) = self.find(name)?;
        if !queue.members.is_empty() {
            return Err(Refusal::QueueNotEmpty);
        }
        if !queue.standing.is_empty() {
            return Err(Refusal::QueueHasSchedules);
        }
        if let Some(user) = self.user_of(name) {
            return Err(Refusal::QueueInUse(user.into()));
        }
        append(Event::QueueDeleted { at, queue: index }, Outcome::Done)
    }

    /// A queue whose dead letters go to the queue of this name.
    pub(super) fn user_of(&self, name: &str) -> Option<&str> {
        let mut queues = self.queues.iter().flatten();
        queues.find(|queue| queue.settings.dead_letter.as_deref() == Some(name)).map(|queue| &*queue.name)
    }

    fn send<'a>(&self, name: &str, messages: &'a [Arc<Message>], bounds: Bounds, at: TimeMs) -> Decided<'a> {
        let (index, queue) = self.find(name)?;
        argument(!messages.is_empty(), "a request has at least one message")?;
        let bytes: usize = messages.iter().map(|message| message.bytes() + MESSAGE_OVERHEAD_BYTES).sum();
        if messages.len() > BATCH_MESSAGES_MAX || bytes > BATCH_BYTES_MAX {
            return Err(Refusal::BatchTooLarge);
        }
        if self.next + messages.len() as u64 >= NUMBER_END {
            return Err(Refusal::Full(Limit::Numbers, NUMBER_END));
        }
        let mut sent = Vec::with_capacity(messages.len());
        let mut receipts = Vec::with_capacity(messages.len());
        let mut ids_here: HashMap<&str, MessageKey> = HashMap::new();
        for (place, message) in messages.iter().enumerate() {
            check_message(message, bounds, at).map_err(|what| Refusal::MessageInvalid { index: place, what })?;
            let id = message.id.as_deref().filter(|_| queue.settings.id_window_ms != Some(0));
            let known = id.and_then(|id| queue.ids.remembered(id, at).or_else(|| ids_here.get(id).copied()));
            if let Some(key) = known {
                receipts.push(Receipt { key, is_duplicate: true });
                continue;
            }
            let key = self.key_of(self.next + sent.len() as u64, at);
            ids_here.extend(id.map(|id| (id, key)));
            sent.push(sent_of(message, &queue.settings, bounds, at));
            receipts.push(Receipt { key, is_duplicate: false });
        }
        if sent.is_empty() {
            return answer(Outcome::Sent(receipts));
        }
        self.check_limits(index, (sent.len() as u64, ids_here.len() as u64), bounds, at)?;
        append(Event::Sent { at, queue: index, first: self.next, messages: sent }, Outcome::Sent(receipts))
    }

    /// Whether a queue may have so many messages and ids more.
    pub(super) fn check_limits(
        &self,
        index: QueueIndex,
        (messages, ids): (u64, u64),
        bounds: Bounds,
        at: TimeMs,
    ) -> Result<(), Refusal> {
        let queue = self.queue(index);
        let of_owner = queue.owner.map(|owner| self.owners.get(owner)).unwrap_or_default();
        let if_owned = |most| if queue.owner.is_some() { most } else { u64::MAX };
        let in_queue = queue.members.len();
        for (limit, before, most) in [
            (Limit::OfSettings, in_queue, queue.settings.messages_max.unwrap_or(u64::MAX)),
            (Limit::MessagesOfQueue, in_queue, bounds.messages_of_queue_max),
            (Limit::MessagesOfOwner, of_owner.messages, if_owned(bounds.messages_of_owner_max)),
            (Limit::Messages, self.live(), bounds.messages_max),
        ] {
            limit.check(before + messages, most)?;
        }
        for (limit, before, most) in [
            (Limit::IdsOfQueue, queue.ids.count(), bounds.ids_of_queue_max),
            (Limit::IdsOfOwner, of_owner.ids, if_owned(bounds.ids_of_owner_max)),
            (Limit::Ids, self.ids(), bounds.ids_max),
        ] {
            if ids == 0 || before + ids <= most {
                continue;
            }
            // Those that this record forgets make room: they are only looked for if it is needed.
            let left = match (limit, queue.owner) {
                (Limit::IdsOfQueue, _) => self.ids_of_queue_left(index, at),
                (Limit::IdsOfOwner, Some(owner)) => self.ids_of_owner_left(owner, at),
                _ => self.ids_left(at),
            };
            limit.check(left + ids, most)?;
        }
        Ok(())
    }

    fn receive<'a>(
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
    fn touched_by(
        &self,
        queue: QueueIndex,
        leases: &[Lease],
        allow: impl Fn(u64, &Entry) -> Result<bool, LeaseRefusal>,
    ) -> (Vec<Touched>, Outcome) {
        let mut touched: Vec<Touched> = Vec::with_capacity(leases.len());
        let mut seen = std::collections::HashSet::with_capacity(leases.len());
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

    fn acknowledge<'a>(&self, name: &str, leases: &[Lease], at: TimeMs) -> Decided<'a> {
        let (queue, _) = self.find(name)?;
        check_leases(leases)?;
        let (messages, outcome) = self.touched_by(queue, leases, not_finished);
        if messages.is_empty() {
            return answer(outcome);
        }
        append(Event::Acknowledged { at, queue, messages }, outcome)
    }

    fn hand<'a>(
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

    fn note<'a>(&self, name: &str, reference: &str, text: &'a str, at: TimeMs) -> Decided<'a> {
        let (_, queue) = self.find(name)?;
        argument((1..=NOTE_BYTES_MAX).contains(&text.len()), "a note has 1 to 256 bytes")?;
        let key = queue.ids.remembered(&reference_id(reference), at).ok_or(Refusal::MessageNotFound)?;
        let entry = self.entry_of(key).ok_or(Refusal::MessageNotFound)?;
        let message = Touched { number: key.number(), before: entry.last };
        append(Event::Noted { at, message, text }, Outcome::Done)
    }

    fn route<'a>(
        &self,
        (from, to): (&str, &'a str),
        messages: &[(Lease, Arc<Message>)],
        by: &'a str,
        bounds: Bounds,
        at: TimeMs,
    ) -> Decided<'a> {
        let ((from, _), (target, queue)) = (self.find(from)?, self.find(to)?);
        argument(from != target, "messages are put into another queue than the one they are in")?;
        let leases: Vec<Lease> = messages.iter().map(|(lease, _)| *lease).collect();
        check_leases(&leases)?;
        argument(by.len() <= CONSUMER_BYTES_MAX, "a consumer's name has at most 64 bytes")?;
        let (room, (most, limit)) = self.room_for_routed(queue, bounds);
        let left = std::cell::Cell::new(room);
        let (touched, outcome) = self.touched_by(from, &leases, |number, entry| {
            held(number, entry)?;
            if left.get() == 0 || !self.may_join(target, number, entry) {
                return Err(LeaseRefusal::NotNow);
            }
            left.set(left.get() - 1);
            Ok(true)
        });
        match touched.is_empty() {
            true if room == 0 => Err(Refusal::Full(limit, most)),
            true => answer(outcome),
            false => append(Event::Routed { at, from, to, by, messages: touched }, outcome),
        }
    }

    /// How many messages of other queues this one takes, and which bound says so. The shard has as many afterwards.
    pub(super) fn room_for_routed(&self, queue: &Queue, bounds: Bounds) -> (u64, (u64, Limit)) {
        let of_settings = (queue.settings.messages_max.unwrap_or(u64::MAX), Limit::OfSettings);
        let (most, limit) = of_settings.min((bounds.messages_of_queue_max, Limit::MessagesOfQueue));
        (most.saturating_sub(queue.members.len()), (most, limit))
    }

    /// Whether a message may be put into a queue under its ordering key. The order there is that of numbers, so not
    /// while a later message of the key is handed out: two would be at once.
    pub(super) fn may_join(&self, target: QueueIndex, number: u64, entry: &Entry) -> bool {
        let Some(key) = self.ordering_key_of(entry) else { return true };
        let first = self.queue(target).groups.first_of(key);
        first.is_none_or(|first| first < number || self.messages.of(first).state != MessageState::Leased)
    }

    fn extend<'a>(&self, name: &str, leases: &[Lease], lease_ms: u64, at: TimeMs) -> Decided<'a> {
        let (queue, _) = self.find(name)?;
        check_leases(leases)?;
        argument((1..=LEASE_MS_MAX).contains(&lease_ms), "a lease lasts 1 to 43200000 milliseconds, twelve hours")?;
        let (messages, outcome) = self.touched_by(queue, leases, held);
        if messages.is_empty() {
            return answer(outcome);
        }
        append(Event::Extended { at, queue, until: later(at, lease_ms), messages }, outcome)
    }

    fn reject<'a>(&self, name: &str, leases: &[Lease], then: Rejection, reason: &'a str, at: TimeMs) -> Decided<'a> {
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

    fn purge<'a>(&self, name: &str, up_to: u64, at: TimeMs) -> Decided<'a> {
        let (index, queue) = self.find(name)?;
        let is_scheduled = |number: &u64| self.messages.of(*number).state == MessageState::Scheduled;
        let wanted = |number: &u64| !(is_planted(Bug::PurgePassesOver) && is_scheduled(number));
        let mut members = queue.members.iter().take_while(|number| *number <= up_to).filter(wanted);
        let numbers: Vec<u64> = members.by_ref().take(PURGED_PER_RECORD).collect();
        let outcome = Outcome::Some { count: numbers.len() as u64, more: members.next().is_some() };
        if numbers.is_empty() {
            return answer(outcome);
        }
        append(Event::Purged { at, queue: index, numbers }, outcome)
    }

    fn waiting(&self, key: MessageKey) -> Result<Touched, Refusal> {
        match self.entry_of(key) {
            Some(entry) if entry.state.is_waiting() => Ok(Touched { number: key.number(), before: entry.last }),
            Some(entry) if entry.state == MessageState::Leased => Err(Refusal::MessageLeased),
            _ => Err(Refusal::MessageNotFound),
        }
    }

    fn redrive<'a>(&self, from: &str, to: &str, max: usize, at: TimeMs) -> Decided<'a> {
        let ((from, queue), (to, _)) = (self.find(from)?, self.find(to)?);
        argument(from != to, "messages are put into another queue than the one they are in")?;
        // One that waits for its time stays: it would be handed out before.
        let waits = |number: &u64| {
            let entry = self.messages.of(*number);
            matches!(entry.state, MessageState::Ready | MessageState::Held) && entry.expires_at > at
        };
        let mut members = queue.members.iter().filter(waits);
        let touched = |number| Touched { number, before: self.messages.of(number).last };
        let messages: Vec<Touched> = members.by_ref().take(max.min(BATCH_MESSAGES_MAX)).map(touched).collect();
        let outcome = Outcome::Some { count: messages.len() as u64, more: members.next().is_some() };
        if messages.is_empty() {
            return answer(outcome);
        }
        append(Event::Redriven { at, from, to, messages }, outcome)
    }

    fn move_bodies<'a>(&self, messages: &'a [(u64, Arc<Message>)], at: TimeMs) -> Decided<'a> {
        let moved = |(number, message): &'a (u64, Arc<Message>)| {
            let entry = self.messages.get(*number).filter(|entry| !entry.state.is_finished())?;
            let touched = Touched { number: *number, before: entry.last };
            (entry.bytes as usize == message.bytes()).then(|| Moved { touched, message: message.as_sent() })
        };
        let messages: Vec<Moved<'a>> = messages.iter().filter_map(moved).collect();
        if messages.is_empty() {
            return answer(Outcome::Done);
        }
        append(Event::Moved { at, messages }, Outcome::Done)
    }
}

impl Queue {
    /// How many messages the settings let be handed out at once.
    pub(super) fn allowed(&self, at: TimeMs) -> usize {
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
    pub(super) fn use_rate(&mut self, deliveries: u64, at: TimeMs) {
        if let Some(rate) = self.settings.rate_per_s.filter(|_| !is_planted(Bug::RateIgnored)) {
            let from = self.rate_due_us.max(at.0.saturating_mul(1_000));
            self.rate_due_us = from.saturating_add(deliveries * interval_us(rate));
        }
    }

    /// From when on another message may be handed out under the rate.
    pub(super) fn rate_allows_at(&self) -> TimeMs {
        let Settings { rate_per_s, burst, .. } = self.settings;
        let Some(rate) = rate_per_s else { return TimeMs(0) };
        let first = self.rate_due_us.saturating_sub((u64::from(burst) - 1) * interval_us(rate));
        TimeMs(first.div_ceil(1_000))
    }
}

/// Microseconds between two deliveries at a rate.
pub(super) const fn interval_us(rate_per_s: u32) -> u64 {
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
fn held(_: u64, entry: &Entry) -> Result<bool, LeaseRefusal> {
    if entry.state == MessageState::Leased { Ok(true) } else { Err(LeaseRefusal::Lost) }
}

pub(super) fn argument(holds: bool, what: &'static str) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal::ArgumentInvalid(what)) }
}

fn check_leases(leases: &[Lease]) -> Result<(), Refusal> {
    argument(!leases.is_empty() && leases.len() <= BATCH_MESSAGES_MAX, "a request names 1 to 1000 leases")
}

pub(super) fn check_message(message: &Message, bounds: Bounds, at: TimeMs) -> Result<(), &'static str> {
    let rule = |holds: bool, what| if holds { Ok(()) } else { Err(what) };
    let plain = |text: &Option<Box<str>>| {
        text.as_deref()
            .is_none_or(|text| (1..=ID_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control))
    };
    rule(plain(&message.id), "its id has 1 to 128 bytes without control characters")?;
    rule(plain(&message.ordering_key), "its ordering key has 1 to 128 bytes without control characters")?;
    rule(usize::from(message.priority) < PRIORITIES, "its priority is 0 to 9")?;
    rule(message.bytes() <= MESSAGE_BYTES_MAX, "it has at most 262144 bytes, with its attributes")?;
    let latest = later(at, AHEAD_MS_MAX);
    let time = |when: Option<When>| when.map(|when| bounds.time_of(when, at));
    let (visible_at, expires_at) = (time(message.visible_at), time(message.expires_at));
    rule(visible_at.is_none_or(|time| time <= latest), "it is scheduled at most a hundred years ahead")?;
    rule(expires_at.is_none_or(|time| time <= latest), "it expires in at most a hundred years")?;
    rule(expires_at.is_none_or(|time| time > at), "it has expired already")
}

/// A message with what its queue says where its sender said nothing.
fn sent_of<'a>(message: &'a Message, settings: &Settings, bounds: Bounds, at: TimeMs) -> Sent<'a> {
    let time = |when: Option<When>| when.map(|when| bounds.time_of(when, at));
    let delayed = (settings.delay_ms > 0).then(|| later(at, settings.delay_ms));
    Sent {
        visible_at: time(message.visible_at)
            .or(delayed)
            .filter(|visible_at| *visible_at > at && !is_planted(Bug::DelayIgnored)),
        expires_at: time(message.expires_at).or_else(|| settings.expiry_ms.map(|ms| later(at, ms))),
        ..message.as_sent()
    }
}

impl Message {
    /// The message as a record has it, but for times that only follow from when it is decided.
    pub fn as_sent(&self) -> Sent<'_> {
        let time = |when: Option<When>| match when? {
            When::At(time) => Some(time),
            When::After(_) => None,
        };
        Sent {
            id: self.id.as_deref(),
            ordering_key: self.ordering_key.as_deref(),
            priority: self.priority,
            visible_at: time(self.visible_at),
            expires_at: time(self.expires_at),
            attributes: &self.attributes,
            body: &self.body,
        }
    }
}

impl Sent<'_> {
    /// The message of a record, with memory of its own.
    pub fn to_message(self) -> Message {
        Message {
            id: self.id.map(Into::into),
            ordering_key: self.ordering_key.map(Into::into),
            priority: self.priority,
            visible_at: self.visible_at.map(When::At),
            expires_at: self.expires_at.map(When::At),
            attributes: self.attributes.into(),
            body: self.body.into(),
        }
    }

    /// Bytes of id, ordering key, attributes and body.
    pub fn bytes(&self) -> usize {
        let texts = [self.id, self.ordering_key].into_iter().flatten().map(str::len).sum::<usize>();
        texts + self.attributes.len() + self.body.len()
    }
}

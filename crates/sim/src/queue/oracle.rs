//! What is known of queues by what was asked and answered alone, and what must hold of each answer.
//!
//! ```text
//!   asked      ─▶ what may happen from now on: a message may end, a lease may be given back, a wait be shortened
//!   answered   ─▶ what did happen: compared with what was known; then what it rules out from now on
//!   unanswered ─▶ what may have happened stays possible, and what may still happen does not
//! ```
//!
//! A key says when its message was taken, and a delivery when it was decided (the end of its lease, less how long that
//! lasts), so most promises are compared with exact times and not with those of answers.

mod answers;
mod deliveries;
mod firings;
mod sights;

use std::collections::BTreeMap;

use tidegate_queue::machine::{MessageKey, Settings, When};

use super::ask::{Ask, Asked, Held};
use super::content::Content;
use crate::violation::{Violation, must};

/// The time of what does not happen.
const NEVER: u64 = u64::MAX;

/// What is known of a queue.
pub struct QueueKnown {
    pub name: Box<str>,
    pub shard: u16,
    pub settings: Settings,
    /// When it was answered that it is there.
    pub made_at: Option<u64>,
    /// Somebody is about to make or change it.
    pub is_changing: bool,
    /// It was asked to rest, and not yet answered that it goes on.
    pub may_rest: bool,
    /// It was asked to be deleted, and with it what it has counted.
    was_deleted: bool,
    /// Where its dead letters go.
    pub dead: Option<usize>,
    purges: Vec<Purge>,
    /// From when to when it surely rests.
    pauses: Vec<(u64, u64)>,
    /// Deliveries of each ordering key: when, and the number of the message.
    ordered: BTreeMap<Box<str>, Vec<(u64, u64)>>,
    /// Messages of each ordering key.
    grouped: BTreeMap<Box<str>, Vec<MessageKey>>,
    /// Redrives that were asked for, into here.
    redrives: u64,
    receipts: u64,
    answered_deliveries: u64,
    /// When they were decided, if the queue has a rate.
    paced: Vec<u64>,
    answered_acknowledgements: u64,
    schedule: Option<firings::ScheduleKnown>,
}

/// A purge.
struct Purge {
    ticket: u64,
    asked: u64,
    /// It has no effect on what is taken later.
    ended: u64,
    is_answered: bool,
}

/// What is known of a message of some number: all that was sent with one content.
struct ContentKnown {
    content: Content,
    /// When it may have been taken: the ticket, from when, to when.
    sends: Vec<(u64, u64, u64)>,
    keys: Vec<MessageKey>,
}

/// What is known of a message that was taken.
struct Known {
    content: usize,
    /// Its sender knows that it was taken.
    has_receipt: bool,
    /// Requests that may have ended it, each with its attempt, and when they were asked.
    ends: BTreeMap<(u64, u32), u64>,
    /// The attempt that was acknowledged, and when that was answered.
    acknowledged: Option<(u32, u64)>,
    /// When it was answered that it is cancelled.
    cancelled: Option<u64>,
    /// Somebody asked for it to be a dead letter.
    is_dead_asked: bool,
    /// Deliveries that were asked not to count.
    returns: u32,
    /// Grows with whatever may let it come sooner.
    version: u64,
    waits: Vec<Wait>,
    deliveries: BTreeMap<u32, Delivered>,
}

/// A message is not delivered from a queue, or from any, before some time, if it is decided from some time on and for
/// more than so many attempts.
struct Wait {
    queue: Option<usize>,
    above: u32,
    decided_from: u64,
    not_before: u64,
}

/// A delivery that was answered.
struct Delivered {
    at: u64,
    /// Nobody else gets it before, unless it is ended.
    held_until: u64,
}

/// What is known.
pub struct Oracle {
    /// What time it is, in simulated milliseconds.
    pub now: u64,
    /// Since when nothing goes wrong and somebody waits for the messages of each queue.
    pub served_since: Option<u64>,
    /// Since when nothing goes wrong.
    pub calm_since: Option<u64>,
    pub queues: Vec<QueueKnown>,
    node: u16,
    /// By how much the time of shards, which is the one here, is ahead of the clock that clients see.
    ahead_ms: u64,
    contents: Vec<ContentKnown>,
    keys: BTreeMap<MessageKey, Known>,
    /// Requests under way that may let a message come sooner, or any, whenever they are decided: those about different
    /// queues are decided in any order.
    hastening: BTreeMap<u64, Option<MessageKey>>,
}

impl QueueKnown {
    fn new(name: Box<str>, shard: u16, settings: Settings, dead: Option<usize>) -> QueueKnown {
        QueueKnown {
            name,
            shard,
            settings,
            made_at: None,
            is_changing: false,
            may_rest: false,
            was_deleted: false,
            dead,
            purges: Vec::new(),
            pauses: Vec::new(),
            ordered: BTreeMap::new(),
            grouped: BTreeMap::new(),
            redrives: 0,
            receipts: 0,
            answered_deliveries: 0,
            paced: Vec::new(),
            answered_acknowledgements: 0,
            schedule: None,
        }
    }
}

impl Oracle {
    /// When a message is due that is taken at a time, if it is scheduled.
    fn due(&self, content: usize, at: u64) -> Option<u64> {
        let Content { queue, message } = &self.contents[content].content;
        let delay_ms = self.queues[*queue].settings.delay_ms;
        let delayed = (delay_ms > 0).then(|| at + delay_ms);
        message.visible_at.map(|when| self.time_of(when, at)).or(delayed)
    }

    /// Until when the id of a message is remembered that is taken at a time.
    fn id_until(&self, content: usize, at: u64) -> u64 {
        let Settings { id_window_ms, ids_until_due, .. } = self.queues[self.contents[content].content.queue].settings;
        let due = self.due(content, at).filter(|_| ids_until_due);
        at.max(due.unwrap_or(0)).saturating_add(id_window_ms.unwrap_or(NEVER))
    }

    /// Knows these queues, none of which is made.
    pub fn new(node: u16, ahead_ms: u64, queues: Vec<(Box<str>, u16, Settings)>) -> Oracle {
        let place = |name: &str| queues.iter().position(|(other, ..)| **other == *name);
        let known = queues.iter().map(|(name, shard, settings)| {
            let dead = settings.dead_letter.as_deref().and_then(place);
            QueueKnown::new(name.clone(), *shard, settings.clone(), dead)
        });
        let queues = known.collect();
        let (contents, keys, hastening) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Oracle { now: 0, served_since: None, calm_since: None, queues, node, ahead_ms, contents, keys, hastening }
    }

    /// The number of the next new message.
    pub fn next_content(&self) -> usize {
        self.contents.len()
    }

    /// A new message, which nobody has sent.
    pub fn add(&mut self, content: Content) {
        self.contents.push(ContentKnown { content, sends: Vec::new(), keys: Vec::new() });
    }

    /// A message by its number.
    pub fn content(&self, number: usize) -> &Content {
        &self.contents[number].content
    }

    /// The newest messages that are known to be taken, newest first.
    pub fn newest(&self) -> impl Iterator<Item = MessageKey> + '_ {
        self.keys.keys().rev().copied()
    }

    /// The version of what is known of a message.
    pub fn version(&self, key: MessageKey) -> u64 {
        self.keys.get(&key).map_or(0, |known| known.version)
    }

    /// The queues in which a message may be.
    fn places(&self, known: &Known) -> impl Iterator<Item = usize> + use<> {
        let queue = self.contents[known.content].content.queue;
        [Some(queue), self.queues[queue].dead].into_iter().flatten()
    }

    /// The time of the shard that a client means by `when`, if the shard decides at `at`.
    pub(super) fn time_of(&self, when: When, at: u64) -> u64 {
        match when {
            When::At(time) => time.0 + self.ahead_ms,
            When::After(ms) => at + ms,
        }
    }

    /// When a message expires, if it stays in its queue.
    fn expires(&self, key: MessageKey, known: &Known) -> u64 {
        let Content { queue, message } = &self.contents[known.content].content;
        let by_queue = self.queues[*queue].settings.expiry_ms.map(|ms| key.at().0 + ms);
        message.expires_at.map(|when| self.time_of(when, key.at().0)).or(by_queue).unwrap_or(NEVER)
    }

    /// From when on a message may have ended.
    fn end(&self, key: MessageKey, known: &Known) -> u64 {
        let asked = known.ends.values().copied().min().unwrap_or(NEVER);
        let purged = self.purged(key, known).unwrap_or(NEVER);
        asked.min(purged).min(self.expires(key, known))
    }

    /// From when on a message may have been purged.
    fn purged(&self, key: MessageKey, known: &Known) -> Option<u64> {
        let purges = self.places(known).flat_map(|queue| &self.queues[queue].purges);
        purges.filter(|purge| key.at().0 <= purge.ended).map(|purge| purge.asked).min()
    }

    /// Notes that a message is there.
    fn learn(&mut self, key: MessageKey, content: usize) -> Result<(), Violation> {
        if let Some(known) = self.keys.get(&key) {
            let words = || format!("{key:?} is of message {} and {content}", known.content);
            return must(known.content == content, "a key names one message", words);
        }
        let known = self.contents.get(content);
        let may_be = |known: &ContentKnown| {
            let schedule = self.queues[known.content.queue].schedule.as_ref();
            !known.sends.is_empty() || schedule.is_some_and(|schedule| schedule.content == content)
        };
        must(known.is_some_and(may_be), "only what was sent is there", || format!("{key:?}"))?;
        let ContentKnown { content: Content { queue, message }, sends, keys } = &self.contents[content];
        let (of, at) = (&self.queues[*queue], key.at().0);
        let is_ours = key.shard().0 == of.shard && key.node() == self.node;
        must(is_ours, "a key says which node and shard took its message", || format!("{key:?}"))?;
        let is_scheduled = of.schedule.as_ref().is_some_and(|schedule| schedule.content == content);
        if is_scheduled {
            self.check_firing(*queue, at)?;
        }
        let is_sent = is_scheduled || sends.iter().any(|(_, from, to)| (*from..=*to).contains(&at));
        must(is_sent, "a message is taken while it is being sent", || format!("{content}: {key:?}, {sends:?}"))?;
        let until = |at| if message.id.is_some() { self.id_until(content, at) } else { NEVER };
        let is_apart = |other: &MessageKey| until(other.at().0.min(at)) <= other.at().0.max(at);
        must(is_scheduled || keys.iter().all(is_apart), "a message is taken once within the window of its id", || {
            format!("message {content} has {key} of {at} ms, {keys:?}; the window ends at {} ms", until(at))
        })?;
        let visible_at = self.due(content, at).unwrap_or(0);
        let wait = Wait { queue: None, above: 0, decided_from: 0, not_before: visible_at };
        let known = Known {
            content,
            has_receipt: false,
            ends: BTreeMap::new(),
            acknowledged: None,
            cancelled: None,
            is_dead_asked: false,
            returns: 0,
            version: 0,
            waits: vec![wait],
            deliveries: BTreeMap::new(),
        };
        let ContentKnown { content: Content { queue, message }, keys, .. } = &mut self.contents[content];
        keys.push(key);
        if let Some(schedule) = self.queues[*queue].schedule.as_mut().filter(|_| is_scheduled) {
            schedule.fired_at.insert(at);
        }
        if let Some(ordering_key) = &message.ordering_key {
            self.queues[*queue].grouped.entry(ordering_key.clone()).or_default().push(key);
        }
        self.keys.insert(key, known);
        Ok(())
    }

    /// Notes what may happen from now on, because it is asked.
    pub fn asked(&mut self, ticket: u64, ask: &Ask) {
        let now = self.now;
        match ask {
            Ask::Make { queue, paused } => {
                let queue = &mut self.queues[*queue];
                queue.is_changing = true;
                queue.may_rest |= paused;
                queue.pauses.last_mut().into_iter().for_each(|(_, to)| *to = now.min(*to));
            }
            Ask::Delete { queue } => {
                let queue = &mut self.queues[*queue];
                (queue.is_changing, queue.made_at, queue.was_deleted) = (true, None, true);
                queue.pauses.last_mut().into_iter().for_each(|(_, to)| *to = now.min(*to));
            }
            Ask::Send { contents, .. } => {
                contents.iter().for_each(|content| self.contents[*content].sends.push((ticket, now, NEVER)));
            }
            Ask::Acknowledge { held, .. } => {
                for held in held {
                    self.may_end((ticket, held.lease.attempt), held.lease.key);
                    self.may_lapse(held, now);
                }
            }
            Ask::Extend { held, lease_ms, .. } => held.iter().for_each(|held| self.may_lapse(held, now + lease_ms)),
            Ask::Reject { held, retry_ms, counts, .. } => {
                for (held, _) in held {
                    self.may_lapse(held, now);
                    let known = self.known_mut(held.lease.key);
                    known.is_dead_asked |= retry_ms.is_none();
                    known.returns += u32::from(!counts);
                }
            }
            Ask::Purge { queue } => {
                self.queues[*queue].purges.push(Purge { ticket, asked: now, ended: NEVER, is_answered: false });
            }
            Ask::Cancel { key } => self.may_end((ticket, 0), *key),
            Ask::Reschedule { key, .. } => {
                self.hastening.insert(ticket, Some(*key));
                self.may_come_sooner(*key);
            }
            Ask::Redrive { to, .. } => {
                self.queues[*to].redrives += 1;
                self.hastening.insert(ticket, None);
                let keys: Vec<_> = self.keys.keys().copied().collect();
                keys.into_iter().for_each(|key| self.may_come_sooner(key));
            }
            Ask::Schedule { queue } => self.schedule_asked(*queue),
            Ask::Receive { .. } | Ask::Look { .. } | Ask::LookById { .. } | Ask::Browse { .. } => {}
        }
    }

    fn known_mut(&mut self, key: MessageKey) -> &mut Known {
        self.keys.get_mut(&key).expect("only what is known is asked about")
    }

    fn may_end(&mut self, request: (u64, u32), key: MessageKey) {
        let now = self.now;
        self.known_mut(key).ends.insert(request, now);
    }

    fn may_lapse(&mut self, held: &Held, at: u64) {
        let delivered = self.known_mut(held.lease.key).deliveries.get_mut(&held.lease.attempt);
        let delivered = delivered.expect("who has a lease got it");
        delivered.held_until = delivered.held_until.min(at);
    }

    /// Whether a request other than `ticket` may let a message come sooner.
    fn is_hastened(&self, ticket: u64, key: MessageKey) -> bool {
        self.hastening.iter().any(|(other, of)| *other != ticket && of.is_none_or(|of| of == key))
    }

    /// A request is not under way any more: what it has hastened was asked before this.
    fn is_over(&mut self, ticket: u64) {
        match self.hastening.remove(&ticket) {
            Some(Some(key)) => self.known_mut(key).version += 1,
            Some(None) => self.keys.values_mut().for_each(|known| known.version += 1),
            None => {}
        }
    }

    fn may_come_sooner(&mut self, key: MessageKey) {
        let known = self.known_mut(key);
        known.version += 1;
        known.waits.clear();
    }

    /// Notes that nobody will ever know what became of a request: it does not happen any more.
    pub fn unanswered(&mut self, ticket: u64, asked: &Asked) {
        let now = self.now;
        self.is_over(ticket);
        match &asked.ask {
            Ask::Make { queue, .. } | Ask::Delete { queue } => self.queues[*queue].is_changing = false,
            Ask::Send { contents, .. } => {
                for content in contents {
                    let sends = self.contents[*content].sends.iter_mut();
                    sends.filter(|(of, ..)| *of == ticket).for_each(|(_, _, to)| *to = now);
                }
            }
            Ask::Schedule { queue } => self.schedule_answered(*queue, false),
            Ask::Purge { queue } => {
                let purges = self.queues[*queue].purges.iter_mut();
                purges.filter(|purge| purge.ticket == ticket).for_each(|purge| purge.ended = now);
            }
            _ => {}
        }
    }
}

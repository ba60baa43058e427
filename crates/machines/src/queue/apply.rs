//! Folds events into the state: what does not follow from it is refused and changes nothing, what follows is applied
//! completely.

use std::collections::HashSet;

use tidegate_planted::{Bug, is_planted};

use super::distinct::Distinct;
use super::event::{Event, Moved, QueueIndex, Sent, Touched, Verdict};
use super::ids::{Remembered, reference_id};
use super::key::NUMBER_END;
use super::limits::{LEASE_MS_MAX, QUEUES_MAX, STANDING_MAX, TIMERS_PER_RECORD};
use super::message_table::{Entry, MessageState, NEVER, NO_GROUP};
use super::places::place_of;
use super::settings::is_queue_name;
use super::standing::{Standing, StandingSettings};
use super::state::{Queue, Queues, Started, later};
use crate::{Place, TimeMs};

/// How an event does not follow from the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Mismatch(&'static str);

fn must(holds: bool, what: &'static str) -> Result<(), Mismatch> {
    if holds { Ok(()) } else { Err(Mismatch(what)) }
}

impl Queues {
    pub(super) fn check(&self, event: &Event<'_>, place: Place) -> Result<(), Mismatch> {
        let at = event.at();
        must(place.sequence.0 > self.sequence, "a record's sequence is above those before it")?;
        must(at >= self.time && at <= TimeMs::MAX, "times do not go back")?;
        let queue = |index: QueueIndex| self.get_queue(index).ok_or(Mismatch("there is no such queue"));
        match event {
            Event::Started { .. } => Ok(()),
            Event::QueueSet { name, settings, .. } => {
                must(is_queue_name(name) && settings.check(name).is_ok(), "a queue has a name and settings")?;
                let is_new = self.index(name).is_none();
                must(!is_new || self.names.len() < QUEUES_MAX, "there are not too many queues")
            }
            Event::QueueDeleted { queue: index, .. } => {
                let queue = queue(*index)?;
                must(queue.members.is_empty(), "a queue that is deleted is empty")?;
                must(queue.standing.is_empty(), "a queue that is deleted has no schedules")?;
                must(self.user_of(&queue.name).is_none(), "no dead letters go to a queue that is deleted")
            }
            Event::Sent { queue: index, first, messages, .. } => {
                let queue = queue(*index)?;
                must(*first == self.next, "messages are numbered without a gap")?;
                must(first + (messages.len() as u64) < NUMBER_END, "there are numbers left")?;
                let mut ids = HashSet::new();
                let is_new = |id: &str| queue.ids.remembered(id, at).is_none();
                let remembers = queue.settings.id_window_ms != Some(0);
                must(
                    !remembers || messages.iter().flat_map(Sent::ids).all(|id| is_new(id) && ids.insert(id)),
                    "an id is taken once",
                )
            }
            Event::Leased { queue: index, until, messages, .. } => {
                queue(*index)?;
                must(*until >= at && *until <= later(at, LEASE_MS_MAX), "a lease ends behind its beginning")?;
                self.check_all(messages, Some(*index), |entry| {
                    entry.state == MessageState::Ready && entry.expires_at > at
                })
            }
            Event::Acknowledged { queue: index, messages, .. } => {
                queue(*index)?;
                self.check_all(messages, Some(*index), |entry| !entry.state.is_finished() && entry.attempts > 0)
            }
            Event::Extended { queue: index, until, messages, .. } => {
                queue(*index)?;
                must(*until >= at && *until <= later(at, LEASE_MS_MAX), "a lease ends behind its beginning")?;
                self.check_all(messages, Some(*index), |entry| entry.state == MessageState::Leased)
            }
            Event::Rejected { queue: index, messages, .. } => {
                queue(*index)?;
                let dies = messages.iter().any(|(_, verdict)| *verdict == Verdict::Dead);
                must(!dies || self.dead_letter_of(*index).is_some(), "dead letters have a queue")?;
                let touched: Vec<Touched> = messages.iter().map(|(touched, _)| *touched).collect();
                self.check_all(&touched, Some(*index), |entry| entry.state == MessageState::Leased)
            }
            Event::TimePassed { .. } => {
                must(self.messages.next_wake().is_some_and(|due| due <= at), "something is due when time passes")
            }
            Event::Purged { queue: index, numbers, .. } => {
                let queue = queue(*index)?;
                must(numbers.is_sorted_by(|one, next| one < next), "messages are purged in order")?;
                must(numbers.iter().all(|number| queue.members.contains(*number)), "a queue's own messages are purged")
            }
            Event::Cancelled { message, id, .. } | Event::Rescheduled { message, id, .. } => {
                self.check_all(&[*message], None, |entry| entry.state.is_waiting())?;
                must(id.is_none_or(|id| self.has_id(message.number, id)), "an id is of its message")
            }
            Event::Redriven { from, to, name, messages, .. } => {
                queue(*from)?;
                let named = queue(*to)?;
                must(name.is_none_or(|name| *name == *named.name), "a queue has the name that a record gives it")?;
                must(from != to, "messages are put into another queue")?;
                self.check_all(messages, Some(*from), |entry| entry.state.is_waiting())
            }
            Event::Routed { from, to, messages, .. } => {
                queue(*from)?;
                let to = self.index(to).ok_or(Mismatch("there is no such queue"))?;
                must(*from != to, "messages are put into another queue")?;
                self.check_all(messages, Some(*from), |entry| entry.state == MessageState::Leased)?;
                let fits = |touched: &Touched| self.may_join(to, touched.number, &self.messages.of(touched.number));
                must(messages.iter().all(fits), "no later message of an ordering key is handed out")
            }
            Event::Returned { queue: index, messages, .. } => {
                queue(*index)?;
                self.check_all(messages, Some(*index), |entry| entry.state == MessageState::Leased)
            }
            Event::Handed { queue: index, messages, .. } => {
                queue(*index)?;
                let plain = |(_, reference): &(Touched, &str)| !reference.chars().any(char::is_control);
                must(messages.iter().all(plain), "a reference has no control characters")?;
                let touched: Vec<Touched> = messages.iter().map(|(touched, _)| *touched).collect();
                self.check_all(&touched, Some(*index), |entry| !entry.state.is_finished() && entry.attempts > 0)
            }
            Event::Noted { message, .. } => self.check_all(&[*message], None, |entry| entry.attempts > 0),
            Event::StandingSet { queue: index, name, cron, zone, expiry_ms, next, message, owner, .. } => {
                let queue = queue(*index)?;
                let message = message.to_message();
                let (cron, zone, owner) = ((*cron).into(), (*zone).into(), owner.map(Into::into));
                let settings = StandingSettings { cron, zone, expiry_ms: *expiry_ms, message, owner };
                must(settings.check(name).is_ok(), "a schedule has a name, texts and a message")?;
                must(*next <= TimeMs::MAX, "a schedule has a time")?;
                let is_new = !queue.standing.contains_key(*name);
                must(!is_new || self.standing_count() < STANDING_MAX, "there are not too many schedules")
            }
            Event::StandingRemoved { queue: index, name, .. } => {
                must(queue(*index)?.standing.contains_key(*name), "there is no such schedule")
            }
            Event::Fired { queue: index, name, due, next, first, message, .. } => {
                queue(*index)?;
                must(*first == self.next, "messages are numbered without a gap")?;
                must(first + 1 < NUMBER_END, "there are numbers left")?;
                let may = self.may_fire((*index, *name), (*due, *next), message, at);
                must(may, "a schedule fires when its time has come, once, and sends its message")
            }
            Event::Moved { messages, .. } => {
                let touched: Vec<Touched> = messages.iter().map(|moved| moved.touched).collect();
                self.check_all(&touched, None, |entry| !entry.state.is_finished())?;
                let same =
                    |moved: &Moved<'_>| self.messages.of(moved.touched.number).bytes as usize == moved.message.bytes();
                must(messages.iter().all(same), "a message that is moved has the bytes that it had")
            }
        }
    }

    /// Whether all of these are there, each once and as `allow` wants it, and in this queue if one is named.
    fn check_all(
        &self,
        messages: &[Touched],
        queue: Option<QueueIndex>,
        allow: impl Fn(&Entry) -> bool,
    ) -> Result<(), Mismatch> {
        let mut seen = Distinct::with_capacity(messages.len());
        for touched in messages {
            let entry = self.messages.get(touched.number).ok_or(Mismatch("there is no such message"))?;
            must(queue.is_none_or(|queue| entry.queue == queue), "the message is in another queue")?;
            must(entry.last == touched.before, "the newest record about the message is another one")?;
            must(allow(&entry), "that cannot happen to the message where it is")?;
            must(seen.insert(touched.number), "something happens to a message once")?;
        }
        Ok(())
    }

    /// Folds in an event that follows from the state.
    pub(super) fn fold(&mut self, event: &Event<'_>, place: Place) {
        let at = event.at();
        (self.sequence, self.time) = (place.sequence.0, at);
        match event {
            Event::Started { node, .. } => self.start(*node),
            Event::QueueSet { name, settings, .. } => {
                let index = self.index(name).unwrap_or_else(|| self.add_queue(name));
                self.leave_owner(index);
                self.queue_mut(index).settings = settings.clone();
                self.enter_owner(index);
            }
            Event::QueueDeleted { queue, .. } => self.drop_queue(*queue),
            Event::Sent { queue, first, messages, .. } => {
                self.forget_ids(at);
                self.make_room(*queue, (*first, messages.len() as u64), place);
                for (part, sent) in messages.iter().enumerate() {
                    self.take(*queue, sent, (place, part as u16), at);
                }
            }
            Event::Leased { queue, until, messages, .. } => {
                let until = if is_planted(Bug::LeaseEndsAtOnce) { at } else { *until };
                for touched in messages {
                    self.alter(touched.number, |entry| {
                        entry.last = place.position;
                        entry.attempts += 1;
                        entry.tries = entry.tries.saturating_add(1);
                        (entry.state, entry.until) = (MessageState::Leased, until);
                    });
                }
                let (queue, count) = (self.queue_mut(*queue), messages.len() as u64);
                queue.picks = queue.picks.wrapping_add(count);
                queue.totals.leased += count;
                queue.use_rate(count, at);
            }
            Event::Acknowledged { queue, messages, .. } => {
                for touched in messages {
                    self.touch(touched.number, place);
                    if is_planted(Bug::AcknowledgedComesBack) && touched.number.is_multiple_of(7) {
                        self.put_waiting(touched.number);
                        continue;
                    }
                    self.finish(touched.number, Some(MessageState::Acknowledged), at);
                }
                self.queue_mut(*queue).totals.acknowledged += messages.len() as u64;
            }
            Event::Extended { until, messages, .. } => {
                for touched in messages {
                    self.touch(touched.number, place);
                    self.put(touched.number, MessageState::Leased, *until);
                }
            }
            Event::Rejected { queue, messages, .. } => {
                self.queue_mut(*queue).totals.rejected += messages.len() as u64;
                for (touched, verdict) in messages {
                    self.touch(touched.number, place);
                    match verdict {
                        Verdict::Again(visible_at) => self.put_back(touched.number, *visible_at, at),
                        Verdict::Dead => self.bury(touched.number, at),
                    }
                }
            }
            Event::TimePassed { .. } => self.end_timers(at),
            Event::Purged { queue, numbers, .. } => {
                numbers.iter().for_each(|number| self.finish(*number, None, at));
                self.queue_mut(*queue).totals.removed += numbers.len() as u64;
            }
            Event::Cancelled { message, id, .. } => {
                self.touch(message.number, place);
                self.remember_until_due(message.number, *id, at, at);
                let queue = self.messages.of(message.number).queue;
                self.finish(message.number, Some(MessageState::Cancelled), at);
                self.queue_mut(queue).totals.removed += 1;
            }
            Event::Rescheduled { visible_at, message, id, .. } => {
                self.touch(message.number, place);
                self.remember_until_due(message.number, *id, *visible_at, at);
                self.put_back(message.number, *visible_at, at);
            }
            Event::Redriven { to, messages, .. } => {
                for touched in messages {
                    self.touch(touched.number, place);
                    let expires_at = self.messages.of(touched.number).expires_at;
                    self.change_queue(touched.number, *to, expires_at, at);
                }
            }
            Event::Routed { from, to, messages, .. } => {
                let to = self.index(to).expect("an event that follows names a queue");
                for touched in messages {
                    self.touch(touched.number, place);
                    self.send_on(touched.number, to, at);
                }
                self.queue_mut(*from).totals.acknowledged += messages.len() as u64;
                self.queue_mut(to).totals.sent += messages.len() as u64;
            }
            Event::Returned { visible_at, messages, .. } => {
                for touched in messages {
                    self.touch(touched.number, place);
                    self.messages.change(touched.number, |entry| entry.tries = entry.tries.saturating_sub(1));
                    self.put_back(touched.number, *visible_at, at);
                }
            }
            Event::Handed { queue, messages, .. } => {
                self.forget_ids(at);
                for (touched, reference) in messages {
                    self.touch(touched.number, place);
                    self.refer(touched.number, reference, at);
                    self.finish(touched.number, Some(MessageState::Acknowledged), at);
                }
                self.queue_mut(*queue).totals.acknowledged += messages.len() as u64;
            }
            Event::Noted { message, .. } => self.touch(message.number, place),
            Event::StandingSet { queue, name, cron, zone, expiry_ms, next, message, owner, .. } => {
                let (cron, zone, message) = ((*cron).into(), (*zone).into(), message.to_message());
                let (expiry_ms, owner) = (*expiry_ms, owner.map(Into::into));
                let settings = StandingSettings { cron, zone, expiry_ms, message, owner };
                let last = self.queue(*queue).standing.get(*name).and_then(|standing| standing.last);
                self.put_standing(*queue, name, Standing { settings, next: Some(*next), last });
            }
            Event::StandingRemoved { queue, name, .. } => drop(self.take_standing(*queue, name)),
            Event::Fired { queue, name, due, next, first, message, .. } => {
                self.forget_ids(at);
                self.make_room(*queue, (*first, 1), place);
                self.take(*queue, message, (place, 0), at);
                let standing = self.take_standing(*queue, name).expect("who fires is there");
                let next = if is_planted(Bug::ScheduleStandsStill) { Some(*due) } else { *next };
                let last = Some(self.key_of(*first, at));
                self.put_standing(*queue, name, Standing { settings: standing.settings.clone(), next, last });
            }
            Event::Moved { messages, .. } => {
                for (part, moved) in messages.iter().enumerate() {
                    let number = moved.touched.number;
                    self.leave_place(number, self.messages.of(number).body);
                    self.messages.change(number, |entry| {
                        let part = if is_planted(Bug::MovedPartForgotten) { entry.part } else { part as u16 };
                        (entry.body, entry.last, entry.part) = (place.position, place.position, part);
                    });
                    self.enter_place(number, place.position);
                }
            }
        }
        self.forget_finished(at);
    }

    fn touch(&mut self, number: u64, place: Place) {
        self.messages.change(number, |entry| entry.last = place.position);
    }

    fn start(&mut self, node: u16) {
        let restart = self.starts.last_key_value().map_or(0, |(_, started)| started.restart.wrapping_add(1));
        // Of starts before, those count that took messages which are still known.
        let oldest = self.messages.first().unwrap_or(self.next);
        let kept = self.starts.range(..=oldest).next_back().map_or(0, |(first, _)| *first);
        self.starts = self.starts.split_off(&kept);
        self.starts.insert(self.next, Started { node, restart });
    }

    fn add_queue(&mut self, name: &str) -> QueueIndex {
        let free = self.queues.iter().position(Option::is_none);
        let index = QueueIndex(free.unwrap_or(self.queues.len()) as u32);
        if free.is_none() {
            self.queues.push(None);
        }
        self.queues[index.0 as usize] = Some(Queue::new(name, super::settings::Settings::default()));
        self.names.insert(name.into(), index);
        index
    }

    fn drop_queue(&mut self, index: QueueIndex) {
        let (messages, finished) = (&mut self.messages, &mut self.finished);
        finished.retain(|(_, number)| {
            let stays = messages.of(*number).queue != index;
            if !stays {
                messages.remove(*number);
            }
            stays
        });
        self.leave_owner(index);
        let queue = self.queues[index.0 as usize].take().expect("the queue is there");
        self.drop_ids(index, queue.ids);
        self.names.remove(&queue.name);
        while self.queues.last().is_some_and(Option::is_none) {
            self.queues.pop();
        }
    }

    /// Notes that messages come: which, into a queue, with their bodies in this record. Each is then taken.
    fn make_room(&mut self, index: QueueIndex, (first, count): (u64, u64), place: Place) {
        let queue = self.queue_mut(index);
        queue.totals.sent += count;
        queue.members.insert_run(first, count);
        self.change_owned(index, |owned| owned.messages += count);
        self.places.entry(place_of(place.position)).or_default().insert_run(first, count);
    }

    /// Takes in a message that was sent.
    fn take(&mut self, index: QueueIndex, sent: &Sent<'_>, (place, part): (Place, u16), at: TimeMs) {
        let number = self.next;
        self.next += 1;
        let (group, is_first) = match sent.ordering_key {
            None => (NO_GROUP, true),
            Some(key) => self.change_groups(index, |groups| groups.add(key, number)),
        };
        let until = self.queue(index).settings.id_until(at, sent.visible_at.unwrap_or(at));
        let (state, visible_at) = match sent.visible_at.filter(|visible_at| *visible_at > at) {
            Some(visible_at) => (MessageState::Scheduled, visible_at),
            None if is_first => (MessageState::Ready, TimeMs(0)),
            None => (MessageState::Held, TimeMs(0)),
        };
        self.live_bytes += sent.bytes() as u64;
        let entry = Entry {
            body: place.position,
            part,
            last: place.position,
            sent_at: at,
            until: visible_at,
            expires_at: sent.expires_at.unwrap_or(NEVER),
            queue: index,
            group,
            bytes: sent.bytes() as u32,
            attempts: 0,
            tries: 0,
            priority: sent.priority,
            state,
        };
        self.messages.insert(number, entry);
        self.enter(number, &entry);
        for (id, until) in sent.ids().filter_map(|id| Some((id, until?))) {
            self.remember(index, id, Remembered { key: self.key_of(number, at), until });
        }
    }

    /// Remembers what another system calls a message, as long as its trail is kept.
    fn refer(&mut self, number: u64, reference: &str, at: TimeMs) {
        let Entry { queue, sent_at, .. } = self.messages.of(number);
        let trail_ms = self.queue(queue).settings.trail_ms;
        if !reference.is_empty() && trail_ms > 0 {
            let remembered = Remembered { key: self.key_of(number, sent_at), until: later(at, trail_ms) };
            self.remember(queue, &reference_id(reference), remembered);
        }
    }

    /// Puts a message where its queue's dead letters go.
    fn bury(&mut self, number: u64, at: TimeMs) {
        let from = self.messages.of(number).queue;
        let to = self.dead_letter_of(from).expect("dead letters have a queue");
        // A dead letter stays as long as its new queue says: somebody is to look at it.
        self.change_queue(number, to, NEVER, at);
        self.queue_mut(from).totals.dead += 1;
    }

    /// Ends what has ended by the clock, up to so many.
    fn end_timers(&mut self, at: TimeMs) {
        for _ in 0..TIMERS_PER_RECORD {
            let Some(number) = self.messages.first_due(at) else { return };
            let entry = self.messages.of(number);
            let index = entry.queue;
            if entry.state == MessageState::Leased {
                self.queue_mut(index).totals.lapsed += 1;
            }
            let tries = entry.tries - u16::from(is_planted(Bug::DeliveredTooOften) && entry.tries > 0);
            let is_last = self.queue(index).settings.attempts_max.is_some_and(|most| tries >= most);
            if entry.expires_at <= at {
                self.finish(number, Some(MessageState::Expired), at);
                self.queue_mut(index).totals.expired += 1;
            } else if entry.state == MessageState::Leased && is_last && self.dead_letter_of(index).is_some() {
                self.bury(number, at);
            } else {
                self.put_waiting(number);
            }
        }
    }
}

//! How receivers get messages: those who wait, in their order, as soon as there is something for them.
//!
//! ```text
//!   waits ─▶ lease, noted ─▶ bodies: in memory? ─▶ answer, once the lease is durable
//!                               └─ no: a job ─▶ moved meanwhile? read again
//! ```

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tidegate_journal::{LogStore, RecordClass};
use tidegate_machines::queue::{BodyPlace, Command, Delivery, Message, Offer, Outcome, Refusal, Settings};
use tidegate_machines::{Decision, Machine, TimeMs};
use tidegate_shard::Jobs;

use super::execute::Executed;
use super::host_time::delivery_shown;
use super::{Handover, Job, QueueService, QueueTurn, Reading};
use crate::call::{Answer, Receive, Received};
use crate::consumers::ConsumerRate;
use crate::limits::{ANSWER_BYTES_MAX, DELIVERIES_PER_STEP, READ_AHEAD_BYTES, READ_AHEAD_MESSAGES, WAIT_MS_MAX};
use crate::protocol::RequestTicket;
use crate::waiters::Waiter;
use crate::window::Opening;

impl<T: RequestTicket> QueueService<T> {
    /// Hands out what there is to those who wait. Whether anything happened.
    pub(super) fn serve_waiters<L: LogStore>(&mut self, turn: &mut QueueTurn<'_, T, L>, jobs: &mut Jobs<Self>) -> bool {
        let mut worked = false;
        for (ticket, receive) in self.waiters.take_arrived() {
            worked = true;
            if let Some(refusal) = self.refusal_of(turn, &receive) {
                self.ready.push((ticket, Answer::refused(refusal)));
                continue;
            }
            let wait_ms = receive.wait_ms.min(WAIT_MS_MAX);
            self.news.note(&receive.queue);
            self.waiters.note_asked(&receive.queue, turn.now());
            self.waiters.push(ticket, Receive { wait_ms, ..receive }, turn.now());
        }
        self.waiters.put_back(turn.now()).iter().for_each(|queue| self.news.note(queue));
        let mut queues = VecDeque::from(self.news.take(turn.now(), self.waiters.queues()));
        // Queues take turns here as well: it goes on where the step before has stopped.
        queues.rotate_left(queues.partition_point(|queue| *queue < self.next_served));
        let mut left = DELIVERIES_PER_STEP;
        while let Some(queue) = queues.pop_front() {
            if let Some(handed_out) = self.serve_first(turn, &queue, jobs) {
                worked = true;
                left = left.saturating_sub(handed_out);
                queues.push_back(queue);
            }
            if left == 0 {
                self.next_served = queues.front().cloned().unwrap_or_default();
                queues.drain(..).for_each(|queue| self.news.note(&queue));
            }
        }
        while let Some(waiter) = self.waiters.pop_ended(turn.now()) {
            worked = true;
            self.ready.push((waiter.ticket, Answer::Received(Vec::new())));
        }
        worked
    }

    /// Why a request for messages cannot be: this is said at once, and not when there is something to hand out.
    fn refusal_of<L: LogStore>(&self, turn: &QueueTurn<'_, T, L>, receive: &Receive) -> Option<Refusal> {
        let Receive { queue, max, lease_ms, consumer, .. } = receive;
        let (max, lease_ms) = (*max, *lease_ms);
        let command = Command::Receive { queue, max, bytes_max: 0, lease_ms, consumer };
        match turn.state().decide(&command, self.options.bounds, turn.now()) {
            Decision::Answer(Outcome::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }

    /// Serves the first who waits for a queue. With how many messages; `None` if nobody is served here now.
    pub(super) fn serve_first<L: LogStore>(
        &mut self,
        turn: &mut QueueTurn<'_, T, L>,
        queue: &str,
        jobs: &mut Jobs<Self>,
    ) -> Option<usize> {
        self.waiters.first(queue)?;
        match turn.state().offers(queue, turn.now()) {
            Offer::Now | Offer::NoQueue => {}
            Offer::Nothing => return None,
            Offer::From(at) => {
                self.news.note_at(at, queue);
                return None;
            }
        }
        let max = self.admitted(turn, queue)?;
        let Receive { lease_ms, consumer, .. } = self.waiters.first(queue)?.receive.clone();
        let (bytes_max, consumer) = (ANSWER_BYTES_MAX, &*consumer);
        let command = Command::Receive { queue, max, bytes_max, lease_ms, consumer };
        let deliveries = match self.execute(turn, RecordClass::Note, &command) {
            Executed::NoRoom | Executed::DiskFull => {
                self.news.note(queue);
                return None;
            }
            Executed::Done(Outcome::Leased(deliveries)) if deliveries.is_empty() => return None,
            Executed::Done(Outcome::Leased(deliveries)) => deliveries,
            Executed::Done(outcome) => {
                let waiter = self.waiters.pop(queue).expect("it was there just now");
                self.ready.push((waiter.ticket, Answer::Outcome(outcome)));
                return Some(0);
            }
        };
        let waiter = self.waiters.pop(queue).expect("it was there just now");
        let handed_out = deliveries.len();
        if let Some(rate) = turn.state().settings(queue).and_then(consumer_rate) {
            self.consumers.take(queue, consumer, handed_out, rate, turn.now());
        }
        self.deliver(turn, waiter, deliveries, jobs);
        self.read_ahead(turn, queue, handed_out, jobs);
        Some(handed_out)
    }

    /// How many messages of a queue may go to the first who waits for it and has not had its share; `None` if none may.
    /// Those who have had their share stand aside until they may have more.
    fn admitted<L: LogStore>(&mut self, turn: &QueueTurn<'_, T, L>, queue: &str) -> Option<usize> {
        let now = turn.now();
        let Some(settings) = turn.state().settings(queue) else {
            return self.waiters.first(queue).map(|waiter| waiter.receive.max);
        };
        let ahead_ms = self.ahead_ms(turn);
        match self.windows.opening(queue, settings.delivery_window.as_deref(), self.host_time(turn)) {
            Opening::Now => {}
            Opening::At(at) => {
                self.news.note_at(TimeMs(at.0.saturating_add(ahead_ms)), queue);
                return None;
            }
            Opening::Never => return None,
        }
        loop {
            let Receive { max, consumer, .. } = &self.waiters.first(queue)?.receive;
            let Some(rate) = consumer_rate(settings) else { return Some(*max) };
            match self.consumers.allowed(queue, consumer, rate, now) {
                Ok(count) => return Some(count.min(*max)),
                Err(at) => self.waiters.put_aside(queue, at),
            }
        }
    }

    /// Gets the bodies of what was handed out.
    pub(super) fn deliver<L: LogStore>(
        &mut self,
        turn: &QueueTurn<'_, T, L>,
        receiver: Waiter<T>,
        deliveries: Vec<Delivery>,
        jobs: &mut Jobs<Self>,
    ) {
        let numbers = deliveries.iter().map(|delivery| delivery.lease.key.number());
        let place = |number| turn.state().body_place(number).expect("what was handed out is there");
        let places = numbers.map(place).collect();
        self.hand_over(turn, Handover { receiver, deliveries, messages: HashMap::new(), places }, jobs);
    }

    /// Answers a receiver if all bodies are there, or reads them.
    pub(super) fn hand_over<L: LogStore>(
        &mut self,
        turn: &QueueTurn<'_, T, L>,
        mut handover: Handover<T>,
        jobs: &mut Jobs<Self>,
    ) {
        let places = std::mem::take(&mut handover.places);
        for (place, message) in self.bodies.find(&places, turn) {
            match message {
                Some(message) => drop(handover.messages.insert(place.number, message)),
                None => handover.places.push(place),
            }
        }
        handover.messages.keys().for_each(|number| self.bodies.remove(*number));
        if handover.places.is_empty() {
            return self.finish_handover(turn, handover);
        }
        let job = jobs.start(Job { places: handover.places.clone(), trails: Vec::new() });
        self.readings.insert(job, Reading::Delivery(handover));
    }

    /// Answers a receiver. One for whom nothing could be read goes on waiting: an empty answer would say that there is
    /// nothing.
    fn finish_handover<L: LogStore>(&mut self, turn: &QueueTurn<'_, T, L>, handover: Handover<T>) {
        let Handover { receiver, deliveries, messages, .. } = handover;
        if messages.is_empty() && receiver.until > turn.now() {
            self.news.note(&receiver.receive.queue);
            return self.waiters.push_again(receiver);
        }
        let (queues, ahead_ms) = (turn.state(), self.ahead_ms(turn));
        let now = turn.now().max(queues.time());
        let mut messages = messages;
        let with_body = |delivery: Delivery| {
            let number = delivery.lease.key.number();
            Some(Received {
                delivery: delivery_shown(delivery, ahead_ms),
                attempts: delivery.lease.attempt,
                lease_left_ms: delivery.until.0.saturating_sub(now.0),
                expires_in_ms: queues.expires_at(number).map(|at| at.0.saturating_sub(now.0)),
                message: with_ordering_key(messages.remove(&number)?, queues.ordering_key(number)),
            })
        };
        // What cannot be read is left out.
        let received = deliveries.into_iter().filter_map(with_body).collect();
        self.ready.push((receiver.ticket, Answer::Received(received)));
    }

    /// Reads the bodies that will be handed out next, if they are not in memory: so many were handed out now.
    fn read_ahead<L: LogStore>(
        &mut self,
        turn: &QueueTurn<'_, T, L>,
        queue: &str,
        handed_out: usize,
        jobs: &mut Jobs<Self>,
    ) {
        let ahead = self.ahead.entry(queue.into()).or_default();
        ahead.not_before = ahead.not_before.saturating_sub(handed_out);
        if ahead.is_reading || ahead.not_before > 0 {
            return;
        }
        let coming: Vec<BodyPlace> = turn.state().coming(queue).take(READ_AHEAD_MESSAGES).collect();
        let is_here = |place: &BodyPlace| self.bodies.get(place.number).is_some();
        let here = coming.iter().take_while(|place| is_here(place)).count();
        // Until half of what was read ahead is handed out, nothing is read.
        if here == coming.len() || here >= READ_AHEAD_MESSAGES / 2 {
            ahead.not_before = here / 2;
            return;
        }
        let mut bytes = 0;
        let mut fits = |place: &BodyPlace| {
            bytes += turn.state().bytes_of(place.number);
            bytes <= READ_AHEAD_BYTES.min(self.options.bodies_bytes_max / 4)
        };
        let missing = coming[here..].iter().filter(|place| !is_here(place)).copied();
        let missing: Vec<BodyPlace> = missing.take_while(|place| fits(place)).collect();
        let mut places = Vec::new();
        let found: Vec<_> = self.bodies.find(&missing, turn).collect();
        for (place, message) in found {
            match message {
                Some(message) => {
                    self.bodies.keep_next(place.number, message);
                }
                None => places.push(place),
            }
        }
        if !places.is_empty() {
            ahead.is_reading = true;
            let job = jobs.start(Job { places, trails: Vec::new() });
            self.readings.insert(job, Reading::Ahead(queue.into()));
        }
    }
}

/// A message with the ordering key that it has in its queue, which is not the one that it was sent with if it went to
/// another queue since.
pub(super) fn with_ordering_key(message: Arc<Message>, ordering_key: Option<&str>) -> Arc<Message> {
    match message.ordering_key.as_deref() == ordering_key {
        true => message,
        false => Arc::new(Message { ordering_key: ordering_key.map(Into::into), ..Message::clone(&message) }),
    }
}

/// The rate of each consumer of a queue, if it has one.
fn consumer_rate(settings: &Settings) -> Option<ConsumerRate> {
    settings.consumer_rate_per_s.map(|per_s| ConsumerRate { per_s, burst: settings.consumer_burst })
}

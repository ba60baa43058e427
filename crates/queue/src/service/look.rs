//! What is looked at: queues, messages, trails. What is not in memory is read by a job, and the call goes on then.

use std::collections::HashMap;

use tidegate_journal::LogStore;
use tidegate_machines::queue::{BodyPlace, MessageView, Refusal};
use tidegate_shard::{JobId, Jobs, Pause, Served};

use super::hand_out::with_ordering_key;
use super::host_time::view_shown;
use super::standing;
use super::{Fetched, Job, Progress, QueueService, QueueTurn, Reading};
use crate::call::{Answer, Found, Read};
use crate::limits::{ANSWER_BYTES_MAX, PAGE_ROWS_MAX};
use crate::protocol::RequestTicket;
use crate::trail::{Trail, TrailWalk};

impl<T: RequestTicket> QueueService<T> {
    pub(super) fn look<L: LogStore>(
        &mut self,
        turn: &QueueTurn<'_, T, L>,
        read: &Read,
        progress: &mut Progress,
        jobs: &mut Jobs<Self>,
    ) -> Served<Answer> {
        if let Some((job, messages)) = progress.reads.take() {
            return Served::Done(Answer::Messages(self.finish_reading(job, messages), progress.more));
        }
        let queues = turn.state();
        let not_found = |queue: &str| Served::Done(Answer::refused(Refusal::QueueNotFound(queue.into())));
        let key = match read {
            Read::Queue(name) => {
                let Some(view) = queues.view(name) else { return not_found(name) };
                return Served::Done(Answer::Queue(Box::new(view), self.rates_of(name)));
            }
            Read::Readiness(name) => {
                let Some(readiness) = queues.readiness(name, self.options.bounds) else { return not_found(name) };
                let is_received = readiness.counts.leased > 0 || self.waiters.wait_for(name, turn.now());
                return Served::Done(Answer::Readiness(readiness, is_received));
            }
            Read::Queues { after, limit } => {
                // One row more than a page says whether there is another page.
                let views = queues.views(after).take((*limit).min(PAGE_ROWS_MAX + 1));
                let rows = views.map(|view| (self.rates_of(&view.name), view)).map(|(rates, view)| (view, rates));
                return Served::Done(Answer::Queues(rows.collect()));
            }
            Read::Standing { queue, name } => return Served::Done(standing::one(queues, queue, name)),
            Read::Standings { queue, after, limit } => {
                return Served::Done(standing::page(queues, queue, after, *limit));
            }
            Read::Browse { queue, after, limit } => {
                let Some(messages) = queues.browse(queue, *after) else { return not_found(queue) };
                let mut bytes = 0;
                let mut fits = |view: &MessageView| {
                    bytes += u64::from(view.bytes);
                    bytes <= ANSWER_BYTES_MAX || bytes == u64::from(view.bytes)
                };
                let mut messages = messages.peekable();
                let mut views = Vec::new();
                while views.len() < (*limit).min(PAGE_ROWS_MAX)
                    && let Some(view) = messages.next_if(&mut fits)
                {
                    views.push(view);
                }
                progress.more = messages.next().is_some();
                return self.read_messages(turn, views, None, progress, jobs);
            }
            Read::Message(key) => Some(*key),
            Read::ById { queue, id } => queues.key_of_id(queue, id, turn.now()),
        };
        let Some(view) = key.and_then(|key| queues.message(key)) else {
            return Served::Done(Answer::refused(Refusal::MessageNotFound));
        };
        let walk = TrailWalk::new(view.body.number, view.last);
        self.read_messages(turn, vec![view], Some(walk), progress, jobs)
    }

    /// Gets the bodies of messages, and the trail of the only one.
    pub(super) fn read_messages<L: LogStore>(
        &mut self,
        turn: &QueueTurn<'_, T, L>,
        views: Vec<MessageView>,
        mut walk: Option<TrailWalk>,
        progress: &mut Progress,
        jobs: &mut Jobs<Self>,
    ) -> Served<Answer> {
        let bodies = views.iter().filter(|view| !view.state.is_finished()).map(|view| view.body);
        let bodies: Vec<BodyPlace> = bodies.collect();
        let found: Vec<_> = self.bodies.find(&bodies, turn).collect();
        let places: Vec<_> = found.iter().filter(|(_, message)| message.is_none()).map(|(place, _)| *place).collect();
        let mut found: HashMap<u64, _> = found.into_iter().map(|(place, message)| (place.number, message)).collect();
        let ahead_ms = self.ahead_ms(turn);
        let mut with_body = |view: MessageView| {
            let view = view_shown(view, ahead_ms);
            let message = found.remove(&view.body.number).flatten();
            let message = message.map(|message| with_ordering_key(message, view.ordering_key.as_deref()));
            Found { view, message, trail: Trail::default() }
        };
        let mut messages: Vec<Found> = views.into_iter().map(&mut with_body).collect();
        let is_walked = walk.as_mut().is_none_or(|walk| walk.walk_in_memory(turn));
        if is_walked && let Some(trail) = walk.take().map(TrailWalk::into_trail) {
            messages[0].trail = trail;
        }
        if places.is_empty() && walk.is_none() {
            return Served::Done(Answer::Messages(messages, progress.more));
        }
        let job = jobs.start(Job { places, trail: walk });
        self.readings.insert(job, Reading::Call);
        progress.reads = Some((job, messages));
        Served::Paused(Pause::Aside(job))
    }

    pub(super) fn finish_reading(&mut self, job: JobId, mut messages: Vec<Found>) -> Vec<Found> {
        let Fetched { bodies, trail } = self.found.remove(&job).expect("a call is resumed when its job is back");
        let mut bodies: HashMap<u64, _> = bodies.into_iter().collect();
        for found in &mut messages {
            if let Some(Ok(message)) = bodies.remove(&found.view.body.number) {
                found.message = Some(with_ordering_key(message, found.view.ordering_key.as_deref()));
            }
        }
        if let (Some(trail), [only]) = (trail, &mut *messages) {
            only.trail = trail;
        }
        messages
    }
}

//! What is looked at: queues, messages, trails. What is not in memory is read by a job, and the call goes on then.

use std::collections::HashMap;

use tidegate_journal::LogStore;
use tidegate_machines::queue::{BodyPlace, MessageKey, MessageView, Queues, Refusal};
use tidegate_shard::{JobId, Jobs, Pause, Served};

use super::hand_out::with_ordering_key;
use super::host_time::view_shown;
use super::standing;
use super::{Fetched, Job, Progress, QueueService, QueueTurn, Reading};
use crate::call::{Answer, Browse, Found, MessagePage, Read};
use crate::limits::{ANSWER_BYTES_MAX, PAGE_LOOKED_AT_MAX, PAGE_ROWS_MAX};
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
            return Served::Done(found(self.finish_reading(job, messages), progress));
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
            Read::Browse(browse) => {
                let Some(Page { views, next, looked_at }) = page(queues, browse) else {
                    return not_found(browse.queue.as_deref().unwrap_or_default());
                };
                progress.list = Some((next, looked_at));
                return self.read_messages(turn, views, browse.with_trails, progress, jobs);
            }
            Read::Message(key) => Some(*key),
            Read::ById { queue, ids } => ids.iter().find_map(|id| queues.key_of_id(queue, id, turn.now())),
        };
        let Some(view) = key.and_then(|key| queues.message(key)) else {
            return Served::Done(Answer::refused(Refusal::MessageNotFound));
        };
        self.read_messages(turn, vec![view], true, progress, jobs)
    }

    /// Gets the bodies of messages, and their trails if they are wanted.
    fn read_messages<L: LogStore>(
        &mut self,
        turn: &QueueTurn<'_, T, L>,
        views: Vec<MessageView>,
        with_trails: bool,
        progress: &mut Progress,
        jobs: &mut Jobs<Self>,
    ) -> Served<Answer> {
        let bodies = views.iter().filter(|view| !view.state.is_finished()).map(|view| view.body);
        let bodies: Vec<BodyPlace> = bodies.collect();
        let kept: Vec<_> = self.bodies.find(&bodies, turn).collect();
        let places: Vec<_> = kept.iter().filter(|(_, message)| message.is_none()).map(|(place, _)| *place).collect();
        let mut kept: HashMap<u64, _> = kept.into_iter().map(|(place, message)| (place.number, message)).collect();
        let ahead_ms = self.ahead_ms(turn);
        let mut trails = Vec::new();
        let mut with_body = |view: MessageView| {
            let mut trail = Trail::default();
            if with_trails {
                let mut walk = TrailWalk::new(&view);
                match walk.walk_in_memory(turn) {
                    true => trail = walk.into_trail(),
                    false => trails.push(walk),
                }
            }
            let view = view_shown(view, ahead_ms);
            let message = kept.remove(&view.body.number).flatten();
            let message = message.map(|message| with_ordering_key(message, view.ordering_key.as_deref()));
            Found { view, message, trail }
        };
        let messages: Vec<Found> = views.into_iter().map(&mut with_body).collect();
        if places.is_empty() && trails.is_empty() {
            return Served::Done(found(messages, progress));
        }
        let job = jobs.start(Job { places, trails });
        self.readings.insert(job, Reading::Call);
        progress.reads = Some((job, messages));
        Served::Paused(Pause::Aside(job))
    }

    fn finish_reading(&mut self, job: JobId, mut messages: Vec<Found>) -> Vec<Found> {
        let Fetched { bodies, mut trails } = self.found.remove(&job).expect("a call is resumed when its job is back");
        let mut bodies: HashMap<u64, _> = bodies.into_iter().collect();
        for found in &mut messages {
            if let Some(Ok(message)) = bodies.remove(&found.view.body.number) {
                found.message = Some(with_ordering_key(message, found.view.ordering_key.as_deref()));
            }
            if let Some(trail) = trails.remove(&found.view.body.number) {
                found.trail = trail;
            }
        }
        messages
    }
}

/// What a call is answered with: a page, if it asked for one.
fn found(mut messages: Vec<Found>, progress: &Progress) -> Answer {
    match progress.list {
        Some((next, looked_at)) => Answer::Page(MessagePage { rows: messages, next, looked_at }),
        None => Answer::Message(Box::new(messages.pop().expect("who asks for one message gets it, or is refused"))),
    }
}

/// Messages of a range, the key from which on others may be, and how many were looked at.
struct Page {
    views: Vec<MessageView>,
    next: Option<MessageKey>,
    looked_at: usize,
}

/// The first messages of a range. `None` if there is no such queue.
fn page(queues: &Queues, browse: &Browse) -> Option<Page> {
    let Browse { queue, may_see, keys, with_gone, .. } = browse;
    let messages: Box<dyn Iterator<Item = MessageView>> = match queue {
        Some(queue) if !with_gone => Box::new(queues.browse(queue, keys.clone())?),
        Some(queue) if queues.settings(queue).is_none() => return None,
        _ => Box::new(queues.browse_all(keys.clone())),
    };
    let (mut views, mut bytes): (Vec<MessageView>, u64) = (Vec::new(), 0);
    let mut looked_at = 0;
    for view in messages {
        let is_wanted = queue.as_ref().is_none_or(|queue| *queue == view.queue)
            && (*with_gone || !view.state.is_finished())
            && may_see.matches(&view.queue);
        let body_bytes = if view.state.is_finished() { 0 } else { u64::from(view.bytes) };
        let is_full = is_wanted && !views.is_empty() && bytes + body_bytes > ANSWER_BYTES_MAX;
        if views.len() == browse.rows_max() || is_full {
            // Not the message behind it, which whoever asks may not know.
            let next = views.last().map_or(view.key, |last| last.key.next());
            return Some(Page { views, next: Some(next), looked_at });
        }
        if looked_at == PAGE_LOOKED_AT_MAX {
            return Some(Page { views, next: Some(view.key), looked_at });
        }
        looked_at += 1;
        if is_wanted {
            bytes += body_bytes;
            views.push(view);
        }
    }
    Some(Page { views, next: None, looked_at })
}

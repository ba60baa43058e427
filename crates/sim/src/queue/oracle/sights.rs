//! What must hold of messages that were looked at, and of everything when all queues are empty.

use tidegate_machines::queue::{MessageKey, MessageState, Queues};
use tidegate_queue::{Found, StepKind};

use super::super::ask::{Ask, Asked};
use super::super::content::{Content, number_of};
use super::super::plan::SCHEDULE;
use super::{Known, Oracle, QueueKnown};
use crate::violation::{Violation, must};

impl Oracle {
    /// Compares what was found with what is known.
    pub(super) fn seen(&mut self, asked: &Asked, found: &[Found], next: Option<MessageKey>) -> Result<(), Violation> {
        for found in found {
            self.see(asked, found)?;
        }
        let words = || format!("{asked:?}: {:?}", found.iter().map(|found| found.view.key).collect::<Vec<_>>());
        match &asked.ask {
            Ask::Look { key } => {
                let is_it = found.len() == 1 && found[0].view.key == *key;
                must(is_it, "a message is found by its key", words)
            }
            Ask::LookById { content } => {
                if let [only] = found {
                    self.learn(only.view.key, *content)?;
                }
                let of = &self.contents[*content];
                let is_it = found.len() == 1 && of.keys.contains(&found[0].view.key);
                must(is_it, "a message is found by its id", words)?;
                let until = self.id_until(*content, found[0].view.key.at().0);
                must(until > asked.at, "an id is forgotten after its window", words)
            }
            Ask::Browse { queue, keys } => {
                let found_keys = || found.iter().map(|found| found.view.key);
                let is_sorted =
                    found_keys().all(|key| keys.contains(&key)) && found_keys().is_sorted_by(|one, two| one < two);
                must(is_sorted, "messages are listed in their order", words)?;
                let is_complete = |key: &MessageKey| keys.contains(key) && next.is_none_or(|next| *key < next);
                self.check_list(*queue, is_complete, asked.at, found)
            }
            _ => unreachable!("others are not answered with messages"),
        }
    }

    /// A list has all messages of its part of the queue.
    fn check_list(
        &self,
        queue: usize,
        is_complete: impl Fn(&MessageKey) -> bool,
        asked_at: u64,
        found: &[Found],
    ) -> Result<(), Violation> {
        let of = &self.queues[queue];
        if of.dead.is_some() {
            return Ok(());
        }
        for (key, known) in &self.keys {
            let is_here = self.contents[known.content].content.queue == queue && key.at().0 < asked_at;
            let is_wanted = known.has_receipt && is_here && is_complete(key);
            if is_wanted && self.end(*key, known) > self.now {
                let is_listed = found.iter().any(|found| found.view.key == *key);
                must(is_listed, "a list of messages misses none", || format!("{key} of {}", of.name))?;
            }
        }
        Ok(())
    }

    fn see(&mut self, asked: &Asked, found: &Found) -> Result<(), Violation> {
        let Found { view, message, trail } = found;
        let words = || format!("{view:?}, asked at {} ms: {message:?}", asked.at);
        if let Some(message) = message {
            let number = number_of(message).and_then(|number| usize::try_from(number).ok());
            let content = number.filter(|number| self.contents.get(*number).is_some_and(|of| of.content.is(message)));
            let is_known = |content| self.keys.get(&view.key).is_none_or(|known| known.content == content);
            must(content.is_some_and(is_known), "what is looked at is what was sent", words)?;
            self.learn(view.key, content.expect("that was seen just now"))?;
        }
        // A slow read may come when its part of the log was forgotten, because the body was written again.
        let is_readable =
            message.is_some() || view.state.is_finished() || self.calm_since.is_none_or(|since| asked.at < since);
        must(is_readable, "a body that is still needed can be read", words)?;
        let Some(known) = self.keys.get(&view.key) else { return Ok(()) };
        let Content { message, .. } = &self.contents[known.content].content;
        let is_at_home = self.places(known).any(|queue| self.queues[queue].name == view.queue);
        let is_same = view.priority == message.priority && view.bytes as usize == message.bytes();
        must(is_at_home && is_same, "a message is seen as it was sent", words)?;
        let attempts =
            known.deliveries.iter().filter(|(_, delivered)| delivered.at < asked.at).map(|(nr, _)| *nr).max();
        must(view.attempts >= attempts.unwrap_or(0), "deliveries are counted", words)?;
        self.check_state(view.key, view.state, asked.at, known)?;
        let leases = trail.steps.iter().filter(|step| matches!(step.kind, StepKind::Leased { .. })).count();
        let first = match self.is_scheduled(known.content) {
            true => StepKind::Fired { schedule: SCHEDULE.into() },
            false => StepKind::Sent,
        };
        let begins = trail.steps.last().is_none_or(|step| step.kind == first);
        let is_whole = trail.steps.is_empty() || trail.is_cut || begins && leases == view.attempts as usize;
        must(is_whole, "a trail has all that happened to a message", || format!("{view:?}: {trail:?}"))
    }

    fn check_state(&self, key: MessageKey, state: MessageState, asked: u64, known: &Known) -> Result<(), Violation> {
        let words = || format!("{key} is {state:?}, asked at {asked} ms");
        if known.acknowledged.is_some_and(|(_, at)| at < asked) {
            return must(state == MessageState::Acknowledged, "what was acknowledged stays so", words);
        }
        if known.cancelled.is_some_and(|cancelled| cancelled < asked) {
            return must(state == MessageState::Cancelled, "what was cancelled stays so", words);
        }
        let may_be_over = !state.is_finished() || self.end(key, known) <= self.now;
        must(may_be_over, "what was taken is there until it has ended", words)?;
        let is_held = known.deliveries.values().any(|lease| lease.at < asked && lease.held_until > self.now);
        must(!is_held || state == MessageState::Leased, "who has a lease is seen to have it", words)
    }

    /// What must hold when all queues are empty.
    pub fn check_end(&self, states: &[&Queues]) -> Result<(), Violation> {
        for (key, known) in &self.keys {
            let content = &self.contents[known.content].content;
            let words = || format!("message {} {key} of {}", known.content, self.queues[content.queue].name);
            let is_over = !known.has_receipt || self.end(*key, known) <= self.now;
            must(is_over, "what was taken is there until it has ended", words)?;
        }
        for queue in &self.queues {
            let Some(view) = states[usize::from(queue.shard)].view(&queue.name) else {
                must(queue.made_at.is_none(), "a queue that was made is there", || queue.name.to_string())?;
                continue;
            };
            if queue.was_deleted {
                continue;
            }
            let totals = view.totals;
            let covers = totals.sent >= queue.receipts
                && totals.leased >= queue.answered_deliveries
                && totals.acknowledged >= queue.answered_acknowledgements;
            must(covers, "what was answered is counted", || {
                let QueueKnown { receipts, answered_deliveries, answered_acknowledgements, .. } = queue;
                format!("{view:?}: {receipts}, {answered_deliveries}, {answered_acknowledgements} were answered")
            })?;
        }
        self.check_schedules(states)?;
        for state in states {
            let (counts, totals) = state.all();
            let live = counts.waiting + counts.scheduled + counts.leased;
            let is_whole = totals.sent == totals.acknowledged + totals.expired + totals.removed + live;
            must(is_whole, "messages are as many as were taken and have not ended", || {
                format!("{counts:?} {totals:?}")
            })?;
        }
        Ok(())
    }
}

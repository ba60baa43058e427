//! Queues on topics: what the broker asks of them, and what they answer.

use tidegate_broker::{RequestTicket, Rights};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;

use super::MqttPort;
use crate::json::{OverBound, Problem};
use crate::queue_topics::{QueueAnswer, Sent};

impl<L: LogStore> MqttPort<L> {
    /// A publication of somebody who may is to be sent to a queue. It counts as a request of theirs.
    pub(super) fn send_to_queue(&mut self, ticket: RequestTicket, rights: &dyn Rights, sent: Sent<'_>, now: TimeMs) {
        let identity = self.authenticator.identity(rights);
        if let Some(Err(exceeded)) = identity.as_ref().map(|identity| identity.arrive()) {
            let problem = Problem::from(exceeded);
            problem.over().into_iter().for_each(|OverBound(bound)| self.refused.quota.increment(bound));
            return self.queues.refuse_over_bound(ticket, &problem);
        }
        self.queues.send(ticket, identity.as_ref(), sent, now);
    }

    /// Tells the broker what the queues have answered. Whether there was anything.
    pub(super) fn receive_from_queues(&mut self, now: TimeMs) -> bool {
        let answers = self.queues.take_answers(now);
        let worked = !answers.is_empty();
        for answer in answers {
            match answer {
                QueueAnswer::Sent(ticket, answer, code) => {
                    code.into_iter().for_each(|code| self.refused.refusals.increment(code));
                    self.broker.send_answered(ticket, answer, now);
                }
                QueueAnswer::Found(key, filter, found) => self.broker.queue_found(key, &filter, found, now),
                QueueAnswer::HandedOut(receiver, deliveries) => self.broker.hand_out(receiver, deliveries, now),
            }
        }
        worked
    }
}

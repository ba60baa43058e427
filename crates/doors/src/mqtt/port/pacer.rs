//! Campaigns on topics: what the broker asks of them, and what they answer.

use tidegate_broker::{ReasonCode, RequestTicket, Rights};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;

use super::MqttPort;
use crate::json::{OverBound, codes};
use crate::pacer_topics::PacerAnswer;

impl<L: LogStore> MqttPort<L> {
    /// Something was published on one of the pacer's topics.
    pub(super) fn ask_pacer(
        &mut self,
        ticket: RequestTicket,
        topic: usize,
        rights: &dyn Rights,
        payload: &[u8],
        now: TimeMs,
    ) {
        if !self.pacer.has_room() {
            return self.broker.respond(ticket, None, ReasonCode::SERVER_BUSY, now);
        }
        self.latency.request(ticket);
        let identity = self.authenticator.identity(rights);
        if let Some(answer) = self.pacer.request(topic, ticket, identity.as_ref(), payload) {
            self.answer_of_pacer(&answer, now);
        }
    }

    /// Tells the broker what the shards of campaigns have answered. Whether there was anything.
    pub(super) fn receive_from_pacer(&mut self, now: TimeMs) -> bool {
        let answers = self.pacer.take_answers();
        answers.iter().for_each(|answer| self.answer_of_pacer(answer, now));
        !answers.is_empty()
    }

    fn answer_of_pacer(&mut self, answer: &PacerAnswer, now: TimeMs) {
        if let Err(problem) = &answer.answer {
            self.refused.refusals.increment(problem.code().name());
            if problem.code() == codes::TOO_MANY_REQUESTS
                && let Some(OverBound(bound)) = problem.over()
            {
                self.refused.quota.increment(bound);
            }
        }
        let (body, reason) = answer.said();
        self.latency.responded(answer.ticket);
        self.broker.respond(answer.ticket, Some(&body), reason, now);
    }
}

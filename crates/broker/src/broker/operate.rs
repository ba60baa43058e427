//! What operators ask: to see sessions and retained messages (`operator_scan.rs`), to disconnect clients, end sessions
//! and publish.
//!
//! ```text
//!   operate ─▶ waiting ─ some each step ─┬─ read, disconnect ─▶ answered at once
//!                                        ├─ list ─▶ scans ─ a slice each step ─▶ answered
//!                                        └─ publish, end a session ─▶ answered when it is durable
//! ```
//!
//! Why in steps: an operator's thousand messages to a million subscribers must not keep clients waiting longer than a
//! client's would.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Message, MessageMeta, NEVER_S};
use tidegate_wire::mqtt::{ReasonCode, Version};

use super::Broker;
use super::operator_scan::Scans;
use super::retain::RetainedMessage;
use crate::acknowledgements::{Completion, Word};
use crate::index::SessionIndex;
use crate::limits::{
    OPERATOR_CALLS_MAX, OPERATOR_CALLS_PER_STEP, OPERATOR_COPIES_PER_STEP, OPERATOR_FILTER_BYTES_MAX,
    OPERATOR_FILTERS_MAX,
};
use crate::message_ref::MessageRef;
use crate::operator::{ConnectionRow, Filters, OperatorAnswer, OperatorCall, OperatorTicket, SessionRow};
use crate::peer::Source;
use crate::reason::DISK_FULL;
use crate::retained::Retained;
use crate::session::Stage;
use crate::{Principal, subscriptions};

/// Calls of operators, and their answers.
#[derive(Default)]
pub(super) struct Operator {
    waiting: VecDeque<(OperatorTicket, OperatorCall)>,
    pub scans: Scans,
    /// Messages that are not with all who must keep them: whether anybody subscribes to them, or what they were refused
    /// with at once.
    publishing: HashMap<OperatorTicket, Result<bool, ReasonCode>>,
    answers: Vec<(OperatorTicket, OperatorAnswer)>,
}

impl Operator {
    pub fn answer(&mut self, ticket: OperatorTicket, answer: OperatorAnswer) {
        self.answers.push((ticket, answer));
    }

    /// All words about a message of an operator are there.
    pub fn published(&mut self, ticket: OperatorTicket, word: Word) {
        let routed = self.publishing.remove(&ticket).expect("what is published was noted");
        let answer = match (answer_of(word), routed) {
            (OperatorAnswer::Done, Ok(matched)) => OperatorAnswer::Published { matched },
            (OperatorAnswer::Done, Err(reason)) => OperatorAnswer::Refused(reason),
            (other, _) => other,
        };
        self.answer(ticket, answer);
    }

    /// Cursors over retained messages that are open.
    pub fn cursors(&self) -> usize {
        self.scans.cursors()
    }

    /// Panics if more waits than may.
    pub fn assert_sound(&self) {
        assert!(self.waiting.len() <= OPERATOR_CALLS_MAX, "calls of operators are bounded");
        self.scans.assert_sound();
    }
}

/// What an operator is answered when this was said of the record.
pub(super) fn answer_of(word: Word) -> OperatorAnswer {
    match word {
        Word::Durable => OperatorAnswer::Done,
        Word::Refused(reason) => OperatorAnswer::Refused(reason),
        Word::Unavailable(DISK_FULL) => OperatorAnswer::DiskFull,
        Word::Unavailable(_) | Word::Unknown => OperatorAnswer::Failed,
    }
}

impl<L: LogStore> Broker<L> {
    /// An operator asks something. The answer comes by [`Broker::take_operated`], in this step or a later one.
    pub fn operate(&mut self, ticket: OperatorTicket, call: OperatorCall) {
        if self.operator.waiting.len() >= OPERATOR_CALLS_MAX {
            return self.operator.answer(ticket, OperatorAnswer::Busy);
        }
        self.operator.waiting.push_back((ticket, call));
    }

    /// The answers to operators since the last call.
    pub fn take_operated(&mut self) -> Vec<(OperatorTicket, OperatorAnswer)> {
        std::mem::take(&mut self.operator.answers)
    }

    /// Does some of the calls, and a slice of a list. Whether there was anything.
    pub(super) fn step_operator(&mut self, now: TimeMs) -> bool {
        let mut worked = false;
        let copies = self.routing.steps;
        for _ in 0..OPERATOR_CALLS_PER_STEP {
            if self.routing.steps - copies >= OPERATOR_COPIES_PER_STEP {
                break;
            }
            let Some((ticket, call)) = self.operator.waiting.pop_front() else { break };
            worked = true;
            self.begin_call(ticket, call, now);
        }
        self.step_operator_scans(now) || worked
    }

    fn begin_call(&mut self, ticket: OperatorTicket, call: OperatorCall, now: TimeMs) {
        let answer = match call {
            OperatorCall::ListSessions(list) => return self.list_sessions(ticket, list),
            OperatorCall::ListRetained(list) => return self.list_retained(ticket, list),
            OperatorCall::Publish { message, expires_in_s, payer } => {
                let message = expires_in_s.map_or(message.clone(), |seconds| expiring(&message, seconds, now));
                return self.publish_for(ticket, &message, &payer, now);
            }
            OperatorCall::EndSession { client_id } => match self.end_session_of(ticket, &client_id, now) {
                Some(answer) => answer,
                None => return,
            },
            OperatorCall::Disconnect { client_id } => self.disconnect_client(&client_id, now),
            OperatorCall::ReadSession { client_id } => match self.clients.find_session(&client_id) {
                Some(place) => OperatorAnswer::Session(Box::new(self.session_row(place)), self.filters_of(place)),
                None => OperatorAnswer::NotFound,
            },
        };
        self.operator.answer(ticket, answer);
    }

    fn disconnect_client(&mut self, client_id: &str, now: TimeMs) -> OperatorAnswer {
        let place = self.clients.find_session(client_id);
        let Some(index) = place.and_then(|place| self.clients.connected(place)) else {
            return OperatorAnswer::NotFound;
        };
        self.disconnect(index, ReasonCode::ADMINISTRATIVE_ACTION, now);
        OperatorAnswer::Done
    }

    /// `None`: the answer comes when the record is durable.
    fn end_session_of(&mut self, ticket: OperatorTicket, client_id: &str, now: TimeMs) -> Option<OperatorAnswer> {
        let Some(place) = self.clients.find_session(client_id) else { return Some(OperatorAnswer::NotFound) };
        if self.clients.sessions[place].stage == Stage::Opening {
            // Its record is on the way to the disk, and its client waits for that.
            return Some(OperatorAnswer::Busy);
        }
        if let Some(index) = self.clients.sessions[place].connection {
            self.disconnect(index, ReasonCode::ADMINISTRATIVE_ACTION, now);
        }
        // One that does not outlive its connection has ended with that.
        let Some(place) = self.clients.find_session(client_id) else { return Some(OperatorAnswer::Done) };
        match self.operator_waits_for_ending(ticket, place, now) {
            Ok(true) => return None,
            Ok(false) => {}
            Err(answer) => return Some(answer),
        }
        let other = self.forget_ending(place);
        assert!(other.is_none(), "one operator at a time ends a session");
        (!self.end_session_for(Some(ticket), place, true, now)).then_some(OperatorAnswer::Done)
    }

    /// Publishes a message that nobody's session has published.
    fn publish_for(&mut self, ticket: OperatorTicket, message: &Arc<Message>, payer: &Principal, now: TimeMs) {
        if let Err(refused) = self.judge_of_operator(message) {
            return self.operator.answer(ticket, refused);
        }
        self.clients.facts.publish_received += 1;
        self.clients.facts.publish_bytes_received += message.payload().len() as u64;
        let payer = self.options.holdings.holder(payer);
        let (collected, ack_to) = self.acknowledgements.begin(Completion::Operator { ticket });
        let source = Source { ack_to: Some(ack_to), ..Source::default() };
        let routed = self.route(&mut MessageRef::of(message).paid_by(Some(payer), false), &source, now);
        self.operator.publishing.insert(ticket, routed.refused.map_or(Ok(routed.matched), Err));
        self.expect_words(collected, routed.awaited.words(), now);
    }

    /// What an operator's message is refused for. Its topic is valid.
    fn judge_of_operator(&self, message: &Message) -> Result<(), OperatorAnswer> {
        let (topic, feeds) = (message.topic(), &*self.options.feeds);
        let refused = |reason| Err(OperatorAnswer::Refused(reason));
        let is_of_feeds = !feeds.is_empty() && topic.starts_with(feeds);
        if self.intake.is_pressed {
            return Err(OperatorAnswer::Busy);
        }
        let is_of_service = self.request_topic(topic).is_some() || self.is_of_queues(topic);
        if topic.starts_with("$delayed/") || is_of_feeds || is_of_service {
            return refused(ReasonCode::TOPIC_NAME_INVALID);
        }
        if message.body_bytes() > self.options.limits.packet_bytes_max as usize {
            return refused(ReasonCode::PACKET_TOO_LARGE);
        }
        if message.retain() && !Retained::<RetainedMessage>::admits(topic) {
            return refused(ReasonCode::QUOTA_EXCEEDED);
        }
        Ok(())
    }

    /// A session as operators see it.
    pub(super) fn session_row(&self, place: SessionIndex) -> SessionRow {
        let session = &self.clients.sessions[place];
        let flow = session.flow.as_deref();
        let in_memory = flow.map_or((0, 0), |flow| (flow.backlog.len() as u64, flow.backlog.bytes() as u64));
        let kept = session.slot.map_or((0, 0), |slot| {
            let inbox = self.shards.state(session.shard).inbox(slot);
            (inbox.len() as u64, inbox.bytes())
        });
        let stored = session.slot.and_then(|slot| self.shards.state(session.shard).session(slot));
        SessionRow {
            client_id: (&*session.client_id).into(),
            owner: session.owner.as_ref().map(|owner| owner.principal().clone()),
            connection: self.clients.connected(place).map(|index| {
                let connection = &self.clients.connections[index];
                ConnectionRow {
                    key: self.clients.key(index),
                    since_s: connection.connected_at_s,
                    last_packet_s: connection.last_seen_s,
                    is_v5: connection.version == Version::V5,
                    keep_alive_s: connection.keep_alive_s,
                }
            }),
            is_durable: session.is_durable(),
            expiry_s: session.expiry_s,
            detached_at: stored.and_then(|stored| stored.detached_at()),
            subscriptions: session.subscriptions.as_slice().len() as u32,
            in_flight: flow.map_or(0, |flow| flow.window.in_flight()),
            inbox_messages: in_memory.0 + kept.0,
            inbox_bytes: in_memory.1 + kept.1,
        }
    }

    fn filters_of(&self, place: SessionIndex) -> Filters {
        let nodes = self.clients.sessions[place].subscriptions.as_slice();
        let owner: subscriptions::Owner = self.owner(place);
        let (mut shown, mut bytes) = (Filters::default(), 0);
        for node in nodes.iter().take(OPERATOR_FILTERS_MAX) {
            let filter = self.subscriptions.filter(*node);
            bytes += filter.len();
            if bytes > OPERATOR_FILTER_BYTES_MAX {
                break;
            }
            let entry = self.subscriptions.get(*node, owner).expect("a session's subscriptions are in the tree");
            shown.filters.push((filter.into(), entry.options.qos()));
        }
        shown.more = nodes.len() - shown.filters.len();
        shown.filters.sort_unstable();
        shown
    }
}

/// The same message, which is worth nothing after so many seconds.
fn expiring(message: &Message, seconds: u32, now: TimeMs) -> Arc<Message> {
    let expires_at = Some(TimeMs(now.0 + u64::from(seconds) * 1000));
    let meta = MessageMeta { expires_at, ..message.meta() };
    Arc::new(Message::new(message.topic(), message.properties(), message.payload(), meta))
}

const _: () = assert!(NEVER_S == u32::MAX, "a session without end says so in the same words");

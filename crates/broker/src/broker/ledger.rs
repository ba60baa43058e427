//! Where the ledger meets the topics: a transfer published on `$ledger/transfers`, and its outcome on the response topic.
//!
//! ```text
//!   PUBLISH $ledger/transfers, response topic ─▶ Action::AskLedger ─▶ (shell, ledger) ─▶ answer ─▶ PUBLISH to the same session, PUBACK
//! ```
//!
//! The outcome goes to the asker's own session only, if it subscribes to the response topic: so a client can make the server write
//! nowhere but to itself.

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::MessageMeta;
use tidegate_wire::mqtt::{Publish, QoS, ReasonCode};

use super::{Broker, Progress, Routed};
use crate::limits::{LEDGER_BODY_BYTES_MAX, LEDGER_QUESTIONS_MAX};
use crate::parcel::Parcel;
use crate::peer::{AskedBy, Source, Ticket};
use crate::session::SessionRef;
use crate::{Action, LedgerTicket};

/// Where transfers are published.
pub(super) const TRANSFERS_TOPIC: &str = "$ledger/transfers";

/// A question that is under way.
#[derive(Debug)]
pub(super) struct Question {
    session: SessionRef,
    asked_by: Option<AskedBy>,
    qos: u8,
    response_topic: Option<Box<str>>,
    /// The properties of the answer: the question's correlation data.
    properties: Box<[u8]>,
}

impl<L: LogStore> Broker<L> {
    pub(super) fn ask_ledger(&mut self, index: u32, place: u32, publish: &Publish<'_>, now: TimeMs) -> Progress {
        if self.questions.len() >= LEDGER_QUESTIONS_MAX || publish.payload.len() > LEDGER_BODY_BYTES_MAX {
            self.reply(index, place, publish, ReasonCode::QUOTA_EXCEEDED, Routed::default(), now);
            return Progress::Taken;
        }
        let source = self.source(place, publish);
        self.tickets += 1;
        let ticket = LedgerTicket(self.tickets);
        let question = Question {
            session: self.clients.session_ref(place),
            asked_by: source.asked_by,
            qos: publish.qos as u8,
            response_topic: publish.properties.response_topic.map(Into::into),
            properties: correlation(publish.properties.correlation_data),
        };
        self.questions.insert(ticket.0, question);
        let rights = self.rights.get(self.clients.connections[index].rights).clone();
        self.actions.push(Action::AskLedger { ticket, rights, payload: publish.payload.into() });
        let outstanding = u16::from(publish.qos != QoS::AtMostOnce);
        self.reply(index, place, publish, ReasonCode::SUCCESS, Routed { outstanding, workers: 0, matched: true }, now);
        Progress::Taken
    }

    /// The answer to [`Action::AskLedger`]: the JSON body, or why there is none.
    pub fn answer(&mut self, ticket: LedgerTicket, answer: Result<&[u8], ReasonCode>, now: TimeMs) {
        let Some(question) = self.questions.remove(&ticket.0) else { return };
        if let (Ok(body), Some(topic)) = (answer, &question.response_topic) {
            self.respond(&question, topic, body, now);
        }
        if let Some(AskedBy { ticket: asked @ Ticket::Answer { .. }, .. }) = question.asked_by {
            self.said(asked, answer.err().unwrap_or(ReasonCode::SUCCESS), now);
        }
    }

    fn respond(&mut self, question: &Question, topic: &str, body: &[u8], now: TimeMs) {
        let mut found = std::mem::take(&mut self.matches);
        self.trie.matches_of_worker(topic, self.options.worker as u8, &mut found);
        let own: Vec<_> = found
            .receivers(self.options.worker as u8)
            .iter()
            .filter(|entry| entry.session == question.session.index && entry.generation == question.session.generation)
            .copied()
            .collect();
        self.matches = found;
        let meta = MessageMeta { qos: question.qos, retain: false, expires_at: None };
        let mut parcel = Parcel::new(topic, &question.properties, body, meta);
        self.deliver_here(&mut parcel, &own, [].iter(), true, &Source::default(), now);
    }
}

/// Correlation data as an encoded property: identifier 0x09, binary data. `[MQTT-3.3.2-16]`
fn correlation(data: Option<&[u8]>) -> Box<[u8]> {
    let Some(data) = data else { return Box::default() };
    let length = data.len() as u16;
    [&[0x09][..], &length.to_be_bytes(), data].concat().into()
}

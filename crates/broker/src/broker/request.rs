//! Topics that a service answers: a request published on one of them, and its response on the response topic (MQTT 5,
//! section 4.10).
//!
//! ```text
//!   PUBLISH with response topic ─▶ Action::Request ─▶ (shell, service) ─▶ respond ─▶ PUBLISH to its sender, PUBACK
//! ```
//!
//! The response goes to the requester's own session only, if it subscribes to the response topic: so a client cannot
//! make the server publish to anyone else.
//!
//! Invariant: the options say which topics these are. Only the service knows what a request asks.

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_machines::topic::MessageMeta;
use tidegate_wire::mqtt::{Publish, QoS, ReasonCode};

use super::{Broker, Progress, Routed};
use crate::acknowledgements::{AckTo, Awaited, Ticket, Word};
use crate::index::{ConnectionIndex, SessionIndex};
use crate::limits::{REQUEST_BYTES_MAX, REQUESTS_MAX};
use crate::message_ref::MessageRef;
use crate::peer::Source;
use crate::session::SessionRef;
use crate::{Action, RequestTicket, RequestTopic};

/// A request in progress.
#[derive(Debug)]
pub(super) struct Request {
    session: SessionRef,
    ack_to: Option<AckTo>,
    qos: u8,
    response_topic: Option<Box<str>>,
    /// The properties of the response: the request's correlation data.
    properties: Box<[u8]>,
}

/// The requests in progress.
#[derive(Debug, Default)]
pub(super) struct Requests {
    all: HashMap<RequestTicket, Request>,
    /// Tickets that were given, one after the other.
    made: u64,
}

impl Requests {
    /// Requests that were ever made.
    pub fn made(&self) -> u64 {
        self.made
    }

    pub fn is_full(&self) -> bool {
        self.all.len() >= REQUESTS_MAX
    }

    fn add(&mut self, request: Request) -> RequestTicket {
        self.made += 1;
        let ticket = RequestTicket(self.made);
        let earlier = self.all.insert(ticket, request);
        assert!(earlier.is_none(), "{ticket:?} names one request");
        assert!(self.all.len() <= REQUESTS_MAX, "requests under way are bounded");
        ticket
    }

    /// The request that is answered, if it is still waited for.
    fn take(&mut self, ticket: RequestTicket) -> Option<Request> {
        assert!(ticket.0 <= self.made, "an answer is to a request that was made");
        self.all.remove(&ticket)
    }

    /// Panics if there are too many, or one that was never made.
    pub fn assert_sound(&self) {
        assert!(self.all.len() <= REQUESTS_MAX, "requests under way");
        assert!(self.all.keys().all(|ticket| ticket.0 <= self.made), "tickets are given one after the other");
    }
}

impl<L: LogStore> Broker<L> {
    /// Whether a service answers what is published there.
    pub(super) fn request_topic(&self, topic: &str) -> Option<RequestTopic> {
        let place = self.options.request_topics.iter().position(|known| **known == *topic)?;
        Some(RequestTopic(place as u16))
    }

    /// A publication on a request topic, by a client that may.
    pub(super) fn request(
        &mut self,
        index: ConnectionIndex,
        place: SessionIndex,
        topic: RequestTopic,
        publish: &Publish<'_>,
        now: TimeMs,
    ) -> Progress {
        if self.asked.requests.is_full() || publish.payload.len() > REQUEST_BYTES_MAX {
            self.reply(index, place, publish, ReasonCode::QUOTA_EXCEEDED, Routed::default(), now);
            return Progress::Taken;
        }
        let source = self.source(place, publish);
        let request = Request {
            session: self.clients.session_ref(place),
            ack_to: source.ack_to,
            qos: publish.qos as u8,
            response_topic: publish.properties.response_topic.map(Into::into),
            properties: correlation(publish.properties.correlation_data),
        };
        let ticket = self.asked.requests.add(request);
        let rights = self.rights_of(index).clone();
        self.asked.actions.push(Action::Request { ticket, topic, rights, payload: publish.payload.into() });
        let awaited = Awaited::of_service(publish.qos != QoS::AtMostOnce);
        self.reply(index, place, publish, ReasonCode::SUCCESS, Routed { awaited, matched: true, refused: None }, now);
        Progress::Taken
    }

    /// A send to a queue is under way: a request without a response.
    pub(super) fn add_send(&mut self, place: SessionIndex, ack_to: Option<AckTo>) -> RequestTicket {
        let session = self.clients.session_ref(place);
        let request = Request { session, ack_to, qos: 1, response_topic: None, properties: Box::default() };
        self.asked.requests.add(request)
    }

    /// The answer to [`Action::Request`]: the payload of the response, if there is one, and the reason of the
    /// acknowledgement.
    pub fn respond(&mut self, ticket: RequestTicket, response: Option<&[u8]>, reason: ReasonCode, now: TimeMs) {
        let Some(request) = self.asked.requests.take(ticket) else { return };
        if let (Some(payload), Some(topic)) = (response, &request.response_topic) {
            self.deliver_response(&request, topic, payload, now);
        }
        if let Some(AckTo { ticket: asked @ Ticket::Answer { .. }, .. }) = request.ack_to {
            self.take_ack(asked, Word::decided(reason), now);
        }
    }

    fn deliver_response(&mut self, request: &Request, topic: &str, payload: &[u8], now: TimeMs) {
        let mut found = std::mem::take(&mut self.routing.matches);
        self.subscriptions.matches_of_worker(topic, self.options.worker as u8, &mut found);
        self.routing.steps += found.visits() as u64;
        let own: Vec<_> = found
            .receivers(self.options.worker as u8)
            .iter()
            .filter(|entry| entry.session == request.session.index && entry.generation == request.session.generation)
            .copied()
            .collect();
        self.routing.matches = found;
        let meta = MessageMeta { qos: request.qos, retain: false, expires_at: None };
        let mut message_ref = MessageRef::new(topic, &request.properties, payload, meta);
        self.deliver_here(&mut message_ref, &own, [].iter(), true, &Source::default(), now);
    }
}

/// Correlation data as an encoded property: identifier 0x09, binary data.
/// `[MQTT-3.3.2-16]`: correlation data is forwarded unchanged.
fn correlation(data: Option<&[u8]>) -> Box<[u8]> {
    let Some(data) = data else { return Box::default() };
    let length = data.len() as u16;
    [&[0x09][..], &length.to_be_bytes(), data].concat().into()
}

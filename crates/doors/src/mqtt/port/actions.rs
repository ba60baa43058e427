//! Carries out the actions that the broker asks for.

use std::os::fd::AsRawFd;

use mio::unix::SourceFd;
use tidegate_broker::{
    Action, ConnectionKey, Denied, Notice, Noticed, ReasonCode, RequestTicket, RequestTopic, Rights,
    SubscriptionsDenied,
};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_runtime::{Address, Context};

use super::read::address_of;
use super::{CarriesMqtt, MqttPort};
use crate::admission::Arrival;
use crate::ledger_topics::REQUEST_TOPICS;
use crate::mqtt::settings::{Credentials, Verdict};
use crate::mqtt::sockets::{Flag, Socket};
use crate::queue_topics::Sent;
use crate::security::{self, SecurityEvent};
use crate::turns::CallerName;

/// What a client of the HTTP port shows as its listener.
pub(super) const WEBSOCKET: &str = "websocket";

impl<L: LogStore> MqttPort<L> {
    /// Does what the broker asks for.
    pub(super) fn act<P: CarriesMqtt>(&mut self, action: Action, context: &mut Context<'_, P>, now: TimeMs) {
        match action {
            Action::Authenticate { key, client_id, user_name, password } => {
                self.authenticate(key, client_id, user_name, password, now);
            }
            Action::HandOff { key, worker, bytes } => self.hand_off(key, worker, bytes, context),
            Action::Close { .. } => unreachable!("a turn closes"),
            Action::Request { ticket, topic, rights, payload } => {
                match usize::from(topic.0).checked_sub(REQUEST_TOPICS.len()) {
                    None => self.ask_ledger(ticket, topic, &*rights, &payload, now),
                    Some(of_pacer) => self.ask_pacer(ticket, of_pacer, &*rights, &payload, now),
                }
            }
            Action::FindPlace { key, filter, after, rights } => {
                self.feeds.find_place(key, self.authenticator.identity(&*rights), filter, after);
            }
            Action::Feed { feed, key, filter, after, rights } => {
                self.feeds.read(feed, key, self.authenticator.identity(&*rights), filter, after);
            }
            Action::FeedMore { feed } => self.feeds.more(feed),
            Action::FeedEnd { feed } => self.feeds.end(feed),
            Action::Confirm { key, condition } => self.confirm(key, condition, now),
            Action::Send { ticket, rights, topic, properties, expires_at, payload } => {
                let sent = Sent { topic: &topic, properties: &properties, expires_at, payload };
                self.send_to_queue(ticket, &*rights, sent, now);
            }
            Action::FindQueue { key, filter } => self.queues.find(key, filter),
            Action::Receive { receiver, client_id, filter } => self.queues.receive(receiver, &client_id, &filter),
            Action::ReceiveMore { receiver, max } => self.queues.receive_more(receiver, max, now),
            Action::Settle { receiver, number, reason } => self.queues.settle(receiver, number, reason, now),
            Action::ReceiveStop { receiver, unsent } => self.queues.stop(receiver, &unsent, now),
            Action::ReceiveEnd { receiver } => self.queues.end(receiver, now),
        }
    }

    /// The only rights with a condition: the account must be a collector.
    fn confirm(&mut self, key: ConnectionKey, account: Box<str>, now: TimeMs) {
        if !self.asker.has_room() {
            // The ledger could not answer. Denied is the safe assumption.
            return self.broker.confirm(key, &account, false, now);
        }
        let asker = &mut self.asker;
        let mut start = |token, request| asker.start(token, request);
        self.ledger.collector(key, account, &mut start);
    }

    fn authenticate(
        &mut self,
        key: ConnectionKey,
        client_id: Box<str>,
        user_name: Option<Box<str>>,
        password: Option<Box<[u8]>>,
        now: TimeMs,
    ) {
        let Some(socket) = self.sockets.get(key) else { return };
        self.latency.connect(key);
        let is_drained = self.operators.drains.refuse(socket);
        let drained = || is_drained.then_some(ReasonCode::USE_ANOTHER_SERVER);
        if let Some(reason) = socket.refusal().or_else(drained) {
            return self.broker.verdict(key, Err(Denied { reason }), now);
        }
        if !self.certificates.are_good(&self.settings, socket) {
            return self.broker.verdict(key, Err(Denied { reason: ReasonCode::NOT_AUTHORIZED }), now);
        }
        let listener = self.settings.listeners.get(usize::from(socket.listener.0));
        let websocket = || self.settings.websocket.as_ref().is_some_and(|door| door.anonymous);
        let address = address_of(socket);
        let credentials = Credentials {
            client_id,
            user_name,
            password,
            certificate: socket.stream.peer_certificates().and_then(|chain| chain.first()).cloned(),
            address,
            listener: listener.map_or(WEBSOCKET.into(), |listener| listener.name.clone()),
            // A proxy on this machine does not make its clients programs of this machine.
            anonymous_allowed: address.to_canonical().is_loopback()
                && listener.map_or_else(websocket, |listener| listener.anonymous),
        };
        if let Some(verdict) = self.authenticator.begin(credentials, self.verdicts.reply(key)) {
            self.verdicts.forget(key);
            self.decide(key, verdict, now);
        }
    }

    /// The verdict on a client. One that is admitted gives way to nobody from now on, and one that has a user shares
    /// the turn of that user.
    pub(super) fn decide(&mut self, key: ConnectionKey, verdict: Verdict, now: TimeMs) {
        if verdict.is_ok() {
            self.newcomers.leave(key);
        }
        if let Ok(admitted) = &verdict
            && let Some(name) = self.caller_name(&*admitted.rights)
            && let Some(socket) = self.sockets.get(key)
        {
            socket.caller = self.callers.of(&name);
        }
        self.broker.verdict(key, verdict, now);
    }

    /// Whose turn is that of clients with these rights; `None` for those of nobody.
    fn caller_name(&self, rights: &dyn Rights) -> Option<CallerName> {
        let identity = self.authenticator.identity(rights);
        let certified = || rights.user().map(|name| CallerName::Certificate(name.into()));
        identity.as_ref().map(CallerName::of_identity).or_else(certified)
    }

    /// Writes what the broker noticed into the security log.
    pub(super) fn tell_notices(&mut self) {
        let (notices, left_out) = self.broker.take_notices();
        for Notice { key, what, user, about } in notices {
            let Some(socket) = self.sockets.get(key) else { continue };
            let (event, detail) = match what {
                Noticed::TookOver => (SecurityEvent::TookOver, format!("client id {about}")),
                Noticed::ClientIdDenied => (SecurityEvent::Denied, format!("client id {about}")),
                Noticed::PublishDenied => (SecurityEvent::Denied, format!("publish to {about}")),
                Noticed::SubscribeDenied => (SecurityEvent::Denied, format!("subscribe to {about}")),
                Noticed::CameBackDenied(SubscriptionsDenied { denied, removed }) => {
                    let detail = format!(
                        "came back to a session with subscriptions that it may not have any more: {denied} denied, \
                         {removed} removed; client id {about}"
                    );
                    (SecurityEvent::RightsChanged, detail)
                }
            };
            let user = user.as_deref().unwrap_or_default();
            security::tell(event, "mqtt", address_of(socket), user, &detail);
        }
        security::count_left_out(SecurityEvent::Denied, left_out);
    }

    /// Sends a connection to the worker that has its session.
    fn hand_off<P: CarriesMqtt>(
        &mut self,
        key: ConnectionKey,
        worker: u16,
        bytes: Box<[u8]>,
        context: &mut Context<'_, P>,
    ) {
        let Some(mut socket) = self.sockets.remove(key) else { return };
        self.newcomers.leave(key);
        self.latency.forget(key);
        self.metrics.handed_off.increment();
        if socket.has(Flag::POLLED) {
            let fd = socket.stream.socket().as_raw_fd();
            self.poll().deregister(&mut SourceFd(&fd));
        }
        let (address, refusal) = (address_of(&mut socket), socket.refusal());
        let Socket { stream, listener, mark, .. } = socket;
        let arrival = Arrival { stream, address, listener, mark, refusal, bytes };
        context.send(Address::new(worker, self.me.member.0), P::pack(Box::new(arrival)));
    }

    fn ask_ledger(
        &mut self,
        ticket: RequestTicket,
        topic: RequestTopic,
        rights: &dyn Rights,
        payload: &[u8],
        now: TimeMs,
    ) {
        if !self.asker.has_room() {
            return self.broker.respond(ticket, None, ReasonCode::SERVER_BUSY, now);
        }
        self.latency.request(ticket);
        let identity = self.authenticator.identity(rights);
        let asker = &mut self.asker;
        let mut start = |token, request| asker.start(token, request);
        if let Some(answer) = self.ledger.request(topic, ticket, identity.as_ref(), payload, &mut start) {
            self.answer(answer, now);
        }
    }
}

//! The port as its broker sees it, for one turn.

use tidegate_broker::drive::{Driven, Shell};
use tidegate_broker::{Action, BrokerMessage, ConnectionKey};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_runtime::{Address, Context};

use super::{CarriesMqtt, MqttPort};
use crate::mqtt::feeds::FeedMail;
use crate::mqtt::sockets::Flag;

/// A port, and the worker's rings.
pub(super) struct PortShell<'p, 'c, L: LogStore, P> {
    pub port: &'p mut MqttPort<L>,
    pub context: &'p mut Context<'c, P>,
}

impl<L: LogStore, P: CarriesMqtt> PortShell<'_, '_, L, P> {
    /// The port of another worker.
    fn peer(&self, worker: u16) -> Address {
        Address::new(worker, self.port.me.member.0)
    }
}

impl<L: LogStore, P: CarriesMqtt> Shell<L> for PortShell<'_, '_, L, P> {
    fn driven(&mut self) -> &mut Driven<L> {
        &mut self.port.broker
    }

    fn take_messages(&mut self, _now: TimeMs) {
        self.port.take_parcels(self.context);
    }

    fn has_room(&mut self, worker: u16) -> bool {
        self.context.has_room(self.peer(worker).endpoint)
    }

    fn send(&mut self, worker: u16, message: BrokerMessage) {
        self.context.send(self.peer(worker), P::pack(message));
    }

    fn sent_messages(&mut self) {
        self.context.wake_receivers();
    }

    fn act(&mut self, action: Action, now: TimeMs) {
        self.port.act(action, self.context, now);
    }

    /// Verdicts, places and parts of feeds, what the ledger replied and announces, and what queues and campaigns
    /// answered.
    fn take_answers(&mut self, now: TimeMs) -> bool {
        let port = &mut *self.port;
        let mut worked = port.receive_from_ledger(now);
        worked |= port.receive_from_queues(now);
        worked |= port.receive_from_pacer(now);
        while let Some((key, verdict)) = port.verdicts.take() {
            worked = true;
            port.decide(key, verdict, now);
        }
        while let Some(mail) = port.feeds.take() {
            worked = true;
            match mail {
                FeedMail::Place(key, filter, found) => port.broker.placed(key, &filter, found, now),
                FeedMail::News(feed, topic, news) => port.broker.feed(feed, &topic, news, now),
            }
        }
        worked
    }

    fn ask(&mut self, _now: TimeMs) {
        self.port.answer_operators(self.context);
        self.port.line_up_unserved();
        self.port.tell_notices();
        self.port.asker.send(self.context);
        self.port.queues.send_to_shards(self.context);
        self.port.pacer.send(self.context);
    }

    fn write(&mut self, key: ConnectionKey, now: TimeMs) -> usize {
        self.port.write(key, now)
    }

    fn try_again(&mut self, key: ConnectionKey) {
        if let Some(socket) = self.port.sockets.get(key) {
            socket.set(Flag::BLOCKED, false);
        }
    }

    fn close(&mut self, key: ConnectionKey, _now: TimeMs) {
        self.port.close(key);
    }
}

//! Messages from other workers' brokers, and to them.

use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::split_filter;

use super::Broker;
use super::retain::RetainedMessage;
use crate::BrokerMessage;
use crate::peer::Item;
use crate::subscriptions::{Entry, Owner, Presence};

impl<L: LogStore> Broker<L> {
    /// Takes a message of another worker's broker. Messages of one broker must come in their order.
    pub fn deliver(&mut self, from: u16, message: BrokerMessage, now: TimeMs) {
        let BrokerMessage { items, receivers, picked } = message;
        assert!(from != self.options.worker && from < self.options.workers(), "another worker has said it");
        let (mut receivers, mut picked) = (&receivers[..], &picked[..]);
        for item in items {
            match item {
                Item::Publish { message, receivers: count, picked: picked_count, may_repeat, source } => {
                    let (of_item, others) = receivers.split_at(count as usize);
                    let (picked_of_item, picked_of_others) = picked.split_at(picked_count as usize);
                    (receivers, picked) = (others, picked_of_others);
                    self.publish_from_peer(&message, of_item, picked_of_item, may_repeat, &source, now);
                }
                Item::PassOn { passed } => self.take_passed(*passed, now),
                Item::Ack { ticket, word } => self.take_ack(ticket, word, now),
                Item::Retain { message, source, payer, has_place } => {
                    self.retain_for_peer(message, source, (payer, has_place), now);
                }
                Item::NotRetained { message, source } => self.retain_ends(&source, message.topic()),
                Item::Retained { message, picked, source } => self.set_retained(&message, &picked, source, now),
                Item::Delay { message, at, source, paid } => self.delay_here(message, at, &source, paid),
                Item::ForgetOrigin { origin, ack_to } => self.forget_origin_for_peer(origin, ack_to, now),
                Item::Names { names } => self.forget_names(&names),
                Item::ForgetOrigins { shard, incarnation } => self.forget_origins_here(shard, incarnation),
                Item::Subscribed { filter, entry } => self.add_entry(from, &filter, entry),
                Item::Unsubscribed { filter, owner, is_asked } => {
                    self.remove_entry(from, &filter, owner);
                    if is_asked {
                        self.peers.send_to(from, Item::HeardUnsubscribed { session: owner.session });
                    }
                }
                Item::HeardUnsubscribed { session } => self.routing.unsubscribed.heard(session),
                Item::Presence { filter, owner, presence } => self.set_presence(from, &filter, owner, presence),
                Item::Recovered { message } => {
                    self.retained.messages.set(message.topic(), RetainedMessage(Arc::clone(&message)));
                }
                Item::ReplicaComplete => self.peers.complete(from),
            }
        }
        assert!(receivers.is_empty() && picked.is_empty(), "each receiver belongs to a message");
        self.run_deferred_disconnects(now);
    }

    fn add_entry(&mut self, from: u16, filter: &str, entry: Entry) {
        assert!(u16::from(entry.worker) == from, "a worker tells of its own sessions");
        let parts = split_filter(filter);
        self.subscriptions.insert(parts.share_group, parts.filter, entry);
    }

    fn remove_entry(&mut self, from: u16, filter: &str, owner: Owner) {
        assert!(u16::from(owner.worker) == from, "a worker tells of its own sessions");
        let parts = split_filter(filter);
        let removed = self.subscriptions.remove(parts.share_group, parts.filter, owner);
        assert!(removed.is_some(), "what is removed was told before");
    }

    fn set_presence(&mut self, from: u16, filter: &str, owner: Owner, presence: Presence) {
        assert!(u16::from(owner.worker) == from, "a worker tells of its own sessions");
        let parts = split_filter(filter);
        let node = self.subscriptions.find(parts.share_group, parts.filter);
        let is_known = node.is_some_and(|node| self.subscriptions.set_presence(node, owner, presence));
        assert!(is_known, "a member that comes and goes was told of before");
    }

    /// All other workers.
    pub fn peers(&self) -> impl Iterator<Item = u16> + use<L> {
        self.peers.others()
    }

    /// The message to `worker` since the last call; call it only if the ring to it has room.
    pub fn take_batch(&mut self, worker: u16) -> Option<BrokerMessage> {
        assert!(worker < self.options.workers(), "a worker is one of all");
        self.peers.take(worker)
    }
}

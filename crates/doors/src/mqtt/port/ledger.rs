//! The ledger on topics: its replies, and what it announces.

use tidegate_journal::LogStore;
use tidegate_ledger::announcer::{Announcement, News};
use tidegate_ledger::message::Reply;
use tidegate_machines::{ShardIndex, TimeMs};

use super::MqttPort;
use crate::ledger_topics::LedgerAnswer;

impl<L: LogStore> MqttPort<L> {
    /// Tells the broker what the ledger replied, and what it announces.
    pub(super) fn receive_from_ledger(&mut self, now: TimeMs) -> bool {
        let mut worked = false;
        while self.asker.has_replies() {
            worked = true;
            for (token, reply) in self.asker.take_replies() {
                self.reply(token, reply, now);
            }
        }
        for (shard, announcement) in std::mem::take(&mut self.figures) {
            worked = true;
            self.announce(shard, announcement, now);
        }
        self.follow_subscriptions(now) || worked
    }

    /// Lets the shards announce what somebody subscribes to, and clears what nobody does any more.
    fn follow_subscriptions(&mut self, now: TimeMs) -> bool {
        for change in self.broker.take_watched() {
            self.ledger.watched(&change);
        }
        if !self.ledger.has_changes() {
            return false;
        }
        for topic in self.ledger.take_unwanted() {
            self.broker.announce(&topic, &[], true, now);
        }
        let asker = &mut self.asker;
        if asker.has_room() {
            self.ledger.tell_wants(&mut |token, request| asker.start(token, request));
        }
        true
    }

    /// A reply of the shards to a request of this port.
    fn reply(&mut self, token: u64, reply: Reply, now: TimeMs) {
        let asker = &mut self.asker;
        if let Some(answer) = self.ledger.reply(token, reply, &mut |token, request| asker.start(token, request)) {
            self.answer(answer, now);
        }
    }

    pub(super) fn answer(&mut self, answer: LedgerAnswer, now: TimeMs) {
        match answer {
            LedgerAnswer::Transfer { ticket, body, reason, over, refused } => {
                refused.into_iter().for_each(|code| self.refused.refusals.increment(code));
                over.into_iter().for_each(|bound| self.refused.quota.increment(bound));
                self.latency.responded(ticket);
                self.broker.respond(ticket, Some(&body), reason, now);
            }
            LedgerAnswer::Collector { key, account, is_collector } => {
                self.broker.confirm(key, &account, is_collector, now);
            }
        }
    }

    /// Figures of an account, to be announced on its topic.
    fn announce(&mut self, shard: ShardIndex, announcement: Announcement, now: TimeMs) {
        match self.ledger.announcement(shard, announcement) {
            Some((topic, payload, News::Changed)) => self.broker.announce(&topic, &payload, true, now),
            Some((topic, payload, News::Told)) => self.broker.answer_with_retained(&topic, &payload, now),
            None => {}
        }
    }
}

//! What a broker builds from its shards when it starts: sessions without connections, their subscriptions, the retained
//! messages. All of it is sent to the peers before anything else. A peer serves once it has received all of it.

use std::sync::Arc;

use tidegate_journal::LogStore;
use tidegate_machines::topic::{Command, Kept, Slot};

use super::Broker;
use super::owner::session_bytes;
use super::retain::{RetainedMessage, is_to_be_kept};
use crate::holdings::{PaidDelayed, Thing};
use crate::index::ShardPlace;
use crate::peer::Item;
use crate::session::{Session, SessionFlags, Stage};
use crate::shards::Wait;
use crate::subscriptions::EntryOptions;

impl<L: LogStore> Broker<L> {
    /// Makes sessions, subscriptions and retained messages of what the shards recovered, and tells the peers.
    pub(super) fn recover(&mut self) {
        for shard in self.shards.places() {
            let recovered: Vec<_> = self
                .shards
                .state(shard)
                .sessions()
                .map(|(slot, session)| {
                    (slot, session.client_id().to_owned(), session.expiry_s(), session.detached_at().is_none())
                })
                .collect();
            for (slot, client_id, expiry_s, was_attached) in recovered {
                self.recover_session(shard, slot, &client_id, expiry_s, was_attached);
            }
            let holdings = &self.options.holdings;
            for kept in self.shards.state(shard).all_delayed() {
                if let Some(owner) = &kept.owner {
                    let payer = holdings.holder(owner);
                    PaidDelayed::charge(&payer, self.retained.bytes_of_delayed(&kept.message, &payer)).keep();
                }
            }
            for Kept { message, owner } in self.shards.state(shard).all_retained() {
                if let Some(owner) = owner {
                    self.retained.was_paid(message, &holdings.holder(owner));
                }
                self.retained.messages.set(message.topic(), RetainedMessage(Arc::clone(message)));
                self.peers.broadcast(|| Item::Recovered { message: Arc::clone(message) });
            }
        }
        self.tell_names();
        self.peers.broadcast(|| Item::ReplicaComplete);
    }

    fn recover_session(&mut self, shard: ShardPlace, slot: Slot, client_id: &str, expiry_s: u32, was_attached: bool) {
        let state = self.shards.state(shard);
        let filters: Vec<(Box<str>, EntryOptions, u32)> = state
            .session(slot)
            .expect("it was just listed")
            .subscriptions()
            .iter()
            .map(|known| (known.filter.clone(), EntryOptions(known.options), known.subscription_id))
            .collect();
        // It is not known what was sent before the restart: every entry may have been.
        let next_number = state.inbox(slot).next_number();
        let known = state.session(slot).expect("it was just listed");
        let owner = known.owner().map(|principal| self.options.holdings.holder(principal));
        let paid_bytes = owner.as_ref().map_or(0, |owner| {
            let bytes = session_bytes(client_id, known.will());
            owner.charge(Thing::Session, 1, bytes.into()).keep();
            bytes
        });
        let will = known.will().filter(|will| is_to_be_kept(&will.message));
        let will_place = owner
            .as_ref()
            .zip(will)
            .map(|(owner, will)| owner.charge(Thing::Retained, 1, self.retained.bytes_of(&will.message, owner)));
        let mut session = Session {
            stage: Stage::Live,
            shard,
            slot: Some(slot),
            expiry_s,
            next_number,
            paid_bytes,
            owner,
            client_id: client_id.into(),
            ..Session::default()
        };
        session.flags.set(SessionFlags::DURABLE);
        session.flags.set(SessionFlags::RECOVERED);
        let place = self.clients.add_session(session);
        self.retained.set_will_place(place, will_place);
        self.set_session_at(shard, slot, place);
        self.settle_queue(shard, slot);
        for (filter, options, subscription_id) in filters {
            self.insert(place, &filter, options.without(EntryOptions::OWES_RETAINED), subscription_id);
        }
        if self.clients.sessions[place].flags.has(SessionFlags::SHARED) {
            self.passing.is_left(place, None);
        }
        if was_attached {
            let command = Command::DetachSession { slot, expiry_s, keep_will: true };
            self.shards.call(shard, command, Wait::Nothing);
        }
    }
}

//! Origins: what shards know a publication of QoS 2 by, so that each takes it once. They are forgotten when its packet
//! id may name another publication, or its session is over.

use tidegate_journal::LogStore;
use tidegate_machines::topic::{Command, Origin};
use tidegate_machines::{ShardIndex, TimeMs};

use super::Broker;
use crate::acknowledgements::{AckTo, Ticket, WorkerSet};
use crate::index::SessionIndex;
use crate::peer::{Item, Source};
use crate::shards::Wait;

impl<L: LogStore> Broker<L> {
    /// Makes all shards of all workers forget an origin, without an acknowledgement.
    pub(super) fn forget_origin_everywhere(&mut self, origin: Origin) {
        self.peers.broadcast(|| Item::ForgetOrigin { origin, ack_to: None });
        self.shards.call_all(|| Command::ForgetOrigin(origin), || Wait::Nothing);
    }

    /// What shards know a session's publication of QoS 2 by; `None` for a session that ends with its connection.
    pub(super) fn origin(&self, place: SessionIndex, packet_id: u16) -> Option<Origin> {
        let session = &self.clients.sessions[place];
        let state = self.shards.state(session.shard).session(session.slot?)?;
        Some(self.shards.origin(session.shard, state.incarnation(), packet_id))
    }

    /// Makes the shards of these workers forget one origin. Returns how many acknowledgements will come.
    pub(super) fn forget_origin(&mut self, place: SessionIndex, packet_id: u16, workers: WorkerSet) -> u16 {
        let Some(origin) = self.origin(place, packet_id).filter(|_| !workers.is_empty()) else { return 0 };
        let session = &self.clients.sessions[place];
        let serial = session.flow.as_ref().map_or(0, |flow| flow.answers.next_serial());
        let ticket = Ticket::Answer { session: self.clients.session_ref(place), serial };
        let ack_to = AckTo { worker: self.options.worker, ticket };
        let mut remaining = 0;
        for worker in self.peers.others() {
            if workers.has(worker) {
                self.peers.send_to(worker, Item::ForgetOrigin { origin, ack_to: Some(ack_to) });
                remaining += 1;
            }
        }
        if workers.has(self.options.worker) {
            remaining += self.shards.call_all(|| Command::ForgetOrigin(origin), || Wait::Ack { ack_to });
        }
        let asked = self.shards.len() + usize::from(self.options.workers());
        assert!(usize::from(remaining) < asked, "each other worker and each shard here says one word");
        remaining
    }

    /// Another worker's publication is over.
    pub(super) fn forget_origin_for_peer(&mut self, origin: Origin, ack_to: Option<AckTo>, now: TimeMs) {
        let gathered = self.gather(&Source { ack_to, ..Source::default() }, &[]);
        let wait = || gathered.source.ack_to.map_or(Wait::Nothing, |ack_to| Wait::Ack { ack_to });
        let shards = self.shards.call_all(|| Command::ForgetOrigin(origin), wait);
        self.expect(&gathered, shards, now);
    }

    /// Makes all shards of all workers forget what a session published.
    pub(super) fn forget_origins(&mut self, shard: ShardIndex, incarnation: u64) {
        self.peers.broadcast(|| Item::ForgetOrigins { shard, incarnation });
        self.forget_origins_here(shard, incarnation);
    }

    pub(super) fn forget_origins_here(&mut self, shard: ShardIndex, incarnation: u64) {
        self.shards.call_all(|| Command::ForgetOrigins { shard: shard.0, incarnation }, || Wait::Nothing);
    }
}

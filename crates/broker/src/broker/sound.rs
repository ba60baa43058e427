//! Consistency check of a broker: what must hold between its tables, whatever clients sent.
//!
//! What one step changes is asserted where it changes. This visits everything, so it is for tests and simulation.

use tidegate_journal::LogStore;
use tidegate_wire::mqtt::{Split, split};

use super::Broker;
use crate::ConnectionKey;
use crate::connection::{ConnectionState, Flags, ParkedFor};
use crate::session::Stage;

impl<L: LogStore> Broker<L> {
    /// Panics, saying what disagrees. Between two calls from the shell it must hold; its cost grows with all that the
    /// broker keeps.
    pub fn assert_sound(&self) {
        self.clients.assert_sound();
        self.subscriptions.assert_sound();
        self.operator.assert_sound();
        self.retained.assert_sound(self.operator.cursors());
        self.intake.assert_sound();
        self.routing.assert_sound();
        self.timing.delayed.assert_sound();
        self.timing.wills.assert_sound();
        self.asked.requests.assert_sound();
        self.acknowledgements.assert_sound();
        self.peers.assert_sound();
        let connections = || self.clients.connections.in_use().map(|index| &self.clients.connections[index]);
        self.clients.rights.assert_sound(connections().filter_map(|connection| connection.rights));
        self.assert_subscriptions_sound();
        self.assert_places_sound();
        self.assert_stalled_sound();
        self.assert_parked_sound();
        self.assert_feeds_sound();
        self.assert_receivers_sound();
        self.assert_shares_sound();
    }

    /// Each subscription of a session is in the tree, and the tree has no others of this worker.
    fn assert_subscriptions_sound(&self) {
        let mut subscriptions = 0;
        for place in self.clients.sessions.in_use() {
            let session = &self.clients.sessions[place];
            for node in session.subscriptions.as_slice() {
                let entry = self.subscriptions.get(*node, self.owner(place));
                let generation = entry.map(|entry| entry.generation);
                assert_eq!(generation, Some(session.generation), "the entry of session {place} at {node:?}");
                subscriptions += 1;
            }
        }
        assert_eq!(subscriptions, self.clients.facts.subscriptions, "subscriptions of sessions");
        assert_eq!(
            self.subscriptions.entries_of(self.options.worker as u8) as u64,
            subscriptions,
            "entries of this worker"
        );
    }

    /// Slots and sessions point to each other.
    fn assert_places_sound(&self) {
        for place in self.clients.sessions.in_use() {
            let session = &self.clients.sessions[place];
            assert!(!session.is_durable() || usize::from(session.shard.0) < self.shards.len(), "the shard of {place}");
            if let Some(slot) = session.slot {
                let inbox = self.shards.state(session.shard).inbox(slot);
                let is_quiet = self.is_idle() && self.shards[session.shard].failure().is_none();
                let is_settled = self.clients.queued(place) == (inbox.len() as u64, inbox.memory_bytes());
                assert!(is_settled || session.owner.is_none() || !is_quiet, "what waits for {place} is paid for");
                assert_eq!(self.session_at(session.shard, slot), Some(place), "the session at {slot:?}");
            }
        }
    }

    /// What a packet waits for is under way, and somebody knows who waits for it.
    fn assert_parked_sound(&self) {
        let (mut for_earlier, mut for_will, mut for_end, mut for_retained) = (0, 0, 0, 0);
        for index in self.clients.connections.in_use() {
            let connection = &self.clients.connections[index];
            let answers = connection.extra.as_ref().and_then(|extra| extra.filter_answers.as_ref());
            let for_records = connection.parked() == ParkedFor::FilterRecords;
            assert!(
                !for_records || answers.is_some_and(|answers| answers.remaining > 0),
                "{index} waits for no record"
            );
            let stage = connection.session.map(|session| self.clients.sessions[session].stage);
            let for_session = connection.parked() == ParkedFor::SessionRecord;
            assert!(!for_session || stage == Some(Stage::Opening), "{index} waits for a session, {stage:?}");
            for_earlier += usize::from(connection.parked() == ParkedFor::EarlierConnection);
            for_will += usize::from(connection.parked() == ParkedFor::SentWill);
            for_end += usize::from(connection.parked() == ParkedFor::PassedMessages);
            for_retained += usize::from(connection.parked() == ParkedFor::RetainedMessage);
        }
        let parked = |reason: ParkedFor| {
            move |key: &ConnectionKey| {
                let index = self.clients.index(*key);
                index.is_some_and(|index| self.clients.connections[index].parked() == reason)
            }
        };
        let earlier = self.intake.waiting_connects().filter(parked(ParkedFor::EarlierConnection));
        assert_eq!(earlier.count(), for_earlier, "connections that wait for an earlier one");
        let comers = self.timing.wills.comers().filter(parked(ParkedFor::SentWill));
        assert_eq!(comers.count(), for_will, "connections that wait for a will");
        let comers = self.endings.comers().filter(parked(ParkedFor::PassedMessages));
        assert_eq!(comers.count(), for_end, "connections that wait for the end of a session");
        let retained = self.retained.order.waiting().filter(parked(ParkedFor::RetainedMessage));
        assert_eq!(retained.count(), for_retained, "connections that wait for a retained message");
    }

    /// Whoever is marked as stalled stands in the list, once. A whole packet in an input waits for something: for an
    /// answer that resumes its connection, or for a step.
    fn assert_stalled_sound(&self) {
        let times = self.intake.stalled();
        for index in self.clients.connections.in_use() {
            let is_marked = self.clients.connections[index].flags.has(Flags::STALLED);
            let listed = times.get(&self.clients.key(index)).copied().unwrap_or(0);
            assert_eq!(listed, usize::from(is_marked), "connection {index} among the stalled");
            let connection = &self.clients.connections[index];
            let is_whole = matches!(split(self.clients.input(index), u32::MAX), Ok(Split::Packet(_)));
            let is_resumed = is_marked
                || connection.is_parked()
                || connection.flags.has(Flags::UNSERVED)
                || connection.state == ConnectionState::Authenticating;
            assert!(!is_whole || is_resumed, "nothing resumes connection {index}, which has a packet in its input");
        }
    }
}

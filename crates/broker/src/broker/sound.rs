//! Consistency check of a broker: what must hold between its tables, whatever clients sent.
//!
//! What one step changes is asserted where it changes. This visits everything, so it is for tests and simulation.

use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_wire::mqtt::{Split, split};

use super::Broker;
use crate::ConnectionKey;
use crate::connection::{ConnectionState, Flags};
use crate::limits::{REQUESTS_MAX, VOLATILE_DELAYED_MAX};

impl<L: LogStore> Broker<L> {
    /// Panics, saying what disagrees. Between two calls from the shell it must hold; its cost grows with all that the
    /// broker keeps.
    pub fn assert_sound(&self) {
        self.clients.assert_sound();
        self.trie.assert_sound();
        self.retained.assert_sound(self.scans.len());
        self.scans.assert_sound();
        self.pending_acks.assert_sound();
        self.peers.assert_sound();
        let connections = || self.clients.connections.in_use().map(|index| &self.clients.connections[index]);
        self.rights.assert_sound(connections().filter_map(|connection| connection.rights));
        self.assert_subscriptions_sound();
        self.assert_places_sound();
        self.assert_stalled_sound();
        self.assert_feeds_sound();
        assert!(self.requests.len() <= REQUESTS_MAX, "requests under way");
        assert!(self.requests.keys().all(|ticket| *ticket <= self.tickets), "tickets are given one after the other");
        assert!(self.delayed.len() <= VOLATILE_DELAYED_MAX, "messages of QoS 0 that are delayed");
        assert!(self.deferred_disconnects.is_empty(), "whoever is late is disconnected before the shell goes on");
        assert!(self.durable.is_empty() && self.refused.is_empty(), "no message is half delivered");
    }

    /// Each subscription of a session is in the tree, and the tree has no others of this worker.
    fn assert_subscriptions_sound(&self) {
        let mut subscriptions = 0;
        for place in self.clients.sessions.in_use() {
            let session = &self.clients.sessions[place];
            for node in session.subscriptions.as_slice() {
                let entry = self.trie.get(*node, self.owner(place));
                let generation = entry.map(|entry| entry.generation);
                assert_eq!(generation, Some(session.generation), "the entry of session {place} at {node:?}");
                subscriptions += 1;
            }
        }
        assert_eq!(subscriptions, self.clients.facts.subscriptions, "subscriptions of sessions");
        assert_eq!(self.trie.entries_of(self.options.worker as u8) as u64, subscriptions, "entries of this worker");
    }

    /// Slots and sessions point to each other.
    fn assert_places_sound(&self) {
        for place in self.clients.sessions.in_use() {
            let session = &self.clients.sessions[place];
            assert!(!session.is_durable() || usize::from(session.shard.0) < self.shards.len(), "the shard of {place}");
            if let Some(slot) = session.slot {
                assert_eq!(self.session_at(session.shard, slot), Some(place), "the session at {slot:?}");
            }
        }
    }

    /// Whoever is marked as stalled stands in the list, once. A whole packet in an input waits for something: for an
    /// answer that resumes its connection, or for a step.
    fn assert_stalled_sound(&self) {
        let mut times: HashMap<ConnectionKey, usize> = HashMap::new();
        self.stalled.iter().for_each(|key| *times.entry(*key).or_default() += 1);
        for index in self.clients.connections.in_use() {
            let is_marked = self.clients.connections[index].flags.has(Flags::STALLED);
            let listed = times.get(&self.clients.key(index)).copied().unwrap_or(0);
            assert_eq!(listed, usize::from(is_marked), "connection {index} among the stalled");
            let connection = &self.clients.connections[index];
            let is_whole = matches!(split(self.clients.input(index), u32::MAX), Ok(Split::Packet(_)));
            let is_resumed = is_marked
                || connection.flags.has(Flags::PARKED)
                || connection.flags.has(Flags::UNSERVED)
                || connection.state == ConnectionState::Authenticating;
            assert!(!is_whole || is_resumed, "nothing resumes connection {index}, which has a packet in its input");
        }
    }
}

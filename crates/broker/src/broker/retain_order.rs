//! Keeps a message from overtaking a retained one that was published before it.
//!
//! A retained message travels through the worker of its topic and through its journal. The next message of the same
//! client on the same topic does not, and would arrive first. So it waits at its connection until the retained one has
//! come back to this worker.
//! `[MQTT-4.6.0-5]`: messages of one client on an ordered topic are delivered in order.
//!
//! Why per topic: a device that publishes its state (retained) and events (not retained) in turn would otherwise wait
//! for the disk with each event.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tidegate_journal::LogStore;
use tidegate_wire::mqtt::Publish;

use super::Broker;
use crate::ConnectionKey;
use crate::connection::ParkedFor;
use crate::index::ConnectionIndex;
use crate::peer::Source;
use crate::session::SessionRef;

/// Retained messages of this worker's sessions that are still on their way, by session and hash of the topic. If two
/// topics have one hash, only their own publisher waits longer than needed.
#[derive(Debug, Default)]
pub(super) struct RetainsInFlight {
    all: HashMap<(SessionRef, u64), InFlight, FixedState>,
}

#[derive(Debug, Default)]
struct InFlight {
    count: u32,
    /// The session's connection, if its next message waits.
    waiting: Option<ConnectionKey>,
}

impl RetainsInFlight {
    fn key(source: &Source, topic: &str) -> Option<(SessionRef, u64)> {
        source.publisher.map(|publisher| (publisher.session, hash(topic)))
    }
}

impl RetainsInFlight {
    /// Connections whose next message waits for a retained one; some of them may be gone.
    pub fn waiting(&self) -> impl Iterator<Item = ConnectionKey> {
        self.all.values().filter_map(|in_flight| in_flight.waiting)
    }
}

impl<L: LogStore> Broker<L> {
    /// A session's retained message sets out.
    pub(super) fn retain_begins(&mut self, source: &Source, topic: &str) {
        let is_ours = source.publisher.is_some_and(|publisher| publisher.worker == self.options.worker);
        if let Some(key) = RetainsInFlight::key(source, topic).filter(|_| is_ours) {
            self.retained.order.all.entry(key).or_default().count += 1;
        }
    }

    /// A retained message has come by, or will not: if it was one of ours, what waits for it may go on, in the next
    /// step.
    pub(super) fn retain_ends(&mut self, source: &Source, topic: &str) {
        if source.publisher.is_none_or(|publisher| publisher.worker != self.options.worker) {
            return;
        }
        let Some(key) = RetainsInFlight::key(source, topic) else { return };
        let Some(in_flight) = self.retained.order.all.get_mut(&key) else { return };
        assert!(in_flight.count > 0, "what comes by has set out");
        in_flight.count -= 1;
        if in_flight.count > 0 {
            return;
        }
        let waiting = self.retained.order.all.remove(&key).and_then(|in_flight| in_flight.waiting);
        let Some(index) = waiting.and_then(|key| self.clients.index(key)) else { return };
        let key = self.clients.key(index);
        let connection = &mut self.clients.connections[index];
        if connection.unpark(ParkedFor::RetainedMessage) {
            self.intake.stall(connection, key);
        }
    }

    /// Makes a PUBLISH that is not retained wait, if it would overtake. Whether it must.
    pub(super) fn waits_for_retain(&mut self, index: ConnectionIndex, publish: &Publish<'_>) -> bool {
        if publish.retain || self.retained.order.all.is_empty() {
            return false;
        }
        let place = self.clients.session_of(index);
        let connection = &self.clients.connections[index];
        let topic = match publish.properties.topic_alias {
            Some(alias) if publish.topic.is_empty() => {
                let aliases = connection.extra.as_ref().map_or(&[][..], |extra| &extra.aliases_in[..]);
                aliases.get(usize::from(alias).wrapping_sub(1)).map_or("", |topic| topic)
            }
            _ => publish.topic,
        };
        let session = self.clients.session_ref(place);
        let key = self.clients.key(index);
        let Some(in_flight) = self.retained.order.all.get_mut(&(session, hash(topic))) else { return false };
        in_flight.waiting = Some(key);
        self.clients.connections[index].park(ParkedFor::RetainedMessage);
        true
    }
}

fn hash(topic: &str) -> u64 {
    FixedState::default().hash_one(topic)
}

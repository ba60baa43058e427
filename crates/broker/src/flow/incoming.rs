//! A client's QoS 2 publications between their PUBLISH and their PUBREL, by packet id.
//! `[MQTT-4.3.3-10]`: QoS 2: the same packet id again is answered with PUBREC and not delivered twice.
//!
//! Promise: finding, adding and removing one takes constant time, however many of the 65,535 ids are open.

#[cfg(test)]
mod tests;

use hashbrown::HashMap;

use crate::acknowledgements::WorkerSet;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incoming {
    pub stage: IncomingStage,
    /// Workers whose shards may remember its origin.
    pub workers: WorkerSet,
    /// Serial number of the answer that it waits for, if it does.
    pub serial: u32,
    /// Whether its client has sent it over the connection there is, so that it counts against Receive Maximum.
    is_counted: bool,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncomingStage {
    /// A receiver's record of it is not durable yet; PUBREC waits.
    Pending,
    /// A shard failed, so nobody knows whether its record is durable, and no PUBREC is sent. It is kept, because clean
    /// sessions may have the message already: sent again to this process, it must not be delivered again.
    Unknown,
    /// PUBREC was sent.
    Received,
    /// PUBREL came; the shards are forgetting its origin.
    Released,
}

/// All of a session.
#[derive(Debug, Default)]
pub(crate) struct AllIncoming {
    by_packet_id: HashMap<u16, Incoming>,
    /// Those that count against Receive Maximum.
    counted: usize,
}

impl Incoming {
    /// One that its client has just sent.
    pub fn new(stage: IncomingStage, workers: WorkerSet, serial: u32) -> Incoming {
        Incoming { stage, workers, serial, is_counted: true }
    }
}

impl AllIncoming {
    pub fn len(&self) -> usize {
        self.by_packet_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_packet_id.is_empty()
    }

    /// How many count against the Receive Maximum of the connection there is.
    pub fn counted(&self) -> usize {
        self.counted
    }

    pub fn get(&self, packet_id: u16) -> Option<&Incoming> {
        self.by_packet_id.get(&packet_id)
    }

    pub fn get_mut(&mut self, packet_id: u16) -> Option<&mut Incoming> {
        self.by_packet_id.get_mut(&packet_id)
    }

    pub fn add(&mut self, packet_id: u16, incoming: Incoming) {
        self.counted += usize::from(incoming.is_counted);
        let earlier = self.by_packet_id.insert(packet_id, incoming);
        assert!(earlier.is_none(), "packet id {packet_id} names one publication");
    }

    pub fn remove(&mut self, packet_id: u16) {
        let removed = self.by_packet_id.remove(&packet_id);
        self.counted -= usize::from(removed.is_some_and(|incoming| incoming.is_counted));
        // A burst leaves no memory behind.
        if self.is_empty() && self.by_packet_id.capacity() > 64 {
            self.by_packet_id = HashMap::new();
        }
    }

    /// Its client has sent it again, over another connection than before: there it counts.
    pub fn count(&mut self, packet_id: u16) {
        if let Some(incoming) = self.by_packet_id.get_mut(&packet_id) {
            self.counted += usize::from(!std::mem::replace(&mut incoming.is_counted, true));
        }
    }

    /// The connection is gone. The next one begins with nothing that counts (MQTT 5, 4.9).
    pub fn count_none(&mut self) {
        self.by_packet_id.values_mut().for_each(|incoming| incoming.is_counted = false);
        self.counted = 0;
    }

    /// Panics if the count is wrong. Visits everything: for tests and simulation.
    pub fn assert_sound(&self) {
        let counted = self.by_packet_id.values().filter(|incoming| incoming.is_counted);
        assert_eq!(counted.count(), self.counted, "publications that count against Receive Maximum");
    }
}

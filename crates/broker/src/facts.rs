//! The counts of all workers, readable by all: for `$SYS`, for `/metrics`, and for the backpressure on publishers.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One worker's counts, as plain numbers. Also the sum of several.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct BrokerFacts { $($(#[$doc])* pub $name: u64,)* }

        /// One worker's counts where others can read them. On cache lines of its own.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        struct WorkerFacts { $($name: AtomicU64,)* pressure_bytes: AtomicU64 }

        impl WorkerFacts {
            fn publish(&self, facts: &BrokerFacts) { $(self.$name.store(facts.$name, Ordering::Relaxed);)* }
            fn add_to(&self, sum: &mut BrokerFacts) { $(sum.$name += self.$name.load(Ordering::Relaxed);)* }
        }
    };
}

facts! {
    /// Clients connected now.
    clients_connected,
    /// Sessions now, with and without a connection.
    sessions,
    /// Durable sessions now.
    sessions_durable,
    /// Connections that ever sent a CONNECT which was accepted.
    connects,
    /// CONNECTs refused.
    connects_refused,
    /// CONNECTs refused because the session of their client id is another's, or because the id is not for them.
    connects_of_others,
    /// Sessions refused because their owner, or all, have too many.
    sessions_refused,
    /// Subscriptions refused because their owner, or all, have too many.
    filters_refused,
    /// Subscriptions refused because of a shape that is not common, of which their owner, or all, have too many.
    shapes_refused,
    /// Retained messages refused because their owner, or all, have too many.
    retained_refused,
    /// Delayed messages refused because their owner, or all, have too many.
    delayed_refused,
    /// Messages not kept for sessions without a connection, because their owner, or all, have too many waiting.
    queued_refused,
    /// Connections closed because their owner, or all, have too many bytes of packets without the rest.
    unread_refused,
    /// Sessions that ended by their expiry.
    sessions_expired,
    /// Subscriptions of sessions that live here.
    subscriptions,
    /// Feeds of connected sessions that a source behind the broker is read for.
    feeds,
    /// Subscriptions of connected sessions that receive from queues behind the broker.
    receivers,
    /// Wills that were sent and found no room on the disk: they are sent again.
    wills_waiting,
    /// Retained messages (the same on each worker: not a sum).
    retained,
    /// Packets received.
    messages_received,
    /// Packets sent.
    messages_sent,
    /// PUBLISH packets received.
    publish_received,
    /// PUBLISH packets sent.
    publish_sent,
    /// Bytes of payload received in PUBLISH.
    publish_bytes_received,
    /// Bytes of payload sent in PUBLISH.
    publish_bytes_sent,
    /// Bytes received from clients.
    bytes_received,
    /// Bytes for clients.
    bytes_sent,
    /// QoS 0 messages dropped because the receiver's outbox was full.
    dropped_outbox,
    /// Messages that a full inbox did not take.
    dropped_inbox,
    /// Those of them that would have been refused, had their clients taken anything for a while.
    dropped_stalled,
    /// Messages that left a full inbox to make room for others.
    evicted_inbox,
    /// Messages dropped because they expired before they were delivered.
    dropped_expired,
    /// Messages dropped because they waited for as long as an inbox allows.
    dropped_aged,
    /// Messages dropped because the client's Maximum Packet Size is smaller, or refused because they are too large.
    dropped_too_large,
    /// Publications refused because the client had no right, or acknowledged and dropped for MQTT 3.1.1.
    dropped_unauthorized,
    /// Copies for a subscriber that may not read their topic: kept back where its filter covers more than it may read,
    /// where its rights have changed, or where they waited and their subscription was removed.
    withheld,
    /// Subscriptions that a reload denied: they stand, and nothing of them is delivered.
    subscriptions_denied,
    /// Denied subscriptions that a later reload allowed again.
    subscriptions_given_back,
    /// Subscriptions of share groups and to streams that were removed because their client has no right to them any
    /// more.
    subscriptions_removed,
    /// Publications on a topic that is none, such as one under `$delayed` without a delay, or that cannot be sent to a
    /// queue, because they are of QoS 0 or to be retained.
    dropped_invalid,
    /// QoS 0 messages for sessions whose client was not connected: nothing of them is kept.
    dropped_offline,
    /// Messages that waited for a session when it ended.
    dropped_ended,
    /// QoS 0 messages under `$delayed` for which there was no room in memory.
    dropped_delayed,
    /// Messages that found no room on the disk and are not sent again: QoS 0 that is retained, and wills that their
    /// owner cannot pay for until there is room.
    dropped_disk_full,
    /// Records of messages that found no room on the disk, and whose publisher was told so.
    refused_disk_full,
    /// Records of messages that a full inbox refused, whose publisher was told so.
    refused_inbox,
    /// Records of messages that are too large to be kept, whose publisher was told so.
    refused_too_large,
    /// Bytes for clients that were never sent, because their connections ended.
    unsent_bytes,
    /// Messages that wait in durable inboxes.
    store_messages,
    /// Bytes that wait in durable inboxes and retained messages.
    store_bytes,
    /// Bytes that wait in memory for clients: in outboxes, and in inboxes of clean sessions.
    waiting_bytes,
    /// Connections closed for silence.
    keep_alive_timeouts,
    /// Connections closed because what their clients had shown was good no longer.
    expired_closed,
    /// Connections closed because their clients' certificates were revoked, or their authority is trusted no longer.
    revoked_closed,
    /// Connections taken over by another of the same client id.
    take_overs,
    /// Messages that waited for a member of a share group and were given to another.
    shares_passed_on,
    /// Members of share groups that took nothing for so long that they counted as away.
    shares_stalled,
    /// Connections closed because they did not take what was theirs.
    slow_closed,
    /// Connections closed because they broke the protocol.
    protocol_errors,
}

impl BrokerFacts {
    /// Messages that were lost to a receiver or not kept, by reason. What a publisher was told is none of them.
    pub fn losses(&self) -> [(&'static str, u64); 12] {
        [
            ("outbox_full", self.dropped_outbox),
            ("inbox_full", self.dropped_inbox),
            ("evicted", self.evicted_inbox),
            ("expired", self.dropped_expired),
            ("aged", self.dropped_aged),
            ("too_large", self.dropped_too_large),
            ("not_authorized", self.dropped_unauthorized),
            ("invalid", self.dropped_invalid),
            ("offline", self.dropped_offline),
            ("session_ended", self.dropped_ended),
            ("delayed_full", self.dropped_delayed),
            ("disk_full", self.dropped_disk_full),
        ]
    }
}

/// The counts of all workers.
#[derive(Debug)]
pub struct SharedFacts {
    workers: Box<[WorkerFacts]>,
}

impl SharedFacts {
    /// For so many workers.
    pub fn new(workers: u16) -> SharedFacts {
        assert!(workers > 0, "somebody counts");
        SharedFacts { workers: (0..workers).map(|_| WorkerFacts::default()).collect() }
    }

    /// The sum over all workers.
    pub fn sum(&self) -> BrokerFacts {
        let mut sum = BrokerFacts::default();
        for worker in &self.workers {
            worker.add_to(&mut sum);
        }
        sum.retained = self.workers.first().map_or(0, |first| first.retained.load(Ordering::Relaxed));
        sum
    }

    /// The greatest pressure of a worker: bytes in outboxes that flow.
    pub fn pressure_bytes(&self) -> u64 {
        self.workers.iter().map(|worker| worker.pressure_bytes.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    pub(crate) fn publish(&self, worker: u16, facts: &BrokerFacts, pressure_bytes: u64) {
        assert!(facts.sessions_durable <= facts.sessions, "durable sessions are sessions");
        let own = &self.workers[worker as usize];
        own.publish(facts);
        own.pressure_bytes.store(pressure_bytes, Ordering::Relaxed);
    }
}

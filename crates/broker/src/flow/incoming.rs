//! A client's QoS 2 publication between its PUBLISH and its PUBREL.
//! `[MQTT-4.3.3-10]`: QoS 2: the same packet id again is answered with PUBREC and not delivered twice.

use crate::acknowledgements::WorkerSet;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incoming {
    pub packet_id: u16,
    pub stage: IncomingStage,
    /// Workers whose shards may remember its origin.
    pub workers: WorkerSet,
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

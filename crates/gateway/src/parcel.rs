//! What threads send each other through the rings.

use tidegate_broker::BrokerMessage;
use tidegate_ledger::operation::Message;

use crate::admission::Arrival;

/// One thing on its way from thread to thread. All kinds share a ring, so that they arrive in the order in which they were sent.
pub enum Parcel {
    /// Between ledger shards and those who ask them.
    Shard(Message),
    /// Between the brokers of two workers.
    Topics(BrokerMessage),
    /// An MQTT connection, for the worker that shall serve it.
    Connection(Box<Arrival>),
}

impl From<Message> for Parcel {
    fn from(message: Message) -> Parcel {
        Parcel::Shard(message)
    }
}

impl From<Box<Arrival>> for Parcel {
    fn from(arrival: Box<Arrival>) -> Parcel {
        Parcel::Connection(arrival)
    }
}

impl From<BrokerMessage> for Parcel {
    fn from(message: BrokerMessage) -> Parcel {
        Parcel::Topics(message)
    }
}

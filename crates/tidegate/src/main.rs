//! The server with its own rooms: the ledger, MQTT, HTTP, the binary port.

use std::process::ExitCode;

use tidegate_broker::BrokerMessage;
use tidegate_doors::admission::Arrival;
use tidegate_ledger::operation::Message;
use tidegate_runtime::parcels;

parcels! {
    /// What threads send each other. All kinds share a ring, so that they arrive in the order in which they were sent.
    enum Parcel { Ledger(Message), Topics(BrokerMessage), Connection(Box<Arrival>) }
}

fn main() -> ExitCode {
    tidegate::run::<Parcel>(&[])
}

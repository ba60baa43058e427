//! Tidegate with counters: the same commands and flags as `tidegate`.

use std::process::ExitCode;

use counter::{CounterExtension, CounterService};
use tidegate_broker::BrokerMessage;
use tidegate_doors::admission::Arrival;
use tidegate_ledger::operation::Message;
use tidegate_runtime::direct::Direct;
use tidegate_runtime::parcels;

parcels! {
    /// What threads send each other: the messages of the server's rooms, and those of counters.
    enum Parcel {
        Ledger(Message),
        Topics(BrokerMessage),
        Connection(Box<Arrival>),
        Counter(Direct<CounterService>),
    }
}

fn main() -> ExitCode {
    tidegate::run::<Parcel>(&[&CounterExtension])
}

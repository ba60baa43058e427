//! The server with its own rooms: the ledger, MQTT, HTTP, the binary port.

use std::process::ExitCode;

tidegate::parcels! {
    /// What threads send each other. All kinds share a ring, so that they arrive in the order in which they were sent.
    enum Parcel {}
}

fn main() -> ExitCode {
    tidegate::run::<Parcel>(&[])
}

//! Tidegate with counters: the same commands and flags as `tidegate`.

use std::process::ExitCode;

use counter::{CounterExtension, CounterService};
use tidegate_runtime::direct::Direct;

tidegate::parcels! {
    /// What threads send each other: the messages of the server's rooms, and those of counters.
    enum Parcel { Counter(Direct<CounterService>) }
}

fn main() -> ExitCode {
    tidegate::run::<Parcel>(&[&CounterExtension])
}

//! `tidegate-sim`: simulates seed after seed until stopped, or the ones it is told.

use std::process::ExitCode;

use tidegate_sim::gateway::Gateway;
use tidegate_sim::harness::cli::{Entry, main as run};
use tidegate_sim::ledger::Ledger;
use tidegate_sim::links;
use tidegate_sim::queue::QueueClients;

fn main() -> ExitCode {
    let links = Entry::new(links::NAME, links::run_on);
    run(&[Entry::of::<Ledger>(), Entry::of::<Gateway>(), Entry::of::<QueueClients>(), links])
}

//! From node to node to node.

use super::{Bench, QUEUE, RECEIVED_AT_ONCE, RECEIVERS, SENDERS, all_done};
use crate::load;
use crate::report::Report;
use crate::tidegate::queue::{Receives, Sends};
use crate::tidegate::server::{Configuration, Tidegate};
use anyhow::Result;

/// Messages sent to the first of three nodes, and received from the third. The time is that of whoever ends last.
pub fn three_hops(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let last = bench.server()?;
    let linked = |to: &Tidegate| Configuration::Linked { queue: QUEUE, to: to.binary() };
    let middle = bench.start("middle", linked(&last))?;
    let first = bench.start("first", linked(&middle))?;
    // Each node remembers the ids of what came over a link, a million of them.
    let messages = (bench.settings.messages / 8).min(900_000);
    let sender = std::thread::spawn({
        let (address, mut load) = (first.binary(), Sends::new(QUEUE, messages, 1, bench.settings.bytes));
        move || load::run(address, SENDERS, &mut load)
    });
    let received = load::run(last.binary(), RECEIVERS, &mut Receives::new(QUEUE, messages, RECEIVED_AT_ONCE))?;
    all_done(&sender.join().expect("the sender does not panic")?, messages)?;
    all_done(&received, messages)?;
    report.add("three_hops_per_s", received.per_second());
    Ok(())
}

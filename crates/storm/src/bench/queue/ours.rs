//! The cases that peers have, too, over our binary port.

use super::{Bench, LOCKSTEP, QUEUE, RECEIVED_AT_ONCE, RECEIVERS, SENDERS, all_done, latencies};
use crate::load;
use crate::process;
use crate::report::Report;
use crate::tidegate::queue::{Paced, Receives, Sends};
use anyhow::Result;

pub fn sends(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let tidegate = bench.server()?;
    let mut load = Sends::new(QUEUE, bench.settings.messages, 1, bench.settings.bytes);
    let (before, of_load) = (tidegate.processor_time()?, process::own_processor_time()?);
    let tally = load::run(tidegate.binary(), SENDERS, &mut load)?;
    let per_message = |used: std::time::Duration| used.as_nanos() as f64 / bench.settings.messages as f64;
    all_done(&tally, bench.settings.messages)?;
    report.add("sends_per_s", tally.per_second());
    latencies(report, "sends", &tally);
    report.add("sends_server_cpu_ns", per_message(tidegate.processor_time()? - before));
    report.add("sends_client_cpu_ns", per_message(process::own_processor_time()? - of_load));
    report.add("sends_rss_bytes", tidegate.resident_bytes()? as f64);
    Ok(())
}

pub fn lockstep(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let tidegate = bench.server()?;
    let messages = bench.settings.messages / 16;
    let tally = load::run(tidegate.binary(), LOCKSTEP, &mut Sends::new(QUEUE, messages, 1, bench.settings.bytes))?;
    all_done(&tally, messages)?;
    report.add("lockstep_sends_per_s", tally.per_second());
    latencies(report, "lockstep", &tally);
    Ok(())
}

/// Senders and receivers at once. The time is that of whoever ends last.
pub fn end_to_end(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let tidegate = bench.server()?;
    let messages = bench.settings.messages / 2;
    let address = tidegate.binary();
    let sender = std::thread::spawn({
        let mut load = Sends::new(QUEUE, messages, 1, bench.settings.bytes);
        move || load::run(address, SENDERS, &mut load)
    });
    let received = load::run(address, RECEIVERS, &mut Receives::new(QUEUE, messages, RECEIVED_AT_ONCE))?;
    let sent = sender.join().expect("the sender does not panic")?;
    all_done(&sent, messages)?;
    all_done(&received, messages)?;
    let per_s = received.per_second().min(sent.per_second());
    report.add("end_to_end_per_s", per_s);
    // How late they come when half as many are sent, each at its time.
    let messages = messages / 2;
    let paced = Paced::open(address, QUEUE, bench.settings.bytes)?;
    let sender = std::thread::spawn(move || paced.send(messages, per_s / 2.0));
    let mut receives = Receives::new(QUEUE, messages, RECEIVED_AT_ONCE);
    all_done(&load::run(address, RECEIVERS, &mut receives)?, messages)?;
    sender.join().expect("the sender does not panic")?;
    report.add("end_to_end_latency_p50_ms", receives.late_ms(0.5));
    report.add("end_to_end_latency_p99_ms", receives.late_ms(0.99));
    Ok(())
}

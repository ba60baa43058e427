//! A restart with very many messages.

use super::{Bench, FILLERS, LOCKSTEP, QUEUE, all_done};
use crate::load;
use crate::report::Report;
use crate::tidegate::queue::{Paced, Sends, waiting};
use anyhow::{Result, ensure};

/// A server is killed while messages wait and others come, and started again.
pub fn kill(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    const SENDS_PER_S: f64 = 5_000.0;
    let tidegate = bench.server()?;
    let filled = bench.settings.killed;
    all_done(
        &load::run(tidegate.binary(), FILLERS, &mut Sends::new(QUEUE, filled, 64, bench.settings.bytes))?,
        filled,
    )?;
    // More than it lives to take.
    let sent = 100 * SENDS_PER_S as u64;
    let paced = Paced::open(tidegate.binary(), QUEUE, bench.settings.bytes)?;
    let sender = std::thread::spawn(move || paced.send(sent, SENDS_PER_S));
    std::thread::sleep(std::time::Duration::from_secs(3));
    let (tidegate, took) = tidegate.restart(|_| Ok(()))?;
    let began = std::time::Instant::now();
    let taken = sender.join().expect("the sender does not panic")?;
    let mut one = Sends::new(QUEUE, 1, 1, bench.settings.bytes);
    all_done(&load::run(tidegate.binary(), LOCKSTEP, &mut one)?, 1)?;
    report.add("serving_again_s", (took + began.elapsed()).as_secs_f64());
    // All is there as soon as it serves.
    let there = waiting(tidegate.http(), QUEUE)?;
    ensure!(there > filled + taken, "{filled} and {taken} messages were taken before the kill, and {there} are there");
    report.add("all_recovered_s", (took + began.elapsed()).as_secs_f64());
    report.add("restarted_rss_bytes", tidegate.resident_bytes()? as f64);
    Ok(())
}

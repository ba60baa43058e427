//! Messages that wait: what they cost in memory and on the disk, how fast they are received, and when they come.

use super::{Bench, FILLERS, QUEUE, RECEIVED_AT_ONCE, RECEIVERS, SENDERS, all_done};
use crate::load;
use crate::report::Report;
use crate::tidegate::queue::{Receives, Sends};
use anyhow::Result;

/// What the disk gets for each byte of bodies that were sent, left memory, and were received.
pub fn written(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let tidegate = bench.server()?;
    let messages = bench.settings.messages / 4;
    let before = tidegate.written_bytes()?;
    all_done(&load::run(tidegate.binary(), FILLERS, &mut Sends::new(QUEUE, messages, 64, 1_024))?, messages)?;
    let mut receives = Receives::new(QUEUE, messages, RECEIVED_AT_ONCE);
    all_done(&load::run(tidegate.binary(), RECEIVERS, &mut receives)?, messages)?;
    report.add("bytes_written_per_byte", (tidegate.written_bytes()? - before) as f64 / (messages * 1_024) as f64);
    Ok(())
}

/// Messages for the times of a year take memory; those of the next seconds come when they are due.
pub fn scheduled(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    const YEAR_MS: u64 = 365 * 24 * 3_600_000;
    let tidegate = bench.server()?;
    let far = bench.settings.backlog;
    // None is due before the bench is over.
    let mut load = Sends::new(QUEUE, far, 64, bench.settings.bytes).ahead(3_600_000..YEAR_MS);
    let filled = load::run(tidegate.binary(), FILLERS, &mut load)?;
    all_done(&filled, far)?;
    report.add("scheduled_filled_per_s", filled.per_second());
    report.add("scheduled_rss_bytes", tidegate.resident_bytes()? as f64);
    let near = bench.settings.messages / 80;
    let mut load = Sends::new(QUEUE, near, 1, bench.settings.bytes).ahead(2_000..12_000);
    all_done(&load::run(tidegate.binary(), SENDERS, &mut load)?, near)?;
    let mut receives = Receives::new(QUEUE, near, RECEIVED_AT_ONCE);
    all_done(&load::run(tidegate.binary(), RECEIVERS, &mut receives)?, near)?;
    report.add("due_lateness_p50_ms", receives.late_ms(0.5));
    report.add("due_lateness_p99_ms", receives.late_ms(0.99));
    Ok(())
}

/// The same receivers with a backlog that memory has, and with one that it has not.
pub fn backlog(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let small = bench.settings.messages / 16;
    let short = receive_backlog(bench, small)?.0;
    let (long, resident, filled) = receive_backlog(bench, bench.settings.backlog)?;
    report.add("backlog_filled_per_s", filled);
    report.add("backlog_rss_bytes", resident);
    report.add("backlog_receives_per_s", long);
    report.add("backlog_receive_ratio", long / short);
    Ok(())
}

/// How fast a backlog of so many messages is received, what memory it takes, and how fast it came.
fn receive_backlog(bench: &Bench<'_>, messages: u64) -> Result<(f64, f64, f64)> {
    let tidegate = bench.server()?;
    let filled = load::run(tidegate.binary(), FILLERS, &mut Sends::new(QUEUE, messages, 64, 1_024))?;
    all_done(&filled, messages)?;
    let resident = tidegate.resident_bytes()? as f64;
    // What is received is a part: what is behind it stays a backlog.
    let part = messages.min(bench.settings.messages / 16);
    let received = load::run(tidegate.binary(), RECEIVERS, &mut Receives::new(QUEUE, part, RECEIVED_AT_ONCE))?;
    all_done(&received, part)?;
    Ok((received.per_second(), resident, filled.per_second()))
}

//! `storm bench-accounts`: opens accounts in batches, the first half over the binary port, the rest over HTTP; then
//! what an account costs in memory once the auditor has compared all, and how long a restart takes.

use super::stall;
use super::subject::Subject;
use crate::load::{self, Pressure, Tally};
use crate::process;
use crate::report::Report;
use crate::tidegate::opening::{BinaryOpenings, HttpOpenings, Openings};
use crate::tidegate::server::{Configuration, SNAPSHOT_INTERVAL_S, Tidegate};
use crate::tidegate::session::Session;
use anyhow::{Result, ensure};
use std::path::Path;
use std::time::{Duration, Instant};
use tidegate_wire::limits::TRANSFERS_MAX;

/// A batch for each connection is on its way while another is decided.
const BINARY: Pressure = Pressure { connections: 2, in_flight: 2 };
/// The same number of batches: a connection of HTTP/1.1 has one request served at a time.
const HTTP: Pressure = Pressure { connections: 4, in_flight: 1 };
/// For what the server does on a schedule of its own.
const SERVER_ACTS_MAX: Duration = Duration::from_secs(300);

/// Between a snapshot and the manifest of ids that goes with it, at most.
const COVER_TIME: Duration = Duration::from_secs(2);

/// What to measure and how.
#[derive(clap::Args)]
pub struct Settings {
    /// The server that is measured, and where files go.
    #[command(flatten)]
    pub subject: Subject,
    /// Runs; the median is reported.
    #[arg(long, env = "RUNS", default_value_t = 1)]
    pub runs: u32,
    /// Accounts to open.
    #[arg(long, env = "ACCOUNTS", default_value_t = 10_000_000)]
    pub accounts: u32,
    /// Ledger shards of the server.
    #[arg(long, default_value_t = 2)]
    pub shards: u16,
}

/// Runs and reports.
pub fn run(settings: &Settings) -> Result<()> {
    let out = settings.subject.out()?;
    let mut report = Report::default();
    for run in 1..=settings.runs {
        eprintln!("run {run} of {}", settings.runs);
        one(settings, &out, &mut report)?;
    }
    settings.subject.publish("accounts", &[settings.subject.version()?], &report)
}

fn one(settings: &Settings, out: &Path, report: &mut Report) -> Result<()> {
    let configuration = Configuration::Ledger { shards: settings.shards, snapshot_interval_s: SNAPSHOT_INTERVAL_S };
    let tidegate = settings.subject.start(&out.join("tidegate"), configuration)?;
    stall::let_turns_pass();
    let empty = tidegate.resident_bytes()?;

    let half = settings.accounts / 2;
    let mut binary = BinaryOpenings(Openings::new(0..half));
    let mut http = HttpOpenings::new(Openings::new(half..settings.accounts));
    let cpu = || anyhow::Ok((tidegate.processor_time()?, process::own_processor_time()?));
    let begun = cpu()?;
    let (by_binary, binary_stall) = stall::watched(&tidegate, || load::run(tidegate.binary(), BINARY, &mut binary))?;
    let halfway = cpu()?;
    let (by_http, http_stall) = stall::watched(&tidegate, || load::run(tidegate.http(), HTTP, &mut http))?;
    let ended = cpu()?;
    all_opened(&by_binary, half)?;
    all_opened(&by_http, settings.accounts - half)?;
    report.add("open_accounts_per_s", by_binary.per_second().min(by_http.per_second()));
    for (door, tally, before, after) in [("binary", &by_binary, begun, halfway), ("http", &by_http, halfway, ended)] {
        let nanoseconds = |time: Duration| time.as_nanos() as f64 / tally.outcomes().total() as f64;
        report.add(&format!("open_{door}_accounts_per_s"), tally.per_second());
        report.add(&format!("open_{door}_first_million_per_s"), tally.first_million_per_second());
        report.add(&format!("open_{door}_last_million_per_s"), tally.last_million_per_second());
        report.add(&format!("open_{door}_latency_p99_ms"), tally.latency_ms(0.99));
        report.add(&format!("open_{door}_server_cpu_ns"), nanoseconds(after.0 - before.0));
        report.add(&format!("open_{door}_client_cpu_ns"), nanoseconds(after.1 - before.1));
    }
    let stall = binary_stall.max(http_stall);
    report.add("open_stall_max_ms", stall.turn_max_ms);
    report.add("open_turn_cpu_max_ms", stall.turn_cpu_max_ms);
    report.add("open_wait_max_ms", stall.wait_max_ms);

    wait_for_the_auditor(&tidegate, settings.accounts)?;
    report
        .add("account_bytes", (tidegate.resident_bytes()?.saturating_sub(empty)) as f64 / f64::from(settings.accounts));
    wait_for("snapshots of all accounts", || Ok(newest_sequences(&tidegate.data())? >= u64::from(settings.accounts)))?;
    report.add("accounts_rss_bytes", tidegate.resident_bytes()? as f64);
    // The ids are covered just behind a snapshot.
    std::thread::sleep(COVER_TIME);

    let (tidegate, time) = tidegate.restart(|_| Ok(()))?;
    report.add("restart_accounts_s", time.as_secs_f64());
    if settings.accounts >= 10_000_000 {
        report.add("restart_10m_accounts_s", time.as_secs_f64());
    }
    // All are there: to open them again is to open none.
    let last = settings.accounts.saturating_sub(TRANSFERS_MAX as u32)..settings.accounts;
    for numbers in [0..(TRANSFERS_MAX as u32).min(settings.accounts), last] {
        let count = numbers.len() as u64;
        let again = load::run(tidegate.binary(), BINARY, &mut BinaryOpenings(Openings::new(numbers)))?;
        ensure!(again.outcomes().duplicate == count, "after the restart: {}", again.outcomes());
    }
    Ok(())
}

fn all_opened(tally: &Tally, accounts: u32) -> Result<()> {
    ensure!(tally.outcomes().applied == u64::from(accounts), "not all were opened: {}", tally.outcomes());
    Ok(())
}

/// Waits until it has compared all accounts of all shards, and found no difference.
fn wait_for_the_auditor(tidegate: &Tidegate, accounts: u32) -> Result<()> {
    wait_for("an audit of all accounts", || {
        let shards = Session::open(tidegate.binary())?.audit()?;
        for shard in &shards {
            ensure!(shard.damage.is_empty() && shard.differences.is_empty(), "the auditor found: {shard:?}");
        }
        Ok(shards.iter().map(|shard| shard.accounts_compared).sum::<u64>() >= u64::from(accounts))
    })
}

/// The sum over all shards of the sequence of the newest snapshot, which its file's name has.
fn newest_sequences(data: &Path) -> Result<u64> {
    let mut sum = 0;
    let Ok(shards) = std::fs::read_dir(data.join("snapshots")) else { return Ok(0) };
    for shard in shards {
        let shard = shard?;
        if !shard.file_name().to_string_lossy().starts_with("ledger-") {
            continue;
        }
        let mut newest = 0;
        for file in std::fs::read_dir(shard.path())? {
            let name = file?.file_name().to_string_lossy().into_owned();
            let sequence = name.strip_prefix("snapshot-").and_then(|rest| rest.strip_suffix(".tgs"));
            newest = newest.max(sequence.and_then(|digits| digits.parse().ok()).unwrap_or(0));
        }
        sum += newest;
    }
    Ok(sum)
}

fn wait_for(what: &str, mut happened: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !happened()? {
        ensure!(started.elapsed() < SERVER_ACTS_MAX, "{what} did not come within {SERVER_ACTS_MAX:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

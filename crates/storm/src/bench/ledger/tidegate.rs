//! Each case of Tidegate: a fresh server, accounts with enough funds, the load, then a check that every transfer was
//! applied.

use super::Settings;
use super::beside::{self, Beside};
use super::peers::all_applied;
use crate::load::{self, Pressure, Tally};
use crate::process;
use crate::report::Report;
use crate::tidegate::binary::Transfers;
use crate::tidegate::holds::HoldPairs;
use crate::tidegate::http::Votes;
use crate::tidegate::server::{Configuration, SNAPSHOT_INTERVAL_S, Tidegate};
use crate::tidegate::session::{Session, Sums, sums};
use crate::workload::{Names, Pattern, Workload};
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tidegate_wire::limits::TRANSFERS_MAX;

const BATCHED: Pressure = Pressure { connections: 2, in_flight: 1 };
const SINGLE: Pressure = Pressure { connections: 64, in_flight: 16 };
const LOCKSTEP: Pressure = Pressure { connections: 32, in_flight: 1 };
const HTTP: Pressure = Pressure { connections: 64, in_flight: 1 };

/// For what the server does on a schedule of its own.
const SERVER_ACTS_MAX: Duration = Duration::from_secs(120);

/// Ids of the funding, of the load, and of each tick of the slow ledger must differ.
const FUNDING_SERIES: u32 = 1;
const LOAD_SERIES: u32 = 2;
const SLOW_SERIES: u32 = 1_000;

/// A slow ledger gets so many transfers each tick, one after the other.
const SLOW_TRANSFERS_PER_TICK: u64 = 10;
const SLOW_TICK: Duration = Duration::from_millis(200);
/// Time in which it gets them: half a minute, fifteen snapshots.
const SLOW_TICKS: u32 = 150;
/// Seconds between its snapshots.
pub const SLOW_SNAPSHOT_INTERVAL_S: u64 = 2;

/// A server with open and funded accounts, and what one run of a case needs.
pub struct Bench<'a> {
    settings: &'a Settings,
    names: &'a Names,
    tidegate: Tidegate,
}

impl<'a> Bench<'a> {
    /// Starts from nothing in `out`.
    pub fn new(settings: &'a Settings, names: &'a Names, out: &Path) -> Result<Bench<'a>> {
        Bench::with_snapshots(settings, names, out, SNAPSHOT_INTERVAL_S)
    }

    /// The same with a snapshot each so many seconds.
    pub fn with_snapshots(
        settings: &'a Settings,
        names: &'a Names,
        out: &Path,
        snapshot_interval_s: u64,
    ) -> Result<Bench<'a>> {
        let configuration = Configuration::Ledger { shards: settings.shards, snapshot_interval_s };
        let tidegate = settings.subject.start(&out.join("tidegate"), configuration)?;
        Session::open(tidegate.binary())?.open_accounts(names)?;
        let funding = Workload::new(Pattern::Funding, names.wallets(), u64::from(names.wallets()), FUNDING_SERIES);
        let mut funding = Transfers::new(names, funding, TRANSFERS_MAX);
        let tally = load::run(tidegate.binary(), Pressure { connections: 1, in_flight: 1 }, &mut funding)?;
        all_applied(tally.outcomes(), u64::from(names.wallets()))?;
        Ok(Bench { settings, names, tidegate })
    }

    /// 8,190 transfers a request; memory; then restarts with and without snapshot.
    pub fn batched(self, report: &mut Report) -> Result<()> {
        let before = self.sums()?;
        let transfers = self.settings.transfers;
        let mut load = Transfers::new(self.names, self.work(Pattern::Uniform, transfers), TRANSFERS_MAX);
        let mut resident = Vec::new();
        let watch = |answered| {
            resident.push((answered as f64 / 1e6, self.tidegate.resident_bytes()? as f64));
            Ok(())
        };
        let pressure = self.pressure(BATCHED);
        let tally =
            self.measured(report, "batched", || load::run_watched(self.tidegate.binary(), pressure, &mut load, watch))?;
        let after = self.verify(before, load.paid(), transfers, &tally)?;

        let (first, last) = (tally.first_million_per_second(), tally.last_million_per_second());
        report.add("batched_transfers_per_s", tally.per_second());
        report.add("batched_first_million_per_s", first);
        report.add("batched_last_million_per_s", last);
        report.add("batched_last_to_first_ratio", last / first);
        report.add("last_million_to_first_ratio", last / first);
        latencies(report, "batched", &tally);
        report.add("rss_bytes", self.tidegate.resident_bytes()? as f64);
        if resident.len() >= 4 {
            report.add("rss_slope_bytes_per_million", slope(&resident[resident.len() / 2..]));
        }
        self.restarts(after, transfers, report)
    }

    /// 8,190 transfers a request, among so many wallets that most are not in any cache.
    pub fn million(self, report: &mut Report) -> Result<()> {
        let transfers = self.settings.transfers;
        let tally =
            self.transfers(report, "batched_1m_accounts", Pattern::Uniform, transfers, TRANSFERS_MAX, BATCHED)?;
        report.add("batched_1m_accounts_transfers_per_s", tally.per_second());
        Ok(())
    }

    fn restarts(mut self, expected: Sums, transfers: u64, report: &mut Report) -> Result<()> {
        let shards = usize::from(self.settings.shards);
        let every_shard_has_one = || snapshots(&self.tidegate.data()).is_ok_and(|found| found.len() >= shards);
        wait_for("a snapshot of every shard", every_shard_has_one)?;
        let (tidegate, time) = self.tidegate.restart(|_| Ok(()))?;
        self.tidegate = tidegate;
        report.add("restart_from_snapshot_s", time.as_secs_f64());
        ensure!(self.sums()? == expected, "balances differ after a restart from the snapshot");

        let (tidegate, time) = self.tidegate.restart(remove_snapshots)?;
        self.tidegate = tidegate;
        report.add("restart_without_snapshot_s", time.as_secs_f64());
        report.add("replay_events_per_s", transfers as f64 / time.as_secs_f64());
        ensure!(self.sums()? == expected, "balances differ after a replay of the whole journal");
        Ok(())
    }

    /// One transfer a request, pipelined.
    pub fn single(self, report: &mut Report) -> Result<()> {
        let tally = self.transfers(report, "single", Pattern::Uniform, self.settings.transfers / 5, 1, SINGLE)?;
        report.add("single_transfers_per_s", tally.per_second());
        latencies(report, "single", &tally);
        Ok(())
    }

    /// One transfer a request, one in flight on each connection.
    pub fn lockstep(self, report: &mut Report) -> Result<()> {
        let tally = self.transfers(report, "lockstep", Pattern::Uniform, self.settings.transfers / 25, 1, LOCKSTEP)?;
        report.add("lockstep_transfers_per_s", tally.per_second());
        latencies(report, "lockstep", &tally);
        Ok(())
    }

    /// Every transfer is a vote for one candidate.
    pub fn hot(self, report: &mut Report) -> Result<()> {
        let transfers = self.settings.transfers; // as many as in the uniform case it is compared with
        let hot = self.transfers(report, "hot", Pattern::Hot, transfers, TRANSFERS_MAX, BATCHED)?;
        report.add("hot_transfers_per_s", hot.per_second());
        Ok(())
    }

    /// Reserve, then post.
    pub fn holds(self, report: &mut Report) -> Result<()> {
        let before = self.sums()?;
        let pairs = self.settings.transfers / 5;
        let mut load = HoldPairs::new(self.names, self.work(Pattern::Uniform, pairs), TRANSFERS_MAX);
        let pressure = self.pressure(BATCHED);
        let tally = self.measured(report, "hold", || load::run(self.tidegate.binary(), pressure, &mut load))?;
        let after = self.verify(before, load.paid(), pairs, &tally)?;
        ensure!(after.held == 0, "{} are still held", after.held);
        report.add("hold_pairs_per_s", tally.per_second());
        Ok(())
    }

    /// Votes over HTTP/JSON.
    pub fn http(self, report: &mut Report) -> Result<()> {
        let before = self.sums()?;
        let votes = self.settings.transfers / 20;
        let mut load = Votes::new(self.names, self.work(Pattern::Votes, votes));
        let pressure = self.pressure(HTTP);
        let tally = self.measured(report, "http", || load::run(self.tidegate.http(), pressure, &mut load))?;
        self.verify(before, load.paid(), votes, &tally)?;
        report.add("http_votes_per_s", tally.per_second());
        latencies(report, "http", &tally);
        Ok(())
    }

    /// Votes of one service beside the load of another.
    pub fn beside(self, report: &mut Report) -> Result<()> {
        for beside in Beside::ALL {
            let votes = beside::votes(&self.tidegate, self.names, beside)?;
            let name = beside.name();
            report.add(&format!("beside_{name}_vote_p50_ms"), votes.latency_ms(0.5));
            report.add(&format!("beside_{name}_vote_p99_ms"), votes.latency_ms(0.99));
            if let Some(load_per_s) = votes.load_per_s {
                report.add(&format!("beside_{name}_load_transfers_per_s"), load_per_s);
            }
        }
        let sums = self.sums()?;
        ensure!(sums.balance == 0, "balances add up to {}, not to zero", sums.balance);
        Ok(())
    }

    /// A ledger that gets a few transfers a second, over many snapshots: a restart replays what came in a snapshot's
    /// interval or two, and not what came since a table of ids was full last.
    pub fn slow(mut self, report: &mut Report) -> Result<()> {
        // A history that a restart would read if it began at the first record.
        let before = self.settings.transfers / 10;
        let mut load = Transfers::new(self.names, self.work(Pattern::Uniform, before), TRANSFERS_MAX);
        all_applied(load::run(self.tidegate.binary(), BATCHED, &mut load)?.outcomes(), before)?;

        let started = Instant::now();
        for tick in 0..SLOW_TICKS {
            let series = SLOW_SERIES + tick;
            let work = Workload::new(Pattern::Uniform, self.names.wallets(), SLOW_TRANSFERS_PER_TICK, series);
            let mut few = Transfers::new(self.names, work, 1);
            let tally = load::run(self.tidegate.binary(), Pressure { connections: 1, in_flight: 1 }, &mut few)?;
            all_applied(tally.outcomes(), SLOW_TRANSFERS_PER_TICK)?;
            std::thread::sleep((SLOW_TICK * (tick + 1)).saturating_sub(started.elapsed()));
        }
        let sent = SLOW_TRANSFERS_PER_TICK * u64::from(SLOW_TICKS);
        let of_interval = sent as f64 * SLOW_SNAPSHOT_INTERVAL_S as f64 / started.elapsed().as_secs_f64();
        let expected = self.sums()?;

        let (tidegate, time) = self.tidegate.restart(|_| Ok(()))?;
        self.tidegate = tidegate;
        let replayed = self.tidegate.replayed()?;
        report.add("slow_ledger_events", (before + sent) as f64);
        report.add("slow_ledger_events_per_snapshot", of_interval);
        report.add("slow_ledger_restart_s", time.as_secs_f64());
        report.add("slow_ledger_replayed_events", replayed.events as f64);
        report.add("slow_ledger_replayed_ids_only", replayed.ids_only as f64);
        report.add("slow_ledger_replayed_intervals", (replayed.events + replayed.ids_only) as f64 / of_interval);
        ensure!(self.sums()? == expected, "balances differ after the restart of a slow ledger");
        Ok(())
    }

    fn transfers(
        &self,
        report: &mut Report,
        case: &str,
        pattern: Pattern,
        transfers: u64,
        batch: usize,
        pressure: Pressure,
    ) -> Result<Tally> {
        let before = self.sums()?;
        let mut load = Transfers::new(self.names, self.work(pattern, transfers), batch);
        let pressure = self.pressure(pressure);
        let tally = self.measured(report, case, || load::run(self.tidegate.binary(), pressure, &mut load))?;
        self.verify(before, load.paid(), transfers, &tally)?;
        Ok(tally)
    }

    /// Runs a load and reports what it cost either side in processor time for each transfer.
    fn measured(&self, report: &mut Report, case: &str, run: impl FnOnce() -> Result<Tally>) -> Result<Tally> {
        let (server, client) = (self.tidegate.processor_time()?, process::own_processor_time()?);
        let tally = run()?;
        let transfers = tally.outcomes().total() as f64;
        let nanoseconds = |time: Duration| time.as_nanos() as f64 / transfers;
        report.add(&format!("{case}_server_cpu_ns"), nanoseconds(self.tidegate.processor_time()? - server));
        report.add(&format!("{case}_client_cpu_ns"), nanoseconds(process::own_processor_time()? - client));
        Ok(tally)
    }

    /// Everything was applied, everything that was paid came in, and all balances still add up to nothing.
    fn verify(&self, before: Sums, paid: u128, transfers: u64, tally: &Tally) -> Result<Sums> {
        all_applied(tally.outcomes(), transfers)?;
        let after = self.sums()?;
        ensure!(after.balance == 0, "balances add up to {}, not to zero", after.balance);
        let came_in = after.credited - before.credited;
        ensure!(came_in == paid, "{paid} was paid, but {came_in} came in");
        Ok(after)
    }

    fn sums(&self) -> Result<Sums> {
        sums(&Session::open(self.tidegate.binary())?.accounts()?)
    }

    fn work(&self, pattern: Pattern, transfers: u64) -> Workload {
        Workload::new(pattern, self.names.wallets(), transfers, LOAD_SERIES)
    }

    fn pressure(&self, usual: Pressure) -> Pressure {
        Pressure {
            connections: self.settings.connections.unwrap_or(usual.connections),
            in_flight: self.settings.in_flight.unwrap_or(usual.in_flight),
        }
    }
}

fn latencies(report: &mut Report, case: &str, tally: &Tally) {
    report.add(&format!("{case}_latency_p50_ms"), tally.latency_ms(0.5));
    report.add(&format!("{case}_latency_p99_ms"), tally.latency_ms(0.99));
}

/// Waits for what the server does by itself; fails when it never does.
fn wait_for(what: &str, mut happened: impl FnMut() -> bool) -> Result<()> {
    let started = Instant::now();
    while !happened() {
        ensure!(started.elapsed() < SERVER_ACTS_MAX, "{what} did not come within {SERVER_ACTS_MAX:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The snapshots in a data directory.
fn snapshots(data: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for shard in fs::read_dir(data.join("snapshots")).into_iter().flatten() {
        for file in fs::read_dir(shard?.path())? {
            found.push(file?.path());
        }
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "tgs"));
    Ok(found)
}

/// Removes them all, so that the whole journal is replayed.
fn remove_snapshots(data: &Path) -> Result<()> {
    for path in snapshots(data)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Of the line that fits best: how much y grows with one more x.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (mean_x, mean_y) =
        (points.iter().map(|p| p.0).sum::<f64>() / count, points.iter().map(|p| p.1).sum::<f64>() / count);
    let covariance: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    covariance / variance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_a_line() {
        assert_eq!(slope(&[(1.0, 10.0), (2.0, 13.0), (3.0, 16.0)]), 3.0);
    }
}

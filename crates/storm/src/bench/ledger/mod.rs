//! `storm bench-ledger`: every case of the ledger bench, Tidegate and the others in turn, for the number of runs; then
//! the medians.

mod beside;
mod peers;
mod tidegate;

use super::subject::Subject;
use crate::peer::postgres::Postgres;
use crate::peer::redis::Redis;
use crate::report::Report;
use crate::workload::Names;
use anyhow::{Context, Result};

/// Wallets of the case with many.
const MILLION: u32 = 1_000_000;

/// What to measure and how.
#[derive(clap::Args)]
pub struct Settings {
    /// The server that is measured, and where files go.
    #[command(flatten)]
    pub subject: Subject,
    /// Cases to run.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Case::ALL)]
    pub cases: Vec<Case>,
    /// Runs of each case; the median is reported.
    #[arg(long, env = "RUNS", default_value_t = 3)]
    pub runs: u32,
    /// Transfers of the batched case; the other cases take a share of it that fits their speed.
    #[arg(long, env = "TRANSFERS", default_value_t = 10_000_000)]
    pub transfers: u64,
    /// Wallets that pay each other.
    #[arg(long, default_value_t = 10_000)]
    pub accounts: u32,
    /// Connections, instead of what the case says.
    #[arg(long)]
    pub connections: Option<usize>,
    /// Requests in flight on each connection, instead of what the case says.
    #[arg(long)]
    pub in_flight: Option<usize>,
    /// Ledger shards of the server.
    #[arg(long, default_value_t = 1)]
    pub shards: u16,
}

/// One row of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// 8,190 transfers a request, uniform; memory and restarts after it.
    Batched,
    /// The same among a million wallets.
    Million,
    /// Every transfer is a vote for one candidate.
    Hot,
    /// One transfer a request, 64 connections, 16 deep.
    Single,
    /// One transfer a request, 32 connections, one in flight each.
    Lockstep,
    /// Reserve, then post.
    Holds,
    /// HTTP/JSON votes, 64 connections.
    Http,
    /// Fifty transfers a second over fifteen snapshots, then a restart.
    Slow,
    /// Votes of one service beside full batches of another, beside linked ones, and beside the same ones again.
    Beside,
    /// A Lua wallet in Redis.
    Redis,
    /// A PL/pgSQL wallet in PostgreSQL.
    Postgres,
}

impl Case {
    const ALL: [Case; 11] = [
        Case::Batched,
        Case::Million,
        Case::Hot,
        Case::Redis,
        Case::Single,
        Case::Lockstep,
        Case::Postgres,
        Case::Holds,
        Case::Http,
        Case::Slow,
        Case::Beside,
    ];
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        clap::ValueEnum::to_possible_value(self).expect("no case is skipped").get_name().fmt(f)
    }
}

/// Runs the cases and reports.
pub fn run(settings: &Settings) -> Result<()> {
    let out = settings.subject.out()?;
    let names = Names::new(settings.accounts);
    let million = Names::new(MILLION);
    let mut report = Report::default();
    for run in 1..=settings.runs {
        for case in &settings.cases {
            eprintln!("run {run} of {}: {case}", settings.runs);
            let ours = || tidegate::Bench::new(settings, &names, &out);
            match case {
                Case::Batched => ours()?.batched(&mut report),
                Case::Million => tidegate::Bench::new(settings, &million, &out)?.million(&mut report),
                Case::Hot => ours()?.hot(&mut report),
                Case::Single => ours()?.single(&mut report),
                Case::Lockstep => ours()?.lockstep(&mut report),
                Case::Holds => ours()?.holds(&mut report),
                Case::Http => ours()?.http(&mut report),
                Case::Slow => {
                    let interval_s = tidegate::SLOW_SNAPSHOT_INTERVAL_S;
                    tidegate::Bench::with_snapshots(settings, &names, &out, interval_s)?.slow(&mut report)
                }
                Case::Beside => ours()?.beside(&mut report),
                Case::Redis => peers::redis(&out, &names, settings.transfers / 20, &mut report),
                Case::Postgres => peers::postgres(&out, &names, settings.transfers / 20, &mut report),
            }
            .with_context(|| format!("case {case}"))?;
        }
    }
    report.derive_ratio("batched_1m_accounts_ratio", "batched_1m_accounts_transfers_per_s", "batched_transfers_per_s");
    report.derive_ratio("hot_ratio", "hot_transfers_per_s", "batched_transfers_per_s");
    report.derive_ratio("batched_to_redis_ratio", "batched_transfers_per_s", "peer_redis_transfers_per_s");
    settings.subject.publish("ledger", &versions(settings), &report)
}

/// Of everything that was measured.
fn versions(settings: &Settings) -> Vec<String> {
    let measured = |case| settings.cases.contains(&case);
    let ours = settings.cases.iter().any(|case| !matches!(case, Case::Redis | Case::Postgres));
    let known = [
        ours.then(|| settings.subject.version()),
        measured(Case::Redis).then(Redis::version),
        measured(Case::Postgres).then(Postgres::version),
    ];
    known.into_iter().flatten().map(|version| version.unwrap_or_else(|error| error.to_string())).collect()
}

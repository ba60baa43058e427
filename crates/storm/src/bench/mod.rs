//! `storm bench-ledger`: every case of the ledger bench, ours and the peers in turn, as many times as asked; then the medians.

mod peers;

use crate::report::Report;
use crate::workload::Names;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// What to measure and how.
#[derive(clap::Args)]
pub struct Settings {
    /// The server to measure.
    #[arg(long, default_value = "target/release/tidegate")]
    pub tidegate: PathBuf,
    /// Where results, logs and the servers' data go: on a real disk, as syncs are part of what is measured.
    #[arg(long, default_value = "target/bench")]
    pub out: PathBuf,
    /// Cases to run.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Case::ALL)]
    pub cases: Vec<Case>,
    /// Runs of each case; the median is reported.
    #[arg(long, env = "RUNS", default_value_t = 3)]
    pub runs: u32,
    /// Transfers of the batched case; the other cases take a share of it that fits their speed.
    #[arg(long, default_value_t = 10_000_000)]
    pub transfers: u64,
    /// Wallets that pay each other.
    #[arg(long, default_value_t = 10_000)]
    pub accounts: u32,
}

/// One row of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// A Lua wallet in Redis.
    Redis,
    /// A PL/pgSQL wallet in PostgreSQL.
    Postgres,
}

impl Case {
    const ALL: [Case; 2] = [Case::Redis, Case::Postgres];
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        clap::ValueEnum::to_possible_value(self).expect("no case is skipped").get_name().fmt(f)
    }
}

/// Runs the cases and reports.
pub fn run(settings: &Settings) -> Result<()> {
    std::fs::create_dir_all(&settings.out)?;
    let out = settings.out.canonicalize().with_context(|| format!("no folder {}", settings.out.display()))?;
    let names = Names::new(settings.accounts);
    let mut report = Report::default();
    for run in 1..=settings.runs {
        for case in &settings.cases {
            eprintln!("run {run} of {}: {case}", settings.runs);
            match case {
                Case::Redis => peers::redis(&out, &names, settings.transfers / 20, &mut report),
                Case::Postgres => peers::postgres(&out, &names, settings.transfers / 50, &mut report),
            }
            .with_context(|| format!("case {case}"))?;
        }
    }
    print!("{}", report.table());
    report.write_json(&out.join("ledger.json"))
}

//! Storm: the load generator. It starts the servers it measures, pays through their doors, checks that every transfer was
//! applied, and reports medians.
//!
//! ```text
//!   bench ──▶ load ──▶ door (ours: binary port, HTTP)
//!     │         └────▶ peer (Redis, PostgreSQL)
//!     └─────▶ report: a table for people, target/bench/ledger.json for checks
//! ```
//!
//! Invariant: nothing here knows how the server works inside; it sees what any client sees, and /proc.

mod bench;
mod door;
mod load;
mod machine;
mod peer;
mod process;
mod report;
mod workload;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about = "The load generator of Tidegate")]
struct Storm {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures the ledger, and beside it the wallets that people build on Redis and PostgreSQL.
    BenchLedger(bench::Settings),
}

fn main() -> anyhow::Result<()> {
    match Storm::parse().command {
        Command::BenchLedger(settings) => bench::run(&settings),
    }
}

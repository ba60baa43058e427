//! Storm: the load generator. It starts the servers that it measures, uses their public ports, checks all results, and
//! reports medians.
//!
//! ```text
//!   bench::ledger ──▶ load ──▶ tidegate (binary port, HTTP)
//!        │              └────▶ peer (Redis, PostgreSQL)
//!        ├─────▶ report: a table for people, target/bench/*.json for checks
//!        │
//!   bench::ids ────▶ load ──▶ tidegate, over an id index that a tool of the ledger made
//!        │
//!   bench::queue ──▶ load ──▶ tidegate (binary port, SQS), or a peer (Redis, RabbitMQ, beanstalkd, NATS, ElasticMQ)
//!        │
//!   bench::gateway ─▶ mqtt ──▶ tidegate, or a peer (Mosquitto, mochi-mqtt)
//!        └─────▶ a process of its own: in_memory ──▶ the broker's code, without sockets
//!
//!   bench::pacer ──▶ hammer ──▶ tidegate (binary port, HTTP), or a peer (Redis, Go): bid requests, each at its time
//! ```
//!
//! Invariant: only `in_memory` uses the server's code. Everything else uses what any client sees, and /proc.

mod bench;
mod hammer;
mod in_memory;
mod load;
mod machine;
mod mqtt;
mod outbox;
mod peer;
mod process;
mod report;
mod schedule;
mod sqs;
mod tidegate;
mod workload;

use clap::{Parser, Subcommand};

/// The server's allocator, as sessions in memory are measured with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(version, about = "The load generator of Tidegate")]
struct Storm {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures the ledger, and beside it the wallets that people build on Redis and PostgreSQL.
    BenchLedger(bench::ledger::Settings),
    /// Measures the opening of accounts in batches, what an account costs in memory, and a restart with all of them.
    BenchAccounts(bench::accounts::Settings),
    /// Measures the MQTT gateway, and beside it Mosquitto and mochi-mqtt.
    BenchGateway(bench::gateway::Settings),
    /// Measures queues, and beside them Redis, RabbitMQ, beanstalkd, NATS and ElasticMQ.
    BenchQueue(bench::queue::Settings),
    /// Measures the pacer, and beside it a banker in Redis and a pacer in Go.
    BenchPacer(bench::pacer::Settings),
    /// Measures a ledger that has seen very many ids.
    BenchIds(bench::ids::Settings),
    /// Asks a pacer for bids at a rate, or searches the highest that it answers in time.
    Hammer(hammer::Settings),
    /// Holds sessions in memory, for the gateway bench.
    #[command(hide = true)]
    HoldSessions(in_memory::Settings),
}

fn main() -> anyhow::Result<()> {
    match Storm::parse().command {
        Command::BenchLedger(settings) => bench::ledger::run(&settings),
        Command::BenchAccounts(settings) => bench::accounts::run(&settings),
        Command::BenchGateway(settings) => bench::gateway::run(&settings),
        Command::BenchQueue(settings) => bench::queue::run(&settings),
        Command::BenchPacer(settings) => bench::pacer::run(&settings),
        Command::BenchIds(settings) => bench::ids::run(&settings),
        Command::Hammer(settings) => hammer::run(&settings),
        Command::HoldSessions(settings) => in_memory::run(&settings),
    }
}

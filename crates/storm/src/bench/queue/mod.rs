//! `storm bench-queue`: every case of the queue bench, our server and the others in turn, for the number of runs; then
//! the medians.
//!
//! ```text
//!   ours ───────▶ Tidegate, binary port          three_hops, backlog, kill: cases that are ours alone
//!   peers ──────▶ Redis, RabbitMQ, beanstalkd, NATS: the same messages, senders and receivers
//!   sqs ────────▶ Tidegate and ElasticMQ, in the protocol of Amazon SQS
//! ```

mod backlog;
mod kill;
mod kind;
mod ours;
mod peers;
mod sqs;
mod three_hops;

use super::subject::Subject;
use crate::load::{Pressure, Tally};
use crate::report::Report;
use crate::tidegate::queue::make;
use crate::tidegate::server::{Configuration, SNAPSHOT_INTERVAL_S, Tidegate};
use anyhow::{Context, Result, ensure};
use kind::Kind;
use std::path::PathBuf;

/// One message a request.
const SENDERS: Pressure = Pressure { connections: 64, in_flight: 16 };
/// One message a request, one in flight on each connection.
const LOCKSTEP: Pressure = Pressure { connections: 32, in_flight: 1 };
/// Receivers: what one gets it acknowledges, while the other requests of its connection wait for more.
const RECEIVERS: Pressure = Pressure { connections: 16, in_flight: 4 };
/// Those who fill a backlog.
const FILLERS: Pressure = Pressure { connections: 4, in_flight: 4 };
/// Messages that a receiver asks for at once.
const RECEIVED_AT_ONCE: u64 = 64;
const QUEUE: &str = "bench";

/// What to measure and how.
#[derive(clap::Args)]
pub struct Settings {
    /// The server that is measured, and where files go.
    #[command(flatten)]
    pub subject: Subject,
    /// Cases to run.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Case::ALL)]
    pub cases: Vec<Case>,
    /// Servers to measure; one that is not installed is left out.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Kind::ALL)]
    pub servers: Vec<Kind>,
    /// The program of NATS.
    #[arg(long, default_value = "target/peers/nats-server")]
    pub nats: PathBuf,
    /// The folder with the archives of ElasticMQ.
    #[arg(long, default_value = "target/peers/elasticmq")]
    pub elasticmq: PathBuf,
    /// Runs of each case; the median is reported.
    #[arg(long, env = "RUNS", default_value_t = 3)]
    pub runs: u32,
    /// Messages of the first case; the others take a share of it that fits their speed.
    #[arg(long, default_value_t = 4_000_000)]
    pub messages: u64,
    /// Seconds of each load of a peer, after one that is not measured.
    #[arg(long, default_value_t = 6.0)]
    pub peer_seconds: f64,
    /// Bytes of a body.
    #[arg(long, default_value_t = 256)]
    pub bytes: usize,
    /// Messages of the backlog, of 1 KiB each, and those that wait for a time.
    #[arg(long, default_value_t = 10_000_000)]
    pub backlog: u64,
    /// Messages that wait when the server is killed.
    #[arg(long, default_value_t = 5_000_000)]
    pub killed: u64,
}

/// One row of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// One message a request, 64 connections, 16 deep.
    Sends,
    /// One message a request, 32 connections, one in flight each.
    Lockstep,
    /// Send, receive, acknowledge, at the same time.
    EndToEnd,
    /// Batches of ten as boto3 sends them, signed, 64 connections.
    Sqs,
    /// Receiving behind a backlog that is larger than the memory for bodies.
    Backlog,
    /// Messages for times of the next year, and others for the next seconds beside them.
    Scheduled,
    /// A server with messages that wait is killed while others are sent.
    Kill,
    /// From node to node to node.
    ThreeHops,
    /// Bodies of 1 KiB that leave memory and are received.
    Written,
}

impl Case {
    const ALL: [Case; 9] = [
        Case::Sends,
        Case::Lockstep,
        Case::EndToEnd,
        Case::Sqs,
        Case::ThreeHops,
        Case::Written,
        Case::Backlog,
        Case::Scheduled,
        Case::Kill,
    ];

    /// Whether a server takes part.
    fn suits(self, kind: Kind) -> bool {
        match self {
            Case::Sends | Case::Lockstep | Case::EndToEnd => kind != Kind::Elasticmq,
            Case::Sqs => matches!(kind, Kind::Tidegate | Kind::Elasticmq),
            _ => kind == Kind::Tidegate,
        }
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        clap::ValueEnum::to_possible_value(self).expect("no case is skipped").get_name().fmt(f)
    }
}

/// Runs the cases and reports.
pub fn run(settings: &Settings) -> Result<()> {
    let bench = Bench { settings, out: settings.subject.out()? };
    let (servers, versions) = bench.installed()?;
    let mut report = Report::default();
    for run in 1..=settings.runs {
        for case in &settings.cases {
            for kind in servers.iter().copied().filter(|kind| case.suits(*kind)) {
                eprintln!("run {run} of {}: {case}, {kind}", settings.runs);
                bench.measure(*case, kind, &mut report).with_context(|| format!("case {case} of {kind}"))?;
            }
        }
    }
    ratios(&mut report);
    settings.subject.publish("queue", &versions, &report)
}

/// Ours against the peers', and against the best of them.
fn ratios(report: &mut Report) {
    for case in ["sends", "lockstep_sends", "end_to_end"] {
        let figure = format!("{case}_per_s");
        let keys: Vec<String> = Kind::QUEUE_PEERS.iter().map(|peer| peer.key(&figure)).collect();
        for (peer, key) in Kind::QUEUE_PEERS.iter().zip(&keys) {
            report.derive_ratio(&format!("{case}_to_{}_ratio", peer.name()), &figure, key);
        }
        report.derive_ratio_to_best(&format!("{case}_to_best_peer_ratio"), &figure, &keys);
    }
    report.derive_ratio("sqs_to_elasticmq_ratio", "sqs_sends_per_s", &Kind::Elasticmq.key("sqs_sends_per_s"));
}

/// What every case needs.
struct Bench<'a> {
    settings: &'a Settings,
    out: PathBuf,
}

impl Bench<'_> {
    /// The servers that can be measured, and what they say they are. One line tells of each that is missing.
    fn installed(&self) -> Result<(Vec<Kind>, Vec<String>)> {
        let (mut kinds, mut versions) = (Vec::new(), Vec::new());
        let takes_part = |kind: Kind| self.settings.cases.iter().any(|case| case.suits(kind));
        for kind in self.settings.servers.iter().copied().filter(|kind| takes_part(*kind)) {
            match kind.version(self.settings) {
                Ok(version) => {
                    kinds.push(kind);
                    versions.push(version);
                }
                Err(error) if kind == Kind::Tidegate => return Err(error),
                Err(error) => eprintln!("{kind} is left out: {error:#}"),
            }
        }
        Ok((kinds, versions))
    }

    fn measure(&self, case: Case, kind: Kind, report: &mut Report) -> Result<()> {
        match (case, kind) {
            (Case::Sqs, _) => sqs::measure(self, kind, report),
            (Case::Sends, Kind::Tidegate) => ours::sends(self, report),
            (Case::Lockstep, Kind::Tidegate) => ours::lockstep(self, report),
            (Case::EndToEnd, Kind::Tidegate) => ours::end_to_end(self, report),
            (Case::Backlog, _) => backlog::backlog(self, report),
            (Case::Scheduled, _) => backlog::scheduled(self, report),
            (Case::Kill, _) => kill::kill(self, report),
            (Case::ThreeHops, _) => three_hops::three_hops(self, report),
            (Case::Written, _) => backlog::written(self, report),
            (Case::Sends | Case::Lockstep | Case::EndToEnd, _) => peers::measure(self, case, kind, report),
        }
    }

    /// A server of ours with one queue.
    fn server(&self) -> Result<Tidegate> {
        let configuration = Configuration::Ledger { shards: 1, snapshot_interval_s: SNAPSHOT_INTERVAL_S };
        let tidegate = self.start("tidegate", configuration)?;
        make(tidegate.http(), QUEUE)?;
        Ok(tidegate)
    }

    /// A server of ours whose files are in a folder of this name.
    fn start(&self, folder: &str, configuration: Configuration) -> Result<Tidegate> {
        self.settings.subject.start(&self.out.join(folder), configuration)
    }
}

fn all_done(tally: &Tally, messages: u64) -> Result<()> {
    let done = tally.outcomes();
    ensure!(done.applied == messages, "{messages} messages were there, but {done}");
    Ok(())
}

fn latencies(report: &mut Report, case: &str, tally: &Tally) {
    report.add(&format!("{case}_latency_p50_ms"), tally.latency_ms(0.5));
    report.add(&format!("{case}_latency_p99_ms"), tally.latency_ms(0.99));
}

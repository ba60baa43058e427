//! `storm bench-queue`: every case of the queue bench, Tidegate and Redis in turn, for the number of runs; then the
//! medians.

use crate::load::{self, Answer, Dialect, Outcomes, Pressure, Tally};
use crate::machine;
use crate::peer::redis::{Redis, encode};
use crate::process;
use crate::report::Report;
use crate::tidegate::queue::{Paced, Receives, Sends, make, waiting};
use crate::tidegate::server::{Configuration, Paths, SNAPSHOT_INTERVAL_S, Tidegate};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// One message a request.
const SINGLE: Pressure = Pressure { connections: 64, in_flight: 16 };
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
    /// Messages of the first case; the others take a share of it that fits their speed.
    #[arg(long, default_value_t = 4_000_000)]
    pub messages: u64,
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
    /// XADD to a stream in Redis, synced before each answer.
    Redis,
}

impl Case {
    const ALL: [Case; 9] = [
        Case::Sends,
        Case::Redis,
        Case::Lockstep,
        Case::EndToEnd,
        Case::ThreeHops,
        Case::Written,
        Case::Backlog,
        Case::Scheduled,
        Case::Kill,
    ];
}

/// Runs the cases and reports.
pub fn run(settings: &Settings) -> Result<()> {
    std::fs::create_dir_all(&settings.out)?;
    let out = settings.out.canonicalize().with_context(|| format!("no folder {}", settings.out.display()))?;
    let mut report = Report::default();
    for run in 1..=settings.runs {
        for case in &settings.cases {
            eprintln!("run {run} of {}: {case:?}", settings.runs);
            match case {
                Case::Sends => sends(settings, &out, &mut report),
                Case::Lockstep => lockstep(settings, &out, &mut report),
                Case::EndToEnd => end_to_end(settings, &out, &mut report),
                Case::Backlog => backlog(settings, &out, &mut report),
                Case::Scheduled => scheduled(settings, &out, &mut report),
                Case::Kill => kill(settings, &out, &mut report),
                Case::ThreeHops => three_hops(settings, &out, &mut report),
                Case::Written => written(settings, &out, &mut report),
                Case::Redis => redis(settings, &out, &mut report),
            }
            .with_context(|| format!("case {case:?}"))?;
        }
    }
    report.derive_ratio("sends_to_redis_ratio", "sends_per_s", "peer_redis_sends_per_s");
    let text = format!(
        "machine: {}\nversion: {}\ncommand: storm {}\n\n{}",
        machine::describe(),
        Tidegate::version(&settings.tidegate)?,
        std::env::args().skip(1).collect::<Vec<_>>().join(" "),
        report.table()
    );
    print!("{text}");
    std::fs::write(out.join("queue.txt"), text)?;
    report.write_json(&out.join("queue.json"))
}

/// A server with one queue.
fn server(settings: &Settings, out: &Path) -> Result<Tidegate> {
    let configuration = Configuration::Ledger { shards: 1, snapshot_interval_s: SNAPSHOT_INTERVAL_S };
    let tidegate = start(settings, &out.join("tidegate"), configuration)?;
    make(tidegate.http(), QUEUE)?;
    Ok(tidegate)
}

fn start(settings: &Settings, directory: &Path, configuration: Configuration) -> Result<Tidegate> {
    let program = settings.tidegate.canonicalize();
    let program = program.with_context(|| format!("no server at {}", settings.tidegate.display()))?;
    Tidegate::start_fresh(&Paths { program, directory: directory.to_owned(), configuration })
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

fn sends(settings: &Settings, out: &Path, report: &mut Report) -> Result<()> {
    let tidegate = server(settings, out)?;
    let mut load = Sends::new(QUEUE, settings.messages, 1, settings.bytes);
    let (before, of_load) = (tidegate.processor_time()?, process::own_processor_time()?);
    let tally = load::run(tidegate.binary(), SINGLE, &mut load)?;
    let per_message = |used: std::time::Duration| used.as_nanos() as f64 / settings.messages as f64;
    all_done(&tally, settings.messages)?;
    report.add("sends_per_s", tally.per_second());
    latencies(report, "sends", &tally);
    report.add("sends_server_cpu_ns", per_message(tidegate.processor_time()? - before));
    report.add("sends_client_cpu_ns", per_message(process::own_processor_time()? - of_load));
    report.add("sends_rss_bytes", tidegate.resident_bytes()? as f64);
    Ok(())
}

fn lockstep(settings: &Settings, out: &Path, report: &mut Report) -> Result<()> {
    let tidegate = server(settings, out)?;
    let messages = settings.messages / 16;
    let tally = load::run(tidegate.binary(), LOCKSTEP, &mut Sends::new(QUEUE, messages, 1, settings.bytes))?;
    all_done(&tally, messages)?;
    report.add("lockstep_sends_per_s", tally.per_second());
    latencies(report, "lockstep", &tally);
    Ok(())
}

/// Senders and receivers at once. The time is that of whoever ends last.
fn end_to_end(settings: &Settings, out: &Path, report: &mut Report) -> Result<()> {
    let tidegate = server(settings, out)?;
    let messages = settings.messages / 2;
    let address = tidegate.binary();
    let sender = std::thread::spawn({
        let mut load = Sends::new(QUEUE, messages, 1, settings.bytes);
        move || load::run(address, SINGLE, &mut load)
    });
    let received = load::run(address, RECEIVERS, &mut Receives::new(QUEUE, messages, RECEIVED_AT_ONCE))?;
    let sent = sender.join().expect("the sender does not panic")?;
    all_done(&sent, messages)?;
    all_done(&received, messages)?;
    let per_s = received.per_second().min(sent.per_second());
    report.add("end_to_end_per_s", per_s);
    // How late they come when half as many are sent, each at its time.
    let messages = messages / 2;
    let paced = Paced::open(address, QUEUE, settings.bytes)?;
    let sender = std::thread::spawn(move || paced.send(messages, per_s / 2.0));
    let mut receives = Receives::new(QUEUE, messages, RECEIVED_AT_ONCE);
    all_done(&load::run(address, RECEIVERS, &mut receives)?, messages)?;
    sender.join().expect("the sender does not panic")?;
    report.add("end_to_end_latency_p50_ms", receives.late_ms(0.5));
    report.add("end_to_end_latency_p99_ms", receives.late_ms(0.99));
    Ok(())
}

/// Messages sent to the first of three nodes, and received from the third. The time is that of whoever ends last.
fn three_hops(settings: &Settings, out: &Path, report: &mut Report) -> Result<()> {
    let last = server(settings, out)?;
    let linked = |to: &Tidegate| Configuration::Linked { queue: QUEUE, to: to.binary() };
    let middle = start(settings, &out.join("middle"), linked(&last))?;
    let first = start(settings, &out.join("first"), linked(&middle))?;
    // Each node remembers the ids of what came over a link, a million of them.
    let messages = (settings.messages / 8).min(900_000);
    let sender = std::thread::spawn({
        let (address, mut load) = (first.binary(), Sends::new(QUEUE, messages, 1, settings.bytes));
        move || load::run(address, SINGLE, &mut load)
    });
    let received = load::run(last.binary(), RECEIVERS, &mut Receives::new(QUEUE, messages, RECEIVED_AT_ONCE))?;
    all_done(&sender.join().expect("the sender does not panic")?, messages)?;
    all_done(&received, messages)?;
    report.add("three_hops_per_s", received.per_second());
    Ok(())
}

/// What the disk gets for each byte of bodies that were sent, left memory, and were received.
fn written(settings: &Settings, out: &Path, report: &mut Report) -> Result<()> {
    let tidegate = server(settings, out)?;
    let messages = settings.messages / 4;
    let before = tidegate.written_bytes()?;
    all_done(&load::run(tidegate.binary(), FILLERS, &mut Sends::new(QUEUE, messages, 64, 1_024))?, messages)?;
    let mut receives = Receives::new(QUEUE, messages, RECEIVED_AT_ONCE);
    all_done(&load::run(tidegate.binary(), RECEIVERS, &mut receives)?, messages)?;
    report.add("bytes_written_per_byte", (tidegate.written_bytes()? - before) as f64 / (messages * 1_024) as f64);
    Ok(())
}

/// Messages for the times of a year take memory; those of the next seconds come when they are due.
fn scheduled(settings: &Settings, out: &Path, report: &mut Report) -> Result<()> {
    const YEAR_MS: u64 = 365 * 24 * 3_600_000;
    let tidegate = server(settings, out)?;
    let far = settings.backlog;
    // None is due before the bench is over.
    let mut load = Sends::new(QUEUE, far, 64, settings.bytes).ahead(3_600_000..YEAR_MS);
    let filled = load::run(tidegate.binary(), FILLERS, &mut load)?;
    all_done(&filled, far)?;
    report.add("scheduled_filled_per_s", filled.per_second());
    report.add("scheduled_rss_bytes", tidegate.resident_bytes()? as f64);
    let near = settings.messages / 80;
    let mut load = Sends::new(QUEUE, near, 1, settings.bytes).ahead(2_000..12_000);
    all_done(&load::run(tidegate.binary(), SINGLE, &mut load)?, near)?;
    let mut receives = Receives::new(QUEUE, near, RECEIVED_AT_ONCE);
    all_done(&load::run(tidegate.binary(), RECEIVERS, &mut receives)?, near)?;
    report.add("due_lateness_p50_ms", receives.late_ms(0.5));
    report.add("due_lateness_p99_ms", receives.late_ms(0.99));
    Ok(())
}

/// A server is killed while messages wait and others come, and started again.
fn kill(settings: &Settings, out: &Path, report: &mut Report) -> Result<()> {
    const SENDS_PER_S: f64 = 5_000.0;
    let tidegate = server(settings, out)?;
    let filled = settings.killed;
    all_done(&load::run(tidegate.binary(), FILLERS, &mut Sends::new(QUEUE, filled, 64, settings.bytes))?, filled)?;
    // More than it lives to take.
    let sent = 100 * SENDS_PER_S as u64;
    let paced = Paced::open(tidegate.binary(), QUEUE, settings.bytes)?;
    let sender = std::thread::spawn(move || paced.send(sent, SENDS_PER_S));
    std::thread::sleep(std::time::Duration::from_secs(3));
    let (tidegate, took) = tidegate.restart(|_| Ok(()))?;
    let began = std::time::Instant::now();
    let taken = sender.join().expect("the sender does not panic")?;
    let mut one = Sends::new(QUEUE, 1, 1, settings.bytes);
    all_done(&load::run(tidegate.binary(), LOCKSTEP, &mut one)?, 1)?;
    report.add("serving_again_s", (took + began.elapsed()).as_secs_f64());
    // All is there as soon as it serves.
    let there = waiting(tidegate.http(), QUEUE)?;
    ensure!(there > filled + taken, "{filled} and {taken} messages were taken before the kill, and {there} are there");
    report.add("all_recovered_s", (took + began.elapsed()).as_secs_f64());
    report.add("restarted_rss_bytes", tidegate.resident_bytes()? as f64);
    Ok(())
}

/// The same receivers with a backlog that memory has, and with one that it has not.
fn backlog(settings: &Settings, out: &Path, report: &mut Report) -> Result<()> {
    let small = settings.messages / 16;
    let short = receive_backlog(settings, out, small)?.0;
    let (long, resident, filled) = receive_backlog(settings, out, settings.backlog)?;
    report.add("backlog_filled_per_s", filled);
    report.add("backlog_rss_bytes", resident);
    report.add("backlog_receives_per_s", long);
    report.add("backlog_receive_ratio", long / short);
    Ok(())
}

/// How fast a backlog of so many messages is received, what memory it takes, and how fast it came.
fn receive_backlog(settings: &Settings, out: &Path, messages: u64) -> Result<(f64, f64, f64)> {
    let tidegate = server(settings, out)?;
    let filled = load::run(tidegate.binary(), FILLERS, &mut Sends::new(QUEUE, messages, 64, 1_024))?;
    all_done(&filled, messages)?;
    let resident = tidegate.resident_bytes()? as f64;
    // What is received is a part: what is behind it stays a backlog.
    let part = messages.min(settings.messages / 16);
    let received = load::run(tidegate.binary(), RECEIVERS, &mut Receives::new(QUEUE, part, RECEIVED_AT_ONCE))?;
    all_done(&received, part)?;
    Ok((received.per_second(), resident, filled.per_second()))
}

fn redis(settings: &Settings, out: &Path, report: &mut Report) -> Result<()> {
    let redis = Redis::start(&out.join("redis"))?;
    let messages = settings.messages / 4;
    let mut load = StreamAdds { left: messages, body: "b".repeat(settings.bytes) };
    let tally = load::run(redis.address(), SINGLE, &mut load)?;
    all_done(&tally, messages)?;
    report.add("peer_redis_sends_per_s", tally.per_second());
    report.add("peer_redis_sends_latency_p99_ms", tally.latency_ms(0.99));
    Ok(())
}

/// Adds messages to a stream.
struct StreamAdds {
    left: u64,
    body: String,
}

impl Dialect for StreamAdds {
    const IN_ORDER: bool = true;

    fn transfers_left(&self) -> u64 {
        self.left
    }

    fn ask(&mut self, _tag: u32, out: &mut Vec<u8>) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        encode(out, &["XADD", QUEUE, "*", "b", &self.body]);
        Ok(true)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<Option<Answer>> {
        // `$15`, then the id of the entry.
        let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let (Some(_), Some(end)) = (ends.next(), ends.next()) else { return Ok(None) };
        if bytes[0] != b'$' {
            bail!("Redis answered {:?}", String::from_utf8_lossy(&bytes[..end]));
        }
        Ok(Some(Answer { bytes: end, tag: 0, outcomes: Outcomes { applied: 1, ..Outcomes::default() } }))
    }
}

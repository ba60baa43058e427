//! `tidegate-sim`: simulates seed after seed until stopped, or the ones it is told.

use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use tidegate_sim::{Run, TICKS, hush_panics_in_runs, report_failure, report_panics, run, run_gateway};

/// Simulates a whole node, its clients and its faults from a seed, and checks every promise.
///
/// Without --seed or --seeds it goes on until stopped or until a promise is broken.
#[derive(Parser)]
#[command(name = "tidegate-sim", version)]
struct Arguments {
    /// Simulate this seed only, and print every event
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Simulate the seeds FROM..TO, TO excluded
    #[arg(long, value_name = "FROM..TO", value_parser = seed_range)]
    seeds: Option<Range<u64>>,
    /// Which world: the ledger with its clients, or the gateway with its clients
    #[arg(long, value_enum, default_value_t = WorldName::Ledger)]
    world: WorldName,
    /// Ticks of trouble in each run of the ledger, at most
    #[arg(long, default_value_t = TICKS)]
    ticks: u64,
    /// Do not print the events of --seed
    #[arg(long)]
    quiet: bool,
}

/// What is simulated.
#[derive(Clone, Copy, clap::ValueEnum)]
enum WorldName {
    /// Accounts, transfers, holds.
    Ledger,
    /// MQTT connections, sessions, messages.
    Gateway,
}

fn seed_range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("expected FROM..TO, such as 0..1000")?;
    let number = |text: &str| text.parse().map_err(|error| format!("{text:?}: {error}"));
    Ok(number(from)?..number(to)?)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Where a panic ends the process, the hook is the last that can speak; elsewhere the run itself reports it.
    if cfg!(panic = "abort") {
        report_panics();
    } else {
        hush_panics_in_runs();
    }
    let aloud = arguments.seed.is_some() && !arguments.quiet;
    let seeds = match (arguments.seed, arguments.seeds) {
        (Some(seed), _) => seed..seed.saturating_add(1),
        (None, Some(seeds)) => seeds,
        // Others have tried the small numbers.
        (None, None) => today()..u64::MAX,
    };
    let (began, mut told, first) = (Instant::now(), Instant::now(), seeds.start);
    let mut done = 0;
    for seed in seeds {
        let kept = match arguments.world {
            WorldName::Ledger => is_kept(&run(seed, arguments.ticks, aloud), aloud),
            WorldName::Gateway => is_kept(&run_gateway(seed, aloud), aloud),
        };
        if !kept {
            return ExitCode::FAILURE;
        }
        done += 1;
        if told.elapsed() > Duration::from_secs(5) {
            told = Instant::now();
            let rate = done as f64 / began.elapsed().as_secs_f64();
            println!("{done} seeds from {first} on, {rate:.1} seeds/s, all promises kept");
        }
    }
    println!("{done} seeds in {:.1} s, all promises kept", began.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

/// Whether a run kept all promises; tells of it if it did not.
fn is_kept<T: std::fmt::Debug>(run: &Run<T>, aloud: bool) -> bool {
    if let Some(violation) = &run.violation {
        report_failure(run, violation);
        return false;
    }
    if aloud {
        println!("{:#?}\ntrace {:016x}", run.tally, run.trace_hash);
    }
    true
}

/// A seed that differs from run to run.
fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() * 1_000_000)
}

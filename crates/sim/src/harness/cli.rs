//! A command line over workloads: seed after seed until stopped, or the ones it is told.

use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;

use super::{LocalStore, STORES, StoreName, StreamStore, TICKS, Workload, run_on};
use crate::run::{Run, hush_panics_in_runs, report_failure, report_panics};

/// A workload by its name, to be run on any store.
#[derive(Clone, Copy)]
pub struct Entry {
    name: &'static str,
    run: fn(StoreName, u64, u64, bool) -> Run,
}

impl Entry {
    /// The entry of a workload.
    pub fn of<W: Workload<LocalStore> + Workload<StreamStore>>() -> Entry {
        Entry::new(<W as Workload<LocalStore>>::NAME, run_on::<W>)
    }

    /// What runs a seed on a kind of store, with so many ticks of trouble at most, and prints every event or not.
    pub fn new(name: &'static str, run: fn(StoreName, u64, u64, bool) -> Run) -> Entry {
        Entry { name, run }
    }
}

/// Simulates a whole node, its clients and its faults from a seed, and checks every promise.
///
/// Without --seed or --seeds it goes on until stopped or until a promise is broken.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Simulate this seed only, and print every event
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Simulate the seeds FROM..TO, TO excluded
    #[arg(long, value_name = "FROM..TO", value_parser = seed_range)]
    seeds: Option<Range<u64>>,
    /// Which workload: the first one unless told otherwise
    #[arg(long)]
    world: Option<String>,
    /// Which kind of store, local or stream; both in turns unless told otherwise
    #[arg(long, value_parser = store_name)]
    store: Option<StoreName>,
    /// Ticks of trouble in each run, at most
    #[arg(long, default_value_t = TICKS)]
    ticks: u64,
    /// Do not print the events of --seed
    #[arg(long)]
    quiet: bool,
}

fn seed_range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("expected FROM..TO, such as 0..1000")?;
    let number = |text: &str| text.parse().map_err(|error| format!("{text:?}: {error}"));
    Ok(number(from)?..number(to)?)
}

fn store_name(text: &str) -> Result<StoreName, String> {
    STORES.into_iter().find(|store| store.as_str() == text).ok_or("expected local or stream".into())
}

/// Does what the command line says with these workloads, of which there is at least one.
pub fn main(entries: &[Entry]) -> ExitCode {
    let arguments = Arguments::parse();
    let wanted = arguments.world.as_deref().unwrap_or(entries[0].name);
    let Some(entry) = entries.iter().find(|entry| entry.name == wanted) else {
        let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
        eprintln!("--world {wanted}: expected one of {}", names.join(", "));
        return ExitCode::FAILURE;
    };
    // Where a panic ends the process, the hook is the last that can speak; elsewhere the run itself reports it.
    if cfg!(panic = "abort") {
        report_panics();
    } else {
        hush_panics_in_runs();
    }
    let stores = arguments.store.map_or(STORES.to_vec(), |store| vec![store]);
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
        for store in &stores {
            if !is_kept(&(entry.run)(*store, seed, arguments.ticks, aloud), aloud) {
                return ExitCode::FAILURE;
            }
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
fn is_kept(run: &Run, aloud: bool) -> bool {
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

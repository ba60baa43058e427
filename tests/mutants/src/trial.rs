//! Tries mutants one after another: tests that reach a mutant run, the quickest first, then the stages, until something
//! fails, which kills it. What was tried is appended to a file, and not tried again by the next run.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;

use crate::listed::{self, Mutant};
use crate::reach::{self, Reach};
use crate::results::{Fate, Results};
use crate::running::{self, Bounds, End};

/// Tests that run in one process: those that take no longer together, at first, then, and then.
const BATCH_MILLIS: [u64; 3] = [300, 3_000, 15_000];
/// How often the progress is told.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// Which mutants, by which tests.
#[derive(Args)]
pub struct Options {
    /// What `cargo mutants --list --json` printed
    #[arg(long)]
    list: PathBuf,
    /// Where the results are appended
    #[arg(long)]
    results: PathBuf,
    /// Numbers of the mutants that were left out of the build, one on a line
    #[arg(long)]
    without: PathBuf,
    /// Only mutants whose name holds one of these, all if none is given
    #[arg(long)]
    only: Vec<String>,
    /// Only mutants of the package in this folder of `crates`
    #[arg(long)]
    only_package: Option<String>,
    /// Only mutants of these numbers, one on a line, in this order
    #[arg(long)]
    numbers: Option<PathBuf>,
    /// Try those again that live or ran out of time
    #[arg(long)]
    again: bool,
    /// What `reach` wrote: of these tests those run that reach the mutant
    #[arg(long)]
    reach: Vec<PathBuf>,
    /// How much processor time all tests of a mutant take without it, in seconds: the quickest within this run
    #[arg(long, default_value_t = 60)]
    tests_s: u64,
    /// Commands, run by the shell, each of which fails if it sees the mutant; in the order of what they cost. They run
    /// when no test has seen it
    #[arg(long)]
    stage: Vec<String>,
    #[command(flatten)]
    bounds: Bounds,
    /// Mutants tried at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

/// Something to run, and what it is called in the results.
struct Trial {
    name: String,
    command: String,
    folder: PathBuf,
    /// What it takes without a mutant, where that is known.
    millis: u64,
}

/// The tests that reach a mutant.
struct Reached {
    trials: Vec<Trial>,
    tests: usize,
    /// How many of them take too long to be run.
    slow: usize,
}

/// Tries all mutants that were chosen and prints the names of those that live; refuses to begin if a stage fails
/// without a mutant.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mutants = listed::read(&options.list)?;
    let reaches: Vec<Reach> = options.reach.iter().map(|path| reach::read(path)).collect::<Result<_, _>>()?;
    let results = Results::open(&options.results)?;
    let all = chosen(options, &mutants)?;
    let left: Vec<usize> = all.iter().copied().filter(|number| is_left(&results, *number, options.again)).collect();
    if !left.is_empty() {
        for stage in stages(options) {
            let end = running::run(&stage.command, &stage.folder, &[], stage.millis, &options.bounds);
            anyhow::ensure!(
                end == End::Passed,
                "a stage fails or takes too long without any mutant: {}",
                stage.command
            );
        }
    }
    let (next, began) = (AtomicUsize::new(0), Instant::now());
    let shared = Mutex::new((results, began));
    let worker = || -> anyhow::Result<()> {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            let Some(&number) = left.get(nth) else { return Ok(()) };
            let began_one = Instant::now();
            let reached = tests_of(&reaches, number as u32, 1_000 * options.tests_s);
            let (fate, by) = fate(options, &reached.trials, number);
            let took = began_one.elapsed().as_secs_f64();
            let name = &mutants[number].name;
            let rest = format!("{took:.1}\t{name}\treached by {}, too slow {}", reached.tests, reached.slow);
            let (results, told) = &mut *shared.lock().expect("no worker panics");
            results.append(number, fate, &by, &rest)?;
            if fate == Fate::Survived {
                println!("{name}");
            }
            if told.elapsed() > TOLD_EVERY {
                *told = Instant::now();
                tell(results, &all, left.len() - nth - 1, began.elapsed().div_f64((nth + 1) as f64));
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    tell(&shared.lock().expect("no worker panics").0, &all, 0, Duration::ZERO);
    Ok(())
}

fn chosen(options: &Options, mutants: &[Mutant]) -> anyhow::Result<Vec<usize>> {
    let without = numbers(&options.without)?;
    let only = options.numbers.as_deref().map(numbers).transpose()?;
    let folder = options.only_package.as_ref().map(|package| format!("crates/{package}/"));
    let named = |name: &str| options.only.is_empty() || options.only.iter().any(|part| name.contains(part));
    Ok(only
        .unwrap_or_else(|| (0..mutants.len()).collect())
        .into_iter()
        .filter(|number| folder.as_ref().is_none_or(|folder| mutants[*number].file.starts_with(folder)))
        .filter(|number| !without.contains(number) && named(&mutants[*number].name))
        .collect())
}

fn is_left(results: &Results, number: usize, again: bool) -> bool {
    results.fates.get(&number).is_none_or(|fate| again && *fate != Fate::Killed)
}

fn tell(results: &Results, all: &[usize], left: usize, each: Duration) {
    let [killed, timed_out, live] = results.count(all);
    let (tried, minutes) = (killed + timed_out + live, (each * left as u32).as_secs().div_ceil(60));
    eprintln!(
        "{tried} of {} tried: {killed} killed, {timed_out} out of time, {live} live; {minutes} minutes left",
        all.len()
    );
}

fn numbers(file: &Path) -> anyhow::Result<Vec<usize>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(text.lines().map(|line| line.trim().parse()).collect::<Result<_, _>>()?)
}

/// The tests that reach a mutant, in batches: the quickest, as many as take no more than `millis_max` together.
fn tests_of(reaches: &[Reach], number: u32, millis_max: u64) -> Reached {
    let reaching = |reach: &Reach| -> VecDeque<(u64, String)> {
        let tests = reach.tests.iter().filter(|test| test.reached.binary_search(&number).is_ok());
        tests.map(|test| (test.millis, test.name.clone())).collect()
    };
    let mut left: Vec<_> = reaches.iter().map(reaching).collect();
    let (mut trials, mut tests, mut budget) = (Vec::new(), 0, millis_max);
    for (round, batch_max) in BATCH_MILLIS.into_iter().chain([u64::MAX]).enumerate() {
        for (nth, (reach, left)) in reaches.iter().zip(&mut left).enumerate() {
            let (mut names, mut millis) = (Vec::new(), 0);
            let fits = |millis: u64, test: &(u64, String)| millis + test.0 <= batch_max.min(budget);
            while let Some((each, name)) = left.pop_front_if(|test| fits(millis, test)) {
                millis += each;
                names.push(name);
            }
            if names.is_empty() {
                continue;
            }
            budget -= millis;
            tests += names.len();
            let (binary, names) = (reach.binary.display(), names.join(" "));
            let command = format!("exec {binary} -q -Zunstable-options --fail-fast --exact {names}");
            let name = format!("tests {nth}.{round}");
            trials.push(Trial { name, command, folder: reach.folder.clone(), millis });
        }
    }
    Reached { trials, tests, slow: left.iter().map(VecDeque::len).sum() }
}

fn stages(options: &Options) -> Vec<Trial> {
    let stage = |(nth, command): (usize, &String)| Trial {
        name: format!("stage {nth}"),
        command: command.clone(),
        folder: PathBuf::from("."),
        millis: 0,
    };
    options.stage.iter().enumerate().map(stage).collect()
}

/// What becomes of a mutant, and in which trial.
fn fate(options: &Options, trials: &[Trial], number: usize) -> (Fate, String) {
    let number = number.to_string();
    for trial in trials.iter().chain(&stages(options)) {
        let variables = [("TIDEGATE_MUTANT", number.as_str())];
        match running::run(&trial.command, &trial.folder, &variables, trial.millis, &options.bounds) {
            End::Passed => {}
            End::Failed => return (Fate::Killed, trial.name.clone()),
            End::OutOfTime => return (Fate::TimedOut, trial.name.clone()),
        }
    }
    (Fate::Survived, String::new())
}

#[cfg(test)]
mod tests;

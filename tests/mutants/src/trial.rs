//! Tries mutants one after another: tests that reach a mutant run, the quickest first, then the stages, until something
//! fails, which kills it.

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use crate::listed;
use crate::reach::{self, Reach};

/// Tests that run in one process: those that take no longer together, at first and then.
const BATCH_MILLIS: [u64; 2] = [300, 3_000];

/// Which mutants, by which tests.
#[derive(Args)]
pub struct Options {
    /// What `cargo mutants --list --json` printed
    #[arg(long)]
    list: PathBuf,
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
    /// What `reach` wrote: of these tests those run that reach the mutant
    #[arg(long)]
    reach: Vec<PathBuf>,
    /// Commands, run by the shell, each of which fails if it sees the mutant; in the order of what they cost. They run
    /// when no test has seen it
    #[arg(long)]
    stage: Vec<String>,
    /// Bounds for whatever runs, as the shell sets them (`ulimit -v 8000000;`)
    #[arg(long, default_value = "")]
    bounds: String,
    /// How much processor time a command may take, in seconds, beyond five times what its tests take without a mutant;
    /// one that takes more has seen the mutant
    #[arg(long, default_value_t = 20)]
    processor_s: u64,
    /// How long a command may take by the clock, in seconds: for those that wait for ever
    #[arg(long, default_value_t = 1_800)]
    timeout_s: u64,
    /// Mutants tried at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

enum Fate {
    Killed(String),
    TimedOut(String),
    Survived,
}

/// Something to run, and what it is called in the results.
struct Trial {
    name: String,
    command: String,
    folder: PathBuf,
    /// What it takes without a mutant, where that is known.
    millis: u64,
}

/// Tries all mutants that were chosen and prints a line for each; refuses to begin if a stage fails without a mutant.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mutants = listed::read(&options.list)?;
    let without = numbers(&options.without)?;
    let only = options.numbers.as_deref().map(numbers).transpose()?;
    let folder = options.only_package.as_ref().map(|package| format!("crates/{package}/"));
    let chosen: Vec<usize> = only
        .unwrap_or_else(|| (0..mutants.len()).collect())
        .into_iter()
        .filter(|number| folder.as_ref().is_none_or(|folder| mutants[*number].file.starts_with(folder)))
        .filter(|number| !without.contains(number))
        .filter(|&number| {
            options.only.is_empty() || options.only.iter().any(|part| mutants[number].name.contains(part))
        })
        .collect();
    let reaches: Vec<Reach> = options.reach.iter().map(|path| reach::read(path)).collect::<Result<_, _>>()?;
    for stage in stages(options) {
        let fate = fate(options, &[stage], None);
        anyhow::ensure!(matches!(fate, Fate::Survived), "a stage fails or takes too long without any mutant");
    }
    let (next, out) = (AtomicUsize::new(0), Mutex::new(std::io::stdout()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some(&number) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let began = Instant::now();
                    let (mut trials, tests) = tests_of(&reaches, number as u32);
                    trials.extend(stages(options));
                    let fate = match fate(options, &trials, Some(number)) {
                        Fate::Killed(by) => format!("killed by {by}"),
                        Fate::TimedOut(by) => format!("timeout in {by}"),
                        Fate::Survived => "survived".to_owned(),
                    };
                    let took = began.elapsed().as_secs_f64();
                    let mut out = out.lock().expect("no writer panics");
                    let _ = writeln!(out, "{number}\t{fate}\t{took:.1}\t{}\treached by {tests}", mutants[number].name);
                    let _ = out.flush();
                }
            });
        }
    });
    Ok(())
}

fn numbers(file: &Path) -> anyhow::Result<Vec<usize>> {
    Ok(std::fs::read_to_string(file)?.lines().map(|line| line.trim().parse()).collect::<Result<_, _>>()?)
}

/// The tests that reach a mutant, in batches, and how many they are.
fn tests_of(reaches: &[Reach], number: u32) -> (Vec<Trial>, usize) {
    let (mut trials, mut count) = (Vec::new(), 0);
    for (nth, reach) in reaches.iter().enumerate() {
        let mut left: Vec<_> = reach.tests.iter().filter(|test| test.reached.binary_search(&number).is_ok()).collect();
        count += left.len();
        for (round, millis_max) in BATCH_MILLIS.into_iter().chain([u64::MAX]).enumerate() {
            let mut millis = 0;
            let take = left.iter().take_while(|test| {
                millis += test.millis;
                millis <= millis_max
            });
            let names: Vec<&str> = take.map(|test| test.name.as_str()).collect();
            let millis = left[..names.len()].iter().map(|test| test.millis).sum();
            if names.is_empty() {
                continue;
            }
            left.drain(..names.len());
            let binary = reach.binary.display();
            let command = format!("exec {binary} -q -Zunstable-options --fail-fast --exact {}", names.join(" "));
            trials.push(Trial { name: format!("tests {nth}.{round}"), command, folder: reach.folder.clone(), millis });
        }
    }
    (trials, count)
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

fn fate(options: &Options, trials: &[Trial], number: Option<usize>) -> Fate {
    for trial in trials {
        let mut command = Command::new("bash");
        let processor_s = options.processor_s + 5 * trial.millis / 1_000;
        let bounded = format!("{} ulimit -t {processor_s}; {}", options.bounds, trial.command);
        command.arg("-c").arg(bounded).current_dir(&trial.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own, so that what it starts ends with it.
        command.process_group(0);
        if let Some(number) = number {
            command.env("TIDEGATE_MUTANT", number.to_string());
        }
        let mut child = command.spawn().expect("bash starts");
        let until = Instant::now() + Duration::from_secs(options.timeout_s);
        let status = loop {
            match child.try_wait().expect("a child can be waited for") {
                Some(status) => break status,
                None if Instant::now() > until => {
                    let _ = Command::new("kill").arg("-KILL").arg("--").arg(format!("-{}", child.id())).status();
                    let _ = child.wait();
                    return Fate::TimedOut(trial.name.clone());
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        // 137 and 152: SIGKILL and SIGXCPU, by `ulimit -t`.
        let out_of_time = matches!(status.signal(), Some(9 | 24)) || matches!(status.code(), Some(137 | 152));
        if out_of_time {
            return Fate::TimedOut(trial.name.clone());
        }
        if !status.success() {
            return Fate::Killed(trial.name.clone());
        }
    }
    Fate::Survived
}

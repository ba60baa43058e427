//! Tries mutants one after another: the stages of a mutant run until one fails, which kills it.

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use crate::listed;

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
    /// Only mutants of these numbers, one on a line
    #[arg(long)]
    numbers: Option<PathBuf>,
    /// Commands, run by the shell, each of which fails if it sees the mutant; in the order of what they cost. A bound
    /// on processor time (`ulimit -t`) counts as one on time
    #[arg(long, required = true)]
    stage: Vec<String>,
    /// How long a command may take, in seconds; one that takes longer has seen the mutant
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Mutants tried at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

enum Fate {
    Killed(usize),
    TimedOut(usize),
    Survived,
}

/// Tries all mutants that were chosen and prints a line for each; refuses to begin if a stage fails without a mutant.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let mutants = listed::read(&options.list)?;
    let without = numbers(&options.without)?;
    let only = options.numbers.as_ref().map(numbers).transpose()?;
    let folder = options.only_package.as_ref().map(|package| format!("crates/{package}/"));
    let chosen: Vec<usize> = (0..mutants.len())
        .filter(|number| folder.as_ref().is_none_or(|folder| mutants[*number].file.starts_with(folder)))
        .filter(|number| !without.contains(number) && only.as_ref().is_none_or(|only| only.contains(number)))
        .filter(|&number| {
            options.only.is_empty() || options.only.iter().any(|part| mutants[number].name.contains(part))
        })
        .collect();
    let baseline = fate(options, usize::MAX);
    anyhow::ensure!(matches!(baseline, Fate::Survived), "a stage fails or takes too long without any mutant");
    let (next, out) = (AtomicUsize::new(0), Mutex::new(std::io::stdout()));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some(&number) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let began = Instant::now();
                    let fate = match fate(options, number) {
                        Fate::Killed(stage) => format!("killed by {stage}"),
                        Fate::TimedOut(stage) => format!("timeout in {stage}"),
                        Fate::Survived => "survived".to_owned(),
                    };
                    let took = began.elapsed().as_secs_f64();
                    let mut out = out.lock().expect("no writer panics");
                    let _ = writeln!(out, "{number}\t{fate}\t{took:.1}\t{}", mutants[number].name);
                    let _ = out.flush();
                }
            });
        }
    });
    Ok(())
}

fn numbers(file: &PathBuf) -> anyhow::Result<std::collections::BTreeSet<usize>> {
    Ok(std::fs::read_to_string(file)?.lines().map(|line| line.trim().parse()).collect::<Result<_, _>>()?)
}

fn fate(options: &Options, number: usize) -> Fate {
    for (stage, command) in options.stage.iter().enumerate() {
        let mut command_of = Command::new("bash");
        command_of.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own, so that what it starts ends with it.
        command_of.process_group(0);
        if number != usize::MAX {
            command_of.env("TIDEGATE_MUTANT", number.to_string());
        }
        let mut child = command_of.spawn().expect("bash starts");
        let until = Instant::now() + Duration::from_secs(options.timeout);
        let status = loop {
            match child.try_wait().expect("a child can be waited for") {
                Some(status) => break status,
                None if Instant::now() > until => {
                    let _ = Command::new("kill").arg("-KILL").arg("--").arg(format!("-{}", child.id())).status();
                    let _ = child.wait();
                    return Fate::TimedOut(stage);
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        // 137 and 152: SIGKILL and SIGXCPU, by `ulimit -t`.
        let out_of_time = matches!(status.signal(), Some(9 | 24)) || matches!(status.code(), Some(137 | 152));
        if out_of_time {
            return Fate::TimedOut(stage);
        }
        if !status.success() {
            return Fate::Killed(stage);
        }
    }
    Fate::Survived
}

//! Runs a command within bounds: of processor time, of waiting, and of the clock.
//!
//! ```text
//!   command ─▶ a group of processes of its own ─▶ ended: passed or failed
//!                                              └▶ loops: `ulimit -t`; waits: no thread runs; neither: the clock
//! ```
//!
//! Why three: a mutant that loops is seen by its processor time, on a busy machine too. One that waits for what never
//! comes uses none and would cost the whole bound of the clock, which has to be wide where others use the machine.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::Args;

/// What whatever runs may take.
#[derive(Args, Clone)]
pub struct Bounds {
    /// Bounds as the shell sets them (`ulimit -v 8000000;`)
    #[arg(long, default_value = "")]
    pub bounds: String,
    /// How much processor time a command may take, in seconds, beyond five times what it takes without a mutant
    #[arg(long, default_value_t = 20)]
    pub processor_s: u64,
    /// How long no thread of a command may run, in seconds
    #[arg(long, default_value_t = 30)]
    pub waiting_s: u64,
    /// How long a command may take by the clock, in seconds, beyond thirty times what it takes without a mutant
    #[arg(long, default_value_t = 300)]
    pub clock_s: u64,
}

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// With the status zero.
    Passed,
    /// With another one.
    Failed,
    /// Beyond a bound.
    OutOfTime,
}

/// Runs a command of the shell in a folder; `millis` is what it takes without a mutant.
pub fn run(command: &str, folder: &Path, variables: &[(&str, &str)], millis: u64, bounds: &Bounds) -> End {
    let processor_s = bounds.processor_s + 5 * millis / 1_000;
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(format!("{} ulimit -t {processor_s}; {command}", bounds.bounds)).current_dir(folder);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.envs(variables.iter().copied());
    // A group of its own, so that what it starts ends with it.
    shell.process_group(0);
    let mut child = shell.spawn().expect("bash starts");
    let clock = Duration::from_secs(bounds.clock_s) + Duration::from_millis(30 * millis);
    match wait(&mut child, clock, Duration::from_secs(bounds.waiting_s)) {
        // 137 and 152: SIGKILL and SIGXCPU, by `ulimit -t`.
        Some(status) if matches!(status.signal(), Some(9 | 24)) || matches!(status.code(), Some(137 | 152)) => {
            End::OutOfTime
        }
        Some(status) if status.success() => End::Passed,
        Some(_) => End::Failed,
        None => {
            let _ = Command::new("kill").arg("-KILL").arg("--").arg(format!("-{}", child.id())).status();
            let _ = child.wait();
            End::OutOfTime
        }
    }
}

/// Waits until it ends; `None` if it took longer than `clock`, or none of its threads ran for as long as `waiting`.
fn wait(child: &mut Child, clock: Duration, waiting: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    let (mut ticks, mut ran, mut looked) = (0, began, began);
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        let now = Instant::now();
        if now - looked > Duration::from_secs(1) {
            looked = now;
            let (used, runs) = activity(child.id());
            if runs || used != ticks {
                (ticks, ran) = (used, now);
            }
        }
        if now - began > clock || now - ran > waiting {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processor time that a group of processes has used, in ticks, and whether any of its threads runs or would.
fn activity(group: u32) -> (u64, bool) {
    let (mut ticks, mut runs) = (0, false);
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(stat) = stat(&process.path()).filter(|stat| stat.group == group) else { continue };
        ticks += stat.ticks;
        let threads = std::fs::read_dir(process.path().join("task")).into_iter().flatten().flatten();
        // D: waits for a disk, which answers.
        runs |= threads.filter_map(|thread| self::stat(&thread.path())).any(|thread| matches!(thread.state, 'R' | 'D'));
    }
    (ticks, runs)
}

/// Milliseconds of processor time that the ended children of this process have used.
pub fn children_millis() -> u64 {
    // A tick is a hundredth of a second for whatever Linux shows to programs.
    stat(Path::new("/proc/self")).map_or(0, |stat| 10 * stat.ticks_of_children)
}

struct Stat {
    state: char,
    group: u32,
    ticks: u64,
    ticks_of_children: u64,
}

/// Reads `stat` of a process or a thread; `None` if it is none or has ended.
fn stat(folder: &Path) -> Option<Stat> {
    let text = std::fs::read_to_string(folder.join("stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |nth: usize| fields.get(nth)?.parse::<u64>().ok();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        group: fields.get(2)?.parse().ok()?,
        ticks: number(11)? + number(12)?,
        ticks_of_children: number(13)? + number(14)?,
    })
}

#[cfg(test)]
mod tests;

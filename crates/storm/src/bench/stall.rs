//! How long the workers of a server let others wait while it is under load, and how much of that was for want of a
//! core.
//!
//! Why both: load, server and its background threads share the cores. A turn that took 40 ms although its worker was
//! ready to run and had no core for 38 of them says nothing about the worker's code; one for which it never waited
//! does.

use crate::tidegate::http::figure_max;
use crate::tidegate::server::Tidegate;
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest turn of a worker's loop of late; the metric without the prefix that all have.
const LONGEST_TURN: &str = "worker_longest_turn_seconds";
/// The most processor time of one turn of late.
const LONGEST_TURN_CPU: &str = "worker_longest_turn_cpu_seconds";
/// So long the server shows a turn, at most.
const LONGEST_TURN_SHOWN: Duration = Duration::from_secs(11);
/// How often the longest turn is asked for: it is shown for five seconds at least.
const LOOK: Duration = Duration::from_secs(2);
/// How often it is asked how long the workers were without a core.
const SAMPLE: Duration = Duration::from_millis(50);

/// What was seen of the workers' turns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stall {
    /// The longest turn, in milliseconds.
    pub turn_max_ms: f64,
    /// The most processor time of one turn, in milliseconds.
    pub turn_cpu_max_ms: f64,
    /// The most milliseconds within some fifty for which workers were ready to run and had no core.
    pub wait_max_ms: f64,
}

impl Stall {
    /// The worse of both.
    pub fn max(self, other: Stall) -> Stall {
        Stall {
            turn_max_ms: self.turn_max_ms.max(other.turn_max_ms),
            turn_cpu_max_ms: self.turn_cpu_max_ms.max(other.turn_cpu_max_ms),
            wait_max_ms: self.wait_max_ms.max(other.wait_max_ms),
        }
    }
}

/// Waits until the server shows no turn of what was before.
pub fn let_turns_pass() {
    std::thread::sleep(LONGEST_TURN_SHOWN);
}

/// Runs `load`, and watches the workers meanwhile.
pub fn watched<T>(tidegate: &Tidegate, load: impl FnOnce() -> Result<T>) -> Result<(T, Stall)> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(tidegate, &done));
        let result = load();
        done.store(true, Ordering::SeqCst);
        let stall = watch.join().expect("it only asks")?;
        Ok((result?, stall))
    })
}

fn watch(tidegate: &Tidegate, done: &AtomicBool) -> Result<Stall> {
    let (mut stall, mut looked) = (Stall::default(), Instant::now());
    let mut before = tidegate.workers_without_a_core()?;
    loop {
        let last = done.load(Ordering::SeqCst);
        let waited = tidegate.workers_without_a_core()?;
        stall.wait_max_ms = stall.wait_max_ms.max(waited.saturating_sub(before).as_secs_f64() * 1e3);
        before = waited;
        if last || looked.elapsed() >= LOOK {
            looked = Instant::now();
            stall.turn_max_ms = stall.turn_max_ms.max(figure_max(tidegate.http(), LONGEST_TURN)? * 1e3);
            stall.turn_cpu_max_ms = stall.turn_cpu_max_ms.max(figure_max(tidegate.http(), LONGEST_TURN_CPU)? * 1e3);
        }
        if last {
            return Ok(stall);
        }
        std::thread::sleep(SAMPLE);
    }
}

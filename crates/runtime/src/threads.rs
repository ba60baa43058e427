//! Starts and joins threads, and reads the wall clock for them.

use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use tidegate_machines::TimeMs;

/// Starts a named thread.
pub fn spawn<T: Send + 'static>(name: String, run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.clone()).spawn(run).with_context(|| format!("cannot start thread {name}"))
}

/// Waits for a thread. One that panicked is an error.
pub fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a thread panicked"))?
}

/// Pins the calling thread, one of `workers`, to the `number`-th core it may run on, if there is one for it. Where
/// there are as many workers as cores, the last one may move: the other threads of the server need cores, too, and a
/// worker that may not leave its core waits for them there. See `docs/decisions/0027-pinned-workers.md`.
pub fn pin(number: usize, workers: usize) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let may_move = workers >= cores.len() && number + 1 == workers;
    if let Some(core) = cores.get(number).filter(|_| !may_move) {
        core_affinity::set_for_current(*core);
    }
}

/// All other threads go before the calling one.
pub fn lower_priority() {
    // SAFETY: setpriority takes plain numbers; on Linux, `who` 0 with PRIO_PROCESS names the calling thread alone.
    let lowered = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    if lowered != 0 {
        tracing::debug!("a background thread runs at normal priority: the system did not let it lower its own");
    }
}

/// The wall clock, for the times that records carry.
pub fn now_ms() -> TimeMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimeMs(since.as_millis() as u64)
}

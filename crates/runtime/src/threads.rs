//! Starts and joins threads, and reads the wall clock for them.

use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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

/// How long a thread of low priority keeps a core, when another one is woken that wants it. By itself Linux grants some
/// three milliseconds, also to a thread with the lowest priority, and a vote waits at each of its steps.
const BEHIND_OTHERS_SLICE: Duration = Duration::from_micros(100);

/// The lowest.
const NICE: i32 = 19;

/// All other threads go before the calling one.
pub fn lower_priority() {
    // SAFETY: setpriority takes plain numbers; on Linux, `who` 0 with PRIO_PROCESS names the calling thread alone.
    let lowered = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    if lowered != 0 {
        tracing::debug!("a background thread runs at normal priority: the system did not let it lower its own");
    }
    give_way_soon();
}

/// Has the calling thread leave its core soon when others want it. Linux before 6.12 does not know that.
#[cfg(target_os = "linux")]
fn give_way_soon() {
    let wanted = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: NICE,
        sched_priority: 0,
        sched_runtime: BEHIND_OTHERS_SLICE.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the call reads one sched_attr, of the size that it names; 0 is the calling thread, the last 0 no flags.
    let given = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &wanted, 0) };
    if given != 0 {
        tracing::debug!("a background thread leaves its core late: the system did not let it ask for short turns");
    }
}

#[cfg(not(target_os = "linux"))]
fn give_way_soon() {}

/// The wall clock, for the times that records carry.
pub fn now_ms() -> TimeMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimeMs(since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_goes_behind_others_keeps_its_core_for_short_turns() {
        let asked = std::thread::spawn(|| {
            lower_priority();
            // SAFETY: plain numbers, which the call below fills in.
            let mut found: libc::sched_attr = unsafe { std::mem::zeroed() };
            let size = size_of::<libc::sched_attr>() as u32;
            // SAFETY: the call writes at most `size` bytes to the address of a local value of that size.
            let asked = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut found, size, 0) };
            (asked, found.sched_policy, found.sched_nice, found.sched_runtime)
        });
        let (asked, policy, nice, slice_ns) = asked.join().expect("it only asks");
        assert_eq!((asked, policy, nice), (0, libc::SCHED_OTHER as u32, NICE));
        assert!([0, 100_000].contains(&slice_ns), "{slice_ns}; Linux before 6.12 shows none");
    }
}

//! The time that records carry: steady, and close to the wall clock.
//!
//! ```text
//!   time since boot + offset ─▶ NodeClock::now     the same for all workers, never jumps
//!                        ▲
//!                        │ at most 1 ms in 20, while the difference is an hour at most
//!   wall clock ─▶ Follower::observe ─▶ a jump is logged and counted
//! ```
//!
//! Promise: whatever happens to the wall clock while the process runs, time goes on at its own pace, between 95 % and
//! 105 %.
//!
//! Why: holds, sessions and messages live for a time. If the wall clock of a host jumps ten years forward, all of them
//! would be over at once; if it then jumps back, those that were made meanwhile would last ten years.
//!
//! Why the time since boot: in contrast to `CLOCK_MONOTONIC` it counts the time for which the host was suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_machines::TimeMs;
use tidegate_planted::{Bug, is_planted};
use tidegate_telemetry::metrics;

use crate::status::Status;

/// One millisecond of difference is made up for in so many.
const FOLLOW_ONE_IN: i64 = 20;
/// A larger difference is not followed: then one of the two clocks is wrong, and which one, an operator has to say.
const FOLLOWED_MAX_MS: i64 = 3_600_000;
/// A change of the difference between two observations that is a jump.
const JUMP_MIN_MS: i64 = 1_000;
/// Time between observations at least, so that a step of at least a few milliseconds is possible.
const OBSERVE_EVERY_MS: i64 = 100;

metrics! {
    /// The node's clock. For the one thread that follows the wall clock.
    pub struct ClockMetrics() {
        difference_nanoseconds: Gauge "tidegate_clock_difference_seconds"
            "How far the wall clock of the host is ahead of the time that records get; negative if it is behind. \
             Beyond an hour it is not followed.";
        jumps: Counter "tidegate_clock_jumps_total" "Jumps of the wall clock by a second or more.";
    }
}

/// The time of a node. One for all its threads.
#[derive(Debug)]
pub struct NodeClock {
    /// What is added to the time since boot, in milliseconds.
    offset_ms: AtomicI64,
}

impl NodeClock {
    /// A clock that agrees with the wall clock now.
    pub fn start() -> NodeClock {
        NodeClock { offset_ms: AtomicI64::new(wall_ms() - since_boot_ms()) }
    }

    /// The time, in milliseconds since the Unix epoch.
    pub fn now(&self) -> TimeMs {
        TimeMs((since_boot_ms() + self.offset_ms.load(Ordering::Relaxed)).max(0) as u64)
    }
}

/// Makes a [`NodeClock`] follow the wall clock, and tells of jumps. Lives on one thread.
pub struct ClockKeeper {
    clock: Arc<NodeClock>,
    follower: Follower,
    metrics: ClockMetrics,
    status: Arc<Status>,
}

impl ClockKeeper {
    /// Begins to follow; `status` is told when the wall clock is too far away for that.
    pub fn new(clock: Arc<NodeClock>, metrics: ClockMetrics, status: Arc<Status>) -> ClockKeeper {
        let follower = Follower::new(clock.offset_ms.load(Ordering::Relaxed), since_boot_ms());
        ClockKeeper { clock, follower, metrics, status }
    }

    /// Looks at the wall clock. Costs two reads of clocks.
    pub fn tick(&mut self) {
        let Some(observed) = self.follower.observe(since_boot_ms(), wall_ms()) else { return };
        self.clock.offset_ms.store(self.follower.offset_ms, Ordering::Relaxed);
        self.metrics.difference_nanoseconds.set(observed.difference_ms.saturating_mul(1_000_000));
        self.status.set_clock_is_off(is_off(observed.difference_ms));
        if let Some(jump_ms) = observed.jump_ms {
            self.metrics.jumps.add(1);
            tell_of_jump(jump_ms, observed.difference_ms);
        }
    }
}

/// Whether a difference is not followed.
fn is_off(difference_ms: i64) -> bool {
    difference_ms.saturating_abs() > FOLLOWED_MAX_MS
}

fn tell_of_jump(jump_ms: i64, difference_ms: i64) {
    if is_off(difference_ms) {
        tracing::error!(
            jump_ms,
            difference_ms,
            "the wall clock jumped and is now more than an hour from the time that records get: it is not followed. \
             Correct the clock of the host; if it is right now, restart the server"
        );
    } else {
        tracing::warn!(jump_ms, difference_ms, "the wall clock jumped; it is followed by 1 ms in 20");
    }
}

/// What one look at the wall clock found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// How far the wall clock is ahead, after the step that was made towards it.
    pub difference_ms: i64,
    /// By how much the wall clock jumped since the last look.
    pub jump_ms: Option<i64>,
}

/// The rule by which an offset follows the wall clock. Knows no clock: both times are arguments.
#[derive(Clone, Copy, Debug)]
pub struct Follower {
    offset_ms: i64,
    observed_at_ms: i64,
    difference_ms: i64,
}

impl Follower {
    /// Begins with an offset with which the clocks agree at `since_boot_ms`.
    pub fn new(offset_ms: i64, since_boot_ms: i64) -> Follower {
        Follower { offset_ms, observed_at_ms: since_boot_ms, difference_ms: 0 }
    }

    /// The time at `since_boot_ms`, in milliseconds since the Unix epoch.
    pub fn time_ms(&self, since_boot_ms: i64) -> i64 {
        since_boot_ms + self.offset_ms
    }

    /// Compares with the wall clock and makes a step towards it. `None` if the last look was less than 100 ms ago.
    pub fn observe(&mut self, since_boot_ms: i64, wall_ms: i64) -> Option<Observed> {
        let elapsed_ms = since_boot_ms - self.observed_at_ms;
        assert!(elapsed_ms >= 0, "the time since boot does not go back");
        if elapsed_ms < OBSERVE_EVERY_MS {
            return None;
        }
        let difference_ms = wall_ms - self.time_ms(since_boot_ms);
        let changed_ms = difference_ms - self.difference_ms;
        let step_max_ms = elapsed_ms / FOLLOW_ONE_IN;
        let step_ms = match difference_ms.abs() <= FOLLOWED_MAX_MS {
            true => difference_ms.clamp(-step_max_ms, step_max_ms),
            false => 0,
        };
        let step_ms = if is_planted(Bug::ClockJumpFollowed) { difference_ms } else { step_ms };
        assert!(step_ms.abs() < elapsed_ms || is_planted(Bug::ClockJumpFollowed), "time goes on");
        self.offset_ms += step_ms;
        self.observed_at_ms = since_boot_ms;
        self.difference_ms = difference_ms - step_ms;
        let jump_ms = (changed_ms.abs() >= JUMP_MIN_MS).then_some(changed_ms);
        Some(Observed { difference_ms: self.difference_ms, jump_ms })
    }
}

/// Milliseconds since the host was started, suspended time included.
fn since_boot_ms() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec to the address that it is given, which is that of a local one.
    let read = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    assert_eq!(read, 0, "Linux has had CLOCK_BOOTTIME since 2.6.39");
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests;

//! When messages of an open load are due, whatever became of those before: the load of people who do not wait for one another.
//!
//! Why: a closed load slows down with the broker and so measures its good moments more often than its bad ones (coordinated
//! omission). Here latency counts from the moment at which a message was due, also when the load itself was late.

use anyhow::{Context, Result};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

/// Evenly spaced times, shared out among publishers in turn.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    interval_ns: f64,
    next: u64,
}

impl Schedule {
    /// Of so many messages a second.
    pub fn new(per_second: f64) -> Schedule {
        Schedule { interval_ns: 1e9 / per_second, next: 0 }
    }

    /// The next message that is due at `now_ns`: its number over all publishers, and when it was due.
    #[inline]
    pub fn due(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let due_ns = (self.next as f64 * self.interval_ns) as u64;
        (due_ns <= now_ns).then(|| {
            self.next += 1;
            (self.next - 1, due_ns)
        })
    }
}

/// Wakes a poll at a steady pace that is finer than the milliseconds of its time-out.
pub struct Ticker(File);

impl Ticker {
    /// Ticking from now on.
    pub fn new(interval: Duration, registry: &Registry, token: Token) -> Result<Ticker> {
        // SAFETY: takes no pointers; the result is checked.
        let descriptor = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error()).context("no timer");
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let interval = libc::timespec { tv_sec: 0, tv_nsec: interval.as_nanos() as libc::c_long };
        let pace = libc::itimerspec { it_interval: interval, it_value: interval };
        // SAFETY: `pace` lives through the call; the old setting is not asked for.
        if unsafe { libc::timerfd_settime(descriptor, 0, &pace, std::ptr::null_mut()) } < 0 {
            return Err(std::io::Error::last_os_error()).context("could not set the timer");
        }
        registry.register(&mut SourceFd(&file.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Ticker(file))
    }

    /// Forgets the ticks that have come, so that the next one wakes again.
    pub fn clear(&mut self) -> Result<()> {
        match self.0.read(&mut [0; 8]) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error).context("could not read the timer"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_load_sends_everything_with_its_own_due_time() {
        let mut schedule = Schedule::new(1_000.0);
        assert_eq!(schedule.due(0), Some((0, 0)));
        assert_eq!(schedule.due(999_999), None);
        let late: Vec<_> = std::iter::from_fn(|| schedule.due(3_000_000)).collect();
        assert_eq!(late, [(1, 1_000_000), (2, 2_000_000), (3, 3_000_000)]);
    }
}

//! Fetch threads: they do reads that may wait for a disk, for workers that must not wait.
//!
//! ```text
//!   worker: submit ─▶ │ jobs, bounded │ ─▶ fetch threads ─▶ │ findings │ ─▶ worker: take   (and wake it, if it sleeps)
//! ```
//!
//! Why threads and not asynchronous reads: the data is nearly always in the page cache, and then a thread is faster.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::limits::JOBS_IN_FLIGHT_MAX;

/// Does one kind of job; owned by its thread.
pub trait Runner<J, F>: Send + 'static {
    /// Does a job.
    fn run(&mut self, job: J) -> F;

    /// Gives back what others may need. Called when no job has come for a while, and from time to time while many do.
    fn rest(&mut self) {}
}

impl<J, F, R: FnMut(J) -> F + Send + 'static> Runner<J, F> for R {
    fn run(&mut self, job: J) -> F {
        self(job)
    }
}

/// How often a runner rests, at least.
const REST_EVERY: Duration = Duration::from_secs(1);

/// The threads that do the jobs of one owner.
pub struct Fetchers<J, F> {
    /// `None` while they end.
    jobs: Option<Sender<J>>,
    found: Receiver<F>,
    /// Findings sent, or about to be, and not taken.
    ready: Arc<AtomicUsize>,
    in_flight: usize,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static, F: Send + 'static> Fetchers<J, F> {
    /// Starts a thread for each of `runners`. `wake` is called on them whenever there is something to take.
    pub fn start(
        name: &str,
        runners: impl IntoIterator<Item: Runner<J, F>>,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Fetchers<J, F>> {
        let (jobs, waiting) = channel::<J>();
        let (sender, found) = channel::<F>();
        let (waiting, wake) = (Arc::new(Mutex::new(waiting)), Arc::new(wake));
        let ready = Arc::new(AtomicUsize::new(0));
        let mut fetchers = Fetchers { jobs: Some(jobs), found, ready, in_flight: 0, threads: Vec::new() };
        for (number, mut runner) in runners.into_iter().enumerate() {
            let (waiting, sender, wake) = (waiting.clone(), sender.clone(), wake.clone());
            let ready = fetchers.ready.clone();
            let thread = thread::Builder::new().name(format!("{name}-{number}")).spawn(move || {
                let mut rested = Instant::now();
                loop {
                    let job = next(&waiting);
                    if rested.elapsed() >= REST_EVERY {
                        runner.rest();
                        rested = Instant::now();
                    }
                    let found = match job {
                        Ok(job) => runner.run(job),
                        Err(RecvTimeoutError::Timeout) => continue,
                        Err(RecvTimeoutError::Disconnected) => break,
                    };
                    // Counted before it can be taken, so that the count is never too low.
                    ready.fetch_add(1, Ordering::SeqCst);
                    if sender.send(found).is_err() {
                        break;
                    }
                    wake();
                }
            })?;
            fetchers.threads.push(thread);
        }
        assert!(!fetchers.threads.is_empty(), "somebody does the jobs");
        Ok(fetchers)
    }

    /// Whether another job may be submitted.
    pub fn has_room(&self) -> bool {
        self.in_flight < JOBS_IN_FLIGHT_MAX
    }

    /// Hands a job over; never waits. The caller has asked [`Fetchers::has_room`].
    pub fn submit(&mut self, job: J) {
        assert!(self.has_room(), "room was asked for");
        let jobs = self.jobs.as_ref().expect("it is open until it is dropped");
        assert!(jobs.send(job).is_ok(), "fetch threads end with their owner");
        self.in_flight += 1;
    }

    /// The findings of a job that is done; jobs end in any order.
    pub fn take(&mut self) -> Option<F> {
        let found = self.found.try_recv().ok()?;
        assert!(self.in_flight > 0, "a job comes back once");
        self.in_flight -= 1;
        let ready = self.ready.fetch_sub(1, Ordering::SeqCst);
        assert!(ready > 0, "a finding is counted before it can be taken");
        Some(found)
    }

    /// Whether [`Fetchers::take`] has something. An owner asks this after it announced sleep: what came before wakes
    /// nobody.
    pub fn has_news(&self) -> bool {
        self.ready.load(Ordering::SeqCst) > 0
    }
}

impl<J, F> Drop for Fetchers<J, F> {
    /// Waits for the jobs under way.
    fn drop(&mut self) {
        drop(self.jobs.take());
        for thread in self.threads.drain(..) {
            assert!(thread.join().is_ok() || thread::panicking(), "a fetch thread panicked");
        }
    }
}

/// The next job, if one comes before it is time to rest.
fn next<J>(waiting: &Mutex<Receiver<J>>) -> Result<J, RecvTimeoutError> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(REST_EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_comes_back_once_and_its_owner_is_woken() {
        let (wake, woken) = channel();
        let runners = (0..3).map(|_| |job: u64| job * 2);
        let wake = Mutex::new(wake);
        let woken_once_each = move || wake.lock().unwrap().send(()).unwrap();
        let mut fetchers = Fetchers::start("test", runners, woken_once_each).unwrap();
        let mut next_job = 0;
        let mut found = Vec::new();
        while found.len() < 1_000 {
            while next_job < 1_000 && fetchers.has_room() {
                fetchers.submit(next_job);
                next_job += 1;
            }
            woken.recv().unwrap();
            assert!(fetchers.has_news() || !found.is_empty());
            while let Some(finding) = fetchers.take() {
                found.push(finding);
            }
        }
        found.sort_unstable();
        assert!(found.into_iter().eq((0..1_000).map(|job| job * 2)));
        assert!(fetchers.take().is_none() && fetchers.has_room());
    }
}

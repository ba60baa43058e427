//! Reads that may wait for a disk: requested by a service, done by another thread, and their results returned.
//!
//! ```text
//!   serve ─▶ Jobs::start ───────▶ │ first │ ─▶ Shard::take_job ═▶ fetch thread: Service::run(job)
//!         ─▶ Jobs::start_later ─▶ │ later │ ─▶ few at a time            └─▶ Shard::fetched ─▶ serve again
//! ```
//!
//! Why: a worker serves a million clients. They must not wait while one page of an old history is read from disk.
//!
//! Why two queues: whoever reads a long history asks for thousands of records, again and again. A job that is short
//! waits for few of those, however many are asked for.

use std::collections::VecDeque;

use crate::limits::{FIRST_JOBS_BEFORE_LATER, LATER_JOBS_OUT_MAX};
use crate::service::Service;

/// Names a job of one shard. Never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

/// The jobs that a shard has begun and whose findings have not come back.
pub struct Jobs<S: Service> {
    begun: u64,
    returned: u64,
    waiting: VecDeque<(JobId, S::Job)>,
    /// Those that may wait, and what each is for.
    later: VecDeque<(u64, JobId, S::Job)>,
    /// Of those, which are out now.
    later_out: Vec<(u64, JobId)>,
    /// Others taken since the last of those.
    taken_before: usize,
}

impl<S: Service> Default for Jobs<S> {
    fn default() -> Jobs<S> {
        Jobs {
            begun: 0,
            returned: 0,
            waiting: VecDeque::new(),
            later: VecDeque::new(),
            later_out: Vec::new(),
            taken_before: 0,
        }
    }
}

impl<S: Service> Jobs<S> {
    /// Begins a job; its findings come to [`Service::fetched`].
    pub fn start(&mut self, job: S::Job) -> JobId {
        let id = self.begin();
        assert!(self.waiting.back().is_none_or(|(last, _)| last.0 < id.0), "jobs are numbered in their order");
        self.waiting.push_back((id, job));
        id
    }

    /// The same for a long job that others go before. Those of one `key` leave the threads to those of another.
    pub fn start_later(&mut self, key: u64, job: S::Job) -> JobId {
        let id = self.begin();
        self.later.push_back((key, id, job));
        id
    }

    fn begin(&mut self) -> JobId {
        self.begun += 1;
        JobId(self.begun)
    }

    /// Jobs begun and not brought back.
    pub fn open(&self) -> usize {
        assert!(self.returned <= self.begun, "a job comes back once");
        (self.begun - self.returned) as usize
    }

    /// The next job; of those that may wait, few are out at a time.
    pub(crate) fn take(&mut self) -> Option<(JobId, S::Job)> {
        if self.taken_before >= FIRST_JOBS_BEFORE_LATER
            && let Some(job) = self.take_later()
        {
            return Some(job);
        }
        let Some((id, job)) = self.waiting.pop_front() else { return self.take_later() };
        assert!(id.0 <= self.begun, "a job was begun");
        self.taken_before += 1;
        Some((id, job))
    }

    fn take_later(&mut self) -> Option<(JobId, S::Job)> {
        if self.later_out.len() >= LATER_JOBS_OUT_MAX {
            return None;
        }
        let is_out = |key: u64| self.later_out.iter().any(|(out, _)| *out == key);
        let place = self.later.iter().position(|(key, ..)| !is_out(*key)).unwrap_or(0);
        let (key, id, job) = self.later.remove(place)?;
        self.later_out.push((key, id));
        self.taken_before = 0;
        Some((id, job))
    }

    pub(crate) fn note_return(&mut self, job: JobId) {
        assert!(self.returned < self.begun, "a job comes back once");
        self.returned += 1;
        self.later_out.retain(|(_, out)| *out != job);
    }
}

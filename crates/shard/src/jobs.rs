//! Reads that may wait for a disk: requested by a service, done by another thread, and their results returned.
//!
//! ```text
//!   serve ─▶ Jobs::start ─▶ Shard::take_job ═▶ fetch thread: Service::run(job) ═▶ Shard::fetched ─▶ serve again
//! ```
//!
//! Why: a worker serves a million clients. They must not wait while one page of an old history is read from disk.

use std::collections::VecDeque;

use crate::service::Service;

/// Names a job of one shard. Never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(u64);

/// The jobs that a shard has begun and whose findings have not come back.
pub struct Jobs<S: Service> {
    begun: u64,
    returned: u64,
    waiting: VecDeque<(JobId, S::Job)>,
}

impl<S: Service> Default for Jobs<S> {
    fn default() -> Jobs<S> {
        Jobs { begun: 0, returned: 0, waiting: VecDeque::new() }
    }
}

impl<S: Service> Jobs<S> {
    /// Begins a job; its findings come to [`Service::fetched`].
    pub fn start(&mut self, job: S::Job) -> JobId {
        self.begun += 1;
        let id = JobId(self.begun);
        assert!(self.waiting.back().is_none_or(|(last, _)| last.0 < id.0), "jobs are numbered in their order");
        self.waiting.push_back((id, job));
        id
    }

    /// Jobs begun and not brought back.
    pub fn open(&self) -> usize {
        assert!(self.returned <= self.begun, "a job comes back once");
        (self.begun - self.returned) as usize
    }

    pub(crate) fn take(&mut self) -> Option<(JobId, S::Job)> {
        let job = self.waiting.pop_front();
        assert!(job.as_ref().is_none_or(|(id, _)| id.0 <= self.begun), "a job was begun");
        job
    }

    pub(crate) fn note_return(&mut self) {
        assert!(self.returned < self.begun, "a job comes back once");
        self.returned += 1;
    }
}

//! A shard: takes calls, lets its service decide them, appends the events, and answers when they are durable.
//!
//! ```text
//!   call ─▶ Inbox ─▶ Service::serve ─▶ Turn::append ─▶ answer waits in the CommitQueue
//!             │ ▲ resumed                │ submit, when the log is ready     │
//!             ▼ │                        ▼                                   ▼
//!         waits for a job        one group syncs, the next one fills     durable: `released`, in order
//!         waits for the disk
//! ```
//!
//! Promise: nothing is released that a crash could undo. The state is ahead of the disk by at most the groups in
//! flight, and every answer computed from it waits for them. Calls of one caller that write are decided in the order in
//! which they came, and callers take turns (see [`crate::inbox`]).
//!
//! Invariant: no thread, clock or socket here; a worker steps it with the time of its loop, a simulator with simulated
//! time. Nothing here knows what a call means.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tidegate_journal::{JournalError, LogStore, Sequence};
use tidegate_machines::{Machine, ShardIndex, TimeMs};
use tidegate_planted::{BalanceChange, Bug, is_planted};

use crate::commit::{CommitQueue, Durable};
use crate::inbox::{Caller, Inbox};
use crate::jobs::{JobId, Jobs};
use crate::limits::{BLOCKED_CALLS_MAX, LARGE_CALL_WORK, LOOK_AHEAD_CALLS, LOOK_AHEAD_WORK, READING_WORK_MAX};
use crate::service::{MachineOf, Pause, Served, Service, Unsolicited};
use crate::state_clock::StateClock;
use crate::turn::Core;
use crate::unavailable::Unavailable;

/// What a shard counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardFacts {
    /// Records appended.
    pub records: u64,
    /// Groups submitted.
    pub groups: u64,
    /// Calls refused without being served.
    pub unavailable: u64,
    /// Calls waiting to be served now, those put aside included.
    pub inbox: u64,
    /// Calls that wait for room on a full disk, besides.
    pub blocked: u64,
    /// Answers waiting for durability now.
    pub waiting: u64,
    /// Reads in progress on other threads now.
    pub jobs: u64,
    /// By how much the shard's time is ahead of its owner's, in milliseconds: the newest record was ahead at the start.
    pub time_ahead_ms: u64,
    /// The time of the newest record.
    pub newest: TimeMs,
}

/// What leaves a shard: the ticket of a call, and its durable answer or why there is none.
pub type Released<S> = (<S as Service>::Ticket, Result<Durable<<S as Service>::Answer>, Unavailable>);

/// What waits for durability: for whom, and the answer or why there is none.
type Waiting<S> = (<S as Service>::Ticket, Result<<S as Service>::Answer, Unavailable>);

/// A call in progress.
struct Work<S: Service> {
    ticket: S::Ticket,
    call: S::Call,
    progress: S::Progress,
    weight: usize,
    /// Its reads have begun; its work is among [`Shard::reading_work`].
    reads: bool,
}

impl<S: Service> Work<S> {
    fn caller(&self) -> Caller {
        S::caller(&self.call, &self.ticket)
    }

    fn work(&self) -> usize {
        S::work(&self.call)
    }
}

/// One shard: its machine, its log, its service, and what waits between them.
pub struct Shard<S: Service, L: LogStore> {
    index: ShardIndex,
    core: Core<MachineOf<S>, L>,
    clock: StateClock,
    service: S,
    inbox: Inbox<Work<S>>,
    inbox_bytes: usize,
    /// The call that comes first in the next step: it waits for room, or is a large one.
    next: Option<Work<S>>,
    /// Callers that are held, by the jobs for which their first calls wait.
    held_for: BTreeMap<JobId, Caller>,
    /// Callers whose calls behind the first one may begin their reads, if they are still held.
    look_ahead: VecDeque<Caller>,
    /// Work of calls whose reads have begun.
    reading_work: usize,
    /// Callers that are held because that is too much.
    crowded: Vec<Caller>,
    /// Calls that let others pass, and the jobs for which they wait.
    aside: Vec<(JobId, Work<S>)>,
    /// Of those, whose findings are there.
    resumed: VecDeque<Work<S>>,
    /// Calls that wait for room on a full disk, in order. They are not among the inbox and its bytes.
    blocked: VecDeque<Work<S>>,
    jobs: Jobs<S>,
    unsolicited: Unsolicited<S>,
    commits: CommitQueue<Waiting<S>>,
    /// Turned away on arrival.
    turned_away: VecDeque<(S::Ticket, Unavailable)>,
    /// What waited when the shard stopped, in order.
    abandoned: VecDeque<S::Ticket>,
    unavailable: u64,
    failed: Option<Arc<S::Stop>>,
}

impl<S: Service, L: LogStore> Shard<S, L> {
    /// A shard over recovered state: `state` (and whatever `service` keeps beside it) holds everything that `log` has.
    pub fn new(index: ShardIndex, state: MachineOf<S>, service: S, log: L) -> Result<Shard<S, L>, JournalError> {
        let clock = StateClock::new(state.time());
        let core = Core::new(state, log)?;
        assert!(core.durable().sequence() == core.appended(), "what was replayed is durable");
        Ok(Shard {
            index,
            commits: CommitQueue::new(core.appended()),
            core,
            clock,
            service,
            inbox: Inbox::default(),
            inbox_bytes: 0,
            next: None,
            held_for: BTreeMap::new(),
            look_ahead: VecDeque::new(),
            reading_work: 0,
            crowded: Vec::new(),
            aside: Vec::new(),
            resumed: VecDeque::new(),
            blocked: VecDeque::new(),
            jobs: Jobs::default(),
            unsolicited: Unsolicited(Vec::new()),
            turned_away: VecDeque::new(),
            abandoned: VecDeque::new(),
            unavailable: 0,
            failed: None,
        })
    }

    /// Takes a call, to be served by [`Shard::step`]. `ticket` comes back with the answer.
    ///
    /// Takes it in any case: a caller that has more to bring looks at [`Shard::has_room`] first.
    pub fn call(&mut self, ticket: S::Ticket, call: S::Call) {
        if self.failed.is_some() {
            self.abandoned.push_back(ticket);
            return;
        }
        let progress = match self.service.admit(&call, self.core.is_stuck()) {
            Ok(progress) => progress,
            Err(reason) => return self.turned_away.push_back((ticket, reason)),
        };
        let (caller, work, weight) = (S::caller(&call, &ticket), S::work(&call), S::weight(&call));
        self.inbox_bytes += weight;
        self.inbox.push(caller, work, Work { ticket, call, progress, weight, reads: false });
        if !self.held_for.is_empty() && self.inbox.held(caller).next().is_some() {
            self.look_ahead.push_back(caller);
        }
    }

    /// Gives callers other rounds than [`WORK_IN_ROUND`](crate::limits::WORK_IN_ROUND), in a world whose calls are
    /// small. To be said before there are calls.
    pub fn set_round(&mut self, work: isize) {
        assert!(self.inbox.len() == 0, "there are no calls yet");
        self.inbox = Inbox::with_round(work);
    }

    /// Takes a message that is no call: it is acted upon in the next step.
    pub fn note(&mut self, note: S::Note) {
        match self.failed {
            None => self.service.note(note),
            Some(_) => self.abandoned.extend(S::asker(note)),
        }
    }

    /// Does what can be done now: serves calls, submits a group, notes what became durable. Returns whether anything
    /// happened. A failure of the log, or a stop by the service, is for good: all waiting calls get that as their
    /// answer from [`Shard::released`].
    pub fn step(&mut self, now: TimeMs) -> bool {
        if self.failed.is_some() {
            return false;
        }
        self.try_step(now).unwrap_or_else(|stop| {
            self.fail(stop);
            true
        })
    }

    fn try_step(&mut self, now: TimeMs) -> Result<bool, S::Stop> {
        let now = self.clock.time(now);
        let mut worked = self.poll()?;
        worked |= self.service.before(&mut self.core.turn(now))?;
        worked |= self.serve_resumed(now)?;
        let (unblocked, may_go_on) = self.serve_blocked(now)?;
        worked |= unblocked;
        if may_go_on {
            worked |= self.serve_inbox(now)?;
        }
        worked |= self.service.after(&mut self.core.turn(now), &mut self.unsolicited, &mut self.jobs)?;
        self.queue_unsolicited();
        worked |= self.core.submit()?;
        worked |= self.poll()?;
        self.service.durable(&self.core.durable())?;
        Ok(worked)
    }

    /// Notes how far the log is durable; whether that is further than it was.
    fn poll(&mut self) -> Result<bool, JournalError> {
        let news = self.core.poll()?;
        let durable = match is_planted(Bug::ReplyBeforeSync) {
            true => self.core.log.last_sequence(),
            false => self.core.durable().sequence(),
        };
        assert!(durable <= self.core.appended(), "nothing is durable that was not appended");
        self.commits.advance(durable);
        Ok(news)
    }

    /// Serves those that waited for the disk, in order. Whether there were any, and whether those behind them may be
    /// served.
    fn serve_blocked(&mut self, now: TimeMs) -> Result<(bool, bool), S::Stop> {
        let mut worked = false;
        while let Some(mut work) = self.blocked.pop_front() {
            match self.serve(&mut work, now) {
                Ok(Served::Done(answer)) => self.answer_blocked(work, Ok(answer)),
                Ok(Served::TurnedAway(reason)) => self.answer_blocked(work, Err(reason)),
                Ok(Served::Paused(pause)) => {
                    assert!(
                        matches!(pause, Pause::Disk | Pause::Room | Pause::Step),
                        "who waits for the disk reads nothing"
                    );
                    self.blocked.push_front(work);
                    return Ok((worked, pause == Pause::Disk));
                }
                Err(stop) => {
                    self.blocked.push_front(work);
                    return Err(stop);
                }
            }
            worked = true;
        }
        Ok((worked, true))
    }

    /// Its bytes left the inbox when it began to wait for the disk.
    fn answer_blocked(&mut self, work: Work<S>, answer: Result<S::Answer, Unavailable>) {
        self.inbox_bytes += work.weight;
        self.answer(work, answer);
    }

    /// Serves callers in turn until no call waits that may be served, or one must wait for room, or as much was done as
    /// a step may do, or a large one comes behind those of other callers: what these were answered is submitted first,
    /// and the large one begins the next step.
    fn serve_inbox(&mut self, now: TimeMs) -> Result<bool, S::Stop> {
        let mut worked = self.look_ahead(now);
        let (mut first_served, mut work_done) = (None, 0);
        while let Some(mut work) = self.next.take().or_else(|| self.take_from_inbox()) {
            let caller = work.caller();
            if *first_served.get_or_insert(caller) != caller && work.work() > LARGE_CALL_WORK {
                self.next = Some(work);
                return Ok(true);
            }
            work_done += work.work();
            match self.serve(&mut work, now) {
                Ok(Served::Done(answer)) => self.answer(work, Ok(answer)),
                Ok(Served::TurnedAway(reason)) => self.answer(work, Err(reason)),
                Ok(Served::Paused(Pause::Aside(job))) => self.aside.push((job, work)),
                Ok(Served::Paused(Pause::Fetch(job))) => self.hold(work, job),
                Ok(Served::Paused(Pause::Disk)) => {
                    assert!(work.weight <= self.inbox_bytes, "what leaves the inbox was counted when it came");
                    self.inbox_bytes -= work.weight;
                    self.blocked.push_back(work);
                    continue;
                }
                Ok(Served::Paused(Pause::Step)) => {
                    self.inbox.put_back(caller, work);
                    return Ok(worked);
                }
                Ok(Served::Paused(Pause::Room)) => {
                    self.next = Some(work);
                    return Ok(worked);
                }
                // Its caller gets "shard failed", like all others.
                Err(stop) => {
                    self.next = Some(work);
                    return Err(stop);
                }
            }
            worked = true;
            if work_done >= S::WORK_IN_STEP_MAX {
                return Ok(true);
            }
        }
        assert!(self.calls_waiting() > 0 || self.inbox_bytes == 0, "no calls have no bytes");
        Ok(worked)
    }

    /// The next call. While too much is read, only of those whose reads have begun.
    fn take_from_inbox(&mut self) -> Option<Work<S>> {
        loop {
            let work = self.inbox.take_next()?;
            if work.reads || self.reading_work < READING_WORK_MAX {
                return Some(work);
            }
            let caller = work.caller();
            self.inbox.hold(caller, work);
            self.crowded.push(caller);
        }
    }

    fn serve(&mut self, work: &mut Work<S>, now: TimeMs) -> Result<Served<S::Answer>, S::Stop> {
        self.service.serve(&mut self.core.turn(now), &work.call, &mut work.progress, &mut self.jobs)
    }

    /// Lets a call wait for a job, and its caller's others behind it.
    fn hold(&mut self, mut work: Work<S>, job: JobId) {
        let caller = work.caller();
        if !std::mem::replace(&mut work.reads, true) {
            self.reading_work += work.work();
        }
        self.inbox.hold(caller, work);
        self.look_ahead.push_back(caller);
        let before = self.held_for.insert(job, caller);
        assert!(before.is_none(), "one call waits for a job");
    }

    /// While a caller's first call waits for its reads, those behind it begin theirs, one call a step. Returns whether
    /// one did.
    fn look_ahead(&mut self, now: TimeMs) -> bool {
        while self.reading_work < READING_WORK_MAX
            && let Some(caller) = self.look_ahead.pop_front()
        {
            let mut held = self.inbox.held(caller);
            // Who is held because too much is read has begun no read.
            if held.next().is_none_or(|first| !first.reads) {
                continue;
            }
            let (mut calls_ahead, mut work_ahead) = (0, 0);
            let next = held.find(|work| {
                (calls_ahead, work_ahead) = (calls_ahead + 1, work_ahead + work.work());
                !work.reads
            });
            let Some(work) = next else { continue };
            if calls_ahead > LOOK_AHEAD_CALLS || calls_ahead > 1 && work_ahead > LOOK_AHEAD_WORK {
                continue;
            }
            self.service.prepare(&self.core.turn(now), &work.call, &mut work.progress, &mut self.jobs);
            work.reads = true;
            self.reading_work += work.work();
            self.look_ahead.push_back(caller);
            return true;
        }
        false
    }

    /// Goes on with those put aside whose findings are there. Their answers wait, like others, for all that was
    /// appended by now.
    fn serve_resumed(&mut self, now: TimeMs) -> Result<bool, S::Stop> {
        let mut worked = false;
        for _ in 0..self.resumed.len() {
            let mut work = self.resumed.pop_front().expect("counted above");
            worked = true;
            match self.serve(&mut work, now) {
                Ok(Served::Done(answer)) => self.answer(work, Ok(answer)),
                Ok(Served::TurnedAway(reason)) => self.answer(work, Err(reason)),
                Ok(Served::Paused(Pause::Aside(job))) => self.aside.push((job, work)),
                Ok(Served::Paused(pause)) => unreachable!("what was put aside writes nothing, but waits for {pause:?}"),
                Err(stop) => {
                    self.resumed.push_front(work);
                    return Err(stop);
                }
            }
        }
        Ok(worked)
    }

    fn answer(&mut self, work: Work<S>, answer: Result<S::Answer, Unavailable>) {
        assert!(work.weight <= self.inbox_bytes, "what leaves the inbox was counted when it came");
        self.inbox_bytes -= work.weight;
        if work.reads {
            self.reading_work -= work.work();
            if self.reading_work <= READING_WORK_MAX / 2 {
                self.crowded.drain(..).for_each(|caller| self.inbox.release(caller));
            }
        }
        self.unavailable += u64::from(answer.is_err());
        self.commits.wait_for(self.core.appended(), (work.ticket, answer));
    }

    fn queue_unsolicited(&mut self) {
        let appended = self.core.appended();
        for (ticket, answer) in self.unsolicited.0.drain(..) {
            self.commits.wait_for(appended, (ticket, Ok(answer)));
        }
        assert!(self.unsolicited.0.is_empty(), "all that departs waits for its sequence");
    }

    /// Stops the shard. All waiting calls are answered with "unknown": their records may or may not be on disk.
    fn fail(&mut self, stop: S::Stop) {
        assert!(self.failed.is_none(), "a shard fails once");
        self.failed = Some(Arc::new(stop));
        (self.inbox_bytes, self.reading_work) = (0, 0);
        self.look_ahead.clear();
        let held = std::mem::take(&mut self.held_for).into_values().chain(self.crowded.drain(..));
        held.for_each(|caller| self.inbox.release(caller));
        let aside = self.aside.drain(..).map(|(_, work)| work);
        let waiting = self.next.take().into_iter().chain(std::iter::from_fn(|| self.inbox.take_next()));
        let undecided = self.resumed.drain(..).chain(aside).chain(self.blocked.drain(..)).chain(waiting);
        let undurable = self.commits.abandon_undurable().map(|(ticket, _)| ticket);
        let unsolicited = self.unsolicited.0.drain(..).map(|(ticket, _)| ticket);
        let undecided = undecided.map(|work| work.ticket);
        self.abandoned.extend(undurable.chain(undecided).chain(unsolicited).chain(self.service.give_up()));
        assert!(self.calls_waiting() == 0, "whoever waits is told");
    }

    /// The next answer: those refused on arrival first, then the others in the order in which they were decided,
    /// each once all that it rests on is durable.
    pub fn released(&mut self) -> Option<Released<S>> {
        if let Some((ticket, reason)) = self.turned_away.pop_front() {
            self.unavailable += 1;
            return Some((ticket, Err(reason)));
        }
        if let Some(answer) = self.commits.release() {
            let (ticket, answer) = answer.detach();
            return Some((ticket, answer.transpose()));
        }
        let ticket = self.abandoned.pop_front()?;
        self.unavailable += 1;
        Some((ticket, Err(Unavailable::ShardFailed)))
    }

    /// The next read that another thread should do, by [`Service::run`]; its findings come back by [`Shard::fetched`].
    pub fn take_job(&mut self) -> Option<(JobId, S::Job)> {
        self.jobs.take()
    }

    /// Takes what a job found, in any order of jobs.
    pub fn fetched(&mut self, job: JobId, found: S::Fetched) {
        self.jobs.note_return(job);
        if self.failed.is_some() {
            return;
        }
        self.service.fetched(job, found);
        if let Some(caller) = self.held_for.remove(&job) {
            self.inbox.release(caller);
        } else if let Some(at) = self.aside.iter().position(|(awaited, _)| *awaited == job) {
            let (_, work) = self.aside.remove(at);
            self.resumed.push_back(work);
        }
    }

    /// Whether a caller should bring more. Bounds what waits undecided; what is decided is bounded by the groups in
    /// flight.
    pub fn has_room(&self) -> bool {
        self.calls_waiting() < S::CALLS_WAITING_MAX
            && self.inbox_bytes < S::CALL_BYTES_WAITING_MAX
            && self.blocked.len() < BLOCKED_CALLS_MAX
    }

    fn calls_waiting(&self) -> usize {
        usize::from(self.next.is_some()) + self.inbox.len() + self.aside.len() + self.resumed.len()
    }

    /// Whether a step would find something new: the log became durable further, or a read came back. An owner asks this
    /// after it announced sleep: news that came before the announcement cause no wake-up.
    pub fn has_news(&self) -> bool {
        self.failed.is_none() && (self.core.log.has_news() || !self.resumed.is_empty())
    }

    /// Whether everything was decided, synced and released.
    pub fn is_idle(&self) -> bool {
        let waits = self.calls_waiting() > 0
            || !self.blocked.is_empty()
            || !self.service.is_idle()
            || !self.core.is_group_empty()
            || !self.commits.is_empty();
        self.turned_away.is_empty() && self.abandoned.is_empty() && (self.failed.is_some() || !waits)
    }

    /// Which shard this is.
    pub fn index(&self) -> ShardIndex {
        self.index
    }

    /// The machine's state, ahead of the disk by the groups in flight.
    pub fn state_ahead(&self) -> &MachineOf<S> {
        &self.core.state
    }

    /// The machine's state, to be harmed by a test: a release has no value of the argument's type, and so no call of
    /// this.
    pub fn state_to_tamper_with(&mut self, _order: &BalanceChange) -> &mut MachineOf<S> {
        &mut self.core.state
    }

    /// What the family keeps beside its machine.
    pub fn service(&self) -> &S {
        &self.service
    }

    /// The same, to set what may change while it serves.
    pub fn service_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// Up to where the log is durable, as of the last step: what [`Shard::state_ahead`] shows of later records may
    /// still be lost.
    pub fn durable(&self) -> Sequence {
        self.commits.durable()
    }

    /// Sequence of the last record appended.
    pub fn appended(&self) -> Sequence {
        self.core.appended()
    }

    /// Why the shard stopped, if it did.
    pub fn failure(&self) -> Option<&Arc<S::Stop>> {
        self.failed.as_ref()
    }

    /// What was counted.
    pub fn facts(&self) -> ShardFacts {
        let (records, groups) = self.core.counts();
        ShardFacts {
            records,
            groups,
            unavailable: self.unavailable,
            inbox: self.calls_waiting() as u64,
            blocked: self.blocked.len() as u64,
            waiting: (self.commits.len() + self.abandoned.len() + self.turned_away.len()) as u64,
            jobs: self.jobs.open() as u64,
            time_ahead_ms: self.clock.ahead_ms(),
            newest: self.core.state.time(),
        }
    }

    /// The log: an owner takes its facts and sets its wake, a simulator steps it.
    pub fn log_mut(&mut self) -> &mut L {
        &mut self.core.log
    }

    /// Gives the log back, to close it; what waits unanswered is dropped.
    pub fn into_log(self) -> L {
        self.core.log
    }
}

#[cfg(test)]
mod tests;

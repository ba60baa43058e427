//! A shard of topics: sessions, their inboxes, retained messages. Decides what is asked, appends what it decided, and answers when
//! that is durable.
//!
//! ```text
//!   Command ─▶ inbox ─▶ decide ─▶ append to the filling group ─▶ apply ─▶ answer waits in the CommitQueue
//!                                     │ submit, when the log is ready          │
//!                                     ▼                                        ▼
//!                              one group syncs, the next one fills      durable: `released`, in order
//!
//!   start-up:    newest good snapshot ─▶ replay of the log behind it
//!   meanwhile:   compact (another thread, files only): snapshot + sealed segments ─▶ newer snapshot, log forgets
//! ```
//!
//! Promise: nothing is released that a crash could take back, and everything in the order in which it was asked. State runs ahead of
//! the disk by at most the groups in flight.
//!
//! Invariant: no thread, clock or socket here; a broker steps it with the time of its loop, the simulator with its own. Nothing
//! here knows what a subscription or a message means.

pub mod audit;
mod command;
mod compact;
mod fold;
mod replay;
mod snapshot;

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_journal::{JournalError, LogStore, NoRoom, Sequence};
use tidegate_machines::topic::{Command, Event, InboxLimits, Refusal, Topics};
use tidegate_machines::{ShardIndex, TimeMs};

use crate::commit::{CommitQueue, Durable};
use crate::limits::{TOPIC_COMMAND_BYTES_WAITING_MAX, TOPIC_COMMANDS_WAITING_MAX};
use crate::log_writer::LogWriter;
use crate::message::Unavailable;

pub use compact::{CompactError, Compaction, compact};
pub use fold::FoldError;
pub use replay::{ReplayReport, Start, replay, start};

/// What came of a command: a record, or the reason why there is none.
#[derive(Clone, Debug)]
pub enum Decided {
    /// It was decided, journaled and applied.
    Done {
        /// Number of its record in the shard's log; a session's incarnation is that of its opening.
        sequence: Sequence,
        /// What happened.
        event: Event,
    },
    /// The state forbids it; nothing was journaled.
    Refused(Refusal),
    /// Its record would be larger than a record may be; nothing was journaled.
    TooLarge,
}

/// The answer to one command: what was decided, durable, or why nothing was.
pub type Released = Result<Durable<Decided>, Unavailable>;

/// What a shard of topics counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicShardFacts {
    /// Records appended.
    pub records: u64,
    /// Groups submitted.
    pub groups: u64,
    /// Commands refused by the state, or too large.
    pub refused: u64,
    /// Commands turned away because of the disk.
    pub unavailable: u64,
    /// Commands that wait to be decided now.
    pub inbox: u64,
    /// Decisions that wait for durability now.
    pub waiting: u64,
}

/// One shard of topics: its machine, its log, and what waits between them. `T` is what the owner knows a command by.
pub struct TopicShard<L: LogStore, T> {
    index: ShardIndex,
    state: Topics,
    limits: InboxLimits,
    writer: LogWriter<L>,
    inbox: VecDeque<(Command, T)>,
    inbox_bytes: usize,
    /// The first command of the inbox was decided and waits for an empty group and room on the disk: not decided again until then.
    waits_for_group: bool,
    commits: CommitQueue<(T, Result<Decided, Unavailable>)>,
    /// What waited when the log failed, in order.
    abandoned: VecDeque<T>,
    facts: TopicShardFacts,
    failed: Option<Arc<JournalError>>,
}

impl<L: LogStore, T> TopicShard<L, T> {
    /// A shard over recovered state: `state` holds everything that `log` has (see [`replay`]).
    pub fn new(index: ShardIndex, state: Topics, log: L, limits: InboxLimits) -> TopicShard<L, T> {
        let writer = LogWriter::new(log);
        TopicShard {
            index,
            state,
            limits,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            waits_for_group: false,
            commits: CommitQueue::new(writer.appended()),
            writer,
            abandoned: VecDeque::new(),
            facts: TopicShardFacts::default(),
            failed: None,
        }
    }

    /// Takes a command, to be decided in order by [`TopicShard::step`]. `ticket` comes back with the answer.
    ///
    /// Always takes it: a caller that has more to bring looks at [`TopicShard::has_room`] first.
    pub fn call(&mut self, command: Command, ticket: T) {
        if self.failed.is_some() {
            self.abandoned.push_back(ticket);
            return;
        }
        self.inbox_bytes += command::bytes_of(&command);
        self.inbox.push_back((command, ticket));
    }

    /// Does what can be done now: decides, submits a group, notes what became durable. Returns whether anything happened. A failure
    /// of the log stops the shard for good: all that waits is told so by [`TopicShard::released`].
    pub fn step(&mut self, now: TimeMs) -> bool {
        if self.failed.is_some() {
            return false;
        }
        self.try_step(now).unwrap_or_else(|error| {
            self.fail(error);
            true
        })
    }

    fn try_step(&mut self, now: TimeMs) -> Result<bool, JournalError> {
        let mut worked = self.poll()?;
        worked |= self.serve_inbox(now);
        worked |= self.writer.submit()?;
        worked |= self.poll()?;
        Ok(worked)
    }

    /// The next answer, in the order of the calls: durable, or turned away.
    pub fn released(&mut self) -> Option<(T, Released)> {
        if let Some(answer) = self.commits.release() {
            let (ticket, answer) = answer.detach();
            return Some((ticket, answer.transpose()));
        }
        let ticket = self.abandoned.pop_front()?;
        self.facts.unavailable += 1;
        Some((ticket, Err(Unavailable::ShardFailed)))
    }

    /// Notes how far the log is durable; whether that frees an answer.
    fn poll(&mut self) -> Result<bool, JournalError> {
        let before = self.commits.durable();
        let durable = self.writer.poll_durable()?;
        self.commits.advance(durable);
        Ok(durable > before)
    }

    /// Decides in order until the inbox is empty, the group is full, or the disk is.
    fn serve_inbox(&mut self, now: TimeMs) -> bool {
        let mut worked = false;
        while let Some((command, ticket)) = self.inbox.pop_front() {
            let bytes = command::bytes_of(&command);
            match self.serve(&command, now) {
                Some(answer) => {
                    self.inbox_bytes -= bytes;
                    self.commits.wait_for(self.writer.appended(), (ticket, answer));
                    worked = true;
                }
                None => {
                    self.inbox.push_front((command, ticket));
                    break;
                }
            }
        }
        worked
    }

    /// The answer to `command`; `None` when it must wait.
    fn serve(&mut self, command: &Command, now: TimeMs) -> Option<Result<Decided, Unavailable>> {
        if self.waits_for_group && !(self.writer.group().is_empty() && self.writer.may_append(1)) {
            return None;
        }
        self.waits_for_group = false;
        let event = match self.state.decide(command, &self.limits, now) {
            Ok(event) => event,
            Err(refusal) => {
                self.facts.refused += 1;
                return Some(Ok(Decided::Refused(refusal)));
            }
        };
        if self.writer.group().is_empty() && !self.writer.may_append(1) {
            // A full disk has an end that nobody knows. What only takes note of what has happened waits for it: it is bounded by
            // what is under way, and it is what makes room again. Whoever brings something new is told.
            if command::brings(command) {
                self.facts.unavailable += 1;
                return Some(Err(Unavailable::DiskFull));
            }
            self.waits_for_group = true;
            return None;
        }
        match self.writer.try_append(|buffer| event.encode(buffer)) {
            Ok(sequence) => {
                self.state.apply(&event, sequence.0);
                self.facts.records += 1;
                Some(Ok(Decided::Done { sequence, event }))
            }
            Err(NoRoom::Here) => {
                self.waits_for_group = true;
                None
            }
            Err(NoRoom::Ever) => {
                self.facts.refused += 1;
                Some(Ok(Decided::TooLarge))
            }
        }
    }

    /// Stops for good. What waits is told that nobody knows: its records may or may not be on the disk.
    fn fail(&mut self, error: JournalError) {
        self.failed = Some(Arc::new(error));
        self.inbox_bytes = 0;
        let undecided = self.inbox.drain(..).map(|(_, ticket)| ticket);
        self.abandoned.extend(self.commits.abandon_undurable().map(|(ticket, _)| ticket).chain(undecided));
    }

    /// Whether a caller should bring more. Bounds what waits undecided; what is decided is bounded by the groups in flight.
    pub fn has_room(&self) -> bool {
        self.inbox.len() < TOPIC_COMMANDS_WAITING_MAX && self.inbox_bytes < TOPIC_COMMAND_BYTES_WAITING_MAX
    }

    /// Whether the log became durable further since the last step. An owner asks this after it announced sleep: news that came
    /// before the announcement wake nobody.
    pub fn has_news(&self) -> bool {
        self.failed.is_none() && self.writer.log().has_news()
    }

    /// Whether everything was decided, synced and released.
    pub fn is_idle(&self) -> bool {
        let waits = !self.inbox.is_empty() || !self.writer.group().is_empty() || !self.commits.is_empty();
        self.abandoned.is_empty() && (self.failed.is_some() || !waits)
    }

    /// Which shard this is.
    pub fn index(&self) -> ShardIndex {
        self.index
    }

    /// The machine's state, ahead of the disk by the groups in flight.
    pub fn state(&self) -> &Topics {
        &self.state
    }

    /// Up to where the log is durable, as of the last step: what [`TopicShard::state`] shows of later records may still be lost.
    pub fn durable(&self) -> Sequence {
        self.commits.durable()
    }

    /// Sequence of the last record appended.
    pub fn appended(&self) -> Sequence {
        self.writer.appended()
    }

    /// Bounds of inboxes from now on.
    pub fn set_limits(&mut self, limits: InboxLimits) {
        self.limits = limits;
    }

    /// Why the shard stopped, if it did.
    pub fn failure(&self) -> Option<&Arc<JournalError>> {
        self.failed.as_ref()
    }

    /// What was counted.
    pub fn facts(&self) -> TopicShardFacts {
        TopicShardFacts {
            groups: self.writer.groups(),
            inbox: self.inbox.len() as u64,
            waiting: (self.commits.len() + self.abandoned.len()) as u64,
            ..self.facts
        }
    }

    /// The log (a node drains its facts; a simulator steps it).
    pub fn log_mut(&mut self) -> &mut L {
        self.writer.log_mut()
    }

    /// Gives the log back, to close it; what waits unanswered is dropped.
    pub fn into_log(self) -> L {
        self.writer.into_log()
    }
}

#[cfg(test)]
mod tests;

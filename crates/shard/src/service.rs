//! What a user brings to a shard besides its machine: how calls are served, and what else is done in a step.
//!
//! ```text
//!                 ┌─ before ─ serve … serve ─ after ─┐         one step
//!   call, note ─▶ │  Turn: state, room, append       │ ─▶ answers wait until durable ─▶ Shard::released
//!                 └──────────────┬───────────────────┘
//!                                └─ Jobs: reads that may wait, done elsewhere; `fetched` returns their results
//! ```
//!
//! Why hooks and not a machine alone: an index on disk, credits between shards or a table of waiting callers do not
//! follow from the log, so they cannot be in a pure machine; and a shard must not know that they exist.
//!
//! If each call is one command of the machine, none of this is needed: see [`crate::single`].

use std::error::Error;

use tidegate_journal::{Durability, Family, JournalError, LogReader, LogStore};
use tidegate_machines::{Machine, TimeMs};

use crate::compact::CompactionRule;
use crate::inbox::Caller;
use crate::jobs::{JobId, Jobs};
use crate::turn::Turn;
use crate::unavailable::Unavailable;

/// What one family of shards keeps on disk: which machine its logs fold into, and how its snapshots are kept.
pub trait ShardFamily: 'static {
    /// What the log is folded into.
    type Machine: Machine;
    /// Whose logs.
    const FAMILY: Family;
    /// Snapshots kept for each shard; at least one more than is read at a start, so that a damaged one can be passed
    /// over.
    const SNAPSHOTS_KEPT: usize;
    /// When another snapshot is worth its cost.
    const COMPACTION: CompactionRule;
    /// What it means when records at the end of a log are lost, for an operator who is to accept that.
    const WHEN_LOST: &'static str = "what they say has not happened";
}

/// How the calls of one family are served. Static: a shard is compiled for its service.
pub trait Service: Sized {
    /// Its files, and the machine that they fold into.
    type Family: ShardFamily;
    /// What is asked.
    type Call;
    /// What is answered.
    type Answer;
    /// What the owner knows a call by.
    type Ticket;
    /// A message to the service that is not answered.
    type Note;
    /// How far a call was served; begins with its default, unless [`Service::admit`] says otherwise.
    type Progress: Default;
    /// A read that may wait for a disk.
    type Job: Send;
    /// What a job found.
    type Fetched: Send;
    /// Why the shard stops for good.
    type Stop: Error + From<JournalError>;

    /// Calls that may wait to be decided before [`crate::Shard::has_room`] says no. Those that wait for the disk
    /// ([`Pause::Disk`]) have [`crate::limits::BLOCKED_CALLS_MAX`].
    const CALLS_WAITING_MAX: usize;
    /// Their bytes, as [`Service::weight`] counts them.
    const CALL_BYTES_WAITING_MAX: usize;
    /// Work of calls behind which a step serves no more of them: whoever else is on the worker waits for so much.
    const WORK_IN_STEP_MAX: usize = usize::MAX;

    /// Memory that a call takes while it waits, about, in bytes.
    fn weight(call: &Self::Call) -> usize;

    /// Whose call it is: callers take turns. A service that does not distinguish them has one.
    fn caller(_call: &Self::Call, _ticket: &Self::Ticket) -> Caller {
        Caller::SERVER
    }

    /// What a call is worth: how many decisions, for instance.
    fn work(_call: &Self::Call) -> usize {
        1
    }

    /// Whether a call is taken at all, and with which progress it begins. A refusal here is answered before everything
    /// that waits, so it is for services whose answers need no order. `is_stuck`: what was appended waits for room on a
    /// full disk, and so would the answer.
    fn admit(&self, _call: &Self::Call, _is_stuck: bool) -> Result<Self::Progress, Unavailable> {
        Ok(Self::Progress::default())
    }

    /// Takes a message that is not answered. It is acted upon in [`Service::before`] or [`Service::after`].
    fn note(&mut self, note: Self::Note);

    /// Whether nothing that was noted still waits.
    fn is_idle(&self) -> bool {
        true
    }

    /// The shard has stopped for good: who was noted, waits here, and is now told so.
    fn give_up(&mut self) -> Vec<Self::Ticket> {
        Vec::new()
    }

    /// Who waits for an answer to `note`, if somebody does: behind that stop it is not taken, and they are told so.
    fn asker(_note: Self::Note) -> Option<Self::Ticket> {
        None
    }

    /// What the clock of the host says, before each step of a shard whose owner has looked at it. The time of the shard
    /// does not go back when that clock does.
    fn observe_wall(&mut self, _wall: TimeMs) {}

    /// Comes first in a step. Returns whether anything happened.
    fn before<L: LogStore>(&mut self, _turn: &mut TurnOf<'_, Self, L>) -> Result<bool, Self::Stop> {
        Ok(false)
    }

    /// Serves `call` as far as can be now; calls of one caller come in the order in which they were asked, and each is
    /// served only after the one before it is done, refused or put aside.
    fn serve<L: LogStore>(
        &mut self,
        turn: &mut TurnOf<'_, Self, L>,
        call: &Self::Call,
        progress: &mut Self::Progress,
        jobs: &mut Jobs<Self>,
    ) -> Result<Served<Self::Answer>, Self::Stop>;

    /// Begins the reads that `call` will need, while it waits behind one of its caller that waits for its own. Decides
    /// nothing.
    fn prepare<L: LogStore>(
        &mut self,
        _turn: &TurnOf<'_, Self, L>,
        _call: &Self::Call,
        _progress: &mut Self::Progress,
        _jobs: &mut Jobs<Self>,
    ) {
    }

    /// Comes behind the calls in a step. What it pushes into `out` leaves when everything appended so far is durable,
    /// as an answer does. Returns whether anything happened.
    fn after<L: LogStore>(
        &mut self,
        _turn: &mut TurnOf<'_, Self, L>,
        _out: &mut Unsolicited<Self>,
        _jobs: &mut Jobs<Self>,
    ) -> Result<bool, Self::Stop> {
        Ok(false)
    }

    /// Takes what a job found. The call that waits for it, if any, is served again in the next step.
    fn fetched(&mut self, job: JobId, found: Self::Fetched);

    /// Hears in every step how far the log is durable.
    fn durable(&mut self, _up_to: &Durability) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// Does a job, on a thread that may wait.
    fn run<R: LogReader>(job: Self::Job, reader: &R) -> Self::Fetched;
}

/// The machine that a service drives.
pub type MachineOf<S> = <<S as Service>::Family as ShardFamily>::Machine;
/// A turn of a service.
pub type TurnOf<'a, S, L> = Turn<'a, MachineOf<S>, L>;

/// How far a call was served.
#[derive(Debug)]
pub enum Served<A> {
    /// Its answer leaves when everything appended so far is durable.
    Done(A),
    /// It is not served; its caller gets the reason, in order.
    TurnedAway(Unavailable),
    /// It is served again later, with the progress that it has made.
    Paused(Pause),
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Room: the next step tries again. Nothing overtakes it.
    Room,
    /// The next step, because this one has done enough. Other callers may have their turns before it.
    Step,
    /// Room on a full disk, which may take long. It keeps its place before others that wait for the same; calls behind
    /// it are served, and the service sees to it that none of them is decided that must not overtake it.
    Disk,
    /// The findings of this job. No call of its caller overtakes it; those behind it are prepared meanwhile.
    Fetch(JobId),
    /// The findings of this job, and it has written nothing: others of its caller may overtake it, too.
    Aside(JobId),
}

/// What leaves a shard without having been asked for, once everything that it rests on is durable.
pub struct Unsolicited<S: Service>(pub(crate) Vec<(S::Ticket, S::Answer)>);

impl<S: Service> Unsolicited<S> {
    /// Lets `answer` leave with `ticket` when everything appended so far is durable.
    pub fn push(&mut self, ticket: S::Ticket, answer: S::Answer) {
        self.0.push((ticket, answer));
    }
}

//! The service for machines whose calls are single commands: nothing is kept besides the machine.
//!
//! ```text
//!   command ─▶ decide ─┬─▶ append, apply ─▶ Decided::Done        the size of an event is known when it is appended
//!                      └─▶ Decided::Answered                     without an append it is also served on a full disk
//!
//!   on a full disk:  brings something new ─▶ turned away
//!                    comes back ─▶ into half of the room that is kept for notes, or is turned away
//!                    takes note ─▶ into the room that is kept for notes; where there is none left, it waits for the
//!                                  disk, and until it is done, what is new is turned away undecided
//! ```
//!
//! Promise: on a full disk nobody waits but those who take note of what has happened. What needs no record is answered,
//! what is new is turned away, also behind one that waits.
//!
//! Why room for notes: they end what fills the disk. A backlog whose acknowledgements find no room stays for ever.
//!
//! Why undecided: a command that waits may change what one behind it finds. A publication whose origin is to be
//! forgotten would be taken for one that was taken before.

use std::convert::Infallible;

use tidegate_journal::{JournalError, LogReader, LogStore, NoRoom, RecordClass};
use tidegate_machines::{Decision, Machine, RecordSequence, TimeMs};

use crate::jobs::{JobId, Jobs};
use crate::limits::DUE_PER_STEP;
use crate::service::{Pause, Served, Service, ShardFamily, TurnOf, Unsolicited};
use crate::turn::Room;
use crate::unavailable::Unavailable;

/// What a family whose calls are single commands says of them. Commands and events own what they say, because they
/// wait.
pub trait Commands: Sized {
    /// What is asked.
    type Command;
    /// What happened.
    type Event;
    /// The machine.
    type Machine: for<'a> Machine<Command<'a> = Self::Command, Event<'a> = Self::Event>;
    /// Its files.
    type Family: ShardFamily<Machine = Self::Machine>;
    /// What a decision needs beside command and state. Its owner may exchange it at any time.
    type Context;
    /// What the owner knows a command by.
    type Ticket;

    /// Commands that may wait to be decided before the shard has no room for more.
    const COMMANDS_WAITING_MAX: usize;
    /// Their bytes.
    const COMMAND_BYTES_WAITING_MAX: usize;
    /// Work of commands behind which a step decides no more of them: whoever else is on the worker waits for so much.
    const WORK_IN_STEP_MAX: usize = usize::MAX;

    /// What a command is worth.
    fn work(_command: &Self::Command) -> usize {
        1
    }

    /// Memory that a command takes while it waits, about, in bytes.
    fn weight(command: &Self::Command) -> usize;

    /// How much of the room the record of a command may use. All but notes are turned away where there is none, as
    /// their senders can bring them again. A note waits for room, and there are never more of them than of what they
    /// end.
    fn class(command: &Self::Command) -> RecordClass;

    /// The command that takes note of something whose time has come, if there is any; see [`Machine::next_due`]. Asked
    /// in each step behind the commands of others, again and again until there is none, so the event of the command
    /// must end what was due.
    fn due(_machine: &Self::Machine, _now: TimeMs) -> Option<Self::Command> {
        None
    }

    /// The context as the machine takes it.
    fn with(context: &Self::Context) -> <Self::Machine as Machine>::With<'_>;
}

/// What came of a command: a record, or the reason why there is none.
#[derive(Clone, Debug)]
pub enum Decided<E, O> {
    /// It was decided, journaled and applied.
    Done {
        /// Number of its record in the shard's log.
        sequence: RecordSequence,
        /// What happened.
        event: E,
        /// The machine's answer.
        outcome: O,
    },
    /// The machine's answer; nothing was journaled.
    Answered(O),
    /// Its record would be larger than a record may be; nothing was journaled.
    TooLarge,
}

/// What was decided of a command of `C`.
pub type DecidedOf<C> = Decided<<C as Commands>::Event, <<C as Commands>::Machine as Machine>::Outcome>;

/// Serves commands, one by one, in order.
pub struct Single<C: Commands> {
    context: C::Context,
    /// The command in front was decided and waits for an empty group and room on the disk: not decided again until
    /// then.
    waits_for_group: bool,
    /// Commands that wait for the disk.
    behind_disk: usize,
    unrecorded: u64,
}

impl<C: Commands> Single<C> {
    /// A service whose decisions see `context`.
    pub fn new(context: C::Context) -> Single<C> {
        Single { context, waits_for_group: false, behind_disk: 0, unrecorded: 0 }
    }

    /// What decisions see from now on.
    pub fn set_context(&mut self, context: C::Context) {
        self.context = context;
    }

    /// Commands that were answered without a record (refused by the state, or too large) since the start.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// Serves a command that none is waiting before.
    fn serve_first<L: LogStore>(
        &mut self,
        turn: &mut TurnOf<'_, Self, L>,
        command: &C::Command,
    ) -> Served<DecidedOf<C>> {
        let class = C::class(command);
        if self.waits_for_group && !(turn.is_group_empty() && turn.room_for(class, 1) == Room::Available) {
            if !turn.is_disk_full(class) {
                return Served::Paused(Pause::Room);
            }
            if class == RecordClass::Note {
                return Served::Paused(Pause::Disk);
            }
            self.waits_for_group = false;
            return Served::TurnedAway(Unavailable::DiskFull);
        }
        self.waits_for_group = false;
        let (event, outcome) = match turn.state().decide(command, C::with(&self.context), turn.now()) {
            Decision::Append { event, outcome } => (event, outcome),
            Decision::Answer(outcome) => {
                self.unrecorded += 1;
                return Served::Done(Decided::Answered(outcome));
            }
        };
        if turn.room_for(class, 1) == Room::DiskFull {
            // How long a disk stays full is unknown. Commands that record completed work wait: their number is bounded
            // by the work in progress, and they free space. New work is refused.
            return match class {
                RecordClass::Note => Served::Paused(Pause::Disk),
                RecordClass::New | RecordClass::Return => Served::TurnedAway(Unavailable::DiskFull),
            };
        }
        match turn.append_of(class, &event) {
            Ok(at) => Served::Done(Decided::Done { sequence: at.sequence, event, outcome }),
            Err(NoRoom::Here) => {
                self.waits_for_group = true;
                Served::Paused(Pause::Room)
            }
            Err(NoRoom::Ever) => {
                self.unrecorded += 1;
                Served::Done(Decided::TooLarge)
            }
        }
    }

    /// Serves a command behind others that wait for the disk. What they will do only takes away, so that what the state
    /// refuses now, it refuses then.
    fn serve_behind<L: LogStore>(
        &mut self,
        turn: &mut TurnOf<'_, Self, L>,
        command: &C::Command,
    ) -> Served<DecidedOf<C>> {
        if C::class(command) != RecordClass::Note {
            return Served::TurnedAway(Unavailable::DiskFull);
        }
        match turn.state().decide(command, C::with(&self.context), turn.now()) {
            Decision::Append { .. } => Served::Paused(Pause::Disk),
            Decision::Answer(outcome) => {
                self.unrecorded += 1;
                Served::Done(Decided::Answered(outcome))
            }
        }
    }
}

/// How far a command was served.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// It waits for room on the disk.
    waits_for_disk: bool,
}

impl<C: Commands> Service for Single<C> {
    type Family = C::Family;
    type Call = C::Command;
    type Answer = DecidedOf<C>;
    type Ticket = C::Ticket;
    type Note = Infallible;
    type Progress = Progress;
    type Job = Infallible;
    type Fetched = Infallible;
    type Stop = JournalError;

    const CALLS_WAITING_MAX: usize = C::COMMANDS_WAITING_MAX;
    const CALL_BYTES_WAITING_MAX: usize = C::COMMAND_BYTES_WAITING_MAX;
    const WORK_IN_STEP_MAX: usize = C::WORK_IN_STEP_MAX;

    fn work(command: &C::Command) -> usize {
        C::work(command)
    }

    fn weight(command: &C::Command) -> usize {
        C::weight(command)
    }

    fn note(&mut self, note: Infallible) {
        match note {}
    }

    /// A refusal passes what is decided and cannot be written for want of room.
    fn admit(&self, command: &C::Command, is_stuck: bool) -> Result<Progress, Unavailable> {
        if is_stuck && C::class(command) != RecordClass::Note {
            Err(Unavailable::DiskFull)
        } else {
            Ok(Progress::default())
        }
    }

    fn serve<L: LogStore>(
        &mut self,
        turn: &mut TurnOf<'_, Self, L>,
        command: &C::Command,
        progress: &mut Progress,
        _jobs: &mut Jobs<Self>,
    ) -> Result<Served<DecidedOf<C>>, JournalError> {
        let has_waited = progress.waits_for_disk;
        let served = match self.behind_disk > 0 && !has_waited {
            true => self.serve_behind(turn, command),
            false => self.serve_first(turn, command),
        };
        match served {
            Served::Paused(Pause::Disk) if !has_waited => {
                progress.waits_for_disk = true;
                self.behind_disk += 1;
            }
            Served::Done(_) | Served::TurnedAway(_) if has_waited => self.behind_disk -= 1,
            _ => {}
        }
        Ok(served)
    }

    fn after<L: LogStore>(
        &mut self,
        turn: &mut TurnOf<'_, Self, L>,
        _out: &mut Unsolicited<Self>,
        _jobs: &mut Jobs<Self>,
    ) -> Result<bool, JournalError> {
        for taken in 0..DUE_PER_STEP {
            let Some(command) = C::due(turn.state(), turn.now()) else { return Ok(taken > 0) };
            let Decision::Append { event, .. } = turn.state().decide(&command, C::with(&self.context), turn.now())
            else {
                unreachable!("the event of a command that is due ends what was due")
            };
            // What finds no room is still due in the next step.
            let disk_full = turn.room_for(RecordClass::Note, 1) == Room::DiskFull;
            if disk_full || turn.append_of(RecordClass::Note, &event).is_err() {
                return Ok(taken > 0);
            }
        }
        Ok(true)
    }

    fn fetched(&mut self, _job: JobId, found: Infallible) {
        match found {}
    }

    fn run<R: LogReader>(job: Infallible, _reader: &R) -> Infallible {
        match job {}
    }
}

#[cfg(test)]
mod tests;

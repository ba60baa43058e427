//! The roster as a family of one shard: which files it is, and how its commands are served.

use tidegate_journal::{Family, Retention};
use tidegate_machines::TimeMs;
use tidegate_shard::{Commands, CompactionRule, RecordClass, ShardFamily, Single};

use crate::limits::{COMMAND_BYTES_WAITING_MAX, COMMANDS_WAITING_MAX, SEGMENT_BYTES};
use crate::machine::{Action, Allowed, Command, Event, Roster};

/// The log of the roster: what a snapshot holds is forgotten.
pub const ROSTER: Family = Family { number: 3, name: "roster", retention: Retention::SinceSnapshot };

/// What its log folds into, and how its snapshots are kept.
pub struct RosterFamily;

impl ShardFamily for RosterFamily {
    type Machine = Roster;
    const FAMILY: Family = ROSTER;
    /// The newest, and the one before it, in case the newest is damaged.
    const SNAPSHOTS_KEPT: usize = 2;
    /// A snapshot is written once for four times its bytes of log.
    const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 2 * SEGMENT_BYTES, ratio: 4 };
    const WHEN_LOST: &'static str = "users and services are as they were before: tokens and passwords that were taken \
                                     away since are good again. Look through them before clients come";
}

/// How calls are served: each is one command. `T` is what their owner knows one by.
pub type RosterService<T> = Single<RosterCommands<T>>;

/// The commands of the roster; what a decision sees is how many services and users there may be.
pub struct RosterCommands<T>(std::marker::PhantomData<T>);

impl<T> Commands for RosterCommands<T> {
    type Command = Command;
    type Event = Event;
    type Machine = Roster;
    type Family = RosterFamily;
    type Context = Allowed;
    type Ticket = T;

    const COMMANDS_WAITING_MAX: usize = COMMANDS_WAITING_MAX;
    const COMMAND_BYTES_WAITING_MAX: usize = COMMAND_BYTES_WAITING_MAX;

    fn weight(command: &Command) -> usize {
        let (texts, hash): (&[Box<str>], usize) = match &command.action {
            Action::Put { grants, .. } => (grants, 0),
            Action::PutUser { rights, password_hash, .. } => {
                (rights.texts(), password_hash.as_ref().map_or(0, |hash| hash.len()))
            }
            Action::Rotate { .. } | Action::Delete | Action::DeleteUser => (&[], 0),
        };
        let texts: usize = texts.iter().map(|text| size_of::<Box<str>>() + text.len()).sum();
        size_of::<Command>() + command.name.len() + hash + texts
    }

    fn class(command: &Command) -> RecordClass {
        match command.action {
            Action::Delete | Action::DeleteUser => RecordClass::Note,
            _ => RecordClass::New,
        }
    }

    fn due(_: &Roster, _: TimeMs) -> Option<Command> {
        None
    }

    fn with(allowed: &Allowed) -> Allowed {
        *allowed
    }
}

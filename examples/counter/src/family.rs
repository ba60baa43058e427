//! Counters as a family of shards: which files they are, and how their commands are served.

use tidegate_journal::{Family, Retention};
use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_runtime::direct::Ticket;
use tidegate_shard::{Commands, CompactionRule, RecordClass, ShardFamily, Single};

use crate::limits::{COMMAND_BYTES_WAITING_MAX, COMMANDS_WAITING_MAX, CounterKeys, SEGMENT_BYTES};
use crate::machine::{Action, Command, Counters, Event};

/// The logs of counters: what a snapshot holds is forgotten. Numbers from 128 on are free for everybody.
pub const COUNTERS: Family = Family { number: 128, name: "counters", retention: Retention::SinceSnapshot };

/// What its logs fold into, and how its snapshots are kept.
pub struct CounterFamily;

impl ShardFamily for CounterFamily {
    type Machine = Counters;
    const FAMILY: Family = COUNTERS;
    /// The newest, and the one before it, in case the newest is damaged.
    const SNAPSHOTS_KEPT: usize = 2;
    /// A snapshot is written once for eight times its bytes of log.
    const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 2 * SEGMENT_BYTES, ratio: 8 };
}

/// How calls are served: each is one command.
pub type CounterService = Single<CounterCommands>;

/// The commands of counters. `T` is what their owner knows one by.
pub struct CounterCommands<T = Ticket>(std::marker::PhantomData<T>);

impl<T> Commands for CounterCommands<T> {
    type Command = Command;
    type Event = Event;
    type Machine = Counters;
    type Family = CounterFamily;
    type Context = CounterKeys;
    type Ticket = T;

    const COMMANDS_WAITING_MAX: usize = COMMANDS_WAITING_MAX;
    const COMMAND_BYTES_WAITING_MAX: usize = COMMAND_BYTES_WAITING_MAX;

    fn weight(command: &Command) -> usize {
        size_of::<Command>() + command.name.len()
    }

    fn class(command: &Command) -> RecordClass {
        match command.action {
            Action::Add { .. } => RecordClass::New,
            _ => RecordClass::Note,
        }
    }

    fn due(counters: &Counters, now: TimeMs) -> Option<Command> {
        counters.expired(now).map(|name| Command { name: name.into(), action: Action::Expire })
    }

    fn with(keys: &CounterKeys) -> &CounterKeys {
        keys
    }
}

/// The shard of a command's counter. `{tag}` in a name puts counters together, as everywhere.
pub fn shard_of(command: &Command, shards: u16) -> ShardIndex {
    tidegate_machines::shard_of(&command.name, shards)
}

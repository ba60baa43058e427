//! Counters as a family of shards: which files they are, and how their commands are served.

use tidegate_journal::{Family, Retention};
use tidegate_machines::{ShardIndex, TimeMs};
use tidegate_runtime::direct::Ticket;
use tidegate_shard::{Commands, CompactionRule, ShardFamily, Single};

use crate::limits::{COMMAND_BYTES_WAITING_MAX, COMMANDS_WAITING_MAX, Limits, SEGMENT_BYTES};
use crate::machine::{Command, Counters, Event};

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
    type Context = Limits;
    type Ticket = T;

    const COMMANDS_WAITING_MAX: usize = COMMANDS_WAITING_MAX;
    const COMMAND_BYTES_WAITING_MAX: usize = COMMAND_BYTES_WAITING_MAX;

    fn weight(command: &Command) -> usize {
        size_of::<Command>() + name_of(command).len()
    }

    fn brings(command: &Command) -> bool {
        matches!(command, Command::Add { .. })
    }

    fn due(counters: &Counters, now: TimeMs) -> Option<Command> {
        counters.expired(now).map(|name| Command::Expire { name: name.into() })
    }

    fn with(limits: &Limits) -> Limits {
        *limits
    }
}

/// The counter that a command is about.
pub fn name_of(command: &Command) -> &str {
    let (Command::Add { name, .. } | Command::Read { name } | Command::Expire { name }) = command;
    name
}

/// The shard of a command's counter: FNV-1a of the name, which must never change, because it says where a counter is.
pub fn shard_of(command: &Command, shards: u16) -> ShardIndex {
    let hash = name_of(command)
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    ShardIndex((hash % u64::from(shards)) as u16)
}

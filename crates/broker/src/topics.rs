//! Durable sessions and messages as a family of shards: their files, and the weight of their commands.
//!
//! Each call is one command of the machine, so the generic service is enough: see [`tidegate_shard::single`].

use tidegate_journal::{Family, LogStore, Options, Retention};
use tidegate_machines::topic::{Command, Event, InboxLimits, Topics};
use tidegate_shard::{
    Commands, CompactionRule, DecidedOf, Durable, RecordClass, Shard, ShardFamily, Single, Unavailable,
};

use crate::Waiting;
use crate::limits::{COMMAND_BYTES_WAITING_MAX, COMMANDS_WAITING_MAX, SEGMENT_BYTES};

/// The logs of topics: what a snapshot holds is forgotten.
pub const TOPICS: Family = Family { number: 2, name: "topics", retention: Retention::SinceSnapshot };

/// What its logs fold into.
pub struct TopicsFamily;

impl ShardFamily for TopicsFamily {
    type Machine = Topics;
    const FAMILY: Family = TOPICS;
    /// The newest, and the one before it, as far back as which the log reaches.
    const SNAPSHOTS_KEPT: usize = 2;
    /// A snapshot is written once for eight times its bytes of log, and a start replays less than a second's worth.
    const COMPACTION: CompactionRule = CompactionRule { floor_bytes: 2 * SEGMENT_BYTES, ratio: 8 };
    const WHEN_LOST: &'static str = "retained messages, sessions and subscriptions are as they were before: messages \
                                     for sessions that came since are gone, and those that were acknowledged since \
                                     come again";
}

/// The sizes of a log of topics.
pub fn log_options() -> Options {
    Options::small(SEGMENT_BYTES)
}

/// The commands of topics. `T` is what their owner knows one by.
pub struct TopicCommands<T = Waiting>(std::marker::PhantomData<T>);

/// A shard of topics.
pub type TopicShard<L, T = Waiting> = Shard<TopicService<T>, L>;
/// How its commands are served.
pub type TopicService<T = Waiting> = Single<TopicCommands<T>>;
/// What came of a command.
pub type Decided = DecidedOf<TopicCommands>;
/// The answer to one command: what was decided, durable, or why nothing was.
pub type Released = Result<Durable<Decided>, Unavailable>;

impl<T> Commands for TopicCommands<T> {
    type Command = Command;
    type Event = Event;
    type Machine = Topics;
    type Family = TopicsFamily;
    type Context = InboxLimits;
    type Ticket = T;

    const COMMANDS_WAITING_MAX: usize = COMMANDS_WAITING_MAX;
    const COMMAND_BYTES_WAITING_MAX: usize = COMMAND_BYTES_WAITING_MAX;

    fn weight(command: &Command) -> usize {
        let beside = match command {
            Command::Publish { message, receivers, .. } => message.body_bytes() + size_of_val(&**receivers),
            Command::PassOn { message, .. } | Command::Retain { message, .. } | Command::Delay { message, .. } => {
                message.body_bytes()
            }
            Command::KeepPlace { kept, .. } => kept.place.len(),
            Command::OpenSession { will, .. } | Command::AttachSession { will, .. } => {
                will.as_ref().map_or(0, |will| will.message.body_bytes())
            }
            _ => 0,
        };
        size_of::<Command>() + beside
    }

    fn class(command: &Command) -> RecordClass {
        match command {
            Command::OpenSession { .. }
            | Command::Subscribe { .. }
            // Its client is told, and one that has lost the right to a filter is looked at again when it comes back.
            | Command::Unsubscribe { .. }
            | Command::Publish { .. }
            | Command::PassOn { .. }
            | Command::Retain { .. }
            | Command::Delay { .. } => RecordClass::New,
            // Its client comes for what is kept for it, which fills the disk, too.
            Command::AttachSession { .. } => RecordClass::Return,
            Command::DetachSession { .. }
            | Command::EndSession { .. }
            | Command::ClearWill { .. }
            | Command::KeepPlace { .. }
            | Command::Acknowledge { .. }
            | Command::MarkReceived { .. }
            | Command::Drop { .. }
            | Command::ForgetOrigin(_)
            | Command::ForgetOrigins { .. }
            | Command::DelayedSent { .. } => RecordClass::Note,
        }
    }

    fn with(limits: &InboxLimits) -> &InboxLimits {
        limits
    }
}

/// A shard over recovered state, with the bounds of its inboxes.
pub fn open_shard<L: LogStore, T>(
    replayed: tidegate_shard::Replayed<Topics, L>,
    limits: InboxLimits,
) -> Result<TopicShard<L, T>, tidegate_journal::JournalError> {
    let index = replayed.state.shard();
    Shard::new(index, replayed.state, Single::new(limits), replayed.log)
}

#[cfg(test)]
mod tests;

//! The messages of a shard that nobody serves, read from its log in the order of their keys.
//!
//! Why: when a node is lost, its disk is not. What waited there can be sent to another node, which serves meanwhile.
//!
//! Invariant: nothing here writes.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_journal::LogReader;
use tidegate_machines::TimeMs;
use tidegate_machines::queue::{Message, MessageKey, MessageView, Queues, key_elsewhere};

use crate::bodies::read_bodies;

/// A shard as its log leaves it.
pub struct StoppedShard<R> {
    state: Queues,
    reader: R,
}

impl<R: LogReader> StoppedShard<R> {
    /// A shard with the state at the end of its log.
    pub const fn new(state: Queues, reader: R) -> StoppedShard<R> {
        StoppedShard { state, reader }
    }

    /// Whether it has this queue.
    pub fn has_queue(&self, name: &str) -> bool {
        self.state.settings(name).is_some()
    }

    /// How many messages are not gone.
    pub fn count(&self) -> u64 {
        self.state.totals().1
    }

    /// Those whose keys come after `after`, in the order of their keys.
    pub fn messages(&self, after: Option<MessageKey>) -> impl Iterator<Item = MessageView> + '_ {
        let from = after.map_or(MessageKey::from_bits(0), MessageKey::next);
        self.state.browse_all(from..=MessageKey::MAX).filter(|view| !view.state.is_finished())
    }

    /// What the first sender of a message called it, if its queue remembers it for this message: no other one of that
    /// queue is called so. Within its window an id is taken once; behind that, or without one, there may be many.
    pub fn origin<'m>(&self, view: &MessageView, message: &'m Message) -> Option<&'m str> {
        let sent_here = || message.id.as_deref().filter(|id| key_elsewhere(id).is_none());
        let id = message.origin_id.as_deref().or_else(sent_here)?;
        // Also one that would be forgotten by the next record.
        (self.state.key_of_id(&view.queue, id, TimeMs(0)) == Some(view.key)).then_some(id)
    }

    /// Reads what was sent, of each of these, or why it cannot be read.
    pub fn read<'a>(&self, views: impl Iterator<Item = &'a MessageView>) -> HashMap<MessageKey, Read> {
        let keys: HashMap<u64, MessageKey> = views.map(|view| (view.body.number, view.key)).collect();
        let places = keys.keys().filter_map(|number| self.state.body_place(*number)).collect();
        read_bodies(places, &self.reader, usize::MAX)
            .into_iter()
            .map(|(number, message)| (keys[&number], message))
            .collect()
    }
}

/// A message as it was sent, or why it cannot be read.
type Read = Result<Arc<Message>, String>;

/// The id that a message has in queues of other servers: the key that it got on the first one. A link gives it the
/// same, so what both bring is taken once.
pub fn id_elsewhere(message: &Message, key: MessageKey) -> String {
    message.id.as_deref().and_then(key_elsewhere).unwrap_or(key).to_string()
}

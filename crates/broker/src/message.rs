//! Messages from one worker's broker to another's.

use crate::peer::Item;
use crate::share::Picked;
use crate::subscriptions::Entry;

/// All items from one broker to another since the last message, in order. Opaque to the code that carries it; must
/// arrive in order, once.
#[derive(Debug, Default)]
pub struct BrokerMessage {
    pub(crate) items: Vec<Item>,
    /// The receivers of the messages among the items, in their order: one allocation for all.
    pub(crate) receivers: Vec<Entry>,
    /// The same of those that stand for share groups.
    pub(crate) picked: Vec<Picked>,
}

impl BrokerMessage {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

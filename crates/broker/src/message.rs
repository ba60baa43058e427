//! Messages from one worker's broker to another's.

use crate::peer::Item;
use crate::subscriptions::Entry;

/// All that one broker has to tell another since it last did, in order. Opaque to whoever carries it; must arrive in
/// order, once.
#[derive(Debug, Default)]
pub struct BrokerMessage {
    pub(crate) items: Vec<Item>,
    /// The receivers of the messages among the items, in their order: one allocation for all.
    pub(crate) receivers: Vec<Entry>,
}

impl BrokerMessage {
    /// How many things it tells.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it tells nothing.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

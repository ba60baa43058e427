//! What a message is called on all nodes and by all targets.

use tidegate_planted::{Bug, is_planted};
use tidegate_queue::{Received, id_elsewhere};

/// The id that a message has on all nodes behind the first: the key that it got there.
pub fn id_of(received: &Received) -> String {
    let (message, key) = (&received.message, received.delivery.lease.key);
    match id_elsewhere(message, key) {
        id if id == key.to_string() && is_planted(Bug::LinkNamesAnew) => format!("{id}.{}", received.attempts),
        id => id,
    }
}

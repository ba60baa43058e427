//! What a message is called on all nodes and by all targets.

use tidegate_planted::{Bug, is_planted};
use tidegate_queue::Received;
use tidegate_queue::machine::MessageKey;

/// The id that a message has on all nodes behind the first: the key that it got there.
pub fn id_of(received: &Received) -> String {
    match received.message.id.as_deref().filter(|id| id.parse::<MessageKey>().is_ok()) {
        Some(first) => first.to_owned(),
        None if is_planted(Bug::LinkNamesAnew) => format!("{}.{}", received.delivery.lease.key, received.attempts),
        None => received.delivery.lease.key.to_string(),
    }
}

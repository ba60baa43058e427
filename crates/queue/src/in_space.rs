//! The ids of a sender's messages become those of its id space, but for keys that another node gave.
//!
//! Why here, and once: every door sends its clients' requests through [`QueueRequest::in_space`].

use std::sync::Arc;

use tidegate_machines::IdSpace;
use tidegate_machines::queue::{id_in_space, key_elsewhere};

use crate::call::{Call, Found};
use crate::client::QueueRequest;
use crate::trail::SentAs;

impl QueueRequest {
    /// The same request, the ids of its messages those of `space`. Who `relays` messages of other nodes to the queue of
    /// this name may give them the keys that they have there.
    pub fn in_space(mut self, space: &IdSpace, relays: impl Fn(&str) -> bool) -> QueueRequest {
        let QueueRequest::Call(Call::Send { queue, messages }) = &mut self else { return self };
        for message in messages {
            let Some(id) = message.id.as_deref() else { continue };
            let whole = id_in_space(id, space, || relays(queue));
            let changed: Option<Box<str>> = (*whole != *id).then(|| Box::from(&*whole));
            if changed.is_some() {
                Arc::make_mut(message).id = changed;
            }
        }
        self
    }
}

impl Found {
    /// Whether its id is of this space; a message without an id is of the common one, and one that came over a link of
    /// none. `None` if what was sent is forgotten, or cannot be read.
    pub fn is_of(&self, space: &IdSpace) -> Option<bool> {
        let id = match (&self.message, &self.trail.sent_as) {
            (Some(message), _) => message.origin_id.as_deref().or(message.id.as_deref()),
            (None, Some(SentAs(id))) => id.as_deref(),
            (None, None) => return None,
        };
        Some(match id {
            None => space.is_empty(),
            Some(id) => key_elsewhere(id).is_none() && IdSpace::split(id).0 == space.name(),
        })
    }
}

/// What a message may be called that somebody of this space has called so.
pub fn ids_in_space(id: &str, space: &IdSpace) -> Vec<Box<str>> {
    vec![Box::from(&*id_in_space(id, space, || false))]
}

/// The same, or the key that it has on another node: who `relays` means that one first.
pub fn ids_of_all_kinds(id: &str, space: &IdSpace, relays: bool) -> Vec<Box<str>> {
    let elsewhere = key_elsewhere(id).map(|key| key.to_string().into());
    let mut ids: Vec<Box<str>> = elsewhere.into_iter().chain(ids_in_space(id, space)).collect();
    if !relays {
        ids.reverse();
    }
    ids
}

#[cfg(test)]
mod tests {
    use tidegate_machines::queue::Message;

    use super::*;

    const KEY: &str = "01KB3V5X2M000000000000000G";

    fn id_of(id: &str, space: &str, relays: bool) -> String {
        let message = Message { id: Some(id.into()), ..Message::default() };
        let call = Call::Send { queue: "texts".into(), messages: vec![message.into()] };
        let space = IdSpace::new(space).expect("a space");
        let sent = QueueRequest::Call(call).in_space(&space, |queue| relays && queue == "texts");
        let QueueRequest::Call(Call::Send { messages, .. }) = sent else { unreachable!() };
        let whole = messages[0].id.clone().expect("it has one");
        assert_eq!(ids_of_all_kinds(id, &space, relays)[0], whole, "what was sent is found first");
        whole.into()
    }

    #[test]
    fn only_who_relays_gives_a_message_the_key_of_another_node() {
        assert_eq!(id_of(KEY, "", true), KEY);
        assert_eq!(id_of(KEY, "shop", true), KEY);
        assert_eq!(id_of(KEY, "", false), format!("\u{1f}{KEY}"));
        assert_eq!(id_of(KEY, "shop", false), format!("shop\u{1f}{KEY}"));
    }

    #[test]
    fn other_ids_have_the_space_of_their_sender() {
        for relays in [true, false] {
            assert_eq!(id_of("order-17", "", relays), "order-17");
            assert_eq!(id_of("order-17", "shop", relays), "shop\u{1f}order-17");
            // Of an id that names a space nothing is left, so it is refused.
            assert_eq!(id_of("shop\u{1f}order-17", "", relays), "");
            assert_eq!(id_of(&format!("\u{1f}{KEY}"), "", relays), "");
        }
    }
}

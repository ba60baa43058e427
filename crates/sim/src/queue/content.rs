//! Messages that tell which ones they are: everything of one follows from its number and what was drawn for it.

use std::sync::Arc;

use tidegate_queue::machine::{Message, When};

use crate::chance::Chance;

/// Bytes of the number at the beginning of a body.
const NUMBER_BYTES: usize = 8;

/// A message that somebody sends, perhaps more than once if it has an id.
pub struct Content {
    /// To which queue.
    pub queue: usize,
    /// The message.
    pub message: Arc<Message>,
}

/// What is drawn for a message.
pub struct Drawn {
    pub has_id: bool,
    pub ordering_key: Option<u64>,
    pub priority: u8,
    pub visible_at: Option<When>,
    pub expires_at: Option<When>,
    pub body_bytes: u64,
}

impl Content {
    /// Message number `number`.
    pub fn new(number: u64, queue: usize, drawn: &Drawn) -> Content {
        let mut chance = Chance::new(number);
        let mut body = number.to_le_bytes().to_vec();
        body.extend((0..drawn.body_bytes).map(|_| chance.number() as u8));
        let attributes: Vec<u8> = (0..number % 5).map(|_| chance.number() as u8).collect();
        let message = Message {
            id: drawn.has_id.then(|| format!("id-{number}").into()),
            ordering_key: drawn.ordering_key.map(|key| format!("key-{key}").into()),
            priority: drawn.priority,
            visible_at: drawn.visible_at,
            expires_at: drawn.expires_at,
            via: None,
            origin_id: None,
            attributes: attributes.into(),
            body: body.into(),
        };
        Content { queue, message: Arc::new(message) }
    }

    /// Whether what was handed out is this, but for the times that its queue fills in.
    pub fn is(&self, found: &Message) -> bool {
        let sent = &*self.message;
        let times = (found.visible_at, found.expires_at);
        // One that went to another queue, and perhaps came back, has no ordering key any more.
        let ordering_key = sent.ordering_key.clone().filter(|_| found.ordering_key.is_some());
        Message { visible_at: times.0, expires_at: times.1, ordering_key, ..sent.clone() } == *found
    }
}

/// Which message a body says that it is of.
pub fn number_of(message: &Message) -> Option<u64> {
    Some(u64::from_le_bytes(*message.body.first_chunk::<NUMBER_BYTES>()?))
}

//! A message inside one worker, borrowed from a client's packet or from a message in memory.
//!
//! Why: a QoS 0 message between two clients of one worker is copied once, from the packet that came in to the outbox it
//! leaves from. Code that must keep it, or send it to another worker, makes an owned [`Message`] of it, once for all
//! receivers.

use std::sync::Arc;

use tidegate_machines::TimeMs;
use tidegate_machines::topic::{Message, MessageMeta};

use crate::holdings::Holder;
use crate::limits::{AT_ONCE_MS, PACKET_HEAD_BYTES};

/// One message on its way to its receivers.
#[derive(Debug)]
pub(crate) struct MessageRef<'a> {
    pub topic: &'a str,
    /// Encoded MQTT 5 properties that go on unchanged.
    pub properties: &'a [u8],
    pub payload: &'a [u8],
    pub qos: u8,
    pub retain: bool,
    pub expires_at: Option<TimeMs>,
    /// It was fetched because somebody subscribed: to those who wait for it, it is what was retained.
    pub was_awaited: bool,
    /// Who pays for it if it is retained; `None`: the owner of the session that publishes it.
    pub payer: Option<Holder>,
    /// Its place among the retained messages was paid for when it was accepted: no bound is asked again.
    pub has_place: bool,
    message: Option<Arc<Message>>,
}

impl<'a> MessageRef<'a> {
    /// A message that stands in a packet.
    pub fn new(topic: &'a str, properties: &'a [u8], payload: &'a [u8], meta: MessageMeta) -> MessageRef<'a> {
        let MessageMeta { qos, retain, expires_at } = meta;
        MessageRef {
            topic,
            properties,
            payload,
            qos,
            retain,
            expires_at,
            was_awaited: false,
            payer: None,
            has_place: false,
            message: None,
        }
    }

    /// A message that is kept already.
    pub fn of(message: &'a Arc<Message>) -> MessageRef<'a> {
        MessageRef {
            topic: message.topic(),
            properties: message.properties(),
            payload: message.payload(),
            qos: message.qos(),
            retain: message.retain(),
            expires_at: message.expires_at(),
            was_awaited: false,
            payer: None,
            has_place: false,
            message: Some(Arc::clone(message)),
        }
    }

    /// The same, which this principal pays for. `has_place`: it has done so.
    pub fn paid_by(self, payer: Option<Holder>, has_place: bool) -> MessageRef<'a> {
        MessageRef { payer, has_place, ..self }
    }

    /// Bytes of its packet, about.
    pub fn packet_bytes(&self) -> usize {
        self.topic.len() + self.properties.len() + self.payload.len() + PACKET_HEAD_BYTES
    }

    /// The time at which it is delivered that has just come: a little late is at once. So an interval of 0 means that
    /// it is delivered to who can be sent it at once, and kept for nobody.
    pub fn at_once(&self, now: TimeMs) -> TimeMs {
        match self.expires_at {
            Some(at) if at < now && now.0 - at.0 <= AT_ONCE_MS => at,
            _ => now,
        }
    }

    /// The message as an owned value.
    pub fn shared_message(&mut self) -> Arc<Message> {
        let MessageRef { topic, properties, payload, qos, retain, expires_at, ref mut message, .. } = *self;
        let meta = MessageMeta { qos, retain, expires_at };
        Arc::clone(message.get_or_insert_with(|| Arc::new(Message::new(topic, properties, payload, meta))))
    }

    /// Seconds until it expires, rounded up; `Err` when it has.
    /// `[MQTT-3.3.2-5]`: a message whose expiry interval has passed before delivery began is deleted.
    /// `[MQTT-3.3.2-6]`: the forwarded expiry interval is the received one minus the time the message waited.
    pub fn expiry_s(&self, now: TimeMs) -> Result<Option<u32>, Expired> {
        match self.expires_at {
            None => Ok(None),
            Some(at) if at < now => Err(Expired),
            Some(at) => Ok(Some((at.0 - now.0).div_ceil(1000).min(u64::from(u32::MAX)) as u32)),
        }
    }
}

/// The message is too old to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired;

//! A published message, once in memory however many sessions it waits for.

use crate::TimeMs;
use crate::weight::allocation;

/// What is said of a message beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageMeta {
    /// How surely its publisher wanted it delivered, 0 to 2.
    pub qos: u8,
    /// Whether its publisher wanted it retained.
    pub retain: bool,
    /// When it is worth nothing any more.
    pub expires_at: Option<TimeMs>,
}

/// A message. Immutable; its topic, properties and payload are one piece of memory.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    body: Box<[u8]>,
    topic_bytes: u16,
    properties_bytes: u32,
    meta: MessageMeta,
}

impl Message {
    /// Copies the parts. `properties` are opaque here: what the protocol wants handed on unchanged. A topic has at most
    /// 65,535 bytes.
    pub fn new(topic: &str, properties: &[u8], payload: &[u8], meta: MessageMeta) -> Message {
        assert!(meta.qos <= 2, "QoS {}", meta.qos);
        let mut body = Vec::with_capacity(topic.len() + properties.len() + payload.len());
        body.extend_from_slice(topic.as_bytes());
        body.extend_from_slice(properties);
        body.extend_from_slice(payload);
        debug_assert_eq!(body.len(), topic.len() + properties.len() + payload.len(), "the parts of a body");
        Message {
            body: body.into(),
            topic_bytes: u16::try_from(topic.len()).expect("no topic is longer"),
            properties_bytes: u32::try_from(properties.len()).expect("properties fit a packet"),
            meta: MessageMeta { expires_at: meta.expires_at.map(|at| at.min(TimeMs::MAX)), ..meta },
        }
    }

    /// The topic that it was published to.
    pub fn topic(&self) -> &str {
        let bytes = &self.body[..usize::from(self.topic_bytes)];
        // SAFETY: `new` copied these bytes from a `str`, and nothing changes them.
        unsafe { std::str::from_utf8_unchecked(bytes) }
    }

    /// Opaque properties.
    pub fn properties(&self) -> &[u8] {
        let from = usize::from(self.topic_bytes);
        &self.body[from..from + self.properties_bytes as usize]
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.body[usize::from(self.topic_bytes) + self.properties_bytes as usize..]
    }

    /// Bytes of topic, properties and payload.
    pub fn body_bytes(&self) -> usize {
        self.body.len()
    }

    /// Bytes of memory of a message that is shared.
    pub fn memory_bytes(&self) -> u64 {
        Message::memory_bytes_of(self.body_bytes())
    }

    /// The same of one whose topic, properties and payload have so many bytes.
    pub const fn memory_bytes_of(body_bytes: usize) -> u64 {
        // An `Arc` counts those who hold it, and those who might, beside it.
        allocation(size_of::<Message>() + 2 * size_of::<usize>()) + allocation(body_bytes)
    }

    /// How surely its publisher wanted it delivered, 0 to 2.
    pub fn qos(&self) -> u8 {
        self.meta.qos
    }

    /// Whether its publisher wanted it retained.
    pub fn retain(&self) -> bool {
        self.meta.retain
    }

    /// When it is worth nothing any more.
    pub fn expires_at(&self) -> Option<TimeMs> {
        self.meta.expires_at
    }

    /// All of these.
    pub fn meta(&self) -> MessageMeta {
        self.meta
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let payload = String::from_utf8_lossy(&self.payload()[..self.payload().len().min(40)]);
        write!(f, "Message({:?} qos={} {:?} of {} bytes)", self.topic(), self.qos(), payload, self.payload().len())
    }
}

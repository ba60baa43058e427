//! One message as a PUBLISH packet, encoded once for each combination of version, QoS and RETAIN.
//!
//! ```text
//!   message ─▶ │ version × QoS × retain │ ─copy─▶ outbox, outbox, outbox …   each with its packet id written over
//! ```
//!
//! Why: with a thousand subscribers, encoding is done once and the rest is a copy of some seventy bytes.

use tidegate_wire::mqtt::{PublishOut, QoS, Version, encode_publish};

use crate::message_ref::MessageRef;

/// A packet that lacks nothing but its packet id.
#[derive(Debug, Default)]
struct Template {
    bytes: Vec<u8>,
    packet_id_at: usize,
}

/// The packets of one message, made when they are first asked for. Keeps its memory from one message to the next.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    all: [Template; 12],
    /// A bit for each that is made.
    made: u16,
}

/// The way one receiver wants it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub version: Version,
    pub qos: u8,
    pub retain: bool,
}

impl Templates {
    /// Another message follows.
    pub fn begin(&mut self) {
        self.made = 0;
    }

    /// The bytes of the packet.
    #[inline]
    pub fn get(&mut self, message_ref: &MessageRef<'_>, expiry_s: Option<u32>, shape: Shape) -> &[u8] {
        let index = Self::index(shape);
        if self.made & (1 << index) == 0 {
            self.make(index, message_ref, expiry_s, shape);
        }
        &self.all[index].bytes
    }

    /// Appends the packet with a packet id, which is ignored for QoS 0. To be called after [`Templates::get`].
    #[inline]
    pub fn copy(&self, shape: Shape, packet_id: u16, into: &mut Vec<u8>) {
        let template = &self.all[Self::index(shape)];
        assert!(self.made & (1 << Self::index(shape)) != 0, "a template is made before it is copied");
        assert!((shape.qos > 0) == (packet_id > 0), "QoS 1 and 2 have packet ids");
        let start = into.len();
        into.extend_from_slice(&template.bytes);
        if shape.qos > 0 {
            let at = start + template.packet_id_at;
            into[at..at + 2].copy_from_slice(&packet_id.to_be_bytes());
        }
    }

    fn index(shape: Shape) -> usize {
        assert!(shape.qos <= 2, "0, 1 or 2");
        let version = usize::from(shape.version == Version::V5);
        (version * 3 + usize::from(shape.qos)) * 2 + usize::from(shape.retain)
    }

    #[cold]
    fn make(&mut self, index: usize, message_ref: &MessageRef<'_>, expiry_s: Option<u32>, shape: Shape) {
        let template = &mut self.all[index];
        template.bytes.clear();
        // A large message leaves no memory behind.
        template.bytes.shrink_to(64 << 10);
        let out = PublishOut {
            dup: false,
            qos: QoS::of(shape.qos).expect("0, 1 or 2"),
            retain: shape.retain,
            topic: message_ref.topic,
            packet_id: 1,
            topic_alias: None,
            message_expiry_s: expiry_s,
            subscription_ids: &[],
            properties: message_ref.properties,
            payload: message_ref.payload,
        };
        let encoded = encode_publish(&mut template.bytes, shape.version, &out);
        template.packet_id_at = encoded.packet_id_at.unwrap_or(0);
        assert!(template.packet_id_at < template.bytes.len(), "the packet id stands in the packet");
        self.made |= 1 << index;
    }
}

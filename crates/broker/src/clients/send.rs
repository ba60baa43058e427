//! Bytes to clients: packets are appended to outboxes, which sockets empty.

use tidegate_machines::TimeMs;

use super::Clients;
use crate::ConnectionKey;
use crate::connection::{Connection, ConnectionState, Flags};
use crate::index::ConnectionIndex;
use crate::limits::{ANONYMOUS_OUTBOX_BYTES_MIN, ANONYMOUS_PART, ANONYMOUS_SHARE};
use crate::template::Templates;

impl Clients {
    /// Lets `write` append to a connection's outbox.
    #[inline]
    pub fn write(
        &mut self,
        index: ConnectionIndex,
        now: TimeMs,
        write: impl FnOnce(&mut Vec<u8>, &Templates),
    ) -> usize {
        let connection = &mut self.connections[index];
        assert!(connection.state != ConnectionState::Vacant, "nothing is written to nobody");
        let is_anonymous = is_anonymous(connection);
        let outbox = *connection.outbox.get_or_insert_with(|| self.outboxes.take(now));
        if !connection.flags.has(Flags::FLUSH_QUEUED) {
            connection.flags.set(Flags::FLUSH_QUEUED);
            self.flushable.push(ConnectionKey { index: index.number(), generation: connection.generation });
        }
        let templates = &self.templates;
        let added = self.outboxes.append(outbox, is_anonymous, |bytes| write(bytes, templates));
        self.facts.bytes_sent += added as u64;
        added
    }

    /// Appends one packet that is no PUBLISH.
    pub fn send(&mut self, index: ConnectionIndex, now: TimeMs, encode: impl FnOnce(&mut Vec<u8>)) {
        self.write(index, now, |bytes, _| encode(bytes));
        self.facts.messages_sent += 1;
    }

    /// Appends one packet that refuses something, with words for people, if the client wants them and takes a packet of
    /// that size. Nothing, if it does not even take the packet without words.
    /// `[MQTT-3.1.2-24]`: the server sends nothing larger than the client's Maximum Packet Size.
    /// `[MQTT-3.1.2-29]`: with Request Problem Information 0, reason strings and user properties only on PUBLISH,
    /// CONNACK and DISCONNECT.
    /// `[MQTT-3.2.2-19]`: no reason string that makes CONNACK too large for the client.
    /// `[MQTT-3.14.2-3]`: no reason string that makes DISCONNECT too large for the receiver.
    pub fn send_refusal(
        &mut self,
        index: ConnectionIndex,
        now: TimeMs,
        reason_text: Option<&str>,
        encode: impl Fn(&mut Vec<u8>, Option<&str>),
    ) {
        let connection = &self.connections[index];
        let bytes_max = connection.packet_bytes_max as usize;
        let reason_text = reason_text.filter(|_| !connection.flags.has(Flags::NO_PROBLEM_INFORMATION));
        self.send(index, now, |bytes| {
            let before = bytes.len();
            encode(bytes, reason_text);
            if reason_text.is_some() && bytes.len() - before > bytes_max {
                bytes.truncate(before);
                encode(bytes, None);
            }
            if bytes.len() - before > bytes_max {
                bytes.truncate(before);
            }
        });
    }

    pub fn outbox(&self, index: ConnectionIndex) -> &[u8] {
        self.connections[index].outbox.map_or(&[], |outbox| self.outboxes.get(outbox).unsent())
    }

    #[inline]
    pub fn outbox_len(&self, index: ConnectionIndex) -> usize {
        self.connections[index].outbox.map_or(0, |outbox| self.outboxes.get(outbox).len())
    }

    /// Whether bytes wait for a connection whose socket has taken none for a while.
    pub fn is_stuck(&self, index: ConnectionIndex) -> bool {
        self.connections[index].outbox.is_some_and(|outbox| self.outboxes.is_stuck(outbox))
    }

    /// Bytes that may wait in a connection's outbox, if others leave as many. Clients without a user that read
    /// nothing share a bound, and one of them may have less the more wait for all: whoever opens many connections and
    /// reads none gets little for each.
    #[inline]
    pub fn own_outbox_bytes_max(&self, index: ConnectionIndex) -> usize {
        let bytes_max = self.limits.outbox_bytes_max;
        let connection = &self.connections[index];
        if !is_anonymous(connection) || !self.is_stuck(index) {
            return bytes_max;
        }
        let waiting = self.outboxes.anonymous_bytes();
        let left = (self.limits.pressure_bytes_max / ANONYMOUS_PART).saturating_sub(waiting);
        bytes_max.min(((left / ANONYMOUS_SHARE) as usize).max(ANONYMOUS_OUTBOX_BYTES_MIN))
    }

    /// Whoever is connected here has no user.
    pub fn is_anonymous(&mut self, index: ConnectionIndex) {
        let connection = &mut self.connections[index];
        assert!(connection.outbox.is_none(), "nothing was said before the verdict");
        connection.flags.set(Flags::ANONYMOUS);
    }

    pub fn sent(&mut self, index: ConnectionIndex, count: usize, now: TimeMs) {
        let connection = &mut self.connections[index];
        let Some(outbox) = connection.outbox else {
            assert!(count == 0, "nothing was there to be sent");
            return;
        };
        if self.outboxes.sent(outbox, count, is_anonymous(connection), now) {
            self.release_outbox(index);
        }
    }

    /// Gives the outbox back, with what is in it.
    pub fn release_outbox(&mut self, index: ConnectionIndex) {
        let connection = &mut self.connections[index];
        if let Some(outbox) = connection.outbox.take() {
            self.facts.unsent_bytes += self.outboxes.get(outbox).len() as u64;
            self.outboxes.give(outbox, is_anonymous(connection));
        }
    }

    pub fn take_flushable(&mut self, keys: &mut Vec<ConnectionKey>) {
        for key in &self.flushable {
            let connection = &mut self.connections[ConnectionIndex::new(key.index)];
            if connection.generation == key.generation {
                connection.flags.clear(Flags::FLUSH_QUEUED);
                keys.push(*key);
            }
        }
        self.flushable.clear();
    }
}

/// Whether a client has no user, so that less may wait for it.
#[inline]
pub(super) fn is_anonymous(connection: &Connection) -> bool {
    connection.flags.has(Flags::ANONYMOUS)
}

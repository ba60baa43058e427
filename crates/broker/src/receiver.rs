//! One subscription that receives from a queue behind the broker: what was handed out to it, and what of that is with
//! its client.
//!
//! ```text
//!   queue ─ hand_out ─▶ waiting ─ window, outbox ─▶ under way ─ PUBACK ─▶ settled: Action::Settle
//! ```
//!
//! Promise: each message that was handed out is settled once, or its receiver ends. Nothing of it is kept by the
//! session: whoever has the queue gives back what is left when the receiver ends.
//!
//! Invariant: what a queue is, how long a message stays with its receiver, and who gets the next one, is not known
//! here.

use std::collections::VecDeque;

use tidegate_machines::TimeMs;

use crate::session::SessionRef;

/// A message that a queue hands out to a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDelivery {
    /// Names it, among those of its receiver.
    pub number: u64,
    /// Encoded MQTT 5 properties.
    pub properties: Box<[u8]>,
    /// Its payload.
    pub payload: Box<[u8]>,
    /// When it is worth nothing any more.
    pub expires_at: Option<TimeMs>,
}

impl QueueDelivery {
    fn bytes(&self) -> usize {
        self.properties.len() + self.payload.len()
    }
}

/// A message that is with the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnderWay {
    pub packet_id: u16,
    /// Its number among those of its receiver.
    pub number: u64,
    /// Its number in the session's window, if the packet id comes from there.
    pub flight: Option<u64>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Receiver {
    pub session: SessionRef,
    /// Its filter, which is the topic of its messages as well.
    pub filter: Box<str>,
    pub subscription_id: u32,
    /// What was handed out and not sent.
    waiting: VecDeque<QueueDelivery>,
    /// Its bytes.
    waiting_bytes: usize,
    /// What was sent and not acknowledged, in the order of sending.
    under_way: Vec<UnderWay>,
    /// Whether messages were asked for that have not come.
    is_asked: bool,
    /// Its subscription is gone: it gets nothing more, but what is under way may still be acknowledged.
    is_over: bool,
}

impl Receiver {
    /// A receiver that has nothing.
    pub fn new(session: SessionRef, filter: &str, subscription_id: u32) -> Receiver {
        Receiver {
            session,
            filter: filter.into(),
            subscription_id,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            under_way: Vec::new(),
            is_asked: false,
            is_over: false,
        }
    }

    /// How many messages are to be asked for now, if `room` more may be under way; they count as asked for then.
    pub fn demand(&mut self, room: usize) -> Option<usize> {
        if room == 0 || self.is_asked || self.is_over || !self.waiting.is_empty() {
            return None;
        }
        self.is_asked = true;
        Some(room)
    }

    /// Takes what was asked for.
    pub fn take(&mut self, deliveries: Vec<QueueDelivery>) {
        assert!(std::mem::take(&mut self.is_asked), "what is handed out was asked for");
        assert!(self.waiting.is_empty() && !self.is_over, "one demand after the other");
        self.waiting_bytes = deliveries.iter().map(QueueDelivery::bytes).sum();
        self.waiting.extend(deliveries);
    }

    /// What is to be sent next.
    pub fn front(&self) -> Option<&QueueDelivery> {
        self.waiting.front()
    }

    /// Bytes that were handed out and not sent.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// What was at the front is with the client.
    pub fn sent(&mut self, packet_id: u16, flight: Option<u64>) {
        let number = self.give_up();
        self.under_way.push(UnderWay { packet_id, number, flight });
    }

    /// What was at the front cannot be sent. Its number.
    pub fn give_up(&mut self) -> u64 {
        let delivery = self.waiting.pop_front().expect("what is sent, or cannot be, was at the front");
        self.waiting_bytes -= delivery.bytes();
        delivery.number
    }

    /// A PUBACK. The message that it is for, if that is one of these.
    pub fn acknowledge(&mut self, packet_id: u16) -> Option<UnderWay> {
        let nth = self.under_way.iter().position(|message| message.packet_id == packet_id)?;
        Some(self.under_way.remove(nth))
    }

    /// Whether a message with this packet id is under way.
    pub fn uses(&self, packet_id: u16) -> bool {
        self.under_way.iter().any(|message| message.packet_id == packet_id)
    }

    /// Messages that the client has not acknowledged.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Those of them that the session's window does not count.
    pub fn beside_window(&self) -> usize {
        self.under_way.iter().filter(|message| message.flight.is_none()).count()
    }

    /// Its subscription is gone. The numbers of what was not sent.
    pub fn stop(&mut self) -> Vec<u64> {
        self.is_over = true;
        self.is_asked = false;
        self.waiting_bytes = 0;
        self.waiting.drain(..).map(|delivery| delivery.number).collect()
    }

    /// Whether its subscription is gone.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Panics if it contradicts itself. For tests and simulation.
    pub fn assert_sound(&self) {
        let ids = |nth: usize| self.under_way[nth].packet_id;
        let differ = |nth: usize| (0..nth).all(|other| ids(other) != ids(nth));
        assert!((0..self.under_way.len()).all(differ), "a packet id names one message");
        assert!(self.under_way.iter().all(|message| message.packet_id > 0), "what is under way has a packet id");
        assert!(!self.is_over || self.waiting.is_empty() && !self.is_asked, "what is over wants nothing");
        assert!(!self.is_over || !self.under_way.is_empty(), "what is over waits for acknowledgements");
        assert!(self.waiting.is_empty() || !self.is_asked, "one demand after the other");
        let bytes: usize = self.waiting.iter().map(QueueDelivery::bytes).sum();
        assert_eq!(bytes, self.waiting_bytes, "bytes that wait");
    }
}

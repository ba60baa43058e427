//! What a client leaves with its CONNECT, and how it takes leave.
//!
//! ```text
//!   CONNECT + will ─▶ Online ─┬─ DISCONNECT 0x00: the will is taken back
//!                             ├─ DISCONNECT 0x04, or none: the will comes after its delay, if the client stays away
//!                             └─ rubbish: nobody knows what it is taken for
//! ```

use tidegate_wire::mqtt::{QoS, ReasonCode, Version, WillOut, encode_disconnect};

use super::{Life, SimClient, payload_of, rubbish};
use crate::gateway::oracle::{Oracle, Parting};

/// The most seconds that the server is told to wait with a will.
const DELAY_S_MAX: u64 = 2;

/// How often clients of a seed leave wills; each is "so many times in a thousand".
#[derive(Clone, Copy, Debug)]
pub struct WillHabits {
    /// A CONNECT leaves one.
    pub left: u64,
    /// One of MQTT 5 has a delay.
    pub delayed: u64,
}

/// A will that goes with a CONNECT.
pub(super) struct Left {
    topic: String,
    payload: String,
    qos: QoS,
    delay_s: Option<u32>,
}

impl Left {
    /// As CONNECT has it.
    pub fn out(&self) -> WillOut<'_> {
        let (topic, payload) = (self.topic.as_str(), self.payload.as_bytes());
        WillOut { topic, payload, qos: self.qos, delay_s: self.delay_s, ..WillOut::default() }
    }
}

/// What a client has said for a good-bye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goodbye {
    /// Nothing.
    Unsaid,
    /// DISCONNECT 0x00.
    Normal,
    /// DISCONNECT 0x04: the will is to be sent.
    WithWill,
    /// No MQTT.
    Rubbish,
}

impl SimClient {
    /// Now and then, a will for the next CONNECT.
    pub(super) fn leave_will(&mut self, oracle: &mut Oracle) -> Option<Left> {
        if !self.chance.happens(self.wills.left) {
            return None;
        }
        let name = (self.index, self.next_number);
        self.next_number += 1;
        let (topic, payload) = (format!("room1/will-{}", self.index), payload_of(name));
        let qos = 1 + u8::from(self.chance.happens(700));
        let delays = self.version == Version::V5 && self.durable && self.chance.happens(self.wills.delayed);
        let delay_s = if delays { self.chance.within(1..=DELAY_S_MAX) } else { 0 };
        oracle.will_left(name, &topic, qos, delay_s, self.durable);
        let qos = QoS::of(qos).expect("1 or 2");
        Some(Left { topic, payload, qos, delay_s: (delay_s > 0).then_some(delay_s as u32) })
    }

    /// Says DISCONNECT, once; the world closes the connection once it is sent.
    pub fn leave(&mut self, oracle: &mut Oracle) {
        if self.goodbye != Goodbye::Unsaid {
            return;
        }
        let with_will = self.version == Version::V5 && self.chance.happens(200);
        let (goodbye, reason) = match with_will {
            true => (Goodbye::WithWill, ReasonCode::DISCONNECT_WITH_WILL),
            false => (Goodbye::Normal, ReasonCode::NORMAL_DISCONNECTION),
        };
        if with_will {
            oracle.may_be_over(self.index);
        }
        oracle.says_goodbye(self.index);
        self.goodbye = goodbye;
        encode_disconnect(&mut self.output, self.version, reason, None, None, None);
    }

    /// Whether its last word was DISCONNECT 0x00, all of which its socket has taken.
    pub fn has_taken_leave(&self) -> bool {
        self.goodbye == Goodbye::Normal && self.output.is_empty()
    }

    /// Sends what no client should, once, and nothing behind it: that might make a packet of it.
    pub fn send_rubbish(&mut self, oracle: &mut Oracle) -> Option<Vec<u8>> {
        if self.goodbye == Goodbye::Rubbish {
            return None;
        }
        oracle.may_be_over(self.index);
        self.goodbye = Goodbye::Rubbish;
        let bytes = rubbish::draw(&mut self.chance, self.version);
        self.output.extend(&bytes);
        Some(bytes)
    }

    /// The connection is gone. If a will waits for its delay now, the client may stay away for longer than that, or
    /// for less.
    pub fn disconnected(&mut self, parting: Parting, oracle: &mut Oracle) {
        if self.life != Life::Offline {
            oracle.gone(self.index, self.seen(parting));
        }
        if self.life != Life::Offline && oracle.has_pending_will(self.index) && self.chance.happens(700) {
            let away_ms = self.chance.within(1..=DELAY_S_MAX * 1_500);
            self.away_until_ms = oracle.since_boot_ms() + away_ms;
        }
        self.forget_connection(oracle);
    }

    /// How the server sees what the client has done.
    fn seen(&self, parting: Parting) -> Parting {
        match (self.goodbye, parting) {
            (Goodbye::Unsaid | Goodbye::WithWill, _) => parting,
            // It closes the connection when it has read the good-bye.
            (Goodbye::Normal, Parting::SentAway) => Parting::Said,
            (Goodbye::Normal | Goodbye::Rubbish, _) => Parting::Unknown,
        }
    }

    /// Whether it wants to connect.
    pub fn comes_back(&self, oracle: &Oracle) -> bool {
        oracle.since_boot_ms() >= self.away_until_ms
    }
}

//! A simulated MQTT client: it does what the protocol lets it do, in any order, and keeps its side of the bargain.
//!
//! ```text
//!   Offline ──connect──▶ Greeting ──CONNACK──▶ Online ──leave, reset, stall, rubbish──▶ Offline
//! ```
//!
//! A client with a session sends again after a break what was not acknowledged, with the same packet ids, and lets no
//! QoS 2 message through twice. One without forgets all that, as its session does.

use std::collections::{BTreeMap, HashSet, VecDeque};

use tidegate_wire::mqtt::{
    AckKind, ConnectOut, Packet, PublishOut, QoS, ReasonCode, Split, SubscriptionOut, Version, decode_server,
    encode_ack, encode_connect, encode_pingreq, encode_publish, encode_subscribe, encode_unsubscribe, split,
};

mod rubbish;
mod share;
mod will;

use super::oracle::{ClientIndex, Interest, MessageName, Oracle, POOL, Times};
use super::plan::Plan;
use crate::chance::Chance;
use crate::violation::{Violation, must};
use will::Goodbye;

pub use share::ShareHabits;
pub use will::WillHabits;

/// Publications of one client under way at once.
const WINDOW: usize = 8;
/// Packet ids of one client: few, so that they are soon used again.
const IDS: u16 = 20;
/// A client says something so often at least while it is busy, and is cut off by nobody.
const KEEP_ALIVE_S: u16 = 30;
/// Seconds after which some messages are worth nothing any more.
const MESSAGE_EXPIRY_S: u32 = 3_600;
/// The most seconds by which messages are delayed.
const DELAY_S_MAX: u64 = 3;

/// Where a client is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// No connection.
    Offline,
    /// CONNECT was sent.
    Greeting,
    /// CONNACK came.
    Online,
}

/// What this client publishes is not done yet.
#[derive(Debug)]
struct Pending {
    id: u16,
    name: MessageName,
    topic: String,
    qos: u8,
    retain: bool,
    /// In how many seconds it is to be published, if not at once.
    delay_s: Option<u64>,
    expiry_s: Option<u32>,
    /// PUBREC came; PUBREL is what is sent again.
    received: bool,
}

/// What was asked with a packet id and not answered.
#[derive(Debug)]
enum Asked {
    Subscribe(Interest),
    Unsubscribe,
}

/// One client through all its connections.
pub struct SimClient {
    index: ClientIndex,
    version: Version,
    /// Whether its session outlives its connections.
    durable: bool,
    /// For how long.
    session_expiry_s: u32,
    /// When it last said something, in milliseconds since the host was started.
    spoke_at_ms: u64,
    life: Life,
    input: Vec<u8>,
    /// What the socket has not taken yet.
    pub output: Vec<u8>,
    next_number: u64,
    next_id: u16,
    pending: VecDeque<Pending>,
    asked: BTreeMap<u16, Asked>,
    /// Packet ids of QoS 2 messages received and not released.
    unreleased: HashSet<u16>,
    /// Rooms with a granted or asked subscription.
    rooms: BTreeMap<String, u8>,
    /// The server has a session of ours, as far as we know.
    has_session: bool,
    /// A clean start was sent and not answered: nobody knows whether the session is the old one, so the next start is
    /// clean too.
    must_clean: bool,
    goodbye: Goodbye,
    /// It stays away until then, in milliseconds since the host was started.
    away_until_ms: u64,
    wills: WillHabits,
    shares: ShareHabits,
    /// Its own chance.
    pub chance: Chance,
}

impl SimClient {
    /// A client that is not connected.
    pub fn new(index: ClientIndex, plan: &Plan, chance: &mut Chance) -> SimClient {
        SimClient {
            index,
            version: if chance.happens(500) { Version::V5 } else { Version::V311 },
            durable: chance.happens(700),
            session_expiry_s: plan.session_expiry_s,
            spoke_at_ms: 0,
            life: Life::Offline,
            input: Vec::new(),
            output: Vec::new(),
            next_number: 0,
            next_id: 1,
            pending: VecDeque::new(),
            asked: BTreeMap::new(),
            unreleased: HashSet::new(),
            rooms: BTreeMap::new(),
            has_session: false,
            must_clean: false,
            goodbye: Goodbye::Unsaid,
            away_until_ms: 0,
            wills: plan.wills,
            shares: plan.shares,
            chance: chance.branch(),
        }
    }

    /// Where it is in its life.
    pub fn life(&self) -> Life {
        self.life
    }

    /// Whether all that it published is acknowledged and released.
    pub fn is_done(&self) -> bool {
        self.life == Life::Online && self.pending.is_empty() && self.asked.is_empty() && self.output.is_empty()
    }

    /// What it still waits for, in words; `None` if all is done.
    pub fn unfinished(&self) -> Option<String> {
        let waits =
            || format!("client {}: {:?}, {:?}, {} bytes", self.index, self.pending, self.asked, self.output.len());
        (!self.is_done()).then(waits)
    }

    /// Its client id.
    pub fn client_id(&self) -> String {
        format!("client-{}", self.index)
    }

    /// Sends CONNECT on a new connection.
    pub fn connect(&mut self, clean: bool, oracle: &mut Oracle) {
        // A client of version 3.1.1 that asks for a clean session gets one that ends with the connection.
        let clean = self.must_clean || !self.durable || clean && self.version == Version::V5;
        self.must_clean = clean;
        if clean {
            self.forget(oracle);
        }
        self.life = Life::Greeting;
        self.goodbye = Goodbye::Unsaid;
        self.input.clear();
        self.output.clear();
        oracle.connecting(self.index, clean);
        let (client_id, will) = (self.client_id(), self.leave_will(oracle));
        let connect = ConnectOut {
            clean_start: clean,
            client_id: &client_id,
            will: will.as_ref().map(will::Left::out),
            user_name: Some(&client_id),
            keep_alive_s: KEEP_ALIVE_S,
            session_expiry_s: self.durable.then_some(self.session_expiry_s),
            receive_maximum: self.chance.happens(300).then_some(self.chance.within(1..=5) as u16),
            ..ConnectOut::default()
        };
        encode_connect(&mut self.output, self.version, &connect);
    }

    /// Forgets what belongs to a connection that is gone.
    fn forget_connection(&mut self, oracle: &mut Oracle) {
        self.life = Life::Offline;
        self.output.clear();
        self.input.clear();
        // Whether it was done nobody knows: what was asked is not owed, what was granted may be asked for again.
        for (_, asked) in std::mem::take(&mut self.asked) {
            if let Asked::Subscribe(interest) = asked {
                self.rooms.remove(&interest.room);
            }
        }
        if !self.durable {
            self.forget(oracle);
        }
    }

    /// The session ends, on both sides.
    fn forget(&mut self, oracle: &mut Oracle) {
        oracle.forgotten(self.index);
        self.pending.clear();
        self.unreleased.clear();
        self.rooms.clear();
        self.has_session = false;
    }

    /// One move of a client that is online, by chance. `rooms` is how many rooms there are.
    pub fn act(&mut self, rooms: u64, oracle: &mut Oracle) {
        match self.chance.weighted(&[60, 10, 3, 5, 22]) {
            0 => self.publish(rooms, oracle),
            1 => self.subscribe(rooms),
            2 => self.unsubscribe(oracle),
            3 => encode_pingreq(&mut self.output),
            _ => {}
        }
    }

    /// The socket took something of what it says.
    pub fn spoke(&mut self, since_boot_ms: u64) {
        self.spoke_at_ms = since_boot_ms;
    }

    fn publish(&mut self, rooms: u64, oracle: &mut Oracle) {
        if self.pending.len() >= WINDOW {
            return;
        }
        let is_shared = self.publishes_to_pool();
        let retain = !is_shared && self.chance.happens(100);
        // Messages of one QoS keep their order over a break; what is retained last is known only of them.
        let qos = if retain { 1 + (self.index % 2) as u8 } else { self.chance.below(3) as u8 };
        let room = match self.chance.below(rooms + 1) {
            _ if is_shared => POOL.to_owned(),
            0 => format!("private/{}", self.chance.below(4)),
            room => format!("room{room}"),
        };
        // Only one client retains on a topic, so that there is one last message.
        let delay_s =
            (qos > 0 && !retain && !is_shared && self.chance.happens(100)).then(|| self.chance.within(0..=DELAY_S_MAX));
        let is_short = self.version == Version::V5 && !retain && self.chance.happens(100);
        let expiry_s = is_short.then_some(MESSAGE_EXPIRY_S);
        let leaf = if retain { format!("kept-{}", self.index) } else { format!("{}", self.chance.below(3)) };
        let topic = format!("{room}/{leaf}");
        let name = (self.index, self.next_number);
        self.next_number += 1;
        let id = if qos == 0 { 0 } else { self.free_id() };
        oracle.sent(name, &topic, qos, retain, Times { delay_s, expiry_s });
        let pending = Pending { id, name, topic, qos, retain, delay_s, expiry_s, received: false };
        self.send(&pending, false);
        if qos > 0 {
            self.pending.push_back(pending);
        }
    }

    fn send(&mut self, pending: &Pending, dup: bool) {
        let payload = payload_of(pending.name);
        let topic = match pending.delay_s {
            Some(seconds) => format!("$delayed/{seconds}/{}", pending.topic),
            None => pending.topic.clone(),
        };
        let publish = PublishOut {
            dup,
            qos: QoS::of(pending.qos).expect("0, 1 or 2"),
            retain: pending.retain,
            topic: &topic,
            packet_id: pending.id,
            topic_alias: None,
            message_expiry_s: pending.expiry_s,
            subscription_ids: &[],
            properties: &[],
            payload: payload.as_bytes(),
        };
        encode_publish(&mut self.output, self.version, &publish);
    }

    fn subscribe(&mut self, rooms: u64) {
        let joins = self.joins();
        let room = match self.chance.below(rooms + 1) {
            _ if joins => POOL.to_owned(),
            0 => "private".to_owned(),
            room => format!("room{room}"),
        };
        if self.rooms.contains_key(&room) || self.asked.len() > 2 {
            return;
        }
        let qos = if joins { self.chance.within(1..=2) } else { self.chance.below(3) } as u8;
        let filter = match room.as_str() {
            POOL => self.group_filter(),
            // What others own is asked for as well: it must be refused.
            "private" => format!("private/{}/#", if self.chance.happens(800) { self.index } else { self.index + 1 }),
            room => format!("{room}/#"),
        };
        let id = self.free_id();
        let subscription =
            SubscriptionOut { filter: &filter, qos: QoS::of(qos).expect("0, 1 or 2"), ..SubscriptionOut::default() };
        encode_subscribe(&mut self.output, self.version, id, None, &[subscription]);
        self.rooms.insert(room.clone(), qos);
        self.asked.insert(id, Asked::Subscribe(Interest { room, qos }));
    }

    fn unsubscribe(&mut self, oracle: &mut Oracle) {
        let asked_for: Vec<&String> = self
            .asked
            .values()
            .filter_map(|asked| match asked {
                Asked::Subscribe(interest) => Some(&interest.room),
                Asked::Unsubscribe => None,
            })
            .collect();
        let Some(room) =
            self.rooms.keys().find(|room| *room != "private" && *room != POOL && !asked_for.contains(room)).cloned()
        else {
            return;
        };
        oracle.unsubscribing(self.index, &room);
        self.rooms.remove(&room);
        let id = self.free_id();
        encode_unsubscribe(&mut self.output, self.version, id, &[&format!("{room}/#")]);
        self.asked.insert(id, Asked::Unsubscribe);
    }

    fn free_id(&mut self) -> u16 {
        loop {
            let id = self.next_id;
            self.next_id = self.next_id % IDS + 1;
            if !self.asked.contains_key(&id) && !self.pending.iter().any(|pending| pending.id == id) {
                return id;
            }
        }
    }

    /// Bytes came. `Ok(false)`: the server says good-bye.
    pub fn receive(&mut self, bytes: &[u8], oracle: &mut Oracle) -> Result<bool, Violation> {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        let mut stays = true;
        loop {
            let wrong =
                |what: String| Violation::of("the server speaks MQTT", format!("to client {}: {what}", self.index));
            match split(&input[at..], u32::MAX).map_err(|error| wrong(format!("{error:?}")))? {
                Split::NeedMore => break,
                Split::Packet(length) => {
                    let packet = decode_server(&input[at..at + length], self.version)
                        .map_err(|error| wrong(format!("{error:?} in {:?}", &input[at..at + length])))?;
                    stays &= self.take(packet, oracle)?;
                    at += length;
                }
            }
        }
        self.input = input[at..].to_vec();
        Ok(stays)
    }

    fn take(&mut self, packet: Packet<'_>, oracle: &mut Oracle) -> Result<bool, Violation> {
        match packet {
            Packet::ConnAck(connack) => {
                if connack.reason != ReasonCode::SUCCESS {
                    return Ok(false);
                }
                must(!self.has_session || connack.session_present, "a durable session survives", || {
                    format!("client {} has lost its session", self.index)
                })?;
                if !connack.session_present {
                    self.forget(oracle);
                }
                oracle.connected(self.index, connack.session_present);
                self.life = Life::Online;
                self.must_clean = false;
                self.has_session = self.durable;
                self.send_again(oracle);
            }
            Packet::Publish(publish) => {
                let text = String::from_utf8_lossy(publish.payload).into_owned();
                let mut numbers = text.split(' ').map(str::parse::<u64>);
                let (Some(Ok(publisher)), Some(Ok(number))) = (numbers.next(), numbers.next()) else {
                    return Err(Violation::of("nothing is heard that nobody sent", text));
                };
                let name = (publisher as ClientIndex, number);
                let qos = publish.qos as u8;
                let first_time = qos < 2 || self.unreleased.insert(publish.packet_id);
                if first_time {
                    oracle.heard(self.index, name, publish.topic, qos, publish.retain)?;
                }
                match qos {
                    0 => {}
                    1 => self.acknowledge(AckKind::PubAck, publish.packet_id),
                    _ => self.acknowledge(AckKind::PubRec, publish.packet_id),
                }
            }
            Packet::PubRel(release) => {
                self.unreleased.remove(&release.packet_id);
                self.acknowledge(AckKind::PubComp, release.packet_id);
            }
            Packet::PubAck(ack) | Packet::PubComp(ack) => {
                let at = self.position(ack.packet_id)?;
                let pending = self.pending.remove(at).expect("it was just found");
                if ack.reason.0 < 0x80 {
                    oracle.acknowledged(pending.name);
                }
            }
            Packet::PubRec(ack) => {
                let at = self.position(ack.packet_id)?;
                if ack.reason.0 >= 0x80 {
                    self.pending.remove(at);
                } else {
                    self.pending[at].received = true;
                    oracle.acknowledged(self.pending[at].name);
                    self.acknowledge(AckKind::PubRel, ack.packet_id);
                }
            }
            Packet::SubAck(suback) => match self.asked.remove(&suback.packet_id) {
                Some(Asked::Subscribe(interest)) => {
                    let reason = suback.reasons().next().map_or(0xff, |reason| reason.0);
                    if reason >= 0x80 {
                        self.rooms.remove(&interest.room);
                    } else {
                        must(reason <= interest.qos, "SUBACK grants no more than was asked", || format!("{reason}"))?;
                        oracle.subscribed(self.index, &Interest { qos: reason, ..interest }, self.durable);
                    }
                }
                other => return Err(self.unexpected(&format!("SUBACK for {other:?}"))),
            },
            Packet::UnsubAck(unsuback) => match self.asked.remove(&unsuback.packet_id) {
                Some(Asked::Unsubscribe) => {}
                other => return Err(self.unexpected(&format!("UNSUBACK for {other:?}"))),
            },
            Packet::PingResp => {}
            Packet::Disconnect(goodbye) => {
                let silent_ms = oracle.since_boot_ms().saturating_sub(self.spoke_at_ms);
                let is_silent = silent_ms >= u64::from(KEEP_ALIVE_S) * 1_000;
                must(
                    goodbye.reason != ReasonCode::KEEP_ALIVE_TIMEOUT || is_silent,
                    "who speaks is not cut off",
                    || format!("client {} was told that it is silent after {silent_ms} ms", self.index),
                )?;
                return Ok(false);
            }
            other => return Err(self.unexpected(&format!("{other:?}"))),
        }
        Ok(true)
    }

    /// What was not acknowledged is sent again, in order, after a session was resumed.
    fn send_again(&mut self, oracle: &mut Oracle) {
        for pending in std::mem::take(&mut self.pending) {
            match pending.received {
                true => self.acknowledge(AckKind::PubRel, pending.id),
                false => {
                    oracle.resent(pending.name);
                    self.send(&pending, true);
                }
            }
            self.pending.push_back(pending);
        }
    }

    fn acknowledge(&mut self, kind: AckKind, id: u16) {
        if self.goodbye != Goodbye::Rubbish {
            encode_ack(&mut self.output, self.version, kind, id, ReasonCode::SUCCESS, None);
        }
    }

    fn position(&self, id: u16) -> Result<usize, Violation> {
        let found = self.pending.iter().position(|pending| pending.id == id);
        found.ok_or_else(|| self.unexpected(&format!("an acknowledgement of packet id {id}")))
    }

    fn unexpected(&self, what: &str) -> Violation {
        Violation::of("the server answers what was asked", format!("client {} got {what}", self.index))
    }
}

/// What a message says: its name, and sometimes more than fits a pipe or an outbox.
fn payload_of((publisher, number): MessageName) -> String {
    let filler = if number % 17 == 0 { 2_000 } else { (number % 5) as usize };
    format!("{publisher} {number} {}", ".".repeat(filler))
}

//! What clients were promised, and what they got. Knows MQTT's promises, nothing of how a broker keeps them.
//!
//! ```text
//!   sent(message) ─▶ acknowledged(message) ─▶ owed to every session whose subscription was granted before it was sent
//!   will_left ─▶ gone without DISCONNECT (`wills`) ─▶ owed to every session that was subscribed then
//!   heard(client, message) ─▶ allowed? subscribed? twice? out of order?
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::client::ShareHabits;
use crate::note;
use crate::trace::Trace;
use crate::violation::{Violation, must};
use groups::Groups;
use wills::{Now, Wills};

mod groups;
mod wills;

pub use groups::POOL;
pub use wills::{Parting, WillCounts};

/// Which of the clients.
pub type ClientIndex = usize;

/// What a client asks to hear: a room, with a QoS. Rooms of one client never overlap, so each message is owed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// First level of the topic.
    pub room: String,
    /// Granted QoS.
    pub qos: u8,
}

/// When a message is to be published, and when it is worth nothing any more, as its publisher says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// In how many seconds, if not at once.
    pub delay_s: Option<u64>,
    /// So many seconds after that.
    pub expiry_s: Option<u32>,
}

/// One message that some client published.
#[derive(Clone, Debug)]
struct Sent {
    topic: String,
    qos: u8,
    acknowledged: bool,
    /// Sessions that must hear it, once it is acknowledged: all that were subscribed when it was sent, and still are.
    owed: BTreeMap<ClientIndex, u8>,
    retained: bool,
    times: Times,
    /// When it was sent: see [`Oracle::tell_time`].
    aged_ms: u64,
    /// It was sent again after a break, behind younger ones.
    resent: bool,
}

/// Numbers a message: the client that published it, and its how-manieth it was.
pub type MessageName = (ClientIndex, u64);

/// All promises of one run.
pub struct Oracle {
    trace: Trace,
    since_boot_ms: u64,
    aged_ms: u64,
    sent: BTreeMap<MessageName, Sent>,
    /// Subscriptions of durable sessions that were granted and not taken back.
    interests: BTreeMap<ClientIndex, BTreeMap<String, u8>>,
    /// How often each message was heard: in all, and with QoS 2.
    heard: HashMap<ClientIndex, HashMap<MessageName, [u64; 2]>>,
    /// The newest message heard, by listener, publisher, topic and QoS, as published and as delivered.
    newest: HashMap<(ClientIndex, ClientIndex, String, (u8, u8)), u64>,
    wills: Wills,
    groups: Groups,
    /// Messages that were acknowledged.
    pub acknowledged: u64,
    /// Messages that were heard, repetitions included.
    pub deliveries: u64,
    /// Messages heard again that were sent with QoS 1.
    pub repetitions: u64,
    /// Delayed messages that were heard.
    pub delayed: u64,
}

impl Oracle {
    /// An oracle that has seen nothing, and tells `trace` what it sees.
    pub fn new(shares: ShareHabits, trace: Trace) -> Oracle {
        Oracle {
            trace,
            since_boot_ms: 0,
            aged_ms: 0,
            sent: BTreeMap::new(),
            interests: BTreeMap::new(),
            heard: HashMap::new(),
            newest: HashMap::new(),
            acknowledged: 0,
            deliveries: 0,
            repetitions: 0,
            wills: Wills::default(),
            groups: Groups::new(shares.groups, shares.passes_on()),
            delayed: 0,
        }
    }

    /// What time it is: since the host was started, and how old anything may have become by the server's time at most,
    /// both in milliseconds.
    pub fn tell_time(&mut self, since_boot_ms: u64, aged_ms: u64) {
        (self.since_boot_ms, self.aged_ms) = (since_boot_ms, aged_ms);
    }

    /// Milliseconds since the host was started.
    pub fn since_boot_ms(&self) -> u64 {
        self.since_boot_ms
    }

    /// A client hands a message to its connection for the first time.
    pub fn sent(&mut self, name: MessageName, topic: &str, qos: u8, retained: bool, times: Times) {
        let kept = if retained { ", retained" } else { "" };
        note!(self.trace, "  {name:?} is sent to {topic} with QoS {qos}{kept}, {times:?}");
        let owed = self.subscribers(topic, qos);
        let aged_ms = self.aged_ms;
        let topic = topic.to_owned();
        if is_shared(&topic) {
            self.groups.sent(name, qos);
        }
        self.sent.insert(name, Sent { topic, qos, acknowledged: false, owed, retained, times, aged_ms, resent: false });
    }

    /// Whom a message that is published now is for, and how surely each gets it.
    fn subscribers(&self, topic: &str, qos: u8) -> BTreeMap<ClientIndex, u8> {
        let room = topic.split('/').next().unwrap_or_default();
        let interests = self.interests.iter().filter(|(client, _)| may_hear(**client, topic));
        interests.filter_map(|(client, rooms)| rooms.get(room).map(|granted| (*client, qos.min(*granted)))).collect()
    }

    /// Its publisher sends it again. Who subscribed between the two may hear it behind younger messages.
    pub fn resent(&mut self, name: MessageName) {
        note!(self.trace, "  {name:?} is sent again");
        let sent = self.sent.get_mut(&name).expect("only what was sent is sent again");
        sent.resent = true;
    }

    /// PUBACK or PUBREC came for it.
    pub fn acknowledged(&mut self, name: MessageName) {
        note!(self.trace, "  {name:?} is acknowledged");
        let sent = self.sent.get_mut(&name).expect("only what was sent is acknowledged");
        if !std::mem::replace(&mut sent.acknowledged, true) {
            self.acknowledged += 1;
        }
    }

    fn now(&self) -> Now {
        Now { since_boot_ms: self.since_boot_ms, aged_ms: self.aged_ms }
    }

    /// A client leaves a will with its CONNECT. `is_durable`: its session outlives the connection.
    pub fn will_left(&mut self, name: MessageName, topic: &str, qos: u8, delay_s: u64, is_durable: bool) {
        self.sent(name, topic, qos, false, Times::default());
        self.wills.left(name, delay_s, is_durable);
    }

    /// A client is about to send CONNECT. `is_clean`: it asks for a clean start.
    pub fn connecting(&mut self, client: ClientIndex, is_clean: bool) {
        self.wills.connecting(client, is_clean, self.now());
    }

    /// A client got CONNACK. `is_resumed`: with the session of before.
    pub fn connected(&mut self, client: ClientIndex, is_resumed: bool) {
        self.wills.connected(client, is_resumed, self.now());
        self.groups.connected(client);
    }

    /// A client ends its connection: it hears what is on its way, and others may hear the same if its session is clean.
    pub fn says_goodbye(&mut self, client: ClientIndex) {
        let sent = &self.sent;
        self.groups.may_be_over(client, |name| sent.get(name).is_some_and(|sent| sent.acknowledged));
    }

    /// The server may have ended the connection of a client that has not noticed.
    pub fn may_be_over(&mut self, client: ClientIndex) {
        self.says_goodbye(client);
        let Some(name) = self.wills.may_be_over(client) else { return };
        let owed = self.subscribers(&self.sent[&name].topic, self.sent[&name].qos);
        self.sent.get_mut(&name).expect("it was just found").owed = owed;
    }

    /// A client's connection has ended.
    pub fn gone(&mut self, client: ClientIndex, parting: Parting) {
        let Some(name) = self.wills.gone(client, parting, self.now()) else { return };
        let sent = &self.sent[&name];
        note!(self.trace, "  the will {name:?} is due, now or after its delay: {parting:?}");
        // Who has left a subscription since CONNECT is not told; who has got one is, unless the will went before.
        let mut owed = self.subscribers(&sent.topic, sent.qos);
        if self.wills.may_be_sent_before(name) {
            owed.retain(|client, qos| {
                let before = sent.owed.get(client);
                *qos = before.map_or(0, |before| (*before).min(*qos));
                before.is_some()
            });
        }
        self.sent.get_mut(&name).expect("it was just found").owed = owed;
    }

    /// Whether a will of this client waits for its delay.
    pub fn has_pending_will(&self, client: ClientIndex) -> bool {
        self.wills.is_pending(client)
    }

    /// All that the process was told is durable.
    pub fn all_is_durable(&mut self) {
        self.wills.all_is_durable();
    }

    /// The process has ended. What it was told and is not durable may be lost, also where it was stopped.
    pub fn process_ended(&mut self) {
        self.wills.process_ended(self.now());
        self.groups.process_ended();
    }

    /// A process serves.
    pub fn process_serves(&mut self) {
        self.wills.process_serves(self.now());
    }

    /// What became of wills, counted.
    pub fn wills(&self) -> WillCounts {
        self.wills.counts
    }

    /// SUBACK granted it to a session that outlives its connection, if `is_durable`: else it matters only to others of
    /// a share group.
    pub fn subscribed(&mut self, client: ClientIndex, interest: &Interest, is_durable: bool) {
        note!(self.trace, "  client {client} is subscribed: {interest:?}");
        if interest.room == POOL {
            self.groups.joined(client, is_durable);
        } else if is_durable {
            self.interests.entry(client).or_default().insert(interest.room.clone(), interest.qos);
        }
    }

    /// UNSUBSCRIBE was sent: from now on nothing of that room is owed, not even what was sent before.
    pub fn unsubscribing(&mut self, client: ClientIndex, room: &str) {
        note!(self.trace, "  client {client} unsubscribes from {room}");
        self.interests.entry(client).or_default().remove(room);
        let of_room = |sent: &&mut Sent| sent.topic.split('/').next() == Some(room);
        for sent in self.sent.values_mut().filter(of_room) {
            sent.owed.remove(&client);
        }
    }

    /// The session ended, or a clean start was sent that ends it.
    pub fn forgotten(&mut self, client: ClientIndex) {
        self.interests.remove(&client);
        let sent = &self.sent;
        self.groups.left(client, |name| sent.get(name).is_some_and(|sent| sent.acknowledged));
        self.heard.remove(&client);
        self.newest.retain(|(listener, ..), _| *listener != client);
        for sent in self.sent.values_mut() {
            sent.owed.remove(&client);
        }
    }

    /// A client was given a message.
    pub fn heard(
        &mut self,
        client: ClientIndex,
        name: MessageName,
        topic: &str,
        qos: u8,
        retained: bool,
    ) -> Result<(), Violation> {
        self.deliveries += 1;
        note!(
            self.trace,
            "  client {client} hears {name:?} with QoS {qos}{}",
            if retained { ", retained" } else { "" }
        );
        let sent = self.sent.get(&name).ok_or_else(|| {
            Violation::of("nothing is heard that nobody sent", format!("client {client} heard {name:?} on {topic}"))
        })?;
        must(sent.topic == topic, "a message keeps its topic", || {
            format!("client {client} heard {name:?} of {} on {topic}", sent.topic)
        })?;
        must(qos <= sent.qos, "no message is sent on with a higher QoS", || format!("{name:?}: {qos} > {}", sent.qos))?;
        must(may_hear(client, topic), "nothing reaches someone without the right", || {
            format!("client {client} heard {name:?} on {topic}")
        })?;
        if retained {
            return Ok(());
        }
        self.wills.heard(name, self.now())?;
        if is_shared(topic) {
            self.groups.heard(client, name, qos, sent.resent)?;
        }
        let waited_ms = self.aged_ms - sent.aged_ms;
        let delay_ms = sent.times.delay_s.unwrap_or(0) * 1_000;
        must(waited_ms + 1 >= delay_ms, "a delayed message does not come before its time", || {
            format!("client {client} heard {name:?} after {waited_ms} ms at most instead of {delay_ms}")
        })?;
        self.delayed += u64::from(delay_ms > 0);
        let [in_all, surely] = self.heard.entry(client).or_default().entry(name).or_default();
        *in_all += 1;
        // A subscription that was of a lower QoS when the message first came, or came too late for it, counts for
        // itself.
        *surely += u64::from(qos == 2);
        // What is sent again to a share group may be another member's, who leaves it to the first one.
        let may_repeat = is_shared(topic) && sent.resent;
        must(*surely <= 1 || may_repeat, "QoS 2 is delivered exactly once", || {
            format!("client {client} heard {name:?} {surely} times")
        })?;
        if *in_all > 1 {
            self.repetitions += 1;
            return Ok(());
        }
        // What is delayed comes when it is due.
        if sent.times.delay_s.is_some() || self.wills.is_will(name) || self.groups.may_come_late(name) {
            return Ok(());
        }
        // What was not owed may have been lost the first time, and comes the second time behind younger ones.
        // So does one whose time was over when its publisher sent it again.
        if sent.resent && (qos == 0 || !sent.owed.contains_key(&client) || self.is_over(&self.sent[&name])) {
            return Ok(());
        }
        let (publisher, number) = name;
        let newest = self.newest.entry((client, publisher, topic.to_owned(), (sent.qos, qos))).or_insert(number);
        must(*newest <= number, "order per publisher and topic holds", || {
            format!("client {client} heard number {number} of {publisher} on {topic} after {newest}")
        })?;
        *newest = number;
        Ok(())
    }

    /// Whether the time of a message, since it was sent first, is over.
    fn is_over(&self, sent: &Sent) -> bool {
        let lasts_s = |expiry_s| sent.times.delay_s.unwrap_or(0) + u64::from(expiry_s);
        sent.times.expiry_s.is_some_and(|expiry_s| self.aged_ms >= sent.aged_ms + lasts_s(expiry_s) * 1_000)
    }

    /// What is acknowledged, or a will that must come, and owed and not heard: by client, the names.
    pub fn debts(&self) -> BTreeMap<ClientIndex, BTreeSet<MessageName>> {
        let mut debts: BTreeMap<ClientIndex, BTreeSet<MessageName>> = BTreeMap::new();
        let nothing = HashMap::new();
        let is_promised = |name, sent: &Sent| sent.acknowledged || self.wills.is_owed(name);
        let owed = |name, sent: &Sent| is_promised(name, sent) && sent.qos > 0 && !self.is_over(sent);
        for (name, sent) in self.sent.iter().filter(|(name, sent)| owed(**name, sent)) {
            self.groups.owed(*name).for_each(|client| _ = debts.entry(client).or_default().insert(*name));
            for (client, qos) in &sent.owed {
                let heard = self.heard.get(client).unwrap_or(&nothing);
                if *qos > 0 && !heard.contains_key(name) {
                    debts.entry(*client).or_default().insert(*name);
                }
            }
        }
        debts
    }

    /// Messages of share groups that one member heard and no other might.
    pub fn shared(&self) -> u64 {
        self.groups.shared
    }

    /// Messages of share groups that another member heard behind the end of a clean session that may have had them.
    pub fn passed_on(&self) -> u64 {
        self.groups.passed_on
    }

    /// The retained message of each topic must be one of these: the last acknowledged one, or one sent after it.
    pub fn retained_candidates(&self) -> BTreeMap<String, (Option<MessageName>, HashSet<MessageName>)> {
        let mut candidates: BTreeMap<String, (Option<MessageName>, HashSet<MessageName>)> = BTreeMap::new();
        // Names of one publisher are in order, and only one publisher retains on a topic.
        for (name, sent) in self.sent.iter().filter(|(_, sent)| sent.retained) {
            let (last, possible) = candidates.entry(sent.topic.clone()).or_default();
            if sent.acknowledged {
                possible.clear();
                *last = Some(*name);
            }
            possible.insert(*name);
        }
        candidates
    }
}

/// Whether a topic is of the pool that groups share.
fn is_shared(topic: &str) -> bool {
    topic.strip_prefix(POOL).is_some_and(|rest| rest.starts_with('/'))
}

/// Who may hear what: topics of `private/N` belong to client N, all others to everyone.
pub fn may_hear(client: ClientIndex, topic: &str) -> bool {
    match topic.strip_prefix("private/") {
        Some(rest) => rest.split('/').next() == Some(&client.to_string()),
        None => true,
    }
}

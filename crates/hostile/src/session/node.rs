//! A node of two workers: their brokers, the disk below them, and their clients. It does the work of the shell.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use tidegate_broker::drive::{self, Driven, Rings, Shell};
use tidegate_broker::{
    Access, Action, Admitted, Broker, BrokerLimits, BrokerMessage, BrokerOptions, ConnectionKey, ConnectionTraits,
    Denied, FeedKey, FeedMessage, FeedNews, HoldingLimits, Holdings, Owners, Principal, QueueDelivery, QueueRefusal,
    QueueTopics, ReceiverKey, Rights, SharedFacts, TOPICS, TopicShard, TopicsFamily, topics,
};
use tidegate_journal::disk::FakeDisk;
use tidegate_journal::step::Step;
use tidegate_journal::{Options, StepLog, StepLogs};
use tidegate_machines::TimeMs;
use tidegate_machines::topic::InboxLimits;
use tidegate_shard::{NothingDerived, OpenShard, Snapshots};
use tidegate_wire::mqtt::*;

use super::SCRIPTED_CLIENTS;
use super::client::Client;

/// Clients that keep to the rules: number 0 in MQTT 3.1.1 on worker 0, number 1 in MQTT 5 on worker 1.
pub const WITNESSES: usize = 2;
const WORKERS: u16 = 2;
const TOPIC_SHARDS: u16 = 2;
/// Turns after which nothing is to do any more, if nothing comes from outside.
const TURNS_MAX: usize = 50_000;
const INBOX_MESSAGES_MAX: u32 = 20;
/// A filter whose messages a source keeps, and how many it has. Clients may publish there as well: nothing breaks.
const FEED: &str = "a/b/c/d/e/f";
const FEED_MESSAGES: usize = 9;
/// Its messages are of these in turn.
const FEED_PARTITIONS: u16 = 2;
/// Topics that lead to a queue, which now and then is full.
const QUEUES: QueueTopics =
    QueueTopics { sends: "$in/", receives: "$out/", refusals: &[(ReasonCode::QUOTA_EXCEEDED, "the queue is full")] };
/// Messages that the queue hands out in all, so that clients which acknowledge by themselves come to an end.
const JOBS: u64 = 60;
/// Sizes of the logs: small, so that an input does not spend its time writing zeros.
const JOURNAL: Options = Options::small(256 << 10);

type Log = StepLog<FakeDisk>;

/// See the module's description.
pub struct Node {
    /// The witnesses, then the clients that the input drives.
    pub clients: Vec<Client>,
    limits: BrokerLimits,
    disk: FakeDisk,
    brokers: Vec<Driven<Log>>,
    rings: Rings,
    /// Clients on their way to another worker, and what was received from them.
    arrivals: VecDeque<(usize, usize, Box<[u8]>)>,
    now: TimeMs,
    starts: u64,
    opened: u64,
    said: usize,
    /// Questions to the shell that it has not answered yet, while it takes its time.
    held: Option<Vec<(usize, Action)>>,
    /// How far each feed was read.
    feeds: HashMap<(usize, FeedKey), usize>,
    /// What each receiver has, and how much was handed out in all.
    receivers: HashMap<(usize, ReceiverKey), HashSet<u64>>,
    handed_out: u64,
}

impl Node {
    /// Some bounds are small, so that they are met. `choice` says which.
    pub fn new(choice: u8) -> Node {
        let limits = BrokerLimits {
            packet_bytes_max: 2_048,
            receive_maximum: 8,
            window_max: 4,
            topic_alias_maximum: 2,
            topic_aliases_out_max: 2,
            outbox_bytes_max: if choice & 1 == 0 { 4 << 10 } else { 64 << 10 },
            pressure_bytes_max: if choice & 2 == 0 { 8 << 10 } else { 1 << 20 },
            clean_inbox_messages_max: 10,
            clean_inbox_policy: match choice >> 2 & 3 {
                0 => tidegate_broker::InboxPolicy::DropOldest,
                1 => tidegate_broker::InboxPolicy::Refuse,
                _ => tidegate_broker::InboxPolicy::DropNewest,
            },
            subscriptions_max: 6,
            publishes_per_s: if choice & 16 == 0 { 0 } else { 10 },
            session_expiry_max_s: 100,
            sys_interval_ms: if choice & 32 == 0 { 0 } else { 1_000 },
            ..BrokerLimits::default()
        };
        let mut node = Node {
            clients: (0..WITNESSES + SCRIPTED_CLIENTS).map(|_| Client::new()).collect(),
            limits,
            disk: FakeDisk::new(1),
            brokers: Vec::new(),
            rings: Rings::new(WORKERS),
            arrivals: VecDeque::new(),
            now: TimeMs(1_700_000_000_000),
            starts: 0,
            opened: 0,
            said: 0,
            held: None,
            feeds: HashMap::new(),
            receivers: HashMap::new(),
            handed_out: 0,
        };
        node.start();
        node
    }

    fn start(&mut self) {
        self.starts += 1;
        let owners = Owners::spread(TOPIC_SHARDS, WORKERS);
        let facts = Arc::new(SharedFacts::new(WORKERS));
        let holdings = Arc::new(Holdings::new(HoldingLimits::default()));
        let broker = |worker| {
            let options = BrokerOptions {
                worker,
                owners: owners.clone(),
                limits: self.limits.clone(),
                facts: Arc::clone(&facts),
                holdings: Arc::clone(&holdings),
                seed: self.starts * 1_000 + u64::from(worker),
                request_topics: vec!["$ledger/transfers".into()],
                feeds: FEED.into(),
                feed_partitions: FEED_PARTITIONS,
                queues: QUEUES,
                version: "fuzz",
            };
            let shards = owners.on(worker).map(|shard| self.open_shard(shard.0)).collect();
            Driven::new(Broker::new(options, shards))
        };
        self.brokers = (0..WORKERS).map(broker).collect();
        self.settle();
        assert!(self.brokers.iter().all(|broker| broker.is_serving()), "all have told all");
        for witness in 0..WITNESSES {
            let version = [Version::V311, Version::V5][witness];
            let mut out = Vec::new();
            let client_id = ["witness of 3.1.1", "witness of 5"][witness];
            encode_connect(&mut out, version, &ConnectOut { client_id, clean_start: true, ..ConnectOut::default() });
            let filter = ["witness/3.1.1", "witness/5"][witness];
            let wanted = SubscriptionOut { filter, qos: QoS::ExactlyOnce, ..SubscriptionOut::default() };
            encode_subscribe(&mut out, version, 1, None, &[wanted]);
            self.clients[witness].answers = true;
            self.send(witness, &out);
        }
        self.settle();
    }

    fn open_shard(&self, shard: u16) -> TopicShard<StepLog<FakeDisk>> {
        let data = Path::new("data");
        let logs = StepLogs::new(self.disk.clone(), data, &[TOPICS]);
        let snapshots = Snapshots::<TopicsFamily, _>::new(self.disk.clone(), data, TOPICS.log(7, shard));
        let open = OpenShard::open(&logs, snapshots, JOURNAL).expect("the log opens");
        let back = open.replay(TOPIC_SHARDS, &mut NothingDerived, |_| {}).expect("the log is whole");
        let limits = InboxLimits { messages_max: INBOX_MESSAGES_MAX, ..InboxLimits::default() };
        topics::open_shard(back, limits).expect("the log goes on")
    }

    /// Bytes from a client, which connects first if it is not connected.
    pub fn send(&mut self, client: usize, bytes: &[u8]) {
        let sender = &mut self.clients[client];
        if sender.key.is_none() {
            let worker = client % usize::from(WORKERS);
            let Some(key) = self.brokers[worker].open(ConnectionTraits::default(), self.now) else { return };
            self.opened += 1;
            sender.opened(worker, key);
        }
        sender.waiting.extend_from_slice(bytes);
        if let Some((place, with)) = sender.spoil.take().filter(|_| !bytes.is_empty()) {
            let place = sender.waiting.len() - bytes.len() + usize::from(place) % bytes.len();
            sender.waiting[place] ^= with;
        }
    }

    /// The socket closes without a word.
    pub fn drop_connection(&mut self, client: usize) {
        let client = &mut self.clients[client];
        if let Some(key) = client.key {
            self.brokers[client.worker].closed(key, self.now);
            client.closed();
        }
    }

    /// Time passes.
    pub fn wait(&mut self, milliseconds: u64) {
        let until = self.now.0 + milliseconds;
        while self.now.0 < until {
            self.now = TimeMs(until.min(self.now.0 + 500));
            self.settle();
        }
    }

    /// The power fails, or only the process ends; it starts again.
    pub fn crash(&mut self, power_fails: bool) {
        self.brokers.clear();
        (self.rings, self.arrivals) = (Rings::new(WORKERS), VecDeque::new());
        self.clients.iter_mut().for_each(Client::closed);
        self.held = None;
        self.feeds.clear();
        if power_fails {
            self.disk.crash();
        } else {
            self.disk.kill();
        }
        self.start();
    }

    /// From now on the shell holds answers back; if it did already, it gives all of them.
    pub fn hold_answers(&mut self) {
        match self.held.take() {
            None => self.held = Some(Vec::new()),
            Some(held) => held.into_iter().for_each(|(worker, action)| self.act(worker, action)),
        }
    }

    /// Lets everything happen that follows from what has happened.
    pub fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            if !self.turn() {
                return;
            }
        }
        panic!("the node does not come to rest");
    }

    fn turn(&mut self) -> bool {
        let mut worked = !self.arrivals.is_empty();
        while let Some((client, worker, bytes)) = self.arrivals.pop_front() {
            self.adopt(client, worker, &bytes);
        }
        for client in 0..self.clients.len() {
            worked |= self.read(client);
        }
        for worker in 0..self.brokers.len() {
            for client in self.clients.iter().filter(|client| client.worker == worker && !client.is_stalled) {
                let driven = &mut self.brokers[worker];
                if let Some(key) = client.key.filter(|key| !driven.unsent(*key).is_empty()) {
                    driven.is_writable(key);
                }
            }
            let now = self.now;
            let mut shell = Worker { node: self, worker };
            shell.take_messages(now);
            worked |= drive::turn(&mut shell, now).worked;
        }
        worked || !self.brokers.iter().all(|broker| broker.is_idle())
    }

    /// A client has come from another worker, if it has not gone meanwhile.
    fn adopt(&mut self, client: usize, worker: usize, bytes: &[u8]) {
        let now = self.now;
        let key = self.brokers[worker].open(ConnectionTraits::default(), now).expect("there is room");
        self.clients[client].key = Some(key);
        drive::hear(&mut Worker { node: self, worker }, key, bytes, isize::MAX, now);
    }

    /// The shell reads a piece from a client's socket, if the broker wants it.
    fn read(&mut self, client: usize) -> bool {
        let (worker, now) = (self.clients[client].worker, self.now);
        let client = &mut self.clients[client];
        let broker = &mut self.brokers[worker];
        let Some(key) = client.key.filter(|key| !client.waiting.is_empty() && broker.may_read(*key)) else {
            return false;
        };
        let piece = client.next_piece();
        client.was_read(&piece);
        drive::hear(&mut Worker { node: self, worker }, key, &piece, isize::MAX, now);
        true
    }

    /// The client that has this connection.
    fn client_of(&self, worker: usize, key: ConnectionKey) -> Option<usize> {
        self.clients.iter().position(|client| client.worker == worker && client.key == Some(key))
    }

    fn act(&mut self, worker: usize, action: Action) {
        let now = self.now;
        let broker = &mut self.brokers[worker];
        match action {
            Action::Authenticate { key, user_name, client_id, .. } => {
                let is = |client: &Client| client.worker == worker && client.key == Some(key);
                let is_witness = self.clients[..WITNESSES].iter().any(is);
                // Nobody else comes under a witness's name.
                let is_refused =
                    user_name.as_deref() == Some("nobody") || client_id.starts_with("witness") != is_witness;
                let verdict = match is_refused {
                    true => Err(Denied { reason: ReasonCode::BAD_USER_NAME_OR_PASSWORD }),
                    false => {
                        let principal = Principal::user(if is_witness {
                            "witness"
                        } else {
                            user_name.as_deref().unwrap_or_default()
                        });
                        let rights = Arc::new(Person { is_witness });
                        Ok(Admitted { rights, principal, may_claim: true, ends_at: None })
                    }
                };
                broker.verdict(key, verdict, now);
            }
            Action::HandOff { key, worker: to, bytes } => {
                // It may have gone meanwhile.
                let Some(client) = self.client_of(worker, key) else { return };
                (self.clients[client].worker, self.clients[client].key) = (to.into(), None);
                self.arrivals.push_back((client, to.into(), bytes));
            }
            Action::Close { .. } => unreachable!("a turn closes"),
            Action::Request { ticket, payload, .. } => broker.respond(ticket, Some(&payload), ReasonCode::SUCCESS, now),
            Action::Confirm { key, condition } => {
                broker.confirm(key, &condition, condition.starts_with("candidate"), now);
            }
            Action::FindPlace { key, filter, .. } => broker.placed(key, &filter, Ok(feed_place(0)), now),
            Action::Feed { feed, after, .. } => {
                let place = after.first().map_or(FEED_MESSAGES, |digit| usize::from(digit - b'0'));
                // Not ready at first, now and then.
                if feed.0 % 3 == 2 && !self.feeds.contains_key(&(worker, feed)) {
                    self.feeds.insert((worker, feed), place);
                    return broker.feed(feed, FEED, FeedNews::Later, now);
                }
                self.feeds.insert((worker, feed), place);
                self.feed(worker, feed);
            }
            Action::FeedMore { feed } => self.feed(worker, feed),
            Action::FeedEnd { feed } => drop(self.feeds.remove(&(worker, feed))),
            Action::Send { ticket, .. } => {
                let answer = if ticket.0 % 4 == 3 { Err(QueueRefusal(0)) } else { Ok(()) };
                broker.send_answered(ticket, answer, now);
            }
            Action::FindQueue { key, filter } => broker.queue_found(key, &filter, Ok(()), now),
            Action::Receive { receiver, .. } => {
                let known = self.receivers.insert((worker, receiver), HashSet::new());
                assert!(known.is_none(), "a receiver begins once");
            }
            Action::ReceiveMore { receiver, max } => self.hand_out(worker, receiver, max),
            Action::Settle { receiver, number, .. } => {
                let held = self.receivers.get_mut(&(worker, receiver)).expect("it has begun");
                assert!(held.remove(&number), "what is settled was handed out, and is settled once");
            }
            Action::ReceiveStop { receiver, unsent } => {
                let held = self.receivers.get_mut(&(worker, receiver)).expect("it has begun");
                assert!(unsent.iter().all(|number| held.remove(number)), "what was not sent was handed out");
            }
            Action::ReceiveEnd { receiver } => {
                assert!(self.receivers.remove(&(worker, receiver)).is_some(), "a receiver ends once");
            }
        }
    }

    /// Messages for a receiver, two at most.
    fn hand_out(&mut self, worker: usize, receiver: ReceiverKey, max: usize) {
        assert!(max > 0, "something is wanted");
        let begin = self.handed_out;
        self.handed_out = JOBS.min(begin + max.min(2) as u64);
        let held = self.receivers.get_mut(&(worker, receiver)).expect("it has begun");
        held.extend(begin..self.handed_out);
        let delivery = |number| QueueDelivery {
            number,
            properties: [].into(),
            payload: vec![b'j'; if number % 5 == 4 { 3_000 } else { 10 }].into(),
            expires_at: (number % 7 == 6).then_some(self.now),
        };
        let deliveries: Vec<_> = (begin..self.handed_out).map(delivery).collect();
        if !deliveries.is_empty() {
            self.brokers[worker].hand_out(receiver, deliveries, self.now);
        }
    }

    /// One part of a feed: two messages, and at the end that there are no more.
    fn feed(&mut self, worker: usize, feed: FeedKey) {
        let Some(place) = self.feeds.get_mut(&(worker, feed)) else { return };
        let begin = *place;
        let end = FEED_MESSAGES.min(begin + 2);
        *place = end;
        let message = |number: usize| FeedMessage {
            partition: number as u16 % FEED_PARTITIONS,
            place: feed_place(number + 1),
            properties: [].into(),
            payload: [b'm'].into(),
        };
        let news = match begin < end {
            true => FeedNews::Part { messages: (begin..end).map(message).collect(), place: feed_place(end) },
            false => FeedNews::Over { payload: [b'e'].into() },
        };
        self.brokers[worker].feed(feed, FEED, news, self.now);
    }

    /// Nothing has grown beyond its bound.
    pub fn look(&self) {
        self.brokers.iter().for_each(|broker| broker.assert_sound());
        // One packet more than fits may have been begun, and answers may come to what was taken before.
        let outbox_bytes_max = self.limits.outbox_bytes_max + 3 * self.limits.packet_bytes_max as usize;
        let mut open = 0;
        for client in &self.clients {
            let Some(key) = client.key else { continue };
            open += 1;
            let unsent = self.brokers[client.worker].unsent(key).len();
            assert!(unsent <= outbox_bytes_max, "{unsent} bytes wait for one client");
        }
        let sum = |fact: fn(&tidegate_broker::BrokerFacts) -> u64| -> u64 {
            self.brokers.iter().map(|broker| fact(&broker.facts())).sum()
        };
        let connected = sum(|facts| facts.clients_connected);
        assert!(connected <= open, "{connected} clients, but {open} connections");
        let (sessions, durable) = (sum(|facts| facts.sessions), sum(|facts| facts.sessions_durable));
        assert!(durable <= sessions && sessions <= self.opened, "{sessions} sessions of {} connections", self.opened);
        let subscriptions = sum(|facts| facts.subscriptions);
        assert!(subscriptions <= sessions * self.limits.subscriptions_max as u64, "{subscriptions} subscriptions");
        // Copies of one message for several share groups of a session find room together.
        let waiting_max = INBOX_MESSAGES_MAX as usize + self.limits.subscriptions_max - 1;
        for shard in self.brokers.iter().flat_map(|broker| broker.shards()) {
            for (slot, _) in shard.state_ahead().sessions() {
                let waiting = shard.state_ahead().inbox(slot).len();
                assert!(waiting <= waiting_max, "{waiting} messages wait for one session");
            }
        }
    }

    /// Whatever has happened, the witnesses are served.
    pub fn end(&mut self) {
        if self.held.is_some() {
            self.hold_answers();
        }
        self.settle();
        // A client that does not read delays no other client for longer than this.
        self.wait(1_500);
        for witness in 0..WITNESSES {
            for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
                self.said += 1;
                let payload = format!("still here {}", self.said).into_bytes();
                let (topic, packet_id) =
                    (["witness/5", "witness/3.1.1"][witness], if qos == QoS::AtMostOnce { 0 } else { 7 });
                let publish = PublishOut { qos, topic, packet_id, payload: &payload, ..PublishOut::default() };
                let mut out = Vec::new();
                encode_publish(&mut out, [Version::V311, Version::V5][witness], &publish);
                let before = self.clients[witness].acknowledged;
                self.send(witness, &out);
                self.settle();
                let expected = before + usize::from(qos != QoS::AtMostOnce);
                assert_eq!(self.clients[witness].acknowledged, expected, "witness {witness} is answered");
                let heard = self.clients[1 - witness].payloads.iter().filter(|heard| **heard == payload).count();
                assert_eq!(heard, 1, "what witness {witness} says with {qos:?} is heard once");
            }
        }
        self.look();
    }
}

/// A place of the feed: how many messages come before it. Sources write text.
fn feed_place(number: usize) -> Box<[u8]> {
    [b'0' + number as u8].into()
}

/// One worker of a node, as its broker sees it.
struct Worker<'n> {
    node: &'n mut Node,
    worker: usize,
}

impl Shell<Log> for Worker<'_> {
    fn driven(&mut self) -> &mut Driven<Log> {
        &mut self.node.brokers[self.worker]
    }

    fn take_messages(&mut self, now: TimeMs) {
        while let Some((from, message)) = self.node.rings.take(self.worker as u16) {
            self.driven().deliver(from, message, now);
        }
    }

    fn has_room(&mut self, _worker: u16) -> bool {
        true
    }

    fn send(&mut self, worker: u16, message: BrokerMessage) {
        self.node.rings.send(self.worker as u16, worker, message);
    }

    fn act(&mut self, action: Action, _now: TimeMs) {
        match &mut self.node.held {
            Some(held) if !matches!(action, Action::HandOff { .. }) => held.push((self.worker, action)),
            _ => self.node.act(self.worker, action),
        }
    }

    fn write_logs(&mut self) -> bool {
        let mut worked = false;
        for shard in self.driven().shards_mut() {
            worked |= shard.log_mut().step().expect("the disk is well") != Step::Idle;
        }
        worked
    }

    /// Writes as much as the client takes.
    fn write(&mut self, key: ConnectionKey, _now: TimeMs) -> usize {
        let Some(client) = self.node.client_of(self.worker, key) else { return 0 };
        let client = &mut self.node.clients[client];
        if client.is_stalled {
            return 0;
        }
        let unsent = self.node.brokers[self.worker].unsent(key);
        let sip = unsent[..unsent.len().min(client.sip)].to_vec();
        client.hear(&sip);
        sip.len()
    }

    fn close(&mut self, key: ConnectionKey, _now: TimeMs) {
        let Some(client) = self.node.client_of(self.worker, key) else { return };
        assert!(client >= WITNESSES, "witness {client} is sent away for what others did");
        self.node.clients[client].closed();
    }
}

/// What somebody may do here.
#[derive(Debug)]
struct Person {
    is_witness: bool,
}

impl Rights for Person {
    fn user(&self) -> Option<&str> {
        None
    }

    fn may_publish(&self, _client_id: &str, topic: &str) -> Access {
        let is_allowed = match topic.split('/').next() {
            Some("witness") => self.is_witness,
            Some("secret" | "$SYS") => false,
            _ => !topic.starts_with("$ledger/accounts"),
        };
        if is_allowed { Access::Allowed } else { Access::Denied }
    }

    fn may_subscribe(&self, _client_id: &str, filter: &str) -> Access {
        match filter.strip_prefix("$ledger/accounts/") {
            Some(account) => Access::IfConfirmed(account.into()),
            None if filter.starts_with("secret/") => Access::Denied,
            None => Access::Allowed,
        }
    }
}

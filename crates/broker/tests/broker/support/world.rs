//! Brokers, their disk, their clients, and time.

mod operator;
mod queues;
mod source;
mod worker;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_broker::drive::{self, Driven, Rings, Shell};
use tidegate_broker::{
    Action, Admitted, Broker, BrokerLimits, BrokerOptions, ConnectionKey, ConnectionTraits, Denied, DrainPlan, FeedKey,
    FeedNews, HoldingLimits, Holdings, Owners, Principal, ReasonCode, RequestTopic, Rights, RightsOf, SharedFacts,
    TOPICS, Thing, TopicShard, TopicsFamily, topics,
};
use tidegate_journal::disk::FakeDisk;
use tidegate_journal::{Options, StepLog, StepLogs};
use tidegate_machines::topic::{InboxLimits, PrincipalKind, TopicFacts, Topics};
use tidegate_machines::{Machine, TimeMs};
use tidegate_shard::{NothingDerived, OpenShard, Snapshots};

use self::queues::Queues;
use self::source::{Reader, Source};
use self::worker::Worker;
use super::client::Client;
use super::rights::{filters_asked_about, rights_of};
use super::script::Words;

/// How a world differs from the usual one.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Brokers.
    pub workers: u16,
    /// Topic shards.
    pub topic_shards: u16,
    /// Bounds of the brokers.
    pub limits: BrokerLimits,
    /// Bounds of what is left behind.
    pub holdings: HoldingLimits,
    /// Bounds of durable inboxes.
    pub inboxes: InboxLimits,
    /// Sizes of the logs.
    pub journal: Options,
    /// How much work is done at once of what a client sends. The rest comes in steps, as if others had their turn.
    pub work: isize,
    /// Partitions of the source behind all feeds.
    pub feed_partitions: u16,
}

impl Default for WorldOptions {
    fn default() -> WorldOptions {
        let limits = BrokerLimits { sys_interval_ms: 0, ..BrokerLimits::default() };
        WorldOptions {
            workers: 2,
            topic_shards: 3,
            limits,
            holdings: HoldingLimits::NONE,
            inboxes: InboxLimits::default(),
            journal: topics::log_options(),
            work: 1,
            feed_partitions: 1,
        }
    }
}

type Log = StepLog<FakeDisk>;
type TestBroker = Driven<Log>;

/// See the module's description.
pub struct World {
    options: WorldOptions,
    disk: FakeDisk,
    brokers: Vec<TestBroker>,
    rings: Rings,
    /// Clients on their way to another worker, and what was received from them.
    arrivals: VecDeque<(usize, String, Box<[u8]>)>,
    /// What clients have answered of themselves, and not been heard with.
    answers: VecDeque<(usize, ConnectionKey, Vec<u8>)>,
    clients: BTreeMap<String, Client>,
    now: TimeMs,
    reloaded: bool,
    /// The same, for who asks for the rights of owners.
    has_new_rights: Arc<AtomicBool>,
    starts: u64,
    by_bytes: bool,
    is_disk_faulty: bool,
    is_disk_full: bool,
    /// What is on the disk was written by a program that kept less: no times and no owners.
    is_disk_old: bool,
    /// Nothing is written to the disk for now.
    is_disk_slow: bool,
    /// The worker whose rings to others are full.
    muted: Option<usize>,
    source: Source,
    /// Feeds that are open.
    feeds: BTreeMap<(usize, u64), Reader>,
    /// What the source does: `there`, `away` for now, `full`, or `over`.
    source_is: String,
    queues: Queues,
    /// Where clients without a user come from now.
    address: String,
    /// What is left behind, by whom.
    holdings: Arc<Holdings>,
}

impl World {
    /// Brokers over an empty disk.
    pub fn new(options: WorldOptions) -> World {
        let mut world = World {
            rings: Rings::new(options.workers),
            source: Source::new(options.feed_partitions),
            options,
            disk: FakeDisk::new(1),
            brokers: Vec::new(),
            arrivals: VecDeque::new(),
            answers: VecDeque::new(),
            clients: BTreeMap::new(),
            now: TimeMs(1_700_000_000_000),
            reloaded: false,
            has_new_rights: Arc::default(),
            starts: 0,
            by_bytes: false,
            is_disk_faulty: false,
            is_disk_full: false,
            is_disk_old: false,
            is_disk_slow: false,
            muted: None,
            feeds: BTreeMap::new(),
            source_is: "there".to_owned(),
            queues: Queues::default(),
            address: "10.0.0.1".to_owned(),
            holdings: Arc::new(Holdings::new(HoldingLimits::NONE)),
        };
        world.start();
        world
    }

    /// The brokers, for tests that check their state.
    pub fn brokers(&self) -> &[TestBroker] {
        &self.brokers
    }

    pub fn brokers_mut(&mut self) -> &mut [TestBroker] {
        &mut self.brokers
    }

    /// What is left behind.
    pub fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// Bytes that wait for a client.
    pub fn unsent(&self, name: &str) -> usize {
        let client = &self.clients[name];
        self.brokers[client.worker].unsent(client.key.expect("it is connected")).len()
    }

    fn start(&mut self) {
        self.starts += 1;
        let WorldOptions { workers, topic_shards, limits, .. } = self.options.clone();
        let owners = Owners::spread(topic_shards, workers);
        let facts = Arc::new(SharedFacts::new(workers));
        self.holdings = Arc::new(Holdings::new(self.options.holdings));
        self.brokers = (0..workers)
            .map(|worker| {
                let options = BrokerOptions {
                    worker,
                    owners: owners.clone(),
                    limits: limits.clone(),
                    facts: Arc::clone(&facts),
                    holdings: Arc::clone(&self.holdings),
                    seed: self.starts * 1000 + u64::from(worker),
                    request_topics: vec!["$ledger/transfers".into(), "other/service".into()],
                    feeds: "feed/".into(),
                    feed_partitions: self.options.feed_partitions,
                    queues: queues::TOPICS,
                    version: "test",
                };
                let shards = owners.on(worker).map(|shard| self.open_shard(shard.0)).collect();
                let mut broker = Broker::new(options, shards);
                let reloaded = Arc::clone(&self.has_new_rights);
                broker.ask_rights_by(RightsOf(Arc::new(move |owner| {
                    let user = match owner.kind() {
                        PrincipalKind::User(name) => Some(name),
                        _ => None,
                    };
                    rights_of(user, reloaded.load(Ordering::Relaxed))
                })));
                Driven::new(broker)
            })
            .collect();
        let mut heard = Heard::default();
        self.settle(&mut heard);
        assert!(self.brokers.iter().all(|broker| broker.is_serving()), "all have told all");
    }

    fn open_shard(&self, shard: u16) -> TopicShard<StepLog<FakeDisk>> {
        let (data, log) = (Path::new("data"), TOPICS.log(7, shard));
        let logs = StepLogs::new(self.disk.clone(), data, &[TOPICS]);
        let snapshots = Snapshots::<TopicsFamily, _>::new(self.disk.clone(), data, log);
        let open = OpenShard::open(&logs, snapshots, self.options.journal);
        let back = open.expect("the log opens").replay(self.options.topic_shards, &mut NothingDerived, |_| {});
        let mut back = back.expect("the log is whole");
        if self.is_disk_old {
            let mut bytes = Vec::new();
            assert!(back.state.write_older_snapshot(&mut |part| bytes.extend_from_slice(part)), "it can be written so");
            back.state = Topics::read_snapshot(&bytes).expect("what was written is read");
        }
        topics::open_shard(back, self.options.inboxes.clone()).expect("the log goes on")
    }

    /// Runs a script. Returns each command with what was received after it.
    pub fn run(&mut self, script: &str) -> String {
        let mut told = String::new();
        for command in script.split(['\n', ';']).map(str::trim).filter(|command| !command.is_empty()) {
            let mut heard = Heard::default();
            self.command(command, &mut heard);
            self.settle(&mut heard);
            told += &format!("{command}\n{}", heard.show());
        }
        told
    }

    /// The same, but what clients send arrives byte by byte, with a turn of the world between.
    pub fn run_by_bytes(&mut self, script: &str) -> String {
        self.by_bytes = true;
        let told = self.run(script);
        self.by_bytes = false;
        told
    }

    /// How much work it is to serve what a client sends, which is there.
    pub fn work_of(&mut self, command: &str) -> isize {
        let (name, command) = command.split_once(": ").expect("a client");
        let mut words = Words::new(command);
        let verb = words.first();
        let client = self.clients.get_mut(name).expect("it is there");
        let (worker, key, now) = (client.worker, client.key.expect("it is connected"), self.now);
        if verb == "drop" {
            client.key = None;
            return self.brokers[worker].closed(key, now);
        }
        let bytes = client.packet(name, verb, words);
        let mut heard = Heard::default();
        let mut shell = Worker { world: self, worker, heard: &mut heard };
        let work = drive::hear(&mut shell, key, &bytes, isize::MAX, now);
        self.settle(&mut heard);
        work
    }

    /// Reloads, and says how many filters the rights were asked about in each turn until that was over.
    pub fn filters_by_turn_of_reload(&mut self) -> Vec<usize> {
        let mut heard = Heard::default();
        self.command("reload", &mut heard);
        let mut turns = Vec::new();
        while self.brokers.iter().any(|broker| broker.is_reloading()) {
            let before = filters_asked_about();
            self.turn(&mut heard);
            turns.push(filters_asked_about() - before);
        }
        turns
    }

    /// Turns until anybody hears something.
    pub fn turns_until_heard(&mut self) -> usize {
        let mut heard = Heard::default();
        let heard_after = (1..).find(|_| {
            self.turn(&mut heard);
            !heard.0.is_empty()
        });
        heard_after.expect("somebody hears something")
    }

    /// Lets a client send something, and nothing follow from it yet.
    pub fn hand_over(&mut self, command: &str) {
        self.command(command, &mut Heard::default());
    }

    /// Time passes, and nothing follows from it yet.
    pub fn pass(&mut self, milliseconds: u64) {
        self.now.0 += milliseconds;
    }

    /// Lets so many turns pass, and not all that follows.
    pub fn turns(&mut self, count: usize) {
        (0..count).for_each(|_| _ = self.turn(&mut Heard::default()));
    }

    fn command(&mut self, command: &str, heard: &mut Heard) {
        let Some((name, command)) = command.split_once(": ") else { return self.happen(command, heard) };
        let (name, worker) = match name.split_once('@') {
            Some((name, worker)) => (name, worker.parse().expect("a worker's number")),
            None => (name, 0),
        };
        let mut words = Words::new(command);
        let verb = words.first();
        // A client that is not there yet comes with its first word.
        let is_new = !self.clients.contains_key(name);
        if is_new || verb == "CONNECT" && self.clients[name].has_greeted {
            let mut client = Client::new(worker);
            client.key = self.brokers[worker].open(ConnectionTraits::default(), self.now);
            assert!(client.key.is_some(), "there is room");
            // The earlier connection of this name lives on under another one.
            if let Some(earlier) = self.clients.remove(name).filter(|earlier| earlier.key.is_some()) {
                self.clients.insert(format!("{name}'"), earlier);
            }
            self.clients.insert(name.to_owned(), client);
        }
        let now = self.now;
        let client = self.clients.get_mut(name).expect("it is there now");
        client.has_greeted |= verb == "CONNECT";
        match verb {
            "HURRY" => self.hurry(name, words.first().parse().expect("how many"), heard),
            "stall" => client.stalled = true,
            "flow" => client.stalled = false,
            "drop" => {
                if let Some(key) = client.key.take() {
                    self.brokers[client.worker].closed(key, now);
                }
            }
            verb => {
                let bytes = client.packet(name, verb, words);
                let pieces = if self.by_bytes { 1 } else { bytes.len().max(1) };
                for piece in bytes.chunks(pieces) {
                    let client = &self.clients[name];
                    if let Some(key) = client.key {
                        let (worker, may) = (client.worker, self.options.work);
                        drive::hear(&mut Worker { world: self, worker, heard }, key, piece, may, now);
                    }
                    if self.by_bytes {
                        self.settle(heard);
                    }
                }
            }
        }
    }

    /// Several connections of one client id, one after the other without waiting for an answer.
    fn hurry(&mut self, name: &str, count: usize, heard: &mut Heard) {
        for nth in 1..=count {
            let mut client = Client::new(self.clients[name].worker);
            client.key = self.brokers[client.worker].open(ConnectionTraits::default(), self.now);
            let bytes = client.packet(name, "CONNECT", Words::new("keep expiry=100"));
            client.has_greeted = true;
            let (worker, key, now) = (client.worker, client.key.expect("there is room"), self.now);
            drive::hear(&mut Worker { world: self, worker, heard }, key, &bytes, isize::MAX, now);
            let earlier = self.clients.insert(name.to_owned(), client).expect("it hurries after itself");
            self.clients.insert(format!("{name}-{nth}"), earlier);
            // As far as the session's record, which is not durable yet.
            self.is_disk_slow = true;
            self.turn(heard);
            self.is_disk_slow = false;
        }
    }

    /// What happens to the world rather than from a client.
    fn happen(&mut self, command: &str, heard: &mut Heard) {
        let mut words = Words::new(command);
        match words.first() {
            "wait" => {
                let milliseconds: u64 = words.first().parse().expect("milliseconds");
                let until = self.now.0 + milliseconds;
                while self.now.0 < until {
                    self.now = TimeMs(until.min(self.now.0 + 100));
                    self.settle(heard);
                }
            }
            "fail-sync" => {
                self.is_disk_faulty = true;
                self.disk.fail_next_sync();
            }
            "disk-full" => {
                self.is_disk_full = true;
                self.disk.set_capacity(self.disk.used_bytes());
            }
            "disk-slow" => self.is_disk_slow = true,
            "disk-fast" => self.is_disk_slow = false,
            "mute" => self.muted = Some(words.first().parse().expect("a worker's number")),
            "unmute" => self.muted = None,
            "disk-room" => {
                self.is_disk_full = false;
                self.disk.set_capacity(u64::MAX);
            }
            power @ ("crash" | "kill" | "kill-old") => {
                self.is_disk_old = power == "kill-old";
                self.brokers.clear();
                (self.arrivals, self.answers) = (VecDeque::new(), VecDeque::new());
                self.rings = Rings::new(self.options.workers);
                self.clients.clear();
                self.feeds.clear();
                self.queues.forget_receivers();
                if power == "crash" {
                    self.disk.crash()
                } else {
                    self.disk.kill()
                }
                self.now.0 += words.rest().first().map_or(0, |pause| pause.parse().expect("milliseconds"));
                self.start();
            }
            "drain" => {
                let per_second = words.first().parse().expect("clients per second");
                let server_reference = words.rest().first().map(|text| (*text).into());
                for broker in &mut self.brokers {
                    broker.drain(DrainPlan { per_second, server_reference: server_reference.clone() }, self.now);
                }
            }
            "operate" => self.operate(words),
            which @ ("reload" | "reload-back") => {
                let reloaded = which == "reload";
                self.reloaded = reloaded;
                self.has_new_rights.store(reloaded, Ordering::Relaxed);
                for broker in &mut self.brokers {
                    broker.reload(Arc::new(move |rights: &dyn Rights| rights_of(rights.user(), reloaded)));
                }
            }
            "queues" => self.queues.is_slow = words.first() == "slow",
            "log" => words.rest().into_iter().for_each(|text| self.source.log(text)),
            "address" => words.first().clone_into(&mut self.address),
            "source" => words.first().clone_into(&mut self.source_is),
            "announce" => {
                let topic = words.first();
                self.brokers[0].announce(topic, words.first().as_bytes(), true, self.now);
            }
            "answer" => {
                let topic = words.first();
                self.brokers[0].answer_with_retained(topic, words.first().as_bytes(), self.now);
            }
            other => panic!("nobody knows how to {other}"),
        }
    }

    /// Lets everything happen that follows from what has happened.
    fn settle(&mut self, heard: &mut Heard) {
        for _ in 0..10_000 {
            if !self.turn(heard) {
                self.brokers.iter().for_each(|broker| broker.assert_sound());
                self.assert_paid();
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// What is there is what is paid for. (Of what an old disk has, nobody pays for all.)
    fn assert_paid(&self) {
        if self.is_disk_old || self.is_disk_faulty || self.is_disk_slow {
            return;
        }
        let sum = |count: fn(&TestBroker) -> u64| self.brokers.iter().map(count).sum::<u64>();
        let held = |thing| self.holdings.held(thing).0;
        let in_shards = |count: fn(TopicFacts) -> u64| -> u64 {
            let shards = self.brokers.iter().flat_map(|broker| broker.shards());
            shards.map(|shard| count(shard.state_ahead().facts())).sum()
        };
        assert_eq!(held(Thing::Session), sum(|broker| broker.facts().sessions_durable), "sessions");
        assert_eq!(held(Thing::Filter), sum(|broker| broker.facts().subscriptions), "subscriptions");
        assert_eq!(held(Thing::Queued), in_shards(|facts| facts.inbox_messages), "messages that wait");
        assert!(held(Thing::Delayed) >= in_shards(|facts| facts.delayed), "delayed messages");
    }

    /// One turn of each worker. Whether anything happened.
    fn turn(&mut self, heard: &mut Heard) -> bool {
        let (mut worked, now) = (false, self.now);
        for worker in 0..self.brokers.len() {
            worked |= self.adopt(worker, heard);
            worked |= self.hear_answers(worker, heard);
            // Those that stalled go on when they flow again.
            for client in self.clients.values().filter(|client| client.worker == worker && !client.stalled) {
                if let Some(key) = client.key.filter(|key| !self.brokers[worker].unsent(*key).is_empty()) {
                    self.brokers[worker].is_writable(key);
                }
            }
            let mut shell = Worker { world: self, worker, heard };
            shell.take_messages(now);
            worked |= drive::turn(&mut shell, now).worked;
        }
        worked |= self.hear_operator(heard);
        if !self.queues.told.is_empty() {
            heard.add("queues", std::mem::take(&mut self.queues.told));
        }
        // On a full disk, some wait until there is room.
        worked || !self.is_disk_full && !self.is_disk_slow && !self.brokers.iter().all(|broker| broker.is_idle())
    }

    /// Takes the clients that have come from other workers.
    fn adopt(&mut self, worker: usize, heard: &mut Heard) -> bool {
        let now = self.now;
        let (here, others) = self.arrivals.drain(..).partition(|(to, ..)| *to == worker);
        self.arrivals = others;
        let here: VecDeque<_> = here;
        let any = !here.is_empty();
        for (_, name, bytes) in here {
            let key = self.brokers[worker].open(ConnectionTraits::default(), now).expect("there is room");
            let client = self.clients.get_mut(&name).expect("who is on the way is there");
            (client.worker, client.key) = (worker, Some(key));
            drive::hear(&mut Worker { world: self, worker, heard }, key, &bytes, isize::MAX, now);
        }
        any
    }

    /// Reads what clients of a worker have answered.
    fn hear_answers(&mut self, worker: usize, heard: &mut Heard) -> bool {
        let now = self.now;
        let (here, others) = self.answers.drain(..).partition(|(at, ..)| *at == worker);
        self.answers = others;
        let here: VecDeque<_> = here;
        let any = !here.is_empty();
        for (_, key, bytes) in here {
            drive::hear(&mut Worker { world: self, worker, heard }, key, &bytes, isize::MAX, now);
        }
        any
    }

    fn act(&mut self, worker: usize, action: Action) {
        let now = self.now;
        match action {
            Action::Authenticate { key, user_name, .. } => {
                let verdict = match rights_of(user_name.as_deref(), self.reloaded) {
                    Some(rights) => {
                        let principal = match &user_name {
                            Some(name) => Principal::user(name),
                            None => Principal::address(&self.address),
                        };
                        let may_claim = user_name.is_some();
                        let ends_at = (user_name.as_deref() == Some("brief")).then(|| TimeMs(now.0 + 10_000));
                        Ok(Admitted { rights, principal, may_claim, ends_at })
                    }
                    None => Err(Denied { reason: ReasonCode::BAD_USER_NAME_OR_PASSWORD }),
                };
                self.brokers[worker].verdict(key, verdict, now);
            }
            Action::HandOff { key, worker: to, bytes } => {
                if let Some((name, client)) = self.named(worker, key) {
                    client.key = None;
                    self.arrivals.push_back((to.into(), name, bytes));
                }
            }
            Action::Close { .. } => unreachable!("a turn closes"),
            Action::Request { ticket, topic, payload, .. } => {
                let who: &[u8] = if topic == RequestTopic(0) { b"ok:" } else { b"other:" };
                let response = [who, &payload[..]].concat();
                self.brokers[worker].respond(ticket, Some(&response), ReasonCode::SUCCESS, now);
            }
            Action::Confirm { key, condition } => {
                self.brokers[worker].confirm(key, &condition, condition.starts_with("candidate"), now);
            }
            Action::FindPlace { key, filter, after, .. } => {
                let after = after.map(|text| String::from_utf8(text.into()).expect("a text"));
                let found = match after {
                    _ if self.source_is == "full" => Err(ReasonCode::QUOTA_EXCEEDED),
                    None => Ok(self.source.end()),
                    Some(text) => self.source.has_place(&text).then_some(text).ok_or(ReasonCode::UNSPECIFIED_ERROR),
                };
                let found = found.map(|place| place.into_bytes().into());
                self.brokers[worker].placed(key, &filter, found, now);
            }
            Action::Feed { feed, filter, after, .. } => {
                let after = String::from_utf8(after.into()).expect("a text");
                let place = if after.is_empty() { self.source.end() } else { after };
                match &*self.source_is {
                    "away" | "full" => self.brokers[worker].feed(feed, &filter, FeedNews::Later, now),
                    "over" => {
                        let payload = b"of another history"[..].into();
                        self.brokers[worker].feed(feed, &filter, FeedNews::Over { payload }, now);
                    }
                    _ => drop(self.feeds.insert((worker, feed.0), Reader::new(&filter, &place))),
                }
            }
            Action::FeedMore { feed } => {
                if let Some(reader) = self.feeds.get_mut(&(worker, feed.0)) {
                    assert!(!std::mem::replace(&mut reader.is_wanted, true), "one part after the other");
                }
            }
            Action::FeedEnd { feed } => drop(self.feeds.remove(&(worker, feed.0))),
            action => self.queues.act(worker, action, &mut self.brokers[worker], now),
        }
    }

    /// Lets the source answer feeds, and queues hand out messages.
    fn feed(&mut self, worker: usize) -> bool {
        let mut worked = false;
        for action in self.queues.take_slow(worker) {
            worked = true;
            self.queues.act(worker, action, &mut self.brokers[worker], self.now);
        }
        worked |= self.queues.hand_out(worker, &mut self.brokers[worker], self.now);
        for ((_, key), reader) in self.feeds.range_mut((worker, 0)..=(worker, u64::MAX)) {
            if let Some(part) = reader.is_wanted.then(|| reader.part(&self.source)).flatten() {
                self.brokers[worker].feed(FeedKey(*key), &reader.filter, part, self.now);
                worked = true;
            }
        }
        worked
    }

    fn named(&mut self, worker: usize, key: ConnectionKey) -> Option<(String, &mut Client)> {
        let mut clients = self.clients.iter_mut();
        clients
            .find(|(_, client)| client.worker == worker && client.key == Some(key))
            .map(|(name, client)| (name.clone(), client))
    }
}

/// What clients received, by client.
#[derive(Default)]
struct Heard(BTreeMap<String, Vec<String>>);

impl Heard {
    fn add(&mut self, name: &str, lines: Vec<String>) {
        self.0.entry(name.to_owned()).or_default().extend(lines);
    }

    fn show(&self) -> String {
        self.0.iter().flat_map(|(name, lines)| lines.iter().map(move |line| format!("    {name} < {line}\n"))).collect()
    }
}

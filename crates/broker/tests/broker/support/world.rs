//! Brokers, their disk, their clients, and time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tidegate_broker::{
    Access, Action, Admitted, Broker, BrokerLimits, BrokerOptions, ConnectionKey, ConnectionTraits, Denied, DrainPlan,
    FeedKey, FeedMessage, FeedNews, Owners, ReasonCode, RequestTopic, Rights, SharedFacts, TOPICS, TopicShard,
    TopicsFamily, topics,
};
use tidegate_journal::disk::FakeDisk;
use tidegate_journal::step::Step;
use tidegate_journal::{StepLog, StepLogs};
use tidegate_machines::TimeMs;
use tidegate_machines::topic::InboxLimits;
use tidegate_shard::{NothingDerived, OpenShard, Snapshots};

use super::client::Client;
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
    /// Bounds of durable inboxes.
    pub inboxes: InboxLimits,
    /// How much work is done at once of what a client sends. The rest comes in steps, as if others had their turn.
    pub work: isize,
}

impl Default for WorldOptions {
    fn default() -> WorldOptions {
        let limits = BrokerLimits { sys_interval_ms: 0, ..BrokerLimits::default() };
        WorldOptions { workers: 2, topic_shards: 3, limits, inboxes: InboxLimits::default(), work: 1 }
    }
}

type TestBroker = Broker<StepLog<FakeDisk>>;

/// See the module's description.
pub struct World {
    options: WorldOptions,
    disk: FakeDisk,
    brokers: Vec<TestBroker>,
    clients: BTreeMap<String, Client>,
    now: TimeMs,
    reloaded: bool,
    starts: u64,
    by_bytes: bool,
    is_disk_faulty: bool,
    /// What the source behind all feeds has; a place is how many of them were read, in digits.
    source: Vec<String>,
    /// Feeds that are open: where each is, and whether a part is wanted.
    feeds: BTreeMap<(usize, u64), (String, usize, bool)>,
    /// What the source does: `there`, `away` for now, `full`, or `over`.
    source_is: String,
}

impl World {
    /// Brokers over an empty disk.
    pub fn new(options: WorldOptions) -> World {
        let mut world = World {
            options,
            disk: FakeDisk::new(1),
            brokers: Vec::new(),
            clients: BTreeMap::new(),
            now: TimeMs(1_700_000_000_000),
            reloaded: false,
            starts: 0,
            by_bytes: false,
            is_disk_faulty: false,
            source: Vec::new(),
            feeds: BTreeMap::new(),
            source_is: "there".to_owned(),
        };
        world.start();
        world
    }

    /// The brokers, for tests that check their state.
    pub fn brokers(&self) -> &[TestBroker] {
        &self.brokers
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
        self.brokers = (0..workers)
            .map(|worker| {
                let options = BrokerOptions {
                    worker,
                    owners: owners.clone(),
                    limits: limits.clone(),
                    facts: Arc::clone(&facts),
                    seed: self.starts * 1000 + u64::from(worker),
                    request_topics: vec!["$ledger/transfers".into(), "other/service".into()],
                    feeds: "feed/".into(),
                    version: "test",
                };
                Broker::new(options, owners.on(worker).map(|shard| self.open_shard(shard.0)).collect())
            })
            .collect();
        let mut heard = Heard::default();
        self.settle(&mut heard);
        assert!(self.brokers.iter().all(Broker::is_serving), "all have told all");
    }

    fn open_shard(&self, shard: u16) -> TopicShard<StepLog<FakeDisk>> {
        let (data, log) = (Path::new("data"), TOPICS.log(7, shard));
        let logs = StepLogs::new(self.disk.clone(), data, &[TOPICS]);
        let snapshots = Snapshots::<TopicsFamily, _>::new(self.disk.clone(), data, log);
        let open = OpenShard::open(&logs, snapshots, topics::log_options());
        let back = open.expect("the log opens").replay(self.options.topic_shards, &mut NothingDerived, |_| {});
        topics::open_shard(back.expect("the log is whole"), self.options.inboxes.clone()).expect("the log goes on")
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

    /// Lets a client send something, and nothing follow from it yet.
    pub fn hand_over(&mut self, command: &str) {
        self.command(command, &mut Heard::default());
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
                        self.brokers[client.worker].serve(key, piece, self.options.work, now);
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
            self.brokers[client.worker].receive(client.key.expect("there is room"), &bytes, self.now);
            let earlier = self.clients.insert(name.to_owned(), client).expect("it hurries after itself");
            self.clients.insert(format!("{name}-{nth}"), earlier);
            // As far as the session's record, which is not durable yet.
            for worker in 0..self.brokers.len() {
                let actions: Vec<Action> = self.brokers[worker].actions().collect();
                for action in actions {
                    self.act(worker, action, heard);
                }
            }
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
            "disk-full" => self.disk.set_capacity(self.disk.used_bytes()),
            "disk-room" => self.disk.set_capacity(u64::MAX),
            power @ ("crash" | "kill") => {
                self.brokers.clear();
                self.clients.clear();
                self.feeds.clear();
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
            "reload" => {
                self.reloaded = true;
                for broker in &mut self.brokers {
                    let mut again = |rights: &dyn Rights| rights_of(rights.user(), true);
                    broker.reload(&mut again, self.now);
                }
            }
            "log" => self.source.extend(words.rest().into_iter().map(str::to_owned)),
            "source" => words.first().clone_into(&mut self.source_is),
            "announce" => {
                let topic = words.first();
                self.brokers[0].announce(topic, words.first().as_bytes(), true, self.now);
            }
            other => panic!("nobody knows how to {other}"),
        }
    }

    /// Lets everything happen that follows from what has happened.
    fn settle(&mut self, heard: &mut Heard) {
        for _ in 0..10_000 {
            if !self.turn(heard) {
                self.brokers.iter().for_each(Broker::assert_sound);
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// One turn of each worker. Whether anything happened.
    fn turn(&mut self, heard: &mut Heard) -> bool {
        let mut worked = false;
        for worker in 0..self.brokers.len() {
            self.brokers[worker].step(self.now);
            for shard in self.brokers[worker].shards_mut() {
                // A log whose sync failed does nothing more, and its shard says so to all that wait.
                let step = shard.log_mut().step();
                assert!(step.is_ok() || self.is_disk_faulty, "the disk is well: {step:?}");
                worked |= step.is_ok_and(|step| step != Step::Idle);
            }
            let actions: Vec<Action> = self.brokers[worker].actions().collect();
            worked |= !actions.is_empty();
            for action in actions {
                self.act(worker, action, heard);
            }
            for peer in 0..self.brokers.len() {
                if peer != worker
                    && let Some(batch) = self.brokers[worker].take_batch(peer as u16)
                {
                    worked = true;
                    self.brokers[peer].deliver(worker as u16, batch, self.now);
                }
            }
            worked |= self.feed(worker);
            worked |= self.write(worker, heard);
        }
        worked || !self.brokers.iter().all(Broker::is_idle)
    }

    fn act(&mut self, worker: usize, action: Action, heard: &mut Heard) {
        let now = self.now;
        match action {
            Action::Authenticate { key, user_name, .. } => {
                let verdict = match rights_of(user_name.as_deref(), self.reloaded) {
                    Some(rights) => Ok(Admitted { rights }),
                    None => Err(Denied { reason: ReasonCode::BAD_USER_NAME_OR_PASSWORD }),
                };
                self.brokers[worker].verdict(key, verdict, now);
            }
            Action::HandOff { key, worker: to, bytes } => {
                let to = to as usize;
                let new = self.brokers[to].open(ConnectionTraits::default(), now).expect("there is room");
                if let Some(client) = self.client_of(worker, key) {
                    (client.worker, client.key) = (to, Some(new));
                }
                self.brokers[to].receive(new, &bytes, now);
            }
            Action::Close { key } => {
                let rest = self.brokers[worker].unsent(key).to_vec();
                self.brokers[worker].closed(key, now);
                let Some((name, client)) = self.named(worker, key) else { return };
                client.key = None;
                let lines = if client.stalled { Vec::new() } else { client.hear(&rest).0 };
                heard.add(&name, lines);
                heard.add(&name, vec!["closed".to_owned()]);
            }
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
                    None => Ok(self.source.len()),
                    Some(text) => text.parse().map_err(|_| ReasonCode::UNSPECIFIED_ERROR),
                };
                let found = found.map(|number| number.to_string().into_bytes().into());
                self.brokers[worker].placed(key, &filter, found, now);
            }
            Action::Feed { feed, filter, after, .. } => {
                let after = String::from_utf8(after.into()).expect("a text");
                let place = if after.is_empty() { self.source.len() } else { after.parse().expect("a number") };
                match &*self.source_is {
                    "away" | "full" => self.brokers[worker].feed(feed, &filter, FeedNews::Later, now),
                    "over" => {
                        let payload = b"of another history"[..].into();
                        self.brokers[worker].feed(feed, &filter, FeedNews::Over { payload }, now);
                    }
                    _ => drop(self.feeds.insert((worker, feed.0), (filter.into(), place, true))),
                }
            }
            Action::FeedMore { feed } => {
                if let Some((_, _, is_wanted)) = self.feeds.get_mut(&(worker, feed.0)) {
                    assert!(!std::mem::replace(is_wanted, true), "one part after the other");
                }
            }
            Action::FeedEnd { feed } => drop(self.feeds.remove(&(worker, feed.0))),
        }
    }

    /// Lets the source answer feeds: parts of up to three messages; those of another filter are of no interest.
    fn feed(&mut self, worker: usize) -> bool {
        let mut worked = false;
        for ((_, key), (filter, place, is_wanted)) in self.feeds.range_mut((worker, 0)..=(worker, u64::MAX)) {
            if !*is_wanted || *place >= self.source.len() {
                continue;
            }
            let end = self.source.len().min(*place + 3);
            let is_of_interest = |(_, text): &(usize, &String)| filter == "feed/all" || filter.ends_with(&text[..1]);
            let messages = (*place..end).map(|nth| (nth, &self.source[nth])).filter(is_of_interest);
            let messages = messages.map(|(nth, text)| FeedMessage {
                place: (nth + 1).to_string().into_bytes().into(),
                properties: [].into(),
                payload: text.as_bytes().into(),
            });
            let part = FeedNews::Part { messages: messages.collect(), place: end.to_string().into_bytes().into() };
            (*place, *is_wanted, worked) = (end, false, true);
            self.brokers[worker].feed(FeedKey(*key), filter, part, self.now);
        }
        worked
    }

    /// Gives each client what is for it.
    fn write(&mut self, worker: usize, heard: &mut Heard) -> bool {
        let mut keys = Vec::new();
        self.brokers[worker].take_flushable(&mut keys);
        // Those that stalled go on when they flow again.
        let names: Vec<String> = self.clients.keys().cloned().collect();
        let mut worked = false;
        for name in names {
            let client = self.clients.get_mut(&name).expect("it was listed");
            let Some(key) = client.key.filter(|_| client.worker == worker && !client.stalled) else { continue };
            let bytes = self.brokers[worker].unsent(key).to_vec();
            if bytes.is_empty() {
                continue;
            }
            worked = true;
            self.brokers[worker].sent(key, bytes.len(), self.now);
            let (lines, answers) = client.hear(&bytes);
            heard.add(&name, lines);
            // No socket gives no bytes, and a call without any could wake what nothing else would.
            if !answers.is_empty() {
                self.brokers[worker].receive(key, &answers, self.now);
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

    fn client_of(&mut self, worker: usize, key: ConnectionKey) -> Option<&mut Client> {
        self.named(worker, key).map(|(_, client)| client)
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

/// The rights of a user of a script.
#[derive(Debug)]
struct ScriptRights {
    user: Option<String>,
    reloaded: bool,
}

fn rights_of(user: Option<&str>, reloaded: bool) -> Option<Arc<dyn Rights>> {
    let is_known = user != Some("nobody") && !(reloaded && user == Some("gone"));
    is_known.then(|| Arc::new(ScriptRights { user: user.map(str::to_owned), reloaded }) as Arc<dyn Rights>)
}

impl ScriptRights {
    fn access(&self, topic: &str) -> Access {
        if topic.starts_with("secret/") || self.reloaded && topic.starts_with("closed/") {
            return Access::Denied;
        }
        Access::Allowed
    }
}

impl Rights for ScriptRights {
    fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    fn may_publish(&self, _client_id: &str, topic: &str) -> Access {
        if topic.starts_with("$SYS") || topic.starts_with("$ledger/accounts") {
            return Access::Denied;
        }
        self.access(topic)
    }

    fn may_subscribe(&self, _client_id: &str, filter: &str) -> Access {
        match filter.strip_prefix("$ledger/accounts/") {
            Some(account) => Access::IfConfirmed(account.into()),
            None => self.access(filter),
        }
    }
}

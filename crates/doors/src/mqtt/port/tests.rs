//! The ports of two workers over real sockets. The test runs their turns; there is no ledger.

mod turns;

use std::collections::VecDeque;
use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use mio::{Events, Poll};
use tidegate_broker::TOPICS;
use tidegate_broker::TopicsFamily;
use tidegate_broker::topics::{log_options, open_shard};
use tidegate_broker::{Access, Admitted, BrokerLimits, HoldingLimits, Principal, ReasonCode, Rights};
use tidegate_journal::disk::FakeDisk;
use tidegate_journal::step::Step;
use tidegate_journal::{StepLog, StepLogs};
use tidegate_ledger::announcer::AnnounceRules;
use tidegate_ledger::router::CursorKey;
use tidegate_machines::topic::InboxLimits;
use tidegate_pacer::family::{CampaignClient, CampaignMessage};
use tidegate_pacer::plan::PlanRules;
use tidegate_queue::{QueueClient, QueueMessage};
use tidegate_runtime::threads::now_ms;
use tidegate_runtime::{Endpoint, Envelope, ShardAddresses, mesh, parcels};
use tidegate_shard::{NothingDerived, OpenShard, Owners, Snapshots};

use super::*;
use crate::admission::let_in_max;
use crate::auth::Identity;
use crate::mqtt::{AdmissionLimits, Credentials, MqttListener, MqttRoom, Verdict, VerdictReply};
use crate::operator::OperatorMessage;
use crate::proxy::{ProxyRule, TrustedProxies};

/// Long enough for any machine; it passes only when a test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client that may do everything, with the name of its user if it has one.
#[derive(Debug)]
struct Everything(Option<&'static str>);

impl Rights for Everything {
    fn user(&self) -> Option<&str> {
        self.0
    }
    fn may_publish(&self, _: &str, _: &str) -> Access {
        Access::Allowed
    }
    fn may_subscribe(&self, _: &str, _: &str) -> Access {
        Access::Allowed
    }
}

/// Accepts clients without a password, and keeps the replies for the others.
#[derive(Default)]
struct TestAuthenticator {
    asked: Mutex<Vec<VerdictReply>>,
}

fn admitted(user: Option<&'static str>) -> Verdict {
    let principal = user.map_or_else(|| Principal::address("127.0.0.1"), Principal::user);
    Ok(Admitted { rights: Arc::new(Everything(user)), principal, may_claim: true, ends_at: None })
}

fn yes() -> Verdict {
    admitted(None)
}

impl MqttAuthenticator for TestAuthenticator {
    fn begin(&self, credentials: Credentials, reply: VerdictReply) -> Option<Verdict> {
        assert!(credentials.address.is_loopback() && &*credentials.listener == "plain");
        if credentials.client_id.starts_with("flood ") {
            return Some(admitted(Some("flooder")));
        }
        if credentials.password.is_none() {
            return Some(yes());
        }
        self.asked.lock().unwrap().push(reply);
        None
    }
    fn identity(&self, _: &dyn Rights) -> Option<Identity> {
        None
    }
    fn renew(&self, _: &dyn Rights) -> Option<Arc<dyn Rights>> {
        None
    }
    fn rights_of(&self, _: &Principal) -> Option<Arc<dyn Rights>> {
        Some(Arc::new(Everything(None)))
    }
    fn generation(&self) -> u64 {
        0
    }
}

parcels! {
    enum Parcel {
        Ledger(Message),
        Topics(BrokerMessage),
        Connection(Box<Arrival>),
        Operator(OperatorMessage),
        Queues(QueueMessage),
        Campaigns(CampaignMessage),
    }
}

struct Worker {
    port: MqttPort<StepLog<FakeDisk>>,
    endpoint: Endpoint<Parcel>,
    own: VecDeque<Envelope<Parcel>>,
    poll: Poll,
}

impl Worker {
    fn turn(&mut self, receives: bool) {
        let Worker { port, endpoint, own, poll } = self;
        let mut events = Events::with_capacity(64);
        poll.poll(&mut events, Some(Duration::from_millis(1))).unwrap();
        for event in &events {
            let (_, token) = PortSockets::owner(event.token());
            Port::<Parcel>::on_event(port, token, event);
        }
        let now = now_ms();
        let mut context = Context::new(port.me, now, endpoint, own);
        if receives {
            let mut came = Vec::new();
            context.drain_rings(|from, body| came.push((from, body)));
            for (from, body) in came {
                match body {
                    Parcel::Ledger(message) => assert!(matches!(message, Message::Pull { .. }), "what fills a ring"),
                    other => port.deliver(from, other, &mut context),
                }
            }
            port.serve(&mut context);
        }
        port.flush(&mut context);
        for shard in port.broker.shards_mut() {
            while shard.log_mut().step().unwrap() != Step::Idle {}
        }
        Resident::<Parcel>::tick(port, now);
        endpoint.wake_receivers();
        assert!(own.is_empty(), "nobody asks the ledger");
    }
}

struct Node {
    workers: Vec<Worker>,
    address: SocketAddr,
    authenticator: Arc<TestAuthenticator>,
}

impl Node {
    fn open(connections_max: usize) -> Node {
        let listener = MqttListener {
            name: "plain".into(),
            address: "127.0.0.1:0".parse().unwrap(),
            tls: None,
            clients: None,
            anonymous: true,
            connections_max: 1_000,
            connections_per_s: 0,
            packet_bytes_max: 0,
            proxy: ProxyRule::default(),
        };
        let settings = MqttSettings {
            listeners: vec![listener],
            proxies: TrustedProxies::default(),
            websocket: None,
            topic_shards: 2,
            limits: BrokerLimits {
                sys_interval_ms: 0,
                packet_bytes_max: 8 << 20,
                outbox_bytes_max: 8 << 20,
                ..BrokerLimits::default()
            },
            holdings: HoldingLimits::NONE,
            admission: AdmissionLimits { connections_max, connections_per_address_max: 0, turn_ms_max: 0 },
            drain: DrainPlan { per_second: 1, server_reference: Some("elsewhere".into()) },
            drain_timeout_ms: 0,
            inbox: InboxLimits::default(),
            announce: AnnounceRules { accounts: Vec::new(), interval_ms: 0 },
            plan_rules: PlanRules { account_prefix: "campaign:".into(), spend_prefix: "spend:".into() },
        };
        let authenticator = Arc::new(TestAuthenticator::default());
        let mut room = MqttRoom::new(settings, authenticator.clone(), 0, 2);
        let address = room.listen(2).unwrap()[0].1;
        let registry = tidegate_telemetry::Registry::of(&[
            MqttMetrics::ROWS,
            BrokerMetrics::ROWS,
            NodeMqttMetrics::ROWS,
            RequestMetrics::ROWS,
            ShardMetrics::ROWS,
            RefusalMetrics::ROWS,
        ]);
        let disk = FakeDisk::new(1);
        let worker = |(number, endpoint): (usize, Endpoint<Parcel>)| {
            let (data, number) = (Path::new("data"), number as u16);
            let logs = StepLogs::new(disk.clone(), data, &[TOPICS]);
            let snapshots = Snapshots::<TopicsFamily, _>::new(disk.clone(), data, TOPICS.log(7, number));
            let open = OpenShard::open(&logs, snapshots, log_options()).unwrap();
            let back = open.replay(2, &mut NothingDerived, |_| {}).unwrap();
            let shard = open_shard(back, InboxLimits::default()).unwrap();
            let metrics = ShardMetrics::register(&registry, TOPICS.name, number);
            let me = Address { endpoint: endpoint.index(), member: tidegate_runtime::MemberIndex(0) };
            let router = Router::new(me, ShardAddresses::new([Address::new(0, 1)]), CursorKey([1, 2]));
            let (own, parker) = ((vec![shard], vec![metrics]), endpoint.parker().clone());
            let queues = QueueClient::new(ShardAddresses::new([Address::new(0, 2)]));
            let campaigns = CampaignClient::new(ShardAddresses::new([Address::new(0, 3)]));
            let clients = (router, queues, campaigns);
            let mut port = room.assemble(me, &Owners::spread(2, 2), own, parker, clients, &registry).unwrap();
            let poll = Poll::new().unwrap();
            Port::<Parcel>::register(&mut port, PortSockets::new(poll.registry(), 0).unwrap()).unwrap();
            Worker { port, endpoint, own: VecDeque::new(), poll }
        };
        let workers: Vec<Worker> = mesh(2, 0).into_iter().enumerate().map(worker).collect();
        Node { workers, address, authenticator }
    }

    fn turn(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.turn(true));
    }

    /// Turns until it is so.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Node) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < PATIENCE, "it never happens that {what}");
            self.turn();
        }
    }

    fn sockets(&self) -> usize {
        self.workers.iter().map(|worker| worker.port.sockets.len()).sum()
    }

    fn connect(&self, client_id: &str, password: bool) -> Client {
        let tcp = TcpStream::connect(self.address).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let mut client = Client { tcp, heard: Vec::new() };
        // MQTT 5, clean start, and if a password is to be shown, one byte of it.
        let mut body = b"\x00\x04MQTT\x05".to_vec();
        body.extend([if password { 0xc2 } else { 0x02 }, 0, 60, 0]);
        body.extend(text(client_id));
        if password {
            body.extend(b"\x00\x01u\x00\x01p");
        }
        client.say(0x10, &body);
        client
    }

    /// Connects, and waits for a CONNACK that says yes.
    fn connect_accepted(&mut self, client_id: &str) -> Client {
        let mut client = self.connect(client_id, false);
        let connack = self.receive(&mut client);
        assert_eq!((connack[0], connack[3]), (0x20, 0), "{client_id}: {connack:?}");
        client
    }

    /// Says what no socket takes at once.
    fn say_all(&mut self, client: &mut Client, bytes: &[u8]) {
        let mut rest = bytes;
        self.until("the server reads all", |_| {
            while let Ok(taken) = client.tcp.write(rest) {
                rest = &rest[taken..];
                if rest.is_empty() {
                    return true;
                }
            }
            false
        });
    }

    /// Waits for one packet.
    fn receive(&mut self, client: &mut Client) -> Vec<u8> {
        let mut packet = None;
        self.until("the client hears something", |_| {
            packet = client.packet();
            packet.is_some()
        });
        packet.expect("it was waited for")
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    let mut rest = body.len();
    while rest >= 128 {
        packet.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    packet.push(rest as u8);
    packet.extend(body);
    packet
}

/// The body of a PUBLISH of QoS 0.
fn publication(topic: &str, payload: &[u8]) -> Vec<u8> {
    [text(topic), vec![0], payload.to_vec()].concat()
}

struct Client {
    tcp: TcpStream,
    heard: Vec<u8>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a client that has heard {:?}", self.heard)
    }
}

impl Client {
    /// A packet that the socket takes at once.
    fn say(&mut self, first: u8, body: &[u8]) {
        self.tcp.write_all(&packet(first, body)).unwrap();
    }

    fn subscribe(&mut self, filter: &str) {
        self.say(0x82, &[b"\x00\x01\x00".to_vec(), text(filter), vec![0]].concat());
    }

    fn publish(&mut self, topic: &str, payload: &[u8]) {
        self.say(0x30, &publication(topic, payload));
    }

    /// Reads what is there. `false` at the end of the stream.
    fn listen(&mut self) -> bool {
        let mut some = [0; 4_096];
        loop {
            match self.tcp.read(&mut some) {
                Ok(0) => return false,
                Ok(bytes) => self.heard.extend_from_slice(&some[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The next whole packet, if it is there.
    fn packet(&mut self) -> Option<Vec<u8>> {
        self.listen();
        let (mut length, mut width) = (0, 0);
        loop {
            let byte = *self.heard.get(1 + width)?;
            length |= usize::from(byte & 0x7f) << (7 * width);
            width += 1;
            if byte < 0x80 {
                break;
            }
        }
        let end = 1 + width + length;
        (self.heard.len() >= end).then(|| self.heard.drain(..end).collect())
    }
}

#[test]
fn a_connection_goes_to_the_worker_of_its_session_and_all_hear_all() {
    let mut node = Node::open(1_000);
    let mut clients: Vec<Client> = (0..20).map(|n| node.connect_accepted(&format!("client {n}"))).collect();
    let handed_off: u64 = node.workers.iter().map(|worker| worker.port.metrics.handed_off.get()).sum();
    assert!(handed_off > 0, "of twenty clients, some come to the wrong worker");
    assert!(node.workers.iter().all(|worker| worker.port.sockets.len() > 0), "and some belong to either");
    for client in &mut clients {
        client.subscribe("news/#");
        assert_eq!(node.receive(client)[0], 0x90);
    }
    clients[7].publish("news/tide", b"it rises");
    for client in &mut clients {
        let packet = node.receive(client);
        assert!(packet[0] == 0x30 && packet.ends_with(b"it rises"), "{packet:?}");
    }
    drop(clients);
    node.until("all are gone", |node| node.sockets() == 0);
    assert_eq!(node.workers[0].port.admission.connections(), 0);
}

#[test]
fn one_too_many_is_told_so() {
    let mut node = Node::open(2);
    let (first, _second) = (node.connect_accepted("a"), node.connect_accepted("b"));
    let mut third = node.connect("c", false);
    let connack = node.receive(&mut third);
    assert_eq!((connack[0], connack[3]), (0x20, ReasonCode::QUOTA_EXCEEDED.0), "{connack:?}");
    node.until("the third is closed", |_| !third.listen());
    drop(first);
    node.until("the first is gone", |node| node.sockets() == 1);
    // Who was only told, and stays, has nobody's place.
    node.connect_accepted("d");
    drop(third);
    node.until("they are gone", |node| node.workers.iter().all(|worker| worker.port.lingering.len() == 0));
}

#[test]
fn who_does_not_say_who_it_is_gives_way() {
    let mut node = Node::open(8);
    let mut old = node.connect_accepted("old");
    let half = [0x10, 20, 0, 4, b'M', b'Q', b'T', b'T'];
    let mut strangers: Vec<TcpStream> = Vec::new();
    let connections = |node: &Node| node.workers[0].port.admission.connections();
    for n in 0..40 {
        let mut stranger = TcpStream::connect(node.address).unwrap();
        if n % 2 == 0 {
            stranger.write_all(&half).unwrap();
        }
        strangers.push(stranger);
        (0..4).for_each(|_| node.turn());
        assert!(connections(&node) <= let_in_max(8), "{}", connections(&node));
    }
    node.until("the door is full", |node| connections(node) == 8);
    let mut clients: Vec<Client> = (0..7).map(|n| node.connect_accepted(&format!("client {n}"))).collect();
    assert!(old.listen() && clients.iter_mut().all(Client::listen), "who has said who it is stays");
    for stranger in &mut strangers {
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        let ended = stranger.read(&mut [0; 8]).map_err(|error| error.kind());
        assert!(matches!(ended, Ok(0) | Err(io::ErrorKind::ConnectionReset)), "closed without a word: {ended:?}");
    }
    // All places are those of clients now: one more is told so.
    let mut more = node.connect("more", false);
    assert_eq!(node.receive(&mut more)[3], ReasonCode::QUOTA_EXCEEDED.0);
    drop((old, clients, more));
    node.until("all are gone", |node| connections(node) == 0);
}

#[test]
fn who_was_closed_and_stays_gives_way() {
    let mut node = Node::open(4);
    let mut closed: Vec<Client> = (0..4).map(|n| node.connect_accepted(&format!("client {n}"))).collect();
    for client in &mut closed {
        client.say(0x00, &[]);
        assert_eq!(node.receive(client)[0], 0xe0);
    }
    node.until("they linger", |node| node.sockets() == 0);
    let _clients: Vec<Client> = (0..4).map(|n| node.connect_accepted(&format!("new client {n}"))).collect();
    // One that belongs to another worker than the new client's ends in that worker's next turn.
    node.until("they are gone", |node| node.workers.iter().all(|worker| worker.port.lingering.len() == 0));
}

#[test]
fn a_load_balancers_word_in_the_middle_of_a_connect_is_none() {
    let mut node = Node::open(16);
    let tcp = TcpStream::connect(node.address).unwrap();
    tcp.set_nonblocking(true).unwrap();
    let mut client = Client { tcp, heard: Vec::new() };
    let name = "PROXY TCP4 192.0.2.7";
    let connect = packet(0x10, &[b"\x00\x04MQTT\x05\x02\x00\x3c\x00".to_vec(), text(name)].concat());
    let (first, rest) = connect.split_at(connect.len() - name.len());
    client.tcp.write_all(first).unwrap();
    let has_heard = |worker: &mut Worker| {
        let sockets = &mut worker.port.sockets;
        (0..sockets.places()).any(|n| sockets.at(n).is_some_and(|(_, socket)| socket.has(Flag::HEARD)))
    };
    node.until("the first part is read", |node| node.workers.iter_mut().any(has_heard));
    client.tcp.write_all(rest).unwrap();
    let connack = node.receive(&mut client);
    assert_eq!((connack[0], connack[3]), (0x20, 0), "{connack:?}");
}

#[test]
fn a_verdict_may_come_later_from_another_thread() {
    let mut node = Node::open(10);
    let mut client = node.connect("a", true);
    node.until("somebody is asked", |node| !node.authenticator.asked.lock().unwrap().is_empty());
    let reply = node.authenticator.asked.lock().unwrap().pop().unwrap();
    node.turn();
    assert!(client.packet().is_none(), "nothing is said before the verdict");
    std::thread::spawn(move || reply.give(yes())).join().unwrap();
    assert!(
        node.workers.iter_mut().any(|worker| Resident::<Parcel>::has_news(&mut worker.port)),
        "the verdict is work"
    );
    assert_eq!(node.receive(&mut client)[3], 0);
}

#[test]
fn nothing_is_hashed_for_a_client_that_is_gone() {
    let mut node = Node::open(10);
    let client = node.connect("a", true);
    node.until("somebody is asked", |node| !node.authenticator.asked.lock().unwrap().is_empty());
    let reply = node.authenticator.asked.lock().unwrap().pop().unwrap();
    let is_gone = reply.is_gone();
    assert!(!is_gone.load(Ordering::Relaxed));
    drop(client);
    node.until("it is gone", |_| is_gone.load(Ordering::Relaxed));
    reply.give(yes());
    node.turn();
}

#[test]
fn a_full_socket_goes_on_when_it_is_read() {
    let mut node = Node::open(10);
    let (mut reader, mut writer) = (node.connect_accepted("reader"), node.connect_accepted("writer"));
    reader.subscribe("big");
    node.receive(&mut reader);
    // More than the buffers of a socket take, and less than an outbox may hold.
    let payload: Vec<u8> = (0..6_000_000u32).map(|n| (n / 7) as u8).collect();
    node.say_all(&mut writer, &packet(0x30, &publication("big", &payload)));
    node.until("the reader's socket is full", |node| {
        let sockets = |worker: &mut Worker| {
            (0..2).any(|at| worker.port.sockets.at(at).is_some_and(|(_, s)| s.has(Flag::BLOCKED)))
        };
        node.workers.iter_mut().any(sockets)
    });
    let packet = node.receive(&mut reader);
    assert!(packet.ends_with(&payload), "{} bytes", packet.len());
}

#[test]
fn nothing_is_said_while_a_ring_is_full() {
    let mut node = Node::open(10);
    let mut clients: Vec<Client> = (0..8).map(|n| node.connect_accepted(&format!("client {n}"))).collect();
    let [first, second] = &mut node.workers[..] else { unreachable!() };
    // The second worker does not run, and the ring to it is full.
    let other = Address::new(1, 0);
    while first.endpoint.has_room(other.endpoint) {
        let pull =
            Message::Pull { shard: ShardIndex(0), by: ShardIndex(0), after: tidegate_machines::OutboundNumber(0) };
        first.endpoint.send(first.port.me, other, Parcel::Ledger(pull));
    }
    clients.iter_mut().for_each(|client| client.subscribe("x"));
    for _ in 0..20 {
        first.turn(true);
        second.turn(false);
    }
    assert!(clients.iter_mut().all(|client| client.packet().is_none()), "what a client heard, every worker knows");
    for client in &mut clients {
        assert_eq!(node.receive(client)[0], 0x90);
    }
}

#[test]
fn who_breaks_the_protocol_hears_why_although_more_came_behind() {
    let mut node = Node::open(10);
    let mut client = node.connect_accepted("a");
    // A packet of type 0, and much that nobody will read.
    client.say(0x00, &[0; 30_000]);
    let packet = node.receive(&mut client);
    assert_eq!((packet[0], packet[2]), (0xe0, ReasonCode::MALFORMED_PACKET.0), "{packet:?}");
    node.until("the stream ends", |_| !client.listen());
}

#[test]
fn a_drain_sends_everybody_elsewhere() {
    let mut node = Node::open(100);
    let mut clients: Vec<Client> = (0..10).map(|n| node.connect_accepted(&format!("client {n}"))).collect();
    for worker in &mut node.workers {
        Port::<Parcel>::drain(&mut worker.port, 10_000, now_ms());
    }
    for client in &mut clients {
        let packet = node.receive(client);
        assert_eq!((packet[0], packet[2]), (0xe0, ReasonCode::USE_ANOTHER_SERVER.0), "{packet:?}");
        assert!(packet.ends_with(b"elsewhere"));
    }
    node.until("all are gone", |node| node.workers.iter().all(|worker| Resident::<Parcel>::is_quiet(&worker.port)));
}

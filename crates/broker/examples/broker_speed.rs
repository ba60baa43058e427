//! What the broker costs without sockets and disks: nanoseconds per message and bytes per idle client, for one worker
//! on one thread.
//!
//! ```text
//!   cargo run --release -p tidegate-broker --example broker_speed [SESSIONS]
//! ```

use std::sync::Arc;
use std::time::Instant;

use tidegate_broker::drive::{self, Driven, Shell};
use tidegate_broker::{
    Access, Action, Admitted, Broker, BrokerLimits, BrokerMessage, BrokerOptions, ConnectionKey, ConnectionTraits,
    HoldingLimits, Holdings, Owners, Principal, QueueTopics, Rights, SharedFacts,
};
use tidegate_journal::StepLog;
use tidegate_journal::disk::RealDisk;
use tidegate_machines::TimeMs;
use tidegate_wire::mqtt::{
    self, AckKind, ConnectOut, PublishOut, QoS, ReasonCode, SubscriptionOut, Version, encode_ack,
};

const NOW: TimeMs = TimeMs(1_700_000_000_000);

/// No log is ever touched: sessions are clean, and nothing is retained.
type Log = StepLog<RealDisk>;

/// One worker whose clients take all that they are sent.
struct Bench {
    driven: Driven<Log>,
    rights: Arc<dyn Rights>,
}

#[derive(Debug)]
struct Everything;

impl Rights for Everything {
    fn user(&self) -> Option<&str> {
        None
    }
    fn may_publish(&self, _: &str, _: &str) -> Access {
        Access::Allowed
    }
    fn may_subscribe(&self, _: &str, _: &str) -> Access {
        Access::Allowed
    }
}

impl Shell<Log> for Bench {
    fn driven(&mut self) -> &mut Driven<Log> {
        &mut self.driven
    }

    fn take_messages(&mut self, _: TimeMs) {}

    fn has_room(&mut self, _: u16) -> bool {
        true
    }

    fn send(&mut self, _: u16, _: BrokerMessage) {
        unreachable!("there is one worker");
    }

    fn act(&mut self, action: Action, now: TimeMs) {
        match action {
            Action::Authenticate { key, .. } => {
                self.driven.verdict(key, Ok(admitted(&self.rights)), now);
            }
            other => unreachable!("the broker wants {other:?}"),
        }
    }

    fn write(&mut self, key: ConnectionKey, _: TimeMs) -> usize {
        self.driven.unsent(key).len()
    }

    fn close(&mut self, key: ConnectionKey, _: TimeMs) {
        unreachable!("nobody sends {key:?} away");
    }
}

impl Bench {
    fn hear(&mut self, key: ConnectionKey, bytes: &[u8]) {
        drive::hear(self, key, bytes, isize::MAX, NOW);
    }

    fn turn(&mut self) {
        drive::turn(self, NOW);
    }
}

fn admitted(rights: &Arc<dyn Rights>) -> Admitted {
    Admitted { rights: Arc::clone(rights), principal: Principal::address("10.0.0.1"), may_claim: true, ends_at: None }
}

fn bench() -> Bench {
    let limits = BrokerLimits { sys_interval_ms: 0, outbox_bytes_max: 8 << 20, ..BrokerLimits::default() };
    let facts = Arc::new(SharedFacts::new(1));
    let broker = Broker::new(
        BrokerOptions {
            worker: 0,
            owners: Owners::spread(1, 1),
            limits,
            facts,
            holdings: Arc::new(Holdings::new(HoldingLimits::NONE)),
            seed: 1,
            request_topics: Vec::new(),
            feeds: Box::default(),
            feed_partitions: 1,
            queues: QueueTopics::default(),
            version: "",
        },
        Vec::new(),
    );
    Bench { driven: Driven::new(broker), rights: Arc::new(Everything) }
}

fn connect(bench: &mut Bench, client_id: &str, keep_alive_s: u16) -> ConnectionKey {
    let key = bench.driven.open(ConnectionTraits::default(), NOW).expect("there is room");
    let mut packet = Vec::new();
    let connect = ConnectOut { clean_start: true, keep_alive_s, client_id, ..ConnectOut::default() };
    mqtt::encode_connect(&mut packet, Version::V5, &connect);
    bench.hear(key, &packet);
    bench.turn();
    key
}

fn subscribe(bench: &mut Bench, key: ConnectionKey, filter: &str, qos: QoS) {
    let mut packet = Vec::new();
    let (no_local, retain_as_published, retain_handling) = (false, false, 0);
    let subscription = SubscriptionOut { filter, qos, no_local, retain_as_published, retain_handling };
    mqtt::encode_subscribe(&mut packet, Version::V5, 1, None, &[subscription]);
    bench.hear(key, &packet);
}

fn publish(topic: &str, qos: QoS) -> Vec<u8> {
    let mut packet = Vec::new();
    let out = PublishOut {
        dup: false,
        qos,
        retain: false,
        topic,
        packet_id: 1,
        topic_alias: None,
        message_expiry_s: None,
        subscription_ids: &[],
        properties: &[],
        payload: &[7; 64],
    };
    mqtt::encode_publish(&mut packet, Version::V5, &out);
    packet
}

fn fan_out(qos: QoS) {
    let mut bench = bench();
    let publisher = connect(&mut bench, "publisher", 0);
    let receivers: Vec<_> = (0..1000).map(|n| connect(&mut bench, &format!("receiver-{n}"), 0)).collect();
    for key in &receivers {
        subscribe(&mut bench, *key, "tv/show", qos);
    }
    bench.turn();
    let packet = publish("tv/show", qos);
    let mut acks = Vec::new();
    let (mut rounds, start) = (0u64, Instant::now());
    while start.elapsed().as_millis() < 1000 {
        // Ten messages to a write, as a busy turn of the loop has them.
        for _ in 0..10 {
            bench.hear(publisher, &packet);
        }
        bench.turn();
        if qos == QoS::AtLeastOnce {
            acks.clear();
            for number in rounds * 10..rounds * 10 + 10 {
                let packet_id = (number % 65_535) as u16 + 1;
                encode_ack(&mut acks, Version::V5, AckKind::PubAck, packet_id, ReasonCode::SUCCESS, None);
            }
            for key in &receivers {
                bench.hear(*key, &acks);
            }
        }
        rounds += 1;
    }
    per(if qos == QoS::AtMostOnce { "fan-out qos 0" } else { "fan-out qos 1" }, start, rounds * 10_000);
}

fn pairs(qos: QoS) {
    let mut bench = bench();
    let pairs: Vec<_> = (0..500)
        .map(|n| {
            let receiver = connect(&mut bench, &format!("receiver-{n}"), 0);
            subscribe(&mut bench, receiver, &format!("pair/{n}"), qos);
            (connect(&mut bench, &format!("sender-{n}"), 0), receiver, publish(&format!("pair/{n}"), qos))
        })
        .collect();
    bench.turn();
    let (mut rounds, start) = (0u32, Instant::now());
    let mut ack = Vec::new();
    while start.elapsed().as_millis() < 1000 {
        for (sender, _, packet) in &pairs {
            bench.hear(*sender, packet);
        }
        bench.turn();
        if qos == QoS::AtLeastOnce {
            ack.clear();
            encode_ack(&mut ack, Version::V5, AckKind::PubAck, (rounds % 65_535) as u16 + 1, ReasonCode::SUCCESS, None);
            for (_, receiver, _) in &pairs {
                bench.hear(*receiver, &ack);
            }
        }
        rounds += 1;
    }
    per(if qos == QoS::AtMostOnce { "pairs qos 0" } else { "pairs qos 1" }, start, u64::from(rounds) * 500);
}

fn idle(sessions: usize) {
    let mut bench = bench();
    let before = resident_bytes();
    let start = Instant::now();
    for n in 0..sessions {
        let key = connect(&mut bench, &format!("device-{n}"), 300);
        subscribe(&mut bench, key, &format!("site/{}/device/{n}", n % 1000), QoS::AtMostOnce);
        bench.turn();
    }
    per("connect and subscribe", start, sessions as u64);
    println!("{:<24} {:>8} bytes per session", "idle", (resident_bytes() - before) / sessions);
    let mut now = NOW.0;
    let start = Instant::now();
    for _ in 0..4000 {
        now += 1;
        drive::turn(&mut bench, TimeMs(now));
    }
    println!("{:<24} {:>8.2} % of a core", "its clock", start.elapsed().as_secs_f64() / 4.0 * 100.0);
}

fn per(what: &str, start: Instant, count: u64) {
    let nanoseconds = start.elapsed().as_nanos() as f64 / count as f64;
    println!("{what:<24} {nanoseconds:>8.1} ns each, {:>12.0} per second", 1e9 / nanoseconds);
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("the second is resident pages") * 4096
}

fn main() {
    fan_out(QoS::AtMostOnce);
    fan_out(QoS::AtLeastOnce);
    pairs(QoS::AtMostOnce);
    pairs(QoS::AtLeastOnce);
    let sessions = std::env::args().nth(1).map_or(500_000, |text| text.parse().expect("a number of sessions"));
    idle(sessions);
}

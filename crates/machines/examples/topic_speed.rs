//! What the topic machine costs, in nanoseconds of processor time and bytes: no journal, one core (Linux only).
//!
//! `cargo run --release -p tidegate-machines --example topic_speed`

mod speed;

use std::hint::black_box;
use std::sync::Arc;

use speed::{cpu_ns, report};
use tidegate_machines::topic::{Command, InboxLimits, InboxPolicy, Message, MessageMeta, Receiver, Slot, Topics};
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

const NOW: TimeMs = TimeMs(1_800_000_000_000);
/// Durable sessions that receive.
const SESSIONS: u32 = 500;
const MESSAGES: usize = 2_000_000;
/// Sessions that do nothing.
const IDLE: u32 = 1_000_000;
/// Receivers of one message.
const FAN_OUT: u32 = 500;

struct Shard {
    topics: Topics,
    limits: InboxLimits,
    record: Vec<u8>,
    sequence: u64,
}

impl Shard {
    fn new(age_max_ms: u64) -> Shard {
        let policy = InboxPolicy::DropOldest;
        let limits =
            InboxLimits { messages_max: 100_000, bytes_max: 64 << 20, age_max_ms, policy, ..InboxLimits::default() };
        Shard { topics: Topics::new(ShardIndex(0)), limits, record: Vec::new(), sequence: 0 }
    }

    /// Decides, encodes, applies.
    fn ask(&mut self, command: &Command) {
        let Decision::Append { event, .. } = Machine::decide(&self.topics, command, &self.limits, NOW) else {
            panic!("{command:?} was refused");
        };
        self.record.clear();
        Topics::encode(&event, &mut self.record);
        self.sequence += 1;
        let place = Place { position: RecordPosition(self.sequence), sequence: RecordSequence(self.sequence) };
        Machine::apply(&mut self.topics, &event, place);
    }

    fn open(&mut self, nth: u32) {
        self.ask(&Command::OpenSession {
            client_id: format!("client-{nth:08}").into(),
            owner: None,
            expiry_s: 3600,
            will: None,
        });
        let filter = format!("room/{nth:08}/in").into();
        self.ask(&Command::Subscribe { slot: Slot(nth), filter, options: 1, subscription_id: 0 });
    }

    fn publish(&mut self, payload: &[u8], receivers: impl Iterator<Item = u32>) {
        let meta = MessageMeta { qos: 1, retain: false, expires_at: None };
        let message = Arc::new(Message::new("room/00000001/in", &[], payload, meta));
        let receiver = |slot| Receiver { slot: Slot(slot), qos: 1, retain: false, subscription_ids: [].into() };
        let receivers = receivers.map(receiver).collect();
        self.ask(&Command::Publish { message, receivers, origin: None, unheeded: [].into() });
    }
}

/// One message to one receiver and back, with a fixed number in flight to each.
fn pairs(what: &str, under_way: u64, age_max_ms: u64) {
    let mut shard = Shard::new(age_max_ms);
    (0..SESSIONS).for_each(|nth| shard.open(nth));
    let begun = cpu_ns();
    for nth in 0..MESSAGES as u64 {
        let slot = (nth % u64::from(SESSIONS)) as u32;
        shard.publish(&[7; 64], [slot].into_iter());
        let number = nth / u64::from(SESSIONS);
        if let Some(number) = number.checked_sub(under_way) {
            shard.ask(&Command::Acknowledge { slot: Slot(slot), number });
        }
    }
    report(what, begun, MESSAGES);
}

fn main() {
    pairs("publish to one and acknowledge, nothing else under way", 0, 0);
    pairs("the same with 100 under way to each", 100, 0);
    pairs("the same with a bound on age", 100, 3_600_000);

    let mut shard = Shard::new(0);
    (0..FAN_OUT).for_each(|nth| shard.open(nth));
    let begun = cpu_ns();
    let rounds = MESSAGES / FAN_OUT as usize;
    for round in 0..rounds as u64 {
        shard.publish(&[7; 64], 0..FAN_OUT);
        (0..FAN_OUT).for_each(|slot| shard.ask(&Command::Acknowledge { slot: Slot(slot), number: round }));
    }
    report("a copy of one for 500, and acknowledge", begun, MESSAGES);

    let mut shard = Shard::new(0);
    shard.open(0);
    (0..65_534).for_each(|_| shard.publish(&[7; 64], [0].into_iter()));
    let begun = cpu_ns();
    (1..65_534).rev().for_each(|number| shard.ask(&Command::Acknowledge { slot: Slot(0), number }));
    report("acknowledge a window of 65,534 from its end", begun, 65_533);

    shard.publish(&[7; 64], [0].into_iter());
    let record = shard.record.clone();
    let begun = cpu_ns();
    (0..MESSAGES).for_each(|_| drop(black_box(Topics::decode(&record))));
    report("decode a publish", begun, MESSAGES);

    let mut shard = Shard::new(0);
    let before = memory_bytes();
    let begun = cpu_ns();
    (0..IDLE).for_each(|nth| shard.open(nth));
    report("open an idle session with a subscription", begun, IDLE as usize);
    println!("{:>10.1} bytes of memory for it", (memory_bytes() - before) as f64 / f64::from(IDLE));
    let begun = cpu_ns();
    let mut bytes = Vec::new();
    shard.topics.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    report("write it to a snapshot", begun, IDLE as usize);
    println!("{:>10.1} bytes of it", bytes.len() as f64 / f64::from(IDLE));
    let begun = cpu_ns();
    black_box(Topics::read_snapshot(&bytes).expect("written above"));
    report("read it from a snapshot", begun, IDLE as usize);
}

/// Memory of this process, resident.
fn memory_bytes() -> u64 {
    let statistics = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 =
        statistics.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("resident pages come second");
    pages * 4096
}

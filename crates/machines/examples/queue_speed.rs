//! What the queue machine costs, in nanoseconds of processor time and bytes: no journal, one core (Linux only).
//!
//! `cargo run --release -p tidegate-machines --example queue_speed`

mod speed;

use std::hint::black_box;
use std::sync::Arc;

use speed::{cpu_ns, report};
use tidegate_machines::queue::{Bounds, Command, Lease, Message, Outcome, Queues, Settings};
use tidegate_machines::{Decision, Machine, Place, RecordPosition, RecordSequence, ShardIndex, TimeMs};

const NOW: TimeMs = TimeMs(1_800_000_000_000);
/// Messages of each case.
const MESSAGES: usize = 5_000_000;
/// Messages of a record, as many as come together under load.
const OF_A_RECORD: usize = 50;
/// Records of messages that are handed out before the first of them are acknowledged.
const UNDER_WAY: usize = 100;
/// How often what was written is decoded.
const ROUNDS: usize = 100;
/// Bytes of a body.
const BODY_BYTES: usize = 256;
/// Bytes of a record with them, about.
const RECORD_BYTES: u64 = 14_000;
/// None of the bounds is met.
const BOUNDS: Bounds = Bounds::new(1 << 40, 1 << 40, 1 << 40);

/// The queues, and the log that they were made from.
struct Shard {
    queues: Queues,
    record: Vec<u8>,
    sequence: u64,
}

impl Shard {
    fn new() -> Shard {
        let mut shard = Shard { queues: Queues::new(ShardIndex(0), 1), record: Vec::new(), sequence: 0 };
        shard.ask(&Command::Start { node: 1 });
        shard.ask(&Command::SetQueue { name: "sms", settings: &Settings::default() });
        shard
    }

    /// Decides, encodes, applies, as a worker does.
    fn ask(&mut self, command: &Command<'_>) -> Outcome {
        let now = TimeMs(NOW.0 + self.sequence / 10);
        let Decision::Append { event, outcome } = self.queues.decide(command, BOUNDS, now) else {
            panic!("{command:?} was refused");
        };
        self.record.clear();
        Queues::encode(&event, &mut self.record);
        self.sequence += 1;
        let position = RecordPosition(RECORD_BYTES * self.sequence);
        self.queues.apply(&event, Place { position, sequence: RecordSequence(self.sequence) });
        outcome
    }

    fn receive(&mut self) -> Vec<Lease> {
        let (max, bytes_max) = (OF_A_RECORD, u64::MAX);
        let receive = Command::Receive { queue: "sms", max, bytes_max, lease_ms: None, consumer: "c" };
        let Outcome::Leased(deliveries) = self.ask(&receive) else { panic!("there are messages") };
        deliveries.iter().map(|delivery| delivery.lease).collect()
    }
}

fn main() {
    let message = Arc::new(Message { priority: 4, body: [7; BODY_BYTES].into(), ..Message::default() });
    let messages = vec![message; OF_A_RECORD];
    let mut shard = Shard::new();
    let mut log = Vec::new();
    let begun = cpu_ns();
    for _ in 0..MESSAGES / OF_A_RECORD {
        shard.ask(&Command::Send { queue: "sms", messages: &messages });
        if log.len() < 1_000 {
            log.push(shard.record.clone());
        }
    }
    report("send", begun, MESSAGES);
    let begun = cpu_ns();
    (0..ROUNDS).for_each(|_| log.iter().for_each(|record| drop(black_box(Queues::decode(record)))));
    report("decode one that was sent", begun, ROUNDS * log.len() * OF_A_RECORD);
    let begun = cpu_ns();
    shard.queues.assert_sound();
    report("check one of a backlog", begun, MESSAGES);
    let begun = cpu_ns();
    let mut bytes = Vec::new();
    shard.queues.write_snapshot(&mut |part| bytes.extend_from_slice(part));
    report("write one to a snapshot", begun, MESSAGES);
    println!("{:>10.1} bytes of it", bytes.len() as f64 / MESSAGES as f64);
    let begun = cpu_ns();
    black_box(Queues::read_snapshot(&bytes).expect("written above"));
    report("read one from a snapshot", begun, MESSAGES);
    let (mut leasing, mut acknowledging) = (0, 0);
    for _ in 0..MESSAGES / OF_A_RECORD / UNDER_WAY {
        let begun = cpu_ns();
        let leased: Vec<Vec<Lease>> = (0..UNDER_WAY).map(|_| shard.receive()).collect();
        let between = cpu_ns();
        for leases in &leased {
            shard.ask(&Command::Acknowledge { queue: "sms", leases });
        }
        (leasing, acknowledging) = (leasing + between - begun, acknowledging + cpu_ns() - between);
    }
    println!("{:>10.1} ns hand out one of a backlog", leasing as f64 / MESSAGES as f64);
    println!("{:>10.1} ns acknowledge it", acknowledging as f64 / MESSAGES as f64);
}

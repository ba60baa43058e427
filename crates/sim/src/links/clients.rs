//! Who sends to the first node, and receives from the last one. They ask again what was not answered.

use std::collections::BTreeMap;

use tidegate_machines::IdSpace;
use tidegate_queue::machine::{Lease, Outcome, Receipt, Rejection};
use tidegate_queue::{Answer, Call, QueueReply, QueueRequest, Receive, Received};

use super::oracle::Oracle;
use crate::chance::Chance;
use crate::violation::Violation;

/// The queues at the end.
const LAST_QUEUES: [&str; 2] = ["west", "east"];
/// Where messages are sent to, and where they come out.
const FIRST: usize = 0;
const LAST: usize = 2;

/// What somebody asked.
enum Asked {
    Send(Vec<usize>),
    Receive(usize),
    /// Messages of a queue, which are done.
    Acknowledge(usize, Vec<(usize, Lease)>),
    Reject,
}

/// All of them, and what is known of their messages.
pub struct Clients {
    /// What is known.
    pub oracle: Oracle,
    chance: Chance,
    asked: BTreeMap<u64, Asked>,
    next: u64,
    /// How often in a thousand ticks somebody sends, or receives.
    rate: u64,
    /// How often in a thousand times a receiver dies with what it has.
    deaths: u64,
    /// How often in a thousand times one gives back what it has.
    rejections: u64,
    /// What is done, by queue, and was not answered.
    done: Vec<(usize, Vec<(usize, Lease)>)>,
    /// What goes back.
    back: Vec<(usize, Vec<(usize, Lease)>)>,
}

impl Clients {
    /// Clients of these messages.
    pub fn new(oracle: Oracle, mut chance: Chance) -> Clients {
        let mut some = |most: u64| if chance.happens(500) { chance.within(1..=most) } else { 0 };
        let (deaths, rejections) = (some(200), some(200));
        let (rate, asked) = (chance.within(100..=900), BTreeMap::new());
        let (done, back) = (Vec::new(), Vec::new());
        Clients { oracle, chance, asked, next: 0, rate, deaths, rejections, done, back }
    }

    fn asks(&mut self, asked: Asked) -> u64 {
        self.next += 1;
        self.asked.insert(self.next, asked);
        self.next
    }

    /// What is asked now: of which node, the number of the request, and what.
    pub fn wishes(&mut self, is_calm: bool) -> Vec<(usize, u64, QueueRequest)> {
        let mut wishes = Vec::new();
        if is_calm || self.chance.happens(self.rate) {
            let most = self.chance.within(1..=6) as usize;
            let numbers = self.oracle.next_to_send(most, &mut self.chance);
            if !numbers.is_empty() {
                let messages = numbers.iter().map(|number| self.oracle.contents[*number].message.clone().into());
                let call = Call::Send { queue: "texts".into(), messages: messages.collect() };
                let request = QueueRequest::Call(call).in_space(&IdSpace::default(), |_| false);
                wishes.push((FIRST, self.asks(Asked::Send(numbers)), request));
            }
        }
        for (queue, name) in LAST_QUEUES.into_iter().enumerate() {
            let waits = self.asked.values().any(|asked| matches!(asked, Asked::Receive(of) if *of == queue));
            if !waits && (is_calm || self.chance.happens(self.rate)) {
                let receive = Receive {
                    queue: name.into(),
                    max: self.chance.within(1..=6) as usize,
                    lease_ms: Some(self.chance.within(100..=600)),
                    consumer: "a phone".into(),
                    wait_ms: self.chance.below(400),
                };
                wishes.push((LAST, self.asks(Asked::Receive(queue)), QueueRequest::Receive(receive)));
            }
        }
        let leases = |held: &[(usize, Lease)]| held.iter().map(|(_, lease)| *lease).collect();
        for (queue, held) in std::mem::take(&mut self.done) {
            let call = Call::Acknowledge { queue: LAST_QUEUES[queue].into(), leases: leases(&held) };
            wishes.push((LAST, self.asks(Asked::Acknowledge(queue, held)), QueueRequest::Call(call)));
        }
        for (queue, held) in std::mem::take(&mut self.back) {
            let (queue, then) = (LAST_QUEUES[queue].into(), Rejection::Retry(Some(self.chance.below(100))));
            let call = Call::Reject { queue, leases: leases(&held), then, reason: "not now".into() };
            wishes.push((LAST, self.asks(Asked::Reject), QueueRequest::Call(call)));
        }
        wishes
    }

    /// A request was answered; `None` if nobody will.
    pub fn hear(&mut self, number: u64, reply: Option<QueueReply>, now: u64) -> Result<(), Violation> {
        let asked = self.asked.remove(&number).expect("a request is answered once");
        match (asked, reply) {
            (Asked::Send(numbers), Some(Ok(Answer::Outcome(Outcome::Sent(receipts))))) => {
                let keys = receipts.iter().map(|receipt: &Receipt| receipt.key).collect();
                self.oracle.sent(&numbers, Some(keys))
            }
            (Asked::Send(numbers), _) => self.oracle.sent(&numbers, None),
            (Asked::Receive(queue), Some(Ok(Answer::Received(received)))) => self.take(queue, &received, now),
            (Asked::Acknowledge(_, held), Some(Ok(Answer::Outcome(Outcome::Leases(outcomes))))) => {
                let done = held.into_iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok());
                done.for_each(|((number, _), _)| self.oracle.acknowledged(number));
                Ok(())
            }
            (Asked::Acknowledge(queue, held), _) => {
                self.done.push((queue, held));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self, queue: usize, received: &[Received], now: u64) -> Result<(), Violation> {
        let mut held = Vec::with_capacity(received.len());
        for received in received {
            let number = self.oracle.received(queue, received, now)?;
            held.push((number, received.delivery.lease));
        }
        if held.is_empty() || self.chance.happens(self.deaths) {
            return Ok(());
        }
        let rejects = self.chance.happens(self.rejections);
        if rejects {
            self.back.push((queue, held))
        } else {
            self.done.push((queue, held))
        }
        Ok(())
    }
}

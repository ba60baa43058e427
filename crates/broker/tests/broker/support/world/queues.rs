//! The queues behind the brokers: `$to/jobs` and `$to/more` are where one sends, `$from/jobs` and `$from/more` where
//! one receives. They show what becomes of their messages.

use std::collections::{BTreeMap, VecDeque};

use tidegate_broker::{Action, Broker, QueueDelivery, QueueRefusal, QueueTopics, ReasonCode, ReceiverKey};
use tidegate_journal::LogStore;
use tidegate_machines::TimeMs;

/// What the brokers know of them.
pub const TOPICS: QueueTopics = QueueTopics {
    sends: "$to/",
    receives: "$from/",
    refusals: &[
        (ReasonCode::QUOTA_EXCEEDED, "the queue is full"),
        (ReasonCode::TOPIC_NAME_INVALID, "there is no such queue to send to"),
        (ReasonCode::TOPIC_FILTER_INVALID, "there is no such queue"),
    ],
};
const FULL: QueueRefusal = QueueRefusal(0);
const NOWHERE: QueueRefusal = QueueRefusal(1);
const UNKNOWN: QueueRefusal = QueueRefusal(2);

/// Somebody who receives.
struct Receiver {
    queue: String,
    client_id: String,
    wanted: usize,
    held: BTreeMap<u64, String>,
}

/// See the module's description.
#[derive(Default)]
pub struct Queues {
    ready: BTreeMap<String, VecDeque<String>>,
    receivers: BTreeMap<(usize, u64), Receiver>,
    handed_out: u64,
    /// Sends that are not answered yet.
    pub is_slow: bool,
    slow: Vec<(usize, Action)>,
    /// What has happened since the last look.
    pub told: Vec<String>,
}

impl Queues {
    /// The brokers have ended, and with them all receivers.
    pub fn forget_receivers(&mut self) {
        for (_, receiver) in std::mem::take(&mut self.receivers) {
            self.give_back(receiver);
        }
        self.slow.clear();
    }

    fn give_back(&mut self, Receiver { queue, held, .. }: Receiver) {
        for payload in held.into_values().rev() {
            self.told.push(format!("{queue} has back {payload}"));
            self.ready.entry(queue.clone()).or_default().push_front(payload);
        }
    }

    /// What a broker asks; `None` if it is none of this. `now` is for the answer.
    pub fn act<L: LogStore>(&mut self, worker: usize, action: Action, broker: &mut Broker<L>, now: TimeMs) {
        match action {
            action @ Action::Send { .. } if self.is_slow => self.slow.push((worker, action)),
            Action::Send { ticket, topic, payload, properties, .. } => {
                let queue = topic.strip_prefix("$to/").expect("it is sent to a queue").to_owned();
                let payload = String::from_utf8(payload.into()).expect("a text");
                let answer = match (&*queue, &*payload) {
                    ("jobs" | "more", "toomuch") => Err(FULL),
                    ("jobs" | "more", _) => Ok(()),
                    _ => Err(NOWHERE),
                };
                if answer.is_ok() {
                    self.told.push(format!("{queue} takes {payload}, {} bytes of properties", properties.len()));
                    self.ready.entry(queue).or_default().push_back(payload);
                }
                broker.send_answered(ticket, answer, now);
            }
            Action::FindQueue { key, filter } => {
                let found = matches!(&*filter, "$from/jobs" | "$from/more").then_some(()).ok_or(UNKNOWN);
                broker.queue_found(key, &filter, found, now);
            }
            Action::Receive { receiver, client_id, filter } => {
                let queue = filter.strip_prefix("$from/").expect("it is received from a queue").to_owned();
                let client_id = client_id.into();
                let new = Receiver { queue, client_id, wanted: 0, held: BTreeMap::new() };
                let known = self.receivers.insert((worker, receiver.0), new);
                assert!(known.is_none(), "a receiver begins once");
            }
            Action::ReceiveMore { receiver, max } => {
                let receiver = self.receivers.get_mut(&(worker, receiver.0)).expect("it has begun");
                assert!(max > 0 && receiver.wanted == 0, "one demand after the other");
                receiver.wanted = max;
            }
            Action::Settle { receiver, number, reason } => {
                let receiver = self.receivers.get_mut(&(worker, receiver.0)).expect("it has begun");
                let payload = receiver.held.remove(&number).expect("it was handed out and not settled");
                let (queue, client_id) = (receiver.queue.clone(), &receiver.client_id);
                if reason.is_error() {
                    self.told.push(format!("{queue} has {payload} rejected by {client_id} with {:#x}", reason.0));
                    // What is too large for its receiver would come again at once, and for ever.
                    if reason != ReasonCode::PACKET_TOO_LARGE {
                        self.ready.entry(queue).or_default().push_back(payload);
                    }
                } else {
                    self.told.push(format!("{queue} has {payload} acknowledged by {client_id}"));
                }
            }
            Action::ReceiveStop { receiver, unsent } => {
                let receiver = self.receivers.get_mut(&(worker, receiver.0)).expect("it has begun");
                receiver.wanted = 0;
                let held = unsent.iter().map(|number| (*number, receiver.held.remove(number).expect("it has it")));
                let (queue, client_id) = (receiver.queue.clone(), String::new());
                let unsent = Receiver { queue, client_id, wanted: 0, held: held.collect() };
                self.give_back(unsent);
            }
            Action::ReceiveEnd { receiver } => {
                let receiver = self.receivers.remove(&(worker, receiver.0)).expect("it has begun");
                self.give_back(receiver);
            }
            other => panic!("{other:?} is nothing for a queue"),
        }
    }

    /// Sends that wait for an answer, when they need not any more.
    pub fn take_slow(&mut self, worker: usize) -> Vec<Action> {
        if self.is_slow {
            return Vec::new();
        }
        let (own, others) = std::mem::take(&mut self.slow).into_iter().partition(|(of, _)| *of == worker);
        self.slow = others;
        let own: Vec<_> = own;
        own.into_iter().map(|(_, action)| action).collect()
    }

    /// Hands out what there is to the receivers of a worker, first to those who have least. Whether there was anything.
    pub fn hand_out<L: LogStore>(&mut self, worker: usize, broker: &mut Broker<L>, now: TimeMs) -> bool {
        let mut worked = false;
        let mut own: Vec<_> = self.receivers.range_mut((worker, 0)..=(worker, u64::MAX)).collect();
        own.sort_by_key(|(_, receiver)| receiver.held.len());
        for ((_, key), receiver) in own {
            let ready = self.ready.entry(receiver.queue.clone()).or_default();
            let count = receiver.wanted.min(ready.len());
            if count == 0 {
                continue;
            }
            worked = true;
            receiver.wanted = 0;
            let mut deliveries = Vec::new();
            for payload in ready.drain(..count) {
                self.handed_out += 1;
                let number = self.handed_out;
                deliveries.push(QueueDelivery {
                    number,
                    properties: Box::default(),
                    payload: payload.as_bytes().into(),
                    expires_at: None,
                });
                receiver.held.insert(number, payload);
            }
            broker.hand_out(ReceiverKey(*key), deliveries, now);
        }
        worked
    }
}

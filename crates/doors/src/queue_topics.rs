//! Queues on topics, for the broker of one worker.
//!
//! ```text
//!   PUBLISH $queue-in/NAME ─▶ message ─▶ shard, durable ─▶ PUBACK, PUBREC
//!   SUBSCRIBE $queue-out/NAME ─▶ is there such a queue? ─▶ SUBACK
//!   receiver wants n ─▶ lease n at the shard, waiting if there is nothing ─▶ PUBLISH $queue-out/NAME, QoS 1
//!     PUBACK below 0x80 ─▶ acknowledge        0x80 or more ─▶ reject
//!     half of the lease is over ─▶ extend     connection ends ─▶ give back
//! ```
//!
//! Promise: a send is answered when it is durable. What a client has acknowledged is told to the shard until that has
//! it, also when the client is gone. A message is leased as long as its client is connected and has not acknowledged
//! it, and is given back when the connection ends.
//!
//! Invariant: rights are the broker's to ask for; here nobody is asked who they are.

mod message;
mod refusal;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use tidegate_broker::{
    ConnectionKey, QueueDelivery, QueueRefusal, QueueTopics, ReasonCode, ReceiverKey, RequestTicket,
};
use tidegate_machines::{IdSpace, TimeMs};
use tidegate_queue::limits::WAIT_MS_MAX;
use tidegate_queue::machine::limits::{BATCH_MESSAGES_MAX, CONSUMER_BYTES_MAX, LEASE_MS_MAX};
use tidegate_queue::machine::{Lease, Outcome, Rejection, shortened};
use tidegate_queue::{
    Answer, Call, CallerRequest, QueueClient, QueueMessage, QueueReply, QueueRequest, Read, Receive, Received,
};
use tidegate_runtime::{Address, Asker, Carries, Client, Context};

use crate::auth::Identity;
use crate::json::Problem;
use crate::queue_http::problem;
use crate::topic_names::{QUEUE_IN, QUEUE_OUT};
use message::{message_of, properties_of};
use refusal::{BUSY, NO_QUEUE_TO_RECEIVE, NOT_NOW, OVER_BOUND, REFUSALS, of_send, of_unavailable};

/// What the broker is to know of queues.
pub const QUEUE_TOPICS: QueueTopics = QueueTopics { sends: QUEUE_IN, receives: QUEUE_OUT, refusals: REFUSALS };
/// Requests for messages of one worker that wait at the shards; those beyond ask again after a while.
const WAITING_MAX: usize = 4_096;
/// How long until something that could not be asked, or was refused, is asked again.
const AGAIN_MS: u64 = 1_000;
/// The shortest lease that is asked for when one is extended.
const LEASE_MS_MIN: u64 = 1_000;

/// What was asked of the shards.
#[derive(Debug)]
enum Asked {
    Send(RequestTicket),
    Find(ConnectionKey, Box<str>),
    Receive { receiver: ReceiverKey, asked_at: TimeMs },
    Extend(ReceiverKey),
    Settle(Settlement),
}

/// What becomes of messages. The shard is told until it has it.
#[derive(Clone, Debug)]
struct Settlement {
    queue: Box<str>,
    leases: Vec<Lease>,
    /// `None`: they are done with.
    rejected: Option<(Rejection, Box<str>)>,
}

impl Settlement {
    fn call(&self) -> Call {
        let Settlement { queue, leases, rejected } = self.clone();
        match rejected {
            None => Call::Acknowledge { queue, leases },
            Some((then, reason)) => Call::Reject { queue, leases, then, reason },
        }
    }
}

/// Somebody who receives.
#[derive(Debug)]
struct Receiver {
    queue: Box<str>,
    consumer: Box<str>,
    /// Messages that are wanted and were not handed out.
    wanted: usize,
    /// The request for them, if it is under way.
    token: Option<u64>,
    /// When they are to be asked for, if that could not be yet.
    again_at: Option<TimeMs>,
    /// What is with the client, by the numbers that the broker knows.
    leases: BTreeMap<u64, Lease>,
    /// How long a lease lasts, and when they are extended.
    lease_ms: u64,
    extend_at: TimeMs,
}

/// What to tell the broker.
#[derive(Debug, PartialEq, Eq)]
pub enum QueueAnswer {
    /// A send was taken, or not; and the code of the refusal, to be counted.
    Sent(RequestTicket, Result<(), QueueRefusal>, Option<&'static str>),
    /// Whether there is a queue of a filter.
    Found(ConnectionKey, Box<str>, Result<(), QueueRefusal>),
    /// Messages for a receiver.
    HandedOut(ReceiverKey, Vec<QueueDelivery>),
}

/// What is sent to a queue.
pub struct Sent<'a> {
    /// Where it was published.
    pub topic: &'a str,
    /// Encoded MQTT 5 properties.
    pub properties: &'a [u8],
    /// When it is worth nothing any more.
    pub expires_at: Option<TimeMs>,
    /// What was published.
    pub payload: Box<[u8]>,
}

/// See the [module](self).
pub struct QueueClients {
    asker: Asker<QueueClient>,
    asked: HashMap<u64, Asked>,
    receivers: HashMap<ReceiverKey, Receiver>,
    /// Requests for messages that are under way.
    waiting: usize,
    /// What was acknowledged in this turn, by queue.
    acknowledged: BTreeMap<Box<str>, Vec<Lease>>,
    /// What the shards could not take, and when they are told again.
    untold: Vec<(TimeMs, Settlement)>,
    /// What the broker is to be told that no shard was asked.
    answers: Vec<QueueAnswer>,
    made: u64,
    handed_out: u64,
}

impl QueueClients {
    /// For the port at `me`.
    pub fn new(me: Address, client: QueueClient) -> QueueClients {
        QueueClients {
            asker: Asker::new(me, client),
            asked: HashMap::new(),
            receivers: HashMap::new(),
            waiting: 0,
            acknowledged: BTreeMap::new(),
            untold: Vec::new(),
            answers: Vec::new(),
            made: 0,
            handed_out: 0,
        }
    }

    fn ask(&mut self, asked: Asked, request: impl Into<CallerRequest>) -> u64 {
        self.made += 1;
        self.asked.insert(self.made, asked);
        self.asker.start(self.made, request.into());
        self.made
    }

    /// A publication is sent to a queue, on behalf of whoever `identity` is: senders of one queue take turns.
    pub fn send(&mut self, ticket: RequestTicket, identity: Option<&Identity>, sent: Sent<'_>, now: TimeMs) {
        let Sent { topic, properties, expires_at, payload } = sent;
        let queue = topic.strip_prefix(QUEUE_IN).expect("the broker asks for what begins so");
        match message_of(properties, expires_at, payload, now) {
            Err(refusal) => self.refuse(ticket, refusal, "message_invalid"),
            Ok(message) => {
                let call = Call::Send { queue: queue.into(), messages: vec![message.into()] };
                let request = QueueRequest::Call(call);
                match identity {
                    Some(identity) => self.ask(Asked::Send(ticket), identity.asks_queues(request)),
                    None => self.ask(Asked::Send(ticket), request.in_space(&IdSpace::anonymous(), |_| false)),
                };
            }
        }
    }

    /// A publication of somebody who has used up a bound of their own.
    pub fn refuse_over_bound(&mut self, ticket: RequestTicket, problem: &Problem) {
        self.refuse(ticket, OVER_BOUND, problem.code().name());
    }

    fn refuse(&mut self, ticket: RequestTicket, refusal: QueueRefusal, code: &'static str) {
        self.answers.push(QueueAnswer::Sent(ticket, Err(refusal), Some(code)));
    }

    /// Whether there is a queue to receive from.
    pub fn find(&mut self, key: ConnectionKey, filter: Box<str>) {
        let read = Read::Queue(queue_of(&filter).into());
        self.ask(Asked::Find(key, filter), QueueRequest::Call(Call::Read(read)));
    }

    /// A receiver begins.
    pub fn receive(&mut self, key: ReceiverKey, client_id: &str, filter: &str) {
        let receiver = Receiver {
            queue: queue_of(filter).into(),
            consumer: shortened(client_id, CONSUMER_BYTES_MAX).into(),
            wanted: 0,
            token: None,
            again_at: None,
            leases: BTreeMap::new(),
            lease_ms: LEASE_MS_MIN,
            extend_at: TimeMs(u64::MAX),
        };
        let known = self.receivers.insert(key, receiver);
        assert!(known.is_none(), "a receiver begins once");
    }

    /// A receiver wants up to `max` messages.
    pub fn receive_more(&mut self, key: ReceiverKey, max: usize, now: TimeMs) {
        let receiver = self.receivers.get_mut(&key).expect("a receiver that wants something has begun");
        assert!(receiver.wanted == 0 && max > 0, "one demand after the other");
        receiver.wanted = max;
        self.ask_for_messages(key, now);
    }

    fn ask_for_messages(&mut self, key: ReceiverKey, now: TimeMs) {
        let Some(receiver) = self.receivers.get_mut(&key).filter(|receiver| receiver.wanted > 0) else { return };
        if self.waiting >= WAITING_MAX {
            receiver.again_at = Some(TimeMs(now.0 + AGAIN_MS));
            return;
        }
        assert!(receiver.token.is_none(), "one request after the other");
        let Receiver { queue, consumer, wanted, .. } = receiver;
        let (queue, consumer, max) = (queue.clone(), consumer.clone(), (*wanted).min(BATCH_MESSAGES_MAX));
        let receive = Receive { queue, max, lease_ms: None, consumer, wait_ms: WAIT_MS_MAX };
        self.waiting += 1;
        let token = self.ask(Asked::Receive { receiver: key, asked_at: now }, QueueRequest::Receive(receive));
        self.receivers.get_mut(&key).expect("it was just looked at").token = Some(token);
    }

    /// What becomes of a message that was handed out.
    pub fn settle(&mut self, key: ReceiverKey, number: u64, reason: ReasonCode, now: TimeMs) {
        let receiver = self.receivers.get_mut(&key).expect("what is settled is a receiver's");
        let lease = receiver.leases.remove(&number).expect("what is settled was handed out");
        let queue = receiver.queue.clone();
        if !reason.is_error() {
            return self.acknowledged.entry(queue).or_default().push(lease);
        }
        let why = match reason {
            ReasonCode::PACKET_TOO_LARGE => "it is larger than the client's Maximum Packet Size".into(),
            ReasonCode(code) => format!("PUBACK with {code:#04x}").into(),
        };
        let rejected = Some((Rejection::Retry(None), why));
        self.tell(Settlement { queue, leases: vec![lease], rejected }, now);
    }

    /// A receiver wants nothing more, and its client never saw what has these numbers.
    pub fn stop(&mut self, key: ReceiverKey, unsent: &[u64], now: TimeMs) {
        let unheard = self.cancel(key, now);
        let receiver = self.receivers.get_mut(&key).expect("a receiver that wants nothing more has begun");
        receiver.wanted = 0;
        let unsent = unsent.iter().chain(&unheard);
        let leases = unsent.map(|number| receiver.leases.remove(number).expect("it was handed out")).collect();
        let queue = receiver.queue.clone();
        self.give_back(queue, leases, "its receiver has unsubscribed", now);
    }

    /// A receiver is gone.
    pub fn end(&mut self, key: ReceiverKey, now: TimeMs) {
        self.cancel(key, now);
        let Receiver { queue, leases, .. } = self.receivers.remove(&key).expect("a receiver that ends has begun");
        self.give_back(queue, leases.into_values().collect(), "the connection of its receiver has ended", now);
    }

    /// The request for messages is for nobody any more. What comes of it all the same the shard has back; what has come
    /// of it already, and the broker has not heard of, has these numbers.
    fn cancel(&mut self, key: ReceiverKey, now: TimeMs) -> Vec<u64> {
        let answers = self.take_answers(now);
        let (own, others): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| matches!(answer, QueueAnswer::HandedOut(of, _) if *of == key));
        self.answers = others;
        let receiver = self.receivers.get_mut(&key).expect("a receiver that ends has begun");
        receiver.again_at = None;
        if let Some(token) = receiver.token.take() {
            self.asker.cancel(token);
            self.asked.remove(&token);
            self.waiting -= 1;
        }
        let deliveries = |answer: QueueAnswer| match answer {
            QueueAnswer::HandedOut(_, deliveries) => deliveries,
            _ => Vec::new(),
        };
        own.into_iter().flat_map(deliveries).map(|delivery| delivery.number).collect()
    }

    /// What nobody has any more comes again at once. It does not count as an attempt: nothing is known against it.
    fn give_back(&mut self, queue: Box<str>, leases: Vec<Lease>, why: &str, now: TimeMs) {
        if !leases.is_empty() {
            let rejected = Some((Rejection::Back(0), why.into()));
            self.tell(Settlement { queue, leases, rejected }, now);
        }
    }

    fn tell(&mut self, settlement: Settlement, now: TimeMs) {
        if !self.asker.has_room() {
            return self.untold.push((TimeMs(now.0 + AGAIN_MS), settlement));
        }
        let request = QueueRequest::Call(settlement.call());
        self.ask(Asked::Settle(settlement), request);
    }

    /// A parcel for the client of this port.
    pub fn deliver(&mut self, from: Address, message: QueueMessage) {
        self.asker.deliver(from, message);
    }

    /// What the broker is to be told by now.
    pub fn take_answers(&mut self, now: TimeMs) -> Vec<QueueAnswer> {
        let mut answers = std::mem::take(&mut self.answers);
        while self.asker.has_replies() {
            for (token, reply) in self.asker.take_replies() {
                let asked = self.asked.remove(&token).expect("who is not waited for any more is not replied to");
                answers.extend(self.take(asked, reply, now));
            }
        }
        answers
    }

    fn take(&mut self, asked: Asked, reply: QueueReply, now: TimeMs) -> Option<QueueAnswer> {
        match asked {
            Asked::Send(ticket) => Some(sent(ticket, reply)),
            Asked::Find(key, filter) => Some(QueueAnswer::Found(key, filter, found(reply))),
            Asked::Receive { receiver, asked_at } => {
                self.waiting -= 1;
                self.received(receiver, asked_at, reply, now)
            }
            Asked::Extend(receiver) => {
                if let (Some(receiver), Err(_)) = (self.receivers.get_mut(&receiver), reply) {
                    receiver.extend_at = TimeMs(now.0 + receiver.lease_ms / 8);
                }
                None
            }
            Asked::Settle(settlement) => {
                if reply.is_err() {
                    self.untold.push((TimeMs(now.0 + AGAIN_MS), settlement));
                }
                None
            }
        }
    }

    fn received(&mut self, key: ReceiverKey, asked_at: TimeMs, reply: QueueReply, now: TimeMs) -> Option<QueueAnswer> {
        let receiver = self.receivers.get_mut(&key).expect("requests of receivers end with them");
        receiver.token = None;
        let messages = match reply {
            Ok(Answer::Received(messages)) => messages,
            // There is no such queue for now, or its shard does not serve, or has too much to do.
            Ok(_) | Err(_) => {
                receiver.again_at = Some(TimeMs(now.0 + AGAIN_MS));
                return None;
            }
        };
        if messages.is_empty() {
            // A shard that stops answers at once.
            let is_over = now.0 >= asked_at.0 + WAIT_MS_MAX / 2;
            receiver.again_at = Some(if is_over { now } else { TimeMs(now.0 + AGAIN_MS) });
            return None;
        }
        receiver.wanted = 0;
        // The time of the port is not that of the queue.
        let lease_ms = messages.iter().map(|received| received.lease_left_ms).min().expect("there is one");
        let extend_at = TimeMs(now.0 + lease_ms / 2);
        receiver.lease_ms = lease_ms.clamp(LEASE_MS_MIN, LEASE_MS_MAX);
        receiver.extend_at = if receiver.leases.is_empty() { extend_at } else { extend_at.min(receiver.extend_at) };
        let deliveries = messages.into_iter().map(|received| {
            self.handed_out += 1;
            receiver.leases.insert(self.handed_out, received.delivery.lease);
            delivery(self.handed_out, &received, now)
        });
        Some(QueueAnswer::HandedOut(key, deliveries.collect()))
    }

    /// Asks again for what could not be had, and extends leases. To be called at each tick.
    pub fn tick(&mut self, now: TimeMs) {
        let due = self.untold.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>();
        due.into_iter().for_each(|(_, settlement)| self.tell(settlement, now));
        let is_due = |receiver: &Receiver| {
            receiver.again_at.is_some_and(|at| at <= now) || !receiver.leases.is_empty() && receiver.extend_at <= now
        };
        let due: Vec<ReceiverKey> =
            self.receivers.iter().filter(|(_, receiver)| is_due(receiver)).map(|(key, _)| *key).collect();
        for key in due {
            self.extend(key, now);
            let receiver = self.receivers.get_mut(&key).expect("it was just looked at");
            if receiver.again_at.take_if(|at| *at <= now).is_some() {
                self.ask_for_messages(key, now);
            }
        }
    }

    fn extend(&mut self, key: ReceiverKey, now: TimeMs) {
        let receiver = self.receivers.get_mut(&key).expect("it was just looked at");
        if receiver.leases.is_empty() || receiver.extend_at > now {
            return;
        }
        let Receiver { queue, leases, lease_ms, .. } = receiver;
        let leases = leases.values().copied().collect();
        let call = Call::Extend { queue: queue.clone(), leases, lease_ms: *lease_ms };
        receiver.extend_at = TimeMs(now.0 + *lease_ms / 2);
        self.ask(Asked::Extend(key), QueueRequest::Call(call));
    }

    /// Sends what the shards are to be told.
    pub fn send_to_shards<P: Carries<QueueMessage>>(&mut self, context: &mut Context<'_, P>) {
        self.tell_acknowledged(context.now());
        self.asker.send(context);
    }

    fn tell_acknowledged(&mut self, now: TimeMs) {
        for (queue, leases) in std::mem::take(&mut self.acknowledged) {
            for leases in leases.chunks(BATCH_MESSAGES_MAX) {
                let settlement = Settlement { queue: queue.clone(), leases: leases.to_vec(), rejected: None };
                self.tell(settlement, now);
            }
        }
    }

    /// Whether nothing is under way. What no shard takes is not waited for.
    pub fn is_quiet(&self) -> bool {
        self.asked.is_empty() && self.acknowledged.is_empty() && self.asker.client().pending() == 0
    }

    /// Whether the broker has something to hear.
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty() || self.asker.has_replies()
    }
}

/// The queue of a filter.
fn queue_of(filter: &str) -> &str {
    filter.strip_prefix(QUEUE_OUT).expect("the broker asks for what begins so")
}

fn sent(ticket: RequestTicket, reply: QueueReply) -> QueueAnswer {
    match reply {
        Ok(Answer::Outcome(Outcome::Refused(refusal))) => {
            let code = problem(&refusal).code().name();
            QueueAnswer::Sent(ticket, Err(of_send(&refusal)), Some(code))
        }
        Ok(_) => QueueAnswer::Sent(ticket, Ok(()), None),
        Err(unavailable) => {
            let code = Problem::from(unavailable).code().name();
            QueueAnswer::Sent(ticket, Err(of_unavailable(unavailable)), Some(code))
        }
    }
}

fn found(reply: QueueReply) -> Result<(), QueueRefusal> {
    match reply {
        Ok(Answer::Queue(..)) => Ok(()),
        Ok(_) => Err(NO_QUEUE_TO_RECEIVE),
        Err(unavailable) if of_unavailable(unavailable) == BUSY => Err(BUSY),
        Err(_) => Err(NOT_NOW),
    }
}

fn delivery(number: u64, received: &Received, now: TimeMs) -> QueueDelivery {
    QueueDelivery {
        number,
        properties: properties_of(received),
        payload: received.message.body.clone(),
        expires_at: received.expires_in_ms.map(|ms| TimeMs(now.0.saturating_add(ms))),
    }
}

#[cfg(test)]
mod tests;

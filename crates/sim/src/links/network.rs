//! The network between nodes: it loses requests and answers, brings some late or twice, and is cut in two for a while.
//!
//! ```text
//!   link ─ exchange ─▶ Packet ─▶ lost │ late │ twice ─▶ process of the other node ─▶ answer ─▶ lost │ link
//! ```
//!
//! A connection is of one process: what is under way when that ends is lost. Whoever waits for what is lost learns that
//! the connection is over, and not whether the request was served.

use std::cell::RefCell;
use std::rc::Rc;

use prost::Message as _;
use tidegate_client::{ClientError, ServerError};
use tidegate_link::{Exchange, Transport};
use tidegate_machines::{IdSpace, TimeMs};
use tidegate_queue::machine::{Message, Outcome, Receipt, Refusal, When};
use tidegate_queue::{Answer, Call, QueueReply, QueueRequest};
use tidegate_wire::queue as wire;
use tokio::sync::oneshot;

use super::node::{Asker, Process};
use crate::chance::Chance;
use crate::harness::Tally;
use crate::note;
use crate::trace::Trace;

/// Ticks that a request takes at most, if it is not late.
const TICKS_MAX: u64 = 3;
/// Ticks by which one may be late.
const LATE_TICKS_MAX: u64 = 60;
/// Ticks for which the network is cut.
const CUT_TICKS_MAX: u64 = 150;

type Answered = Result<Vec<u8>, ClientError>;

/// A request over the network, while the process that has it works on it.
pub struct Waiting {
    /// `None` if whoever asked has given up.
    answer: Option<oneshot::Sender<Answered>>,
}

struct Packet {
    at: u64,
    to: usize,
    /// Of which start of the other process the connection is.
    start: u64,
    request: Vec<u8>,
    answer: Option<oneshot::Sender<Answered>>,
}

/// The network.
pub struct Network {
    nodes: Vec<Rc<RefCell<Process>>>,
    chance: Chance,
    trace: Trace,
    /// What happened, counted.
    pub tally: Tally,
    /// Nothing is lost any more.
    pub is_calm: bool,
    /// How often in a thousand requests something goes wrong with one.
    trouble: u64,
    /// How often in ten thousand ticks the way to a node is cut.
    cuts: u64,
    cut_until: Vec<u64>,
    tick: u64,
    packets: Vec<Packet>,
}

impl Network {
    /// A network between these processes.
    pub fn new(nodes: Vec<Rc<RefCell<Process>>>, mut chance: Chance, trace: Trace) -> Network {
        let mut some = |most: u64| if chance.happens(600) { chance.within(1..=most) } else { 0 };
        let (trouble, cuts) = (some(600), some(60));
        let cut_until = vec![0; nodes.len()];
        let (tally, packets) = (Tally::default(), Vec::new());
        Network { nodes, chance, trace, tally, is_calm: false, trouble, cuts, cut_until, tick: 0, packets }
    }

    fn is_reached(&self, to: usize) -> bool {
        self.cut_until[to] <= self.tick && self.nodes[to].borrow().is_up
    }

    fn send(&mut self, (to, start): (usize, u64), request: Vec<u8>, answer: oneshot::Sender<Answered>) {
        let mut packet =
            Packet { at: self.tick + self.chance.within(1..=TICKS_MAX), to, start, request, answer: Some(answer) };
        if self.is_calm || !self.chance.happens(self.trouble) {
            return self.packets.push(packet);
        }
        match self.chance.below(4) {
            0 => self.tally.add("a request that was lost", 1),
            1 => {
                self.tally.add("an answer that was lost", 1);
                packet.answer = None;
                self.packets.push(packet);
            }
            2 => {
                self.tally.add("a request that came late", 1);
                packet.answer = None;
                packet.at += self.chance.within(1..=LATE_TICKS_MAX);
                self.packets.push(packet);
            }
            _ => {
                self.tally.add("a request that came twice", 1);
                let at = packet.at + self.chance.within(0..=LATE_TICKS_MAX);
                let request = packet.request.clone();
                self.packets.push(packet);
                self.packets.push(Packet { at, to, start, request, answer: None });
            }
        }
    }

    /// Lets a tick pass: requests arrive, and answers leave.
    pub fn step(&mut self) {
        self.tick += 1;
        for to in 0..self.nodes.len() {
            if self.is_calm {
                self.cut_until[to] = 0;
            } else if self.chance.below(10_000) < self.cuts {
                self.cut_until[to] = self.tick + self.chance.within(1..=CUT_TICKS_MAX);
                self.tally.add("a cut of the network", 1);
                note!(self.trace, "node {to} is cut off until tick {}", self.cut_until[to]);
            }
        }
        for process in &self.nodes {
            for (waiting, reply) in std::mem::take(&mut process.borrow_mut().answered) {
                let Some(answer) = waiting.answer else { continue };
                // The link may have gone.
                drop(answer.send(answer_of(reply)));
            }
        }
        let tick = self.tick;
        let due: Vec<Packet> = self.packets.extract_if(.., |packet| packet.at <= tick).collect();
        for Packet { to, start, request, answer, .. } in due {
            if !self.is_reached(to) || self.nodes[to].borrow().starts != start {
                self.tally.add("a request to nobody", 1);
                continue;
            }
            note!(self.trace, "node {to} gets {} bytes", request.len());
            let request = QueueRequest::Call(call_of(&request)).in_space(&IdSpace::default(), |_| true);
            self.nodes[to].borrow_mut().ask(request, Asker::Network(Waiting { answer }));
        }
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.packets.is_empty()
    }
}

fn call_of(request: &[u8]) -> Call {
    let request = wire::QueueRequest::decode(request).expect("a link asks well").request;
    let Some(wire::queue_request::Request::Send(wire::Send { queue, messages })) = request else {
        unreachable!("links only send: {request:?}")
    };
    let text = |text: String| (!text.is_empty()).then(|| text.into_boxed_str());
    let time = |at: u64| (at > 0).then_some(When::At(TimeMs(at)));
    let message = |message: wire::Message| Message {
        id: text(message.id),
        ordering_key: text(message.ordering_key),
        priority: message.priority.expect("a link names it") as u8,
        visible_at: time(message.deliver_at_ms),
        expires_at: time(message.expires_at_ms),
        via: text(message.via),
        origin_id: None,
        attributes: message.attributes.into(),
        body: message.body.into(),
    };
    Call::Send { queue: queue.into(), messages: messages.into_iter().map(|sent| message(sent).into()).collect() }
}

fn answer_of(reply: QueueReply) -> Answered {
    let error = |code: &str, detail: String| {
        Err(ClientError::Server(ServerError { code: code.to_owned(), detail, retry_after: None }))
    };
    match reply {
        Ok(Answer::Outcome(Outcome::Sent(receipts))) => {
            let receipt = |receipt: &Receipt| wire::Receipt {
                key: receipt.key.bits().to_be_bytes().into(),
                duplicate: receipt.is_duplicate,
            };
            let sent = wire::Sent { receipts: receipts.iter().map(receipt).collect() };
            Ok(wire::QueueReply { reply: Some(wire::queue_reply::Reply::Sent(sent)) }.encode_to_vec())
        }
        Ok(Answer::Outcome(Outcome::Refused(refusal))) => {
            let code = match refusal {
                Refusal::Full(..) => "queue_full",
                Refusal::MessageInvalid { .. } => "message_invalid",
                Refusal::BatchTooLarge => "messages_too_many",
                _ => "queue_not_found",
            };
            error(code, refusal.to_string())
        }
        Ok(other) => unreachable!("a send is answered with receipts: {other:?}"),
        Err(unavailable) => error("busy", format!("{unavailable:?}")),
    }
}

/// The way to a node.
pub struct Way {
    /// The network.
    pub network: Rc<RefCell<Network>>,
    /// The node.
    pub to: usize,
}

/// A connection to a node.
pub struct Connected {
    network: Rc<RefCell<Network>>,
    to: usize,
    start: u64,
}

impl Transport for Way {
    type Exchange = Connected;

    async fn connect(&self) -> Result<Connected, ClientError> {
        let network = self.network.borrow();
        if !network.is_reached(self.to) {
            return Err(ClientError::Closed { in_flight: 0 });
        }
        let start = network.nodes[self.to].borrow().starts;
        Ok(Connected { network: self.network.clone(), to: self.to, start })
    }
}

impl Exchange for Connected {
    async fn exchange(&mut self, request: Vec<u8>) -> Answered {
        let (sender, answer) = oneshot::channel();
        self.network.borrow_mut().send((self.to, self.start), request, sender);
        answer.await.unwrap_or(Err(ClientError::Closed { in_flight: 1 }))
    }
}

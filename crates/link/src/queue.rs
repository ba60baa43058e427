//! What links ask of queues, and how it reaches their shards: over the rings of a node, or as a simulation has it.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_queue::machine::limits::REASON_BYTES_MAX;
use tidegate_queue::machine::{Lease, LeaseRefusal, Message, Outcome, Readiness, Refusal, Rejection, shortened};
use tidegate_queue::{Answer, Call, CallerRequest, QueueClient, QueueReply, QueueRequest, Read, Receive, Received};
use tidegate_runtime::pump::{EdgeHandle, ReplyStream};
use tidegate_shard::Unavailable;

use crate::target::LinkSettings;

/// How long to wait for messages before it is asked again.
const WAIT_MS: u64 = 10_000;

/// What comes when it is there.
pub type Coming<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The way to the shards of queues.
pub trait Shards {
    /// Asks, and waits for the answer.
    fn ask(&self, request: CallerRequest) -> Coming<'static, QueueReply>;

    /// Asks for messages; `None` if nothing can be asked now. Dropping what is returned gives back what it would get.
    fn open(&self, request: CallerRequest) -> Option<Box<dyn Replies>>;
}

/// The answers to one request, of which there may be none.
pub trait Replies {
    /// The next one; `None` if there is none any more, because the process stops.
    fn next(&mut self) -> Coming<'_, Option<QueueReply>>;
}

impl Shards for EdgeHandle<QueueClient> {
    fn ask(&self, request: CallerRequest) -> Coming<'static, QueueReply> {
        let reply = EdgeHandle::ask(self, request);
        Box::pin(async move { reply.await.map_err(Unavailable::from).and_then(|reply| reply) })
    }

    fn open(&self, request: CallerRequest) -> Option<Box<dyn Replies>> {
        Some(Box::new(EdgeHandle::open(self, request, 1).ok()?))
    }
}

impl Replies for ReplyStream<QueueClient> {
    fn next(&mut self) -> Coming<'_, Option<QueueReply>> {
        Box::pin(ReplyStream::next(self))
    }
}

/// Asks the shards of queues. Cheap to clone.
#[derive(Clone)]
pub struct Queue(Rc<dyn Shards>);

/// A receiver that waits. Dropping it gives back what it would get.
pub struct Receiving(Option<Box<dyn Replies>>);

impl Queue {
    /// Asks these.
    pub fn new(shards: Rc<dyn Shards>) -> Queue {
        Queue(shards)
    }

    /// Asks for messages.
    pub fn receive(&self, link: &LinkSettings, max: usize) -> Receiving {
        let receive = Receive {
            queue: link.from.clone(),
            max,
            lease_ms: Some(link.lease_ms),
            consumer: link.consumer(),
            wait_ms: WAIT_MS,
        };
        Receiving(self.0.open(QueueRequest::Receive(receive).into()))
    }

    /// Says that these were handed to `to`, each under a reference.
    pub async fn hand(&self, queue: Box<str>, to: Box<str>, messages: Vec<(Lease, Box<str>)>) -> Result<(), String> {
        self.call(Call::Hand { queue, to, messages }).await.map(drop)
    }

    /// Puts messages into another queue of this server. What became of each.
    pub async fn route(
        &self,
        (from, to): (Box<str>, Box<str>),
        by: Box<str>,
        messages: Vec<(Lease, Arc<Message>)>,
    ) -> Result<Vec<Result<(), LeaseRefusal>>, String> {
        match self.call(Call::Route { from, to, by, messages }).await? {
            Outcome::Leases(outcomes) => Ok(outcomes),
            other => unreachable!("each lease has an outcome: {other:?}"),
        }
    }

    /// Whether a queue takes messages of others, and whether somebody receives from it. `None` if there is none.
    pub async fn readiness(&self, queue: Box<str>) -> Result<Option<(Readiness, bool)>, String> {
        match self.answer(QueueRequest::Call(Call::Read(Read::Readiness(queue)))).await? {
            Answer::Readiness(readiness, is_received) => Ok(Some((readiness, is_received))),
            Answer::Outcome(Outcome::Refused(Refusal::QueueNotFound(_))) => Ok(None),
            Answer::Outcome(Outcome::Refused(refusal)) => Err(refusal.to_string()),
            other => unreachable!("readiness was asked: {other:?}"),
        }
    }

    /// Gives messages back.
    pub async fn reject(&self, queue: Box<str>, leases: Vec<Lease>, then: Rejection, why: &str) -> Result<(), String> {
        let reason = shortened(why, REASON_BYTES_MAX).into();
        self.call(Call::Reject { queue, leases, then, reason }).await.map(drop)
    }

    /// Lets leases last longer.
    pub async fn extend(&self, queue: Box<str>, leases: Vec<Lease>, lease_ms: u64) -> Result<(), String> {
        self.call(Call::Extend { queue, leases, lease_ms }).await.map(drop)
    }

    /// Writes into the trail of the message that was handed under `reference`. Whether there is one.
    pub async fn note(&self, queue: Box<str>, reference: Box<str>, text: &str) -> Result<bool, String> {
        let text = shortened(text, REASON_BYTES_MAX).into();
        match self.ask(QueueRequest::Call(Call::Note { queue, reference, text })).await {
            Ok(Outcome::Refused(Refusal::MessageNotFound)) => Ok(false),
            Ok(Outcome::Refused(refusal)) => Err(refusal.to_string()),
            Ok(_) => Ok(true),
            Err(why) => Err(why),
        }
    }

    /// Sends a message; it is durable when this is done.
    pub async fn send(&self, queue: Box<str>, message: Message) -> Result<(), String> {
        self.call(Call::Send { queue, messages: vec![Arc::new(message)] }).await.map(drop)
    }

    async fn call(&self, call: Call) -> Result<Outcome, String> {
        match self.ask(QueueRequest::Call(call)).await? {
            Outcome::Refused(refusal) => Err(refusal.to_string()),
            outcome => Ok(outcome),
        }
    }

    async fn ask(&self, request: QueueRequest) -> Result<Outcome, String> {
        match self.answer(request).await? {
            Answer::Outcome(outcome) => Ok(outcome),
            other => unreachable!("a command gets an outcome: {other:?}"),
        }
    }

    async fn answer(&self, request: QueueRequest) -> Result<Answer, String> {
        self.0.ask(request.into()).await.map_err(cannot_be_asked)
    }
}

impl Receiving {
    /// What came; empty if nothing did in time.
    pub async fn next(&mut self) -> Result<Vec<Received>, String> {
        let Some(stream) = &mut self.0 else { return Err("the queue cannot be asked now".to_owned()) };
        match stream.next().await {
            Some(Ok(Answer::Received(received))) => Ok(received),
            Some(Ok(Answer::Outcome(Outcome::Refused(refusal)))) => Err(refusal.to_string()),
            Some(Ok(other)) => unreachable!("who receives gets messages: {other:?}"),
            Some(Err(unavailable)) => Err(cannot_be_asked(unavailable)),
            // The process stops.
            None => Ok(Vec::new()),
        }
    }
}

fn cannot_be_asked(unavailable: Unavailable) -> String {
    format!("the queue cannot be asked now ({unavailable:?})")
}

//! What every door of the queues does alike: who may know of a queue, how a lease is written, how a receiver waits.

use std::time::Duration;

use axum::http::StatusCode;
use tidegate_queue::machine::limits::{CONSUMER_BYTES_MAX, OWNER_BYTES_MAX};
use tidegate_queue::machine::{Lease, MessageKey, Outcome, Refusal, shortened};
use tidegate_queue::{Answer, QueueClient, QueueRequest, Receive, Received};

use crate::RoomClient;
use crate::auth::{Identity, QueueAction};
use crate::http::Silence;
use crate::json::{Problem, ProblemCode};

/// The longest that a receiver waits.
pub const WAIT_MS_MAX: u64 = 20_000;

/// As many receivers wait as may.
pub const RECEIVERS_FULL: ProblemCode = ProblemCode::new(StatusCode::SERVICE_UNAVAILABLE, "receivers_full");
/// The same, of one caller.
pub const RECEIVERS_TOO_MANY: ProblemCode = ProblemCode::new(StatusCode::TOO_MANY_REQUESTS, "receivers_too_many");
/// When a receiver that finds no place asks again: others wait for some seconds.
pub const RECEIVERS_RETRY_AFTER_S: u32 = 1;

/// What handlers share.
pub type Served = RoomClient<QueueClient>;

/// Whether they may do anything with a queue.
pub fn may_know(caller: &Identity, queue: &str) -> bool {
    let actions = [QueueAction::Send, QueueAction::Receive, QueueAction::Admin];
    actions.into_iter().any(|action| caller.rights().may_with_queue(action, queue))
}

/// A lease as receivers get it: the key of its message, a dot, and the how-manieth delivery it is.
pub fn lease_text(lease: &Lease) -> String {
    format!("{}.{}", lease.key, lease.attempt)
}

/// The lease that [`lease_text`] wrote so.
pub fn lease_of(text: &str) -> Option<Lease> {
    let (key, attempt) = text.split_once('.')?;
    let is_number = !attempt.is_empty() && attempt.bytes().all(|byte| byte.is_ascii_digit());
    let attempt = attempt.parse().ok().filter(|_| is_number)?;
    Some(Lease { key: key.parse::<MessageKey>().ok()?, attempt })
}

/// Who receives if they do not say: the name of a caller, or its beginning if it is longer than that of a consumer may
/// be.
pub fn consumer_of(caller: &Identity) -> Box<str> {
    shortened(caller.name(), CONSUMER_BYTES_MAX).into()
}

/// Whose share of a shard's bounds a queue or schedule takes that a caller makes. Names of which only the ends differ,
/// behind the longest that is kept, share one.
pub fn owner_of(caller: &Identity) -> Option<Box<str>> {
    let name = shortened(caller.name(), OWNER_BYTES_MAX);
    (!name.is_empty()).then(|| name.into())
}

/// Waits for messages. If this is given up, the shard is told, and keeps or gets back what it has. It is given up when
/// the client has closed its side of the connection.
pub async fn receive_from(
    served: &Served,
    caller: &Identity,
    receive: Receive,
    silence: &Silence,
) -> Result<Result<Vec<Received>, Refusal>, Problem> {
    let waits = receive.wait_ms > 0;
    let wait = Duration::from_millis(receive.wait_ms);
    let opened = served.client.open(caller.asks_queues(QueueRequest::Receive(receive)), 1);
    let mut stream = opened.map_err(|unasked| Problem::from(tidegate_shard::Unavailable::from(unasked)))?;
    // The shard answers when the wait is over; a request may take its own time besides.
    let answer = tokio::time::timeout(wait + served.door.limits().request_timeout, stream.next());
    let answer = tokio::select! {
        // Looked at first: a stream that is given up has nothing in it.
        biased;
        answer = answer => answer.ok().flatten(),
        () = silence.wait(), if waits => return Ok(Ok(Vec::new())),
    };
    match answer {
        Some(Ok(Answer::Received(messages))) => Ok(Ok(messages)),
        Some(Ok(Answer::Outcome(Outcome::Refused(refusal)))) => Ok(Err(refusal)),
        Some(Ok(other)) => unreachable!("who receives gets messages: {other:?}"),
        Some(Err(unavailable)) => Err(unavailable.into()),
        None => served.door.in_time(std::future::pending()).await,
    }
}

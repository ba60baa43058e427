//! Receiving messages, and what becomes of them.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_queue::machine::{Lease, LeaseRefusal, Outcome, Refusal, Rejection};
use tidegate_queue::{Answer, Call, Receive, Received};
use utoipa::ToSchema;

use super::messages::QueueContentBody;
use super::openapi::{QueueBodyProblems, QueuePath};
use super::{ARGUMENT_INVALID, Served, ask, check_right, problem};
use crate::auth::{Identity, QueueAction};
use crate::http::{PathName, Silence};
use crate::json::{Problem, UpTo, Whole, decode, json};
use crate::queue_calls::{WAIT_MS_MAX, consumer_of, lease_of, lease_text, receive_from};

/// What to receive.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueReceiveBody {
    /// At most so many messages, 1 to 1,000; 1 if absent.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1000, example = 10)]
    max: Option<UpTo<1_000>>,
    /// How long the lease lasts, 1 to 43,200,000 milliseconds; as the queue says if absent.
    #[schema(value_type = Option<u64>)]
    lease_ms: Option<Whole>,
    /// How long to wait if there is nothing, up to 20,000 milliseconds; 0 if absent.
    #[schema(value_type = Option<u32>, maximum = 20000)]
    wait_ms: Option<UpTo<WAIT_MS_MAX>>,
    /// Who receives, for the trail of the messages: at most 64 bytes; the name of the token's owner if absent.
    #[schema(example = "smpp-2")]
    consumer: Option<Box<str>>,
}

/// A message that was handed out.
#[derive(Serialize, ToSchema)]
pub struct QueueReceivedBody {
    /// Its key.
    #[schema(example = "01KB3V5X2M000000000000000G")]
    key: String,
    /// Names this delivery: send it back to acknowledge.
    #[schema(example = "01KB3V5X2M000000000000000G.1")]
    lease: String,
    /// When the lease ends, in milliseconds since 1970. Then another receiver gets the message.
    lease_until_ms: u64,
    /// When it was taken.
    sent_at_ms: u64,
    /// Deliveries so far, this one among them.
    attempts: u32,
    #[serde(flatten)]
    content: QueueContentBody,
}

/// Messages that were handed out; none if there were none.
#[derive(Serialize, ToSchema)]
pub struct QueueReceivedMessagesBody {
    messages: Vec<QueueReceivedBody>,
}

fn received(received: &Received) -> QueueReceivedBody {
    let key = received.delivery.lease.key;
    QueueReceivedBody {
        key: key.to_string(),
        lease: lease_text(&received.delivery.lease),
        lease_until_ms: received.delivery.until.0,
        sent_at_ms: key.at().0,
        attempts: received.attempts,
        content: QueueContentBody::from(&*received.message),
    }
}

/// Receive messages
///
/// Each is yours until its lease ends. Acknowledge it when you are done: otherwise it comes again. Who waits must keep
/// the connection open in both directions: who has closed its side gets no message.
#[utoipa::path(
    post,
    path = "/v1/queues/{name}/receive",
    tag = "queues",
    params(QueuePath),
    request_body = QueueReceiveBody,
    responses((status = 200, description = "Messages", body = QueueReceivedMessagesBody), QueueBodyProblems)
)]
pub(super) async fn receive_messages(
    State(served): State<Served>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    check_right(&caller, QueueAction::Receive, &name)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let QueueReceiveBody { max, lease_ms, wait_ms, consumer } = decode(&body)?;
    let wait_ms = wait_ms.map_or(0, |wait_ms| wait_ms.0);
    let queue = name.clone();
    let receive = Receive {
        queue: name,
        max: max.map_or(1, |max| max.0 as usize),
        lease_ms: lease_ms.map(|ms| ms.0),
        consumer: consumer.unwrap_or_else(|| consumer_of(&caller)),
        wait_ms,
    };
    let silence = head.extensions.get::<Arc<Silence>>().cloned().unwrap_or_default();
    let may_still = || {
        let now = served.door.caller_now(&head.headers);
        now.is_ok_and(|now| now.rights().may_with_queue(QueueAction::Receive, &queue))
    };
    let messages = receive_from(&served, &caller, receive, &silence, may_still).await?;
    let messages = messages.map_err(|refusal| problem(&refusal))?;
    let messages = messages.iter().map(received).collect();
    Ok(json(StatusCode::OK, &QueueReceivedMessagesBody { messages }))
}

/// Leases that a request is about.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueAcknowledgeBody {
    /// 1 to 1,000, as they were received.
    #[schema(min_items = 1, max_items = 1000, example = json!(["01KB3V5X2M000000000000000G.1"]))]
    leases: Vec<Box<str>>,
}

/// Leases, and how long they are to last.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueExtendBody {
    /// 1 to 1,000, as they were received.
    #[schema(min_items = 1, max_items = 1000, example = json!(["01KB3V5X2M000000000000000G.1"]))]
    leases: Vec<Box<str>>,
    /// So long from now, 1 to 43,200,000 milliseconds.
    #[schema(value_type = u64, minimum = 1, example = 60000)]
    lease_ms: Whole,
}

/// Leases, and why their messages are given back.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueRejectBody {
    /// 1 to 1,000, as they were received.
    #[schema(min_items = 1, max_items = 1000, example = json!(["01KB3V5X2M000000000000000G.1"]))]
    leases: Vec<Box<str>>,
    /// Why, for the trail: at most 256 bytes.
    #[serde(default)]
    #[schema(required = false, value_type = String, example = "no route")]
    reason: Box<str>,
    /// When they are handed out again, in milliseconds from now; as the queue says if absent.
    #[schema(value_type = Option<u64>)]
    delay_ms: Option<Whole>,
    /// Whether they go to the dead letter queue at once.
    #[serde(default)]
    #[schema(required = false)]
    dead: bool,
}

/// What became of one lease.
#[derive(Serialize, ToSchema)]
pub struct QueueLeaseBody {
    /// The lease.
    #[schema(example = "01KB3V5X2M000000000000000G.1")]
    lease: Box<str>,
    /// `done`; `lost` if the lease had ended and another receiver has the message, or it was given back; `unknown` if
    /// the queue does not have the message any more.
    #[schema(example = "done")]
    outcome: &'static str,
}

/// What became of leases, in their order.
#[derive(Serialize, ToSchema)]
pub struct QueueLeasesBody {
    leases: Vec<QueueLeaseBody>,
}

fn leases_of(texts: &[Box<str>]) -> Result<Vec<Lease>, Problem> {
    let lease = |(index, text): (usize, &str)| {
        let detail = || format!("leases[{index}]: {text:?} is no lease; send it as it was received");
        lease_of(text).ok_or_else(|| Problem::new(ARGUMENT_INVALID, detail()))
    };
    texts.iter().map(|text| &**text).enumerate().map(lease).collect()
}

async fn done(served: &Served, caller: &Identity, texts: Vec<Box<str>>, call: Call) -> Result<Response<Body>, Problem> {
    let Answer::Outcome(Outcome::Leases(outcomes)) = ask(served, caller, call).await? else {
        unreachable!("leases are answered one by one")
    };
    let body = |(lease, outcome): (Box<str>, Result<(), LeaseRefusal>)| QueueLeaseBody {
        lease,
        outcome: match outcome {
            Ok(()) => "done",
            Err(LeaseRefusal::Lost | LeaseRefusal::NotNow) => "lost",
            Err(LeaseRefusal::Unknown) => "unknown",
        },
    };
    Ok(json(StatusCode::OK, &QueueLeasesBody { leases: texts.into_iter().zip(outcomes).map(body).collect() }))
}

/// Acknowledge messages: they are done with
#[utoipa::path(
    post,
    path = "/v1/queues/{name}/acknowledge",
    tag = "queues",
    params(QueuePath),
    request_body = QueueAcknowledgeBody,
    responses((status = 200, description = "What became of each", body = QueueLeasesBody), QueueBodyProblems)
)]
pub(super) async fn acknowledge_messages(
    State(served): State<Served>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    check_right(&caller, QueueAction::Receive, &name)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let QueueAcknowledgeBody { leases: texts } = decode(&body)?;
    let leases = leases_of(&texts)?;
    done(&served, &caller, texts, Call::Acknowledge { queue: name, leases }).await
}

/// Let leases last longer, or shorter
#[utoipa::path(
    post,
    path = "/v1/queues/{name}/extend",
    tag = "queues",
    params(QueuePath),
    request_body = QueueExtendBody,
    responses((status = 200, description = "What became of each", body = QueueLeasesBody), QueueBodyProblems)
)]
pub(super) async fn extend_leases(
    State(served): State<Served>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    check_right(&caller, QueueAction::Receive, &name)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let QueueExtendBody { leases: texts, lease_ms } = decode(&body)?;
    let leases = leases_of(&texts)?;
    done(&served, &caller, texts, Call::Extend { queue: name, leases, lease_ms: lease_ms.0 }).await
}

/// Give messages back
///
/// They are handed out again later, or go to the dead letter queue: if `dead` says so, or if they were delivered as
/// often as the queue allows.
#[utoipa::path(
    post,
    path = "/v1/queues/{name}/reject",
    tag = "queues",
    params(QueuePath),
    request_body = QueueRejectBody,
    responses((status = 200, description = "What became of each", body = QueueLeasesBody), QueueBodyProblems)
)]
pub(super) async fn reject_messages(
    State(served): State<Served>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    check_right(&caller, QueueAction::Receive, &name)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let QueueRejectBody { leases: texts, reason, delay_ms, dead } = decode(&body)?;
    let leases = leases_of(&texts)?;
    let then = if dead { Rejection::Dead } else { Rejection::Retry(delay_ms.map(|ms| ms.0)) };
    if dead && delay_ms.is_some() {
        let refusal = Refusal::ArgumentInvalid("expected dead or delay_ms, not both");
        return Err(problem(&refusal));
    }
    done(&served, &caller, texts, Call::Reject { queue: name, leases, then, reason }).await
}

//! Queues in the protocol of Amazon SQS: AWS JSON 1.0, signed with AWS Signature Version 4.
//!
//! ```text
//!   POST / ─▶ whose key? ─▶ whole body ─▶ signature ─▶ action ─▶ the same calls as the JSON door makes
//!             (signature.rs)                            queues.rs, send.rs, receive.rs, leases.rs
//! ```
//!
//! Promise: nothing of a body is looked at before its signature is good, and each answer is one that the SDKs of AWS
//! read, errors included. `docs/sqs.md` says what differs from SQS.
//!
//! Why no room of its own: the queues are one room with two ways to speak to it, and share its client.

mod arguments;
mod digest;
mod error;
mod leases;
mod message;
mod names;
mod noted;
mod queues;
mod receive;
mod send;
mod settings;
mod signature;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response, header};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_machines::TimeMs;
use tidegate_queue::machine::{Outcome, QueueView, Refusal};
use tidegate_queue::{Answer, Call, QueueRequest, Read};

use self::error::{AwsError, codes};
use crate::auth::{Identity, QueueAction};
use crate::http::{Act, OverTls, PeerAddress, SignedBy, Silence};
use crate::queue_calls::{Served, may_know};

/// Where requests go, whatever they ask.
pub const PATH: &str = "/";
/// The type of bodies in this protocol.
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";
/// What actions are written behind.
const TARGET_PREFIX: &str = "AmazonSQS.";

/// A request whose signature is good.
struct Asked<'a> {
    served: &'a Served,
    caller: Identity,
    address: IpAddr,
    /// The key that it is signed with.
    access_key: &'a str,
    /// What the client calls this server, and how it speaks to it.
    host: &'a str,
    over_tls: OverTls,
    body: &'a [u8],
    /// Whether the client has closed its side.
    silence: Arc<Silence>,
}

/// What an action comes to.
type Done<T = Value> = Result<T, AwsError>;

/// Answers a request.
pub async fn answer(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    Extension(over_tls): Extension<OverTls>,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let mut signed_by = None;
    let done = async {
        // Before the body: who knows no key has nothing read.
        let shown = signature::Shown::of(&head)?;
        let key = served.door.signing_key(shown.access_key()).ok_or_else(AwsError::key_unknown)?;
        let body = served.door.read_signed(&head.headers, body, CONTENT_TYPE, address).await?;
        shown.check(&head, &body, &key.secret, now())?;
        signed_by = Some(key.identity.clone());
        key.identity.arrive().map_err(crate::json::Problem::from)?;
        let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let silence = head.extensions.get::<Arc<Silence>>().cloned().unwrap_or_default();
        let (caller, access_key) = (key.identity, shown.access_key());
        let asked = Asked { served: &served, caller, address, access_key, host, over_tls, body: &body, silence };
        told(&asked, action(&head)?).await
    };
    let done = done.await;
    let mut answer = match done {
        Ok(value) => Response::new(Body::from(value.to_string())),
        Err(error) => match signed_by.is_none().then(|| served.door.count(&head.headers, address)) {
            Some(Err(problem)) => AwsError::from(problem).into_response(),
            _ => error.into_response(),
        },
    };
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    answer.headers_mut().insert("x-amzn-requestid", request_id());
    if let Some(caller) = signed_by {
        answer.extensions_mut().insert(SignedBy(caller));
    }
    answer
}

/// Names an answer, in the form of a UUID.
fn request_id() -> HeaderValue {
    static ANSWERS: AtomicU64 = AtomicU64::new(0);
    let number = ANSWERS.fetch_add(1, Ordering::Relaxed);
    let bits = u128::from(now().0) << 64 | u128::from(number);
    HeaderValue::from_str(&names::uuid(bits)).expect("a UUID is ASCII")
}

/// The time of this host.
fn now() -> TimeMs {
    tidegate_runtime::threads::now_ms()
}

/// What is asked for.
fn action(head: &Parts) -> Done<&str> {
    let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok()).unwrap_or_default();
    target.strip_prefix(TARGET_PREFIX).ok_or_else(|| {
        AwsError::new(codes::UNKNOWN_OPERATION, format!("X-Amz-Target: expected {TARGET_PREFIX}ACTION, not {target:?}"))
    })
}

/// Does it, and tells the operator log if it is about a queue as a whole.
async fn told(asked: &Asked<'_>, action: &str) -> Done {
    let done = act(asked, action).await;
    let act = match action {
        "CreateQueue" => "set queue",
        "SetQueueAttributes" | "TagQueue" | "UntagQueue" => "change queue",
        "DeleteQueue" => "delete queue",
        "PurgeQueue" => "purge queue",
        _ => return done,
    };
    // Without a queue, the request was not understood.
    if let Some(queue) = queues::named(asked) {
        let act = Act { caller: &asked.caller, address: asked.address, act, what: &queue };
        act.tell(done.as_ref().err().map_or("done", |error| error.code.name));
    }
    done
}

async fn act(asked: &Asked<'_>, action: &str) -> Done {
    match action {
        "CreateQueue" => queues::create(asked).await,
        "GetQueueUrl" => queues::url(asked).await,
        "ListQueues" => queues::list(asked).await,
        "ListDeadLetterSourceQueues" => queues::list_sources(asked).await,
        "GetQueueAttributes" => queues::attributes(asked).await,
        "SetQueueAttributes" => queues::set_attributes(asked).await,
        "DeleteQueue" => queues::delete(asked).await,
        "PurgeQueue" => queues::purge(asked).await,
        "TagQueue" => queues::tag(asked).await,
        "UntagQueue" => queues::untag(asked).await,
        "ListQueueTags" => queues::list_tags(asked).await,
        "SendMessage" => send::one(asked).await,
        "SendMessageBatch" => send::batch(asked).await,
        "ReceiveMessage" => receive::receive(asked).await,
        "DeleteMessage" => leases::delete(asked).await,
        "DeleteMessageBatch" => leases::delete_batch(asked).await,
        "ChangeMessageVisibility" => leases::change(asked).await,
        "ChangeMessageVisibilityBatch" => leases::change_batch(asked).await,
        "AddPermission"
        | "RemovePermission"
        | "StartMessageMoveTask"
        | "CancelMessageMoveTask"
        | "ListMessageMoveTasks" => {
            Err(AwsError::new(codes::UNSUPPORTED_OPERATION, format!("{action} is not served here; see docs/sqs.md")))
        }
        _ => Err(AwsError::new(codes::UNKNOWN_OPERATION, format!("{action:?} is no action of SQS"))),
    }
}

impl Asked<'_> {
    /// The body as JSON. Fields that are not known are left out: SDKs may be newer than this server.
    fn body<T: DeserializeOwned>(&self) -> Done<T> {
        let body = if self.body.is_empty() { b"{}" } else { self.body };
        serde_json::from_slice(body).map_err(|error| AwsError::new(codes::SERIALIZATION, error.to_string()))
    }

    /// The URL of a queue, as the client would reach it.
    fn url_of(&self, queue: &str) -> String {
        names::url_of(if self.over_tls.0 { "https" } else { "http" }, self.host, queue)
    }

    /// Asks, and tells a refusal from what else is answered.
    async fn decide(&self, call: Call) -> Done<Result<Answer, Refusal>> {
        Ok(match self.served.ask(self.caller.asks_queues(QueueRequest::Call(call))).await? {
            Answer::Outcome(Outcome::Refused(refusal)) => Err(refusal),
            answer => Ok(answer),
        })
    }

    /// Asks, and gives the answer that is no refusal.
    async fn ask(&self, call: Call) -> Done<Answer> {
        self.decide(call).await?.map_err(|refusal| AwsError::from(&refusal))
    }

    /// A queue as it is.
    async fn look(&self, queue: &str) -> Done<QueueView> {
        match self.ask(Call::Read(Read::Queue(queue.into()))).await? {
            Answer::Queue(view, _) => Ok(*view),
            other => unreachable!("a queue is answered with a queue: {other:?}"),
        }
    }

    /// Whether the caller may do this with a queue.
    fn check_right(&self, action: QueueAction, queue: &str) -> Done<()> {
        match self.caller.rights().may_with_queue(action, queue) {
            true => Ok(()),
            false => Err(self.denied(match action {
                QueueAction::Send | QueueAction::Relay => "send",
                QueueAction::Receive => "receive",
                QueueAction::Admin => "admin",
            })),
        }
    }

    /// Whether the caller may do anything with a queue.
    fn check_known(&self, queue: &str) -> Done<()> {
        if may_know(&self.caller, queue) { Ok(()) } else { Err(self.denied("admin")) }
    }

    fn denied(&self, verb: &str) -> AwsError {
        self.caller.denied();
        let detail =
            format!("the service of this key may not do this with this queue; the grant \"{verb}:QUEUE\" is missing");
        AwsError::new(codes::ACCESS_DENIED, detail)
    }
}

#[cfg(test)]
mod tests;

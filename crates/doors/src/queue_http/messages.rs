//! Messages: sending them, finding them, and changing those that nobody has.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use tidegate_machines::{IdSpace, TimeMs};
use tidegate_queue::machine::limits::PRIORITY_DEFAULT;
use tidegate_queue::machine::{Message, MessageKey, MessageState, Outcome, Receipt, Refusal, When, id_in_space};
use tidegate_queue::{Answer, Call, Found, Read, StepKind, Trail, ids_in_space, ids_of_all_kinds};
use utoipa::ToSchema;

use super::openapi::{MessagePath, QueueBodyProblems, QueuePath, QueueProblems, SenderIdPath};
use super::{
    ARGUMENT_INVALID, MESSAGE_INVALID, MESSAGE_NOT_FOUND, SCHEDULE_INVALID, Served, ask, check_right, may_know,
};
use crate::auth::{Identity, QueueAction};
use crate::http::{InQuery, PathName};
use crate::id_space_query::{IdSpaceQuery, named_id_space};
use crate::json::{Problem, UpTo, Whole, codes, decode, json};
use crate::queue_attributes::{
    QueueAttributeBody, QueueAttributes, given_attributes, read_attributes, write_attributes,
};

/// A message to be sent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueMessageSendBody {
    /// Its body, as text. Either this or `body_base64`.
    #[schema(example = "Your code is 4711")]
    body: Option<Box<str>>,
    /// Its body, as bytes in base64.
    body_base64: Option<Box<str>>,
    /// The sender's id: while the queue remembers it, a second message of one id is not taken, and its answer says
    /// `duplicate`. 1 to 128 bytes.
    #[schema(example = "order-17-code")]
    id: Option<Box<str>>,
    /// Messages of one key are handed out one after the other. 1 to 128 bytes.
    #[schema(example = "+49170123456")]
    ordering_key: Option<Box<str>>,
    /// 0 to 9: the highest goes first; 4 if absent.
    #[schema(value_type = Option<u8>, maximum = 9)]
    priority: Option<UpTo<255>>,
    /// Not handed out before so many milliseconds have passed. Either this or `deliver_at_ms`.
    #[schema(value_type = Option<u64>)]
    delay_ms: Option<Whole>,
    /// Not handed out before this time, in milliseconds since 1970.
    #[schema(value_type = Option<u64>)]
    deliver_at_ms: Option<Whole>,
    /// Dropped if nobody acknowledged it in so many milliseconds. Either this or `expires_at_ms`.
    #[schema(value_type = Option<u64>)]
    expires_in_ms: Option<Whole>,
    /// Dropped if nobody acknowledged it by this time, in milliseconds since 1970.
    #[schema(value_type = Option<u64>)]
    expires_at_ms: Option<Whole>,
    /// Through which queues links or walks have brought it, as a message that was received says it: a queue does not
    /// take what has come through it. `NODE/QUEUE` for each, with spaces between; at most 1,000 bytes.
    #[schema(example = "4711/in 812/router")]
    via: Option<Box<str>>,
    /// What its first sender called it, where a walk brings it under the key that it got there, as its `id`: while the
    /// queue remembers them, a second message of either is not taken. Needs `relay:QUEUE`, as that key does.
    #[schema(example = "order-17-code", min_length = 1, max_length = 128)]
    origin_id: Option<Box<str>>,
    /// In which id space that was chosen, if not in the common one.
    #[schema(min_length = 1, max_length = 64)]
    origin_id_space: Option<Box<str>>,
    /// What else the receiver is to know, by name: texts, or values with a type. At most 64.
    #[serde(default, deserialize_with = "given_attributes")]
    #[schema(required = false, value_type = BTreeMap<String, QueueAttributeBody>)]
    attributes: QueueAttributes,
}

/// Messages to be sent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueMessagesSendBody {
    /// 1 to 1,000, of together at most 1,000,000 bytes. All of them are taken, or none.
    #[schema(min_items = 1, max_items = 1000)]
    messages: Vec<QueueMessageSendBody>,
}

/// What became of a message that was sent.
#[derive(Serialize, ToSchema)]
pub struct QueueReceiptBody {
    /// Its key: with it, it can be found.
    #[schema(example = "01KB3V5X2M000000000000000G")]
    key: String,
    /// Whether a message of its id was taken before; then this is the key of that one, and this one was not taken.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    duplicate: bool,
}

/// What became of messages that were sent, in their order.
#[derive(Serialize, ToSchema)]
pub struct QueueReceiptsBody {
    messages: Vec<QueueReceiptBody>,
}

/// A body as text if it is text, otherwise in base64.
#[derive(Serialize, ToSchema)]
pub struct QueueContentBody {
    /// The body, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    body: Option<String>,
    /// The body in base64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    body_base64: Option<String>,
    /// The sender's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    id: Option<Box<str>>,
    /// In which id space it was chosen, if not in the common one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    id_space: Option<Box<str>>,
    /// Its ordering key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    ordering_key: Option<Box<str>>,
    /// Its level.
    priority: u8,
    /// Through which queues links have brought it: `NODE/QUEUE` for each, with spaces between, the first one first, and
    /// the queue on this node that took it last. The queue where it was sent first does not stand there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String, example = "4711/in 812/router")]
    via: Option<Box<str>>,
    /// What its first sender called it, where a walk has brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    origin_id: Option<Box<str>>,
    /// In which id space that was chosen, if not in the common one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    origin_id_space: Option<Box<str>>,
    /// What else its sender said.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false, value_type = BTreeMap<String, QueueAttributeBody>)]
    attributes: QueueAttributes,
}

impl From<&Message> for QueueContentBody {
    fn from(message: &Message) -> QueueContentBody {
        let (text, origin) = (std::str::from_utf8(&message.body).ok(), message.origin());
        QueueContentBody {
            body: text.map(Into::into),
            body_base64: text.is_none().then(|| BASE64.encode(&message.body)),
            id: message.sender_id().map(Into::into),
            id_space: message.id_space().map(Into::into),
            ordering_key: message.ordering_key.clone(),
            priority: message.priority,
            via: message.via.clone(),
            origin_id: origin.map(|(_, id)| id.into()),
            origin_id_space: origin.map(|(space, _)| space).filter(|space| !space.is_empty()).map(Into::into),
            attributes: read_attributes(&message.attributes),
        }
    }
}

/// One of two ways to say a thing, or neither.
fn one_of<A, B>(one: Option<A>, other: Option<B>, what: &str) -> Result<(Option<A>, Option<B>), Problem> {
    match (&one, &other) {
        (Some(_), Some(_)) => Err(Problem::new(MESSAGE_INVALID, format!("expected {what}, not both"))),
        _ => Ok((one, other)),
    }
}

/// A time that is given, or so far from when it is decided.
fn when_of(at: Option<Whole>, from_now: Option<Whole>) -> Option<When> {
    at.map(|at| When::At(TimeMs(at.0))).or(from_now.map(|ms| When::After(ms.0)))
}

impl QueueMessageSendBody {
    /// The message of a schedule, and after how long it is dropped.
    pub(super) fn into_standing(mut self) -> Result<(Message, Option<u64>), Problem> {
        let times = [&self.delay_ms, &self.deliver_at_ms, &self.expires_at_ms];
        let ids = [&self.id, &self.via, &self.origin_id, &self.origin_id_space];
        if ids.into_iter().any(Option::is_some) || times.into_iter().any(Option::is_some) {
            let what = "the message of a schedule has no id and no via, and of times only expires_in_ms: each that it \
                        sends is another one, at another time";
            return Err(Problem::new(SCHEDULE_INVALID, what));
        }
        let expires_in_ms = self.expires_in_ms.take().map(|ms| ms.0);
        Ok((self.into_message()?, expires_in_ms))
    }

    fn into_message(self) -> Result<Message, Problem> {
        let body = match one_of(self.body, self.body_base64, "body or body_base64")? {
            (Some(text), _) => text.into_boxed_bytes(),
            (None, Some(base64)) => BASE64
                .decode(&*base64)
                .map_err(|error| Problem::new(MESSAGE_INVALID, format!("body_base64: {error}")))?
                .into(),
            (None, None) => return Err(Problem::new(MESSAGE_INVALID, "a message has a body or a body_base64")),
        };
        let (delay_ms, deliver_at_ms) = one_of(self.delay_ms, self.deliver_at_ms, "delay_ms or deliver_at_ms")?;
        let (expires_in_ms, expires_at_ms) =
            one_of(self.expires_in_ms, self.expires_at_ms, "expires_in_ms or expires_at_ms")?;
        for (name, attribute) in &self.attributes {
            let wrong = |what| Problem::new(MESSAGE_INVALID, format!("attribute {name:?}: {what}"));
            attribute.check().map_err(wrong)?;
        }
        let space = IdSpace::new(self.origin_id_space.as_deref().unwrap_or_default()).ok_or_else(|| {
            Problem::new(
                MESSAGE_INVALID,
                "origin_id_space: expected the name of a user or id space, of at most 64 bytes",
            )
        })?;
        if self.origin_id.is_none() && self.origin_id_space.is_some() {
            return Err(Problem::new(MESSAGE_INVALID, "origin_id_space is that of origin_id, which is not there"));
        }
        let origin_id = self.origin_id.map(|id| Box::from(&*id_in_space(&id, &space, || false)));
        Ok(Message {
            id: self.id,
            ordering_key: self.ordering_key,
            priority: self.priority.map_or(PRIORITY_DEFAULT, |priority| priority.0 as u8),
            visible_at: when_of(deliver_at_ms, delay_ms),
            expires_at: when_of(expires_at_ms, expires_in_ms),
            via: self.via,
            origin_id,
            attributes: write_attributes(&self.attributes),
            body,
        })
    }
}

/// The time of this host.
pub(super) fn now() -> TimeMs {
    tidegate_runtime::threads::now_ms()
}

/// Send messages
///
/// They are durable when this is answered. If no answer comes, send them again with the same ids.
#[utoipa::path(
    post,
    path = "/v1/queues/{name}/messages",
    tag = "queues",
    params(QueuePath),
    request_body = QueueMessagesSendBody,
    responses((status = 200, description = "Their keys", body = QueueReceiptsBody), QueueBodyProblems)
)]
pub(super) async fn send_messages(
    State(served): State<Served>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    check_right(&caller, QueueAction::Send, &name)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let QueueMessagesSendBody { messages } = decode(&body)?;
    // Each message counts as a request.
    caller.charge(messages.len().saturating_sub(1) as u32);
    let message = |(index, message): (usize, QueueMessageSendBody)| {
        message.into_message().map(Arc::new).map_err(|problem| problem.with("message", index))
    };
    let messages = messages.into_iter().enumerate().map(message).collect::<Result<Vec<_>, _>>()?;
    let Answer::Outcome(Outcome::Sent(receipts)) = ask(&served, &caller, Call::Send { queue: name, messages }).await?
    else {
        unreachable!("a send is answered with keys")
    };
    let receipt = |receipt: Receipt| QueueReceiptBody { key: receipt.key.to_string(), duplicate: receipt.is_duplicate };
    Ok(json(StatusCode::OK, &QueueReceiptsBody { messages: receipts.into_iter().map(receipt).collect() }))
}

/// Where a message is.
#[derive(Serialize, ToSchema)]
pub struct QueueMessageBody {
    /// Its key.
    #[schema(example = "01KB3V5X2M000000000000000G")]
    key: String,
    /// The node that took it.
    node: u16,
    /// The restart of that node after which it took it.
    restart: u16,
    /// Its number.
    number: u64,
    /// The queue that it is in, or was in last.
    #[schema(example = "sms-out")]
    queue: Box<str>,
    /// `scheduled`, `ready`, `held` (behind one of its ordering key), `leased`, `acknowledged`, `expired` or
    /// `cancelled`.
    #[schema(example = "leased")]
    state: &'static str,
    /// When it was taken.
    sent_at_ms: u64,
    /// When it is handed out, if it is scheduled; the end of its lease, if it is leased.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    until_ms: Option<u64>,
    /// When it is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    expires_at_ms: Option<u64>,
    /// Deliveries so far.
    attempts: u32,
    /// Bytes of its body and attributes.
    bytes: u32,
    /// What was sent; absent if it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = QueueContentBody)]
    message: Option<QueueContentBody>,
    /// What happened to it, oldest first; absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = Vec<QueueStepBody>)]
    trail: Option<Vec<QueueStepBody>>,
    /// Older steps are forgotten, or there were more than are shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    trail_is_cut: bool,
}

/// A step of a message.
#[derive(Default, Serialize, ToSchema)]
pub struct QueueStepBody {
    /// When.
    time_ms: u64,
    /// `sent`, `fired` (a schedule sent it), `leased`, `extended`, `rejected`, `returned` (given back; that delivery
    /// does not count), `dead`, `acknowledged`, `handed` (another system has it), `noted` (what that system said),
    /// `cancelled`, `expired`, `rescheduled`, `redriven`, `routed` (a route has put it into another queue) or `moved`
    /// (written again, to shorten the log).
    #[schema(example = "leased")]
    step: &'static str,
    /// The schedule that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    schedule: Option<Box<str>>,
    /// Who got it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    consumer: Option<Box<str>>,
    /// The system that it was handed to, or the queue that a route or a redrive has put it into.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    to: Option<Box<str>>,
    /// What that system calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    reference: Option<Box<str>>,
    /// What was noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    text: Option<Box<str>>,
    /// Why it was rejected or returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    reason: Option<Box<str>>,
    /// Until when it was leased or waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    until_ms: Option<u64>,
}

const fn state_name(state: MessageState) -> &'static str {
    match state {
        MessageState::Scheduled => "scheduled",
        MessageState::Ready => "ready",
        MessageState::Held => "held",
        MessageState::Leased => "leased",
        MessageState::Acknowledged => "acknowledged",
        MessageState::Expired => "expired",
        MessageState::Cancelled => "cancelled",
    }
}

fn steps_of(trail: Trail) -> Vec<QueueStepBody> {
    let step = |step: tidegate_queue::Step| {
        let named = |step: &'static str| QueueStepBody { step, ..QueueStepBody::default() };
        let until = |TimeMs(at)| Some(at);
        let body = match step.kind {
            StepKind::Sent => named("sent"),
            StepKind::Fired { schedule } => QueueStepBody { schedule: Some(schedule), ..named("fired") },
            StepKind::Leased { consumer, until: at } => {
                QueueStepBody { consumer: Some(consumer), until_ms: until(at), ..named("leased") }
            }
            StepKind::Extended { until: at } => QueueStepBody { until_ms: until(at), ..named("extended") },
            StepKind::Rejected { reason, again_at: Some(at) } => {
                QueueStepBody { reason: Some(reason), until_ms: until(at), ..named("rejected") }
            }
            StepKind::Rejected { reason, again_at: None } => QueueStepBody { reason: Some(reason), ..named("dead") },
            StepKind::Returned { reason, visible_at } => {
                QueueStepBody { reason: Some(reason), until_ms: until(visible_at), ..named("returned") }
            }
            StepKind::Acknowledged => named("acknowledged"),
            StepKind::Handed { to, reference } => {
                let reference = Some(reference).filter(|reference| !reference.is_empty());
                QueueStepBody { to: Some(to), reference, ..named("handed") }
            }
            StepKind::Noted { text } => QueueStepBody { text: Some(text), ..named("noted") },
            StepKind::Cancelled => named("cancelled"),
            StepKind::Rescheduled { visible_at } => {
                QueueStepBody { until_ms: until(visible_at), ..named("rescheduled") }
            }
            StepKind::Redriven { to } => QueueStepBody { to, ..named("redriven") },
            StepKind::Expired => named("expired"),
            StepKind::Routed { by, to } => QueueStepBody { consumer: Some(by), to: Some(to), ..named("routed") },
            StepKind::Moved => named("moved"),
        };
        QueueStepBody { time_ms: step.at.0, ..body }
    };
    trail.steps.into_iter().rev().map(step).collect()
}

impl QueueMessageBody {
    /// With its steps if they are wanted.
    pub fn new(found: Found, with_trail: bool) -> QueueMessageBody {
        let Found { view, message, trail } = found;
        QueueMessageBody {
            key: view.key.to_string(),
            node: view.key.node(),
            restart: view.key.restart(),
            number: view.key.number(),
            queue: view.queue,
            state: state_name(view.state),
            sent_at_ms: view.key.at().0,
            until_ms: view.until.map(|at| at.0),
            expires_at_ms: view.expires_at.map(|at| at.0),
            attempts: view.attempts,
            bytes: view.bytes,
            message: message.as_deref().map(QueueContentBody::from),
            trail_is_cut: trail.is_cut,
            trail: with_trail.then(|| steps_of(trail)),
        }
    }
}

fn key_of(text: &str) -> Result<MessageKey, Problem> {
    text.parse().map_err(|error: tidegate_queue::machine::NoKey| Problem::new(ARGUMENT_INVALID, error.to_string()))
}

/// The message that is asked for. Who may not know of it is told that there is none.
async fn only(served: &Served, caller: &Identity, read: Read) -> Result<Found, Problem> {
    let Answer::Message(found) = ask(served, caller, Call::Read(read)).await? else {
        unreachable!("a look at a message is answered with it")
    };
    seen_by(caller, *found).ok_or_else(not_found)
}

/// What they may know of a message: who manages its queue, receives from it or relays to it, all; who may only send to
/// it, what is of their own id space, as keys can be guessed. If it is gone, and with it all records that say under
/// which id it was sent, they learn that.
fn seen_by(caller: &Identity, found: Found) -> Option<Found> {
    let may = |action| caller.rights().may_with_queue(action, &found.view.queue);
    if [QueueAction::Receive, QueueAction::Admin, QueueAction::Relay].into_iter().any(may) {
        return Some(found);
    }
    match found.is_of(caller.id_space()) {
        _ if !may(QueueAction::Send) => None,
        Some(is_own) => is_own.then_some(found),
        None if found.view.state.is_finished() => {
            Some(Found { trail: Trail { is_cut: true, ..Trail::default() }, ..found })
        }
        None => None,
    }
}

fn not_found() -> Problem {
    Problem::new(MESSAGE_NOT_FOUND, Refusal::MessageNotFound.to_string())
}

/// What a caller may see of a message: its body is for those who look through its queue, or receive from it.
fn shown(caller: &Identity, found: Found) -> Response<Body> {
    let may = |action| caller.rights().may_with_queue(action, &found.view.queue);
    let message = found.message.clone().filter(|_| may(QueueAction::Admin) || may(QueueAction::Receive));
    json(StatusCode::OK, &QueueMessageBody::new(Found { message, ..found }, true))
}

/// Where is my message?
///
/// Whoever may only send to its queue is told of messages of their own id space. One without an id is of the common
/// space: all who may send and have no other can look at it, cancel it and schedule it anew.
///
/// What happened to it is remembered for some time after it is gone (`trail_ms` of its queue; of the last
/// 1,048,576 of a shard at most). Of messages that were purged, or whose queue was deleted, nothing is remembered.
#[utoipa::path(
    get,
    path = "/v1/messages/{key}",
    tag = "queues",
    params(MessagePath),
    responses((status = 200, description = "Where it is, and its trail", body = QueueMessageBody), QueueProblems)
)]
pub(super) async fn read_message(
    State(served): State<Served>,
    PathName(key): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    let found = only(&served, &caller, Read::Message(key_of(&key)?)).await?;
    Ok(shown(&caller, found))
}

/// The two names of a path, not looked at yet.
pub(super) type TwoNames = Result<Path<(Box<str>, Box<str>)>, PathRejection>;

/// Reads them.
pub(super) fn two_names(path: TwoNames) -> Result<(Box<str>, Box<str>), Problem> {
    let malformed = |_| Problem::new(codes::PATH_INVALID, "a name in the path is not percent-encoded UTF-8");
    path.map(|Path(names)| names).map_err(malformed)
}

/// Where is my message, by its sender's id?
///
/// Found as long as the queue remembers ids (`id_window_ms`, `ids_until_due`). With `id_space`, an id that was chosen
/// in that space. Without, an id of the caller's own space, or the key that the message has on another node, which a
/// link has given it here as its id; whoever may relay means the key first.
#[utoipa::path(
    get,
    path = "/v1/queues/{name}/ids/{id}",
    tag = "queues",
    params(QueuePath, SenderIdPath, IdSpaceQuery),
    responses((status = 200, description = "Where it is, and its trail", body = QueueMessageBody), QueueProblems)
)]
pub(super) async fn read_message_of_id(
    State(served): State<Served>,
    path: TwoNames,
    query: InQuery<IdSpaceQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    Ok(shown(&caller, of_id(&served, &caller, two_names(path)?, query).await?))
}

/// The message that has this id in a queue.
async fn of_id(
    served: &Served,
    caller: &Identity,
    (queue, id): (Box<str>, Box<str>),
    query: InQuery<IdSpaceQuery>,
) -> Result<Found, Problem> {
    if !may_know(caller, &queue) {
        check_right(caller, QueueAction::Send, &queue)?;
    }
    let ids = match named_id_space(query)? {
        Some(id_space) => ids_in_space(&id, &id_space),
        None => {
            let relays = caller.rights().may_with_queue(QueueAction::Relay, &queue);
            ids_of_all_kinds(&id, caller.id_space(), relays)
        }
    };
    only(served, caller, Read::ById { queue, ids }).await
}

/// Deliver a message that nobody has at another time, by its sender's id
#[utoipa::path(
    patch,
    path = "/v1/queues/{name}/ids/{id}",
    tag = "queues",
    params(QueuePath, SenderIdPath, IdSpaceQuery),
    request_body = QueueRescheduleBody,
    responses((status = 200, description = "Where it is", body = QueueMessageBody), QueueBodyProblems)
)]
pub(super) async fn reschedule_message_of_id(
    State(served): State<Served>,
    path: TwoNames,
    query: InQuery<IdSpaceQuery>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    let names = two_names(path)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let visible_at = rescheduled_to(&body)?;
    let found = of_id(&served, &caller, names, query).await?;
    reschedule(&served, &caller, found, visible_at).await
}

/// Take a message back that nobody has, by its sender's id
///
/// As long as the queue remembers the id, another message is not taken under it: to change the time, schedule it anew.
#[utoipa::path(
    delete,
    path = "/v1/queues/{name}/ids/{id}",
    tag = "queues",
    params(QueuePath, SenderIdPath, IdSpaceQuery),
    responses((status = 200, description = "It will not be delivered", body = QueueMessageBody), QueueProblems)
)]
pub(super) async fn cancel_message_of_id(
    State(served): State<Served>,
    path: TwoNames,
    query: InQuery<IdSpaceQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    let found = of_id(&served, &caller, two_names(path)?, query).await?;
    cancel(&served, &caller, found).await
}

/// When a message is to be delivered.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueRescheduleBody {
    /// So many milliseconds from now. Either this or `deliver_at_ms`.
    #[schema(value_type = Option<u64>, example = 60000)]
    delay_ms: Option<Whole>,
    /// At this time, in milliseconds since 1970.
    #[schema(value_type = Option<u64>)]
    deliver_at_ms: Option<Whole>,
}

/// Deliver a message that nobody has at another time
#[utoipa::path(
    patch,
    path = "/v1/messages/{key}",
    tag = "queues",
    params(MessagePath),
    request_body = QueueRescheduleBody,
    responses((status = 200, description = "Where it is", body = QueueMessageBody), QueueBodyProblems)
)]
pub(super) async fn reschedule_message(
    State(served): State<Served>,
    PathName(key): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    let key = key_of(&key)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let visible_at = rescheduled_to(&body)?;
    let found = only(&served, &caller, Read::Message(key)).await?;
    reschedule(&served, &caller, found, visible_at).await
}

fn rescheduled_to(body: &[u8]) -> Result<When, Problem> {
    let QueueRescheduleBody { delay_ms, deliver_at_ms } = decode(body)?;
    let (delay_ms, deliver_at_ms) = one_of(delay_ms, deliver_at_ms, "delay_ms or deliver_at_ms")?;
    when_of(deliver_at_ms, delay_ms).ok_or_else(|| Problem::new(ARGUMENT_INVALID, "expected delay_ms or deliver_at_ms"))
}

/// Who may send to the queue of a message that was found has it delivered at another time.
async fn reschedule(
    served: &Served,
    caller: &Identity,
    found: Found,
    visible_at: When,
) -> Result<Response<Body>, Problem> {
    check_right(caller, QueueAction::Send, &found.view.queue)?;
    let key = found.view.key;
    ask(served, caller, Call::Reschedule { key, visible_at }).await?;
    Ok(shown(caller, only(served, caller, Read::Message(key)).await?))
}

/// Take a message back that nobody has
#[utoipa::path(
    delete,
    path = "/v1/messages/{key}",
    tag = "queues",
    params(MessagePath),
    responses((status = 200, description = "It will not be delivered", body = QueueMessageBody), QueueProblems)
)]
pub(super) async fn cancel_message(
    State(served): State<Served>,
    PathName(key): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    let found = only(&served, &caller, Read::Message(key_of(&key)?)).await?;
    cancel(&served, &caller, found).await
}

/// Who may send to the queue of a message that was found takes it back.
async fn cancel(served: &Served, caller: &Identity, mut found: Found) -> Result<Response<Body>, Problem> {
    check_right(caller, QueueAction::Send, &found.view.queue)?;
    ask(served, caller, Call::Cancel { key: found.view.key }).await?;
    (found.view.state, found.view.until, found.message) = (MessageState::Cancelled, None, None);
    Ok(json(StatusCode::OK, &QueueMessageBody::new(found, false)))
}

//! One message, by its key or by what its sender called it: where it is, and changing it while nobody has it.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_machines::TimeMs;
use tidegate_queue::machine::{MessageKey, MessageState, Refusal, When};
use tidegate_queue::{Answer, Call, Found, Read, StepKind, Trail, ids_in_space, ids_of_all_kinds};
use utoipa::ToSchema;

use super::messages::{QueueContentBody, one_of, when_of};
use super::openapi::{MessagePath, QueueBodyProblems, QueuePath, QueueProblems, SenderIdPath};
use super::{ARGUMENT_INVALID, MESSAGE_NOT_FOUND, Served, ask, check_right, may_know};
use crate::auth::{Identity, QueueAction};
use crate::http::{InQuery, PathName};
use crate::id_space_query::{IdSpaceQuery, named_id_space};
use crate::json::{Problem, Whole, codes, decode, json};

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
    Ok(shown(&caller, of_id(&served, &caller, two_names(path)?, query).await?.0))
}

/// The message that has this id in a queue, and how the id may stand in records.
async fn of_id(
    served: &Served,
    caller: &Identity,
    (queue, id): (Box<str>, Box<str>),
    query: InQuery<IdSpaceQuery>,
) -> Result<(Found, Vec<Box<str>>), Problem> {
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
    let found = only(served, caller, Read::ById { queue, ids: ids.clone() }).await?;
    Ok((found, ids))
}

/// Deliver a message that nobody has at another time, by its sender's id
///
/// With `ids_until_due`, the id is remembered until that time, and for `id_window_ms` behind it.
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
/// With `ids_until_due`, that is `id_window_ms` from now.
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
    reschedule(&served, &caller, (found, Vec::new()), visible_at).await
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
    (found, ids): (Found, Vec<Box<str>>),
    visible_at: When,
) -> Result<Response<Body>, Problem> {
    check_right(caller, QueueAction::Send, &found.view.queue)?;
    let key = found.view.key;
    ask(served, caller, Call::Reschedule { key, visible_at, ids }).await?;
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
    cancel(&served, &caller, (found, Vec::new())).await
}

/// Who may send to the queue of a message that was found takes it back.
async fn cancel(
    served: &Served,
    caller: &Identity,
    (mut found, ids): (Found, Vec<Box<str>>),
) -> Result<Response<Body>, Problem> {
    check_right(caller, QueueAction::Send, &found.view.queue)?;
    ask(served, caller, Call::Cancel { key: found.view.key, ids }).await?;
    (found.view.state, found.view.until, found.message) = (MessageState::Cancelled, None, None);
    Ok(json(StatusCode::OK, &QueueMessageBody::new(found, false)))
}

//! Schedules of a queue: messages that it sends itself at certain times.
//!
//! Who manages the queue sets, reads and removes them: what a schedule sends comes for as long as it is there, whoever
//! has set it.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_queue::machine::{Standing, StandingSettings};
use tidegate_queue::{Answer, Call, Read};
use utoipa::ToSchema;

use super::look::{TwoNames, two_names};
use super::messages::{QueueContentBody, QueueMessageSendBody};
use super::page::Page;
use super::{Served, ask, check_right, owner_of};
use crate::auth::{Identity, QueueAction};
use crate::http::{InQuery, PathName, RoomBodyProblems, RoomProblems};
use crate::json::{Problem, decode, json};

/// When a schedule fires, and what it sends then.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSchedulePutBody {
    /// Minute, hour, day of the month, month, day of the week, as in cron: numbers, names, lists, ranges, steps.
    #[schema(example = "0 9 * * mon-fri")]
    cron: Box<str>,
    /// By whose clocks: a name of the IANA time zone database.
    #[schema(example = "Europe/Berlin")]
    zone: Box<str>,
    /// The message, as in a send, with at most 16,384 bytes. It has no id, and of times only `expires_in_ms`.
    message: QueueMessageSendBody,
}

/// A schedule.
#[derive(Serialize, ToSchema)]
pub struct QueueScheduleBody {
    /// Its name.
    #[schema(example = "morning")]
    name: Box<str>,
    /// The user or service that made it, and whose share of the server's schedules it takes; absent if that is not
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    owner: Option<Box<str>>,
    /// When it fires.
    #[schema(example = "0 9 * * mon-fri")]
    cron: Box<str>,
    /// By whose clocks.
    #[schema(example = "Europe/Berlin")]
    zone: Box<str>,
    /// When it fires next, in milliseconds since 1970; absent if what it says cannot be read any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    next_at_ms: Option<u64>,
    /// When it fired last; absent if it has not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    last_at_ms: Option<u64>,
    /// The key of the message that it sent then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String, example = "01KB3V5X2M000000000000000G")]
    last_key: Option<String>,
    /// After how long its messages are dropped that nobody acknowledged; absent if the queue says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    expires_in_ms: Option<u64>,
    /// What it sends.
    message: QueueContentBody,
}

impl QueueScheduleBody {
    fn new(name: Box<str>, standing: &Standing) -> QueueScheduleBody {
        let StandingSettings { cron, zone, expiry_ms, message, owner } = &standing.settings;
        QueueScheduleBody {
            name,
            owner: owner.clone(),
            cron: cron.clone(),
            zone: zone.clone(),
            next_at_ms: standing.next.map(|at| at.0),
            last_at_ms: standing.last.map(|key| key.at().0),
            last_key: standing.last.map(|key| key.to_string()),
            expires_in_ms: *expiry_ms,
            message: message.into(),
        }
    }
}

/// A page of schedules in the byte order of their names.
#[derive(Serialize, ToSchema)]
pub struct QueueSchedulesBody {
    schedules: Vec<QueueScheduleBody>,
    /// Send as `after` for the next page; absent after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    next: Option<Box<str>>,
}

/// A schedule that is gone.
#[derive(Serialize, ToSchema)]
pub struct QueueScheduleDeletedBody {
    /// Its name.
    name: Box<str>,
    /// `deleted`.
    #[schema(example = "deleted")]
    outcome: &'static str,
}

/// List the schedules of a queue
#[utoipa::path(
    get,
    path = "/v1/queues/{name}/schedules",
    tag = "queues",
    params(Page, ("name" = inline(String), Path, description = "Queue", example = "sms-out", min_length = 1)),
    responses((status = 200, description = "A page", body = QueueSchedulesBody), RoomProblems)
)]
pub(super) async fn list_schedules(
    State(served): State<Served>,
    PathName(queue): PathName,
    query: InQuery<Page>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    check_right(&caller, QueueAction::Admin, &queue)?;
    let (after, limit) = Page::of(query)?;
    let (rows, more) = schedules_of(&served, &caller, Read::Standings { queue, after, limit }).await?;
    let next = rows.last().filter(|_| more).map(|(name, _)| name.clone());
    let schedules = rows.into_iter().map(|(name, standing)| QueueScheduleBody::new(name, &standing)).collect();
    Ok(json(StatusCode::OK, &QueueSchedulesBody { schedules, next }))
}

type Rows = Vec<(Box<str>, std::sync::Arc<Standing>)>;

async fn schedules_of(served: &Served, caller: &Identity, read: Read) -> Result<(Rows, bool), Problem> {
    match ask(served, caller, Call::Read(read)).await? {
        Answer::Standings(rows, more) => Ok((rows, more)),
        other => unreachable!("schedules are answered with schedules: {other:?}"),
    }
}

/// The only schedule of a name.
async fn only(served: &Served, caller: &Identity, queue: Box<str>, name: Box<str>) -> Result<Response<Body>, Problem> {
    let (rows, _) = schedules_of(served, caller, Read::Standing { queue, name }).await?;
    let (name, standing) = rows.into_iter().next().expect("one that is not there is refused");
    Ok(json(StatusCode::OK, &QueueScheduleBody::new(name, &standing)))
}

/// Read a schedule
#[utoipa::path(
    get,
    path = "/v1/queues/{name}/schedules/{schedule}",
    tag = "queues",
    params(
        ("name" = inline(String), Path, description = "Queue", example = "sms-out", min_length = 1),
        ("schedule" = inline(String), Path, description = "Schedule", example = "morning", min_length = 1),
    ),
    responses((status = 200, description = "The schedule", body = QueueScheduleBody), RoomProblems)
)]
pub(super) async fn read_schedule(
    State(served): State<Served>,
    path: TwoNames,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let (queue, name) = two_names(path)?;
    let caller = served.door.caller(&headers)?;
    check_right(&caller, QueueAction::Admin, &queue)?;
    only(&served, &caller, queue, name).await
}

/// Make a schedule, or change it
///
/// At each of its times, the queue gets a message of its own. Times that pass while the server is down give one message
/// together, when it is back. A time that clocks leave out comes as much later; one that they show twice counts once,
/// unless the hours begin with `*`. A queue has no id for such a message, and its trail says which schedule sent it.
#[utoipa::path(
    put,
    path = "/v1/queues/{name}/schedules/{schedule}",
    tag = "queues",
    params(
        ("name" = inline(String), Path, description = "Queue", example = "sms-out", min_length = 1),
        ("schedule" = inline(String), Path, description = "Schedule", example = "morning", min_length = 1),
    ),
    request_body = QueueSchedulePutBody,
    responses((status = 200, description = "The schedule", body = QueueScheduleBody), RoomBodyProblems)
)]
pub(super) async fn put_schedule(
    State(served): State<Served>,
    path: TwoNames,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (queue, name) = two_names(path)?;
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    check_right(&caller, QueueAction::Admin, &queue)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let QueueSchedulePutBody { cron, zone, message } = decode(&body)?;
    let (message, expiry_ms) = message.into_standing()?;
    // One that is there keeps its owner.
    let settings = Box::new(StandingSettings { cron, zone, expiry_ms, message, owner: owner_of(&caller) });
    ask(&served, &caller, Call::SetStanding { queue: queue.clone(), name: name.clone(), settings }).await?;
    only(&served, &caller, queue, name).await
}

/// Remove a schedule
///
/// Messages that it has sent stay.
#[utoipa::path(
    delete,
    path = "/v1/queues/{name}/schedules/{schedule}",
    tag = "queues",
    params(
        ("name" = inline(String), Path, description = "Queue", example = "sms-out", min_length = 1),
        ("schedule" = inline(String), Path, description = "Schedule", example = "morning", min_length = 1),
    ),
    responses((status = 200, description = "It is gone", body = QueueScheduleDeletedBody), RoomProblems)
)]
pub(super) async fn delete_schedule(
    State(served): State<Served>,
    path: TwoNames,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let (queue, name) = two_names(path)?;
    let caller = served.door.caller(&headers)?;
    check_right(&caller, QueueAction::Admin, &queue)?;
    ask(&served, &caller, Call::RemoveStanding { queue, name: name.clone() }).await?;
    Ok(json(StatusCode::OK, &QueueScheduleDeletedBody { name, outcome: "deleted" }))
}

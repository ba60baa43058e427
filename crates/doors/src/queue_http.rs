//! Queues behind the HTTP door.
//!
//! ```text
//!   PUT  /v1/queues/{name}               settings        POST …/messages      send, many at once
//!   POST …/receive                       leases          POST …/acknowledge   …/extend  …/reject
//!   GET  /v1/messages/{key}              where it is, what happened to it;  /v1/messages: of a range of keys
//! ```
//!
//! Promise: a send that was answered is durable; a receiver that goes away while it waits gets nothing, and what was
//! handed out to it in that moment is given back at once.

mod browse;
mod leases;
mod look;
mod messages;
mod metrics;
mod openapi;
mod page;
mod queues;
mod schedules;

use std::sync::Arc;

use axum::http::StatusCode;
use axum::routing::{get, post};
use tidegate_queue::machine::{Limit, Outcome, Refusal};
use tidegate_queue::{Answer, Call, QueueClient, QueueRequest};
use tidegate_runtime::pump::EdgeHandle;
use utoipa::OpenApi;

use self::browse::Browsing;
pub use self::metrics::QueueHttpMetrics;
use crate::RoomClient;
use crate::auth::{Identity, QueueAction};
use crate::http::{Act, Door, HttpRoom, PeerAddress, Routes};
use crate::json::{Problem, ProblemCode};
use crate::queue_calls::{RECEIVERS_FULL, RECEIVERS_RETRY_AFTER_S, RECEIVERS_TOO_MANY, Served, may_know, owner_of};
use crate::sqs;

/// The queues at the door of one edge thread, before it opens.
pub struct QueueHttp {
    /// Asks their shards.
    pub client: EdgeHandle<QueueClient>,
    /// Shared by all edge threads.
    pub metrics: QueueHttpMetrics,
}

#[derive(OpenApi)]
#[openapi(
    info(description = "Queues hand out messages under leases until somebody acknowledges them. Who sends needs the \
                       grant `send:QUEUE` (links of other servers `relay:QUEUE`), who receives `receive:QUEUE`; \
                       making, changing, looking through, purging and deleting queues, and their schedules, needs \
                       `admin:QUEUE`. Times are milliseconds; those of the day since 1970."),
    paths(
        queues::list_queues,
        queues::read_queue,
        queues::put_queue,
        queues::patch_queue,
        queues::delete_queue,
        queues::purge_queue,
        queues::redrive_queue,
        schedules::list_schedules,
        schedules::read_schedule,
        schedules::put_schedule,
        schedules::delete_schedule,
        messages::send_messages,
        browse::list_messages,
        browse::list_all_messages,
        look::read_message,
        look::read_message_of_id,
        look::reschedule_message_of_id,
        look::cancel_message_of_id,
        look::reschedule_message,
        look::cancel_message,
        leases::receive_messages,
        leases::acknowledge_messages,
        leases::extend_leases,
        leases::reject_messages,
    )
)]
struct Document;

impl HttpRoom for QueueHttp {
    fn name(&self) -> &'static str {
        "queues"
    }

    fn openapi(&self) -> utoipa::openapi::OpenApi {
        Document::openapi()
    }

    fn codes(&self) -> Vec<ProblemCode> {
        CODES.into()
    }

    fn routes(self: Box<Self>, door: &Door) -> Routes {
        let QueueHttp { client, metrics } = *self;
        let served = RoomClient::new(door.clone(), client);
        // Viewers may not manage queues: no place is kept from them.
        let places = door.stream_places(door.limits().message_streams_max, 0, metrics.message_streams);
        let browsing = Browsing { served: served.clone(), places: Arc::new(places) };
        let queue = get(queues::read_queue)
            .put(queues::put_queue)
            .patch(queues::patch_queue)
            .delete(queues::delete_queue)
            .with_state(served.clone());
        let schedule = get(schedules::read_schedule)
            .put(schedules::put_schedule)
            .delete(schedules::delete_schedule)
            .with_state(served.clone());
        let of_queue = get(browse::list_messages)
            .with_state(browsing.clone())
            .merge(post(messages::send_messages).with_state(served.clone()));
        let message = get(look::read_message)
            .patch(look::reschedule_message)
            .delete(look::cancel_message)
            .with_state(served.clone());
        let of_id = get(look::read_message_of_id)
            .patch(look::reschedule_message_of_id)
            .delete(look::cancel_message_of_id)
            .with_state(served.clone());
        Routes::new()
            .route("/v1/queues", get(queues::list_queues).with_state(served.clone()))
            .route("/v1/queues/{name}", queue)
            .route("/v1/queues/{name}/messages", of_queue)
            .route("/v1/queues/{name}/ids/{id}", of_id)
            .route("/v1/queues/{name}/receive", post(leases::receive_messages).with_state(served.clone()))
            .route("/v1/queues/{name}/acknowledge", post(leases::acknowledge_messages).with_state(served.clone()))
            .route("/v1/queues/{name}/extend", post(leases::extend_leases).with_state(served.clone()))
            .route("/v1/queues/{name}/reject", post(leases::reject_messages).with_state(served.clone()))
            .route("/v1/queues/{name}/purge", post(queues::purge_queue).with_state(served.clone()))
            .route("/v1/queues/{name}/redrive", post(queues::redrive_queue).with_state(served.clone()))
            .route("/v1/queues/{name}/schedules", get(schedules::list_schedules).with_state(served.clone()))
            .route("/v1/queues/{name}/schedules/{schedule}", schedule)
            .route("/v1/messages", get(browse::list_all_messages).with_state(browsing))
            .route("/v1/messages/{key}", message)
            .beside(sqs::PATH, post(sqs::answer).with_state(served))
    }
}

const QUEUE_NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "queue_not_found");
const QUEUE_NAME_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "queue_name_invalid");
const SETTING_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "queue_setting_invalid");
const QUEUE_NOT_EMPTY: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "queue_not_empty");
const QUEUE_IN_USE: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "queue_in_use");
const QUEUES_GO_ROUND: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "queues_go_round");
const QUEUES_TOO_MANY: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "queues_too_many");
const QUEUES_OF_OWNER_TOO_MANY: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "queues_of_owner_too_many");
const QUEUES_APART: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "queues_on_two_shards");
const MESSAGE_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "message_invalid");
const BATCH_TOO_LARGE: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "messages_too_many");
const ARGUMENT_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "queue_request_invalid");
const QUEUE_FULL: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "queue_full");
const ORDERING_KEYS_FULL: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "ordering_keys_full");
const MESSAGE_NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "message_not_found");
const MESSAGE_LEASED: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "message_leased");

const QUEUE_HAS_SCHEDULES: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "queue_has_schedules");
const SCHEDULE_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "queue_schedule_invalid");
const SCHEDULE_NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "queue_schedule_not_found");
const SCHEDULES_TOO_MANY: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "queue_schedules_too_many");
const SCHEDULES_OF_OWNER_TOO_MANY: ProblemCode =
    ProblemCode::new(StatusCode::CONFLICT, "queue_schedules_of_owner_too_many");

const CODES: [ProblemCode; 23] = [
    QUEUE_NOT_FOUND,
    QUEUE_NAME_INVALID,
    SETTING_INVALID,
    QUEUE_NOT_EMPTY,
    QUEUE_IN_USE,
    QUEUES_GO_ROUND,
    QUEUES_TOO_MANY,
    QUEUES_OF_OWNER_TOO_MANY,
    QUEUES_APART,
    MESSAGE_INVALID,
    BATCH_TOO_LARGE,
    ARGUMENT_INVALID,
    QUEUE_FULL,
    ORDERING_KEYS_FULL,
    RECEIVERS_FULL,
    RECEIVERS_TOO_MANY,
    MESSAGE_NOT_FOUND,
    MESSAGE_LEASED,
    QUEUE_HAS_SCHEDULES,
    SCHEDULE_INVALID,
    SCHEDULE_NOT_FOUND,
    SCHEDULES_TOO_MANY,
    SCHEDULES_OF_OWNER_TOO_MANY,
];

pub(crate) fn problem(refusal: &Refusal) -> Problem {
    let code = match refusal {
        Refusal::QueueNotFound(_) => QUEUE_NOT_FOUND,
        Refusal::QueueNameInvalid => QUEUE_NAME_INVALID,
        Refusal::SettingInvalid(_) | Refusal::WindowInvalid(_) => SETTING_INVALID,
        Refusal::QueueNotEmpty => QUEUE_NOT_EMPTY,
        Refusal::QueueInUse(_) | Refusal::QueueOfRoute(_) => QUEUE_IN_USE,
        Refusal::GoesRound(_) => QUEUES_GO_ROUND,
        Refusal::TooManyQueues => QUEUES_TOO_MANY,
        Refusal::TooManyQueuesOfOwner => QUEUES_OF_OWNER_TOO_MANY,
        Refusal::OnTwoShards => QUEUES_APART,
        Refusal::MessageInvalid { .. } => MESSAGE_INVALID,
        Refusal::BatchTooLarge => BATCH_TOO_LARGE,
        Refusal::ArgumentInvalid(_) => ARGUMENT_INVALID,
        Refusal::Full(Limit::OrderingKeysOfQueue | Limit::OrderingKeysOfOwner | Limit::OrderingKeys, _) => {
            ORDERING_KEYS_FULL
        }
        Refusal::Full(..) => QUEUE_FULL,
        Refusal::TooManyReceivers => RECEIVERS_FULL,
        Refusal::TooManyReceiversOfCaller => RECEIVERS_TOO_MANY,
        Refusal::QueueHasSchedules => QUEUE_HAS_SCHEDULES,
        Refusal::ScheduleInvalid(_) => SCHEDULE_INVALID,
        Refusal::ScheduleNotFound => SCHEDULE_NOT_FOUND,
        Refusal::TooManySchedules => SCHEDULES_TOO_MANY,
        Refusal::TooManySchedulesOfOwner => SCHEDULES_OF_OWNER_TOO_MANY,
        Refusal::MessageNotFound => MESSAGE_NOT_FOUND,
        Refusal::MessageLeased => MESSAGE_LEASED,
    };
    let problem = Problem::new(code, refusal.to_string());
    match code {
        RECEIVERS_FULL | RECEIVERS_TOO_MANY => problem.retry_after_s(RECEIVERS_RETRY_AFTER_S),
        _ => problem,
    }
}

/// Asks, and gives the answer that is no refusal.
async fn ask(served: &Served, caller: &Identity, call: Call) -> Result<Answer, Problem> {
    match served.ask(caller.asks_queues(QueueRequest::Call(call))).await? {
        Answer::Outcome(Outcome::Refused(refusal)) => Err(problem(&refusal)),
        answer => Ok(answer),
    }
}

/// Why somebody may not manage a queue.
pub(crate) const MAY_NOT_MANAGE: &str =
    "this token may not manage this queue; a service may with the grant \"admin:QUEUE\"";

/// Whether `caller` may do this with a queue.
pub(crate) fn check_right(caller: &Identity, action: QueueAction, queue: &str) -> Result<(), Problem> {
    if caller.rights().may_with_queue(action, queue) {
        return Ok(());
    }
    caller.denied();
    Err(Problem::forbidden(match action {
        QueueAction::Send | QueueAction::Relay => {
            "this token may not send to this queue; a service may with the grant \"send:QUEUE\""
        }
        QueueAction::Receive => {
            "this token may not receive from this queue; a service may with the grant \"receive:QUEUE\""
        }
        QueueAction::Admin => MAY_NOT_MANAGE,
    }))
}

/// Something that is done with a queue, for the operator log, by somebody who may manage it.
fn managing<'a>(
    caller: &'a Identity,
    PeerAddress(address): PeerAddress,
    act: &'static str,
    queue: &'a str,
) -> Result<Act<'a>, Problem> {
    let act = Act { caller, address, act, what: queue };
    match caller.rights().may_with_queue(QueueAction::Admin, queue) {
        true => Ok(act),
        false => Err(act.forbidden(MAY_NOT_MANAGE)),
    }
}

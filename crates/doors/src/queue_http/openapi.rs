//! What the requests of queues have in common in the OpenAPI document: the names in their paths, and the problems that
//! they are answered with.

use utoipa::{IntoParams, IntoResponses};

use crate::http::{BodyProblems, Responses, RoomProblems};
use crate::json::ProblemBody;

/// The path of a queue.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code, reason = "describes a path")]
pub(super) struct QueuePath {
    /// Queue
    #[param(min_length = 1, example = "sms-out")]
    name: String,
}

/// The path of a message.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code, reason = "describes a path")]
pub(super) struct MessagePath {
    /// Key
    #[param(min_length = 1, example = "01KB3V5X2M000000000000000G")]
    key: String,
}

/// A message's id in a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code, reason = "describes a path")]
pub(super) struct SenderIdPath {
    /// The sender's id
    #[param(min_length = 1, example = "order-17-code")]
    id: String,
}

/// What queues say otherwise than other rooms.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
enum OwnProblems {
    /// There is no such queue or message, or not any more: `queue_not_found`, `message_not_found`
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(ProblemBody),
    /// Right by itself, and not with what there is: `queue_full`, `ordering_keys_full`, `queue_not_empty`,
    /// `queue_in_use`, `queues_go_round`, `message_leased` ...
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(ProblemBody),
    /// The caller asks more than it may, or has as many requests that wait for messages as it may
    /// (`receivers_too_many`); `Retry-After` says when to ask again
    #[response(status = 429, content_type = "application/problem+json")]
    TooMany(ProblemBody),
    /// Not now: `busy`, `receivers_full`, `disk_full`, `shard_failed`, `recovering`, `stopping`, `timed_out`
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(ProblemBody),
}

/// What a body that is too large is told.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
enum OwnBodyProblems {
    /// The body is too large for the server, or for a caller with bounds
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(ProblemBody),
}

/// All problems of a request without a body.
pub(super) struct QueueProblems;

/// All problems of a request with a body.
pub(super) struct QueueBodyProblems;

impl IntoResponses for QueueProblems {
    fn responses() -> Responses {
        [RoomProblems::responses(), OwnProblems::responses()].into_iter().flatten().collect()
    }
}

impl IntoResponses for QueueBodyProblems {
    fn responses() -> Responses {
        let all = [QueueProblems::responses(), BodyProblems::responses(), OwnBodyProblems::responses()];
        all.into_iter().flatten().collect()
    }
}

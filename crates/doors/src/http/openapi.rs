//! The OpenAPI document. It is made from the handlers and types that are served, so it cannot differ from them.

use std::collections::BTreeMap;

use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi};

use crate::json::ProblemBody;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidegate",
        description = "Answers are JSON; what is not the answer asked for is a problem (RFC 9457) \
                       with a stable `code`.",
    ),
    security(("token" = [])),
    modifiers(&Token)
)]
struct Frame;

struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("Of POST /v1/login, or a service's own."))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// What the document says before any room has said something.
pub fn frame() -> utoipa::openapi::OpenApi {
    Frame::openapi()
}

/// Takes the token away from reading `paths`.
pub fn open(document: &mut utoipa::openapi::OpenApi, paths: &[Box<str>]) {
    for (path, item) in &mut document.paths.paths {
        if paths.iter().any(|open| **open == **path)
            && let Some(operation) = &mut item.get
        {
            operation.security = Some(vec![SecurityRequirement::default()]);
        }
    }
}

/// Says which codes problems have. In words and not as an enumeration: a program that was generated before must take
/// the codes of later versions, too.
pub fn name_codes<'a>(document: &mut utoipa::openapi::OpenApi, codes: impl Iterator<Item = &'a String>) {
    let components = document.components.get_or_insert_default();
    if let Some(RefOr::T(Schema::Object(problem))) = components.schemas.get_mut("ProblemBody")
        && let Some(RefOr::T(Schema::Object(code))) = problem.properties.get_mut("code")
    {
        let codes = codes.map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", ");
        let said = code.description.take().unwrap_or_default();
        code.description = Some(format!("{said} Later versions may have more than these: {codes}."));
    }
}

/// The names of the operations of a path.
pub fn operations(item: &PathItem) -> impl Iterator<Item = &str> {
    let all: [&Option<Operation>; 8] =
        [&item.get, &item.put, &item.post, &item.delete, &item.options, &item.head, &item.patch, &item.trace];
    all.into_iter().flatten().filter_map(|operation| operation.operation_id.as_deref())
}

/// Answers to requests that may not pass.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
pub enum GuardProblems {
    /// No token, or not a good one
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthorized(ProblemBody),
    /// The token may not do this
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(ProblemBody),
    /// The caller asks more than it may; `Retry-After` says when to ask again, with the same id
    #[response(status = 429, content_type = "application/problem+json")]
    TooMany(ProblemBody),
}

/// Answers to bodies that cannot be read.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
pub enum BodyProblems {
    /// Not JSON, or a broken connection or path
    #[response(status = 400, content_type = "application/problem+json")]
    Malformed(ProblemBody),
    /// The body did not arrive in time
    #[response(status = 408, content_type = "application/problem+json")]
    TooSlow(ProblemBody),
    /// The body is too large: for the server, or for what one request of a caller with bounds may ask (8 KiB for each
    /// transfer or hold that it may carry, and one more, and 64 KiB in any case)
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(ProblemBody),
    /// The body is not JSON by its content type, or is compressed
    #[response(status = 415, content_type = "application/problem+json")]
    NotJson(ProblemBody),
    /// A field is missing, unknown, or not what it must be
    #[response(status = 422, content_type = "application/problem+json")]
    Invalid(ProblemBody),
}

/// Answers of a server that cannot answer
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
pub enum ServiceProblems {
    /// A bug of ours; the outcome is unknown
    #[response(status = 500, content_type = "application/problem+json")]
    Bug(ProblemBody),
    /// Not now: `busy`, `disk_full`, `shard_failed`, `recovering`, `stopping`, `timed_out`
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(ProblemBody),
}

/// Answers about something that the path names.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
pub enum NameProblems {
    /// The path is not percent-encoded UTF-8
    #[response(status = 400, content_type = "application/problem+json")]
    Malformed(ProblemBody),
    /// There is nothing with this name
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(ProblemBody),
    /// Right by itself, and not with what there is
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(ProblemBody),
    /// The name, or a field, is not what it must be
    #[response(status = 422, content_type = "application/problem+json")]
    Invalid(ProblemBody),
}

/// All problems of a room's request without a body.
pub struct RoomProblems;

/// All problems of a room's request with a body.
pub struct RoomBodyProblems;

/// Answers by their statuses, as the document has them.
pub type Responses = BTreeMap<String, RefOr<utoipa::openapi::Response>>;

impl IntoResponses for RoomProblems {
    fn responses() -> Responses {
        [GuardProblems::responses(), NameProblems::responses(), ServiceProblems::responses()]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl IntoResponses for RoomBodyProblems {
    fn responses() -> Responses {
        // Where both describe a status, the one about the body says more.
        [RoomProblems::responses(), BodyProblems::responses()].into_iter().flatten().collect()
    }
}

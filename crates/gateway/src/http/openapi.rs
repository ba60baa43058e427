//! The OpenAPI document, made from the handlers and the types that are served, so that it cannot say something else.

use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi};

use super::problem::ProblemBody;
use super::{accounts, door, holds, login, operations};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tidegate",
        description = "A ledger whose balances can never be overdrawn. Amounts are integers in minor units. Transfers and holds \
                       carry an id of the client's choice: asked again with the same content, they give the first outcome.",
    ),
    paths(
        login::log_in,
        accounts::open,
        accounts::list,
        accounts::read,
        accounts::history,
        door::submit,
        holds::place,
        holds::post,
        holds::void,
        operations::audit,
        operations::health,
        operations::metrics,
        operations::openapi,
    ),
    security(("token" = [])),
    modifiers(&Token)
)]
struct Document;

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

/// The document as JSON.
pub fn document() -> String {
    Document::openapi().to_json().expect("the document is plain JSON")
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
    /// The body is too large
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(ProblemBody),
    /// The body is not JSON by its content type
    #[response(status = 415, content_type = "application/problem+json")]
    NotJson(ProblemBody),
    /// A field is missing, unknown, or not what it must be
    #[response(status = 422, content_type = "application/problem+json")]
    Invalid(ProblemBody),
}

/// Answers to reads.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
pub enum ReadProblems {
    /// The path is not percent-encoded UTF-8
    #[response(status = 400, content_type = "application/problem+json")]
    Malformed(ProblemBody),
    /// No such account
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(ProblemBody),
    /// A query parameter is unknown or not what it must be, or the id could be nobody's
    #[response(status = 422, content_type = "application/problem+json")]
    Invalid(ProblemBody),
    /// A bug of ours
    #[response(status = 500, content_type = "application/problem+json")]
    Bug(ProblemBody),
    /// Not now: `busy`, `shard_failed`, `recovering`, `stopping`, `timed_out`
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(ProblemBody),
}

/// Answers of the ledger, or in its place.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
pub enum LedgerProblems {
    /// Not JSON, or a broken connection or path
    #[response(status = 400, content_type = "application/problem+json")]
    Malformed(ProblemBody),
    /// No such account or hold
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(ProblemBody),
    /// The ledger's state says no: `insufficient_funds`, `id_reused`, `account_exists` ...
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(ProblemBody),
    /// No state could make it a yes: a field is missing or unknown, an amount is zero, an id too long ...
    #[response(status = 422, content_type = "application/problem+json")]
    Invalid(ProblemBody),
    /// A bug of ours; the outcome is unknown
    #[response(status = 500, content_type = "application/problem+json")]
    Bug(ProblemBody),
    /// Not now: `busy`, `disk_full`, `shard_failed`, `recovering`, `stopping`, `timed_out`. Try again with the same ids
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(ProblemBody),
}

// JSON Schema counts characters, the ledger bytes: where texts are not ASCII, the description holds.
const VISIBLE: &str =
    "^[^\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]*$";
const VISIBLE_NO_SLASH: &str =
    "^[^/\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]*$";

/// Schema of a transfer or hold id.
pub fn transfer_id_schema() -> ObjectBuilder {
    let text = text(1, 64, VISIBLE)
        .description(Some("Chosen by the client, unique for ever: 1 to 64 bytes of printable UTF-8."));
    text.examples(["vote-1"])
}

/// Schema of an account id.
pub fn account_id_schema() -> ObjectBuilder {
    let text = text(1, 128, VISIBLE_NO_SLASH).description(Some("1 to 128 bytes of printable UTF-8 without '/'."));
    text.examples(["wallet:dave"])
}

/// Schema of a unit of measure.
pub fn asset_schema() -> ObjectBuilder {
    text(1, 32, VISIBLE).description(Some("Unit of measure: 1 to 32 bytes of printable UTF-8.")).examples(["credit"])
}

/// Schema of a memo.
pub fn memo_schema() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .max_length(Some(256))
        .description(Some("Free text for the history: at most 256 bytes of UTF-8."))
}

fn text(min: usize, max: usize, pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::String))
        .min_length(Some(min))
        .max_length(Some(max))
        .pattern(Some(pattern))
}

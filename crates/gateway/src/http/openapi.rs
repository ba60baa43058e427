//! The OpenAPI document, made from the handlers and the types that are served, so that it cannot say something else.

use tidegate_machines::ledger::{ACCOUNT_ID_BYTES_MAX, ASSET_BYTES_MAX, MEMO_BYTES_MAX, TRANSFER_ID_BYTES_MAX};
use utoipa::openapi::Required;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::{IntoResponses, Modify, OpenApi};

use super::problem::ProblemBody;
use super::{accounts, door, drain, holds, login, operations};

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
        drain::begin,
        drain::progress,
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

/// The document as JSON, for a door that serves `open_paths` without a token.
pub fn document(open_paths: &[Box<str>]) -> String {
    let mut document = Document::openapi();
    for (path, item) in &mut document.paths.paths {
        if open_paths.iter().any(|open| **open == **path)
            && let Some(operation) = &mut item.get
        {
            operation.security = Some(vec![SecurityRequirement::default()]);
        }
        // Posting all of a hold, and voiding it, need no body.
        if path.starts_with("/v1/holds/")
            && let Some(body) = item.post.as_mut().and_then(|post| post.request_body.as_mut())
        {
            body.required = Some(Required::False);
        }
    }
    document.to_json().expect("the document is plain JSON")
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

// JSON Schema counts characters where the ledger counts bytes. Each pattern describes ASCII up to the bound, and other scripts up
// to a quarter of it, which always fits; the ledger takes longer ones as long as their bytes fit.
const TRANSFER_ID: &str =
    "^([ -~]{1,64}|[^\\x00-\\x1f\\x7f-\\x9f\\xad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]{1,16})$";
const ACCOUNT_ID: &str = "^([ -.0-~]{1,128}|[^/\\x00-\\x1f\\x7f-\\x9f\\xad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]{1,32})$";
const ASSET: &str =
    "^([ -~]{1,32}|[^\\x00-\\x1f\\x7f-\\x9f\\xad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]{1,8})$";
const MEMO: &str = "^([ -~]{0,256}|[\\s\\S]{0,64})$";

/// Schema of a transfer or hold id.
pub fn transfer_id_schema() -> ObjectBuilder {
    let text = text(TRANSFER_ID).min_length(Some(1)).max_length(Some(TRANSFER_ID_BYTES_MAX));
    text.description(Some("Chosen by the client, unique for ever: 1 to 64 bytes of printable UTF-8."))
        .examples(["vote-1"])
}

/// Schema of an account id.
pub fn account_id_schema() -> ObjectBuilder {
    let text = text(ACCOUNT_ID).min_length(Some(1)).max_length(Some(ACCOUNT_ID_BYTES_MAX));
    text.description(Some("1 to 128 bytes of printable UTF-8 without '/'."))
}

/// Schema of the account to debit.
pub fn debit_schema() -> ObjectBuilder {
    account_id_schema().examples(["wallet:dave"])
}

/// Schema of the account to credit.
pub fn credit_schema() -> ObjectBuilder {
    account_id_schema().examples(["candidate:3"])
}

/// Schema of a unit of measure.
pub fn asset_schema() -> ObjectBuilder {
    let text = text(ASSET).min_length(Some(1)).max_length(Some(ASSET_BYTES_MAX));
    text.description(Some("Unit of measure: 1 to 32 bytes of printable UTF-8.")).examples(["credit"])
}

/// Schema of a memo.
pub fn memo_schema() -> ObjectBuilder {
    let text = text(MEMO).max_length(Some(MEMO_BYTES_MAX));
    text.description(Some("Free text for the history: at most 256 bytes of UTF-8."))
}

/// Schema of an amount that may be out of bounds.
pub fn any_amount_schema() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::Integer))
        .minimum(Some(0))
        .maximum(Some(usize::MAX))
        .description(Some("Minor units."))
        .examples([1])
}

fn text(pattern: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).pattern(Some(pattern))
}

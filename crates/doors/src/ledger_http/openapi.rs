//! The ledger's part of the OpenAPI document.

use utoipa::openapi::Required;
use utoipa::{IntoResponses, OpenApi};

use super::{accounts, assets, audit, changes, holds, settings, transfers};
use crate::json::ProblemBody;

#[derive(OpenApi)]
#[openapi(
    info(
        description = "A ledger whose balances can never be overdrawn. Amounts are integers in minor units. Transfers \
                       and holds carry an id of the client's choice: asked again with the same content, they give the \
                       first outcome. An id is unique within an id space: a viewer's own, which is the user name; the \
                       one that the configuration of a service names (`id_space`); or the common one, of all services \
                       that name none and of users of role service. So no viewer can take an id away from others. \
                       Prefer ids with the time in them (ULID, UUID of version 7, or node:date:restart:counter): the \
                       ledger looks for them only among ids of that time, and stays fast after a billion ids.",
    ),
    paths(
        accounts::open,
        accounts::list,
        accounts::read,
        accounts::history,
        settings::change_account,
        settings::list_holds,
        transfers::submit,
        transfers::read_transfer,
        holds::place,
        holds::post_many,
        holds::void_many,
        holds::read_hold,
        assets::declare_asset,
        assets::list_assets,
        holds::post,
        holds::void,
        audit::audit,
        audit::run_audit,
        changes::changes,
    )
)]
struct Document;

/// The document.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    for (path, item) in &mut document.paths.paths {
        // Posting all of a hold, and voiding it, need no body.
        if path.starts_with("/v1/holds/{id}/")
            && let Some(body) = item.post.as_mut().and_then(|post| post.request_body.as_mut())
        {
            body.required = Some(Required::False);
        }
    }
    document
}

/// Answers to reads.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
pub enum ReadProblems {
    /// The path is not percent-encoded UTF-8
    #[response(status = 400, content_type = "application/problem+json")]
    Malformed(ProblemBody),
    /// No such account, transfer or hold
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
    /// The ledger's state does not allow it: `insufficient_funds`, `id_reused` (the id belongs to the first content
    /// asked under it, also where that request was lost before it was decided), `account_exists` ...
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(ProblemBody),
    /// No state would allow it: a field is missing or unknown, an amount is zero, an id too long ...
    #[response(status = 422, content_type = "application/problem+json")]
    Invalid(ProblemBody),
    /// A bug of ours; the outcome is unknown
    #[response(status = 500, content_type = "application/problem+json")]
    Bug(ProblemBody),
    /// Not now: `busy`, `disk_full`, `state_differs` (an audit found balances that are not what the journal says),
    /// `shard_failed`, `recovering`, `stopping`, `timed_out`. Try again with the same ids
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(ProblemBody),
}

//! What went wrong, as RFC 9457 problem+json with a stable `code`: for people to read, for programs to match.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Map, Value};
use tidegate_ledger::message::Unavailable;
use tidegate_machines::ledger::Refusal;
use utoipa::ToSchema;

use crate::auth::AuthError;

/// An answer that is not the one asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
    members: Map<String, Value>,
    retry_after_s: Option<u32>,
}

/// A problem as JSON, for the OpenAPI document.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what Problem writes")]
pub struct ProblemBody {
    /// `about:blank`: the `code` tells problems apart.
    #[schema(rename = "type", example = "about:blank")]
    r#type: String,
    /// The status in words.
    #[schema(example = "Conflict")]
    title: String,
    /// The status.
    #[schema(example = 409)]
    status: u16,
    /// Stable name of what went wrong, for programs.
    #[schema(example = "insufficient_funds")]
    code: String,
    /// A sentence for the person who meets it.
    #[schema(example = "the account to debit has only 3 available")]
    detail: String,
}

impl Problem {
    /// A problem with this HTTP status, stable code, and a sentence for the person who meets it.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem { status, code, detail: detail.into(), members: Map::new(), retry_after_s: None }
    }

    /// Adds a member of its own, such as the transfer's `id`.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Tells the client when to try again.
    pub fn retry_after_s(mut self, seconds: u32) -> Problem {
        self.retry_after_s = Some(seconds);
        self
    }

    /// 400: the bytes are not what HTTP or JSON allow.
    pub fn malformed(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// 422: well-formed, but not a request that means something.
    pub fn invalid(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    /// 403.
    pub fn forbidden(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 405; the router has put `Allow` into the answer that this one replaces.
    pub fn method_not_allowed() -> Problem {
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "the Allow header lists what this path accepts",
        )
    }

    /// 404 for a path that is none of ours.
    pub fn path_unknown(path: &str) -> Problem {
        let detail = format!("{path:?} is not served here; /openapi.json lists what is");
        Problem::new(StatusCode::NOT_FOUND, "path_unknown", detail)
    }

    /// The body of the answer to a connection that is one too many.
    pub fn busy_body() -> &'static str {
        r#"{"type":"about:blank","title":"Service Unavailable","status":503,"code":"busy","detail":"too many connections"}"#
    }

    /// The reply was of another kind than the request's: a bug of ours, and the outcome is unknown to the client.
    pub fn unexpected_reply() -> Problem {
        let detail = "the ledger's answer does not fit the question; the outcome is unknown";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "unexpected_reply", detail)
    }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Problem {
        let code = match error {
            AuthError::Missing => "token_missing",
            AuthError::Invalid => "token_invalid",
            AuthError::Expired => "token_expired",
        };
        Problem::new(StatusCode::UNAUTHORIZED, code, error.to_string())
    }
}

impl From<Unavailable> for Problem {
    fn from(unavailable: Unavailable) -> Problem {
        let (code, detail, retry_after_s) = match unavailable {
            Unavailable::Busy => ("busy", "too much is under way; try again with the same ids", 1),
            Unavailable::DiskFull => ("disk_full", "the journal's disk is full; nothing was done", 5),
            Unavailable::ShardFailed => {
                ("shard_failed", "the journal failed; an operator must look at the server's log", 30)
            }
            Unavailable::Recovering => ("recovering", "the journal is being replayed; /healthz shows how far", 1),
            Unavailable::Stopping => ("stopping", "the server is stopping; try again with the same ids", 1),
        };
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).retry_after_s(retry_after_s)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let problem = Problem::new(refusal_status(refusal), refusal.code(), refusal_detail(refusal));
        match refusal {
            Refusal::InsufficientFunds { available } => problem.with("available", available),
            _ => problem,
        }
    }
}

/// 409 when each field is right but not together with the ledger's state or with the others, 404 when something is not there,
/// 422 when a field is wrong by itself, as the OpenAPI document says.
fn refusal_status(refusal: Refusal) -> StatusCode {
    match refusal {
        Refusal::AccountNotFound
        | Refusal::DebitAccountNotFound
        | Refusal::CreditAccountNotFound
        | Refusal::HoldNotFound
        | Refusal::CursorInvalid => StatusCode::NOT_FOUND,
        Refusal::InsufficientFunds { .. }
        | Refusal::IdReused
        | Refusal::AccountExists
        | Refusal::AssetMismatch
        | Refusal::CollectorCreditOnly
        | Refusal::Overflow
        | Refusal::SameAccount
        | Refusal::HoldPosted
        | Refusal::HoldVoided
        | Refusal::HoldExpired
        | Refusal::PostExceedsHold
        | Refusal::LinkedFailed => StatusCode::CONFLICT,
        Refusal::AmountInvalid
        | Refusal::IdInvalid
        | Refusal::AccountIdInvalid
        | Refusal::AssetInvalid
        | Refusal::MemoTooLong
        | Refusal::ExpiryInvalid
        | Refusal::LinkedAcrossShards
        | Refusal::BatchSizeInvalid => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

fn refusal_detail(refusal: Refusal) -> Cow<'static, str> {
    Cow::Borrowed(match refusal {
        Refusal::InsufficientFunds { available } => {
            return Cow::Owned(format!("the account to debit has only {available} available"));
        }
        Refusal::IdReused => "this id was used before with other content; choose a new id for a new transfer or hold",
        Refusal::AccountNotFound => "there is no account of this id",
        Refusal::DebitAccountNotFound => "the account to debit does not exist",
        Refusal::CreditAccountNotFound => "the account to credit does not exist",
        Refusal::AccountExists => "the account exists with another asset or kind",
        Refusal::AssetMismatch => "the two accounts hold different assets",
        Refusal::SameAccount => "the account to debit and the account to credit are the same",
        Refusal::CollectorCreditOnly => "a collector can only be credited",
        Refusal::Overflow => "the amount would take a total beyond what 64 bits hold",
        Refusal::AmountInvalid => "the amount must be 1 to 9223372036854775807 minor units",
        Refusal::IdInvalid => "a transfer or hold id is 1 to 64 bytes of printable UTF-8",
        Refusal::AccountIdInvalid => "an account id is 1 to 128 bytes of printable UTF-8 without '/'",
        Refusal::AssetInvalid => "an asset is 1 to 32 bytes of printable UTF-8",
        Refusal::MemoTooLong => "a memo is at most 256 bytes",
        Refusal::ExpiryInvalid => "expires_in_ms must be 1 to one hundred years",
        Refusal::HoldNotFound => "there is no hold of this id",
        Refusal::HoldPosted => "the hold was posted already",
        Refusal::HoldVoided => "the hold was voided already",
        Refusal::HoldExpired => "the hold has expired, and its amount is available again",
        Refusal::PostExceedsHold => "a post may take at most what was held",
        Refusal::LinkedFailed => "another transfer of the linked group was refused, so none was applied",
        Refusal::LinkedAcrossShards => {
            "the debit accounts of a linked group must share a shard; give them a common {tag}"
        }
        Refusal::BatchSizeInvalid => "a request carries 1 to 8190 transfers",
        Refusal::CursorInvalid => "the cursor is not one that this account's history gave; begin without `before`",
    })
}

impl Problem {
    /// The problem as JSON.
    pub fn body(&self) -> Vec<u8> {
        let mut members = Map::new();
        members.insert("type".to_owned(), "about:blank".into());
        members.insert("title".to_owned(), self.status.canonical_reason().unwrap_or("Error").into());
        members.insert("status".to_owned(), self.status.as_u16().into());
        members.insert("code".to_owned(), self.code.into());
        members.insert("detail".to_owned(), (*self.detail).into());
        members.extend(self.members.clone());
        serde_json::to_vec(&members).expect("a map of plain values is JSON")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let body = self.body();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = match self.code {
                "token_missing" => "Bearer realm=\"tidegate\"",
                _ => "Bearer realm=\"tidegate\", error=\"invalid_token\"",
            };
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // What is left of these bodies is not read, so the connection cannot carry another request.
        if matches!(self.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

//! Problems (RFC 9457, `application/problem+json`): a text for people, and a stable `code` for programs.

use std::borrow::Cow;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use http_body_util::Full;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::codes;

/// The stable name of a problem and its HTTP status. Each component that answers with problems has constants of this
/// type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProblemCode {
    status: StatusCode,
    name: &'static str,
}

impl ProblemCode {
    /// A code. `name` is for programs: lower case, words joined by `_`, never changed.
    pub const fn new(status: StatusCode, name: &'static str) -> ProblemCode {
        ProblemCode { status, name }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The status of answers that carry it.
    pub const fn status(self) -> StatusCode {
        self.status
    }
}

/// Bytes of a sentence, or of a member that is text: a request of megabytes is not said back to whoever sent it.
const TEXT_BYTES_MAX: usize = 1_024;

/// An answer that is not the one asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    code: ProblemCode,
    detail: Cow<'static, str>,
    members: Map<String, Value>,
    retry_after_s: Option<u32>,
    over: Option<OverBound>,
    allow: Option<&'static str>,
}

/// Of which bound of its caller a request was one too many, for those who count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBound(pub &'static str);

/// Why a request's sender is not let in, in a sentence, for the security log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unauthorized(pub Cow<'static, str>);

/// A problem as JSON, for the OpenAPI document.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what Problem writes")]
pub struct ProblemBody {
    /// `about:blank`: the `code` tells problems apart.
    #[schema(rename = "type", example = "about:blank")]
    r#type: String,
    /// The status in words.
    #[schema(example = "Forbidden")]
    title: String,
    /// The status.
    #[schema(example = 403)]
    status: u16,
    /// Stable name of what went wrong, for programs.
    #[schema(example = "forbidden")]
    code: String,
    /// A sentence for the person who meets it.
    #[schema(example = "this token may not read metrics")]
    detail: String,
    /// With `field_invalid` and `query_invalid`: the field or parameter, such as `transfers[3].amount`, if it is known.
    #[schema(required = false)]
    field: String,
    /// The account, transfer or hold that it is about.
    #[schema(required = false)]
    id: String,
    /// `refused`, when it is the outcome of a transfer or hold: every retry with this id gets it.
    #[schema(required = false)]
    outcome: String,
    /// With `insufficient_funds`: what was available when it was decided, in minor units.
    #[schema(required = false)]
    available: u64,
    /// `true` if it was not decided by this request: the id was refused before, and stays so. Send a new id.
    #[schema(required = false)]
    remembered: bool,
    /// With `remembered`: when it was decided, milliseconds since the epoch.
    #[schema(required = false)]
    decided_at_ms: u64,
    /// With `revision_stale`: the revision of the account.
    #[schema(required = false)]
    revision: u64,
    /// With `history_too_long`: send as `before` to go on.
    #[schema(required = false)]
    next: String,
}

impl Problem {
    /// A problem with this code, and a sentence for the person who meets it.
    pub fn new(code: ProblemCode, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem { code, detail: cut(detail.into()), members: Map::new(), retry_after_s: None, over: None, allow: None }
    }

    /// What went wrong.
    pub fn code(&self) -> ProblemCode {
        self.code
    }

    /// The sentence.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The same with another sentence.
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Problem {
        self.detail = cut(detail.into());
        self
    }

    /// Adds a member of its own, such as the transfer's `id`.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        let value = match value.into() {
            Value::String(text) => cut(text.into()).into_owned().into(),
            other => other,
        };
        self.members.insert(name.to_owned(), value);
        self
    }

    /// Tells the client when to try again.
    pub fn retry_after_s(mut self, seconds: u32) -> Problem {
        self.retry_after_s = Some(seconds);
        self
    }

    /// When the client may try again, if that makes sense.
    pub fn retries_after_s(&self) -> Option<u32> {
        self.retry_after_s
    }

    /// A field that must be there is not; `within` leads to its object, if that is not the body itself.
    pub fn missing_field(within: Option<&str>, field: &str) -> Problem {
        let missing = format!("missing field `{field}`");
        match within {
            Some(object) => {
                let path = format!("{object}.{field}");
                Problem::new(codes::FIELD_INVALID, format!("{path}: {missing}")).with("field", path)
            }
            None => Problem::new(codes::FIELD_INVALID, missing).with("field", field),
        }
    }

    /// Says which bound of the caller is used up.
    pub fn over_bound(mut self, of: &'static str) -> Problem {
        self.over = Some(OverBound(of));
        self
    }

    /// Which bound of the caller is used up, if that is the problem.
    pub fn over(&self) -> Option<OverBound> {
        self.over
    }

    /// 403.
    pub fn forbidden(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(codes::FORBIDDEN, detail)
    }

    /// 405; the router has put `Allow` into the answer that this one replaces.
    pub fn method_not_allowed() -> Problem {
        Problem::new(codes::METHOD_NOT_ALLOWED, "the Allow header lists what this path accepts")
    }

    /// Lists the methods that the path takes, for a 405 that no router has answered.
    pub fn allowing(mut self, methods: &'static str) -> Problem {
        self.allow = Some(methods);
        self
    }

    /// The client did not read its answer in time. It never sees this; people who read our events do.
    pub fn body_unread() -> Problem {
        Problem::new(codes::TIMED_OUT, "the client did not read on in time")
    }

    /// 404 for a path that is none of ours.
    pub fn path_unknown(path: &str) -> Problem {
        Problem::new(codes::PATH_UNKNOWN, format!("{path:?} is not served here; /openapi.json lists what is"))
    }

    /// The reply was of another kind than the request's: a bug of the server. The outcome is unknown to the client.
    pub fn unexpected_reply() -> Problem {
        Problem::new(codes::UNEXPECTED_REPLY, "the answer does not fit the question; the outcome is unknown")
    }
}

impl Problem {
    /// The problem as JSON.
    pub fn body(&self) -> Vec<u8> {
        let mut members = Map::new();
        members.insert("type".to_owned(), "about:blank".into());
        members.insert("title".to_owned(), self.code.status.canonical_reason().unwrap_or("Error").into());
        members.insert("status".to_owned(), self.code.status.as_u16().into());
        members.insert("code".to_owned(), self.code.name.into());
        members.insert("detail".to_owned(), (*self.detail).into());
        members.extend(self.members.clone());
        serde_json::to_vec(&members).expect("a map of plain values is JSON")
    }
}

/// The text, without its middle if it is long: what is wrong may stand at either end.
fn cut(text: Cow<'static, str>) -> Cow<'static, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=TEXT_BYTES_MAX / 2).rev().find(is_boundary).unwrap_or(0);
    let tail = (text.len() - TEXT_BYTES_MAX / 2 + 4..text.len()).find(is_boundary).unwrap_or(text.len());
    format!("{} … {}", &text[..head], &text[tail..]).into()
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        self.whole_response().map(Body::new)
    }
}

impl Problem {
    /// The problem as an answer.
    pub fn whole_response(self) -> Response<Full<Bytes>> {
        let body = self.body();
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = self.code.status;
        response.extensions_mut().insert(self.code);
        if let Some(over) = self.over {
            response.extensions_mut().insert(over);
        }
        if self.code.status == StatusCode::UNAUTHORIZED {
            response.extensions_mut().insert(Unauthorized(self.detail));
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.code.status == StatusCode::UNAUTHORIZED {
            let challenge = match self.code == codes::TOKEN_MISSING {
                true => "Bearer realm=\"tidegate\"",
                false => "Bearer realm=\"tidegate\", error=\"invalid_token\"",
            };
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == codes::UPGRADE_REQUIRED {
            // RFC 9110, 15.5.22 and RFC 6455, 4.4: what to upgrade to, and which version.
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        if let Some(methods) = self.allow {
            headers.insert(header::ALLOW, HeaderValue::from_static(methods));
        }
        // What is left of these bodies is not read, so the connection cannot carry another request.
        if matches!(self.code.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_short_whatever_it_is_about() {
        for text in ["x".repeat(2 << 20), "\u{1f30a}".repeat(1 << 19), "x".repeat(TEXT_BYTES_MAX + 1)] {
            let said = format!("unknown field `{text}`, expected `id`");
            let problem = Problem::new(codes::FIELD_INVALID, said).with("field", text.clone());
            let body: Value = serde_json::from_slice(&problem.body()).unwrap();
            for (name, begins, ends) in [("detail", "unknown field `", "`, expected `id`"), ("field", "", "")] {
                let shown = body[name].as_str().unwrap();
                assert!(shown.len() <= TEXT_BYTES_MAX + 8, "{name}: {}", shown.len());
                assert!(shown.starts_with(begins) && shown.ends_with(ends) && shown.contains(" … "), "{shown}");
            }
        }
        let exact = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(Problem::new(codes::FIELD_INVALID, exact.clone()).detail(), exact);
    }
}

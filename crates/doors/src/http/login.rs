//! `POST /v1/login`: returns a token for a user name and password.

use axum::body::Body;
use axum::extract::{Extension, Request as HttpRequest, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::connection::PeerAddress;
use super::door::Door;
use super::openapi::BodyProblems;
use super::time::rfc3339;
use crate::auth::LoginError;
use crate::json::{Problem, ProblemBody, Text, codes, decode, json};
use crate::security::{self, SecurityEvent};

/// Who wants to come in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginBody<'a> {
    /// User name.
    #[serde(borrow)]
    #[schema(value_type = String, example = "dave")]
    user: Text<'a>,
    /// Password.
    #[serde(borrow)]
    #[schema(value_type = String, format = "password", example = "dave")]
    password: Text<'a>,
}

/// A token.
#[derive(Serialize, ToSchema)]
pub struct TokenBody {
    /// To be sent as `Authorization: Bearer TOKEN`.
    token: String,
    /// When it ends, RFC 3339 in UTC.
    #[schema(format = "date-time", example = "2026-11-21T09:14:49Z")]
    expires_at: String,
}

/// Get a token for a password
#[utoipa::path(
    post,
    path = "/v1/login",
    tag = "login",
    security(()),
    request_body = LoginBody,
    responses(
        (status = 200, description = "A token", body = TokenBody),
        (
            status = 401,
            description = "User or password is wrong",
            body = ProblemBody,
            content_type = "application/problem+json"
        ),
        (
            status = 429,
            description = "Too many wrong passwords, or requests, came from this address: `Retry-After` says when to \
                           try again",
            body = ProblemBody,
            content_type = "application/problem+json"
        ),
        (
            status = 503,
            description = "Too many log-ins are waiting, or being read, of this address or of all; or what decides on \
                           this user does not answer",
            body = ProblemBody,
            content_type = "application/problem+json"
        ),
        BodyProblems,
    )
)]
pub async fn log_in(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    door.count(&head.headers, address)?;
    let body = door.read_login(&head.headers, body, address).await?;
    let LoginBody { user, password } = decode(&body)?;
    let issued = door.authenticator.log_in(&user, &password, address).await;
    let (event, detail) = match &issued {
        Ok(_) => (SecurityEvent::LoggedIn, ""),
        Err(LoginError::Wrong) => (SecurityEvent::LoginRefused, "wrong user or password"),
        Err(LoginError::Later { .. }) => (SecurityEvent::LoginRefused, "too many wrong passwords"),
        Err(LoginError::Busy) => (SecurityEvent::LoginRefused, "busy"),
        Err(LoginError::Unavailable { .. }) => (SecurityEvent::LoginRefused, "the log-in hook does not answer"),
        Err(LoginError::Changed) => (SecurityEvent::LoginRefused, "the log-in hook was changed while it was asked"),
    };
    security::tell(event, "http", address, &user, detail);
    let issued = issued.map_err(|error| match error {
        LoginError::Wrong => {
            door.metrics.logins_wrong.increment();
            Problem::new(codes::LOGIN_WRONG, error.to_string())
        }
        LoginError::Busy => {
            door.metrics.logins_busy.increment();
            Problem::new(codes::BUSY, error.to_string()).retry_after_s(1)
        }
        LoginError::Later { retry_after_s } => {
            door.metrics.logins_delayed.increment();
            Problem::new(codes::TOO_MANY_REQUESTS, error.to_string()).retry_after_s(retry_after_s)
        }
        LoginError::Unavailable { retry_after_s } => {
            Problem::new(codes::LOGIN_UNAVAILABLE, error.to_string()).retry_after_s(retry_after_s)
        }
        LoginError::Changed => Problem::new(codes::LOGIN_UNAVAILABLE, error.to_string()).retry_after_s(1),
    })?;
    let body = TokenBody { token: issued.token, expires_at: rfc3339(issued.expires_at_s) };
    let mut response = json(StatusCode::OK, &body);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

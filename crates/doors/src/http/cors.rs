//! Which web pages of other origins may ask this door, and read its answers: CORS, as <https://fetch.spec.whatwg.org>
//! has it.
//!
//! Promise: a page that is not listed reads nothing. No answer allows credentials that browsers add by themselves
//! (cookies, client certificates): a page shows a token, which it must have. Where pages are listed, every answer says
//! that it differs by `Origin`, so that no cache gives one page's answer to another.
//!
//! Why here, before any route: errors, too, are for pages to read, and a preflight has no token.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

/// What pages may send beside what they always may.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-type, accept, last-event-id");
/// What pages may read beside what they always may.
const EXPOSED: HeaderValue = HeaderValue::from_static("location, retry-after, www-authenticate, allow");

/// The pages that may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CorsOrigins {
    /// Only those of the door itself.
    #[default]
    None,
    /// Those of these origins, letter for letter.
    Listed(Vec<Box<str>>),
    /// All.
    Any,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    /// Which pages.
    pub origins: CorsOrigins,
    /// How long a browser need not ask again whether it may ask.
    pub max_age: Duration,
}

/// What the answer to one request says of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shared {
    allowed: Option<HeaderValue>,
    differs: bool,
}

impl Cors {
    /// For the answer to a request with these header fields; `None` if it says nothing.
    pub(super) fn of(&self, headers: &HeaderMap) -> Option<Shared> {
        match &self.origins {
            CorsOrigins::None => None,
            CorsOrigins::Any => Some(Shared { allowed: Some(HeaderValue::from_static("*")), differs: false }),
            CorsOrigins::Listed(listed) => {
                let mut shown = headers.get_all(header::ORIGIN).iter();
                let origin = shown.next().filter(|_| shown.next().is_none());
                let is_listed = |origin: &&HeaderValue| listed.iter().any(|one| one.as_bytes() == origin.as_bytes());
                Some(Shared { allowed: origin.filter(is_listed).cloned(), differs: true })
            }
        }
    }

    /// The answer to a preflight; `None` if the request is none, or no page of others may ask. What the page may do
    /// stands in it if the page may.
    pub(super) fn preflight<B>(&self, request: &hyper::Request<B>) -> Option<Response<Body>> {
        let headers = request.headers();
        let is_one = *request.method() == Method::OPTIONS
            && headers.contains_key(header::ORIGIN)
            && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let shared = self.of(headers).filter(|_| is_one)?;
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::NO_CONTENT;
        if shared.allowed.is_some() {
            let said = answer.headers_mut();
            said.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
            said.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
            said.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(self.max_age.as_secs()));
        }
        Some(answer)
    }
}

impl Shared {
    /// Writes it into an answer.
    pub(super) fn tell<B>(self, answer: &mut Response<B>) {
        let headers = answer.headers_mut();
        if self.differs {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        if let Some(allowed) = self.allowed {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }
}

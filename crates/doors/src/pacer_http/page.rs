//! `/pacing`: the page on which campaigns are seen, part of the binary, served where `auth.open_paths` opens it.
//!
//! ```text
//!   /pacing     the page, and its parts below it        once a second ─▶ GET /v1/campaigns?curve=true, with a token
//! ```
//!
//! Promise: the page loads only what this server serves, and says nothing about a campaign by itself: what it shows, it
//! asks for with the token of who looks at it.

use std::net::IpAddr;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::routing::get;

use crate::http::{Door, PACING_PAGE as PATH, PeerAddress, Routes};
use crate::json::Problem;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Name below [`PATH`], content type, content. The page itself has no name.
const PARTS: [(&str, &str, &str); 5] = [
    ("", HTML, include_str!("page/index.html")),
    ("pacing.css", STYLE, include_str!("page/pacing.css")),
    ("pacing.js", SCRIPT, include_str!("page/pacing.js")),
    ("chart.js", SCRIPT, include_str!("page/chart.js")),
    ("session.js", SCRIPT, include_str!("page/session.js")),
];

/// Only our own scripts, styles and requests; no other page may frame this one, where people type tokens.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The page and its parts.
pub(super) fn routes(routes: Routes, door: &Door) -> Routes {
    routes
        .hidden(PATH, get(page).with_state(door.clone()))
        .hidden(&format!("{PATH}/"), get(slash).with_state(door.clone()))
        .hidden(&format!("{PATH}/{{part}}"), get(part).with_state(door.clone()))
}

async fn page(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    serve(&door, "", &headers, address)
}

async fn part(
    State(door): State<Door>,
    Path(name): Path<String>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    serve(&door, &name, &headers, address)
}

/// An address with a slash too many leads to the one without.
async fn slash(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    if !door.is_open(PATH) {
        return Err(Problem::path_unknown(&format!("{PATH}/")));
    }
    door.count(&headers, address)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(PATH));
    Ok(response)
}

fn serve(door: &Door, name: &str, headers: &HeaderMap, peer: IpAddr) -> Result<Response<Body>, Problem> {
    let found = PARTS.iter().find(|(part, ..)| *part == name).filter(|_| door.is_open(PATH));
    let Some((_, content_type, content)) = found else {
        return Err(Problem::path_unknown(&format!("{PATH}/{name}")));
    };
    door.count(headers, peer)?;
    let mut response = Response::new(Body::from(Bytes::from_static(content.as_bytes())));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

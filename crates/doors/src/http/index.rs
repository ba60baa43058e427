//! `/`: leads whoever opens the address in a browser on: to the voting page or that of campaigns if the configuration
//! opens it, else to what is served here.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};

use super::connection::PeerAddress;
use super::demo;
use super::door::Door;
use crate::json::Problem;

/// The page of campaigns, which the pacer serves.
pub const PACING_PAGE: &str = "/pacing";

/// The paths that a person may want to see. It says nothing about this server that `/openapi.json` does not.
const PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Tidegate</title>\n\
    <h1>Tidegate</h1>\n<ul>\n\
    <li><a href=\"/healthz\">/healthz</a>: whether it serves</li>\n\
    <li><a href=\"/readyz\">/readyz</a>: whether it takes writes and new clients</li>\n\
    <li><a href=\"/metrics\">/metrics</a>: figures for Prometheus, with a token unless they are open</li>\n\
    <li><a href=\"/openapi.json\">/openapi.json</a>: the API, with a token unless it is open</li>\n\
    </ul>\n";

/// No scripts, no styles, no frames.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'";

/// The page, or the way to the voting page.
pub async fn page(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    door.count(&headers, address)?;
    if let Some(path) = [demo::PATH, PACING_PAGE].into_iter().find(|path| door.is_open(path)) {
        return Ok(demo::lead(HeaderValue::from_static(path)));
    }
    let mut response = Response::new(Body::from(PAGE));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(response)
}

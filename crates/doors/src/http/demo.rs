//! `/demo`: the page of `examples/voting`, part of the binary, served where the configuration opens that path.

use std::net::IpAddr;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};

use super::connection::PeerAddress;
use super::door::Door;
use crate::json::Problem;

/// The path that opens the page and its parts.
pub const PATH: &str = "/demo";

/// Name below [`PATH`], content type, content. The page itself has no name.
const PARTS: [(&str, &str, &str); 4] = [
    ("", "text/html; charset=utf-8", include_str!("../../../../examples/voting/demo/index.html")),
    ("demo.css", "text/css; charset=utf-8", include_str!("../../../../examples/voting/demo/demo.css")),
    ("demo.js", "text/javascript; charset=utf-8", include_str!("../../../../examples/voting/demo/demo.js")),
    ("mqtt.js", "text/javascript; charset=utf-8", include_str!("../../../../examples/voting/demo/mqtt.js")),
];

/// Only our own scripts, styles and connections; no other page may frame this one, where people type passwords.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; \
                      connect-src 'self' ws: wss:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The page.
pub async fn page(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    serve(&door, "", &headers, address)
}

/// What the page loads.
pub async fn part(
    State(door): State<Door>,
    Path(name): Path<String>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    serve(&door, &name, &headers, address)
}

fn serve(door: &Door, name: &str, headers: &HeaderMap, address: IpAddr) -> Result<Response<Body>, Problem> {
    let found = PARTS.iter().find(|(part, ..)| *part == name).filter(|_| door.is_open(PATH));
    let (_, content_type, content) = found.ok_or_else(|| Problem::path_unknown(&format!("{PATH}/{name}")))?;
    door.count(headers, address)?;
    let mut response = Response::new(Body::from(*content));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

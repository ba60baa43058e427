//! `/demo` and `/demo/stage`: the pages of `examples/voting`, part of the binary, served where the configuration opens
//! that path.
//!
//! ```text
//!   /demo         the voter's page       /demo/show.json    what the pages show, as configured
//!   /demo/stage   the big screen         /demo/picture-N    the picture of candidate N, from 0
//!                                        /demo/qr.svg?url=  where to vote, for cameras
//! ```
//!
//! Promise: a page loads only what this server serves, and needs no secure context: phones reach it over plain HTTP.

use std::fmt::Write;
use std::net::IpAddr;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use qrcode::{Color, EcLevel, QrCode};
use serde::{Deserialize, Serialize};

use super::connection::PeerAddress;
use super::door::Door;
use super::time::now_ms;
use crate::json::{Problem, codes, encode};

/// The path that opens the pages and their parts.
pub const PATH: &str = "/demo";

/// Bytes of an address in a QR code: its version 10, which has 57 modules a side, holds 213 with level M.
pub const URL_BYTES_MAX: usize = 213;

/// Modules of white around a QR code, as ISO/IEC 18004 asks for.
const QUIET_MODULES: usize = 4;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Name below [`PATH`], content type, content. The voter's page has no name.
const PARTS: [(&str, &str, &str); 10] = [
    ("", HTML, include_str!("../../../../examples/voting/demo/index.html")),
    ("stage", HTML, include_str!("../../../../examples/voting/demo/stage.html")),
    ("demo.css", STYLE, include_str!("../../../../examples/voting/demo/demo.css")),
    ("stage.css", STYLE, include_str!("../../../../examples/voting/demo/stage.css")),
    ("demo.js", SCRIPT, include_str!("../../../../examples/voting/demo/demo.js")),
    ("stage.js", SCRIPT, include_str!("../../../../examples/voting/demo/stage.js")),
    ("board.js", SCRIPT, include_str!("../../../../examples/voting/demo/board.js")),
    ("session.js", SCRIPT, include_str!("../../../../examples/voting/demo/session.js")),
    ("outbox.js", SCRIPT, include_str!("../../../../examples/voting/demo/outbox.js")),
    ("mqtt.js", SCRIPT, include_str!("../../../../examples/voting/demo/mqtt.js")),
];

/// Only our own scripts, styles, pictures and connections; no other page may frame this one, where people type
/// passwords.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self' ws: wss:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// What the pages show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DemoShow {
    /// The heading.
    pub title: Box<str>,
    /// Address of the voter's page for the QR code; `None` for the one that the stage was opened with.
    pub url: Option<Box<str>>,
    /// When the pages stop offering to vote, milliseconds since the epoch.
    pub ends_at_ms: Option<u64>,
    /// What the log-in says beside its fields; empty for nothing.
    pub login_hint: Box<str>,
    /// In this order; empty for all that there are.
    pub candidates: Vec<DemoCandidate>,
}

/// A candidate as the pages show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoCandidate {
    /// What the room that counts knows it by.
    pub id: Box<str>,
    /// Its name for people.
    pub name: Box<str>,
    /// Content type and content.
    pub picture: Option<(&'static str, Bytes)>,
}

/// [`DemoShow`] as JSON, and what time it is here.
#[derive(Serialize)]
struct ShowBody<'a> {
    title: &'a str,
    url: Option<&'a str>,
    now_ms: u64,
    ends_at_ms: Option<u64>,
    login_hint: &'a str,
    candidates: Vec<CandidateBody<'a>>,
}

#[derive(Serialize)]
struct CandidateBody<'a> {
    id: &'a str,
    name: &'a str,
    picture: Option<String>,
}

/// What a QR code is asked to say.
#[derive(Deserialize)]
pub struct CodeQuery {
    #[serde(default)]
    url: String,
}

/// The page.
pub async fn page(
    State(door): State<Door>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    serve(&door, "", "", &headers, address)
}

/// What the page loads, and the stage.
pub async fn part(
    State(door): State<Door>,
    Path(name): Path<String>,
    Query(query): Query<CodeQuery>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    serve(&door, &name, &query.url, &headers, address)
}

/// An address with a slash too many leads to the one without.
pub async fn slash(
    State(door): State<Door>,
    uri: Uri,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    if !door.is_open(PATH) {
        return Err(Problem::path_unknown(uri.path()));
    }
    door.count(&headers, address)?;
    let location = HeaderValue::from_str(uri.path().trim_end_matches('/')).expect("a path of the routes is plain");
    Ok(lead(location))
}

/// An answer that leads a browser on.
pub(super) fn lead(location: HeaderValue) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    response.headers_mut().insert(header::LOCATION, location);
    response
}

fn serve(door: &Door, name: &str, url: &str, headers: &HeaderMap, peer: IpAddr) -> Result<Response<Body>, Problem> {
    let unknown = || Problem::path_unknown(&format!("{PATH}/{name}"));
    if !door.is_open(PATH) {
        return Err(unknown());
    }
    let (content_type, content) = match (name, PARTS.iter().find(|(part, ..)| *part == name)) {
        (_, Some((_, content_type, content))) => (*content_type, Bytes::from_static(content.as_bytes())),
        ("show.json", _) => ("application/json", show_json(&door.demo).into()),
        ("qr.svg", _) => ("image/svg+xml", Bytes::new()),
        _ => picture(&door.demo, name).ok_or_else(unknown)?,
    };
    door.count(headers, peer)?;
    // Only now, because it is work.
    let content = if name == "qr.svg" { qr_svg(url)?.into() } else { content };
    let mut response = Response::new(Body::from(content));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

fn show_json(show: &DemoShow) -> Vec<u8> {
    let candidates = show.candidates.iter().enumerate().map(|(number, candidate)| CandidateBody {
        id: &candidate.id,
        name: &candidate.name,
        picture: candidate.picture.as_ref().map(|_| format!("{PATH}/picture-{number}")),
    });
    encode(&ShowBody {
        title: &show.title,
        url: show.url.as_deref(),
        now_ms: now_ms(),
        ends_at_ms: show.ends_at_ms,
        login_hint: &show.login_hint,
        candidates: candidates.collect(),
    })
}

fn picture(show: &DemoShow, name: &str) -> Option<(&'static str, Bytes)> {
    let number: usize = name.strip_prefix("picture-")?.parse().ok()?;
    show.candidates.get(number)?.picture.clone()
}

/// A QR code with level M, one unit a module, black on white.
fn qr_svg(url: &str) -> Result<String, Problem> {
    let is_address = url.starts_with("http://") || url.starts_with("https://");
    if !is_address || url.len() > URL_BYTES_MAX {
        let detail = format!("url: expected an address that begins with http:// or https://, of {URL_BYTES_MAX} bytes");
        return Err(Problem::new(codes::QUERY_INVALID, detail).with("field", "url"));
    }
    let code = QrCode::with_error_correction_level(url, EcLevel::M).expect("so many bytes fit");
    let (side, modules) = (code.width(), code.to_colors());
    assert_eq!(modules.len(), side * side, "a QR code is a square");
    let whole = side + 2 * QUIET_MODULES;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {whole} {whole}\" width=\"{whole}\" \
         height=\"{whole}\" shape-rendering=\"crispEdges\"><path fill=\"#fff\" d=\"M0 0h{whole}v{whole}H0z\"/>\
         <path d=\""
    );
    for (at, _) in modules.iter().enumerate().filter(|(_, module)| **module == Color::Dark) {
        let (x, y) = (at % side + QUIET_MODULES, at / side + QUIET_MODULES);
        write!(svg, "M{x} {y}h1v1h-1z").expect("a string takes all");
    }
    svg.push_str("\"/></svg>");
    Ok(svg)
}

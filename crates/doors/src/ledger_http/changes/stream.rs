//! Changes for as long as the client reads, as lines or as server-sent events.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, Version, header};
use serde::Serialize;
use tidegate_ledger::changes::Change;
use tokio::time::{Duration, Instant};

use super::row::ChangeBody;
use crate::auth::Identity;
use crate::http::lines::{NDJSON, are_lines_wanted, is_wanted};
use crate::http::{Cut, Part, Parts, Silence, StreamCaller, StreamPlace};
use crate::json::Problem;
use crate::ledger_http::backend::{Backend, Changes};
use crate::ledger_http::limits::CHANGE_HEARTBEAT;
use crate::ledger_http::room::Ledger;

/// The content type of events.
const EVENTS: &str = "text/event-stream";
/// How long the head of a stream waits for the first row.
const FIRST_PART_WITHIN: Duration = Duration::from_millis(250);

/// What a stream says when it has no change to say.
#[derive(Serialize)]
struct MarkBody<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cursor: &'a str,
    /// Why it is the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<&'a str>,
}

/// The last word of a stream that is cut: a heartbeat, because clients know that kind and go on behind its cursor.
const CUT: &str = "another caller needed the place; connect again with the last cursor";

/// How a stream is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A row on each line.
    Lines,
    /// Server-sent events.
    Events,
}

impl Format {
    /// What the client asks for; `None` for a page.
    pub fn of(version: Version, headers: &HeaderMap) -> Option<Format> {
        if is_wanted(EVENTS, version, headers) {
            return Some(Format::Events);
        }
        are_lines_wanted(version, headers).then_some(Format::Lines)
    }

    /// The content type of its answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Lines => NDJSON,
            Format::Events => EVENTS,
        }
    }

    fn row(self, change: &Change, reader: &Identity, into: &mut Vec<u8>) {
        if self == Format::Events {
            into.extend_from_slice(b"id: ");
            into.extend_from_slice(change.cursor.as_bytes());
            into.extend_from_slice(b"\ndata: ");
        }
        serde_json::to_writer(&mut *into, &ChangeBody::new(change, reader)).expect("a change is plain JSON");
        into.extend_from_slice(if self == Format::Events { b"\n\n" } else { b"\n" });
    }

    /// A heartbeat or an end. In events it is a comment, with the cursor as the id of the last event.
    fn mark(self, kind: &'static str, cursor: &str, ended: Option<&str>, into: &mut Vec<u8>) {
        let said = ended.unwrap_or(kind);
        match self {
            Format::Lines => {
                serde_json::to_writer(&mut *into, &MarkBody { kind, cursor, ended }).expect("a mark is plain JSON");
                into.push(b'\n');
            }
            // A comment is one line.
            Format::Events if said.contains(['\r', '\n']) => self.mark(kind, cursor, None, into),
            Format::Events if cursor.is_empty() => into.extend_from_slice(format!(": {said}\n\n").as_bytes()),
            Format::Events => into.extend_from_slice(format!(": {said}\nid: {cursor}\n\n").as_bytes()),
        }
    }
}

/// What a client that reads a stream asks for.
pub struct Wanted {
    /// How it is written.
    pub format: Format,
    /// Rows at most; all if absent.
    pub rows_max: Option<u64>,
    /// Whether it goes on with what happens later.
    pub follows: bool,
}

/// A stream of `changes`: its head comes with the first part. `headers` shows the caller's token.
pub async fn stream<B: Backend>(
    ledger: &Ledger<B>,
    caller: Identity,
    headers: &HeaderMap,
    changes: B::Changes,
    wanted: Wanted,
    (place, silence): (StreamPlace, Arc<Silence>),
) -> Result<Response<Body>, Problem> {
    let mut stream = ChangeStream {
        changes,
        caller: StreamCaller::new(caller, headers),
        ledger: ledger.clone(),
        format: wanted.format,
        rows_left: wanted.rows_max,
        follows: wanted.follows,
        cursor: Box::default(),
        heartbeat: CHANGE_HEARTBEAT.min(ledger.door.limits().request_timeout / 2),
        is_first: true,
        place,
    };
    let first = ledger.door.in_time(stream.next()).await??;
    let mut response = Response::new(ledger.door.body_in_parts(first, stream, silence));
    let values = response.headers_mut();
    values.insert(header::CONTENT_TYPE, HeaderValue::from_static(wanted.format.content_type()));
    values.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A stream of changes to one client.
struct ChangeStream<B: Backend> {
    changes: B::Changes,
    caller: StreamCaller,
    ledger: Ledger<B>,
    format: Format,
    rows_left: Option<u64>,
    follows: bool,
    /// Where a client that got all parts goes on.
    cursor: Box<str>,
    heartbeat: Duration,
    is_first: bool,
    place: StreamPlace,
}

impl<B: Backend> Parts for ChangeStream<B> {
    async fn next(&mut self) -> Result<Part, Problem> {
        let patience = if self.is_first { FIRST_PART_WITHIN.min(self.heartbeat) } else { self.heartbeat };
        let quiet_until = Instant::now() + patience;
        self.ledger.door.pause_of_stream(self.caller.identity()).await;
        loop {
            let part = tokio::time::timeout_at(quiet_until, self.changes.next()).await;
            self.caller.renew(&self.ledger.door)?;
            let Ok(part) = part else {
                self.is_first = false;
                return Ok(self.mark("heartbeat", false));
            };
            let mut part = part?;
            if let Some(left) = self.rows_left {
                part.rows.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                self.rows_left = Some(left - part.rows.len() as u64);
            }
            self.cursor = part.cursor;
            if !part.rows.is_empty() {
                self.is_first = false;
                let mut bytes = Vec::with_capacity(part.rows.len() * 384);
                part.rows.iter().for_each(|row| self.format.row(row, self.caller.identity(), &mut bytes));
                return Ok(Part { bytes, is_last: self.rows_left == Some(0) });
            }
            if part.is_at_end && !self.follows {
                return Ok(self.mark("end", true));
            }
            // A client that follows wants to know at once that it is connected.
            if part.is_at_end && std::mem::take(&mut self.is_first) {
                return Ok(self.mark("heartbeat", false));
            }
        }
    }

    fn cut(&self) -> Option<Cut> {
        Some(self.place.cut())
    }

    fn last_word(&self, problem: Option<&Problem>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let ended = problem.map_or(CUT, |problem| problem.detail());
        self.format.mark("heartbeat", &self.cursor, Some(ended), &mut bytes);
        bytes
    }
}

impl<B: Backend> ChangeStream<B> {
    fn mark(&self, kind: &'static str, is_last: bool) -> Part {
        let mut bytes = Vec::new();
        // The first heartbeat may come before the first part, without a cursor.
        self.format.mark(kind, &self.cursor, None, &mut bytes);
        Part { bytes, is_last }
    }
}

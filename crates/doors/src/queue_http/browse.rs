//! Messages by a range of their keys: page by page, or as a stream of lines (NDJSON).
//!
//! ```text
//!   Browse ─▶ shards ─page─▶ JSON                       a page says where the next one begins
//!      ▲                └──▶ lines ─▶ body
//!      └── as the client reads ──┘
//! ```
//!
//! Promise: however long the range, a stream takes the memory of a page, and a place among those of its caller. What is
//! not shown to the caller is not read, and each message that was looked at for it is charged. What goes wrong after
//! the first line of a stream is its last line, and breaks the connection, so that nobody takes a piece for the whole;
//! so does the end of the caller's rights.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::vec;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Version, header};
use serde::{Deserialize, Serialize};
use tidegate_queue::machine::MessageKey;
use tidegate_queue::{Answer, Browse, Call, MessagePage, QueueFilter, Read};
use tidegate_shard::Unavailable;
use utoipa::{IntoParams, ToSchema};

use super::look::QueueMessageBody;
use super::openapi::{QueuePath, QueueProblems};
use super::page::ROWS_MAX;
use super::{Served, ask, check_right};
use crate::auth::{CursorSeal, Identity, QueueAction};
use crate::http::lines::{NDJSON, are_lines_wanted};
use crate::http::{
    Cut, InQuery, OfConnection, Part, Parts, PathName, Silence, StreamCaller, StreamPlace, StreamPlaces, query_problem,
};
use crate::json::{Problem, codes, json};

/// Rows of a page when the request does not say.
const ROWS_DEFAULT: u32 = 100;
/// Bytes of a part of a stream, about: what waits for the client is little beside the page that it comes from.
const PART_BYTES: usize = 256 << 10;
/// Why a stream breaks off whose place another caller needs.
const CUT: &str = "another caller needed the place of this stream; ask again from the last key on, or page by page";

/// What these requests share: all that those of queues do, and places of streams.
#[derive(Clone)]
pub(super) struct Browsing {
    pub served: Served,
    pub places: Arc<StreamPlaces>,
}

/// Which messages.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct RangeQuery {
    /// From this key on, or from the first one that begins so. The first ten characters of a key are the millisecond
    /// in which its message was taken.
    #[param(example = "01KB3V5X2M")]
    from: Option<String>,
    /// Up to this key, or to the last one that begins so.
    to: Option<String>,
    /// Only what comes after this: the `next` of the page before, or a key. What is sent later may get a smaller key
    /// than the last one that was seen, so whoever goes on behind that misses messages: to get each message once,
    /// receive.
    after: Option<String>,
    /// At most so many, 1 to 1,000 on a page; 100 if absent. Of lines, any number; all if absent.
    #[param(minimum = 1)]
    limit: Option<u64>,
    /// `true` for those that are gone, too, as long as their trails are kept (`trail_ms` of the queue).
    gone: Option<bool>,
    /// `true` for what happened to each, too. A page has at most 20 messages then.
    trail: Option<bool>,
}

/// A page of messages in the order of their keys, which is that in which they were taken.
#[derive(Serialize, ToSchema)]
pub(super) struct QueueMessagesBody {
    /// There may be fewer than the limit, also none: where bodies are long, or others lie between.
    messages: Vec<QueueMessageBody>,
    /// Send as `after` for the next page; absent after the last. The last key of this page, or a sealed place behind
    /// messages that are not shown: it is good for this caller only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    next: Option<String>,
}

/// Look through the messages of a queue
///
/// Nobody gets them by this. With `Accept: application/x-ndjson`, the answer is all of them, one a line, sent as fast
/// as the client reads. If something goes wrong after the first line, a last line says it, `{"problem": …}`, and the
/// connection breaks: also when the token is no longer good or its rights have changed, when the server stops, and when
/// all places of streams are taken and another caller has fewer. Who has as many streams open as it may is answered 503
/// `busy`. Messages that are looked at and not shown count among the rows of the caller's quota.
#[utoipa::path(
    get,
    path = "/v1/queues/{name}/messages",
    tag = "queues",
    params(RangeQuery, QueuePath),
    responses(
        (
            status = 200,
            description = "A page; or all, a message on each line",
            content((QueueMessagesBody = "application/json"), (QueueMessageBody = "application/x-ndjson"))
        ),
        QueueProblems
    )
)]
pub(super) async fn list_messages(
    State(browsing): State<Browsing>,
    version: Version,
    PathName(name): PathName,
    query: InQuery<RangeQuery>,
    OfConnection(silence): OfConnection,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = browsing.served.door.caller(&headers)?;
    check_right(&caller, QueueAction::Admin, &name)?;
    let reader = (&caller, browsing.served.door.cursors());
    match Wanted::of(query, Some(name), reader, are_lines_wanted(version, &headers))? {
        Wanted::Page(browse) => answer_page(&browsing.served, &caller, browse).await,
        Wanted::Lines(browse, rows_max) => {
            answer_lines(browsing, StreamCaller::new(caller, &headers), silence, browse, rows_max).await
        }
    }
}

/// Look through the messages of all queues
///
/// As of one queue; it shows those of queues that the caller may manage. Who may manage none gets 403.
#[utoipa::path(
    get,
    path = "/v1/messages",
    tag = "queues",
    params(RangeQuery),
    responses(
        (
            status = 200,
            description = "A page; or all, a message on each line",
            content((QueueMessagesBody = "application/json"), (QueueMessageBody = "application/x-ndjson"))
        ),
        QueueProblems
    )
)]
pub(super) async fn list_all_messages(
    State(browsing): State<Browsing>,
    version: Version,
    query: InQuery<RangeQuery>,
    OfConnection(silence): OfConnection,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = browsing.served.door.caller(&headers)?;
    if !caller.rights().may_with_some_queue(QueueAction::Admin) {
        caller.denied();
        let detail = "this token may not manage any queue; a service may with the grant \"admin:QUEUE\"";
        return Err(Problem::forbidden(detail));
    }
    let reader = (&caller, browsing.served.door.cursors());
    match Wanted::of(query, None, reader, are_lines_wanted(version, &headers))? {
        Wanted::Page(browse) => answer_page(&browsing.served, &caller, browse).await,
        Wanted::Lines(browse, rows_max) => {
            answer_lines(browsing, StreamCaller::new(caller, &headers), silence, browse, rows_max).await
        }
    }
}

/// What a request wants.
enum Wanted {
    /// A page.
    Page(Browse),
    /// Lines, at most so many; all if absent.
    Lines(Browse, Option<u64>),
}

impl Wanted {
    fn of(
        query: InQuery<RangeQuery>,
        queue: Option<Box<str>>,
        (caller, cursors): (&Identity, &CursorSeal),
        as_lines: bool,
    ) -> Result<Wanted, Problem> {
        let rows_max = if as_lines { u64::MAX } else { ROWS_MAX.into() };
        let query = query.map_err(|error| query_problem(&error, rows_max))?.0;
        let keys = query.keys(caller, cursors)?;
        let RangeQuery { limit, gone, trail, .. } = query;
        let rows = limit.unwrap_or(if as_lines { rows_max } else { ROWS_DEFAULT.into() });
        if rows == 0 || rows > rows_max {
            let expected = if as_lines { "1 or more".to_owned() } else { format!("1 to {ROWS_MAX}") };
            let detail = format!("limit: expected {expected}");
            return Err(Problem::new(codes::QUERY_INVALID, detail).with("field", "limit"));
        }
        let rights = caller.rights().clone();
        let may_see = QueueFilter::new(move |queue| rights.may_with_queue(QueueAction::Admin, queue));
        let (with_gone, with_trails) = (gone.unwrap_or(false), trail.unwrap_or(false));
        let of_page = rows.min(ROWS_MAX.into()) as usize;
        let browse = Browse { queue, may_see, keys, limit: of_page, with_gone, with_trails };
        Ok(if as_lines { Wanted::Lines(browse, limit) } else { Wanted::Page(browse) })
    }
}

async fn answer_page(served: &Served, caller: &Identity, browse: Browse) -> Result<Response<Body>, Problem> {
    let with_trails = browse.with_trails;
    let MessagePage { rows, next, looked_at } = page(served, caller, browse).await?;
    // What is shown is charged by its bytes.
    let passed = looked_at.saturating_sub(rows.len());
    caller.charge_rows(passed);
    served.door.take_turns_of_rows(caller, passed).await;
    let shown = rows.last().map(|last| last.view.key);
    let next = next.and_then(MessageKey::before).map(|place| match shown {
        Some(shown) if shown == place => place.to_string(),
        _ => served.door.cursors().seal(caller.name(), &place.to_string()),
    });
    let messages = rows.into_iter().map(|found| QueueMessageBody::new(found, with_trails)).collect();
    Ok(json(StatusCode::OK, &QueueMessagesBody { messages, next }))
}

async fn answer_lines(
    Browsing { served, places }: Browsing,
    caller: StreamCaller,
    silence: Arc<Silence>,
    browse: Browse,
    rows_max: Option<u64>,
) -> Result<Response<Body>, Problem> {
    let place = places.take(caller.identity())?;
    let (rows, rest) = (Vec::new().into_iter(), Some(browse));
    let mut lines = Lines { served: served.clone(), caller, place, rows, rest, rows_left: rows_max };
    let first = served.door.in_time(lines.next()).await??;
    let mut response = Response::new(served.door.body_in_parts(first, lines, silence));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    Ok(response)
}

impl RangeQuery {
    fn keys(&self, caller: &Identity, cursors: &CursorSeal) -> Result<RangeInclusive<MessageKey>, Problem> {
        let range = |field: &'static str, beginning: &Option<String>| {
            MessageKey::range_of(beginning.as_deref().unwrap_or_default()).map_err(|error| {
                Problem::new(codes::QUERY_INVALID, format!("{field}: {error}, or less for all that begin so"))
                    .with("field", field)
            })
        };
        let (from, to) = (*range("from", &self.from)?.start(), *range("to", &self.to)?.end());
        let after = match &self.after {
            Some(after) if after.starts_with('/') => {
                let place = cursors.open(caller.name(), after).and_then(|key| key.parse::<MessageKey>().ok());
                let detail = "after: this is no `next` of a page of this caller; begin again without it";
                let place = place.ok_or_else(|| Problem::new(codes::QUERY_INVALID, detail).with("field", "after"))?;
                place.next()
            }
            Some(after) if !after.is_empty() => range("after", &self.after)?.end().next(),
            _ => from,
        };
        Ok(from.max(after)..=to)
    }
}

/// Messages that the caller may see.
async fn page(served: &Served, caller: &Identity, browse: Browse) -> Result<MessagePage, Problem> {
    match ask(served, caller, Call::Read(Read::Browse(browse))).await? {
        Answer::Page(page) => Ok(page),
        other => unreachable!("a look through messages is answered with a page: {other:?}"),
    }
}

/// The messages of a range as lines.
struct Lines {
    served: Served,
    caller: StreamCaller,
    place: StreamPlace,
    /// What was read, and is still to be written.
    rows: vec::IntoIter<QueueMessageBody>,
    /// What is still to be asked for.
    rest: Option<Browse>,
    rows_left: Option<u64>,
}

impl Lines {
    /// Reads the next page.
    async fn read(&mut self) -> Result<(), Problem> {
        let Some(browse) = self.rest.take() else { return Ok(()) };
        let (door, caller) = (&self.served.door, self.caller.identity());
        let place = door.place_to_walk(caller).await?;
        let MessagePage { mut rows, next, looked_at } = page(&self.served, caller, browse.clone()).await?;
        drop(place);
        caller.charge_rows(looked_at);
        door.take_turns_of_rows(caller, looked_at).await;
        if let Some(left) = &mut self.rows_left {
            rows.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= rows.len() as u64;
        }
        let next = next.filter(|_| self.rows_left != Some(0));
        let with_trails = browse.with_trails;
        self.rest = next.map(|next| Browse { keys: next..=*browse.keys.end(), ..browse });
        let messages: Vec<_> = rows.into_iter().map(|found| QueueMessageBody::new(found, with_trails)).collect();
        self.rows = messages.into_iter();
        Ok(())
    }
}

impl Parts for Lines {
    async fn next(&mut self) -> Result<Part, Problem> {
        self.served.door.pause_of_stream(self.caller.identity()).await;
        if self.rows.as_slice().is_empty() {
            self.read().await?;
        }
        self.caller.renew(&self.served.door)?;
        let mut bytes = Vec::new();
        while bytes.len() < PART_BYTES
            && let Some(message) = self.rows.next()
        {
            serde_json::to_writer(&mut bytes, &message).expect("a message is plain JSON");
            bytes.push(b'\n');
        }
        Ok(Part { bytes, is_last: self.rows.as_slice().is_empty() && self.rest.is_none() })
    }

    fn cut(&self) -> Option<Cut> {
        Some(self.place.cut())
    }

    fn last_word(&self, problem: Option<&Problem>) -> Vec<u8> {
        let cut = Problem::from(Unavailable::Busy).with_detail(CUT);
        [br#"{"problem":"#, &*problem.unwrap_or(&cut).body(), b"}\n"].concat()
    }
}

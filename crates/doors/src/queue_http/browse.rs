//! Messages by a range of their keys: page by page, or as a stream of lines (NDJSON).
//!
//! ```text
//!   Browse ─▶ shards ─page─▶ JSON                       a page says where the next one begins
//!      ▲                └──▶ lines ─▶ body
//!      └── as the client reads ──┘
//! ```
//!
//! Promise: however long the range, a stream takes the memory of a page. What goes wrong after its first line is its
//! last line, and breaks the connection, so that nobody takes a piece for the whole.

use std::ops::RangeInclusive;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Version, header};
use serde::{Deserialize, Serialize};
use tidegate_queue::machine::MessageKey;
use tidegate_queue::{Answer, Browse, Call, Found, Read};
use utoipa::{IntoParams, ToSchema};

use super::messages::QueueMessageBody;
use super::openapi::{QueuePath, QueueProblems};
use super::page::ROWS_MAX;
use super::{Served, ask, check_right};
use crate::auth::{Identity, QueueAction};
use crate::http::lines::{NDJSON, are_lines_wanted};
use crate::http::{InQuery, Part, Parts, PathName, query_problem};
use crate::json::{Problem, codes, json};

/// Rows of a page when the request does not say.
const ROWS_DEFAULT: u32 = 100;

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
    /// Only what comes after this: the `next` of the page before.
    after: Option<String>,
    /// At most so many, 1 to 1,000 on a page; 100 if absent. Of lines, any number; all if absent.
    #[param(minimum = 1)]
    limit: Option<u32>,
    /// `true` for those that are gone, too, as long as their trails are kept (`trail_ms` of the queue).
    gone: Option<bool>,
    /// `true` for what happened to each, too. A page has at most 100 messages then.
    trail: Option<bool>,
}

/// A page of messages in the order of their keys, which is that in which they were taken.
#[derive(Serialize, ToSchema)]
pub(super) struct QueueMessagesBody {
    /// There may be fewer than the limit, also none: where bodies are long, or others lie between.
    messages: Vec<QueueMessageBody>,
    /// Send as `after` for the next page; absent after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    next: Option<String>,
}

/// Look through the messages of a queue
///
/// Nobody gets them by this. With `Accept: application/x-ndjson`, the answer is all of them, one a line, sent as fast
/// as the client reads. If something goes wrong after the first line, a last line says it, `{"problem": …}`, and the
/// connection breaks.
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
    State(served): State<Served>,
    version: Version,
    PathName(name): PathName,
    query: InQuery<RangeQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    check_right(&caller, QueueAction::Admin, &name)?;
    answer(served, caller, Some(name), query, are_lines_wanted(version, &headers)).await
}

/// Look through the messages of all queues
///
/// As of one queue; it shows those of queues that the caller may manage.
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
    State(served): State<Served>,
    version: Version,
    query: InQuery<RangeQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    answer(served, caller, None, query, are_lines_wanted(version, &headers)).await
}

async fn answer(
    served: Served,
    caller: Identity,
    queue: Option<Box<str>>,
    query: InQuery<RangeQuery>,
    as_lines: bool,
) -> Result<Response<Body>, Problem> {
    let query = query.map_err(|error| query_problem(&error, ROWS_MAX))?.0;
    let keys = query.keys()?;
    let RangeQuery { limit, gone, trail, .. } = query;
    let rows = limit.unwrap_or(if as_lines { u32::MAX } else { ROWS_DEFAULT });
    if rows == 0 || rows > ROWS_MAX && !as_lines {
        let expected = if as_lines { "1 or more".to_owned() } else { format!("1 to {ROWS_MAX}") };
        return Err(Problem::new(codes::QUERY_INVALID, format!("limit: expected {expected}")).with("field", "limit"));
    }
    let (with_gone, with_trails) = (gone.unwrap_or(false), trail.unwrap_or(false));
    let browse = Browse { queue, keys, limit: rows.min(ROWS_MAX) as usize, with_gone, with_trails };
    if !as_lines {
        let (messages, next) = page(&served, &caller, browse).await?;
        let next = next.and_then(MessageKey::before).map(|key| key.to_string());
        return Ok(json(StatusCode::OK, &QueueMessagesBody { messages, next }));
    }
    let mut lines = Lines { door: served.clone(), caller, rest: Some(browse), rows_left: limit };
    let first = lines.next().await?;
    let mut response = Response::new(served.door.body_in_parts(first, lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    Ok(response)
}

impl RangeQuery {
    fn keys(&self) -> Result<RangeInclusive<MessageKey>, Problem> {
        let range = |field: &'static str, beginning: &Option<String>| {
            MessageKey::range_of(beginning.as_deref().unwrap_or_default()).map_err(|error| {
                Problem::new(codes::QUERY_INVALID, format!("{field}: {error}, or less for all that begin so"))
                    .with("field", field)
            })
        };
        let (from, to) = (*range("from", &self.from)?.start(), *range("to", &self.to)?.end());
        let after = match &self.after {
            Some(after) if !after.is_empty() => range("after", &self.after)?.end().next(),
            _ => from,
        };
        Ok(from.max(after)..=to)
    }
}

/// Messages that the caller may see, and the key from which on to ask for others.
async fn page(
    served: &Served,
    caller: &Identity,
    browse: Browse,
) -> Result<(Vec<QueueMessageBody>, Option<MessageKey>), Problem> {
    let with_trails = browse.with_trails;
    match ask(served, caller, Call::Read(Read::Browse(browse))).await? {
        Answer::Messages(found, next) => {
            let is_shown = |found: &Found| caller.rights().may_with_queue(QueueAction::Admin, &found.view.queue);
            let shown = found.into_iter().filter(is_shown);
            Ok((shown.map(|found| QueueMessageBody::new(found, with_trails)).collect(), next))
        }
        other => unreachable!("a look at messages is answered with messages: {other:?}"),
    }
}

/// The messages of a range as lines.
struct Lines {
    door: Served,
    caller: Identity,
    /// What is still to be asked for.
    rest: Option<Browse>,
    rows_left: Option<u32>,
}

impl Parts for Lines {
    async fn next(&mut self) -> Result<Part, Problem> {
        let Some(browse) = self.rest.take() else { return Ok(Part { bytes: Vec::new(), is_last: true }) };
        let door = &self.door.door;
        door.pause_of_stream(&self.caller).await;
        let place = door.place_to_walk(&self.caller).await?;
        let (mut messages, next) = page(&self.door, &self.caller, browse.clone()).await?;
        drop(place);
        self.caller.charge_rows(messages.len());
        door.take_turns_of_rows(&self.caller, messages.len()).await;
        if let Some(left) = &mut self.rows_left {
            messages.truncate(*left as usize);
            *left -= messages.len() as u32;
        }
        let next = next.filter(|_| self.rows_left != Some(0));
        self.rest = next.map(|next| Browse { keys: next..=*browse.keys.end(), ..browse });
        let mut bytes = Vec::with_capacity(messages.len() * 512);
        for message in &messages {
            serde_json::to_writer(&mut bytes, message).expect("a message is plain JSON");
            bytes.push(b'\n');
        }
        Ok(Part { bytes, is_last: self.rest.is_none() })
    }

    fn last_word(&self, problem: Option<&Problem>) -> Vec<u8> {
        let word = |problem: &Problem| [br#"{"problem":"#, &*problem.body(), b"}\n"].concat();
        problem.map(word).unwrap_or_default()
    }
}

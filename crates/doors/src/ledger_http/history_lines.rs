//! A whole history, a JSON object on each line (NDJSON): for exports, which pages would take many requests for.
//!
//! ```text
//!   StreamHistory ─▶ ledger ─parts, as the client reads─▶ lines ─▶ body
//! ```
//!
//! Promise: however long the history, it takes the memory of a few pages. Its caller is charged for the rows: who has a
//! bound of requests gets the next part when half of what may come at once is left, and parts are read in turn by
//! caller. What goes wrong before the first row is a problem; what goes wrong later is the last line, and breaks the
//! connection, so that nobody takes a piece for the whole. So does the end of a stream whose place another caller
//! needs, or whose caller may no longer do what it could when it began.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use tidegate_ledger::message::{Reply, Request, TimeSpan, Unavailable};
use tidegate_machines::ledger::HistoryRow;

use super::accounts::RowBody;
use super::backend::{Backend, Replies};
use super::limits::HISTORY_PARTS_UNREAD_MAX;
use super::room::{Ledger, StreamKind};
use crate::auth::{Identity, gate};
use crate::http::lines::NDJSON;
use crate::http::{Cut, Door, Part, Parts, Silence, StreamCaller, StreamPlace};
use crate::json::Problem;

/// Why a history breaks off whose place another caller needs.
const CUT: &str = "another caller needed the place of this stream; ask again a little later, or page by page";

/// The history of `account` from `before` on, at most `rows_max` rows.
pub async fn answer<B: Backend>(
    ledger: &Ledger<B>,
    (caller, silence): (StreamCaller, Arc<Silence>),
    account: Box<str>,
    before: Option<Box<str>>,
    rows_max: Option<u64>,
    times: TimeSpan,
) -> Result<Response<Body>, Problem> {
    let request = Request::StreamHistory {
        id: account.clone(),
        before,
        // Rows of other times are read and do not count.
        rows_max: if times.is_all() { rows_max } else { None },
    };
    let reader = caller.identity();
    let _place = reader.admit(&request)?;
    if let Some(missing) = ledger.permit(reader, &request).await? {
        reader.answered(&Reply::Refused(missing.refusal));
        return Err(Problem::from(missing).with("id", &*account));
    }
    let place = ledger.place_for_stream(reader, StreamKind::History)?;
    let replies = ledger.open(reader.asks(request), HISTORY_PARTS_UNREAD_MAX)?;
    let door = ledger.door.clone();
    let mut lines = HistoryLines::<B> { door, replies, account, times, rows_left: rows_max, caller, place };
    let first = ledger.door.in_time(lines.next()).await??;
    let mut response = Response::new(ledger.door.body_in_parts(first, lines, silence));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    Ok(response)
}

/// The parts of a history as lines.
struct HistoryLines<B: Backend> {
    door: Door,
    replies: B::Replies,
    account: Box<str>,
    times: TimeSpan,
    rows_left: Option<u64>,
    caller: StreamCaller,
    place: StreamPlace,
}

impl<B: Backend> Parts for HistoryLines<B> {
    async fn next(&mut self) -> Result<Part, Problem> {
        self.door.pause_of_stream(self.caller.identity()).await;
        let place = self.door.place_to_walk(self.caller.identity()).await?;
        let reply = self.replies.next().await;
        drop(place);
        if let Some(reply) = &reply {
            self.caller.identity().answered(reply);
            self.door.take_turns_of_rows(self.caller.identity(), reply.rows_read()).await;
        }
        self.caller.renew(&self.door)?;
        let caller = self.caller.identity();
        match reply {
            Some(Reply::HistoryPart { mut rows, written_by, is_last }) => {
                gate::hide_others(caller, &mut rows);
                assert_eq!(rows.len(), written_by.len(), "each row was written at some time");
                let is_over = written_by.last().is_some_and(|by| self.times.ends_before(by.0));
                let mut written_by = written_by.iter();
                rows.retain(|_| written_by.next().is_some_and(|by| self.times.contains(by.0)));
                if let Some(left) = &mut self.rows_left {
                    rows.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= rows.len() as u64;
                }
                Ok(Part { bytes: lines(&rows, caller), is_last: is_last || is_over || self.rows_left == Some(0) })
            }
            Some(Reply::Refused(refusal)) => Err(Problem::from(refusal).with("id", &*self.account)),
            Some(Reply::Unavailable(unavailable)) => Err(unavailable.into()),
            Some(_) => Err(Problem::unexpected_reply()),
            // Its last reply comes before the end of a stream.
            None => Err(Unavailable::Stopping.into()),
        }
    }

    fn cut(&self) -> Option<Cut> {
        Some(self.place.cut())
    }

    fn last_word(&self, problem: Option<&Problem>) -> Vec<u8> {
        let cut = Problem::from(Unavailable::Busy).with_detail(CUT);
        [br#"{"problem":"#, &*problem.unwrap_or(&cut).body(), b"}\n"].concat()
    }
}

fn lines(rows: &[HistoryRow], reader: &Identity) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * 256);
    for row in rows {
        serde_json::to_writer(&mut bytes, &RowBody::new(row, reader)).expect("a row is plain JSON");
        bytes.push(b'\n');
    }
    bytes
}

//! One page of changes.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde::Serialize;
use tidegate_ledger::changes::Change;
use utoipa::ToSchema;

use super::row::ChangeBody;
use crate::auth::Identity;
use crate::json::{Problem, json};
use crate::ledger_http::backend::{Backend, Changes};
use crate::ledger_http::limits::CHANGE_PAGE_PARTS_MAX;
use crate::ledger_http::room::Ledger;

/// Some changes.
#[derive(Serialize, ToSchema)]
pub struct ChangesBody<'a> {
    /// In the order of the journal.
    changes: Vec<ChangeBody<'a>>,
    /// Send as `after` for the next page. Always there; a page may be empty and not the last.
    next: &'a str,
    /// Whether all that is durable was looked at.
    at_end: bool,
}

/// One page. It looks at a bounded number of records: a page of a quiet account comes back short, with a cursor.
pub async fn page<B: Backend>(
    ledger: &Ledger<B>,
    caller: &Identity,
    mut changes: B::Changes,
    limit: usize,
) -> Result<Response<Body>, Problem> {
    let (mut rows, mut next, mut at_end): (Vec<Change>, Box<str>, bool) = (Vec::new(), Box::default(), false);
    for _ in 0..CHANGE_PAGE_PARTS_MAX {
        let mut part = ledger.door.in_time(changes.next()).await??;
        let room = limit - rows.len();
        if part.rows.len() > room {
            part.rows.truncate(room);
            next = part.rows.last().map(|row| row.cursor.clone()).unwrap_or(next);
            rows.append(&mut part.rows);
            break;
        }
        rows.append(&mut part.rows);
        (next, at_end) = (part.cursor, part.is_at_end);
        if at_end || rows.len() == limit {
            break;
        }
    }
    let changes = rows.iter().map(|row| ChangeBody::new(row, caller)).collect();
    Ok(json(StatusCode::OK, &ChangesBody { changes, next: &next, at_end }))
}

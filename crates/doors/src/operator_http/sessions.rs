//! `/v1/sessions`: what is kept for clients, connected or not, and ending it.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_broker::OperatorCall;
use tidegate_broker::operator::{Filters, SessionList};
use utoipa::{IntoParams, ToSchema};

use super::Served;
use super::page::{self, parameters, reader};
use super::removal::{DoneBody, Removal};
use super::row::SessionBody;
use crate::http::{InQuery, PathName, PeerAddress, RoomProblems};
use crate::json::{Problem, ProblemCode, json};
use crate::operator::{PeerRow, PortAnswer, PortCall};

/// There is no session of this id.
pub const SESSION_NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "session_not_found");

/// Which sessions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct SessionsQuery {
    /// Only client ids that begin so.
    prefix: Option<String>,
    /// Only those of this owner: `user:NAME`, `service:NAME`, `provided:NAME` (a user of an identity provider or of the
    /// log-in hook), `certificate:NAME`, `address:NETWORK`.
    owner: Option<String>,
    /// Only those whose client is connected (`true`), or is not (`false`).
    connected: Option<bool>,
    /// Only client ids after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// A page of sessions in the byte order of their client ids.
#[derive(Serialize, ToSchema)]
pub struct SessionsBody<'a> {
    /// Sessions.
    sessions: Vec<SessionBody<'a>>,
    /// Send as `after` for the next page; absent after the last. A page may be short and still have a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    next: Option<&'a str>,
}

/// A subscription.
#[derive(Serialize, ToSchema)]
pub struct FilterBody<'a> {
    /// Its filter, as the client wrote it.
    #[schema(example = "news/#")]
    filter: &'a str,
    /// Greatest QoS.
    qos: u8,
}

/// A session and its subscriptions.
#[derive(Serialize, ToSchema)]
pub struct SessionDetailBody<'a> {
    /// The session.
    #[serde(flatten)]
    session: SessionBody<'a>,
    /// Its subscriptions in the byte order of their filters; the first thousand, and 256 KiB, that are found.
    filters: Vec<FilterBody<'a>>,
    /// How many there are besides; absent if these are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    filters_more: Option<usize>,
}

impl<'a> SessionDetailBody<'a> {
    /// Of this session.
    pub fn of(row: &'a PeerRow, filters: &'a Filters) -> SessionDetailBody<'a> {
        let shown = filters.filters.iter().map(|(filter, qos)| FilterBody { filter, qos: *qos });
        let filters_more = Some(filters.more).filter(|more| *more > 0);
        SessionDetailBody { session: row.into(), filters: shown.collect(), filters_more }
    }
}

/// Which sessions a query asks for, in its words.
pub struct Wanted {
    /// Begin of the client id.
    pub prefix: Option<String>,
    /// Whose.
    pub owner: Option<String>,
    /// Whether the client is connected.
    pub connected: Option<bool>,
    /// Behind which client id.
    pub after: Option<String>,
    /// How many at most.
    pub limit: Option<u32>,
}

impl Wanted {
    /// A page of them, and behind which client id there are more.
    pub async fn page(self, served: &Served) -> Result<(Vec<PeerRow>, Option<Box<str>>), Problem> {
        let list = SessionList {
            prefix: page::text("prefix", self.prefix)?,
            after: page::text("after", self.after)?,
            owner: self.owner.map(|owner| page::owner(&owner)).transpose()?,
            connected: self.connected,
            limit: page::rows(self.limit)?,
        };
        match served.ask(PortCall::Broker(OperatorCall::ListSessions(list))).await? {
            PortAnswer::Sessions(rows, next) => Ok((rows, next)),
            _ => Err(Problem::unexpected_reply()),
        }
    }
}

/// A session and its filters; `None` if there is none.
pub async fn read(served: &Served, client_id: &str) -> Result<Option<(PeerRow, Filters)>, Problem> {
    let call = OperatorCall::ReadSession { client_id: client_id.into() };
    match served.ask(PortCall::Broker(call)).await? {
        PortAnswer::Session(row, filters) => Ok(Some((*row, filters))),
        PortAnswer::NotFound => Ok(None),
        _ => Err(Problem::unexpected_reply()),
    }
}

/// List MQTT sessions, of clients that are connected and of those that may come back
#[utoipa::path(
    get,
    path = "/v1/sessions",
    tag = "operations",
    params(SessionsQuery),
    responses((status = 200, description = "A page", body = SessionsBody), RoomProblems)
)]
pub async fn list_sessions(
    State(served): State<Served>,
    query: InQuery<SessionsQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    reader(&served.door, &headers)?;
    let SessionsQuery { prefix, owner, connected, after, limit } = parameters(query)?;
    let wanted = Wanted { prefix, owner, connected, after, limit };
    let (rows, next) = wanted.page(&served).await?;
    let sessions = rows.iter().map(SessionBody::from).collect();
    Ok(json(StatusCode::OK, &SessionsBody { sessions, next: next.as_deref() }))
}

/// Read an MQTT session with its subscriptions
#[utoipa::path(
    get,
    path = "/v1/sessions/{client_id}",
    tag = "operations",
    params(("client_id" = inline(String), Path, description = "Client id", example = "tv-4711", min_length = 1)),
    responses((status = 200, description = "The session", body = SessionDetailBody), RoomProblems)
)]
pub async fn read_session(
    State(served): State<Served>,
    PathName(client_id): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    reader(&served.door, &headers)?;
    let (row, filters) = read(&served, &client_id).await?.ok_or_else(|| not_found(&client_id))?;
    Ok(json(StatusCode::OK, &SessionDetailBody::of(&row, &filters)))
}

/// End an MQTT session
///
/// Its client, if connected, is disconnected with 0x98 (administrative action). Its subscriptions and all that waits
/// for it are gone, and its will is published. The answer comes when that is durable. What it has as a member of share
/// groups goes to other members first; if they have no room for it, the answer is 202 after 3 seconds, and the session
/// ends when they have, after 60 seconds at most.
#[utoipa::path(
    delete,
    path = "/v1/sessions/{client_id}",
    tag = "operations",
    params(("client_id" = inline(String), Path, description = "Client id", example = "tv-4711", min_length = 1)),
    responses(
        (status = 200, description = "It has ended", body = DoneBody),
        (status = 202, description = "It will end: others of its share groups have no room yet", body = DoneBody),
        RoomProblems
    )
)]
pub async fn end_session(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    PathName(client_id): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let call = OperatorCall::EndSession { client_id: client_id.clone() };
    END.make(&served, &headers, address, &client_id, call).await
}

const END: Removal = Removal {
    act: "end session",
    forbidden: "this token may not end sessions; a service may with \"operate:write\"",
    outcome: "ended",
    not_found,
};

fn not_found(client_id: &str) -> Problem {
    Problem::new(SESSION_NOT_FOUND, "there is no session with this client id").with("id", client_id)
}

//! `/v1/clients`: who is connected, and sending one away.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_broker::OperatorCall;
use utoipa::{IntoParams, ToSchema};

use super::Served;
use super::page::{parameters, reader};
use super::removal::{DoneBody, Removal};
use super::row::SessionBody;
use super::sessions::{SessionDetailBody, Wanted, read};
use crate::http::{InQuery, PathName, PeerAddress, RoomProblems};
use crate::json::{Problem, ProblemCode, json};

/// No client of this id is connected.
pub const CLIENT_NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "client_not_found");

/// Which clients.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ClientsQuery {
    /// Only client ids that begin so.
    prefix: Option<String>,
    /// Only those of this owner: `user:NAME`, `service:NAME`, `provided:NAME` (a user of an identity provider or of the
    /// log-in hook), `certificate:NAME`, `address:NETWORK`.
    owner: Option<String>,
    /// Only client ids after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// A page of clients in the byte order of their ids.
#[derive(Serialize, ToSchema)]
pub struct ClientsBody<'a> {
    /// Clients, with their sessions.
    clients: Vec<SessionBody<'a>>,
    /// Send as `after` for the next page; absent after the last. A page may be short and still have a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    next: Option<&'a str>,
}

/// List the MQTT clients that are connected
#[utoipa::path(
    get,
    path = "/v1/clients",
    tag = "operations",
    params(ClientsQuery),
    responses((status = 200, description = "A page", body = ClientsBody), RoomProblems)
)]
pub async fn list_clients(
    State(served): State<Served>,
    query: InQuery<ClientsQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    reader(&served.door, &headers)?;
    let ClientsQuery { prefix, owner, after, limit } = parameters(query)?;
    let wanted = Wanted { prefix, owner, connected: Some(true), after, limit };
    let (rows, next) = wanted.page(&served).await?;
    let clients = rows.iter().map(SessionBody::from).collect();
    Ok(json(StatusCode::OK, &ClientsBody { clients, next: next.as_deref() }))
}

/// Read an MQTT client that is connected
#[utoipa::path(
    get,
    path = "/v1/clients/{client_id}",
    tag = "operations",
    params(("client_id" = inline(String), Path, description = "Client id", example = "tv-4711", min_length = 1)),
    responses((status = 200, description = "The client", body = SessionDetailBody), RoomProblems)
)]
pub async fn read_client(
    State(served): State<Served>,
    PathName(client_id): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    reader(&served.door, &headers)?;
    let (row, filters) = read(&served, &client_id).await?.ok_or_else(|| not_found(&client_id))?;
    match row.session.connection {
        Some(_) => Ok(json(StatusCode::OK, &SessionDetailBody::of(&row, &filters))),
        None => Err(not_found(&client_id)),
    }
}

/// Disconnect an MQTT client
///
/// It gets DISCONNECT 0x98 (administrative action) if it speaks MQTT 5. Its will is published, and its session stays if
/// it outlives connections. Nothing keeps it from coming back.
#[utoipa::path(
    delete,
    path = "/v1/clients/{client_id}",
    tag = "operations",
    params(("client_id" = inline(String), Path, description = "Client id", example = "tv-4711", min_length = 1)),
    responses((status = 200, description = "It is disconnected", body = DoneBody), RoomProblems)
)]
pub async fn disconnect_client(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    PathName(client_id): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let call = OperatorCall::Disconnect { client_id: client_id.clone() };
    DISCONNECT.make(&served, &headers, address, &client_id, call).await
}

const DISCONNECT: Removal = Removal {
    act: "disconnect client",
    forbidden: "this token may not disconnect clients; a service may with \"operate:write\"",
    outcome: "disconnected",
    not_found,
};

fn not_found(client_id: &str) -> Problem {
    Problem::new(CLIENT_NOT_FOUND, "no client with this id is connected").with("id", client_id)
}

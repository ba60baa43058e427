//! What operators see of MQTT behind the HTTP door, and what they do: clients, sessions, retained messages,
//! publications, and drains of single networks.
//!
//! ```text
//!   request ─▶ who, and may they? ─▶ PortCall ─▶ OperatorClient ─▶ the ports ─▶ PortAnswer ─▶ JSON
//!                                                                    └─ an act ─▶ a line in the log (http::Act)
//! ```
//!
//! Promise: a caller who may not is told so before anything is looked at, and each act is told in the log, done or
//! refused.

mod clients;
mod drains;
pub(crate) mod page;
mod publish;
mod removal;
mod retained;
mod row;
mod sessions;

use axum::routing::{get, post};
use tidegate_runtime::pump::EdgeHandle;
use utoipa::OpenApi;

use crate::RoomClient;
use crate::http::{Door, HttpRoom, Routes};
use crate::json::ProblemCode;
use crate::operator::OperatorClient;

/// The MQTT ports at the door of one edge thread, before it opens.
pub struct OperatorHttp(pub EdgeHandle<OperatorClient>);

/// What handlers share.
type Served = RoomClient<OperatorClient>;

#[derive(OpenApi)]
#[openapi(
    info(description = "An operator sees who is connected over MQTT, since when and from where, and what waits for \
                       whom; disconnects clients, ends sessions, clears retained messages and publishes. That needs \
                       the grants `operate:read`, `operate:write`, `publish:FILTER` and `drain`. Each act is a line \
                       of the log with the target `tidegate::operator`.",),
    paths(
        clients::list_clients,
        clients::read_client,
        clients::disconnect_client,
        sessions::list_sessions,
        sessions::read_session,
        sessions::end_session,
        publish::publish,
        retained::list_retained,
        retained::clear_retained,
        drains::list_address_drains,
        drains::read_address_drain,
        drains::begin_address_drain,
        drains::end_address_drain,
    ),
    components(schemas(publish::MessageBody))
)]
struct Document;

impl HttpRoom for OperatorHttp {
    fn name(&self) -> &'static str {
        "operator"
    }

    fn openapi(&self) -> utoipa::openapi::OpenApi {
        Document::openapi()
    }

    fn codes(&self) -> Vec<ProblemCode> {
        [&[clients::CLIENT_NOT_FOUND, sessions::SESSION_NOT_FOUND][..], publish::CODES, drains::CODES].concat()
    }

    fn routes(self: Box<Self>, door: &Door) -> Routes {
        let served = RoomClient::new(door.clone(), self.0);
        Routes::new()
            .route("/v1/clients", get(clients::list_clients).with_state(served.clone()))
            .route(
                "/v1/clients/{client_id}",
                get(clients::read_client).delete(clients::disconnect_client).with_state(served.clone()),
            )
            .route("/v1/sessions", get(sessions::list_sessions).with_state(served.clone()))
            .route(
                "/v1/sessions/{client_id}",
                get(sessions::read_session).delete(sessions::end_session).with_state(served.clone()),
            )
            .route("/v1/publish", post(publish::publish).with_state(served.clone()))
            .route(
                "/v1/retained",
                get(retained::list_retained).delete(retained::clear_retained).with_state(served.clone()),
            )
            .route("/v1/drain/addresses", get(drains::list_address_drains).with_state(served.clone()))
            .route(
                "/v1/drain/addresses/{address}",
                get(drains::read_address_drain)
                    .post(drains::begin_address_drain)
                    .delete(drains::end_address_drain)
                    .with_state(served),
            )
    }
}

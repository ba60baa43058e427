//! The state of one edge thread and the way of a request through it: votes directly, everything else by axum's routes.

use std::convert::Infallible;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use hyper::body::Incoming;
use tidegate_ledger::message::{Reply, Request};
use tower::Service;

use super::backend::Backend;
use super::limits::HttpLimits;
use super::metrics::HttpMetrics;
use super::openapi::{BodyProblems, GuardProblems, LedgerProblems};
use super::outcome::OutcomeBody;
use super::problem::Problem;
use super::transfers::{TransfersAnswer, TransfersBody};
use super::websocket::WebSocketDoor;
use super::{accounts, demo, drain, holds, login, openapi, operations};
use crate::auth::{AccountKinds, Authenticator, TokenCache};

/// Path of the hot request.
const TRANSFERS: &str = "/v1/transfers";

/// What all requests of one edge thread share. Cheap to clone.
pub struct Door<B> {
    shared: Arc<Shared<B>>,
}

/// The fields behind a [`Door`]. The mutexes are this thread's own: axum wants its state to be `Sync`, nobody contends.
pub struct Shared<B> {
    pub(super) backend: B,
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) limits: HttpLimits,
    pub(super) metrics: HttpMetrics,
    pub(super) open_paths: Vec<Box<str>>,
    pub(super) websocket: Option<WebSocketDoor>,
    pub(super) openapi: String,
    pub(super) tokens: Mutex<TokenCache>,
    pub(super) kinds: Mutex<AccountKinds>,
}

impl<B> Clone for Door<B> {
    fn clone(&self) -> Self {
        Door { shared: self.shared.clone() }
    }
}

impl<B> Deref for Door<B> {
    type Target = Shared<B>;
    fn deref(&self) -> &Shared<B> {
        &self.shared
    }
}

impl<B: Backend> Door<B> {
    /// A door before `backend`.
    pub fn new(
        backend: B,
        authenticator: Arc<Authenticator>,
        limits: HttpLimits,
        metrics: HttpMetrics,
        open_paths: Vec<Box<str>>,
        websocket: Option<WebSocketDoor>,
    ) -> Door<B> {
        let shared = Shared {
            backend,
            authenticator,
            limits,
            metrics,
            openapi: openapi::document(&open_paths),
            open_paths,
            websocket,
            tokens: Mutex::new(TokenCache::new(limits.tokens_cached_max)),
            kinds: Mutex::new(AccountKinds::new(limits.kinds_cached_max)),
        };
        Door { shared: Arc::new(shared) }
    }

    /// Asks the ledger, without a look at rights.
    pub(super) async fn ask(&self, request: Request) -> Result<Reply, Problem> {
        match tokio::time::timeout(self.limits.request_timeout, self.backend.call(request)).await {
            Ok(Reply::Unavailable(unavailable)) => Err(unavailable.into()),
            Ok(reply) => Ok(reply),
            Err(_) => {
                let detail =
                    "the ledger did not answer in time; the outcome is unknown, a retry with the same id is safe";
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "timed_out", detail).retry_after_s(1))
            }
        }
    }

    /// Whether `path` is served without a token.
    pub(super) fn is_open(&self, path: &str) -> bool {
        self.open_paths.iter().any(|open| **open == *path)
    }

    /// The routes that are not hot.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/healthz", get(operations::health::<B>))
            .route("/metrics", get(operations::metrics::<B>))
            .route("/openapi.json", get(operations::openapi::<B>))
            .route("/v1/login", post(login::log_in::<B>))
            .route("/v1/accounts", post(accounts::open::<B>).get(accounts::list::<B>))
            .route("/v1/accounts/{id}", get(accounts::read::<B>))
            .route("/v1/accounts/{id}/transfers", get(accounts::history::<B>))
            .route(TRANSFERS, post(submit::<B>))
            .route("/v1/holds", post(holds::place::<B>))
            .route("/v1/holds/{id}/post", post(holds::post::<B>))
            .route("/v1/holds/{id}/void", post(holds::void::<B>))
            .route("/v1/audit", get(operations::audit::<B>))
            .route("/v1/drain", post(drain::begin::<B>).get(drain::progress::<B>))
            .route(demo::PATH, get(demo::page::<B>))
            .route(&format!("{}/{{part}}", demo::PATH), get(demo::part::<B>))
            .fallback(|request: HttpRequest| async move { Problem::path_unknown(request.uri().path()) })
            .with_state(self.clone())
    }
}

/// Move money, once per id
///
/// The same id and content gives the first outcome again; the same id with other content is refused.
// Reached by way of axum when it comes through a test's router; connections go past it.
#[utoipa::path(
    post,
    path = TRANSFERS,
    tag = "transfers",
    request_body = TransfersBody,
    responses(
        (status = 201, description = "One transfer: applied by this request", body = OutcomeBody),
        (status = 200, description = "One transfer: applied before, with the same content. Many: their outcomes", body = TransfersAnswer),
        GuardProblems,
        BodyProblems,
        LedgerProblems,
    )
)]
pub async fn submit<B: Backend>(State(door): State<Door<B>>, request: HttpRequest) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    door.transfer(&head, body).await
}

/// One connection's way to the door.
pub struct DoorService<B> {
    door: Door<B>,
    router: Router,
    /// The client's.
    address: IpAddr,
}

impl<B: Backend> DoorService<B> {
    /// Shares door and routes, for a client at `address`.
    pub fn new(door: Door<B>, router: Router, address: IpAddr) -> DoorService<B> {
        DoorService { door, router, address }
    }

    /// Answers one request.
    pub fn answer(
        &self,
        request: hyper::Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<B> {
        let (door, address) = (self.door.clone(), self.address);
        let hot = request.method() == Method::POST && request.uri().path() == TRANSFERS;
        // Cloning the routes costs as much as a vote; only requests that need them pay.
        let router = (!hot).then(|| self.router.clone());
        async move {
            let websocket = door.websocket.as_ref().filter(|door| *door.settings.path == *request.uri().path());
            let response = match (router, websocket) {
                // Past the routes, because it must have hyper's own request.
                (_, Some(websocket)) => {
                    let answer = websocket.answer(&door.backend, request, address);
                    answer.unwrap_or_else(|problem| problem.into_response())
                }
                (None, None) => {
                    let (head, body) = request.into_parts();
                    door.transfer(&head, body).await.into_response()
                }
                (Some(router), None) => explain_method(route(router, request).await),
            };
            door.metrics.answered(response.status());
            Ok(response)
        }
    }
}

async fn route(mut router: Router, request: hyper::Request<Incoming>) -> Response<Body> {
    // Routers are always ready.
    let ready = Service::<HttpRequest>::poll_ready(&mut router, &mut Context::from_waker(std::task::Waker::noop()));
    debug_assert!(matches!(ready, Poll::Ready(Ok(()))));
    let answer: Result<_, Infallible> = router.call(request.map(Body::new)).await;
    answer.unwrap_or_else(|never| match never {})
}

/// axum answers a wrong method with `Allow` and no body; the body is ours.
fn explain_method(response: Response<Body>) -> Response<Body> {
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        return response;
    }
    let mut explained = Problem::method_not_allowed().into_response();
    if let Some(allow) = response.headers().get(header::ALLOW) {
        explained.headers_mut().insert(header::ALLOW, allow.clone());
    }
    explained
}

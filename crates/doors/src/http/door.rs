//! The state of one edge thread, which its rooms share.

use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request as HttpRequest;
use axum::http::Response;
use http_body_util::Full;

use super::connection::Stopping;
use super::cors::Cors;
use super::demo::DemoShow;
use super::lane::encode::{self, DateLine};
use super::limits::HttpLimits;
use super::metrics::HttpMetrics;
use super::metrics_text::MetricsText;
use super::operations::{Operations, OwnRoom};
use super::proxied::HttpProxies;
use super::rooms::{Documents, HttpRoom, RoomsError, Routing, RoutingBuilder};
use super::turns::RequestTurns;
use super::upgrade::Upgrade;
use super::walks;
use crate::auth::{Authenticator, CursorSeal, InForce, PasswordHash, TokenCache};
use crate::held_bytes::{HeldBytes, HeldBytesLimits};
use crate::json::{OverBound, Problem, ProblemCode, codes};
use crate::refusal_metrics::RefusalMetrics;
use crate::request_metrics::RequestMetrics;
use crate::turns::PlacesInTurn;

/// What all requests of one edge thread share. Cheap to clone.
#[derive(Clone)]
pub struct Door {
    shared: Arc<Shared>,
}

/// The fields behind a [`Door`]. Only this thread locks the mutexes. They are there because axum requires its state to
/// be `Sync`.
pub struct Shared {
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) operations: Arc<dyn Operations>,
    pub(super) proxies: HttpProxies,
    pub(super) limits: HttpLimits,
    pub(super) metrics: HttpMetrics,
    pub(super) open_paths: Vec<Box<str>>,
    pub(super) cors: Cors,
    pub(super) demo: Arc<DemoShow>,
    pub(super) upgrade: Option<Arc<dyn Upgrade>>,
    /// One copy for all who read it, however slowly.
    pub(super) openapi: Bytes,
    pub(super) tokens: Mutex<TokenCache>,
    /// Whose request is next.
    pub(super) turns: Arc<RequestTurns>,
    /// Who reads a large piece next.
    pub(super) walks: PlacesInTurn,
    /// What is read of bodies that are not whole.
    pub(super) bodies: Arc<HeldBytes>,
    /// Ends what would go on for as long as its client reads.
    pub(super) stopping: Stopping,
    /// By form.
    pub(super) metrics_text: Mutex<[MetricsText; 2]>,
    date: Mutex<DateLine>,
    refused: Mutex<RefusalMetrics>,
    requests: Mutex<RequestMetrics>,
}

/// What a door is made of, beside its rooms.
pub(super) struct DoorOptions {
    pub authenticator: Arc<Authenticator>,
    pub operations: Arc<dyn Operations>,
    pub proxies: HttpProxies,
    pub limits: HttpLimits,
    pub metrics: HttpMetrics,
    pub refused: RefusalMetrics,
    pub requests: RequestMetrics,
    pub open_paths: Vec<Box<str>>,
    pub cors: Cors,
    pub demo: Arc<DemoShow>,
    pub upgrade: Option<Arc<dyn Upgrade>>,
    pub stopping: Stopping,
}

impl Deref for Door {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Door {
    /// The server as an operator sees it.
    pub fn operations(&self) -> &dyn Operations {
        &*self.operations
    }
}

impl Door {
    /// The OpenAPI document, as JSON.
    pub(super) fn document(&self) -> &str {
        std::str::from_utf8(&self.openapi).expect("JSON is text")
    }

    /// A door before `rooms`.
    pub(super) fn open(options: DoorOptions, rooms: Vec<Box<dyn HttpRoom>>) -> Result<(Door, Routing), RoomsError> {
        let DoorOptions { authenticator, operations, limits, metrics, refused, requests, .. } = options;
        let DoorOptions { proxies, open_paths, cors, demo, upgrade, stopping, .. } = options;
        let own: Box<dyn HttpRoom> = Box::new(OwnRoom);
        let rooms: Vec<Box<dyn HttpRoom>> = std::iter::once(own).chain(rooms).collect();
        let mut documents = Documents::new();
        let mut documented: Vec<Vec<String>> = Vec::new();
        for room in &rooms {
            let part = room.openapi();
            documented.push(part.paths.paths.keys().cloned().collect());
            documents.add(room.name(), part, &room.codes())?;
        }
        let shared = Shared {
            authenticator,
            operations,
            proxies,
            limits,
            metrics,
            openapi: documents.finish(&open_paths).into(),
            open_paths,
            cors,
            demo,
            upgrade,
            tokens: Mutex::new(TokenCache::new(limits.tokens_cached_max)),
            turns: Arc::default(),
            walks: walks::places(),
            bodies: HeldBytes::new(HeldBytesLimits {
                // One body always finds room.
                all_max: limits.bodies_bytes_max.max(limits.body_bytes_max.saturating_mul(4)),
                of_viewer_max: limits.bodies_of_viewer_bytes_max.max(limits.body_bytes_max),
            }),
            stopping,
            metrics_text: Mutex::default(),
            date: Mutex::default(),
            refused: Mutex::new(refused),
            requests: Mutex::new(requests),
        };
        let door = Door { shared: Arc::new(shared) };
        let mut routing = RoutingBuilder::new();
        for (room, documented) in rooms.into_iter().zip(documented) {
            routing.add(room.name(), room.routes(&door), &documented)?;
        }
        Ok((door, routing.finish(answer_unknown)))
    }

    /// The bounds of this thread's requests.
    pub fn limits(&self) -> &HttpLimits {
        &self.limits
    }

    /// What hides where a list goes on.
    pub fn cursors(&self) -> &CursorSeal {
        self.authenticator.cursors()
    }

    /// The services and users that are managed while the server runs, as they are in force.
    pub fn in_force(&self) -> InForce {
        self.authenticator.in_force()
    }

    /// Waits until the record of this sequence of those is in force.
    pub async fn is_in_force(&self, sequence: u64) {
        self.authenticator.is_in_force(sequence).await;
    }

    /// Hashes a new password, on one of the few threads that do.
    pub async fn hash_password(&self, password: String) -> Result<PasswordHash, Problem> {
        let hash = self.in_time(self.authenticator.hash_password(password)).await?;
        hash.map_err(|error| Problem::new(codes::BUSY, error.to_string()).retry_after_s(1))
    }

    /// Waits for `answer` as long as a request may take, [`HttpLimits::request_timeout`]. Later, the outcome is unknown
    /// to the client.
    pub async fn in_time<T>(&self, answer: impl Future<Output = T>) -> Result<T, Problem> {
        tokio::time::timeout(self.limits.request_timeout, answer).await.map_err(|_| {
            let detail = "no answer came in time; the outcome is unknown, a retry with the same id is safe";
            Problem::new(codes::TIMED_OUT, detail).retry_after_s(1)
        })
    }

    /// Counts an answer, and why it is a refusal if it is one.
    pub(super) fn answered<B>(&self, answer: &Response<B>) {
        self.metrics.answered(answer.status());
        let Some(code) = answer.extensions().get::<ProblemCode>() else { return };
        let refused = self.refused.lock().expect("no thread panics while it counts");
        refused.refusals.increment(code.name());
        if let Some(OverBound(bound)) = answer.extensions().get() {
            refused.quota.increment(bound);
        }
    }

    /// Appends a whole answer. Returns whether its connection ends with it; it does if `is_last`.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>, answer: Response<Full<Bytes>>, is_last: bool) -> bool {
        let mut date = self.date.lock().expect("no thread panics while it holds the date");
        encode::append(bytes, answer, is_last, &mut date)
    }

    /// Counts how long a request took.
    pub(super) fn took(&self, operation: &'static str, took: Duration) {
        let requests = self.requests.lock().expect("no thread panics while it counts");
        requests.took.record(operation, took.as_nanos() as u64);
    }

    /// Whether `path` is served without a token.
    pub fn is_open(&self, path: &str) -> bool {
        self.open_paths.iter().any(|open| **open == *path)
    }
}

fn answer_unknown(router: Router) -> Router {
    router.fallback(|request: HttpRequest| async move { Problem::path_unknown(request.uri().path()) })
}

//! What rooms register at the HTTP door, and how the door merges it.
//!
//! ```text
//!   room ─┬─ openapi ─┐                                    ┌─▶ /openapi.json
//!         ├─ codes ───┼─▶ merge: each path, operation,  ───┼─▶ axum's routes
//!         └─ routes ──┘   schema and code has one owner    └─▶ hot paths
//! ```
//!
//! Promise: a door that opens serves what its document says. A path that is documented and not served, served and not
//! documented, or wanted by two rooms is an error at start that names who wants it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request as HttpRequest;
use axum::http::request::Parts;
use axum::http::{Method, Response, Uri};
use axum::middleware::{Next, from_fn};
use axum::routing::MethodRouter;
use http_body_util::Full;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{OpenApi, RefOr};

use super::body::HotBody;
use super::door::Door;
use super::lane::plain;
use super::openapi;
use crate::json::{ProblemCode, codes};

/// The future of an answer: the one box that a request costs.
pub type Answer<B = Body> = Pin<Box<dyn Future<Output = Response<B>> + Send>>;

/// A room behind the HTTP door. Each edge thread has one of its own.
pub trait HttpRoom: Send {
    /// Its name, for people who read an error at start.
    fn name(&self) -> &'static str;

    /// Its part of the OpenAPI document: paths, schemas and tags. A description of the document becomes a paragraph of
    /// the whole.
    fn openapi(&self) -> OpenApi;

    /// The codes of its problems, beside [`codes::ALL`](crate::json::codes::ALL). No other room may have one of them.
    fn codes(&self) -> Vec<ProblemCode>;

    /// Its routes. `door` says who a caller is and how long a body may be; the room keeps a clone of it.
    fn routes(self: Box<Self>, door: &Door) -> Routes;
}

/// Which operation answered, as metrics name it: `GET /v1/accounts/{id}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation(pub &'static str);

/// The operation of a request that no room answered.
pub(super) const NO_OPERATION: Operation = Operation("none");

/// The routes of one room.
#[derive(Default)]
pub struct Routes {
    documented: Vec<(String, MethodRouter)>,
    hidden: Vec<(String, MethodRouter)>,
    beside: Vec<(String, MethodRouter)>,
    hot: Vec<HotPath>,
}

/// Answers a hot request.
type HotAnswer = dyn Fn(Arc<Parts>, HotBody) -> Answer<Full<Bytes>> + Send + Sync;

/// A path whose requests are answered without a look at the routes.
pub(super) struct HotPath {
    method: Method,
    uri: Uri,
    request_line: Box<[u8]>,
    operation: Operation,
    answer: Box<HotAnswer>,
}

impl HotPath {
    fn new(method: Method, path: &'static str, answer: Box<HotAnswer>) -> HotPath {
        let operation = operation_of(&method, path);
        let request_line = plain::request_line(&method, path);
        HotPath { method, uri: Uri::from_static(path), request_line, operation, answer }
    }

    /// Of its requests.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Of its requests, without a query.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The first line of its plain requests.
    pub fn request_line(&self) -> &[u8] {
        &self.request_line
    }

    /// The operation of its requests.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The answer to one of them.
    pub fn answer(&self, head: Arc<Parts>, body: HotBody) -> Answer<Full<Bytes>> {
        (self.answer)(head, body)
    }
}

impl Routes {
    /// No routes yet.
    pub fn new() -> Routes {
        Routes::default()
    }

    /// Serves `path`, in axum's notation (`/v1/counters/{name}`), with handlers that have their state already.
    pub fn route(mut self, path: &str, methods: MethodRouter) -> Routes {
        self.documented.push((path.to_owned(), methods));
        self
    }

    /// Serves a path that is for people and is not in the OpenAPI document.
    pub fn hidden(mut self, path: &str, methods: MethodRouter) -> Routes {
        self.hidden.push((path.to_owned(), methods));
        self
    }

    /// Serves further methods of a path that another room has registered. Panics when the door opens if the other room
    /// serves one of them.
    pub fn beside(mut self, path: &str, methods: MethodRouter) -> Routes {
        self.beside.push((path.to_owned(), methods));
        self
    }

    /// Answers `method` on `path` without a look at the routes, which costs as much as a small request. The path must
    /// be one of [`Routes::route`] too, for the answer to other methods. The answer is whole when it is there, and is
    /// written at once.
    pub fn hot(
        mut self,
        method: Method,
        path: &'static str,
        answer: impl Fn(Arc<Parts>, HotBody) -> Answer<Full<Bytes>> + Send + Sync + 'static,
    ) -> Routes {
        self.hot.push(HotPath::new(method, path, Box::new(answer)));
        self
    }
}

/// Why rooms cannot be merged: two want the same thing, or one does not serve what its document says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoomsError {
    /// Two rooms want the same thing.
    #[error("the rooms {first:?} and {second:?} both register the {what} {name:?}; rename it in one of them")]
    Twice {
        /// What it is: a path, an operation, a schema, a problem code.
        what: &'static str,
        /// Its name.
        name: String,
        /// The room that came first.
        first: &'static str,
        /// The other room; the same one if it registers something twice.
        second: &'static str,
    },
    /// A path stands in the room's document and has no route.
    #[error("the room {room:?} documents {path:?} and has no route for it")]
    Unserved {
        /// The room.
        room: &'static str,
        /// The path.
        path: String,
    },
    /// A path has a route and does not stand in the room's document.
    #[error("the room {room:?} serves {path:?} and does not document it; `Routes::hidden` is for pages")]
    Undocumented {
        /// The room.
        room: &'static str,
        /// The path.
        path: String,
    },
}

/// Who has registered each name of one kind.
struct Owners {
    what: &'static str,
    names: BTreeMap<String, &'static str>,
}

impl Owners {
    fn of(what: &'static str) -> Owners {
        Owners { what, names: BTreeMap::new() }
    }

    fn take(&mut self, name: &str, room: &'static str) -> Result<(), RoomsError> {
        match self.names.insert(name.to_owned(), room) {
            None => Ok(()),
            Some(first) => Err(RoomsError::Twice { what: self.what, name: name.to_owned(), first, second: room }),
        }
    }
}

/// The documents of all rooms as one.
pub(super) struct Documents {
    whole: OpenApi,
    paths: Owners,
    operations: Owners,
    codes: Owners,
    schemas: BTreeMap<String, (&'static str, RefOr<Schema>)>,
}

impl Documents {
    /// Only what is said of all rooms.
    pub fn new() -> Documents {
        Documents {
            whole: openapi::frame(),
            paths: Owners::of("path"),
            operations: Owners::of("operation"),
            codes: Owners::of("problem code"),
            schemas: BTreeMap::new(),
        }
    }

    /// Adds what a room says. The first room is the door itself, whose codes are [`codes::ALL`].
    pub fn add(&mut self, room: &'static str, part: OpenApi, codes: &[ProblemCode]) -> Result<(), RoomsError> {
        for code in codes {
            self.codes.take(code.name(), room)?;
        }
        for (path, item) in part.paths.paths {
            self.paths.take(&shape(&path), room)?;
            for operation in openapi::operations(&item) {
                self.operations.take(operation, room)?;
            }
            self.whole.paths.paths.insert(path, item);
        }
        let components = self.whole.components.get_or_insert_default();
        for (name, schema) in part.components.into_iter().flat_map(|components| components.schemas) {
            match self.schemas.get(&name) {
                Some((_, same)) if *same == schema => {}
                Some((first, _)) => {
                    return Err(RoomsError::Twice { what: "schema", name, first, second: room });
                }
                None => {
                    components.schemas.insert(name.clone(), schema.clone());
                    self.schemas.insert(name, (room, schema));
                }
            }
        }
        self.whole.tags.get_or_insert_default().extend(part.tags.into_iter().flatten());
        if let Some(more) = part.info.description.filter(|text| !text.is_empty()) {
            let description = self.whole.info.description.get_or_insert_default();
            description.push_str("\n\n");
            description.push_str(&more);
        }
        Ok(())
    }

    /// The whole as JSON, for a door that serves `open_paths` without a token.
    pub fn finish(mut self, open_paths: &[Box<str>]) -> String {
        if self.whole.tags.as_ref().is_some_and(Vec::is_empty) {
            self.whole.tags = None;
        }
        openapi::open(&mut self.whole, open_paths);
        openapi::name_codes(&mut self.whole, self.codes.names.keys());
        self.whole.to_json().expect("the document is plain JSON")
    }
}

/// Where requests go.
#[derive(Default)]
pub(super) struct Routing {
    router: Router,
    hot: Vec<HotPath>,
}

/// Collects the routes of all rooms.
pub(super) struct RoutingBuilder {
    paths: Owners,
    routing: Routing,
}

impl RoutingBuilder {
    /// No rooms yet.
    pub fn new() -> RoutingBuilder {
        RoutingBuilder { paths: Owners::of("path"), routing: Routing::default() }
    }

    /// Adds the routes of a room that documents the paths in `documented`.
    pub fn add(&mut self, room: &'static str, routes: Routes, documented: &[String]) -> Result<(), RoomsError> {
        let served = |path: &String| routes.documented.iter().any(|(served, _)| served == path);
        if let Some(path) = documented.iter().find(|path| !served(path)) {
            return Err(RoomsError::Unserved { room, path: path.clone() });
        }
        if let Some((path, _)) = routes.documented.iter().find(|(path, _)| !documented.contains(path)) {
            return Err(RoomsError::Undocumented { room, path: path.clone() });
        }
        if let Some(hot) = routes.hot.iter().find(|hot| !served(&hot.uri.path().to_owned())) {
            return Err(RoomsError::Undocumented { room, path: hot.uri.path().to_owned() });
        }
        for (path, methods) in routes.documented.into_iter().chain(routes.hidden) {
            self.paths.take(&shape(&path), room)?;
            let methods = named(&path, methods);
            self.routing.router = std::mem::take(&mut self.routing.router).route(&path, methods);
        }
        for (path, methods) in routes.beside {
            let methods = named(&path, methods);
            self.routing.router = std::mem::take(&mut self.routing.router).route(&path, methods);
        }
        self.routing.hot.extend(routes.hot);
        Ok(())
    }

    /// All of them; `fallback` answers every other path.
    pub fn finish(self, fallback: impl FnOnce(Router) -> Router) -> Routing {
        Routing { router: fallback(self.routing.router), hot: self.routing.hot }
    }
}

impl Routing {
    /// The hot path of requests for `method` on `path`, if they are hot.
    pub fn hot(&self, method: &Method, path: &str) -> Option<&HotPath> {
        self.hot.iter().find(|hot| hot.method == *method && hot.uri.path() == path)
    }

    /// All of them.
    pub fn hot_paths(&self) -> &[HotPath] {
        &self.hot
    }

    /// The routes that are not hot.
    pub fn router(&self) -> &Router {
        &self.router
    }
}

/// Has answers on `path` say which operation they are of.
fn named(path: &str, methods: MethodRouter) -> MethodRouter {
    const METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let operations = METHODS.map(|method| operation_of(&method, path));
    methods.layer(from_fn(move |request: HttpRequest, next: Next| {
        let known = METHODS.iter().position(|method| method == request.method());
        let operation = known.map_or(NO_OPERATION, |place| operations[place]);
        async move {
            let mut answer = next.run(request).await;
            answer.extensions_mut().insert(operation);
            answer
        }
    }))
}

/// The name of an operation. It is kept for ever: there are some hundred of them, made when a door opens.
fn operation_of(method: &Method, path: &str) -> Operation {
    Operation(Box::leak(format!("{method} {path}").into_boxed_str()))
}

/// A path without the names of its parts: `/v1/{a}` and `/v1/{b}` are the same to a router.
fn shape(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        _ if part.starts_with("{*") => "{*}",
        _ if part.starts_with('{') => "{}",
        _ => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// The codes of the door itself.
pub(super) fn own_codes() -> &'static [ProblemCode] {
    codes::ALL
}

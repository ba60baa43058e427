//! A room that another crate could add beside the ledger: it uses public items only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, Response, StatusCode};
use axum::routing::{MethodRouter, get, post};
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use super::server::{COUNTING, SERVICE, TestServer};
use crate::auth::Action;
use crate::http::{BodyProblems, Door, GuardProblems, HttpLimits, HttpRoom, RoomsError, Routes};
use crate::json::{Problem, ProblemBody, ProblemCode, Whole, decode, encode, json, whole_response};

const COUNTER_NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "counter_not_found");

/// Counters in a map.
#[derive(Clone)]
struct Counters {
    door: Door,
    values: Arc<Mutex<BTreeMap<String, u64>>>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AddBody {
    #[schema(value_type = u64, minimum = 1)]
    by: Whole,
}

#[derive(Serialize, ToSchema)]
struct CounterBody {
    value: u64,
}

#[utoipa::path(
    get,
    path = "/v1/counters/{name}",
    tag = "counters",
    params(("name" = String, Path)),
    responses((status = 200, body = CounterBody), (status = 404, body = ProblemBody), GuardProblems)
)]
async fn read_counter(
    State(counters): State<Counters>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    if !counters.door.caller(&headers)?.may("counters", Action::Read, &name) {
        return Err(Problem::forbidden(format!("this token may not read counter {name:?}")));
    }
    let values = counters.values.lock().unwrap();
    let value = values.get(&name).ok_or_else(|| Problem::new(COUNTER_NOT_FOUND, "there is no counter of this name"))?;
    Ok(json(StatusCode::OK, &CounterBody { value: *value }))
}

#[utoipa::path(
    post,
    path = "/v1/counters/{name}/add",
    tag = "counters",
    params(("name" = String, Path)),
    request_body = AddBody,
    responses((status = 200, body = CounterBody), GuardProblems, BodyProblems)
)]
async fn add_to_counter(
    State(counters): State<Counters>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    if !counters.door.caller(&head.headers)?.may("counters", Action::Write, &name) {
        return Err(Problem::forbidden(format!("this token may not add to counter {name:?}")));
    }
    let body = counters.door.read_json(&head.headers, body).await?;
    let AddBody { by } = decode(&body)?;
    let mut values = counters.values.lock().unwrap();
    let value = values.entry(name).or_default();
    *value += by.0;
    Ok(json(StatusCode::OK, &CounterBody { value: *value }))
}

#[derive(OpenApi)]
#[openapi(info(description = "Counters that only grow."), paths(read_counter, add_to_counter))]
struct Document;

/// The room, with one thing changed where a test wants that.
struct CounterRoom {
    name: &'static str,
    change: fn(&mut utoipa::openapi::OpenApi),
    codes: Vec<ProblemCode>,
    more: Option<&'static str>,
    hot: Option<&'static str>,
}

impl CounterRoom {
    fn good() -> CounterRoom {
        CounterRoom { name: "counters", change: |_| {}, codes: vec![COUNTER_NOT_FOUND], more: None, hot: None }
    }
}

impl HttpRoom for CounterRoom {
    fn name(&self) -> &'static str {
        self.name
    }

    fn openapi(&self) -> utoipa::openapi::OpenApi {
        let mut document = Document::openapi();
        (self.change)(&mut document);
        document
    }

    fn codes(&self) -> Vec<ProblemCode> {
        self.codes.clone()
    }

    fn routes(self: Box<Self>, door: &Door) -> Routes {
        let counters = Counters { door: door.clone(), values: Arc::default() };
        let routes = Routes::new()
            .route("/v1/counters/{name}", get(read_counter).with_state(counters.clone()))
            .route("/v1/counters/{name}/add", post(add_to_counter).with_state(counters));
        let routes = match self.more {
            Some(path) => routes.hidden(path, MethodRouter::new()),
            None => routes,
        };
        match self.hot {
            Some(path) => {
                routes.hot(Method::PUT, path, |_, _| Box::pin(async { whole_response(StatusCode::OK, encode(&"hot")) }))
            }
            None => routes,
        }
    }
}

#[test]
fn a_room_from_outside_is_served_beside_the_ledger() {
    let server = TestServer::with_rooms(HttpLimits::default(), None, vec![Box::new(CounterRoom::good())]).unwrap();
    let add = |token: &str, name: &str, body: &str| {
        server.ask(token, "POST", &format!("/v1/counters/{name}/add"), body).summary()
    };
    let read = |token: &str, name: &str| server.ask(token, "GET", &format!("/v1/counters/{name}"), "");
    assert_eq!(read(COUNTING, "hits:a").summary(), "404 counter_not_found");
    assert_eq!(add(COUNTING, "hits:a", r#"{"by":2}"#), "200");
    assert_eq!(add(SERVICE, "hits:a", r#"{"by":3}"#), "200");
    assert_eq!(read(COUNTING, "hits:a").json()["value"], 5);
    assert_eq!(add(COUNTING, "votes", r#"{"by":2}"#), "403 forbidden");
    assert_eq!(add(&server.log_in("dave"), "hits:a", r#"{"by":2}"#), "403 forbidden");
    assert_eq!(add("", "hits:a", r#"{"by":2}"#), "401 token_missing");
    assert_eq!(add(COUNTING, "hits:a", r#"{"by":-2}"#), "422 field_invalid");
    assert_eq!(server.ask(SERVICE, "DELETE", "/v1/counters/hits:a", "").summary(), "405 method_not_allowed");
    assert_eq!(server.ask(COUNTING, "GET", "/v1/accounts/wallet:dave", "").summary(), "403 forbidden");
    assert_eq!(server.ask(SERVICE, "GET", "/v1/accounts/wallet:dave", "").summary(), "200");
}

#[test]
fn the_document_tells_of_all_rooms() {
    let server = TestServer::with_rooms(HttpLimits::default(), None, vec![Box::new(CounterRoom::good())]).unwrap();
    let document = server.ask("", "GET", "/openapi.json", "").json();
    for path in ["/healthz", "/v1/transfers", "/v1/counters/{name}", "/v1/counters/{name}/add"] {
        assert!(document["paths"].get(path).is_some(), "{path}");
    }
    for schema in ["ProblemBody", "AccountBody", "CounterBody"] {
        assert!(document["components"]["schemas"].get(schema).is_some(), "{schema}");
    }
    let description = document["info"]["description"].as_str().unwrap();
    assert!(description.contains("never be overdrawn") && description.contains("only grow"), "{description}");
    assert_eq!(document["info"]["title"], "Tidegate");
    assert_eq!(document["paths"]["/openapi.json"]["get"]["security"], serde_json::json!([{}]), "it is open");
}

fn rename_path(document: &mut utoipa::openapi::OpenApi, to: &str) {
    let item = document.paths.paths.remove("/v1/counters/{name}").unwrap();
    document.paths.paths.insert(to.to_owned(), item);
}

#[test]
fn rooms_that_do_not_fit_are_an_error_at_start_that_names_them() {
    let twice = |what, name: &str, first| {
        let (name, second) = (name.to_owned(), "counters");
        RoomsError::Twice { what, name, first, second }
    };
    let path = "/v1/counters/{name}".to_owned();
    for (change, expected) in [
        (
            (|room| room.change = |document| rename_path(document, "/v1/accounts/{name}")) as fn(&mut CounterRoom),
            twice("path", "/v1/accounts/{}", "ledger"),
        ),
        (
            |room| room.hot = Some("/v1/counts"),
            RoomsError::Undocumented { room: "counters", path: "/v1/counts".to_owned() },
        ),
        (|room| room.more = Some("/demo"), twice("path", "/demo", "door")),
        (|room| room.more = Some("/v1/counters/{id}"), twice("path", "/v1/counters/{}", "counters")),
        (
            |room| room.codes = vec![ProblemCode::new(StatusCode::CONFLICT, "id_reused")],
            twice("problem code", "id_reused", "ledger"),
        ),
        (
            |room| room.codes = vec![ProblemCode::new(StatusCode::CONFLICT, "busy")],
            twice("problem code", "busy", "door"),
        ),
        (
            |room| {
                room.change = |document| {
                    let item = document.paths.paths.get_mut("/v1/counters/{name}").unwrap();
                    item.get.as_mut().unwrap().operation_id = Some("history".to_owned());
                }
            },
            twice("operation", "history", "ledger"),
        ),
        (
            |room| {
                room.change = |document| {
                    let schemas = &mut document.components.as_mut().unwrap().schemas;
                    let counter = schemas["CounterBody"].clone();
                    schemas.insert("AccountBody".to_owned(), counter);
                }
            },
            twice("schema", "AccountBody", "ledger"),
        ),
        (
            |room| room.change = |document| rename_path(document, "/v1/counts/{name}"),
            RoomsError::Unserved { room: "counters", path: "/v1/counts/{name}".to_owned() },
        ),
        (
            |room| room.change = |document| drop(document.paths.paths.remove("/v1/counters/{name}")),
            RoomsError::Undocumented { room: "counters", path },
        ),
    ] {
        let mut room = CounterRoom::good();
        change(&mut room);
        assert_eq!(TestServer::with_rooms(HttpLimits::default(), None, vec![Box::new(room)]).err(), Some(expected));
    }
    let mut twin = CounterRoom::good();
    twin.name = "twin";
    let rooms: Vec<Box<dyn HttpRoom>> = vec![Box::new(CounterRoom::good()), Box::new(twin)];
    let error = TestServer::with_rooms(HttpLimits::default(), None, rooms).err().unwrap().to_string();
    let expected = "the rooms \"counters\" and \"twin\" both register the problem code \"counter_not_found\"; \
                    rename it in one of them";
    assert_eq!(error, expected);
}

//! Counters over HTTP: add and read.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tidegate_doors::auth::{Action, Identity};
use tidegate_doors::http::{BodyProblems, Door, GuardProblems, HttpRoom, Routes, ServiceProblems};
use tidegate_doors::json::{Problem, ProblemBody, ProblemCode, codes, decode, json};
use tidegate_runtime::direct::DirectClient;
use tidegate_runtime::pump::EdgeHandle;
use tidegate_shard::{Decided, DecidedOf, Unavailable};
use utoipa::{IntoResponses, OpenApi, ToSchema};

use crate::family::{CounterCommands, CounterService, shard_of};
use crate::machine::{Command, Counter, Outcome, Refusal};

/// How grants name this room: `room:counters:write:visits`.
pub const ROOM: &str = "counters";

const NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "counter_not_found");
const NAME_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "counter_name_invalid");
const AMOUNT_INVALID: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "counter_amount_invalid");
const EXPIRY_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "counter_expiry_invalid");
const TOO_MANY: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "counters_too_many");

/// What a shard answers.
pub type Answered = DecidedOf<CounterCommands>;

/// A counter.
#[derive(Serialize, ToSchema)]
pub struct CounterBody {
    /// Its name.
    name: Box<str>,
    /// Its value.
    value: u64,
    /// When it expires, in milliseconds since the epoch; absent for never.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
}

/// How much to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddBody {
    /// At least 1.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991i64, example = 1)]
    amount: u64,
    /// Milliseconds until the counter expires; it never does if absent.
    #[schema(minimum = 1, example = 60000)]
    expires_in_ms: Option<u64>,
}

/// The counter for people, or the code and the sentence that say why there is none.
pub fn outcome(answered: Answered) -> Result<CounterBody, (ProblemCode, &'static str)> {
    let (Decided::Done { outcome, .. } | Decided::Answered(outcome)) = answered else {
        return Err((NAME_INVALID, "the name is too long for a record"));
    };
    match outcome {
        Outcome::Counter(Counter { name, value, expires_at }) => Ok(CounterBody { name, value, expires_at }),
        Outcome::NotFound => Err((NOT_FOUND, "there is no such counter, or it has expired")),
        Outcome::Refused(Refusal::NameInvalid) => Err((NAME_INVALID, "a name has 1 to name_bytes_max bytes, all printable")),
        Outcome::Refused(Refusal::AmountInvalid) => Err((AMOUNT_INVALID, "the amount is 0, or the value would overflow")),
        Outcome::Refused(Refusal::ExpiryInvalid) => Err((EXPIRY_INVALID, "expires_in_ms is 0 or above expires_in_ms_max")),
        Outcome::Refused(Refusal::TooMany) => Err((TOO_MANY, "there are counters_max counters; wait until some expire")),
    }
}

/// Answers about counters.
#[derive(IntoResponses)]
#[allow(dead_code, reason = "describes answers")]
enum CounterProblems {
    /// The name in the path is not percent-encoded UTF-8
    #[response(status = 400, content_type = "application/problem+json")]
    Malformed(ProblemBody),
    /// No such counter
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(ProblemBody),
    /// Not with the state as it is: `counter_amount_invalid`, `counters_too_many`
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(ProblemBody),
    /// A field or the name is not what it must be
    #[response(status = 422, content_type = "application/problem+json")]
    Invalid(ProblemBody),
}

#[derive(OpenApi)]
#[openapi(info(description = "Named counters that go up and expire."), paths(add, read))]
struct Document;

/// Counters at the door of one edge thread.
pub struct CounterHttp {
    client: EdgeHandle<DirectClient<CounterService>>,
    shards: u16,
}

/// What handlers share.
#[derive(Clone)]
struct Served {
    door: Door,
    room: Arc<CounterHttp>,
}

impl CounterHttp {
    /// Asks by `client`, which knows `shards` shards.
    pub fn new(client: EdgeHandle<DirectClient<CounterService>>, shards: u16) -> CounterHttp {
        CounterHttp { client, shards }
    }
}

impl HttpRoom for CounterHttp {
    fn name(&self) -> &'static str {
        ROOM
    }

    fn openapi(&self) -> utoipa::openapi::OpenApi {
        Document::openapi()
    }

    fn codes(&self) -> Vec<ProblemCode> {
        vec![NOT_FOUND, NAME_INVALID, AMOUNT_INVALID, EXPIRY_INVALID, TOO_MANY]
    }

    fn routes(self: Box<Self>, door: &Door) -> Routes {
        let served = Served { door: door.clone(), room: Arc::from(self) };
        Routes::new()
            .route("/v1/counters/{name}", get(read).with_state(served.clone()))
            .route("/v1/counters/{name}/add", post(add).with_state(served))
    }
}

impl Served {
    async fn ask(&self, caller: &Identity, action: Action, name: &str, command: Command) -> Result<Response<Body>, Problem> {
        if !caller.may(ROOM, action, name) {
            return Err(Problem::forbidden(format!("this token may not do this with counter {name:?}")));
        }
        let asked = self.room.client.ask((shard_of(name, self.room.shards), command));
        let answered: Result<Answered, Unavailable> = self.door.in_time(asked).await?.unwrap_or_else(|unasked| Err(unasked.into()));
        match outcome(answered?) {
            Ok(counter) => Ok(json(StatusCode::OK, &counter)),
            Err((code, detail)) => Err(Problem::new(code, detail).with("name", name)),
        }
    }
}

/// Add to a counter, which is made if there is none
#[utoipa::path(
    post,
    path = "/v1/counters/{name}/add",
    tag = "counters",
    params(("name" = inline(String), Path, description = "Counter", example = "visits", min_length = 1, max_length = 128)),
    request_body = AddBody,
    responses((status = 200, description = "The counter after it", body = CounterBody), GuardProblems, BodyProblems, CounterProblems, ServiceProblems)
)]
async fn add(State(served): State<Served>, name: Result<Path<Box<str>>, PathRejection>, request: Request) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    let name = named(name)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let AddBody { amount, expires_in_ms } = decode(&body)?;
    let command = Command::Add { name: name.clone(), amount, expires_in_ms };
    served.ask(&caller, Action::Write, &name, command).await
}

/// Read a counter
#[utoipa::path(
    get,
    path = "/v1/counters/{name}",
    tag = "counters",
    params(("name" = inline(String), Path, description = "Counter", example = "visits", min_length = 1, max_length = 128)),
    responses((status = 200, description = "The counter", body = CounterBody), GuardProblems, CounterProblems, ServiceProblems)
)]
async fn read(State(served): State<Served>, name: Result<Path<Box<str>>, PathRejection>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    let name = named(name)?;
    served.ask(&caller, Action::Read, &name, Command::Read { name: name.clone() }).await
}

fn named(name: Result<Path<Box<str>>, PathRejection>) -> Result<Box<str>, Problem> {
    let name = name.map_err(|_| Problem::new(codes::PATH_INVALID, "the counter's name is not percent-encoded UTF-8"))?;
    Ok(name.0)
}

//! Counters over HTTP: add and read.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tidegate_doors::auth::{Action, Identity};
use tidegate_doors::http::{
    BodyProblems, Door, GuardProblems, HttpRoom, NameProblems, PathName, Routes, ServiceProblems,
};
use tidegate_doors::json::{Problem, ProblemCode, decode, json};
use tidegate_runtime::direct::DirectClient;
use tidegate_runtime::pump::EdgeHandle;
use tidegate_shard::{Decided, DecidedOf};
use utoipa::{OpenApi, ToSchema};

use crate::family::{CounterCommands, CounterService, name_of};
use crate::machine::{Command, Outcome, Refusal};

/// How grants name this room: `room:counters:write:visits`.
const ROOM: &str = "counters";

const NOT_FOUND: ProblemCode = ProblemCode::new(StatusCode::NOT_FOUND, "counter_not_found");
const NAME_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "counter_name_invalid");
const AMOUNT_INVALID: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "counter_amount_invalid");
const EXPIRY_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "counter_expiry_invalid");
const TOO_MANY: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "counters_too_many");

/// What a shard answers.
pub type Answered = DecidedOf<CounterCommands>;

/// A counter.
#[derive(Debug, Serialize, ToSchema)]
pub struct CounterBody {
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
    #[schema(minimum = 1, example = 1)]
    amount: u64,
    /// Milliseconds until the counter expires; it never does if absent.
    #[schema(minimum = 1, example = 60000)]
    expires_in_ms: Option<u64>,
}

/// The counter as people see it, or why there is none.
pub fn worded(answered: Answered) -> Result<CounterBody, Problem> {
    let refusal = match answered {
        Decided::Done { outcome, .. } | Decided::Answered(outcome) => match outcome {
            Outcome::Counter { value, expires_at } => return Ok(CounterBody { value, expires_at }),
            Outcome::NotFound => return Err(Problem::new(NOT_FOUND, "there is no such counter, or it has expired")),
            Outcome::Refused(refusal) => refusal,
        },
        Decided::TooLarge => Refusal::NameInvalid,
    };
    let code = match refusal {
        Refusal::NameInvalid => NAME_INVALID,
        Refusal::AmountInvalid => AMOUNT_INVALID,
        Refusal::ExpiryInvalid => EXPIRY_INVALID,
        Refusal::TooMany => TOO_MANY,
    };
    Err(Problem::new(code, refusal.to_string()))
}

/// Whether `caller` may ask this.
pub fn check_right(caller: &Identity, command: &Command) -> Result<(), Problem> {
    let action = if matches!(command, Command::Read { .. }) { Action::Read } else { Action::Write };
    match name_of(command) {
        name if caller.may(ROOM, action, name) => Ok(()),
        name => Err(Problem::forbidden(format!("this token may not do this with counter {name:?}"))),
    }
}

#[derive(OpenApi)]
#[openapi(info(description = "Named counters that go up and expire."), paths(add, read))]
struct Document;

/// Counters at the door of one edge thread.
pub struct CounterHttp(pub EdgeHandle<DirectClient<CounterService>>);

/// What handlers share.
#[derive(Clone)]
struct Served {
    door: Door,
    client: EdgeHandle<DirectClient<CounterService>>,
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
        let served = Served { door: door.clone(), client: self.0 };
        Routes::new()
            .route("/v1/counters/{name}", get(read).with_state(served.clone()))
            .route("/v1/counters/{name}/add", post(add).with_state(served))
    }
}

impl Served {
    async fn ask(&self, caller: &Identity, command: Command) -> Result<Response<Body>, Problem> {
        check_right(caller, &command)?;
        let answered = self.door.in_time(self.client.ask(command)).await?;
        let answered = answered.unwrap_or_else(|unasked| Err(unasked.into()))?;
        Ok(json(StatusCode::OK, &worded(answered)?))
    }
}

/// Add to a counter, which is made if there is none
#[utoipa::path(
    post,
    path = "/v1/counters/{name}/add",
    tag = "counters",
    params(("name" = inline(String), Path, description = "Counter", example = "visits", min_length = 1)),
    request_body = AddBody,
    responses(
        (status = 200, description = "The counter after it", body = CounterBody),
        GuardProblems,
        BodyProblems,
        NameProblems,
        ServiceProblems,
    )
)]
async fn add(
    State(served): State<Served>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let AddBody { amount, expires_in_ms } = decode(&body)?;
    served.ask(&caller, Command::Add { name, amount, expires_in_ms }).await
}

/// Read a counter
#[utoipa::path(
    get,
    path = "/v1/counters/{name}",
    tag = "counters",
    params(("name" = inline(String), Path, description = "Counter", example = "visits", min_length = 1)),
    responses(
        (status = 200, description = "The counter", body = CounterBody),
        GuardProblems,
        NameProblems,
        ServiceProblems,
    )
)]
async fn read(
    State(served): State<Served>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    served.ask(&caller, Command::Read { name }).await
}

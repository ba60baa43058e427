//! Counters over HTTP: add and read.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::{get, post};
use serde::Deserialize;
use tidegate_doors::RoomClient;
use tidegate_doors::auth::{self, Identity};
use tidegate_doors::http::{Door, HttpRoom, PathName, RoomBodyProblems, RoomProblems, Routes};
use tidegate_doors::json::{Problem, ProblemCode, decode, json};
use tidegate_runtime::direct::DirectClient;
use tidegate_runtime::pump::EdgeHandle;
use tidegate_shard::{Decided, DecidedOf};
use utoipa::{OpenApi, ToSchema};

use crate::family::{CounterCommands, CounterService};
use crate::machine::{Action, Command, Counter, Refusal};

/// How grants name this room: `room:counters:write:visits`.
const ROOM: &str = "counters";

/// What a shard answers.
pub type Answered = DecidedOf<CounterCommands>;

/// How much to add.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddBody {
    /// At least 1.
    #[schema(minimum = 1, example = 1)]
    amount: u64,
    /// Milliseconds until the counter expires; it never does if absent. The last `add` decides.
    #[schema(minimum = 1, example = 60000)]
    expires_in_ms: Option<u64>,
}

const fn code_of(refusal: Refusal) -> ProblemCode {
    match refusal {
        Refusal::NotFound => ProblemCode::new(StatusCode::NOT_FOUND, "counter_not_found"),
        Refusal::NameInvalid => ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "counter_name_invalid"),
        Refusal::AmountInvalid => ProblemCode::new(StatusCode::CONFLICT, "counter_amount_invalid"),
        Refusal::ExpiryInvalid => ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "counter_expiry_invalid"),
        Refusal::TooMany => ProblemCode::new(StatusCode::CONFLICT, "counters_too_many"),
    }
}

/// The counter, or why there is none.
pub fn worded(answered: Answered) -> Result<Counter, Problem> {
    let outcome = match answered {
        Decided::Done { outcome, .. } | Decided::Answered(outcome) => outcome,
        Decided::TooLarge => Err(Refusal::NameInvalid),
    };
    outcome.map_err(|refusal| Problem::new(code_of(refusal), refusal.to_string()))
}

/// Whether `caller` may ask this.
pub fn check_right(caller: &Identity, Command { name, action }: &Command) -> Result<(), Problem> {
    let right = if matches!(action, Action::Read) { auth::Action::Read } else { auth::Action::Write };
    match caller.may(ROOM, right, name) {
        true => Ok(()),
        false => Err(Problem::forbidden("this token may not do this with this counter")),
    }
}

#[derive(OpenApi)]
#[openapi(info(description = "Named counters that go up and expire."), paths(add_to_counter, read_counter))]
struct Document;

/// Counters at the door of one edge thread.
pub struct CounterHttp(pub EdgeHandle<DirectClient<CounterService>>);

/// What handlers share.
type Served = RoomClient<DirectClient<CounterService>>;

impl HttpRoom for CounterHttp {
    fn name(&self) -> &'static str {
        ROOM
    }

    fn openapi(&self) -> utoipa::openapi::OpenApi {
        Document::openapi()
    }

    fn codes(&self) -> Vec<ProblemCode> {
        use Refusal::{AmountInvalid, ExpiryInvalid, NameInvalid, NotFound, TooMany};
        [NotFound, NameInvalid, AmountInvalid, ExpiryInvalid, TooMany].map(code_of).into()
    }

    fn routes(self: Box<Self>, door: &Door) -> Routes {
        let served = RoomClient::new(door.clone(), self.0);
        Routes::new()
            .route("/v1/counters/{name}", get(read_counter).with_state(served.clone()))
            .route("/v1/counters/{name}/add", post(add_to_counter).with_state(served))
    }
}

async fn ask(served: &Served, caller: &Identity, command: Command) -> Result<Response<Body>, Problem> {
    check_right(caller, &command)?;
    Ok(json(StatusCode::OK, &worded(served.ask(command).await?)?))
}

/// Add to a counter, which is made if there is none
#[utoipa::path(
    post,
    path = "/v1/counters/{name}/add",
    tag = "counters",
    params(("name" = inline(String), Path, description = "Counter", example = "visits", min_length = 1)),
    request_body = AddBody,
    responses((status = 200, description = "The counter after it", body = Counter), RoomBodyProblems)
)]
async fn add_to_counter(
    State(served): State<Served>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let AddBody { amount, expires_in_ms } = decode(&body)?;
    ask(&served, &caller, Command { name, action: Action::Add { amount, expires_in_ms } }).await
}

/// Read a counter
#[utoipa::path(
    get,
    path = "/v1/counters/{name}",
    tag = "counters",
    params(("name" = inline(String), Path, description = "Counter", example = "visits", min_length = 1)),
    responses((status = 200, description = "The counter", body = Counter), RoomProblems)
)]
async fn read_counter(
    State(served): State<Served>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    ask(&served, &caller, Command { name, action: Action::Read }).await
}

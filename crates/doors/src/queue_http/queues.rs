//! Queues: their settings, and how they are.

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Deserializer, Serialize};
use tidegate_queue::machine::{Outcome, QueueView, Settings};
use tidegate_queue::{Answer, Call, DeliveryWindow, Rates, Read};
use utoipa::ToSchema;

use super::messages::now;
use super::openapi::{QueueBodyProblems, QueuePath, QueueProblems};
use super::page::{Page, ROWS_MAX};
use super::{Served, ask, check_right, managing, may_know, owner_of};
use crate::auth::{Identity, QueueAction};
use crate::http::{InQuery, PathName, PeerAddress};
use crate::json::{Problem, UpTo, Whole, Whole32, decode, json};

/// Settings of a queue, all in milliseconds where they are times. What is absent is as by default, or as it was.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSettingsPutBody {
    /// How long a lease lasts if the receiver does not say: 1 to 43,200,000; 30,000 by default.
    #[schema(value_type = Option<u64>, example = 30000)]
    lease_ms: Option<Whole>,
    /// How long a message waits before its first delivery if the sender does not say; 0 by default.
    #[schema(value_type = Option<u64>)]
    delay_ms: Option<Whole>,
    /// After how long a message is dropped that nobody acknowledged; `null`, the default, for never.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>)]
    expiry_ms: Option<Option<Whole>>,
    /// Deliveries after which a message goes to the dead letter queue; `null`, the default, for as many as it takes.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u16>)]
    attempts_max: Option<Option<UpTo<65_535>>>,
    /// The queue where messages go that were delivered too often, or rejected as dead; `null` by default.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    dead_letter: Option<Option<Box<str>>>,
    /// How long a rejected message waits after its first delivery; twice as long after each further one. 0 by default.
    #[schema(value_type = Option<u64>)]
    retry_ms: Option<Whole>,
    /// The longest that a rejected message waits; 3,600,000 by default.
    #[schema(value_type = Option<u64>)]
    retry_max_ms: Option<Whole>,
    /// How long ids of messages are remembered: 300,000 by default, 0 for not at all, `null` for ever.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, example = 300000)]
    id_window_ms: Option<Option<Whole>>,
    /// Whether the id of a message that is sent for a later time is remembered until that time, and for `id_window_ms`
    /// from then on: so long it is found, taken back and scheduled anew by it, and not taken twice. To schedule it anew
    /// does not change how long, nor does it to take it back. Each takes memory, and counts for the ids that the server
    /// lets a queue have. false by default.
    ids_until_due: Option<bool>,
    /// Messages a second that are handed out; `null`, the default, for as many as are asked for.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    rate_per_s: Option<Option<Whole32>>,
    /// Messages that may be handed out at once under that rate; 1 by default.
    #[schema(value_type = Option<u32>)]
    burst: Option<Whole32>,
    /// Whether messages are taken and none is handed out; false by default.
    paused: Option<bool>,
    /// Messages that may be in the queue at once; `null`, the default, for as many as the server lets one queue have.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>)]
    messages_max: Option<Option<Whole>>,
    /// How long it is remembered what became of a message that is gone; 3,600,000 by default.
    #[schema(value_type = Option<u64>)]
    trail_ms: Option<Whole>,
    /// When messages are handed out: two times of the day and a time zone, perhaps with days before them, such as
    /// `08:00-20:00 Europe/Berlin`, `mon-fri 22:00-06:00 UTC` or `sat,sun 00:00-24:00 UTC`. A window over midnight is
    /// of the day on which it opens. `null`, the default, for always.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, example = "mon-fri 08:00-20:00 Europe/Berlin")]
    delivery_window: Option<Option<Box<str>>>,
    /// Messages a second that each consumer is handed out: the name that a receiver gives, or that of its token's
    /// owner. `null`, the default, for as many as it asks for. Not remembered over a restart.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    consumer_rate_per_s: Option<Option<Whole32>>,
    /// Messages that each consumer may be handed out at once under that rate; 1 by default.
    #[schema(value_type = Option<u32>)]
    consumer_burst: Option<Whole32>,
}

/// A field that may be `null`, which is something else than absent.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl QueueSettingsPutBody {
    /// Who sets where dead letters go puts messages there.
    fn check_dead_letter(&self, caller: &Identity) -> Result<(), Problem> {
        match self.dead_letter.as_ref().and_then(Option::as_ref) {
            Some(target) => check_right(caller, QueueAction::Admin, target),
            None => Ok(()),
        }
    }

    /// What is given, over `settings`.
    fn over(self, settings: Settings) -> Settings {
        let whole = |given: Option<Whole>, before: u64| given.map_or(before, |given| given.0);
        let wide = |given: Option<Option<Whole>>, before: Option<u64>| match given {
            Some(given) => given.map(|given| given.0),
            None => before,
        };
        let rate = |given: Option<Option<Whole32>>, before: Option<u32>| match given {
            Some(given) => given.map(Whole32::get),
            None => before,
        };
        Settings {
            lease_ms: whole(self.lease_ms, settings.lease_ms),
            delay_ms: whole(self.delay_ms, settings.delay_ms),
            expiry_ms: wide(self.expiry_ms, settings.expiry_ms),
            attempts_max: match self.attempts_max {
                Some(given) => given.map(|given| given.0 as u16),
                None => settings.attempts_max,
            },
            dead_letter: self.dead_letter.unwrap_or(settings.dead_letter),
            retry_ms: whole(self.retry_ms, settings.retry_ms),
            retry_max_ms: whole(self.retry_max_ms, settings.retry_max_ms),
            id_window_ms: wide(self.id_window_ms, settings.id_window_ms),
            ids_until_due: self.ids_until_due.unwrap_or(settings.ids_until_due),
            rate_per_s: rate(self.rate_per_s, settings.rate_per_s),
            burst: self.burst.map_or(settings.burst, Whole32::get),
            is_paused: self.paused.unwrap_or(settings.is_paused),
            messages_max: wide(self.messages_max, settings.messages_max),
            trail_ms: whole(self.trail_ms, settings.trail_ms),
            delivery_window: self.delivery_window.unwrap_or(settings.delivery_window),
            consumer_rate_per_s: rate(self.consumer_rate_per_s, settings.consumer_rate_per_s),
            consumer_burst: self.consumer_burst.map_or(settings.consumer_burst, Whole32::get),
            notes: settings.notes,
            owner: settings.owner,
        }
    }
}

/// Settings as they are.
#[derive(Serialize, ToSchema)]
pub struct QueueSettingsBody {
    lease_ms: u64,
    delay_ms: u64,
    expiry_ms: Option<u64>,
    attempts_max: Option<u16>,
    dead_letter: Option<Box<str>>,
    retry_ms: u64,
    retry_max_ms: u64,
    id_window_ms: Option<u64>,
    ids_until_due: bool,
    rate_per_s: Option<u32>,
    burst: u32,
    paused: bool,
    messages_max: Option<u64>,
    trail_ms: u64,
    delivery_window: Option<Box<str>>,
    consumer_rate_per_s: Option<u32>,
    consumer_burst: u32,
}

impl From<Settings> for QueueSettingsBody {
    fn from(settings: Settings) -> QueueSettingsBody {
        QueueSettingsBody {
            lease_ms: settings.lease_ms,
            delay_ms: settings.delay_ms,
            expiry_ms: settings.expiry_ms,
            attempts_max: settings.attempts_max,
            dead_letter: settings.dead_letter,
            retry_ms: settings.retry_ms,
            retry_max_ms: settings.retry_max_ms,
            id_window_ms: settings.id_window_ms,
            ids_until_due: settings.ids_until_due,
            rate_per_s: settings.rate_per_s,
            burst: settings.burst,
            paused: settings.is_paused,
            messages_max: settings.messages_max,
            trail_ms: settings.trail_ms,
            delivery_window: settings.delivery_window,
            consumer_rate_per_s: settings.consumer_rate_per_s,
            consumer_burst: settings.consumer_burst,
        }
    }
}

/// What a queue has done since it was made.
#[derive(Serialize, ToSchema)]
pub struct QueueTotalsBody {
    /// Messages taken.
    sent: u64,
    /// Deliveries.
    delivered: u64,
    /// Messages acknowledged.
    acknowledged: u64,
    /// Deliveries that were rejected.
    rejected: u64,
    /// Deliveries whose lease ended without an answer.
    lapsed: u64,
    /// Messages that went to the dead letter queue.
    dead: u64,
    /// Messages that nobody acknowledged in time.
    expired: u64,
    /// Messages that were purged or cancelled.
    removed: u64,
}

/// Messages a second, over about 1, 10 and 100 seconds.
#[derive(Serialize, ToSchema)]
pub struct QueueRatesBody {
    /// Taken.
    #[schema(min_items = 3, max_items = 3)]
    sent_per_s: [f64; 3],
    /// Acknowledged.
    #[schema(min_items = 3, max_items = 3)]
    acknowledged_per_s: [f64; 3],
}

/// How a delivery window is now.
#[derive(Serialize, ToSchema)]
pub struct QueueWindowBody {
    /// Whether messages are handed out.
    open: bool,
    /// When that changes; absent if it does not in the next two weeks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    changes_at_ms: Option<u64>,
}

impl QueueWindowBody {
    /// Of a window that cannot be read any more, nothing is handed out.
    fn new(text: &str) -> QueueWindowBody {
        match DeliveryWindow::parse(text).map(|window| window.state(now())) {
            Ok(state) => QueueWindowBody { open: state.is_open, changes_at_ms: state.changes_at.map(|at| at.0) },
            Err(_) => QueueWindowBody { open: false, changes_at_ms: None },
        }
    }
}

/// A queue.
#[derive(Serialize, ToSchema)]
pub struct QueueBody {
    /// Its name.
    #[schema(example = "sms-out")]
    name: Box<str>,
    /// The user or service that made it, and whose share of the server's queues, messages and ids it takes. Shown to
    /// whoever may manage the queue; absent if the configuration made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    owner: Option<Box<str>>,
    /// Messages that wait for a receiver, or for one before them of their ordering key.
    waiting: u64,
    /// Messages that wait for their time.
    scheduled: u64,
    /// Messages that a receiver has.
    leased: u64,
    /// Messages in its dead letter queue; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    dead: Option<u64>,
    /// When the oldest message was taken that waits for a receiver; absent if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = u64)]
    oldest_sent_at_ms: Option<u64>,
    /// Seconds until nothing waits, at the rates of the last ten seconds; absent if it does not become empty so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = f64)]
    drained_in_s: Option<f64>,
    /// Whether its delivery window is open; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = QueueWindowBody)]
    window: Option<QueueWindowBody>,
    rates: QueueRatesBody,
    totals: QueueTotalsBody,
    settings: QueueSettingsBody,
}

impl QueueBody {
    fn new(view: QueueView, rates: Rates, caller: &Identity) -> QueueBody {
        let is_managed = caller.rights().may_with_queue(QueueAction::Admin, &view.name);
        let rounded = |rates: [f64; 3]| rates.map(|rate| (rate * 10.0).round() / 10.0);
        let totals = view.totals;
        QueueBody {
            name: view.name,
            owner: view.settings.owner.clone().filter(|_| is_managed),
            waiting: view.counts.waiting,
            scheduled: view.counts.scheduled,
            leased: view.counts.leased,
            dead: view.dead,
            oldest_sent_at_ms: view.oldest.map(|at| at.0),
            drained_in_s: rates.drained_in_s(&view.counts).map(|seconds| (seconds * 10.0).round() / 10.0),
            window: view.settings.delivery_window.as_deref().map(QueueWindowBody::new),
            rates: QueueRatesBody { sent_per_s: rounded(rates.sent), acknowledged_per_s: rounded(rates.acknowledged) },
            totals: QueueTotalsBody {
                sent: totals.sent,
                delivered: totals.leased,
                acknowledged: totals.acknowledged,
                rejected: totals.rejected,
                lapsed: totals.lapsed,
                dead: totals.dead,
                expired: totals.expired,
                removed: totals.removed,
            },
            settings: view.settings.into(),
        }
    }
}

/// A page of queues in the byte order of their names.
#[derive(Serialize, ToSchema)]
pub struct QueuesBody {
    /// Those of them that the caller may do something with.
    queues: Vec<QueueBody>,
    /// Send as `after` for the next page; absent after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    next: Option<Box<str>>,
}

/// So many messages.
#[derive(Serialize, ToSchema)]
pub struct QueueMessagesCountBody {
    /// How many.
    messages: u64,
}

/// A queue that is gone.
#[derive(Serialize, ToSchema)]
pub struct QueueDeletedBody {
    /// Its name.
    name: Box<str>,
    /// `deleted`.
    #[schema(example = "deleted")]
    outcome: &'static str,
}

/// Which messages are put where.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueRedriveBody {
    /// The queue to put them into.
    to: Box<str>,
    /// At most so many; all that wait if absent.
    #[schema(value_type = Option<u64>)]
    max: Option<Whole>,
}

/// List queues
#[utoipa::path(
    get,
    path = "/v1/queues",
    tag = "queues",
    params(Page),
    responses((status = 200, description = "A page", body = QueuesBody), QueueProblems)
)]
pub(super) async fn list_queues(
    State(served): State<Served>,
    query: InQuery<Page>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    let (after, limit) = Page::of(query)?;
    let (known, next) = look_through(&served, &caller, after, limit).await?;
    let queues = known.into_iter().map(|(view, rates)| QueueBody::new(view, rates, &caller)).collect();
    Ok(json(StatusCode::OK, &QueuesBody { queues, next }))
}

/// Up to `limit` queues behind `after` that the caller may know of, and the name of the last one if there are others
/// behind it. Of those between, nothing is said.
async fn look_through(
    served: &Served,
    caller: &Identity,
    mut after: Box<str>,
    limit: usize,
) -> Result<(Vec<(QueueView, Rates)>, Option<Box<str>>), Problem> {
    let (mut known, mut asked) = (Vec::new(), limit + 1);
    loop {
        let read = Read::Queues { after, limit: asked };
        let Answer::Queues(rows) = ask(served, caller, Call::Read(read)).await? else {
            unreachable!("a list is answered with a list")
        };
        let (found, last) = (rows.len(), rows.last().map(|(view, _)| view.name.clone()));
        known.extend(rows.into_iter().filter(|(view, _)| may_know(caller, &view.name)));
        if known.len() > limit {
            known.truncate(limit);
            let next = known.last().map(|(view, _): &(QueueView, Rates)| view.name.clone());
            return Ok((known, next));
        }
        let Some(last) = last.filter(|_| found == asked) else { return Ok((known, None)) };
        // Of these, few or none are shown: the caller waits for its turn, and gets as many as one page has.
        served.door.take_turns_of_rows(caller, found).await;
        (after, asked) = (last, ROWS_MAX as usize);
    }
}

/// The settings of a queue.
async fn look(served: &Served, caller: &Identity, name: &str) -> Result<(QueueView, Rates), Problem> {
    match ask(served, caller, Call::Read(Read::Queue(name.into()))).await? {
        Answer::Queue(view, rates) => Ok((*view, rates)),
        other => unreachable!("a queue is answered with a queue: {other:?}"),
    }
}

async fn set(
    served: &Served,
    caller: &Identity,
    name: Box<str>,
    settings: Settings,
) -> Result<Response<Body>, Problem> {
    // One that is there keeps its owner.
    let settings = Box::new(Settings { owner: owner_of(caller), ..settings });
    ask(served, caller, Call::SetQueue { name: name.clone(), settings }).await?;
    let (view, rates) = look(served, caller, &name).await?;
    Ok(json(StatusCode::OK, &QueueBody::new(view, rates, caller)))
}

/// Read a queue
#[utoipa::path(
    get,
    path = "/v1/queues/{name}",
    tag = "queues",
    params(QueuePath),
    responses((status = 200, description = "The queue", body = QueueBody), QueueProblems)
)]
pub(super) async fn read_queue(
    State(served): State<Served>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    if !may_know(&caller, &name) {
        check_right(&caller, QueueAction::Admin, &name)?;
    }
    let (view, rates) = look(&served, &caller, &name).await?;
    Ok(json(StatusCode::OK, &QueueBody::new(view, rates, &caller)))
}

/// Make a queue, or give it other settings
///
/// What the body does not name is as by default.
#[utoipa::path(
    put,
    path = "/v1/queues/{name}",
    tag = "queues",
    params(QueuePath),
    request_body = QueueSettingsPutBody,
    responses((status = 200, description = "The queue", body = QueueBody), QueueBodyProblems)
)]
pub(super) async fn put_queue(
    State(served): State<Served>,
    Extension(from): Extension<PeerAddress>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    let act = managing(&caller, from, "set queue", &name)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let body = decode::<QueueSettingsPutBody>(&body)?;
    let set = async {
        body.check_dead_letter(&caller)?;
        set(&served, &caller, name.clone(), body.over(Settings::default())).await
    };
    act.done(set.await)
}

/// Change settings of a queue
///
/// What the body does not name stays as it is.
#[utoipa::path(
    patch,
    path = "/v1/queues/{name}",
    tag = "queues",
    params(QueuePath),
    request_body = QueueSettingsPutBody,
    responses((status = 200, description = "The queue", body = QueueBody), QueueBodyProblems)
)]
pub(super) async fn patch_queue(
    State(served): State<Served>,
    Extension(from): Extension<PeerAddress>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    let act = managing(&caller, from, "change queue", &name)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let body = decode::<QueueSettingsPutBody>(&body)?;
    let change = async {
        body.check_dead_letter(&caller)?;
        let (view, _) = look(&served, &caller, &name).await?;
        set(&served, &caller, name.clone(), body.over(view.settings)).await
    };
    act.done(change.await)
}

/// Delete a queue that has no messages
///
/// What became of messages that were in it is forgotten.
#[utoipa::path(
    delete,
    path = "/v1/queues/{name}",
    tag = "queues",
    params(QueuePath),
    responses((status = 200, description = "It is gone", body = QueueDeletedBody), QueueProblems)
)]
pub(super) async fn delete_queue(
    State(served): State<Served>,
    Extension(from): Extension<PeerAddress>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    let act = managing(&caller, from, "delete queue", &name)?;
    act.done(ask(&served, &caller, Call::DeleteQueue { name: name.clone() }).await)?;
    Ok(json(StatusCode::OK, &QueueDeletedBody { name, outcome: "deleted" }))
}

fn counted(answer: &Answer) -> Response<Body> {
    let Answer::Outcome(Outcome::Some { count, .. }) = answer else { unreachable!("how many is a number: {answer:?}") };
    json(StatusCode::OK, &QueueMessagesCountBody { messages: *count })
}

/// Remove all messages that a queue has now
///
/// Nothing of them is remembered, so that others keep their trails however many these are. `DELETE /v1/messages/{key}`
/// takes one message back and keeps its trail.
#[utoipa::path(
    post,
    path = "/v1/queues/{name}/purge",
    tag = "queues",
    params(QueuePath),
    responses((status = 200, description = "How many were removed", body = QueueMessagesCountBody), QueueProblems)
)]
pub(super) async fn purge_queue(
    State(served): State<Served>,
    Extension(from): Extension<PeerAddress>,
    PathName(name): PathName,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    let act = managing(&caller, from, "purge queue", &name)?;
    Ok(counted(&act.done(ask(&served, &caller, Call::Purge { queue: name.clone() }).await)?))
}

/// Put the waiting messages of a queue into another one
///
/// Dead letters get another chance so: put them into the queue that they came from. They have no ordering key there.
#[utoipa::path(
    post,
    path = "/v1/queues/{name}/redrive",
    tag = "queues",
    params(("name" = inline(String), Path, description = "Queue", example = "sms-dead", min_length = 1)),
    request_body = QueueRedriveBody,
    responses((status = 200, description = "How many were put there", body = QueueMessagesCountBody), QueueBodyProblems)
)]
pub(super) async fn redrive_queue(
    State(served): State<Served>,
    Extension(from): Extension<PeerAddress>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    let act = managing(&caller, from, "redrive queue", &name)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let QueueRedriveBody { to, max } = decode(&body)?;
    let redrive = async {
        check_right(&caller, QueueAction::Admin, &to)?;
        let max = max.map(|max| max.0);
        ask(&served, &caller, Call::Redrive { from: name.clone(), to, max }).await
    };
    Ok(counted(&act.done(redrive.await)?))
}

//! `/v1/retained`: which messages are retained, and clearing them.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tidegate_broker::OperatorCall;
use tidegate_broker::operator::RetainedList;
use tidegate_machines::topic::Message;
use tidegate_wire::mqtt::check_filter;
use utoipa::{IntoParams, ToSchema};

use super::Served;
use super::page::{self, invalid, parameters, reader};
use super::publish::clear_all;
use crate::auth::Action;
use crate::http::{Act, InQuery, PeerAddress, RoomProblems};
use crate::json::{Problem, json};
use crate::operator::{PortAnswer, PortCall};

/// Which retained messages.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct RetainedQuery {
    /// Only topics that this filter of MQTT matches; `#` if absent, which matches none that begins with `$`.
    filter: Option<String>,
    /// Only topics after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Which are cleared.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ClearQuery {
    /// Those whose topics this filter of MQTT matches: one topic, or many. It does not begin with `$`.
    #[param(required = true)]
    filter: Option<String>,
    /// At most so many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// A retained message.
#[derive(Serialize, ToSchema)]
pub struct RetainedBody<'a> {
    /// Topic.
    #[schema(example = "show/stage")]
    topic: &'a str,
    /// QoS with which it was published.
    qos: u8,
    /// Bytes of its payload.
    payload_bytes: usize,
    /// When it is worth nothing any more, milliseconds since the epoch; absent if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    expires_at_ms: Option<u64>,
}

/// A page of retained messages in the byte order of their topics.
#[derive(Serialize, ToSchema)]
pub struct RetainedPageBody<'a> {
    /// Messages.
    retained: Vec<RetainedBody<'a>>,
    /// Send as `after` for the next page; absent after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    next: Option<&'a str>,
}

/// What was cleared.
#[derive(Serialize, ToSchema)]
pub struct ClearedBody {
    /// How many.
    cleared: usize,
    /// Whether there are more that the filter matches: ask again.
    more: bool,
}

impl<'a> From<&'a Message> for RetainedBody<'a> {
    fn from(message: &'a Message) -> RetainedBody<'a> {
        RetainedBody {
            topic: message.topic(),
            qos: message.qos(),
            payload_bytes: message.payload().len(),
            expires_at_ms: message.expires_at().map(|at| at.0),
        }
    }
}

/// List retained messages
#[utoipa::path(
    get,
    path = "/v1/retained",
    tag = "operations",
    params(RetainedQuery),
    responses((status = 200, description = "A page", body = RetainedPageBody), RoomProblems)
)]
pub async fn list_retained(
    State(served): State<Served>,
    query: InQuery<RetainedQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    reader(&served.door, &headers)?;
    let RetainedQuery { filter, after, limit } = parameters(query)?;
    let list = RetainedList {
        filter: filter_of(filter.as_deref().unwrap_or("#"))?,
        after: page::text("after", after)?,
        limit: page::rows(limit)?,
    };
    match served.ask(PortCall::Broker(OperatorCall::ListRetained(list))).await? {
        PortAnswer::Retained(messages, next) => {
            let retained = messages.iter().map(|message| RetainedBody::from(&**message)).collect();
            Ok(json(StatusCode::OK, &RetainedPageBody { retained, next: next.as_deref() }))
        }
        _ => Err(Problem::unexpected_reply()),
    }
}

/// Clear retained messages
///
/// Each as a client clears it: by a retained message without payload, which clients that subscribe to the topic get.
#[utoipa::path(
    delete,
    path = "/v1/retained",
    tag = "operations",
    params(ClearQuery),
    responses((status = 200, description = "They are cleared, durably", body = ClearedBody), RoomProblems)
)]
pub async fn clear_retained(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    query: InQuery<ClearQuery>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let caller = served.door.caller(&headers)?;
    let asked = query.as_ref().ok().and_then(|query| query.filter.clone()).unwrap_or_default();
    let act = Act { caller: &caller, address, act: "clear retained", what: &asked };
    if !caller.rights().may_operate(Action::Write) {
        return Err(act.forbidden("this token may not clear messages; a service may with \"operate:write\""));
    }
    let ClearQuery { filter, limit } = parameters(query)?;
    let filter = filter.ok_or_else(|| invalid("filter", "filter: which messages? write # for all".to_owned()))?;
    if filter.starts_with('$') {
        return Err(invalid("filter", "filter: what begins with $ is the server's own".to_owned()));
    }
    let list = RetainedList { filter: filter_of(&filter)?, after: Box::default(), limit: page::rows(limit)? };
    let payer = served.door.topic_rights(&headers)?.principal(address);
    let clear = async {
        match served.ask(PortCall::Broker(OperatorCall::ListRetained(list))).await? {
            PortAnswer::Retained(messages, next) => {
                let topics = messages.iter().map(|message| message.topic().into()).collect();
                let cleared = clear_all(&served, &caller, &payer, topics).await?;
                Ok(json(StatusCode::OK, &ClearedBody { cleared, more: next.is_some() }))
            }
            _ => Err(Problem::unexpected_reply()),
        }
    };
    act.done(clear.await)
}

/// A filter that is one, and no share group's.
fn filter_of(filter: &str) -> Result<Box<str>, Problem> {
    match check_filter(filter) {
        Ok(parts) if parts.share_group.is_none() => Ok(filter.into()),
        Ok(_) => Err(invalid("filter", "filter: without a share group".to_owned())),
        Err(malformed) => Err(invalid("filter", format!("filter: {}", malformed.what))),
    }
}

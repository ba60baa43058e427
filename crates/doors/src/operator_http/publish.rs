//! `/v1/publish`: messages to topics, without an MQTT client.
//!
//! Promise: "published" is answered when the message is with all who must keep it, as PUBACK says it to a client. Of a
//! request with a forbidden topic in it, nothing is published.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request as HttpRequest, State};
use axum::http::{Response, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tidegate_broker::{Access, OperatorCall, Principal, ReasonCode, Rights as _};
use tidegate_machines::topic::{Message, MessageMeta};
use tidegate_wire::mqtt::{PublishProperties, check_topic};
use utoipa::ToSchema;

use super::Served;
use crate::auth::acl::ClientRights;
use crate::auth::{Identity, Rights};
use crate::http::{Act, PeerAddress, RoomBodyProblems};
use crate::json::{Problem, ProblemCode, Text, UpTo, Whole32, codes, decode, is_object_with, json, present};
use crate::operator::{PortAnswer, PortCall};

/// The topic is none, or nobody publishes there in this way.
const TOPIC_INVALID: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "topic_invalid");
/// The message is larger than a packet may be.
const MESSAGE_TOO_LARGE: ProblemCode = ProblemCode::new(StatusCode::UNPROCESSABLE_ENTITY, "message_too_large");
/// A bound does not allow it to be kept.
const MESSAGE_REFUSED: ProblemCode = ProblemCode::new(StatusCode::CONFLICT, "message_refused");

/// The codes of these problems.
pub const CODES: &[ProblemCode] = &[TOPIC_INVALID, MESSAGE_TOO_LARGE, MESSAGE_REFUSED];

/// Messages of one request.
const MESSAGES_MAX: usize = 1_000;

/// A message.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageBody<'a> {
    /// Topic, without wildcards.
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1, max_length = 65535, example = "show/stage")]
    topic: Text<'a>,
    /// Payload as text; nothing if absent.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schema(value_type = String, required = false, nullable = false, example = "doors open")]
    payload: Option<Text<'a>>,
    /// Payload as bytes in base64, in place of `payload`.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schema(value_type = String, required = false, nullable = false)]
    payload_base64: Option<Text<'a>>,
    /// 0, 1 or 2; 1 if absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = u8, required = false, nullable = false, maximum = 2)]
    qos: Option<UpTo<2>>,
    /// Whether it is retained; without a payload it clears what is.
    #[serde(default)]
    #[schema(required = false)]
    retain: bool,
    /// Seconds until it is worth nothing; never if absent.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = u32, required = false, nullable = false, minimum = 1)]
    expires_in_s: Option<Whole32>,
    /// Content type, for clients of MQTT 5.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schema(value_type = String, required = false, nullable = false, example = "text/plain")]
    content_type: Option<Text<'a>>,
    /// Where to answer, for clients of MQTT 5.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schema(value_type = String, required = false, nullable = false)]
    response_topic: Option<Text<'a>>,
    /// User properties, for clients of MQTT 5.
    #[serde(borrow, default)]
    #[schema(required = false)]
    user_properties: Vec<UserPropertyBody<'a>>,
}

/// A user property.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserPropertyBody<'a> {
    /// Name.
    #[serde(borrow)]
    #[schema(value_type = String)]
    name: Text<'a>,
    /// Value.
    #[serde(borrow)]
    #[schema(value_type = String)]
    value: Text<'a>,
}

/// Several messages; those of one topic stay in order.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MessagesBody<'a> {
    /// At most 1,000.
    #[serde(borrow)]
    #[schema(min_items = 1, max_items = 1000)]
    messages: Vec<MessageBody<'a>>,
}

/// One message, or several.
#[derive(ToSchema)]
#[schema(no_recursion)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes bodies")]
pub enum PublishBody<'a> {
    /// One.
    One(MessageBody<'a>),
    /// Several.
    Many(MessagesBody<'a>),
}

/// What became of a message.
#[derive(Serialize, ToSchema)]
pub struct PublishedBody {
    /// `published`, `no_subscribers` if nobody subscribes to its topic, or `refused`.
    #[schema(example = "published")]
    outcome: &'static str,
    /// With `refused`: the code of the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    code: Option<&'static str>,
}

/// What became of several, in their order.
#[derive(Serialize, ToSchema)]
pub struct PublishedManyBody {
    /// Outcomes.
    outcomes: Vec<PublishedBody>,
}

/// The answer to one message, or to several.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes answers")]
pub enum PublishAnswer {
    /// To one.
    One(PublishedBody),
    /// To several.
    Many(PublishedManyBody),
}

/// Publish a message, or up to 1,000
///
/// Needs the grant `publish:FILTER` for each topic, as over MQTT. A request that is sent again publishes again.
#[utoipa::path(
    post,
    path = "/v1/publish",
    tag = "operations",
    request_body = PublishBody,
    responses((status = 200, description = "What became of it", body = PublishAnswer), RoomBodyProblems)
)]
pub async fn publish(
    State(served): State<Served>,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    request: HttpRequest,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    let act = |what| Act { caller: &caller, address, act: "publish", what };
    if !matches!(caller.rights(), Rights::Service { .. }) {
        return Err(act("").forbidden("only services publish in this way; use MQTT"));
    }
    let rights = served.door.topic_rights(&head.headers)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let is_many = is_object_with(&body, "messages");
    let bodies = if is_many { decode::<MessagesBody>(&body)?.messages } else { vec![decode(&body)?] };
    if bodies.is_empty() || bodies.len() > MESSAGES_MAX {
        let detail = format!("messages: expected 1 to {MESSAGES_MAX} of them");
        return Err(Problem::new(codes::FIELD_INVALID, detail).with("field", "messages"));
    }
    let within = |place: usize| if is_many { format!("messages[{place}].") } else { String::new() };
    let mut calls = Vec::with_capacity(bodies.len());
    for (place, body) in bodies.iter().enumerate() {
        let call = call(body, &within(place), &rights, &rights.principal(address));
        calls.push(call.map_err(|problem| match problem.code() {
            codes::FORBIDDEN => {
                caller.denied();
                act(&body.topic).tell(codes::FORBIDDEN.name());
                problem
            }
            _ => problem,
        })?);
    }
    caller.charge(calls.len() as u32 - 1);
    let what = if is_many { Cow::Owned(format!("{} messages", calls.len())) } else { Cow::Borrowed(&*bodies[0].topic) };
    let outcomes = publish_all(&served, calls).await;
    answer(&act(&what), outcomes, is_many)
}

/// The call that publishes a message, if `rights` allow it. `within` leads to its fields.
fn call(body: &MessageBody<'_>, within: &str, rights: &ClientRights, payer: &Principal) -> Result<PortCall, Problem> {
    let invalid = |code: ProblemCode, field: &str, what: &str| {
        Problem::new(code, format!("{within}{field}: {what}")).with("field", format!("{within}{field}"))
    };
    let topic = &*body.topic;
    check_topic(topic).map_err(|malformed| invalid(TOPIC_INVALID, "topic", malformed.what))?;
    if rights.may_publish("", topic) != Access::Allowed {
        let detail =
            format!("this token may not publish on {topic:?}; a service may with the grant \"publish:FILTER\"");
        return Err(Problem::forbidden("").with_detail(detail));
    }
    let payload = match (&body.payload, &body.payload_base64) {
        (Some(_), Some(_)) => {
            return Err(invalid(codes::FIELD_INVALID, "payload_base64", "there is a payload already"));
        }
        (text, None) => Cow::Borrowed(text.as_deref().unwrap_or_default().as_bytes()),
        (None, Some(text)) => {
            let decoded = STANDARD.decode(text.as_bytes());
            Cow::Owned(decoded.map_err(|_| invalid(codes::FIELD_INVALID, "payload_base64", "expected base64"))?)
        }
    };
    if body.expires_in_s.is_some_and(|seconds| seconds.get() == 0) {
        return Err(invalid(codes::FIELD_INVALID, "expires_in_s", "expected 1 or more"));
    }
    let properties = properties(body)
        .ok_or_else(|| invalid(codes::FIELD_INVALID, "user_properties", "a property that MQTT does not carry"))?;
    let qos = body.qos.map_or(1, |qos| qos.0 as u8);
    let meta = MessageMeta { qos, retain: body.retain, expires_at: None };
    Ok(PortCall::Broker(OperatorCall::Publish {
        message: Arc::new(Message::new(topic, &properties, &payload, meta)),
        expires_in_s: body.expires_in_s.map(Whole32::get),
        payer: payer.clone(),
    }))
}

/// The properties as MQTT 5 encodes them; `None` if it cannot.
fn properties(body: &MessageBody<'_>) -> Option<Vec<u8>> {
    let mut block = Vec::new();
    let mut put = |id: Option<u8>, text: &str| {
        block.extend(id);
        block.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
        block.extend_from_slice(text.as_bytes());
        Some(())
    };
    if let Some(content_type) = &body.content_type {
        put(Some(0x03), content_type)?;
    }
    if let Some(response_topic) = &body.response_topic {
        check_topic(response_topic).ok()?;
        put(Some(0x08), response_topic)?;
    }
    for UserPropertyBody { name, value } in &body.user_properties {
        put(Some(0x26), name)?;
        put(None, value)?;
    }
    // What a client's PUBLISH could not carry, such as U+0000, no other way brings in.
    PublishProperties::read(&block).is_ok().then_some(block)
}

/// Publishes them, all at once; their order is that of the calls.
async fn publish_all(served: &Served, calls: Vec<PortCall>) -> Vec<Result<bool, Problem>> {
    let asked: Vec<_> = calls.into_iter().map(|call| served.ask(call)).collect();
    let mut outcomes = Vec::with_capacity(asked.len());
    for answer in asked {
        outcomes.push(match answer.await {
            Ok(PortAnswer::Published { matched }) => Ok(matched),
            Ok(PortAnswer::Refused(reason)) => Err(refused(reason)),
            Ok(_) => Err(Problem::unexpected_reply()),
            Err(problem) => Err(problem),
        });
    }
    outcomes
}

fn refused(reason: ReasonCode) -> Problem {
    match reason {
        ReasonCode::TOPIC_NAME_INVALID => Problem::new(
            TOPIC_INVALID,
            "nobody publishes on this topic in this way: the server answers there, or MQTT delays",
        ),
        ReasonCode::PACKET_TOO_LARGE => {
            Problem::new(MESSAGE_TOO_LARGE, "topic, properties and payload are more than mqtt.packet_bytes_max")
        }
        _ => Problem::new(MESSAGE_REFUSED, "a bound does not allow it to be kept for all, or its topic is too deep"),
    }
}

fn answer(act: &Act<'_>, outcomes: Vec<Result<bool, Problem>>, is_many: bool) -> Result<Response<Body>, Problem> {
    if !is_many {
        let outcome = outcomes.into_iter().next().expect("one message, one outcome");
        return act.done(outcome.map(|matched| json(StatusCode::OK, &worded(Ok(matched)))));
    }
    let refused = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    match refused {
        0 => act.tell("done"),
        _ => act.tell(&format!("{refused} refused")),
    }
    Ok(json(StatusCode::OK, &PublishedManyBody { outcomes: outcomes.into_iter().map(worded).collect() }))
}

fn worded(outcome: Result<bool, Problem>) -> PublishedBody {
    let (outcome, code) = match outcome {
        Ok(true) => ("published", None),
        Ok(false) => ("no_subscribers", None),
        Err(problem) => ("refused", Some(problem.code().name())),
    };
    PublishedBody { outcome, code }
}

/// Clears the retained messages on these topics for `caller`, as messages without payload do. How many are cleared.
pub async fn clear_all(
    served: &Served,
    caller: &Identity,
    payer: &Principal,
    topics: Vec<Box<str>>,
) -> Result<usize, Problem> {
    caller.charge(topics.len().saturating_sub(1) as u32);
    let meta = MessageMeta { qos: 1, retain: true, expires_at: None };
    let call = |topic: Box<str>| {
        let message = Arc::new(Message::new(&topic, &[], &[], meta));
        PortCall::Broker(OperatorCall::Publish { message, expires_in_s: None, payer: payer.clone() })
    };
    let outcomes = publish_all(served, topics.into_iter().map(call).collect()).await;
    let cleared = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    match outcomes.into_iter().find_map(Result::err) {
        Some(problem) if cleared == 0 => Err(problem),
        _ => Ok(cleared),
    }
}

//! Messages as they are sent and handed out, and sending them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use tidegate_machines::{IdSpace, TimeMs};
use tidegate_queue::machine::limits::PRIORITY_DEFAULT;
use tidegate_queue::machine::{Message, Outcome, Receipt, When, id_in_space};
use tidegate_queue::{Answer, Call};
use utoipa::ToSchema;

use super::openapi::{QueueBodyProblems, QueuePath};
use super::{MESSAGE_INVALID, SCHEDULE_INVALID, Served, ask, check_right};
use crate::auth::QueueAction;
use crate::http::PathName;
use crate::json::{Problem, UpTo, Whole, decode, json};
use crate::queue_attributes::{
    QueueAttributeBody, QueueAttributes, given_attributes, read_attributes, write_attributes,
};

/// A message to be sent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueMessageSendBody {
    /// Its body, as text. Either this or `body_base64`.
    #[schema(example = "Your code is 4711")]
    body: Option<Box<str>>,
    /// Its body, as bytes in base64.
    body_base64: Option<Box<str>>,
    /// The sender's id: while the queue remembers it, a second message of one id is not taken, and its answer says
    /// `duplicate`. 1 to 128 bytes.
    #[schema(example = "order-17-code")]
    id: Option<Box<str>>,
    /// Messages of one key are handed out one after the other. 1 to 128 bytes.
    #[schema(example = "+49170123456")]
    ordering_key: Option<Box<str>>,
    /// 0 to 9: the highest goes first; 4 if absent.
    #[schema(value_type = Option<u8>, maximum = 9)]
    priority: Option<UpTo<255>>,
    /// Not handed out before so many milliseconds have passed. Either this or `deliver_at_ms`.
    #[schema(value_type = Option<u64>)]
    delay_ms: Option<Whole>,
    /// Not handed out before this time, in milliseconds since 1970.
    #[schema(value_type = Option<u64>)]
    deliver_at_ms: Option<Whole>,
    /// Dropped if nobody acknowledged it in so many milliseconds. Either this or `expires_at_ms`.
    #[schema(value_type = Option<u64>)]
    expires_in_ms: Option<Whole>,
    /// Dropped if nobody acknowledged it by this time, in milliseconds since 1970.
    #[schema(value_type = Option<u64>)]
    expires_at_ms: Option<Whole>,
    /// Through which queues links or walks have brought it, as a message that was received says it: a queue does not
    /// take what has come through it. `NODE/QUEUE` for each, with spaces between; at most 1,000 bytes.
    #[schema(example = "4711/in 812/router")]
    via: Option<Box<str>>,
    /// What its first sender called it, where a walk brings it under the key that it got there, as its `id`: while the
    /// queue remembers them, a second message of either is not taken. Needs `relay:QUEUE`, as that key does.
    #[schema(example = "order-17-code", min_length = 1, max_length = 128)]
    origin_id: Option<Box<str>>,
    /// In which id space that was chosen, if not in the common one.
    #[schema(min_length = 1, max_length = 64)]
    origin_id_space: Option<Box<str>>,
    /// What else the receiver is to know, by name: texts, or values with a type. At most 64.
    #[serde(default, deserialize_with = "given_attributes")]
    #[schema(required = false, value_type = BTreeMap<String, QueueAttributeBody>)]
    attributes: QueueAttributes,
}

/// Messages to be sent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueMessagesSendBody {
    /// 1 to 1,000, of together at most 1,000,000 bytes. All of them are taken, or none.
    #[schema(min_items = 1, max_items = 1000)]
    messages: Vec<QueueMessageSendBody>,
}

/// What became of a message that was sent.
#[derive(Serialize, ToSchema)]
pub struct QueueReceiptBody {
    /// Its key: with it, it can be found.
    #[schema(example = "01KB3V5X2M000000000000000G")]
    key: String,
    /// Whether a message of its id was taken before; then this is the key of that one, and this one was not taken.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    duplicate: bool,
}

/// What became of messages that were sent, in their order.
#[derive(Serialize, ToSchema)]
pub struct QueueReceiptsBody {
    messages: Vec<QueueReceiptBody>,
}

/// A body as text if it is text, otherwise in base64.
#[derive(Serialize, ToSchema)]
pub struct QueueContentBody {
    /// The body, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    body: Option<String>,
    /// The body in base64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    body_base64: Option<String>,
    /// The sender's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    id: Option<Box<str>>,
    /// In which id space it was chosen, if not in the common one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    id_space: Option<Box<str>>,
    /// Its ordering key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    ordering_key: Option<Box<str>>,
    /// Its level.
    priority: u8,
    /// Through which queues links have brought it: `NODE/QUEUE` for each, with spaces between, the first one first, and
    /// the queue on this node that took it last. The queue where it was sent first does not stand there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String, example = "4711/in 812/router")]
    via: Option<Box<str>>,
    /// What its first sender called it, where a walk has brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    origin_id: Option<Box<str>>,
    /// In which id space that was chosen, if not in the common one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    origin_id_space: Option<Box<str>>,
    /// What else its sender said.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false, value_type = BTreeMap<String, QueueAttributeBody>)]
    attributes: QueueAttributes,
}

impl From<&Message> for QueueContentBody {
    fn from(message: &Message) -> QueueContentBody {
        let (text, origin) = (std::str::from_utf8(&message.body).ok(), message.origin());
        QueueContentBody {
            body: text.map(Into::into),
            body_base64: text.is_none().then(|| BASE64.encode(&message.body)),
            id: message.sender_id().map(Into::into),
            id_space: message.id_space().map(Into::into),
            ordering_key: message.ordering_key.clone(),
            priority: message.priority,
            via: message.via.clone(),
            origin_id: origin.map(|(_, id)| id.into()),
            origin_id_space: origin.map(|(space, _)| space).filter(|space| !space.is_empty()).map(Into::into),
            attributes: read_attributes(&message.attributes),
        }
    }
}

/// One of two ways to say a thing, or neither.
pub(super) fn one_of<A, B>(one: Option<A>, other: Option<B>, what: &str) -> Result<(Option<A>, Option<B>), Problem> {
    match (&one, &other) {
        (Some(_), Some(_)) => Err(Problem::new(MESSAGE_INVALID, format!("expected {what}, not both"))),
        _ => Ok((one, other)),
    }
}

/// A time that is given, or so far from when it is decided.
pub(super) fn when_of(at: Option<Whole>, from_now: Option<Whole>) -> Option<When> {
    at.map(|at| When::At(TimeMs(at.0))).or(from_now.map(|ms| When::After(ms.0)))
}

impl QueueMessageSendBody {
    /// The message of a schedule, and after how long it is dropped.
    pub(super) fn into_standing(mut self) -> Result<(Message, Option<u64>), Problem> {
        let times = [&self.delay_ms, &self.deliver_at_ms, &self.expires_at_ms];
        let ids = [&self.id, &self.via, &self.origin_id, &self.origin_id_space];
        if ids.into_iter().any(Option::is_some) || times.into_iter().any(Option::is_some) {
            let what = "the message of a schedule has no id and no via, and of times only expires_in_ms: each that it \
                        sends is another one, at another time";
            return Err(Problem::new(SCHEDULE_INVALID, what));
        }
        let expires_in_ms = self.expires_in_ms.take().map(|ms| ms.0);
        Ok((self.into_message()?, expires_in_ms))
    }

    fn into_message(self) -> Result<Message, Problem> {
        let body = match one_of(self.body, self.body_base64, "body or body_base64")? {
            (Some(text), _) => text.into_boxed_bytes(),
            (None, Some(base64)) => BASE64
                .decode(&*base64)
                .map_err(|error| Problem::new(MESSAGE_INVALID, format!("body_base64: {error}")))?
                .into(),
            (None, None) => return Err(Problem::new(MESSAGE_INVALID, "a message has a body or a body_base64")),
        };
        let (delay_ms, deliver_at_ms) = one_of(self.delay_ms, self.deliver_at_ms, "delay_ms or deliver_at_ms")?;
        let (expires_in_ms, expires_at_ms) =
            one_of(self.expires_in_ms, self.expires_at_ms, "expires_in_ms or expires_at_ms")?;
        for (name, attribute) in &self.attributes {
            let wrong = |what| Problem::new(MESSAGE_INVALID, format!("attribute {name:?}: {what}"));
            attribute.check().map_err(wrong)?;
        }
        let space = IdSpace::new(self.origin_id_space.as_deref().unwrap_or_default()).ok_or_else(|| {
            Problem::new(
                MESSAGE_INVALID,
                "origin_id_space: expected the name of a user or id space, of at most 64 bytes",
            )
        })?;
        if self.origin_id.is_none() && self.origin_id_space.is_some() {
            return Err(Problem::new(MESSAGE_INVALID, "origin_id_space is that of origin_id, which is not there"));
        }
        let origin_id = self.origin_id.map(|id| Box::from(&*id_in_space(&id, &space, || false)));
        Ok(Message {
            id: self.id,
            ordering_key: self.ordering_key,
            priority: self.priority.map_or(PRIORITY_DEFAULT, |priority| priority.0 as u8),
            visible_at: when_of(deliver_at_ms, delay_ms),
            expires_at: when_of(expires_at_ms, expires_in_ms),
            via: self.via,
            origin_id,
            attributes: write_attributes(&self.attributes),
            body,
        })
    }
}

/// The time of this host.
pub(super) fn now() -> TimeMs {
    tidegate_runtime::threads::now_ms()
}

/// Send messages
///
/// They are durable when this is answered. If no answer comes, send them again with the same ids.
#[utoipa::path(
    post,
    path = "/v1/queues/{name}/messages",
    tag = "queues",
    params(QueuePath),
    request_body = QueueMessagesSendBody,
    responses((status = 200, description = "Their keys", body = QueueReceiptsBody), QueueBodyProblems)
)]
pub(super) async fn send_messages(
    State(served): State<Served>,
    PathName(name): PathName,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (head, body) = request.into_parts();
    let caller = served.door.caller(&head.headers)?;
    check_right(&caller, QueueAction::Send, &name)?;
    let body = served.door.read_json(&head.headers, body).await?;
    let QueueMessagesSendBody { messages } = decode(&body)?;
    // Each message counts as a request.
    caller.charge(messages.len().saturating_sub(1) as u32);
    let message = |(index, message): (usize, QueueMessageSendBody)| {
        message.into_message().map(Arc::new).map_err(|problem| problem.with("message", index))
    };
    let messages = messages.into_iter().enumerate().map(message).collect::<Result<Vec<_>, _>>()?;
    let Answer::Outcome(Outcome::Sent(receipts)) = ask(&served, &caller, Call::Send { queue: name, messages }).await?
    else {
        unreachable!("a send is answered with keys")
    };
    let receipt = |receipt: Receipt| QueueReceiptBody { key: receipt.key.to_string(), duplicate: receipt.is_duplicate };
    Ok(json(StatusCode::OK, &QueueReceiptsBody { messages: receipts.into_iter().map(receipt).collect() }))
}

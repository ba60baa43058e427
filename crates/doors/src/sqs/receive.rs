//! Receiving messages.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_queue::{Receive, Received};

use super::arguments::within;
use super::digest;
use super::message::{body_of, chosen, shown};
use super::names::{ACCOUNT, is_fifo, message_id, queue_of};
use super::noted::Noted;
use super::send::sequence_number;
use super::{Asked, Done, now};
use crate::auth::QueueAction;
use crate::queue_calls::{consumer_of, lease_text, receive_from};

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct ReceiveBody {
    queue_url: Option<Box<str>>,
    max_number_of_messages: Option<i64>,
    visibility_timeout: Option<i64>,
    wait_time_seconds: Option<i64>,
    /// What the next field was called before.
    attribute_names: Vec<Box<str>>,
    message_system_attribute_names: Vec<Box<str>>,
    message_attribute_names: Vec<Box<str>>,
}

/// `ReceiveMessage`
pub async fn receive(asked: &Asked<'_>) -> Done {
    let body: ReceiveBody = asked.body()?;
    let queue = queue_of(body.queue_url.as_deref())?;
    asked.check_right(QueueAction::Receive, &queue)?;
    let max = within("MaxNumberOfMessages", body.max_number_of_messages, 1..=10)?.unwrap_or(1);
    let lease_s = within("VisibilityTimeout", body.visibility_timeout, 0..=43_200)?;
    let wait_s = match within("WaitTimeSeconds", body.wait_time_seconds, 0..=20)? {
        Some(seconds) => seconds,
        None => Noted::read(&asked.look(&queue).await?.settings.notes).receive_wait_s.min(20),
    };
    let receive = Receive {
        queue: queue.clone(),
        max: max as usize,
        // A lease that has ended already would be none.
        lease_ms: lease_s.map(|seconds| (seconds * 1_000).max(1)),
        consumer: consumer_of(&asked.caller),
        wait_ms: wait_s * 1_000,
    };
    let may_still = || {
        let now = asked.served.door.signing_key(asked.access_key);
        now.is_some_and(|now| now.identity.rights().may_with_queue(QueueAction::Receive, &queue))
    };
    let messages = receive_from(asked.served, &asked.caller, receive, &asked.silence, may_still)
        .await?
        .map_err(|refusal| super::AwsError::from(&refusal))?;
    if messages.is_empty() {
        return Ok(json!({}));
    }
    let is_fifo = is_fifo(&queue);
    let messages: Vec<Value> = messages.iter().map(|received| message(received, is_fifo, &body)).collect();
    Ok(json!({ "Messages": messages }))
}

fn message(received: &Received, is_fifo: bool, body: &ReceiveBody) -> Value {
    let (key, message) = (received.delivery.lease.key, &*received.message);
    let (text, is_text) = body_of(message);
    let attributes = chosen(message, key, is_text, &body.message_attribute_names);
    let system = system_attributes(received, is_fifo, body);
    let mut answer = json!({
        "MessageId": message_id(key),
        "ReceiptHandle": lease_text(&received.delivery.lease),
        "MD5OfBody": digest::of_body(text.as_bytes()),
        "Body": text,
    });
    if let Some(md5) = digest::of_attributes(&attributes) {
        answer["MD5OfMessageAttributes"] = md5.into();
        answer["MessageAttributes"] = shown(&attributes);
    }
    if !system.is_empty() {
        answer["Attributes"] = system.into();
    }
    answer
}

/// What is asked for of what the server says of a message.
fn system_attributes(received: &Received, is_fifo: bool, body: &ReceiveBody) -> Map<String, Value> {
    let (key, message) = (received.delivery.lease.key, &*received.message);
    let sent = key.at().0;
    // Of later deliveries, it is not in memory when the first one was: the trail of the message has it.
    let first = if received.attempts == 1 { now().0.max(sent) } else { sent };
    let of_fifo = |value: Option<String>| value.filter(|_| is_fifo);
    let known = [
        ("SentTimestamp", Some(sent.to_string())),
        ("ApproximateReceiveCount", Some(received.attempts.to_string())),
        ("ApproximateFirstReceiveTimestamp", Some(first.to_string())),
        // Who sent it is not kept with a message; there is only one account.
        ("SenderId", Some(ACCOUNT.to_owned())),
        ("MessageGroupId", of_fifo(message.ordering_key.as_deref().map(Into::into))),
        ("MessageDeduplicationId", of_fifo(message.sender_id().map(Into::into))),
        ("SequenceNumber", of_fifo(Some(sequence_number(key.number())))),
    ];
    let wanted = || body.attribute_names.iter().chain(&body.message_system_attribute_names);
    let is_wanted = |name: &str| wanted().any(|wanted| **wanted == *name || &**wanted == "All");
    let chosen = known.into_iter().filter(|(name, _)| is_wanted(name));
    chosen.filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect()
}

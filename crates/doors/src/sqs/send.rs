//! Sending messages: one, or up to ten.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tidegate_queue::machine::limits::{BATCH_BYTES_MAX, MESSAGE_OVERHEAD_BYTES};
use tidegate_queue::machine::{Message, Outcome, Receipt, Refusal, When};
use tidegate_queue::{Answer, Call};

use super::arguments::{Entries, Entry, check_entries, within};
use super::digest;
use super::error::{AwsError, codes};
use super::message::{Given, attributes_of, take_own};
use super::names::{is_fifo, message_id, queue_of};
use super::noted::Noted;
use super::{Asked, Done};
use crate::auth::QueueAction;
use crate::queue_attributes::write_attributes;

/// A message to be sent.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct SendBody {
    id: Option<Box<str>>,
    message_body: Option<Box<str>>,
    delay_seconds: Option<i64>,
    message_attributes: Given,
    message_system_attributes: Map<String, Value>,
    message_deduplication_id: Option<Box<str>>,
    message_group_id: Option<Box<str>>,
}

impl Entry for SendBody {
    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

/// One request with one message.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct OneBody {
    queue_url: Option<Box<str>>,
    #[serde(flatten)]
    message: SendBody,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct BatchBody {
    queue_url: Option<Box<str>>,
    entries: Vec<SendBody>,
}

/// A message, and the digests that its sender compares.
struct Ready {
    message: Arc<Message>,
    body_md5: String,
    attributes_md5: Option<String>,
}

/// What a queue makes of messages.
struct Rules {
    is_fifo: bool,
    has_content_ids: bool,
}

impl Rules {
    /// Of a queue. Its notes are read only if a message depends on them.
    async fn of(asked: &Asked<'_>, queue: &str, messages: &[SendBody]) -> Done<Rules> {
        let is_fifo = is_fifo(queue);
        let lacks_id = messages.iter().any(|message| message.message_deduplication_id.is_none());
        let has_content_ids = is_fifo && lacks_id && {
            Noted::read(&asked.look(queue).await?.settings.notes).content_based_deduplication
        };
        Ok(Rules { is_fifo, has_content_ids })
    }

    fn ready(&self, sent: SendBody) -> Done<Ready> {
        let body = sent.message_body.filter(|body| !body.is_empty()).ok_or_else(|| AwsError::missing("MessageBody"))?;
        if let Some(name) = sent.message_system_attributes.keys().next() {
            let detail = format!("MessageSystemAttributes: {name} is not kept here; leave it out");
            return Err(AwsError::new(codes::UNSUPPORTED_OPERATION, detail));
        }
        let mut attributes = attributes_of(sent.message_attributes)?;
        let attributes_md5 = digest::of_attributes(&attributes);
        let own = take_own(&mut attributes)?;
        let delay = within("DelaySeconds", sent.delay_seconds, 0..=900)?;
        if delay.is_some() && own.deliver_at.is_some() {
            return Err(AwsError::parameter("DelaySeconds", "expected it or Tidegate.DeliverAt, not both"));
        }
        let delayed = delay.map(|seconds| When::After(seconds * 1_000));
        let (id, ordering_key) = match self.is_fifo {
            true if delay.is_some_and(|seconds| seconds > 0) => {
                return Err(AwsError::parameter("DelaySeconds", "of a FIFO queue, it is set for the whole queue"));
            }
            true => {
                let group = sent.message_group_id.ok_or_else(|| AwsError::missing("MessageGroupId"))?;
                (Some(self.id(sent.message_deduplication_id, &body)?), Some(group))
            }
            false if sent.message_deduplication_id.is_some() => {
                return Err(AwsError::parameter("MessageDeduplicationId", "only messages of FIFO queues have one"));
            }
            // In SQS it is about fairness between groups, and not about their order.
            false => (None, None),
        };
        let body_md5 = digest::of_body(body.as_bytes());
        let message = Message {
            id,
            ordering_key,
            priority: own.priority,
            visible_at: own.deliver_at.map(When::At).or(delayed),
            expires_at: own.expires_at.map(When::At),
            attributes: write_attributes(&attributes),
            body: body.into_boxed_bytes(),
            ..Message::default()
        };
        Ok(Ready { message: Arc::new(message), body_md5, attributes_md5 })
    }

    fn id(&self, given: Option<Box<str>>, body: &str) -> Done<Box<str>> {
        match given {
            Some(id) => Ok(id),
            None if self.has_content_ids => {
                Ok(Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
            }
            None => {
                let detail = "MessageDeduplicationId is missing, and the queue has no ContentBasedDeduplication";
                Err(AwsError::new(codes::INVALID_PARAMETER_VALUE, detail))
            }
        }
    }

    fn answer(&self, ready: &Ready, receipt: Receipt) -> Value {
        let mut answer = json!({ "MessageId": message_id(receipt.key), "MD5OfMessageBody": ready.body_md5 });
        if let Some(md5) = &ready.attributes_md5 {
            answer["MD5OfMessageAttributes"] = md5.as_str().into();
        }
        if self.is_fifo {
            answer["SequenceNumber"] = sequence_number(receipt.key.number()).into();
        }
        answer
    }
}

/// A number that grows with each message of a queue, as SQS writes it.
pub fn sequence_number(number: u64) -> String {
    format!("{number:020}")
}

async fn send(asked: &Asked<'_>, queue: &str, messages: Vec<Arc<Message>>) -> Done<Result<Vec<Receipt>, Refusal>> {
    match asked.decide(Call::Send { queue: queue.into(), messages }).await? {
        Ok(Answer::Outcome(Outcome::Sent(receipts))) => Ok(Ok(receipts)),
        Ok(other) => unreachable!("a send is answered with keys: {other:?}"),
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// `SendMessage`
pub async fn one(asked: &Asked<'_>) -> Done {
    let OneBody { queue_url, message } = asked.body()?;
    let queue = queue_of(queue_url.as_deref())?;
    asked.check_right(QueueAction::Send, &queue)?;
    let rules = Rules::of(asked, &queue, std::slice::from_ref(&message)).await?;
    let ready = rules.ready(message)?;
    match send(asked, &queue, vec![ready.message.clone()]).await? {
        Ok(receipts) => Ok(rules.answer(&ready, receipts[0])),
        Err(Refusal::MessageInvalid { what, .. }) => Err(AwsError::parameter("the message", what)),
        Err(refusal) => Err((&refusal).into()),
    }
}

/// `SendMessageBatch`: what can be taken of it, in one record.
pub async fn batch(asked: &Asked<'_>) -> Done {
    let BatchBody { queue_url, entries } = asked.body()?;
    let queue = queue_of(queue_url.as_deref())?;
    asked.check_right(QueueAction::Send, &queue)?;
    check_entries(&entries)?;
    let rules = Rules::of(asked, &queue, &entries).await?;
    let mut answers = Entries::default();
    let mut ready: Vec<(Box<str>, Ready)> = Vec::with_capacity(entries.len());
    for mut entry in entries {
        let id = entry.id.take().expect("entries were checked");
        match rules.ready(entry) {
            Ok(message) => ready.push((id, message)),
            Err(error) => answers.failed(&id, &error),
        }
    }
    let bytes: usize = ready.iter().map(|(_, ready)| ready.message.bytes() + MESSAGE_OVERHEAD_BYTES).sum();
    if bytes > BATCH_BYTES_MAX {
        return Err((&Refusal::BatchTooLarge).into());
    }
    while !ready.is_empty() {
        let messages = ready.iter().map(|(_, ready)| ready.message.clone()).collect();
        match send(asked, &queue, messages).await? {
            Ok(receipts) => {
                for ((id, ready), receipt) in ready.drain(..).zip(receipts) {
                    let mut answer = rules.answer(&ready, receipt);
                    answer["Id"] = (*id).into();
                    answers.done(answer);
                }
            }
            // Nothing was taken; the others can be.
            Err(Refusal::MessageInvalid { index, what }) => {
                let (id, _) = ready.remove(index);
                answers.failed(&id, &AwsError::parameter("the message", what));
            }
            Err(refusal) => return Err((&refusal).into()),
        }
    }
    Ok(answers.answer())
}

//! The attributes of a queue, and the settings that they are here.
//!
//! | SQS | here |
//! |---|---|
//! | `VisibilityTimeout` | `lease_ms`; 0 is 1 ms |
//! | `DelaySeconds`, `MessageRetentionPeriod` | `delay_ms`, `expiry_ms` |
//! | `RedrivePolicy` | `dead_letter`, `attempts_max` |
//! | `ContentBasedDeduplication`, `ReceiveMessageWaitTimeSeconds` | notes |

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_queue::machine::limits::MESSAGE_BYTES_MAX;
use tidegate_queue::machine::{QueueView, Settings};

use super::Done;
use super::error::{AwsError, codes};
use super::names::{arn_of, is_fifo, queue_of_arn};
use super::noted::Noted;

/// Attributes as a request has them.
pub type Given = BTreeMap<Box<str>, Box<str>>;

/// How long messages are kept that nobody acknowledges, if nothing else is said: four days, as in SQS.
const RETENTION_MS: u64 = 4 * 24 * 3_600_000;

/// A queue's settings with its notes apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAttributes {
    /// Without notes.
    settings: Settings,
    /// The notes.
    pub noted: Noted,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RedrivePolicy {
    dead_letter_target_arn: Option<Box<str>>,
    max_receive_count: Option<Value>,
}

fn wrong(name: &str, what: &str) -> AwsError {
    AwsError::new(codes::INVALID_ATTRIBUTE_VALUE, format!("{name}: {what}"))
}

fn number(name: &str, value: &str, least: u64, most: u64) -> Done<u64> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| wrong(name, &format!("expected {least} to {most}, not {value:?}")))
}

fn flag(name: &str, value: &str) -> Done<bool> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(wrong(name, "expected true or false")),
    }
}

impl QueueAttributes {
    /// Of a queue that is made through SQS.
    pub fn of_new_queue() -> QueueAttributes {
        let settings = Settings { expiry_ms: Some(RETENTION_MS), ..Settings::default() };
        QueueAttributes { settings, noted: Noted::default() }
    }

    /// Where its dead letters go.
    pub fn dead_letter(&self) -> Option<&str> {
        self.settings.dead_letter.as_deref()
    }

    /// Those of a queue that is there.
    pub fn of(settings: &Settings) -> QueueAttributes {
        let noted = Noted::read(&settings.notes);
        QueueAttributes { settings: Settings { notes: Box::default(), ..settings.clone() }, noted }
    }

    /// As the machine has them.
    pub fn into_settings(self) -> Settings {
        Settings { notes: self.noted.write(), ..self.settings }
    }

    /// Changes what is given.
    pub fn change(&mut self, queue: &str, given: &Given) -> Done<()> {
        given.iter().try_for_each(|(name, value)| self.change_one(queue, name, value))
    }

    fn change_one(&mut self, queue: &str, name: &str, value: &str) -> Done<()> {
        let (settings, noted) = (&mut self.settings, &mut self.noted);
        match name {
            // A lease that has ended already would be none.
            "VisibilityTimeout" => settings.lease_ms = (number(name, value, 0, 43_200)? * 1_000).max(1),
            "DelaySeconds" => settings.delay_ms = number(name, value, 0, 900)? * 1_000,
            "MessageRetentionPeriod" => settings.expiry_ms = Some(number(name, value, 60, 1_209_600)? * 1_000),
            "ReceiveMessageWaitTimeSeconds" => noted.receive_wait_s = number(name, value, 0, 20)?,
            "RedrivePolicy" => (settings.dead_letter, settings.attempts_max) = redrive(name, value)?,
            "FifoQueue" if flag(name, value)? != is_fifo(queue) => {
                return Err(wrong(name, "it is true for queues whose names end in .fifo, and for no others"));
            }
            "ContentBasedDeduplication" if !is_fifo(queue) && flag(name, value)? => {
                return Err(wrong(name, "only queues whose names end in .fifo have it"));
            }
            "ContentBasedDeduplication" => noted.content_based_deduplication = flag(name, value)?,
            // The bound of this server is one for all queues, and a message above it is refused.
            "MaximumMessageSize" => drop(number(name, value, 1_024, 1 << 20)?),
            "FifoQueue" | "FifoThroughputLimit" | "SqsManagedSseEnabled" | "KmsDataKeyReusePeriodSeconds" => {}
            "DeduplicationScope" if value == "queue" => {}
            "Policy" | "KmsMasterKeyId" | "RedriveAllowPolicy" if value.is_empty() => {}
            "Policy" | "KmsMasterKeyId" | "RedriveAllowPolicy" | "DeduplicationScope" => {
                let detail = format!("{name}: this server has nothing of the kind; leave it out");
                return Err(AwsError::new(codes::UNSUPPORTED_OPERATION, detail));
            }
            _ => {
                return Err(AwsError::new(
                    codes::INVALID_ATTRIBUTE_NAME,
                    format!("{name:?} is no attribute of a queue"),
                ));
            }
        }
        Ok(())
    }
}

fn redrive(name: &str, value: &str) -> Done<(Option<Box<str>>, Option<u16>)> {
    if value.is_empty() {
        return Ok((None, None));
    }
    let policy: RedrivePolicy = serde_json::from_str(value).map_err(|error| {
        wrong(name, &format!("expected JSON with deadLetterTargetArn and maxReceiveCount: {error}"))
    })?;
    let arn = policy.dead_letter_target_arn.unwrap_or_default();
    let target = queue_of_arn(&arn).ok_or_else(|| wrong(name, &format!("{arn:?} is no ARN of a queue here")))?;
    let count = match &policy.max_receive_count {
        Some(Value::String(text)) => number("maxReceiveCount", text, 1, 1_000)?,
        Some(Value::Number(count)) => number("maxReceiveCount", &count.to_string(), 1, 1_000)?,
        _ => return Err(wrong(name, "maxReceiveCount is missing")),
    };
    Ok((Some(target.into()), Some(count as u16)))
}

/// The attributes of a queue that are asked for by name.
pub fn shown(view: &QueueView, wanted: &[Box<str>]) -> Done<Map<String, Value>> {
    let QueueAttributes { settings, noted } = QueueAttributes::of(&view.settings);
    let (is_all, is_fifo) = (wanted.iter().any(|name| &**name == "All"), is_fifo(&view.name));
    let text = |number: u64| Some(number.to_string());
    let some = |number: u64| (number > 0).then(|| number.to_string());
    let of_fifo = |value: &str| is_fifo.then(|| value.to_owned());
    let redrive =
        settings.dead_letter.as_deref().zip(settings.attempts_max).map(|(target, count)| {
            json!({ "deadLetterTargetArn": arn_of(target), "maxReceiveCount": count }).to_string()
        });
    let known = [
        ("QueueArn", Some(arn_of(&view.name))),
        ("ApproximateNumberOfMessages", text(view.counts.waiting)),
        ("ApproximateNumberOfMessagesNotVisible", text(view.counts.leased)),
        ("ApproximateNumberOfMessagesDelayed", text(view.counts.scheduled)),
        ("VisibilityTimeout", text(settings.lease_ms / 1_000)),
        ("DelaySeconds", text(settings.delay_ms / 1_000)),
        ("MessageRetentionPeriod", settings.expiry_ms.and_then(|ms| text(ms / 1_000))),
        ("ReceiveMessageWaitTimeSeconds", text(noted.receive_wait_s)),
        ("MaximumMessageSize", text(MESSAGE_BYTES_MAX as u64)),
        ("RedrivePolicy", redrive),
        ("CreatedTimestamp", some(noted.created_s)),
        ("LastModifiedTimestamp", some(noted.changed_s)),
        ("SqsManagedSseEnabled", Some("false".to_owned())),
        ("FifoQueue", of_fifo("true")),
        ("ContentBasedDeduplication", of_fifo(if noted.content_based_deduplication { "true" } else { "false" })),
        ("DeduplicationScope", of_fifo("queue")),
        ("FifoThroughputLimit", of_fifo("perQueue")),
    ];
    const NEVER: [&str; 5] = ["All", "Policy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "RedriveAllowPolicy"];
    let is_known = |name: &str| NEVER.contains(&name) || known.iter().any(|(known, _)| *known == name);
    if let Some(name) = wanted.iter().find(|name| !is_known(name)) {
        return Err(AwsError::new(codes::INVALID_ATTRIBUTE_NAME, format!("{name:?} is no attribute of a queue")));
    }
    let is_wanted = |name: &str| is_all || wanted.iter().any(|wanted| **wanted == *name);
    let chosen = known.iter().filter(|(name, _)| is_wanted(name));
    Ok(chosen.filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?.into()))).collect())
}

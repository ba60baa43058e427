//! What becomes of messages that were received: they are done with, or their leases last longer or shorter.

use serde::Deserialize;
use serde_json::json;
use tidegate_queue::machine::{Lease, LeaseRefusal, MessageState, Outcome, Rejection};
use tidegate_queue::{Answer, Call, Read};

use super::arguments::{Entries, Entry, check_entries, within};
use super::error::{AwsError, codes};
use super::names::queue_of;
use super::{Asked, Done};
use crate::auth::QueueAction;
use crate::queue_calls::lease_of;

/// A delivery that a request is about.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct DeliveryBody {
    id: Option<Box<str>>,
    receipt_handle: Option<Box<str>>,
    visibility_timeout: Option<i64>,
}

impl Entry for DeliveryBody {
    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl DeliveryBody {
    fn lease(&self) -> Done<Lease> {
        let handle = self.receipt_handle.as_deref().ok_or_else(|| AwsError::missing("ReceiptHandle"))?;
        lease_of(handle).ok_or_else(|| {
            AwsError::new(codes::RECEIPT_HANDLE_IS_INVALID, "expected a receipt handle as ReceiveMessage gave it")
        })
    }

    fn timeout_s(&self) -> Done<u64> {
        let timeout = within("VisibilityTimeout", self.visibility_timeout, 0..=43_200)?;
        timeout.ok_or_else(|| AwsError::missing("VisibilityTimeout"))
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct OneBody {
    queue_url: Option<Box<str>>,
    #[serde(flatten)]
    delivery: DeliveryBody,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct BatchBody {
    queue_url: Option<Box<str>>,
    entries: Vec<DeliveryBody>,
}

/// What became of each lease of a call.
async fn outcomes(asked: &Asked<'_>, call: Call) -> Done<Vec<Result<(), LeaseRefusal>>> {
    match asked.ask(call).await? {
        Answer::Outcome(Outcome::Leases(outcomes)) => Ok(outcomes),
        other => unreachable!("leases are answered one by one: {other:?}"),
    }
}

/// What is gone is done with, whoever did it. A delivery that another one followed is not.
/// A message that is gone was deleted, whoever asks; one that somebody has of another queue was not.
async fn deleted(asked: &Asked<'_>, queue: &str, lease: Lease, outcome: Result<(), LeaseRefusal>) -> Done<()> {
    match outcome {
        Ok(()) => Ok(()),
        Err(LeaseRefusal::Unknown) => match is_of_another(asked, queue, lease).await? {
            true => Err(AwsError::new(codes::RECEIPT_HANDLE_IS_INVALID, "the message is of another queue")),
            false => Ok(()),
        },
        Err(LeaseRefusal::Lost | LeaseRefusal::NotNow) => {
            let detail = "the visibility timeout was over, and the message was handed out again or given back";
            Err(AwsError::new(codes::RECEIPT_HANDLE_IS_INVALID, detail))
        }
    }
}

/// Whether this delivery is of another queue, and lasts.
async fn is_of_another(asked: &Asked<'_>, queue: &str, lease: Lease) -> Done<bool> {
    let Ok(Answer::Message(found)) = asked.decide(Call::Read(Read::Message(lease.key))).await? else {
        return Ok(false);
    };
    let view = &found.view;
    let is_this = view.state == MessageState::Leased && view.attempts == lease.attempt;
    // Of queues that they may not receive from they learn nothing.
    let may_know = asked.caller.rights().may_with_queue(QueueAction::Receive, &view.queue);
    Ok(is_this && *view.queue != *queue && may_know)
}

fn changed(outcome: Result<(), LeaseRefusal>) -> Done<()> {
    let what = match outcome {
        Ok(()) => return Ok(()),
        Err(LeaseRefusal::Unknown) => "the queue does not have the message any more",
        Err(LeaseRefusal::Lost | LeaseRefusal::NotNow) => "the visibility timeout was over before",
    };
    Err(AwsError::new(codes::MESSAGE_NOT_INFLIGHT, what))
}

/// Gives leases so many seconds from now; with none, their messages are given back.
fn change_call(queue: &str, leases: Vec<Lease>, seconds: u64) -> Call {
    let queue = queue.into();
    match seconds {
        0 => Call::Reject {
            queue,
            leases,
            then: Rejection::Retry(Some(0)),
            reason: "its visibility timeout was set to 0".into(),
        },
        _ => Call::Extend { queue, leases, lease_ms: seconds * 1_000 },
    }
}

/// `DeleteMessage`
pub async fn delete(asked: &Asked<'_>) -> Done {
    let OneBody { queue_url, delivery } = asked.body()?;
    let queue = queue_of(queue_url.as_deref())?;
    asked.check_right(QueueAction::Receive, &queue)?;
    let lease = delivery.lease()?;
    for outcome in outcomes(asked, Call::Acknowledge { queue: queue.clone(), leases: vec![lease] }).await? {
        deleted(asked, &queue, lease, outcome).await?;
    }
    Ok(json!({}))
}

/// `ChangeMessageVisibility`
pub async fn change(asked: &Asked<'_>) -> Done {
    let OneBody { queue_url, delivery } = asked.body()?;
    let queue = queue_of(queue_url.as_deref())?;
    asked.check_right(QueueAction::Receive, &queue)?;
    let (lease, seconds) = (delivery.lease()?, delivery.timeout_s()?);
    for outcome in outcomes(asked, change_call(&queue, vec![lease], seconds)).await? {
        changed(outcome)?;
    }
    Ok(json!({}))
}

/// `DeleteMessageBatch`
pub async fn delete_batch(asked: &Asked<'_>) -> Done {
    let BatchBody { queue_url, entries } = asked.body()?;
    let queue = queue_of(queue_url.as_deref())?;
    asked.check_right(QueueAction::Receive, &queue)?;
    check_entries(&entries)?;
    let mut answers = Entries::default();
    let mut good = Vec::with_capacity(entries.len());
    for entry in &entries {
        match entry.lease() {
            Ok(lease) => good.push((entry, lease)),
            Err(error) => answers.failed(entry.id().expect("entries were checked"), &error),
        }
    }
    let leases: Vec<Lease> = good.iter().map(|(_, lease)| *lease).collect();
    if leases.is_empty() {
        asked.look(&queue).await?;
        return Ok(answers.answer());
    }
    let outcomes = outcomes(asked, Call::Acknowledge { queue: queue.clone(), leases }).await?;
    let mut all = Vec::with_capacity(outcomes.len());
    for ((entry, lease), outcome) in good.into_iter().zip(outcomes) {
        all.push((entry, deleted(asked, &queue, lease, outcome).await));
    }
    tell(&mut answers, all.into_iter());
    Ok(answers.answer())
}

/// `ChangeMessageVisibilityBatch`: a call for each length of time.
pub async fn change_batch(asked: &Asked<'_>) -> Done {
    let BatchBody { queue_url, entries } = asked.body()?;
    let queue = queue_of(queue_url.as_deref())?;
    asked.check_right(QueueAction::Receive, &queue)?;
    check_entries(&entries)?;
    asked.look(&queue).await?;
    let mut answers = Entries::default();
    let mut good = Vec::with_capacity(entries.len());
    for entry in &entries {
        match entry.lease().and_then(|lease| Ok((entry.timeout_s()?, entry, lease))) {
            Ok(change) => good.push(change),
            Err(error) => answers.failed(entry.id().expect("entries were checked"), &error),
        }
    }
    good.sort_by_key(|(seconds, ..)| *seconds);
    for alike in good.chunk_by(|(one, ..), (other, ..)| one == other) {
        let leases = alike.iter().map(|(.., lease)| *lease).collect();
        let outcomes = outcomes(asked, change_call(&queue, leases, alike[0].0)).await?;
        tell(&mut answers, alike.iter().map(|(_, entry, _)| *entry).zip(outcomes.into_iter().map(changed)));
    }
    Ok(answers.answer())
}

/// Adds what became of each entry.
fn tell<'e>(answers: &mut Entries, told: impl Iterator<Item = (&'e DeliveryBody, Done<()>)>) {
    for (entry, done) in told {
        let id = entry.id().expect("entries were checked");
        match done {
            Ok(()) => answers.done(json!({ "Id": id })),
            Err(error) => answers.failed(id, &error),
        }
    }
}

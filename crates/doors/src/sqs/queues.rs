//! Making, changing, listing, purging and deleting queues.

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_queue::machine::{QueueView, Refusal, Settings, is_queue_name};
use tidegate_queue::{Answer, Call, Read};

use super::arguments::within;
use super::error::{AwsError, codes};
use super::names::{is_fifo, queue_of};
use super::noted::TAGS_MAX;
use super::settings::{Given, QueueAttributes, shown};
use super::{Asked, Done, now};
use crate::auth::QueueAction;
use crate::queue_calls::{may_know, owner_of};

/// Queues that one answer lists.
const LISTED_MAX: usize = 1_000;
/// How often a queue is emptied to be deleted while others send to it.
const DELETE_TRIES: usize = 3;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct CreateBody {
    queue_name: Option<Box<str>>,
    attributes: Given,
    // Alone among all parameters, it is written small.
    #[serde(rename = "tags", alias = "Tags")]
    tags: Given,
}

/// A request about one queue.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct OfQueueBody {
    queue_url: Option<Box<str>>,
    attributes: Given,
    attribute_names: Vec<Box<str>>,
    tags: Given,
    tag_keys: Vec<Box<str>>,
    max_results: Option<i64>,
    next_token: Option<Box<str>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct ListBody {
    queue_name_prefix: Option<Box<str>>,
    max_results: Option<i64>,
    next_token: Option<Box<str>>,
}

fn url_answer(asked: &Asked<'_>, name: &str) -> Value {
    json!({ "QueueUrl": asked.url_of(name) })
}

/// The queue that a request is about, if it names one.
pub fn named(asked: &Asked<'_>) -> Option<Box<str>> {
    let CreateBody { queue_name, .. } = asked.body().ok()?;
    let of_url = || queue_of(asked.body::<OfQueueBody>().ok()?.queue_url.as_deref()).ok();
    queue_name.or_else(of_url)
}

/// The queue that a request names by its URL, if the caller may manage it.
async fn managed(asked: &Asked<'_>, body: &OfQueueBody) -> Done<(Box<str>, QueueView)> {
    let name = queue_of(body.queue_url.as_deref())?;
    asked.check_right(QueueAction::Admin, &name)?;
    let view = asked.look(&name).await?;
    Ok((name, view))
}

/// Who sets where dead letters go puts messages there.
fn check_dead_letter(asked: &Asked<'_>, given: &Given, attributes: &QueueAttributes) -> Done<()> {
    match attributes.dead_letter() {
        Some(target) if given.contains_key("RedrivePolicy") => asked.check_right(QueueAction::Admin, target),
        _ => Ok(()),
    }
}

/// Sets a queue's attributes. A dead letter queue that is not there is a wrong value.
async fn set(asked: &Asked<'_>, name: &str, attributes: QueueAttributes) -> Done<()> {
    let settings = Box::new(Settings { owner: owner_of(&asked.caller), ..attributes.into_settings() });
    match asked.decide(Call::SetQueue { name: name.into(), settings }).await? {
        Ok(_) => Ok(()),
        Err(refusal @ (Refusal::QueueNotFound(_) | Refusal::OnTwoShards)) => {
            Err(AwsError::new(codes::INVALID_ATTRIBUTE_VALUE, format!("RedrivePolicy: {refusal}")))
        }
        Err(refusal) => Err((&refusal).into()),
    }
}

/// `CreateQueue`
pub async fn create(asked: &Asked<'_>) -> Done {
    let CreateBody { queue_name, attributes: given, tags } = asked.body()?;
    let name = queue_name.ok_or_else(|| AwsError::missing("QueueName"))?;
    asked.check_right(QueueAction::Admin, &name)?;
    if !is_queue_name(&name) {
        return Err(AwsError::parameter("QueueName", Refusal::QueueNameInvalid));
    }
    if is_fifo(&name) && !given.contains_key("FifoQueue") {
        return Err(AwsError::parameter("QueueName", "a name that ends in .fifo needs the attribute FifoQueue = true"));
    }
    let before = match asked.look(&name).await {
        Ok(view) => Some(QueueAttributes::of(&view.settings)),
        Err(error) if error.code == codes::QUEUE_DOES_NOT_EXIST => None,
        Err(error) => return Err(error),
    };
    let is_there = before.is_some();
    let mut attributes = before.clone().unwrap_or_else(QueueAttributes::of_new_queue);
    attributes.change(&name, &given)?;
    check_dead_letter(asked, &given, &attributes)?;
    if is_there {
        return match before == Some(attributes) {
            true => Ok(url_answer(asked, &name)),
            false => {
                let detail = format!("there is a queue {name:?} already, with other attributes");
                Err(AwsError::new(codes::QUEUE_NAME_EXISTS, detail))
            }
        };
    }
    let now_s = now().0 / 1_000;
    (attributes.noted.created_s, attributes.noted.changed_s) = (now_s, now_s);
    add_tags(&mut attributes, tags)?;
    set(asked, &name, attributes).await?;
    Ok(url_answer(asked, &name))
}

/// `GetQueueUrl`
pub async fn url(asked: &Asked<'_>) -> Done {
    let CreateBody { queue_name, .. } = asked.body()?;
    let name = queue_name.ok_or_else(|| AwsError::missing("QueueName"))?;
    asked.check_known(&name)?;
    asked.look(&name).await?;
    Ok(url_answer(asked, &name))
}

/// `GetQueueAttributes`
pub async fn attributes(asked: &Asked<'_>) -> Done {
    let body: OfQueueBody = asked.body()?;
    let name = queue_of(body.queue_url.as_deref())?;
    asked.check_known(&name)?;
    let view = asked.look(&name).await?;
    let shown = shown(&view, &body.attribute_names)?;
    Ok(if shown.is_empty() { json!({}) } else { json!({ "Attributes": shown }) })
}

/// `SetQueueAttributes`
pub async fn set_attributes(asked: &Asked<'_>) -> Done {
    let body: OfQueueBody = asked.body()?;
    let (name, view) = managed(asked, &body).await?;
    let mut attributes = QueueAttributes::of(&view.settings);
    attributes.change(&name, &body.attributes)?;
    check_dead_letter(asked, &body.attributes, &attributes)?;
    attributes.noted.changed_s = now().0 / 1_000;
    set(asked, &name, attributes).await?;
    Ok(json!({}))
}

/// `PurgeQueue`
pub async fn purge(asked: &Asked<'_>) -> Done {
    let body: OfQueueBody = asked.body()?;
    let queue = queue_of(body.queue_url.as_deref())?;
    asked.check_right(QueueAction::Admin, &queue)?;
    asked.ask(Call::Purge { queue }).await?;
    Ok(json!({}))
}

/// `DeleteQueue`: with its messages. Nothing is removed if other queues send their dead letters there.
pub async fn delete(asked: &Asked<'_>) -> Done {
    let body: OfQueueBody = asked.body()?;
    let name = queue_of(body.queue_url.as_deref())?;
    asked.check_right(QueueAction::Admin, &name)?;
    for _ in 0..DELETE_TRIES {
        match asked.decide(Call::DeleteQueue { name: name.clone() }).await? {
            Ok(_) => return Ok(json!({})),
            Err(Refusal::QueueNotEmpty) => {}
            Err(refusal) => return Err((&refusal).into()),
        }
        let is_source = |view: &QueueView| view.settings.dead_letter.as_deref() == Some(&*name);
        if let Some(source) = look_through(asked, "", 1, is_source).await?.0.into_iter().next() {
            return Err((&Refusal::QueueInUse(source)).into());
        }
        asked.ask(Call::Purge { queue: name.clone() }).await?;
    }
    Err((&Refusal::QueueNotEmpty).into())
}

/// `ListQueues`: those with which the caller may do something.
pub async fn list(asked: &Asked<'_>) -> Done {
    let ListBody { queue_name_prefix, max_results, next_token } = asked.body()?;
    let limit = within("MaxResults", max_results, 1..=LISTED_MAX as i64)?.map_or(LISTED_MAX, |limit| limit as usize);
    let prefix = queue_name_prefix.unwrap_or_default();
    let after = next_token.unwrap_or_else(|| before(&prefix).into());
    let is_listed = |view: &QueueView| view.name.starts_with(&*prefix) && may_know(&asked.caller, &view.name);
    let (names, next) = look_through(asked, &after, limit, is_listed).await?;
    let next = next.filter(|next| next.starts_with(&*prefix));
    Ok(page("QueueUrls", asked, &names, next))
}

/// `ListDeadLetterSourceQueues`
pub async fn list_sources(asked: &Asked<'_>) -> Done {
    let body: OfQueueBody = asked.body()?;
    let limit = within("MaxResults", body.max_results, 1..=LISTED_MAX as i64)?;
    let (name, _) = managed(asked, &body).await?;
    let after = body.next_token.unwrap_or_default();
    let limit = limit.map_or(LISTED_MAX, |limit| limit as usize);
    let is_source = |view: &QueueView| view.settings.dead_letter.as_deref() == Some(&*name);
    let (names, next) = look_through(asked, &after, limit, is_source).await?;
    // Here the list is written small, as in SQS.
    Ok(page("queueUrls", asked, &names, next))
}

fn page(list: &str, asked: &Asked<'_>, names: &[Box<str>], next: Option<Box<str>>) -> Value {
    let urls: Vec<String> = names.iter().map(|name| asked.url_of(name)).collect();
    match next {
        Some(next) => json!({ list: urls, "NextToken": next }),
        None => json!({ list: urls }),
    }
}

/// The greatest text before all names that begin with `prefix`: characters of names are smaller than `~`.
fn before(prefix: &str) -> String {
    match prefix.as_bytes() {
        [head @ .., last] if prefix.is_ascii() && *last > 0 => {
            let mut text = String::from_utf8_lossy(head).into_owned();
            text.push(char::from(last - 1));
            text.push('~');
            text
        }
        _ => String::new(),
    }
}

/// Up to `limit` names of queues after one that `is_wanted` lets pass, and the last of them if there are more: of
/// others no name is told, however many are passed over. Each page that is looked through waits for the caller's turn.
async fn look_through(
    asked: &Asked<'_>,
    after: &str,
    limit: usize,
    is_wanted: impl Fn(&QueueView) -> bool,
) -> Done<(Vec<Box<str>>, Option<Box<str>>)> {
    let (mut names, mut after): (Vec<Box<str>>, Box<str>) = (Vec::new(), after.into());
    loop {
        let read = Read::Queues { after: after.clone(), limit: LISTED_MAX };
        let Answer::Queues(rows) = asked.ask(Call::Read(read)).await? else {
            unreachable!("a list is answered with a list")
        };
        let Some((last, _)) = rows.last() else { return Ok((names, None)) };
        asked.served.door.take_turns_of_rows(&asked.caller, rows.len()).await;
        let (is_last_page, end) = (rows.len() < LISTED_MAX, last.name.clone());
        for (view, _) in rows.iter().filter(|(view, _)| is_wanted(view)) {
            if names.len() == limit {
                let next = names.last().cloned();
                return Ok((names, next));
            }
            names.push(view.name.clone());
        }
        if is_last_page {
            return Ok((names, None));
        }
        after = end;
    }
}

fn add_tags(attributes: &mut QueueAttributes, tags: Given) -> Done<()> {
    let fits = |key: &str, value: &str| (1..=128).contains(&key.chars().count()) && value.len() <= 1_024;
    if !tags.iter().all(|(key, value)| fits(key, value)) {
        return Err(AwsError::parameter("Tags", "a key has 1 to 128 characters, a value at most 1024 bytes"));
    }
    attributes.noted.tags.extend(tags);
    match attributes.noted.tags.len() > TAGS_MAX {
        true => Err(AwsError::parameter("Tags", format!("a queue has at most {TAGS_MAX} tags"))),
        false => Ok(()),
    }
}

/// `TagQueue`
pub async fn tag(asked: &Asked<'_>) -> Done {
    let body: OfQueueBody = asked.body()?;
    let (name, view) = managed(asked, &body).await?;
    let mut attributes = QueueAttributes::of(&view.settings);
    add_tags(&mut attributes, body.tags)?;
    set(asked, &name, attributes).await?;
    Ok(json!({}))
}

/// `UntagQueue`
pub async fn untag(asked: &Asked<'_>) -> Done {
    let body: OfQueueBody = asked.body()?;
    let (name, view) = managed(asked, &body).await?;
    let mut attributes = QueueAttributes::of(&view.settings);
    attributes.noted.tags.retain(|key, _| !body.tag_keys.contains(key));
    set(asked, &name, attributes).await?;
    Ok(json!({}))
}

/// `ListQueueTags`
pub async fn list_tags(asked: &Asked<'_>) -> Done {
    let body: OfQueueBody = asked.body()?;
    let (_, view) = managed(asked, &body).await?;
    Ok(json!({ "Tags": QueueAttributes::of(&view.settings).noted.tags }))
}

#[cfg(test)]
mod tests {
    use super::before;

    #[test]
    fn a_prefix_is_looked_for_where_it_begins() {
        for (prefix, earlier, first) in [("jobs", "jobr}}", "jobs"), ("a", "`", "a"), ("jobs-", "jobs,", "jobs-1")] {
            let before = before(prefix);
            assert!(*earlier < *before && *before < *first, "{prefix}: {before}");
        }
        assert_eq!((before(""), before("é")), (String::new(), String::new()));
    }
}

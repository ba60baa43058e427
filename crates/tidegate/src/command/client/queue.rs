//! `tidegate queue` and `tidegate message`: queues, what waits in them, and where a message is.

use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::door::{Door, encoded, query};
use super::failure::Failure;
use super::id::not_empty;
use super::movement::{self, Known};
use super::pages;
use super::schedule::{self, Schedule};
use super::table::{Columns, Fields, Shown};
use super::walk::{self, WalkArguments};

/// `tidegate queue`
#[derive(Subcommand)]
pub enum Queue {
    /// List queues, in the order of their names.
    List {
        /// At most so many; all if absent.
        #[arg(long, value_name = "N", value_parser = movement::limit)]
        limit: Option<u64>,
    },
    /// Show a queue: what waits, how fast it fills and empties, its settings.
    Get {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
    },
    /// Make a queue, or change settings of one that is there. What is not named stays as it is, or is as by default.
    Put {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
        /// A setting, such as lease_ms=60000, dead_letter=sms-dead or expiry_ms=null; again for each.
        #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
        settings: Vec<(String, Value)>,
    },
    /// Hand out nothing; messages are still taken.
    Pause {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
    },
    /// Hand out messages again.
    Resume {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
    },
    /// Look through the messages of a queue. Nobody gets them by this.
    Messages {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
        /// At most so many; all if absent.
        #[arg(long, value_name = "N", value_parser = movement::limit)]
        limit: Option<u64>,
    },
    /// Send a message.
    Send {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
        /// Its body.
        body: String,
        /// An id: a second message of this id is not taken while the queue remembers it.
        #[arg(long, value_parser = not_empty)]
        id: Option<String>,
        /// Deliver it so many milliseconds later.
        #[arg(long, value_name = "MS")]
        delay_ms: Option<u64>,
        /// From 0, the last, to 9, the first.
        #[arg(long, value_name = "N")]
        priority: Option<u8>,
        /// Messages of one key come one after the other.
        #[arg(long, value_name = "KEY", value_parser = not_empty)]
        ordering_key: Option<String>,
        /// An attribute, such as to=+491701234567; again for each.
        #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = attribute)]
        attributes: Vec<(String, String)>,
    },
    /// Remove all messages that a queue has now.
    Purge {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
        /// Their number is not asked for.
        #[arg(long)]
        yes: bool,
    },
    /// Put the waiting messages of a queue, such as dead letters, into another one.
    Redrive {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
        /// Where to.
        #[arg(long, value_name = "QUEUE", value_parser = not_empty)]
        to: String,
        /// At most so many; all if absent.
        #[arg(long, value_name = "N")]
        max: Option<u64>,
    },
    /// Delete a queue that has no messages.
    Delete {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
    },
    /// Send what waits on a node that has stopped or crashed to another server, from its data directory alone.
    Walk(WalkArguments),
    /// See, make and remove schedules: messages that a queue sends itself at certain times.
    Schedule {
        #[command(subcommand)]
        what: Schedule,
    },
}

/// `tidegate message`
#[derive(Subcommand)]
pub enum Message {
    /// Show where a message is, and what happened to it.
    Get {
        /// Its key.
        #[arg(value_parser = not_empty)]
        key: String,
    },
    /// The same, by the id that its sender gave it.
    Find {
        /// Its queue.
        #[arg(value_parser = not_empty)]
        queue: String,
        #[command(flatten)]
        id: Known,
    },
    /// Take a message back that nobody has.
    Cancel {
        #[command(flatten)]
        named: Named,
    },
    /// Deliver a message that nobody has at another time.
    Reschedule {
        #[command(flatten)]
        named: Named,
        /// So many milliseconds from now.
        #[arg(long, value_name = "MS", conflicts_with = "deliver_at_ms", required_unless_present = "deliver_at_ms")]
        delay_ms: Option<u64>,
        /// At this time, in milliseconds since 1970.
        #[arg(long, value_name = "MS")]
        deliver_at_ms: Option<u64>,
    },
}

/// One message, by its key or by what its sender called it.
#[derive(clap::Args)]
pub struct Named {
    /// Its key; with --queue, the id that its sender gave it.
    #[arg(value_parser = not_empty, value_name = "KEY|ID")]
    name: String,
    /// The queue in which its sender gave it this id.
    #[arg(long, value_parser = not_empty)]
    queue: Option<String>,
    /// The id space of that id, where it is none of yours.
    #[arg(long, value_name = "SPACE", requires = "queue")]
    id_space: Option<String>,
}

impl Named {
    fn path(&self) -> String {
        match &self.queue {
            None => format!("/v1/messages/{}", encoded(&self.name)),
            Some(queue) => {
                let of_id = format!("{}/ids/{}", path(queue), encoded(&self.name));
                query(&of_id, &[("id_space", self.id_space.as_deref())])
            }
        }
    }
}

/// Reads `NAME=VALUE`.
fn attribute(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, such as to=+491701234567")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Reads `KEY=VALUE`; what is no JSON is a text.
fn setting(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as lease_ms=60000")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((key.to_owned(), value))
}

fn path(name: &str) -> String {
    format!("/v1/queues/{}", encoded(name))
}

pub(super) fn run(door: &Door, shown: &Shown, what: Queue) -> Result<(), Failure> {
    let paused =
        |name: &str, paused: bool| shown.one(Fields::QUEUE, &door.patch(&path(name), &json!({ "paused": paused }))?);
    match what {
        Queue::List { limit } => pages::show(door, shown, Columns::QUEUE, "queues", limit, |after, limit| {
            query("/v1/queues", &[("after", after), ("limit", Some(limit))])
        }),
        Queue::Get { name } => shown.one(Fields::QUEUE, &door.get(&path(&name))?),
        Queue::Put { name, settings } => put(door, shown, &name, settings),
        Queue::Pause { name } => paused(&name, true),
        Queue::Resume { name } => paused(&name, false),
        Queue::Messages { name, limit } => {
            let rows = format!("{}/messages", path(&name));
            pages::show(door, shown, Columns::MESSAGE, "messages", limit, |after, limit| {
                query(&rows, &[("after", after), ("limit", Some(limit))])
            })
        }
        Queue::Send { name, body, id, delay_ms, priority, ordering_key, attributes } => {
            let mut message = json!({ "body": body });
            let attributes = attributes.into_iter().map(|(name, value)| (name, value.into())).collect::<Map<_, _>>();
            let given = [
                ("id", id.map(Value::from)),
                ("delay_ms", delay_ms.map(Value::from)),
                ("priority", priority.map(Value::from)),
                ("ordering_key", ordering_key.map(Value::from)),
                ("attributes", (!attributes.is_empty()).then_some(attributes.into())),
            ];
            for (field, value) in given {
                if let Some(value) = value {
                    message[field] = value;
                }
            }
            let sent = door.post(&format!("{}/messages", path(&name)), &json!({ "messages": [message] }))?;
            shown.rows(Columns::SENT, sent["messages"].as_array().map(Vec::as_slice).unwrap_or_default(), true)
        }
        Queue::Purge { name, yes } => {
            if !yes {
                let there = door.get(&path(&name))?;
                let count = |field: &str| there[field].as_u64().unwrap_or(0);
                let all = count("waiting") + count("scheduled") + count("leased");
                return Err(Failure::CommandLine(format!(
                    "queue \"{name}\" has {all} messages, which would be gone for ever; say --yes to remove them"
                )));
            }
            shown.one(Fields::MESSAGES, &door.post(&format!("{}/purge", path(&name)), &json!({}))?)
        }
        Queue::Redrive { name, to, max } => {
            let body = max.map_or_else(|| json!({ "to": to }), |max| json!({ "to": to, "max": max }));
            shown.one(Fields::MESSAGES, &door.post(&format!("{}/redrive", path(&name)), &body)?)
        }
        Queue::Walk(arguments) => walk::run(door, shown, &arguments),
        Queue::Schedule { what } => schedule::run(door, shown, what),
        Queue::Delete { name } => shown.rows(Columns::DELETED, &[door.delete(&path(&name))?], true),
    }
}

/// Changes a queue, or makes it if it is not there.
fn put(door: &Door, shown: &Shown, name: &str, settings: Vec<(String, Value)>) -> Result<(), Failure> {
    let body = Value::Object(settings.into_iter().collect::<Map<_, _>>());
    let set = match door.patch(&path(name), &body) {
        Err(Failure::Refused(refusal)) if refusal.code() == "queue_not_found" => door.put(&path(name), &body)?,
        done => done?,
    };
    shown.one(Fields::QUEUE, &set)
}

pub(super) fn message(door: &Door, shown: &Shown, what: Message) -> Result<(), Failure> {
    match what {
        Message::Get { key } => trail(shown, &door.get(&format!("/v1/messages/{}", encoded(&key)))?),
        Message::Find { queue, id } => {
            let address = id.address(&format!("{}/ids/{}", path(&queue), encoded(&id.id)));
            trail(shown, &door.get(&address)?)
        }
        Message::Cancel { named } => shown.one(Fields::MESSAGE, &door.delete(&named.path())?),
        Message::Reschedule { named, delay_ms, deliver_at_ms } => {
            let given = [("delay_ms", delay_ms), ("deliver_at_ms", deliver_at_ms)];
            let body: Map<_, _> =
                given.into_iter().filter_map(|(name, ms)| Some((name.to_owned(), ms?.into()))).collect();
            shown.one(Fields::MESSAGE, &door.patch(&named.path(), &Value::Object(body))?)
        }
    }
}

/// A message, and its steps below it.
fn trail(shown: &Shown, message: &Value) -> Result<(), Failure> {
    shown.one(Fields::MESSAGE, message)?;
    match message["trail"].as_array() {
        Some(steps) if !shown.is_json() => shown.rows(Columns::STEP, steps, true),
        _ => Ok(()),
    }
}

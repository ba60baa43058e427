//! `tidegate queue schedule`: messages that a queue sends itself at certain times.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::door::{Door, encoded, query};
use super::failure::Failure;
use super::id::not_empty;
use super::movement;
use super::pages;
use super::table::{Columns, Fields, Shown};

/// `tidegate queue schedule`
#[derive(Subcommand)]
pub enum Schedule {
    /// List the schedules of a queue, in the order of their names.
    List {
        /// Name of the queue.
        #[arg(value_parser = not_empty)]
        queue: String,
        /// At most so many; all if absent.
        #[arg(long, value_name = "N", value_parser = movement::limit)]
        limit: Option<u64>,
    },
    /// Show a schedule: when it fires, and what it sends.
    Get {
        /// Name of the queue.
        #[arg(value_parser = not_empty)]
        queue: String,
        /// Name of the schedule.
        #[arg(value_parser = not_empty)]
        name: String,
    },
    /// Make a schedule, or put another one in its place.
    Put {
        /// Name of the queue.
        #[arg(value_parser = not_empty)]
        queue: String,
        /// Name of the schedule.
        #[arg(value_parser = not_empty)]
        name: String,
        #[command(flatten)]
        what: What,
    },
    /// Remove a schedule. What it has sent stays.
    Delete {
        /// Name of the queue.
        #[arg(value_parser = not_empty)]
        queue: String,
        /// Name of the schedule.
        #[arg(value_parser = not_empty)]
        name: String,
    },
}

/// When a schedule fires, and what it sends.
#[derive(Args)]
pub struct What {
    /// When: minute, hour, day of the month, month and day of the week, as "0 9 * * mon-fri".
    #[arg(long, value_name = "FIELDS", value_parser = not_empty)]
    cron: String,
    /// By whose clocks: a time zone such as Europe/Berlin.
    #[arg(long, default_value = "UTC", value_parser = not_empty)]
    zone: String,
    /// The body of its messages.
    #[arg(long, value_name = "TEXT")]
    body: String,
    /// Their ordering key.
    #[arg(long, value_name = "KEY", value_parser = not_empty)]
    ordering_key: Option<String>,
    /// Their priority: 0 to 9, the highest goes first.
    #[arg(long, value_name = "N")]
    priority: Option<u8>,
    /// Drop each if nobody acknowledged it in so many milliseconds.
    #[arg(long, value_name = "MS")]
    expires_in_ms: Option<u64>,
}

impl What {
    fn body(self) -> Value {
        let mut message = json!({ "body": self.body });
        let given = [
            ("ordering_key", self.ordering_key.map(Value::from)),
            ("priority", self.priority.map(Value::from)),
            ("expires_in_ms", self.expires_in_ms.map(Value::from)),
        ];
        for (field, value) in given {
            if let Some(value) = value {
                message[field] = value;
            }
        }
        json!({ "cron": self.cron, "zone": self.zone, "message": message })
    }
}

fn path(queue: &str, name: &str) -> String {
    format!("/v1/queues/{}/schedules/{}", encoded(queue), encoded(name))
}

pub(super) fn run(door: &Door, shown: &Shown, what: Schedule) -> Result<(), Failure> {
    match what {
        Schedule::List { queue, limit } => {
            let rows = format!("/v1/queues/{}/schedules", encoded(&queue));
            pages::show(door, shown, Columns::SCHEDULE, "schedules", limit, |after, limit| {
                query(&rows, &[("after", after), ("limit", Some(limit))])
            })
        }
        Schedule::Get { queue, name } => shown.one(Fields::SCHEDULE, &door.get(&path(&queue, &name))?),
        Schedule::Put { queue, name, what } => {
            shown.one(Fields::SCHEDULE, &door.put(&path(&queue, &name), &what.body())?)
        }
        Schedule::Delete { queue, name } => shown.rows(Columns::DELETED, &[door.delete(&path(&queue, &name))?], true),
    }
}

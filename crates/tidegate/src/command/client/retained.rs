//! `tidegate retained`: which MQTT messages are retained, and clearing them.

use clap::Subcommand;
use serde_json::json;

use super::door::{Door, query};
use super::failure::Failure;
use super::movement;
use super::pages;
use super::table::{Columns, Shown};

/// `tidegate retained`
#[derive(Subcommand)]
pub enum Retained {
    /// List retained messages, in the order of their topics.
    List {
        /// Only topics that this filter of MQTT matches.
        #[arg(long, default_value = "#")]
        filter: String,
        /// At most so many; all if absent.
        #[arg(long, value_name = "N", value_parser = movement::limit)]
        limit: Option<u64>,
    },
    /// Clear the retained messages of all topics that a filter of MQTT matches. Who subscribes to them gets an empty
    /// message, as when a client clears them.
    Clear {
        /// A topic, or a filter such as show/#.
        filter: String,
    },
}

pub(super) fn run(door: &Door, shown: &Shown, what: Retained) -> Result<(), Failure> {
    match what {
        Retained::List { filter, limit } => {
            let page = |after: Option<&str>, limit: &str| {
                query("/v1/retained", &[("filter", Some(&filter)), ("after", after), ("limit", Some(limit))])
            };
            pages::show(door, shown, Columns::RETAINED, "retained", limit, page)
        }
        Retained::Clear { filter } => clear(door, shown, &filter),
    }
}

/// Clears page after page, until nothing is left, or nothing of a page could be cleared.
fn clear(door: &Door, shown: &Shown, filter: &str) -> Result<(), Failure> {
    let path = query("/v1/retained", &[("filter", Some(filter)), ("limit", Some("1000"))]);
    let mut cleared = 0;
    loop {
        let page = door.delete(&path).map_err(|failure| match cleared {
            0 => failure,
            _ => failure.while_doing(&format!("{cleared} are cleared")),
        })?;
        let of_page = page["cleared"].as_u64().unwrap_or(0);
        cleared += of_page;
        if of_page == 0 || page["more"] != true {
            break;
        }
    }
    shown.rows(Columns::CLEARED, &[json!({ "filter": filter, "cleared": cleared })], true)
}

//! `tidegate services`: programs that may come in beside those of the configuration.

use clap::{Args, Subcommand};
use serde_json::json;

use super::door::{Door, encoded, query};
use super::failure::Failure;
use super::id::not_empty;
use super::movement;
use super::pages;
use super::table::{Columns, Fields, Shown};

/// `tidegate services`
#[derive(Subcommand)]
pub enum Services {
    /// List the services that were made so, in the order of their names.
    List(Listed),
    /// Show one.
    Get {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
    },
    /// Make a service, or give it other grants. A new one gets a token, which is shown once.
    Put {
        /// Name: %u in its grants.
        #[arg(value_parser = not_empty)]
        name: String,
        #[command(flatten)]
        grants: Grants,
    },
    /// Give a service another token, which is shown once. The one before is no good any more.
    Token {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
    },
    /// Delete a service. Its token is no good any more.
    Delete {
        /// Name.
        #[arg(value_parser = not_empty)]
        name: String,
    },
}

/// What a service may do from now on. That it is nothing must be said: a put replaces what was before.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct Grants {
    /// What it may do, as service.grants of the configuration; again for each grant.
    #[arg(long = "grant", value_name = "GRANT")]
    grants: Vec<String>,
    /// It may do nothing.
    #[arg(long)]
    no_grants: bool,
}

/// How many services or users.
#[derive(Args)]
pub struct Listed {
    /// At most so many; all if absent.
    #[arg(long, value_name = "N", value_parser = movement::limit)]
    limit: Option<u64>,
}

pub(super) fn run(door: &Door, shown: &Shown, what: Services) -> Result<(), Failure> {
    let path = |name: &str| format!("/v1/services/{}", encoded(name));
    match what {
        Services::List(listed) => list(door, shown, ("/v1/services", "services"), Columns::SERVICE, &listed),
        Services::Get { name } => shown.one(Fields::SERVICE, &door.get(&path(&name))?),
        Services::Put { name, grants: Grants { grants, .. } } => {
            shown.one(Fields::SERVICE, &door.put(&path(&name), &json!({ "grants": grants }))?)
        }
        Services::Token { name } => {
            shown.one(Fields::SERVICE, &door.post(&format!("{}/token", path(&name)), &json!({}))?)
        }
        Services::Delete { name } => shown.rows(Columns::DELETED, &[door.delete(&path(&name))?], true),
    }
}

/// Shows pages of services or users.
pub(super) fn list(
    door: &Door,
    shown: &Shown,
    (path, rows): (&str, &str),
    columns: Columns,
    listed: &Listed,
) -> Result<(), Failure> {
    let page = |after: Option<&str>, limit: &str| query(path, &[("after", after), ("limit", Some(limit))]);
    pages::show(door, shown, columns, rows, listed.limit, page)
}

//! `tidegate account`: opens accounts, shows their figures, histories and holds, and sets what is set on them.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::door::{Door, encoded, query};
use super::failure::Failure;
use super::id::not_empty;
use super::movement;
use super::pages;
use super::table::{Columns, Fields, Shown};
use crate::command::number::whole;

/// What an account may be.
pub const KINDS: [&str; 3] = ["wallet", "source", "collector"];

/// `tidegate account`
#[derive(Subcommand)]
pub enum Account {
    /// Open an account; again with the same asset and kind, nothing happens.
    Open {
        /// Account id, such as wallet:dave.
        #[arg(value_parser = not_empty)]
        id: String,
        /// Unit of measure, such as credit.
        #[arg(long)]
        asset: String,
        /// What it may do: a wallet is never below zero, a source gives out money, a collector only takes in.
        #[arg(long, value_parser = KINDS)]
        kind: String,
    },
    /// Show an account's figures, status, limits and metadata, or its balance at a time.
    Get {
        /// Account id.
        #[arg(value_parser = not_empty)]
        id: String,
        /// The balance then: 2026-11-21T09:14:49Z, or milliseconds since 1970.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
    /// List accounts in the order of their ids.
    List {
        /// Only ids that begin so.
        #[arg(long, default_value = "", hide_default_value = true)]
        prefix: String,
        /// At most so many; all if absent.
        #[arg(long, value_name = "N", value_parser = movement::limit)]
        limit: Option<u64>,
    },
    /// Show what happened to an account, newest first.
    History {
        /// Account id.
        #[arg(value_parser = not_empty)]
        id: String,
        #[command(flatten)]
        chosen: Chosen,
    },
    /// List the open holds on an account, in the order of their placement.
    Holds {
        /// Account id.
        #[arg(value_parser = not_empty)]
        id: String,
        /// At most so many; all if absent.
        #[arg(long, value_name = "N", value_parser = movement::limit)]
        limit: Option<u64>,
    },
    /// Let nothing leave the account, and nothing enter it.
    Freeze {
        /// Account id.
        #[arg(value_parser = not_empty)]
        id: String,
        /// It can still be credited.
        #[arg(long)]
        debits_only: bool,
    },
    /// Open an account again that was frozen or closed.
    Unfreeze {
        /// Account id.
        #[arg(value_parser = not_empty)]
        id: String,
    },
    /// Close an account, which must be empty and without holds.
    Close {
        /// Account id.
        #[arg(value_parser = not_empty)]
        id: String,
    },
    /// Set limits of the balance, and metadata.
    Set {
        /// Account id.
        #[arg(value_parser = not_empty)]
        id: String,
        #[command(flatten)]
        settings: Settings,
        /// Only if the account is at this revision, which `account get` shows.
        #[arg(long, value_name = "N", value_parser = whole::<u64>(0..=u64::MAX, "a revision"))]
        if_revision: Option<u64>,
    },
}

/// Which rows of a history.
#[derive(Args)]
pub struct Chosen {
    /// Only rows of this time or later: 2026-11-21T09:14:49Z, or milliseconds since 1970.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only rows of this time or earlier.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// At most so many; all if absent.
    #[arg(long, value_name = "N", value_parser = movement::limit)]
    limit: Option<u64>,
}

/// What to set on an account; what is absent stays.
#[derive(Args)]
#[group(required = true, multiple = true, id = "settings")]
pub struct Settings {
    /// Refuse debits that would leave less available, minor units; `none` for no limit.
    #[arg(long, value_name = "AMOUNT", allow_hyphen_values = true, group = "settings", value_parser = limit)]
    balance_min: Option<Value>,
    /// Refuse credits that would leave more, minor units; `none` for no limit.
    #[arg(long, value_name = "AMOUNT", allow_hyphen_values = true, group = "settings", value_parser = limit)]
    balance_max: Option<Value>,
    /// Metadata to set, may be given several times.
    #[arg(long, value_name = "KEY=VALUE", group = "settings", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Metadata to remove, may be given several times.
    #[arg(long, value_name = "KEY", group = "settings")]
    unset: Vec<String>,
}

impl Settings {
    fn body(self) -> Result<Value, Failure> {
        let keys: Vec<&String> = self.metadata.iter().map(|(key, _)| key).chain(&self.unset).collect();
        if let Some(twice) = keys.iter().enumerate().find(|(place, key)| keys[..*place].contains(key)) {
            let what = format!("--metadata, --unset: {:?} is there twice, and which one counts is not said", twice.1);
            return Err(Failure::CommandLine(what));
        }
        let mut body = json!({});
        let limits = [("balance_min", self.balance_min), ("balance_max", self.balance_max)];
        limits
            .into_iter()
            .filter_map(|(name, limit)| Some((name, limit?)))
            .for_each(|(name, limit)| body[name] = limit);
        let removed = self.unset.into_iter().map(|key| (key, Value::Null));
        let set = self.metadata.into_iter().map(|(key, value)| (key, Value::String(value)));
        let metadata: serde_json::Map<String, Value> = removed.chain(set).collect();
        if !metadata.is_empty() {
            body["metadata"] = metadata.into();
        }
        Ok(body)
    }
}

/// An amount that may be below zero, or `none`.
fn limit(text: &str) -> Result<Value, String> {
    match text {
        "none" => Ok(Value::Null),
        text => {
            text.parse::<i64>().map(Value::from).map_err(|_| "expected an amount in minor units, or none".to_owned())
        }
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| "expected KEY=VALUE".to_owned())
}

pub(super) fn run(door: &Door, shown: &Shown, what: Account) -> Result<(), Failure> {
    let change = |id: String, body: Value| {
        let account = door.patch(&format!("/v1/accounts/{}", encoded(&id)), &body)?;
        shown.one(Fields::ACCOUNT, &account)
    };
    match what {
        Account::Open { id, asset, kind } => {
            let account = door.post("/v1/accounts", &json!({ "id": id, "asset": asset, "kind": kind }))?;
            shown.one(Fields::ACCOUNT, &account)
        }
        Account::Get { id, at: None } => {
            let account = door.get(&format!("/v1/accounts/{}", encoded(&id)))?;
            shown.one(Fields::ACCOUNT, &account)
        }
        Account::Get { id, at: Some(at) } => shown.one(Fields::BALANCE_AT, &balance_at(door, &id, &at)?),
        Account::List { prefix, limit } => {
            let prefix = Some(&*prefix).filter(|prefix| !prefix.is_empty());
            let path = |after: Option<&str>, limit: &str| {
                query("/v1/accounts", &[("prefix", prefix), ("after", after), ("limit", Some(limit))])
            };
            pages::show(door, shown, Columns::ACCOUNT, "accounts", limit, path)
        }
        Account::History { id, chosen } => history(door, shown, &id, &chosen),
        Account::Holds { id, limit } => open_holds(door, shown, &id, limit),
        Account::Freeze { id, debits_only } => {
            change(id, json!({ "status": if debits_only { "debits_frozen" } else { "frozen" } }))
        }
        Account::Unfreeze { id } => change(id, json!({ "status": "open" })),
        Account::Close { id } => change(id, json!({ "status": "closed" })),
        Account::Set { id, settings, if_revision } => {
            let mut body = settings.body()?;
            if let Some(revision) = if_revision {
                body["if_revision"] = revision.into();
            }
            change(id, body)
        }
    }
}

/// Goes back in time over as many requests as that takes.
fn balance_at(door: &Door, id: &str, at: &str) -> Result<Value, Failure> {
    let path = format!("/v1/accounts/{}", encoded(id));
    let mut before: Option<String> = None;
    loop {
        match door.get(&query(&path, &[("at", Some(at)), ("before", before.as_deref())])) {
            Err(Failure::Refused(refusal)) if refusal.member("next").is_some() => before = refusal.member("next"),
            other => return other,
        }
    }
}

/// Shows the history of an account.
pub(super) fn history(door: &Door, shown: &Shown, id: &str, chosen: &Chosen) -> Result<(), Failure> {
    let path = format!("/v1/accounts/{}/transfers", encoded(id));
    let page = |before: Option<&str>, limit: &str| {
        let times = [("from_time", chosen.from.as_deref()), ("to_time", chosen.to.as_deref())];
        query(&path, &[("before", before), ("limit", Some(limit)), times[0], times[1]])
    };
    pages::show(door, shown, Columns::HISTORY, "transfers", chosen.limit, page)
}

/// Shows the open holds on an account.
pub(super) fn open_holds(door: &Door, shown: &Shown, id: &str, limit: Option<u64>) -> Result<(), Failure> {
    let path = format!("/v1/accounts/{}/holds", encoded(id));
    let page = |after: Option<&str>, limit: &str| query(&path, &[("after", after), ("limit", Some(limit))]);
    pages::show(door, shown, Columns::HOLD, "holds", limit, page)
}

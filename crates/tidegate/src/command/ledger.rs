//! What an operator does with a running ledger: `tidegate account`, `transfer`, `hold`, `asset`, `changes` and
//! `import`.
//!
//! ```text
//!   arguments ─▶ one request (or pages of them) over HTTP ─▶ a table for people, or a JSON object on each line
//! ```
//!
//! Exit codes: 0 done, 1 it could not be done (no server, no file, no answer), 2 the command line is wrong, 3 the
//! server, or one row of an import, refused.
//!
//! Invariant: it uses the public door only, with a token and its rights. Nothing here can do what a client cannot.

mod changes;
mod door;
mod import;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::output::complain;

pub use changes::ChangesArguments;
use door::{Door, Failure, encoded, query};
pub use import::ImportArguments;
use table::{Columns, Shown};

/// The server refused.
const REFUSED: u8 = 3;

/// Which server, as whom, and how to show the answer.
#[derive(Args)]
pub struct Connection {
    /// Where the server's HTTP door is.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "TIDEGATE_SERVER",
        default_value = "http://127.0.0.1:8080",
        help_heading = "Connection"
    )]
    server: String,
    /// A service's token, or one that a login gave.
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "TIDEGATE_TOKEN",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true,
        help_heading = "Connection"
    )]
    token: String,
    /// PEM file with the authority that signs the server's certificate, for https.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    ca_file: Option<PathBuf>,
    /// A table for people, or a JSON object on each line for programs.
    #[arg(long, global = true, value_enum, default_value = "table", help_heading = "Connection")]
    output: Output,
}

/// How answers are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns with a head.
    Table,
    /// A JSON object on each line.
    Json,
}

/// `tidegate account`
#[derive(Subcommand)]
pub enum Account {
    /// Open an account; again with the same asset and kind, nothing happens.
    Open {
        /// Account id, such as wallet:dave.
        id: String,
        /// Unit of measure, such as credit.
        #[arg(long)]
        asset: String,
        /// What it may do.
        #[arg(long, value_parser = ["wallet", "source", "collector"])]
        kind: String,
    },
    /// Show an account's figures, or its balance at a time.
    Get {
        /// Account id.
        id: String,
        /// The balance then: 2026-11-21T09:14:49Z, or milliseconds since 1970.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
    /// List accounts in the order of their ids.
    List {
        /// Only ids that begin so.
        #[arg(long, default_value = "")]
        prefix: String,
        /// At most so many; all if absent.
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Show what happened to an account, newest first.
    History {
        /// Account id.
        id: String,
        /// Only rows of this time or later.
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Only rows of this time or earlier.
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
        /// At most so many; all if absent.
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// List the open holds on an account.
    Holds {
        /// Account id.
        id: String,
        /// At most so many; all if absent.
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Let nothing leave the account, and nothing enter it.
    Freeze {
        /// Account id.
        id: String,
        /// It can still be credited.
        #[arg(long)]
        debits_only: bool,
    },
    /// Open an account again that was frozen or closed.
    Unfreeze {
        /// Account id.
        id: String,
    },
    /// Close an account, which must be empty and without holds.
    Close {
        /// Account id.
        id: String,
    },
    /// Set limits of the balance, and metadata.
    Set {
        /// Account id.
        id: String,
        #[command(flatten)]
        settings: Settings,
    },
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
    fn body(self) -> Value {
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
        body
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

/// `tidegate asset`
#[derive(Subcommand)]
pub enum Asset {
    /// List all assets, and how much of each there is.
    List,
    /// Declare, once, how many digits of an amount stand behind the point.
    Declare {
        /// Unit of measure.
        name: String,
        /// Digits behind the point.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=18))]
        decimals: u8,
    },
}

/// The two sides of a transfer or hold, and how much.
#[derive(Args)]
pub struct Movement {
    /// Chosen by you, unique for ever: asked again with the same content, it gives the first outcome.
    id: String,
    /// Account to take from.
    #[arg(long)]
    debit: String,
    /// Account to give to.
    #[arg(long)]
    credit: String,
    /// Minor units.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    amount: u64,
    /// Free text.
    #[arg(long, default_value = "")]
    memo: String,
}

/// `tidegate transfer`
#[derive(Subcommand)]
pub enum Transfer {
    /// Move money, once for this id.
    Make {
        #[command(flatten)]
        movement: Movement,
    },
    /// Show what became of a transfer.
    Get {
        /// Transfer id.
        id: String,
    },
    /// List transfers, holds and posts of an account: its history.
    List {
        /// Account id.
        #[arg(long)]
        account: String,
        /// At most so many; all if absent.
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
}

/// `tidegate hold`
#[derive(Subcommand)]
pub enum Hold {
    /// Reserve money for a later post.
    Place {
        #[command(flatten)]
        movement: Movement,
        /// How long it lives, in milliseconds.
        #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
        expires_in_ms: u64,
    },
    /// Pay what was held, or a part of it; the rest is available again.
    Post {
        /// Hold id.
        id: String,
        /// Minor units; all if absent.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        amount: Option<u64>,
    },
    /// Show a hold.
    Get {
        /// Hold id.
        id: String,
    },
    /// Make what was held available again.
    Void {
        /// Hold id.
        id: String,
    },
}

/// Does what an operator asked, and shows the answer.
pub fn account(connection: &Connection, what: Account) -> Result<ExitCode> {
    let door = Door::new(connection)?;
    let shown = Shown::new(connection.output);
    ended(match what {
        Account::Open { id, asset, kind } => {
            let body = json!({ "id": id, "asset": asset, "kind": kind });
            door.post("/v1/accounts", &body).map(|account| shown.one(Columns::ACCOUNT, &account))
        }
        Account::Get { id, at: None } => {
            door.get(&format!("/v1/accounts/{}", encoded(&id))).map(|account| shown.one(Columns::ACCOUNT, &account))
        }
        Account::Get { id, at: Some(at) } => {
            balance_at(&door, &id, &at).map(|balance| shown.one(Columns::BALANCE_AT, &balance))
        }
        Account::List { prefix, limit } => {
            let path = |after: Option<&str>, limit: &str| {
                query("/v1/accounts", &[("prefix", Some(&prefix)), ("after", after), ("limit", Some(limit))])
            };
            all_pages(&door, &shown, Columns::ACCOUNT, "accounts", limit, path)
        }
        Account::History { id, from, to, limit } => history(&door, &shown, &id, from, to, limit),
        Account::Holds { id, limit } => {
            let path = format!("/v1/accounts/{}/holds", encoded(&id));
            let page = |after: Option<&str>, limit: &str| query(&path, &[("after", after), ("limit", Some(limit))]);
            all_pages(&door, &shown, Columns::HOLD, "holds", limit, page)
        }
        Account::Freeze { id, debits_only: false } => change(&door, &shown, &id, &json!({ "status": "frozen" })),
        Account::Freeze { id, debits_only: true } => change(&door, &shown, &id, &json!({ "status": "debits_frozen" })),
        Account::Unfreeze { id } => change(&door, &shown, &id, &json!({ "status": "open" })),
        Account::Close { id } => change(&door, &shown, &id, &json!({ "status": "closed" })),
        Account::Set { id, settings } => change(&door, &shown, &id, &settings.body()),
    })
}

fn change(door: &Door, shown: &Shown, id: &str, body: &Value) -> Result<(), Failure> {
    let account = door.patch(&format!("/v1/accounts/{}", encoded(id)), body)?;
    shown.one(Columns::SETTINGS, &account);
    Ok(())
}

/// Does what an operator asked, and shows the answer.
pub fn asset(connection: &Connection, what: Asset) -> Result<ExitCode> {
    let door = Door::new(connection)?;
    let shown = Shown::new(connection.output);
    ended(match what {
        Asset::List => door.get("/v1/assets").and_then(|answer| {
            let assets = answer["assets"].as_array().map(Vec::as_slice).unwrap_or_default();
            shown.rows(Columns::ASSET, assets, true)
        }),
        Asset::Declare { name, decimals } => {
            let body = json!({ "name": name, "decimals": decimals });
            door.post("/v1/assets", &body).map(|asset| shown.one(Columns::ASSET, &asset))
        }
    })
}

/// Does what an operator asked, and shows the answer.
pub fn transfer(connection: &Connection, what: Transfer) -> Result<ExitCode> {
    let door = Door::new(connection)?;
    let shown = Shown::new(connection.output);
    ended(match what {
        Transfer::Make { movement } => {
            door.post("/v1/transfers", &movement.body()).map(|outcome| shown.one(Columns::OUTCOME, &outcome))
        }
        Transfer::Get { id } => {
            let transfer = door.get(&format!("/v1/transfers/{}", encoded(&id)));
            transfer.map(|transfer| shown.one(Columns::TRANSFER, &transfer))
        }
        Transfer::List { account, limit } => history(&door, &shown, &account, None, None, limit),
    })
}

/// Does what an operator asked, and shows the answer.
pub fn hold(connection: &Connection, what: Hold) -> Result<ExitCode> {
    let door = Door::new(connection)?;
    let shown = Shown::new(connection.output);
    let answer = match what {
        Hold::Place { movement, expires_in_ms } => {
            let mut body = movement.body();
            body["expires_in_ms"] = expires_in_ms.into();
            door.post("/v1/holds", &body)
        }
        Hold::Post { id, amount } => {
            let body = amount.map_or_else(|| json!({}), |amount| json!({ "amount": amount }));
            door.post(&format!("/v1/holds/{}/post", encoded(&id)), &body)
        }
        Hold::Get { id } => {
            let hold = door.get(&format!("/v1/holds/{}", encoded(&id)));
            return ended(hold.map(|hold| shown.one(Columns::HOLD, &hold)));
        }
        Hold::Void { id } => door.post(&format!("/v1/holds/{}/void", encoded(&id)), &json!({})),
    };
    ended(answer.map(|outcome| shown.one(Columns::OUTCOME, &outcome)))
}

/// Follows changes, and shows them.
pub fn follow(connection: &Connection, arguments: ChangesArguments) -> Result<ExitCode> {
    ended(changes::run(&Door::new(connection)?, connection.output, arguments))
}

/// Imports a file.
pub fn import(connection: &Connection, arguments: ImportArguments) -> Result<ExitCode> {
    import::run(connection, arguments)
}

impl Movement {
    fn body(&self) -> Value {
        let Movement { id, debit, credit, amount, memo } = self;
        let mut body = json!({ "id": id, "debit": debit, "credit": credit, "amount": amount });
        if !memo.is_empty() {
            body["memo"] = memo.as_str().into();
        }
        body
    }
}

/// The exit code, and what is wrong in words.
fn ended(done: Result<(), Failure>) -> Result<ExitCode> {
    match done {
        Ok(()) | Err(Failure::NobodyReads) => Ok(ExitCode::SUCCESS),
        Err(Failure::Refused(refusal)) => {
            complain(format_args!("tidegate: {refusal}"));
            Ok(ExitCode::from(REFUSED))
        }
        Err(Failure::Failed(error)) => Err(error),
    }
}

/// Goes back in time over as many requests as that takes.
fn balance_at(door: &Door, id: &str, at: &str) -> Result<Value, Failure> {
    let path = format!("/v1/accounts/{}", encoded(id));
    let mut before: Option<String> = None;
    loop {
        match door.get(&query(&path, &[("at", Some(at)), ("before", before.as_deref())])) {
            Err(Failure::Refused(refusal)) if refusal.code() == "history_too_long" => {
                before = refusal.member("next");
            }
            other => return other,
        }
    }
}

fn history(
    door: &Door,
    shown: &Shown,
    id: &str,
    from: Option<String>,
    to: Option<String>,
    limit: Option<u64>,
) -> Result<(), Failure> {
    let path = format!("/v1/accounts/{}/transfers", encoded(id));
    let page = |before: Option<&str>, limit: &str| {
        let times = [("from_time", from.as_deref()), ("to_time", to.as_deref())];
        query(&path, &[("before", before), ("limit", Some(limit)), times[0], times[1]])
    };
    all_pages(door, shown, Columns::HISTORY, "transfers", limit, page)
}

/// Rows of one page; the most that the server gives.
const PAGE_ROWS: u64 = 1_000;

/// Shows the rows of all pages, `limit` at most. `path` gives the address of the page behind a cursor.
fn all_pages(
    door: &Door,
    shown: &Shown,
    columns: Columns,
    rows: &str,
    limit: Option<u64>,
    path: impl Fn(Option<&str>, &str) -> String,
) -> Result<(), Failure> {
    let mut left = limit.unwrap_or(u64::MAX);
    let mut next: Option<String> = None;
    let mut is_first = true;
    while left > 0 {
        let page = door.get(&path(next.as_deref(), &left.min(PAGE_ROWS).to_string()))?;
        let found = page[rows].as_array().map(Vec::as_slice).unwrap_or_default();
        shown.rows(columns, found, is_first)?;
        is_first = false;
        left = left.saturating_sub(found.len() as u64);
        match page["next"].as_str() {
            Some(cursor) => next = Some(cursor.to_owned()),
            None => break,
        }
    }
    Ok(())
}

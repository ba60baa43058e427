//! `tidegate changes`: follows the journal, and goes on where it was when the server comes back.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde_json::Value;

use super::door::{Door, encoded, query};
use super::failure::{Failure, Refusal};
use super::table::{Columns, Shown};
use crate::output::complain;

/// How long to wait before the server is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// Which changes.
#[derive(Args)]
pub struct ChangesArguments {
    /// Only those behind this cursor; `start`, or `now`.
    #[arg(long, value_name = "CURSOR", default_value = "start")]
    after: String,
    /// Only of these accounts: `wallet:*`, or one id.
    #[arg(long, value_name = "PATTERN")]
    accounts: Option<String>,
    /// Only these kinds, separated by commas: account_opened, account_changed, asset_declared, transfer, hold_placed,
    /// hold_posted, hold_voided, hold_expired, credit_received, refused, loss_booked, time_mended.
    #[arg(long, value_name = "KINDS")]
    kinds: Option<String>,
    /// At most so many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Go on with what happens, also over restarts of the server, until Ctrl-C.
    #[arg(long)]
    follow: bool,
}

/// Shows changes until they end, or nobody reads them.
pub(super) fn run(door: &Door, shown: &Shown, mut arguments: ChangesArguments) -> Result<(), Failure> {
    check_accounts(door, &arguments)?;
    let mut is_first = true;
    let mut has_begun = false;
    loop {
        let ended = read(door, shown, &mut arguments, &mut is_first, &mut has_begun);
        let again = match ended {
            Ok(()) => return Ok(()),
            Err(Failure::Refused(refusal)) if refusal.is_passing() && has_begun => refusal.to_string(),
            Err(Failure::Failed(error)) if has_begun => format!("{error:#}"),
            Err(other) => return Err(other),
        };
        if !arguments.follow {
            return Err(anyhow!("{again}; go on with --after {}", arguments.after).into());
        }
        complain(format_args!("tidegate: {again}; trying again"));
        std::thread::sleep(RETRY);
    }
}

/// Refuses one id that no account has, because it is mostly the beginning of some. Who follows may wait for it.
fn check_accounts(door: &Door, ChangesArguments { accounts, follow, .. }: &ChangesArguments) -> Result<(), Failure> {
    let Some(id) = accounts.as_deref().filter(|id| !id.is_empty() && !id.contains('*')) else { return Ok(()) };
    let found = door.get(&format!("/v1/accounts/{}", encoded(id)));
    if !matches!(found, Err(Failure::Refused(Refusal { status: 404, .. }))) {
        // Whatever else is wrong, the stream will say.
        return Ok(());
    }
    let what = format!("--accounts {id}: there is no such account; those whose ids begin so are --accounts '{id}*'");
    match follow {
        true => complain(format_args!("tidegate: {what}. It is waited for")),
        false => return Err(Failure::CommandLine(what)),
    }
    Ok(())
}

/// Reads one stream. Where it has come is in `arguments`.
fn read(
    door: &Door,
    shown: &Shown,
    arguments: &mut ChangesArguments,
    is_first: &mut bool,
    has_begun: &mut bool,
) -> Result<(), Failure> {
    let ChangesArguments { after, accounts, kinds, limit, follow } = arguments;
    let number = limit.map(|limit| limit.to_string());
    let path = query(
        "/v1/changes",
        &[
            ("after", Some(after)),
            ("accounts", accounts.as_deref()),
            ("kinds", kinds.as_deref()),
            ("limit", number.as_deref()),
            ("follow", Some(if *follow { "true" } else { "false" })),
        ],
    );
    for line in door.lines(&path)? {
        let line = line.map_err(|error| anyhow!("the stream has broken: {error}"))?;
        // What is broken off in a line will be sent again.
        let row: Value = serde_json::from_str(&line).map_err(|error| anyhow!("the stream has broken: {error}"))?;
        *has_begun = true;
        match row["kind"].as_str() {
            Some("end") => return Ok(()),
            Some("heartbeat") => {}
            _ => {
                shown.rows(Columns::CHANGE, std::slice::from_ref(&row), std::mem::take(is_first))?;
                if let Some(left) = limit {
                    *left -= 1;
                    if *left == 0 {
                        return Ok(());
                    }
                }
            }
        }
        if let Some(cursor) = row["cursor"].as_str() {
            *after = cursor.to_owned();
        }
    }
    Err(anyhow!("the stream has ended").into())
}

//! `tidegate drain`: asks a running server to disconnect its MQTT clients, or those of one address, and waits until
//! none is left; shows how far that is, and lets clients stay again.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::door::{Door, encoded};
use super::failure::Failure;
use super::table::{Columns, Fields, Shown};
use crate::command::number::whole;
use crate::output::{complain, say};

/// How often to look.
const LOOK: Duration = Duration::from_millis(500);

/// `tidegate drain`
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DrainArguments {
    #[command(subcommand)]
    act: Option<DrainAct>,
    #[command(flatten)]
    begin: Option<Begin>,
}

/// How fast, and whose.
#[derive(Args)]
pub struct Begin {
    /// Clients per second.
    #[arg(
        long,
        value_name = "N",
        required = true,
        value_parser = whole::<u32>(1..=u64::from(u32::MAX), "clients per second")
    )]
    rate: u32,
    /// Only the clients of this address (IPv6: of its /64); new ones from there are refused.
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,
}

/// What else can be done about a drain.
#[derive(Subcommand)]
pub enum DrainAct {
    /// Show whether clients are sent away, and how many are left; and the addresses whose clients are.
    Status {
        /// Of the clients of this address.
        #[arg(long, value_name = "IP")]
        address: Option<IpAddr>,
    },
    /// Let clients stay again, and new ones come.
    Undo {
        /// Those of this address.
        #[arg(long, value_name = "IP")]
        address: Option<IpAddr>,
    },
}

pub(super) fn run(door: &Door, shown: &Shown, arguments: &DrainArguments) -> Result<(), Failure> {
    match (&arguments.act, &arguments.begin) {
        (Some(DrainAct::Status { address }), _) => status(door, shown, *address),
        (Some(DrainAct::Undo { address }), _) => undo(door, shown, *address),
        (None, Some(begin)) => drain(door, shown, begin),
        (None, None) => Err(Failure::CommandLine("give --rate N, or say status or undo".to_owned())),
    }
}

fn path(address: Option<IpAddr>) -> String {
    address.map_or("/v1/drain".to_owned(), |address| format!("/v1/drain/addresses/{}", encoded(&address.to_string())))
}

fn status(door: &Door, shown: &Shown, address: Option<IpAddr>) -> Result<(), Failure> {
    shown.one(Fields::DRAIN, &door.get(&path(address))?)?;
    if address.is_some() {
        return Ok(());
    }
    match drains_of_addresses(door)? {
        drains if drains.is_empty() => Ok(()),
        drains => shown.rows(Columns::ADDRESS_DRAIN, &drains, true),
    }
}

/// Lets clients stay again. Those of single addresses are another drain, which is said.
fn undo(door: &Door, shown: &Shown, address: Option<IpAddr>) -> Result<(), Failure> {
    shown.one(Fields::DRAIN, &door.delete(&path(address))?)?;
    let left = if address.is_none() { drains_of_addresses(door)? } else { Vec::new() };
    for drain in &left {
        let address = drain["address"].as_str().unwrap_or_default();
        let named = address.trim_end_matches("/64");
        complain(format_args!(
            "the clients of {address} are still sent away; let them stay with: tidegate drain undo --address {named}"
        ));
    }
    Ok(())
}

/// The drains of single addresses. A server without MQTT has none.
fn drains_of_addresses(door: &Door) -> Result<Vec<Value>, Failure> {
    match door.get("/v1/drain/addresses") {
        Ok(all) => Ok(all["drains"].as_array().cloned().unwrap_or_default()),
        Err(Failure::Refused(refusal)) if refusal.code() == "path_unknown" => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

/// Begins the drain and prints how many clients are left until there are none.
fn drain(door: &Door, shown: &Shown, begin: &Begin) -> Result<(), Failure> {
    let path = path(begin.address);
    let mut status = door.post(&path, &json!({ "rate": begin.rate }))?;
    let mut left = clients(&status)?;
    tell(shown, &status, format_args!("{left} clients to send away, {} per second", begin.rate));
    while left > 0 {
        std::thread::sleep(LOOK);
        let unseen = |failure: Failure| failure.while_doing("the drain goes on, but how far it is cannot be seen");
        status = door.get(&path).map_err(unseen)?;
        let now = clients(&status)?;
        if now != left {
            tell(shown, &status, format_args!("{now} clients left"));
        }
        if status["draining"] == false && now > 0 {
            return Err(anyhow!("somebody has ended the drain: {now} clients stay").into());
        }
        left = now;
    }
    if !shown.is_json() {
        say(format_args!("nobody is left"));
    }
    Ok(())
}

fn tell(shown: &Shown, status: &Value, line: std::fmt::Arguments<'_>) {
    match shown.is_json() {
        true => say(format_args!("{status}")),
        false => say(line),
    }
}

fn clients(answer: &Value) -> Result<u64, Failure> {
    let clients = answer["clients"].as_u64().or_else(|| answer["connections"].as_u64());
    clients.ok_or_else(|| anyhow!("the server's answer does not say how many clients there are").into())
}

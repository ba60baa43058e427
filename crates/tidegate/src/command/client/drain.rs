//! `tidegate drain`: asks a running server to disconnect its MQTT clients, and waits until none is left.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};

use super::door::Door;
use super::failure::Failure;
use super::table::Shown;
use crate::command::number::whole;
use crate::output::say;

/// How often to look.
const LOOK: Duration = Duration::from_millis(500);

/// How fast.
#[derive(Args)]
pub struct DrainArguments {
    /// Clients per second.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u64::from(u32::MAX), "clients per second"))]
    rate: u32,
}

/// Begins the drain and prints how many clients are left until there are none.
pub(super) fn run(door: &Door, shown: &Shown, arguments: &DrainArguments) -> Result<(), Failure> {
    let mut status = door.post("/v1/drain", &json!({ "rate": arguments.rate }))?;
    let mut left = clients(&status)?;
    tell(shown, &status, format_args!("{left} clients to send away, {} per second", arguments.rate));
    while left > 0 {
        std::thread::sleep(LOOK);
        let unseen = |failure: Failure| failure.while_doing("the drain goes on, but how far it is cannot be seen");
        status = door.get("/v1/drain").map_err(unseen)?;
        let now = clients(&status)?;
        if now != left {
            tell(shown, &status, format_args!("{now} clients left"));
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
    let clients = answer["clients"].as_u64();
    clients.ok_or_else(|| anyhow!("the server's answer does not say how many clients there are").into())
}

//! `tidegate clients`: who is connected over MQTT, and sending one away.

use clap::{Args, Subcommand};

use super::door::{Door, encoded, query};
use super::failure::Failure;
use super::id::not_empty;
use super::movement;
use super::pages;
use super::table::{Columns, Fields, Shown};

/// `tidegate clients`
#[derive(Subcommand)]
pub enum Clients {
    /// List the clients that are connected, in the order of their ids.
    List(ChosenSessions),
    /// Show a client that is connected, and what it subscribes to.
    Get {
        /// Client id.
        #[arg(value_parser = not_empty)]
        client_id: String,
    },
    /// Disconnect a client (MQTT 5: DISCONNECT 0x98). Its session stays, and it may come back.
    Kick {
        /// Client id.
        #[arg(value_parser = not_empty)]
        client_id: String,
    },
}

/// Which clients or sessions.
#[derive(Args)]
pub struct ChosenSessions {
    /// Only client ids that begin so.
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
    /// Only those of user:NAME, service:NAME, provided:NAME, certificate:NAME or address:NETWORK.
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// At most so many; all if absent.
    #[arg(long, value_name = "N", value_parser = movement::limit)]
    limit: Option<u64>,
}

pub(super) fn run(door: &Door, shown: &Shown, what: Clients) -> Result<(), Failure> {
    match what {
        Clients::List(chosen) => list(door, shown, "/v1/clients", "clients", &chosen, None),
        Clients::Get { client_id } => detail(door, shown, &format!("/v1/clients/{}", encoded(&client_id))),
        Clients::Kick { client_id } => {
            let done = door.delete(&format!("/v1/clients/{}", encoded(&client_id)))?;
            shown.rows(Columns::OPERATED, &[done], true)
        }
    }
}

/// Shows pages of clients or sessions.
pub(super) fn list(
    door: &Door,
    shown: &Shown,
    path: &str,
    rows: &str,
    chosen: &ChosenSessions,
    connected: Option<&str>,
) -> Result<(), Failure> {
    let prefix = Some(&*chosen.prefix).filter(|prefix| !prefix.is_empty());
    let page = |after: Option<&str>, limit: &str| {
        let which = [("prefix", prefix), ("owner", chosen.owner.as_deref()), ("connected", connected)];
        query(path, &[which[0], which[1], which[2], ("after", after), ("limit", Some(limit))])
    };
    pages::show(door, shown, Columns::SESSION, rows, chosen.limit, page)
}

/// Shows one client or session, and its filters below.
pub(super) fn detail(door: &Door, shown: &Shown, path: &str) -> Result<(), Failure> {
    let session = door.get(path)?;
    shown.one(Fields::SESSION, &session)?;
    match session["filters"].as_array() {
        Some(filters) if !filters.is_empty() && !shown.is_json() => shown.rows(Columns::FILTER, filters, true),
        _ => Ok(()),
    }
}

//! `tidegate sessions`: what is kept for MQTT clients, connected or not, and ending it.

use clap::Subcommand;

use super::clients::{ChosenSessions, detail, list};
use super::door::{Door, encoded};
use super::failure::Failure;
use super::id::not_empty;
use super::table::{Columns, Shown};

/// `tidegate sessions`
#[derive(Subcommand)]
pub enum Sessions {
    /// List sessions, in the order of their client ids.
    List {
        #[command(flatten)]
        chosen: ChosenSessions,
        /// Only those whose client is connected (true), or is not (false).
        #[arg(long, value_name = "BOOL", value_parser = ["true", "false"])]
        connected: Option<String>,
    },
    /// Show a session, what waits for its client, and what it subscribes to.
    Get {
        /// Client id.
        #[arg(value_parser = not_empty)]
        client_id: String,
    },
    /// Disconnect a client and end its session: its subscriptions, and all that waits for it, are gone.
    Delete {
        /// Client id.
        #[arg(value_parser = not_empty)]
        client_id: String,
    },
}

pub(super) fn run(door: &Door, shown: &Shown, what: Sessions) -> Result<(), Failure> {
    match what {
        Sessions::List { chosen, connected } => {
            list(door, shown, "/v1/sessions", "sessions", &chosen, connected.as_deref())
        }
        Sessions::Get { client_id } => detail(door, shown, &format!("/v1/sessions/{}", encoded(&client_id))),
        Sessions::Delete { client_id } => {
            let done = door.delete(&format!("/v1/sessions/{}", encoded(&client_id)))?;
            shown.rows(Columns::OPERATED, &[done], true)
        }
    }
}

//! `tidegate hold`: reserves money, and pays or releases what is reserved.

use clap::Subcommand;
use serde_json::json;

use super::door::{Door, encoded};
use super::failure::Failure;
use super::id::not_empty;
use super::movement::{self, Known, Movement};
use super::table::{Columns, Fields, Shown};
use crate::command::number::whole;

/// `tidegate hold`
#[derive(Subcommand)]
pub enum Hold {
    /// Reserve money for a later post.
    Place {
        #[command(flatten)]
        movement: Movement,
        /// How long it lives, in milliseconds.
        #[arg(long, value_name = "MS", value_parser = whole::<u64>(1..=u64::MAX, "milliseconds"))]
        expires_in_ms: u64,
    },
    /// Pay what was held, or a part of it; the rest is available again.
    Post {
        #[command(flatten)]
        known: Known,
        /// How much of it, in minor units; all if absent.
        #[arg(long, allow_negative_numbers = true, value_parser = movement::amount)]
        amount: Option<u64>,
    },
    /// Show a hold.
    Get {
        #[command(flatten)]
        known: Known,
    },
    /// List the open holds on an account, in the order of their placement: the same as `account holds`.
    List {
        /// Account id.
        #[arg(long, value_name = "ACCOUNT", value_parser = not_empty)]
        account: String,
        /// At most so many; all if absent.
        #[arg(long, value_name = "N", value_parser = movement::limit)]
        limit: Option<u64>,
    },
    /// Make what was held available again.
    Void {
        #[command(flatten)]
        known: Known,
    },
}

pub(super) fn run(door: &Door, shown: &Shown, what: Hold) -> Result<(), Failure> {
    let outcome = match what {
        Hold::Place { movement, expires_in_ms } => {
            let mut body = movement.body();
            body["expires_in_ms"] = expires_in_ms.into();
            door.post("/v1/holds", &body)?
        }
        Hold::Post { known, amount } => {
            let body = amount.map_or_else(|| json!({}), |amount| json!({ "amount": amount }));
            door.post(&known.address(&format!("/v1/holds/{}/post", encoded(&known.id))), &body)?
        }
        Hold::Get { known } => {
            let hold = door.get(&known.address(&format!("/v1/holds/{}", encoded(&known.id))))?;
            return shown.one(Fields::HOLD, &hold);
        }
        Hold::List { account, limit } => return super::account::open_holds(door, shown, &account, limit),
        Hold::Void { known } => {
            door.post(&known.address(&format!("/v1/holds/{}/void", encoded(&known.id))), &json!({}))?
        }
    };
    shown.rows(Columns::OUTCOME, &[outcome], true)
}

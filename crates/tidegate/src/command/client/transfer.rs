//! `tidegate transfer`: moves money, and shows what became of it.

use clap::Subcommand;

use super::account;
use super::door::{Door, encoded};
use super::failure::Failure;
use super::id::not_empty;
use super::movement::{Known, Movement};
use super::table::{Columns, Fields, Shown};

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
        #[command(flatten)]
        known: Known,
    },
    /// List transfers, holds, posts and voids of an account, newest first: the same as `account history`.
    List {
        /// Account id.
        #[arg(long, value_name = "ACCOUNT", value_parser = not_empty)]
        account: String,
        #[command(flatten)]
        chosen: account::Chosen,
    },
}

pub(super) fn run(door: &Door, shown: &Shown, what: Transfer) -> Result<(), Failure> {
    match what {
        Transfer::Make { movement } => {
            let outcome = door.post("/v1/transfers", &movement.body())?;
            shown.rows(Columns::OUTCOME, &[outcome], true)
        }
        Transfer::Get { known } => {
            let transfer = door.get(&known.address(&format!("/v1/transfers/{}", encoded(&known.id))))?;
            shown.one(Fields::TRANSFER, &transfer)
        }
        Transfer::List { account, chosen } => account::history(door, shown, &account, &chosen),
    }
}

//! `tidegate asset`: the units of measure, their decimals, and how much of each there is.

use clap::Subcommand;
use serde_json::json;

use super::door::Door;
use super::failure::Failure;
use super::id::not_empty;
use super::table::{Columns, Shown};
use crate::command::number::whole;

/// `tidegate asset`
#[derive(Subcommand)]
pub enum Asset {
    /// List all assets, and how much of each there is.
    List,
    /// Declare, once, how many digits of an amount stand behind the point. Amounts stay whole numbers of minor units;
    /// this is for those who show them.
    Declare {
        /// Unit of measure.
        #[arg(value_parser = not_empty)]
        name: String,
        /// Digits behind the point.
        #[arg(long, value_name = "N", value_parser = whole::<u8>(0..=18, "digits"))]
        decimals: u8,
    },
}

pub(super) fn run(door: &Door, shown: &Shown, what: Asset) -> Result<(), Failure> {
    match what {
        Asset::List => {
            let answer = door.get("/v1/assets")?;
            shown.rows(Columns::ASSET, answer["assets"].as_array().map(Vec::as_slice).unwrap_or_default(), true)
        }
        Asset::Declare { name, decimals } => {
            let asset = door.post("/v1/assets", &json!({ "name": name, "decimals": decimals }))?;
            shown.rows(Columns::DECLARED, &[asset], true)
        }
    }
}

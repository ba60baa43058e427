//! `tidegate users`: people who may come in beside those of the configuration.

use anyhow::Error;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tidegate_doors::auth::{check_new_password, hash_password};

use super::door::{Door, encoded};
use super::failure::Failure;
use super::id::not_empty;
use super::services::{Listed, list};
use super::table::{Columns, Fields, Shown};
use crate::command::hash_password::asked_for;

/// `tidegate users`
#[derive(Subcommand)]
pub enum Users {
    /// List the users that were made so, in the order of their names.
    List(Listed),
    /// Show one.
    Get {
        /// Log-in name.
        #[arg(value_parser = not_empty)]
        name: String,
    },
    /// Make a user, or give one other rights or another password.
    Put {
        /// Log-in name.
        #[arg(value_parser = not_empty)]
        name: String,
        #[command(flatten)]
        rights: Rights,
        /// Ask for the password from now on, of 8 to 1024 bytes: at a terminal without showing it, else one line of
        /// standard input. It is hashed here, and only the hash is sent. A new user needs one.
        #[arg(long)]
        password: bool,
    },
    /// Give a user another password, which is asked for as with put. What the one before has opened ends.
    Password {
        /// Log-in name.
        #[arg(value_parser = not_empty)]
        name: String,
    },
    /// Delete a user. What the user has shown is no good any more.
    Delete {
        /// Log-in name.
        #[arg(value_parser = not_empty)]
        name: String,
    },
}

/// What a user is from now on, a viewer or of role service. It must be said: a put replaces what was before.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct Rights {
    /// A viewer with this wallet; again for each.
    #[arg(long = "wallet", value_name = "ID")]
    wallets: Vec<String>,
    /// A viewer without wallets.
    #[arg(long)]
    no_wallets: bool,
    /// Of role service with this grant, as user.grants of the configuration; again for each.
    #[arg(long = "grant", value_name = "GRANT")]
    grants: Vec<String>,
    /// Of role service without grants.
    #[arg(long)]
    no_grants: bool,
}

impl Rights {
    fn body(self) -> Value {
        match self.no_grants || !self.grants.is_empty() {
            true => json!({ "role": "service", "grants": self.grants }),
            false => json!({ "role": "viewer", "wallets": self.wallets }),
        }
    }
}

pub(super) fn run(door: &Door, shown: &Shown, what: Users) -> Result<(), Failure> {
    let path = |name: &str| format!("/v1/users/{}", encoded(name));
    match what {
        Users::List(listed) => list(door, shown, ("/v1/users", "users"), Columns::USER, &listed),
        Users::Get { name } => shown.one(Fields::USER, &door.get(&path(&name))?),
        Users::Put { name, rights, password } => {
            let mut body = rights.body();
            if password {
                body["password_hash"] = hash_for(&format!("tidegate users put {name} … --password"))?;
            }
            shown.one(Fields::USER, &door.put(&path(&name), &body)?)
        }
        Users::Password { name } => {
            let user = door.get(&path(&name))?;
            // Rights stay as they are; what the answer has besides, such as what is withheld, no request has.
            let kept = ["role", "wallets", "grants"].into_iter().filter(|field| !user[*field].is_null());
            let mut body: Value = kept.map(|field| (field.to_owned(), user[field].clone())).collect();
            body["password_hash"] = hash_for(&format!("tidegate users password {name}"))?;
            shown.one(Fields::USER, &door.put(&path(&name), &body)?)
        }
        Users::Delete { name } => shown.rows(Columns::DELETED, &[door.delete(&path(&name))?], true),
    }
}

/// The hash of the password that `command` asks for. The server cannot see in a hash how long the password is.
fn hash_for(command: &str) -> Result<Value, Error> {
    let password = asked_for(command)?;
    check_new_password(&password).map_err(Error::msg)?;
    Ok(json!(hash_password(&password).as_str()))
}

//! What an operator asks of a running server: `tidegate status`, `account`, `transfer`, `hold`, `asset`, `changes`,
//! `import`, `queue`, `message`, `clients`, `sessions`, `retained`, `publish`, `drain`, `services` and `users`.
//!
//! ```text
//!   arguments ─▶ one request (or pages of them) over HTTP ─▶ a table for people, or a JSON object on each line
//!                                └─ refused, or no answer ─▶ what is wrong and what to do, and an exit code
//! ```
//!
//! Invariant: it uses the public door only, with a token and its rights. Nothing here can do what a client cannot.

mod account;
mod asset;
mod changes;
mod clients;
mod connection;
mod door;
mod drain;
mod failure;
mod hold;
mod id;
mod import;
mod movement;
mod pages;
mod publish;
mod queue;
mod retained;
mod schedule;
mod services;
mod sessions;
mod status;
mod table;
mod transfer;
mod users;
mod walk;

use std::process::ExitCode;

use door::Door;
use failure::Failure;
use table::Shown;

pub use account::Account;
pub use asset::Asset;
pub use changes::ChangesArguments;
pub use clients::Clients;
pub use connection::Connection;
pub use drain::DrainArguments;
pub use hold::Hold;
pub use import::ImportArguments;
pub use publish::PublishArguments;
pub use queue::{Message, Queue};
pub use retained::Retained;
pub use services::Services;
pub use sessions::Sessions;
pub use transfer::Transfer;
pub use users::Users;

/// What `--help` of these commands says about their ends.
pub const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 it could not be done: no server, no file, no answer; 2 the command line is wrong; 3 the server, \
or a row of an import, refused.";

/// `tidegate status`
pub fn status(connection: &Connection) -> ExitCode {
    ended(connection, status::run)
}

/// `tidegate account`
pub fn account(connection: &Connection, what: Account) -> ExitCode {
    ended(connection, |door, shown| account::run(door, shown, what))
}

/// `tidegate transfer`
pub fn transfer(connection: &Connection, what: Transfer) -> ExitCode {
    ended(connection, |door, shown| transfer::run(door, shown, what))
}

/// `tidegate hold`
pub fn hold(connection: &Connection, what: Hold) -> ExitCode {
    ended(connection, |door, shown| hold::run(door, shown, what))
}

/// `tidegate asset`
pub fn asset(connection: &Connection, what: Asset) -> ExitCode {
    ended(connection, |door, shown| asset::run(door, shown, what))
}

/// `tidegate changes`
pub fn changes(connection: &Connection, arguments: ChangesArguments) -> ExitCode {
    ended(connection, |door, shown| changes::run(door, shown, arguments))
}

/// `tidegate import`
pub fn import(connection: &Connection, arguments: &ImportArguments) -> ExitCode {
    ended(connection, |door, shown| import::run(door, shown, arguments))
}

/// `tidegate clients`
pub fn clients(connection: &Connection, what: Clients) -> ExitCode {
    ended(connection, |door, shown| clients::run(door, shown, what))
}

/// `tidegate sessions`
pub fn sessions(connection: &Connection, what: Sessions) -> ExitCode {
    ended(connection, |door, shown| sessions::run(door, shown, what))
}

/// `tidegate retained`
pub fn retained(connection: &Connection, what: Retained) -> ExitCode {
    ended(connection, |door, shown| retained::run(door, shown, what))
}

/// `tidegate publish`
pub fn publish(connection: &Connection, arguments: PublishArguments) -> ExitCode {
    ended(connection, |door, shown| publish::run(door, shown, arguments))
}

/// `tidegate services`
pub fn services(connection: &Connection, what: Services) -> ExitCode {
    ended(connection, |door, shown| services::run(door, shown, what))
}

/// `tidegate users`
pub fn users(connection: &Connection, what: Users) -> ExitCode {
    ended(connection, |door, shown| users::run(door, shown, what))
}

/// `tidegate queue`
pub fn queue(connection: &Connection, what: Queue) -> ExitCode {
    match what {
        Queue::Walk(arguments) => {
            let connection = connection.of(arguments.server());
            ended(&connection, |door, shown| walk::run(door, shown, &arguments))
        }
        what => ended(connection, |door, shown| queue::run(door, shown, what)),
    }
}

/// `tidegate message`
pub fn message(connection: &Connection, what: Message) -> ExitCode {
    ended(connection, |door, shown| queue::message(door, shown, what))
}

/// `tidegate drain`
pub fn drain(connection: &Connection, arguments: &DrainArguments) -> ExitCode {
    ended(connection, |door, shown| drain::run(door, shown, arguments))
}

/// Does the work. How it ended is the exit code; what is wrong is said.
fn ended(connection: &Connection, work: impl FnOnce(&Door, &Shown) -> Result<(), Failure>) -> ExitCode {
    let output = connection.output();
    let done = Door::new(connection).and_then(|door| work(&door, &Shown::new(output)));
    // Lines that are printed one by one do not say that they are lost. All other output has failed by itself.
    let lost = crate::output::lost().map(|why| Failure::OutputLost(why.to_owned()));
    match (done, lost) {
        (Ok(()), None) => ExitCode::SUCCESS,
        (Ok(()) | Err(Failure::RowsRefused | Failure::NotWell), Some(lost)) => lost.told(output),
        (Err(failure), _) => failure.told(output),
    }
}
